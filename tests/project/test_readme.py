"""What README.md and docs/*.md promise: code that is valid, commands that parse, links that lead somewhere."""

import re
import shlex

import pytest

from places import ROOT
from softkin.cli import parser as softkin_parser

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def anchors(text):
    """What a heading is linked by: lower case, without punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_first_code_block_is_true():
    names = {}
    exec(blocks(README, "python")[0], names)
    classes, loss_fn = names["class_names"], names["loss_fn"]
    labels = loss_fn.soft_labels.clone().fill_diagonal_(0) / loss_fn.alpha
    nearest = {name: classes[int(row.argmax())] for name, row in zip(classes, labels, strict=True)}
    assert (nearest["rose"], nearest["tulip"]) == ("tulip", "rose")
    assert (nearest["dolphin"], nearest["seal"]) == ("seal", "dolphin")
    assert labels[2, 3] > 0.5  # "most of what leaves it goes to the tulip"
    assert loss_fn.alpha == 0.02


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
    commands = [line for block in blocks(README, "sh") for line in block.splitlines() if line.startswith("softkin ")]
    assert len(commands) >= 5
    for line in commands:
        parser.parse_args(shlex.split(line, comments=True)[1:])


def test_when_it_helps_is_answered_in_six_points_with_links():
    section = README.partition("## When does it help, and when not?")[2].partition("\n## ")[0]
    answers = [line for line in re.split(r"\n- ", section) if line.strip()]
    assert len(answers) == 6
    assert all("](" in answer for answer in answers)
