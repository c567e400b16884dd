"""Several labels per sample, from a file: all claims together, and each label."""

import json

import numpy as np
import pytest

from command_line import run
from softkin import metrics


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1, 1.5, (n, 4))
    return z, (rng.random((n, 4)) < 1 / (1 + np.exp(-z))).astype(int)


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_all_claims_and_each_label(capsys, tmp_path, kind):
    z, y = rows()
    p = 1 / (1 + np.exp(-z))
    path = tmp_path / "a.npz"
    np.savez(path, **{kind: z if kind == "logits" else p}, labels=y, class_names=list("abcd"))
    code, output, errors = run(capsys, "evaluate", path, "--multi-label", "--json")
    assert (code, errors) == (0, "")
    data = json.loads(output)["models"][0]
    for key in ("nll", "brier", "ece_hist", "classwise_ece", "confidence_auroc"):
        assert data["metrics"][key]["value"] == pytest.approx(getattr(metrics, key)(p, y), abs=1e-9)
    assert data["metrics"]["brier"]["value"] == pytest.approx(((p - y) ** 2).mean())
    eces = []
    for k, group in enumerate(data["groups"]["groups"]):
        assert group["name"] == "abcd"[k]
        assert group["metrics"]["brier"]["value"] == pytest.approx(((p - y) ** 2)[:, k].mean())
        eces.append(group["metrics"]["ece_hist"]["value"])
        assert eces[-1] == pytest.approx(metrics.ece_hist(p[:, k], y[:, k].astype(bool)), abs=1e-9)
    assert data["metrics"]["classwise_ece"]["value"] == pytest.approx(np.mean(eces))
    code, output, _ = run(capsys, "evaluate", path, "--multi-label")
    assert code == 0
    assert "300 samples, 4 labels each" in output
    assert "By label, 95 % intervals that hold together" in output


def test_what_cannot_be_read(capsys, tmp_path):
    z, y = rows()
    np.savez(tmp_path / "a.npz", logits=z, labels=y[:, 0])
    np.savez(tmp_path / "b.npz", logits=z, labels=2 * y)
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    (tmp_path / "d.pt").write_bytes(b"")
    for name, words in {
        "a.npz": "`labels` must have the shape of `logits`, (300, 4), got (300,)",
        "b.npz": "`labels` must be zeros and ones",
        "c.csv": "must have a column of scores and one of zeros and ones for each label",
        "d.pt": "--multi-label reads .npz files",
    }.items():
        code, _, errors = run(capsys, "evaluate", tmp_path / name, "--multi-label")
        assert code == 1
        assert words in errors
    code, _, errors = run(capsys, "evaluate", tmp_path / "a.npz", "--multi-label", "--abstain", "0.1")
    assert code == 2
    assert "--abstain must be left out with --multi-label" in errors


@pytest.mark.filterwarnings("default::softkin.predictions.Assumption")
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_several_labels_are_recognised_and_said(capsys, tmp_path, kind):
    """Logits with such labels were read as classes with votes, in silence."""
    z, y = rows()
    p = 1 / (1 + np.exp(-z))
    path = tmp_path / "a.npz"
    np.savez(path, **{kind: z if kind == "logits" else p}, labels=y)
    code, output, errors = run(capsys, "evaluate", path, "--json")
    assert code == 0, errors
    assert "several labels, each a yes or no of its own (--multi-label)" in " ".join(errors.split())
    assert json.loads(output)["models"][0]["metrics"]["nll"]["value"] == pytest.approx(metrics.nll(p, y), abs=1e-9)
    code, output, _ = run(capsys, "check", path, "--multi-label", "--max", "nll=9")
    assert (code, "✓ NLL" in output) == (0, True)
    code, _, errors = run(capsys, "evaluate", path, path)
    assert (code, "not compared" in " ".join(errors.split())) == (1, True)


def test_votes_and_one_hot_labels_are_no_several_labels(capsys, tmp_path):
    z, y = rows()
    e = np.exp(z)
    two = np.zeros_like(z)
    np.add.at(two, (np.arange(300), z.argmax(1)), 1)
    np.add.at(two, (np.arange(300), y.argmax(1)), 1)
    np.savez(tmp_path / "votes.npz", logits=z, labels=two)
    np.savez(tmp_path / "one.npz", logits=z, labels=np.eye(4, dtype=int)[y.argmax(1)])
    np.savez(tmp_path / "shares.npz", probs=e / e.sum(1, keepdims=True), labels=np.maximum(y, np.eye(4)[z.argmax(1)]))
    for name in ("votes", "one", "shares"):
        code, output, errors = run(capsys, "evaluate", tmp_path / f"{name}.npz")
        assert (code, "several labels" in errors, "accuracy" in output) == (0, False, True)


def table(scores, y, truth="true_{}", score="prob_{}"):
    names = "abcd"
    header = ["id", *(truth.format(name) for name in names), *(score.format(name) for name in names)]
    lines = [[j, *y[j], *scores[j]] for j in range(len(y))]
    return "\n".join(",".join(map(str, line)) for line in [header, *lines]) + "\n"


@pytest.mark.filterwarnings("default::softkin.predictions.Assumption")
@pytest.mark.parametrize(
    ("truth", "score", "kind"),
    [
        ("true_{}", "prob_{}", "probs"),
        ("{}", "p_{}", "probs"),
        ("is_{}", "{}", "probs"),
        ("y_{}", "logit_{}", "logits"),
    ],
)
def test_several_labels_in_a_table(capsys, tmp_path, truth, score, kind):
    z, y = rows()
    p = 1 / (1 + np.exp(-z))
    path = tmp_path / "a.csv"
    path.write_text(table(z if kind == "logits" else p, y, truth, score))
    code, output, errors = run(capsys, "evaluate", path, "--json")
    assert code == 0, errors
    assert "are read as the labels, several per sample" in " ".join(errors.split())
    data = json.loads(output)["models"][0]
    assert data["class_names"] == list("abcd")
    assert data["metrics"]["nll"]["value"] == pytest.approx(metrics.nll(p, y), abs=1e-9)
    code, stated, errors = run(capsys, "evaluate", path, "--multi-label", "--json")
    assert (code, stated, errors) == (0, output, "")


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_flags_of_features_are_no_labels(capsys, tmp_path):
    z, y = rows()
    lines = [
        f"{j % 90},{z[j, 0]:.3f},{y[j, 1]},{y[j, 2]},{y[j, 0]},{1 / (1 + np.exp(-z[j, 0])):.4f}" for j in range(300)
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["age,bmi,age_missing,bmi_missing,died,risk", *lines]))
    code, output, errors = run(capsys, "evaluate", path)
    assert code == 0, errors
    assert "2 classes" in output


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_votes_in_columns(capsys, tmp_path):
    z, y = rows()
    e = np.exp(z)
    p = e / e.sum(1, keepdims=True)
    votes = y + np.eye(4, dtype=int)[z.argmax(1)] * 2
    path = tmp_path / "a.csv"
    path.write_text(table(p, votes, "votes_{}", "prob_{}"))
    code, output, errors = run(capsys, "evaluate", path, "--json")
    assert code == 0, errors
    data = json.loads(output)["models"][0]
    shares = votes / votes.sum(1, keepdims=True)
    assert data["metrics"]["nll"]["value"] == pytest.approx(-(shares * np.log(p)).sum(1).mean())


def test_several_labels_are_not_calibrated_as_votes(capsys, tmp_path):
    """They were, in silence, where each sample had one label at least."""
    z, y = rows()
    y[:, 0] = 1
    np.savez(tmp_path / "a.npz", logits=z, labels=y)
    for command in (("calibrate", "fit"), ("decide", "fit"), ("monitor",)):
        options = [] if command == ("monitor",) else ["--output", tmp_path / "out"]
        options += ["--rule", "sets"] if command[0] == "decide" else []
        code, _, errors = run(capsys, *command, tmp_path / "a.npz", *options)
        assert (code, "as of several labels per sample" in " ".join(errors.split())) == (1, True), errors


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.filterwarnings("ignore")
def test_scores_of_several_labels_say_themselves_what_they_are(capsys, tmp_path, kind):
    """Each is a yes or no of its own: from 0 to 1 they are probabilities, beyond they are logits."""
    z, y = rows()
    np.savez(tmp_path / "a.npz", scores=1 / (1 + np.exp(-z)) if kind == "probs" else z, labels=y)
    found = []
    for options in ((), (f"--{kind}",)):
        code, output, errors = run(
            capsys, "evaluate", tmp_path / "a.npz", "--multi-label", "--json", "--resamples", "100", *options
        )
        assert code == 0, errors
        found.append(json.loads(output)["models"][0]["metrics"])
    assert found[0] == found[1]
