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
    for name, words in {
        "a.npz": "`labels` must have the shape of `logits`, (300, 4), got (300,)",
        "b.npz": "`labels` must be zeros and ones",
        "c.csv": "--multi-label reads .npz files",
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
