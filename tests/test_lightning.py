"""The callback in a real Trainer of Lightning, of one process and of two."""

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch.utils.data import DataLoader, TensorDataset

import framework_process
from softkin import calibrators, metrics
from softkin.lightning import CalibrationCallback
from softkin.losses import ClassSimilarityLoss

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def check(values):
    last = values["history"][-1]
    for name, expected in values["whole"].items():
        assert last[name] == pytest.approx(expected, abs=1e-6), name  # as if one process had seen all rows
        assert values["logged"][f"val/{name}"] == pytest.approx(expected, abs=1e-6)
    assert values["temperature"] == pytest.approx(values["whole_temperature"], rel=1e-4)
    assert last["alpha"] == values["alpha"]
    assert len(values["history"]) == 2
    assert values["alpha"] != 0.02  # where it began


def test_one_process(tmp_path):
    values = framework_process.lightning_values(
        tmp_path, processes=1, logger=[TensorBoardLogger(tmp_path, name="tb"), CSVLogger(tmp_path, name="csv")]
    )
    check(values)
    calibrator = calibrators.load(tmp_path / "calibrator")
    assert calibrator.temperature_ == pytest.approx(values["temperature"])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(next((tmp_path / "tb").rglob("events*")).parent))
    read.Reload()
    assert len(read.Images("val/reliability")) >= 1
    scalars = [event.value for event in read.Scalars("val/ece_hist")]
    assert scalars == pytest.approx([entry["ece_hist"] for entry in values["history"]], abs=1e-6)
    assert read.Scalars("val/temperature")[0].value == pytest.approx(values["temperature"], rel=1e-5)
    assert list((tmp_path / "csv").rglob("val-reliability-*.png"))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return framework_process.launched(tmp_path_factory.mktemp("two"))


def test_two_processes_count_each_row_once(two):
    check(two["lightning"])


def test_torchmetrics_of_two_processes_have_the_value_of_all_rows(two):
    torch.manual_seed(0)
    p = (2 * torch.randn(61, 4)).double().softmax(1)
    labels = torch.arange(61) % 4
    values = two["torchmetrics"]
    assert values["ece"] == pytest.approx(metrics.ece_hist(p, labels), abs=1e-12)
    assert values["output"] == pytest.approx(metrics.ece_hist(p, labels, scope="output"), abs=1e-12)
    assert values["kde"] == pytest.approx(metrics.ece_kde(p, labels), abs=1e-6)
    assert values["nll"] == pytest.approx(metrics.nll(p, labels), abs=1e-12)


def test_a_validation_step_that_returns_no_logits_costs_one_more_call(tmp_path):
    network = framework_process.module(alpha=None)
    network.validation_step = lambda batch, batch_idx: None
    inputs, labels = framework_process.data()
    callback = CalibrationCallback(figure=False, temperature=False)
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, logger=False, callbacks=[callback], enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False, default_root_dir=tmp_path,
    )  # fmt: skip
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=16)
    trainer.validate(network, loader, verbose=False)
    with torch.no_grad():
        hits = (network(inputs).argmax(1) == labels).double().mean()
    assert callback.history[-1]["accuracy"] == pytest.approx(float(hits))
    assert callback.calibrator_ is None
    assert "alpha" not in callback.history[-1]
    with pytest.raises(TypeError, match="CalibrationCallback needs logits and labels"):
        trainer.validate(network, DataLoader(inputs, batch_size=16), verbose=False)


def test_learned_labels_turn_over_after_each_training_epoch(tmp_path):
    network, inputs, labels = framework_process.module(alpha=None), *framework_process.data()
    network.loss_fn = ClassSimilarityLoss.learned(4)
    seen = []
    shared_step = network.training_step

    def training_step(batch, batch_idx):
        seen.append(network.loss_fn.soft_labels.clone())
        return shared_step(batch, batch_idx)

    network.training_step = training_step
    callback = CalibrationCallback(temperature=False)
    trainer = Trainer(
        accelerator="cpu", max_epochs=3, logger=[CSVLogger(tmp_path, name="csv")], callbacks=[callback],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=tmp_path,
    )  # fmt: skip
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=16)
    trainer.fit(network, loader, loader)
    steps = len(seen) // 3
    assert all(torch.equal(one, seen[0]) for one in seen[:steps])
    assert not torch.equal(seen[steps], seen[0])
    assert not torch.equal(seen[2 * steps], seen[steps])
    assert int(network.loss_fn.turned) == 3
    assert len(callback.similar) == 3
    assert callback.similar[-1] == network.loss_fn.pairs()
    assert list((tmp_path / "csv").rglob("val-similar-*.png"))
