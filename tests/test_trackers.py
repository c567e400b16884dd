"""Figures and pages reach TensorBoard, MLflow and Weights & Biases, and are read back."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from softkin import SoftkinError, diagrams, report, trackers
from softkin.lab import data, training
from softkin.lab.training import Method, Recipe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]
P = torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
Y = torch.tensor([0, 1, 1])


@pytest.fixture
def page(tmp_path):
    from softkin.predictions import Predictions

    preds = Predictions.from_probabilities(P.repeat(20, 1), Y.repeat(20))
    return report.write(tmp_path / "page.html", report.build(preds, resamples=100))[0]


def test_tensorboard(page, tmp_path):
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        assert trackers.log_figure(diagrams.reliability(P, Y), writer, "reliability", step=3)
        report.log(page, writer)
    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert [event.step for event in events.Images("reliability")] == [3]
    (text,) = events.Tensors("report/text_summary")
    assert b"page.html" in text.tensor_proto.string_val[0]


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(None)


def test_mlflow_keeps_the_page_and_the_figure(page, mlflow):
    with mlflow.start_run() as run:
        assert trackers.log_figure(diagrams.reliability(P, Y), mlflow, "reliability", step=3)
        report.log(page, mlflow)
    client = mlflow.MlflowClient()
    assert [file.path for file in client.list_artifacts(run.info.run_id, "report")] == ["report/page.html"]
    assert "reliability-000003.png" in [file.path for file in client.list_artifacts(run.info.run_id)]
    kept = client.download_artifacts(run.info.run_id, "report/page.html")
    assert Path(kept).read_bytes() == page.read_bytes()


def test_training_writes_for_mlflow_through_accelerate(mlflow, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    digits = data.load("digits")
    part = digits.take(np.arange(64))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    trained = training.fit(
        network,
        part,
        method=Method("one-hot"),
        recipe=Recipe(epochs=2, batch_size=32),
        trackers=["mlflow"],
        folder=tmp_path / "run",
    )
    client = mlflow.MlflowClient()
    (experiment,) = [experiment for experiment in client.search_experiments() if experiment.name == "softkin"]
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [entry.value for entry in history] == pytest.approx([entry["loss"] for entry in trained.history])


@pytest.mark.slow
def test_the_command_writes_for_mlflow_without_any_setting(tmp_path):
    pytest.importorskip("mlflow")
    command = [sys.executable, "-m", "softkin", "train", "digits", "--max-per-class", "3", "--model", "mlp(hidden=16)"]
    options = ["--validation", "60", "--test", "80", "--epochs", "2", "--tracker", "mlflow", "--output", "run"]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    done = subprocess.run(
        [*command, *options], cwd=tmp_path, env=variables | {"PYTHONSAFEPATH": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kept = [path for path in tmp_path.rglob("*") if path.name in ("loss", "mlflow.db")]
    assert kept, sorted(path.name for path in tmp_path.iterdir())


def test_weights_and_biases_offline(page, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = wandb.init(dir=str(tmp_path), project="softkin")
    assert trackers.log_figure(diagrams.reliability(P, Y), run, "reliability", step=0)
    report.log(page, run)
    run.finish()
    assert list(tmp_path.rglob("*.html"))
    assert list(tmp_path.rglob("*.png"))


def test_what_is_no_tracker(page, tmp_path):
    with pytest.raises(TypeError, match="`tracker` must be a SummaryWriter, mlflow, a wandb run"):
        report.log(page, object())
    with pytest.raises(SoftkinError, match="there is no such file"):
        report.log(tmp_path / "none.html", sys)
    assert not trackers.log_figure(diagrams.reliability(P, Y), object(), "x")
