"""The page's decisions: the numbers of the library, at each level, in a real browser."""

import numpy as np
import pytest
import torch

from softkin import decisions, report
from softkin.decisions.rule import set_apart
from softkin.predictions import Predictions
from softkin.report import decisions as page_decisions

K, N = 6, 900


@pytest.fixture(scope="module")
def predictions():
    generator = torch.Generator().manual_seed(5)
    labels = torch.randint(K, (N,), generator=generator)
    logits = 2 * torch.randn(N, K, generator=generator)
    logits[torch.arange(N), labels] += 4
    names = ["<b>cat</b>", "dog", "rose", "oak", "car", "x" * 500]
    return Predictions(logits, labels, class_names=names, name="toy")


def gaps():
    places = np.random.default_rng(0).normal(size=(K, 3))
    return np.linalg.norm(places[:, None] - places[None], axis=2)


@pytest.fixture(scope="module")
def content(predictions):
    return page_decisions.build(predictions, distances=gaps())


def halves(seed=0):
    chosen, _ = set_apart(N, N, seed)
    half, rest = set_apart(N, N // 2, seed + 1)
    return chosen[half], chosen[rest]


def test_the_numbers_are_the_rules_own(predictions, content):
    fit, rest = halves()
    tree = decisions.Tree.from_distances(gaps(), class_names=predictions.class_names)
    for title, make in {
        "Sets, smallest (LAC)": lambda error: decisions.PredictionSets(round(1 - error, 6)),
        "Abstain": lambda error: decisions.Abstain(error),
        "Climb": lambda error: decisions.Climb(tree, error),
    }.items():
        levels = next(rule["levels"] for rule in content["rules"] if rule["title"] == title)
        for error, level in zip(content["errors"], levels, strict=True):
            rule = make(error)
            try:
                rule.fit(predictions.logits[fit], predictions.labels[fit])
            except (ValueError, UserWarning):
                assert "failed" in level or level["measures"]["answered"][0] == 0
                continue
            outcome = rule.evaluate(predictions.logits[rest], predictions.labels[rest])
            for name, value in outcome.items():
                assert level["measures"][name] == [pytest.approx(end, abs=1e-6, nan_ok=True) if end is not None else None for end in (value.value, value.low, value.high)] or level["measures"][name][0] is None  # fmt: skip
            answers = rule.predict(predictions.logits[content["samples"]])
            if title != "Sets, smallest (LAC)":
                assert level["samples"] == answers.tolist()
            else:
                by_probability = predictions.probabilities[content["samples"]].argsort(dim=1, descending=True).tolist()
                assert level["samples"] == [
                    [k for k in order if row[k]] for order, row in zip(by_probability, answers, strict=True)
                ]
            if "nodes" in level:
                used = rule.predict(predictions.logits[rest])
                assert {node: rows for node, rows, _ in level["nodes"]} == {
                    node: int((used == node).sum()) for node in used[used >= 0].unique().tolist()
                }


def test_few_samples_have_no_decisions_and_no_distances_no_tree(predictions):
    assert page_decisions.build(predictions.take(torch.arange(150))) is None
    content = page_decisions.build(predictions)
    assert content["tree"] is None
    assert [rule["title"] for rule in content["rules"]] == ["Sets, smallest (LAC)", "Sets, adaptive (APS)", "Sets per class (LAC)", "Abstain"]  # fmt: skip


def open_tree(page):
    """Open each node; its children appear when it opens."""
    page.wait(
        "(() => { const closed = document.querySelectorAll('#decisions .tree [aria-expanded=false]');"
        "closed.forEach((node) => node.click()); return closed.length === 0; })()"
    )


@pytest.mark.slow
def test_the_page_shows_them(predictions, content, tmp_path, browser):
    data = report.build(predictions, distances=gaps(), resamples=100, candidates=[])
    assert data["decisions"] == content
    page = browser.open(report.write(tmp_path / "page.html", data)[0])
    for place in (0, 3, len(content["errors"]) - 1):
        page.set("decided", place)
        rows = page.run(
            "return Array.from(document.querySelectorAll('#decisions [data-key=rules] tbody tr'), (row) => "
            "[row.querySelector('th span').firstChild.textContent, ...Array.from(row.querySelectorAll('[data-measure]'), "
            "(cell) => [cell.dataset.measure, cell.dataset.value])])"
        )
        assert [row[0] for row in rows] == [rule["title"] for rule in content["rules"]]
        for row, rule in zip(rows, content["rules"], strict=True):
            level = rule["levels"][place]
            for name, value in row[1:]:
                expected = level["measures"][name][0]
                assert value is None if expected is None else float(value) == pytest.approx(expected)
            assert len(row) > 1 or "failed" in level
        nodes = content["rules"][-1]["levels"][place].get("nodes", [])
        open_tree(page)
        shown = page.run("return Array.from(document.querySelectorAll('#decisions [data-node]'), (node) => [node.dataset.node, node.dataset.rows])")  # fmt: skip
        assert {(int(node), int(rows)) for node, rows in shown if rows != "0"} == {
            (node, rows) for node, rows, _ in nodes
        }
    page.set("decided", 0)
    assert len(page.texts("#decisions [data-row]")) == 12 * len(content["rules"])
    page.click("[data-focus='more-decided']")
    texts = page.texts("#decisions [data-row]")
    assert len(texts) == len(content["samples"]) * len(content["rules"])
    assert any("<b>cat</b>" in text for text in texts)  # as text, not as markup
    for place, level in enumerate(content["rules"][0]["levels"][0]["samples"]):  # the truth is marked
        kept = content["labels"][place] in level
        assert texts[place * len(content["rules"])].endswith("✓" if kept else "✗")
    assert page.run("return document.querySelectorAll('#decisions b').length") == 0
    assert page.wider_than_a4() == []
    assert page.console() == []


@pytest.mark.slow
def test_a_node_of_the_tree_lists_the_samples_that_it_answered(predictions, content, tmp_path, browser):
    from selenium.webdriver import Keys

    data = report.build(predictions, distances=gaps(), resamples=100, candidates=[])
    page = browser.open(report.write(tmp_path / "page.html", data)[0])
    fit, rest = halves()
    tree = decisions.Tree.from_distances(gaps(), class_names=predictions.class_names)
    for place in (2, 4):
        page.set("decided", place)
        rule = decisions.Climb(tree, content["errors"][place]).fit(predictions.logits[fit], predictions.labels[fit])
        used = rule.predict(predictions.logits[rest])
        nodes = used[used >= 0].unique().tolist()
        assert any(node >= K for node in nodes)  # not only classes
        open_tree(page)
        for node in nodes:
            button = page.driver.find_element("css selector", f"#decisions [data-samples='{node}']")
            button.send_keys(Keys.ENTER)
            rows = set(rest[used == node].tolist())
            assert page.text("dialog .note").startswith(f"{len(rows)} sample")
            shown = page.run("return Array.from(document.querySelectorAll('dialog [data-row]'), (n) => +n.dataset.row)")
            assert set(shown) <= rows
            assert len(shown) == min(24, len(rows))
            page.click("[data-key='close-samples']")
            assert page.run("return document.activeElement.dataset.samples") == str(node)
    assert page.console() == []


def test_too_many_samples_have_a_tree_that_lists_none(predictions, monkeypatch):
    monkeypatch.setattr(page_decisions, "MOST_LISTED", 100)
    content = page_decisions.build(predictions, distances=gaps())
    assert content["measured"] is None
    assert not any("answers" in level for rule in content["rules"] for level in rule["levels"])
