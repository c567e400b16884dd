"""Scores that tell samples of no class apart."""

import json

import pytest
import torch

from command_line import run
from softkin.predictions import Predictions


def test_scores_tell_samples_of_no_class_apart(tmp_path, capsys):
    """Members that agree about known samples and not about unknown ones: by hand, in the JSON and in words."""
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(3, 40, 4, generator=generator).softmax(2).double()
    labels = p.mean(0).argmax(1)
    labels[:10] = (labels[:10] + 1) % 4
    agreeing = p[:1].expand(3, -1, -1) * torch.tensor([0.99, 1.0, 1.01])[:, None, None]
    known = Predictions(p[0].log(), labels, members=agreeing / agreeing.sum(2, keepdim=True))
    unknown = Predictions(p.mean(0).log(), members=p)
    known.save(tmp_path / "test.npz")
    unknown.save(tmp_path / "ood.npz")
    command = ("evaluate", tmp_path / "test.npz", "--ood", tmp_path / "ood.npz")
    (evaluated,) = json.loads(run(capsys, *command, "--json")[1])["models"]
    (messages,) = evaluated["out_of_distribution"]
    information = known.mutual_information, unknown.mutual_information
    pairs = [(a, b) for a in information[0].tolist() for b in information[1].tolist()]
    expected = sum((a < b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)
    assert messages["num_samples"] == 40
    assert messages["scores"]["mutual_information"]["auroc"] == pytest.approx(expected)
    assert messages["scores"]["mutual_information"]["auroc"] > 0.9 > messages["scores"]["confidence"]["auroc"]
    assert evaluated["mutual_information"]["mean"] == pytest.approx(float(information[0].mean()))
    assert set(evaluated["mutual_information"]["auroc_of_errors"]) == {"confidence", "mutual_information"}
    assert "by the members' mutual information AUROC" in run(capsys, *command)[1]
    run(capsys, *command, "--report", tmp_path / "page.html")
    page = json.loads((tmp_path / "page.json").read_text())
    assert page["out_of_distribution"] == evaluated["out_of_distribution"]
    assert page["mutual_information"] == evaluated["mutual_information"]


def test_samples_of_no_class_go_with_one_model(tmp_path, capsys):
    Predictions(torch.zeros(3, 2), torch.tensor([0, 1, 0])).save(tmp_path / "a.npz")
    Predictions(torch.zeros(3, 4)).save(tmp_path / "b.npz")
    a, b = tmp_path / "a.npz", tmp_path / "b.npz"
    assert "--ood needs a single FILE, got 2" in run(capsys, "evaluate", a, a, "--ood", b)[2]
    words = "b.npz has 4 classes and a.npz has 2; they must be from the same model"
    assert words in run(capsys, "evaluate", a, "--ood", b)[2]
