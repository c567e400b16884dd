"""The worked diff of CONTRIBUTING.md is a training method that works."""

import re
import textwrap

import torch

from places import ROOT
from softkin.lab.training.methods import METHODS, Method
from softkin.lab.training.objectives import objective


def test_the_worked_diff_is_a_training_method():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (diff,) = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)
    code = textwrap.dedent("".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("+")))
    from softkin.lab.training.objectives import penalties

    assert (ROOT / diff.splitlines()[0].removeprefix("--- a/")).is_file()
    exec(code, vars(penalties).copy() | {"__name__": "worked_diff"})
    try:
        method = Method("poly", epsilon=2.0)
        logits, classes = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        p = logits.softmax(1)[:, 0]
        loss = objective(method, 2)
        expected = (-p.log() + 2 * (1 - p)).sum()
        torch.testing.assert_close(loss(logits, classes), expected)
        torch.testing.assert_close(loss(logits, torch.eye(2)[classes]), expected)
        assert method.effective_target(2) == "one-hot labels, plus 2·(1 − p)"
    finally:
        METHODS.remove("poly")
