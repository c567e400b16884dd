"""What README.md and docs/*.md promise: code that is valid, commands that parse, links that lead somewhere."""

import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

from places import ROOT
from softkin import calibrators, metrics
from softkin.cli import parser as softkin_parser

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "measurements").glob("*.md")),
]
README = PAGES[0].read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def anchors(text):
    """What a heading is linked by: lower case, without punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_code_blocks_are_true(capsys):
    draws = np.random.default_rng(0)
    names = {f"{part}_logits": draws.normal(size=(300, 4)) for part in ("val", "test")}
    names |= {f"{part}_labels": draws.integers(4, size=300) for part in ("val", "test")}
    first, second = blocks(README, "python")
    exec(first, names)
    assert "Interval(" in capsys.readouterr().out
    exec(second.partition("\nloss_fn = ClassSimilarityLoss.learned")[0], names)
    classes, loss_fn = names["class_names"], names["loss_fn"]
    labels = loss_fn.soft_labels.clone().fill_diagonal_(0) / loss_fn.alpha
    nearest = {name: classes[int(row.argmax())] for name, row in zip(classes, labels, strict=True)}
    assert (nearest["rose"], nearest["tulip"]) == ("tulip", "rose")
    assert (nearest["dolphin"], nearest["seal"]) == ("seal", "dolphin")
    assert labels[2, 3] > 0.5  # "most of what leaves it goes to the tulip"
    assert loss_fn.alpha == 0.02
    exec(second, names)
    names["loss_fn"].end_epoch()


def test_mixup_and_weight_decay_in_a_loop_of_ones_own():
    """The two recipes of docs/when.md: mixup is the loss of mixed labels, and the best decay has the least NLL."""
    mixup, decay = blocks((ROOT / "docs" / "when.md").read_text(encoding="utf-8"), "python")
    torch.manual_seed(0)
    inputs, labels = torch.randn(20, 5), torch.arange(20) % 4
    names = {"torch": torch, "network": torch.nn.Linear(5, 4), "loss_fn": torch.nn.CrossEntropyLoss()}
    names |= {"inputs": inputs, "labels": labels}
    exec(mixup, names)
    share, other = names["share"], names["other"]
    one_hot = torch.eye(4)[labels]
    mixed = share * one_hot + (1 - share) * one_hot[other]
    torch.testing.assert_close(names["loss"], torch.nn.CrossEntropyLoss()(names["logits"], mixed))
    noise = {1e-4: 2.0, 3e-4: 1.0, 1e-3: 0.2, 3e-3: 4.0}
    made = {value: one_hot + scale * torch.randn(20, 4) for value, scale in noise.items()}
    names = {"val_logits_of": made.get, "val_labels": labels, "calibrators": calibrators, "metrics": metrics}
    exec(decay, names)
    assert names["best"] == 1e-3


@pytest.mark.slow
def test_the_commands_run_in_order_and_again_on_the_first_page(tmp_path):
    """As a newcomer types them: those of README, then those of docs/index.md, in one folder."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    commands = [line.strip() for page in (README, index) for block in blocks(page, "sh") for line in block.splitlines()]
    commands = [line for line in commands if line.startswith("softkin ")]
    assert len(commands) >= 7
    printed = ""
    for line in commands:
        words = [sys.executable, "-m", *shlex.split(line, comments=True)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, (line, done.stderr)
        printed += done.stdout
    shown = " ".join(blocks(README, "text")[0].split())
    assert shown in " ".join(printed.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked.read_text(encoding="utf-8")), target


def test_code_blocks_compile_and_commands_parse():
    for block in blocks(README, "python"):
        compile(block, "README.md", "exec")
    parser = softkin_parser()
    lines = [line.strip() for block in blocks(README, "sh") for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("softkin ")]
    assert len(commands) >= 3
    for line in commands:
        parser.parse_args(shlex.split(line, comments=True)[1:])


def test_it_is_short_and_says_when_the_method_helps_in_three_points():
    assert len(README.split()) <= 550
    section = README.partition("## When does it help?")[2].partition("\n## ")[0]
    assert len(re.findall(r"^- ", section, re.MULTILINE)) == 3
    assert "](docs/results.md)" in section


def test_calls_beside_those_of_other_libraries_run():
    import softkin.sklearn
    import softkin.torchmetrics
    from softkin import decisions, diagrams, losses

    text = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `") and " | " in line]
    draws = np.random.default_rng(0)
    z = draws.normal(size=(200, 6))
    P, p = np.exp(z) / np.exp(z).sum(1, keepdims=True), draws.uniform(size=200)
    labels = {"P": z.argmax(1), "p": (p > 0.2).astype(int)}
    known = vars(softkin) | {
        "softkin": softkin, "np": np, "calibrators": calibrators, "decisions": decisions, "diagrams": diagrams,
        "losses": losses, "metrics": metrics, "P": P, "p": p, "K": 6, "logits": z, "labels": labels["P"],
        "names": ["dolphin", "seal", "rose", "tulip", "truck", "bus"], "model": None,
    }  # fmt: skip
    known["ClassSimilarityLoss"] = losses.ClassSimilarityLoss
    run = 0
    for row in rows:
        for call in re.findall(r"`((?:metrics|diagrams|calibrators|decisions|losses|softkin)\.[^`]+\))`", row[-1]):
            if "…" in call or "from_estimator" in call:
                continue
            eval(call, known | {"y": labels["p" if re.search(r"\(p\b", call) else "P"]})
            run += 1
    assert run >= 14, run
