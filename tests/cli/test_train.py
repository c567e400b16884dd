"""``softkin train``, in this process and as a real one."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import command_line
from softkin import predictions, similarity
from softkin._core.names import DIGITS
from softkin.lab import data, models

QUICK = ("digits", "--max-per-class", "5", "--test", "100", "--validation", "50", "--device", "cpu")


def run(capsys, *arguments):
    return command_line.run(capsys, "train", *arguments)


def test_it_trains_predicts_and_writes(capsys, tmp_path):
    folder = tmp_path / "run"
    arguments = (*QUICK, "--method", "similarity+mixup", "--distance", "l2", "--beta", 3, "--epochs", 2)
    arguments += ("--ood", "uniform", "--output", folder, "--log-json", folder / "log.jsonl")
    code, output, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    assert "target: class-similarity smoothing, α = auto" in output
    assert "confident by" in output or "no difference between confidence and accuracy was found" in output
    assert "λ ~ Beta(0.2, 0.2)" in output
    record = json.loads((folder / "record.json").read_text())
    assert record["method"]["name"] == "similarity+mixup"
    assert record["results"]["test"]["rows"] == 100
    assert len(record["history"]) == 2
    for name, rows in (("validation", 50), ("test", 100), ("ood-uniform", 10_000)):
        assert f"Wrote {folder / name}.safetensors" in output
        loaded = predictions.load(folder / f"{name}.safetensors")
        assert len(loaded) == rows
        assert loaded.split_digest == record["split_digest"]
        assert (loaded.labels is None) == name.startswith("ood")
    assert (folder / "weights.safetensors").exists()
    assert (folder / "log.jsonl").read_text().count('"epoch"') >= 2
    code, _, errors = run(capsys, *arguments)
    assert code == 2
    assert f"{folder} already holds a finished run; pass --force to overwrite it." in errors
    assert run(capsys, *arguments, "--force")[0] == 0


@pytest.mark.parametrize(
    ("short", "whole"),
    [
        (["--method", "we"], ["--method", "similarity", "--distance", "words"]),
        (["--method", "L2+mixup"], ["--method", "similarity+mixup", "--distance", "l2"]),
        (["--method", "learned-l2"], ["--method", "similarity", "--distance", "l2", "--prior-rows", "1"]),
        (["--method", "OneHot"], ["--method", "one-hot"]),
    ],
)
def test_methods_may_be_called_as_compare_calls_them(capsys, short, whole):
    def record(*arguments):
        code, output, errors = run(capsys, *QUICK, "--epochs", 1, "--json", *arguments)
        assert code == 0, errors
        return json.loads(output)

    assert record(*short)["spec"] == record(*whole)["spec"]


@pytest.mark.filterwarnings("default")
def test_a_beta_that_nothing_can_fit_is_said(capsys):
    code, _, errors = run(capsys, *QUICK, "--epochs", 1, "--method", "we", "--beta", "auto")
    assert code == 0, errors
    assert "could fit --beta auto, so it is 2 here; `softkin compare` trains one" in " ".join(errors.split())


def test_a_log_is_not_written_over_another_file(capsys, tmp_path):
    log = tmp_path / "thesis.tex"
    log.write_text("irreplaceable")
    arguments = (*QUICK, "--epochs", 1, "--log-json", log)
    code, _, errors = run(capsys, *arguments)
    assert code == 2
    assert f"{log} exists already; add --force to overwrite it." in errors
    assert log.read_text() == "irreplaceable"
    assert run(capsys, *arguments, "--force")[0] == 0
    assert json.loads(log.read_text().splitlines()[0])["event"] == "start"
    # A training that was cut off goes on with the log that it began.
    arguments += ("--output", tmp_path / "run")
    assert run(capsys, *arguments, "--force")[0] == 0
    (tmp_path / "run" / "record.json").unlink()
    before = log.read_text()
    assert run(capsys, *arguments)[0] == 0
    assert log.read_text().startswith(before)


def test_json_is_the_record(capsys):
    code, output, _ = run(capsys, *QUICK, "--epochs", 1, "--method", "margin", "--margin", 5, "--json")
    assert code == 0
    record = json.loads(output)
    assert record["method"] == {"name": "margin", "margin": 5.0, "penalty": 0.1}
    assert record["recipe"]["epochs"] == 1
    assert record["network"] == "small"


def test_out_of_distribution_sets_of_one_name_get_files_of_their_own(capsys, tmp_path):
    rng = np.random.default_rng(0)
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        images = rng.integers(0, 256, (7 if place == "one" else 9, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / place / "noise.npz", images=images, labels=np.zeros(len(images), dtype=np.int64))
    others = [tmp_path / place / "noise.npz" for place in ("one", "two")]
    arguments = (*QUICK, "--epochs", 1, "--output", tmp_path / "run", "--ood", others[0], "--ood", others[1])
    assert run(capsys, *arguments)[0] == 0
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    for name, rows, source in (("ood-noise", 7, others[0]), ("ood-noise-2", 9, others[1])):
        assert len(predictions.load(tmp_path / "run" / f"{name}.safetensors")) == rows
        assert (record["results"][name]["rows"], record["results"][name]["source"]) == (rows, str(source))


def test_twins_between_the_sets_are_not_passed_over(capsys, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    images[1::2] = images[::2]  # each image twice
    np.savez(tmp_path / "twins.npz", images=images, labels=np.arange(40) // 2 % 2)
    arguments = (tmp_path / "twins.npz", "--epochs", 1, "--device", "cpu")
    record = json.loads(run(capsys, *arguments, "--json")[1])
    split = data.split(tmp_path / "twins.npz")
    train = {image.tobytes() for image in split.train.values}
    twins = sum(image.tobytes() in train for part in (split.validation, split.test) for image in part.values)
    assert record["overlap"] == twins > 0
    assert f"notice: {twins} validation and test samples have an exact copy" in run(capsys, *arguments)[1]


def test_the_weights_can_be_used_with_what_the_record_says(capsys, tmp_path):
    from safetensors.torch import load_file

    assert run(capsys, *QUICK, "--epochs", 2, "--output", tmp_path)[0] == 0
    record = json.loads((tmp_path / "record.json").read_text())
    network = models.build(record["network"], num_classes=10, input_shape=(1, 8, 8)).eval()
    network.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    test = data.split("digits", max_per_class=5, test=100, validation=50).test
    pixels = torch.from_numpy(test.values.astype(np.float32)).permute(0, 3, 1, 2)
    (mean,), (std,) = record["standardisation"]["mean"], record["standardisation"]["std"]
    with torch.no_grad():
        logits = network((pixels - mean) / std)
    torch.testing.assert_close(logits, predictions.load(tmp_path / "test.safetensors").logits, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_both_errors_of_the_autoencoder_are_shown(capsys):
    arguments = ("digits", "--max-per-class", "40", "--test", "100", "--validation", "50", "--epochs", 1, "--seed", 1)
    arguments += ("--device", "cpu", "--method", "similarity", "--distance", "ae")
    code, output, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    assert "autoencoder with 8 latents: reconstruction error" in output
    assert "held-out rows, PCA's" in output
    record = json.loads(run(capsys, *arguments, "--json")[1])
    assert record["autoencoder"]["latent_dim"] == 8
    assert f"{100 * record['autoencoder']['pca_error']:.2f} %" in output


def test_force_overwrites_a_finished_run_but_resumes_one_that_was_cut_off(capsys, tmp_path):
    arguments = (*QUICK, "--epochs", 2, "--output", tmp_path)
    run(capsys, *arguments)
    (tmp_path / "record.json").unlink()  # as if it had been cut off before
    assert ", resumed" in run(capsys, *arguments, "--force")[1]
    assert ", resumed" not in run(capsys, *arguments, "--force")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--method", "similarity", "--gamma", "2"),
            "`gamma` is for focal and dual-focal, and the method is 'similarity'.",
        ),
        (("--method", "unifrom"), "did you mean 'uniform'?"),
        (("--method", "similarity", "--distance", "l3"), "--distance must be one of l1, l2, autoencoder"),
        (("--beta", "2"), "`beta` is for similarity, and the method is 'one-hot'."),
        (("--method", "mixup", "--alpha", "0.1"), "name it 'uniform+mixup' to smooth as well."),
        (("--recipe", "papr"), "did you mean 'paper'?"),
        (("--epochs", "0"), "--epochs must be at least 1, got 0."),
        (("--epochs", "1000000000"), "--epochs must be at most 100,000, got 1,000,000,000."),
        (("--seed", "99999999999999999999"), "--seed must be at most 9,223,372,036,854,775,807"),
        (("--seed", "-1"), "--seed must be at least 0, got -1."),
        (("--alias", "x"), "--alias must be WORD=OTHER, got 'x'."),
        (("--model", "resnet81"), "did you mean 'resnet18'?"),
        (("--model", "wrn(unit=2)"), "wrn has no option 'unit'; it has"),
        (("--ood", "digit"), "digit could not be read: there is no such file or folder"),
    ],
)
def test_wrong_usage_is_one_sentence(capsys, arguments, words):
    code, output, errors = run(capsys, *QUICK, *arguments)
    assert (code, output) == (2, "")
    assert words in errors
    assert errors.startswith("softkin train: ")
    assert errors.count("\n") == 1


def test_what_is_not_there_is_one_sentence(capsys):
    for arguments, words in (
        (("--device", "cuda:9"), "the device cuda:9 cannot be used"),
        (("--tracker", "wandb"), "the tracker wandb is not installed"),
    ):
        code, _, errors = run(capsys, *QUICK[:-2], *arguments)
        assert code == 1
        assert words in errors


@pytest.mark.slow
def test_terminated_for_real_it_goes_on_to_the_weights_of_an_undisturbed_run(capsys, tmp_path):
    arguments = (*QUICK, "--method", "mixup", "--epochs", "15", "--checkpoint-every", "0")
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "softkin", "train", *arguments, "--output", str(tmp_path / "cut")]
    process = subprocess.Popen(
        [*command, "--log-json", str(log)],
        env=os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())},
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not (log.exists() and log.read_text().count("checkpoint") >= 2):
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM, process.stderr.read()
    process.stderr.close()
    assert not (tmp_path / "cut" / "record.json").exists()
    code, output, _ = run(capsys, *arguments, "--output", tmp_path / "cut")
    assert code == 0
    assert ", resumed" in output
    run(capsys, *arguments, "--output", tmp_path / "whole")
    from safetensors.torch import load_file

    cut, whole = (load_file(tmp_path / name / "weights.safetensors") for name in ("cut", "whole"))
    assert all(torch.equal(cut[name], whole[name]) for name in whole)
    assert predictions.load(tmp_path / "cut" / "test.safetensors").digest == (
        predictions.load(tmp_path / "whole" / "test.safetensors").digest
    )


def test_alpha_auto_is_trained_and_its_path_is_in_the_record(capsys):
    arguments = ("--method", "similarity", "--distance", "l2", "--alpha", "auto", "--top-m", 3, "--epochs", 3)
    code, output, errors = run(capsys, *QUICK, *arguments, "--json")
    assert (code, errors) == (0, "")
    record = json.loads(output)
    assert (record["method"]["alpha"], record["method"]["top_m"]) == ("auto", 3)
    assert [entry["alpha"] for entry in record["history"]][0] == pytest.approx(0.02)
    code, _, errors = run(capsys, *QUICK, "--method", "online", "--alpha", "auto")
    assert code == 2
    assert "--alpha must be a number, or 'auto' for uniform and similarity, got 'auto'" in errors
    code, _, errors = run(capsys, *QUICK, "--method", "uniform", "--alpha", "lots")
    assert code == 2
    assert "--alpha" in errors


@pytest.mark.filterwarnings("always")
def test_labels_that_look_wrong_are_named_before_the_training(capsys, tmp_path):
    labels = np.repeat(np.arange(4), 12)
    features = np.eye(4, dtype=np.float32)[labels] + np.random.default_rng(0).normal(size=(48, 4)).astype(np.float32)
    path = tmp_path / "flowers.npz"
    np.savez(path, features=features, labels=labels, class_names=np.array(["dolphin", "seal", "rose", "tulip"]))
    arguments = (path, "--method", "similarity", "--epochs", 1, "--validation", 12, "--test", 12)
    code, _, errors = run(capsys, *arguments, "--vectors", "glove")
    assert code == 0, errors
    assert errors.count("with 4 classes normalised distances are always extreme: at beta=2") == 1
    assert "always extreme" in run(capsys, *arguments, "--distance", "l2")[2]
    assert run(capsys, *arguments, "--beta", "1")[2] == ""


def test_what_a_network_learned_can_be_looked_at_and_auditioned(capsys, tmp_path):
    folder = tmp_path / "run"
    code, output, errors = run(capsys, *QUICK, "--method", "learned", "--epochs", 3, "--output", folder)
    assert (code, errors) == (0, "")
    assert "--alpha auto" not in output  # which learned labels do not have
    learned = folder / "similarity.safetensors"
    assert f"Wrote {learned}" in output
    assert "<svg" in (folder / "similar.svg").read_text()
    names = list(DIGITS)
    s = similarity.load(learned, class_names=names)
    (a, b, share), *_ = json.loads((folder / "record.json").read_text())["history"][-1]["similar"]
    assert float(s[a, b]) == pytest.approx(share)
    code, output, _ = command_line.run(capsys, "similarity", "show", learned)
    assert code == 0, errors
    assert "what a network learned to find similar in 3 epochs; alpha = 0.5" in output
    assert "another meaning" not in output  # the names have no part in it
    assert "--alias" not in output
    (tmp_path / "names.txt").write_text("\n".join(names))
    code, output, _ = command_line.run(
        capsys, "similarity", "audition", tmp_path / "names.txt", "--against", folder / "validation.safetensors",
        "--matrix", learned,
    )  # fmt: skip
    assert code == 0, errors
    assert "similarity" in output
