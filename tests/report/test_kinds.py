"""Every kind of page in a real browser, wide and narrow, light and dark: nothing overflows, no chart is empty, axe finds
nothing.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from command_line import run
from places import ROOT, SHARED
from report_browser import picture
from results_records import recorded
from softkin import evaluation, report, similarity
from softkin.audition import inspection
from softkin.evaluation import many_labels
from softkin.evaluation.groups import evaluate_groups
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Claims
from softkin.predictions import Predictions
from softkin.report import findings, study_overview

pytestmark = pytest.mark.slow

KINDS = (
    "model",
    "tree",
    "unknown",
    "votes",
    "binary",
    "pairs",
    "groups",
    "groups of classes",
    "labels",
    "models",
    "binaries",
    "several pairs",
    "study",
    "similarity",
    "calibrators",
    "rules",
    "audition",
    "limits",
    "watched",
)
VALIDATION, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))


WORDS = ("logistic", "naive-bayes", "random-forest", "neighbours", "stump-of-depth-2", "svm")


def some(k=8, n=400, seed=0, sharp=2.5, name="some"):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(k, (n,), generator=generator)
    logits = torch.randn(n, k, generator=generator)
    logits[torch.arange(n), labels] += 1.2
    return Predictions(sharp * logits, labels, class_names=[f"kind {j}" for j in range(k)], name=name)


def distances(k=8):
    points = np.random.default_rng(0).normal(size=(k, 3))
    return np.linalg.norm(points[:, None] - points[None], axis=2)


def a_study():
    """A recorded study, with the curves of made predictions."""
    rows = recorded("digits")
    methods = [{"key": row.method, "name": row.title} for row in rows]
    cells = {row.method: {key: cell.to_dict() for key, cell in row.cells.items()} for row in rows}
    columns = [{"key": key, "title": key, "percent": key != "nll", "larger_is_better": key == "accuracy"}
               for key in ("accuracy", "nll", "ece_hist")]  # fmt: skip
    return report.build_comparison(
        {
            "name": "A study", "num_samples": 1000, "num_classes": 10, "methods": methods, "seeds": [0, 1, 2, 3, 4],
            "overview": study_overview.of_rows(rows, seconds={"one-hot": 2.0, "mixup": 1.2}, data="digits", num_samples=1000),
            "table": {"columns": columns, "rows": [{"method": key, "cells": one, "chosen": None} for key, one in cells.items()]},
            "curves": {row.method: report.side_by_side.pooled([some(seed=place)]) for place, row in enumerate(rows)},
        }
    )  # fmt: skip


def outcome(capsys, *command):
    return json.loads(run(capsys, *command, "--json")[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kinds")


def data_of(kind, folder, capsys):
    if kind == "model":
        return report.build(some(), resamples=100)
    if kind == "tree":
        images = np.random.default_rng(0).integers(0, 256, (400, 8, 8, 3), dtype=np.uint8)
        return report.build(some(), distances=distances(), images=images, texts=["a text"] * 400, resamples=100)
    if kind == "unknown":
        others = [some(seed=5, sharp=1.0, name="others")]
        return report.build(some(), distances=distances(), unknown=others, resamples=100)
    if kind == "votes":
        rows = some()
        shares = 0.7 * torch.eye(8, dtype=torch.float64)[rows.known_labels] + 0.3 / 8
        return report.build(Predictions(rows.logits, shares, class_names=rows.class_names, name="votes"), resamples=100)
    if kind == "binary":
        return report.build(some(k=2, n=800), resamples=100)
    if kind == "pairs":
        lines = [f"{c:.4f},{int(r)}" for c, r in np.random.default_rng(0).random((400, 2)).round(4).tolist()]
        (folder / "pairs.csv").write_text("confidence,correct\n" + "\n".join(lines) + "\n")
        return None
    if kind in ("groups", "groups of classes"):
        rows = some(k=3 if kind == "groups of classes" else 2, n=600)
        names = [f"site {row % 3}" for row in range(600)]
        if kind == "groups":
            right = rows.known_labels
            rows = Predictions.from_probabilities(rows.probabilities, right, are_pairs=True)
        rows = replace(rows, groups=names)
        known = evaluation.evaluate(rows, resamples=100)
        known["groups"] = evaluate_groups(rows, resamples=100)
        return report.build(rows, evaluated=known, resamples=100)
    if kind == "labels":
        p = torch.rand(400, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        y = (torch.rand(400, 5, generator=torch.Generator().manual_seed(1)) < p**2).to(torch.float64)
        claims = Claims(p, y, exclusive=False)
        named = ["news", "sport", "money", "weather", "a film with a long name"]
        return report.build_labels(many_labels.evaluated(claims, named, "labels.npz", Settings(resamples=100)), claims)
    if kind == "several pairs":
        made = [some(k=2, n=800, sharp=1 + place) for place in range(3)]
        return report.build_models(
            [
                Predictions.from_probabilities(each.probabilities, each.known_labels, are_pairs=True, name=f"judge {n}")
                for n, each in enumerate(made)
            ],
            resamples=100,
        )
    if kind == "binaries":
        made = [some(k=2, n=800, sharp=1 + place, name=f"fraud_net-{place}-of-three.npz") for place in range(3)]
        return report.build_models(made, resamples=100)
    if kind == "audition":
        (folder / "names.txt").write_text("zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")
        return findings.of_audition(
            outcome(capsys, "similarity", "audition", folder / "names.txt", "--against", VALIDATION)
        )
    if kind == "models":
        return report.build_models(
            [some(sharp=1 + place, name=f"probs_runs/net-{place}-of-six-{WORDS[place]}.npz") for place in range(6)],
            resamples=100,
        )
    if kind == "study":
        return a_study()
    if kind == "similarity":
        d = distances()
        seen = inspection.inspect(similarity.from_distances(d, 2.0), some().class_names, alpha=0.1, source="a toy", others={"others": d.T**2}, about={"learned": EPOCHS})  # fmt: skip
        return report.build_inspection(seen, torch.as_tensor(d), beta=2.0)
    if kind == "calibrators":
        return findings.of_calibrators(outcome(capsys, "calibrate", "compare", VALIDATION, TEST, "--methods", "temperature,vector", "--resamples", 100))  # fmt: skip
    if kind == "rules":
        return findings.of_rules(outcome(capsys, "decide", "compare", VALIDATION, TEST))
    if kind == "watched":
        p = np.random.default_rng(0).uniform(0.6, 1, 2000)
        y = np.random.default_rng(1).random(2000) < p - 0.1 * (np.arange(2000) >= 800)
        lines = [f"{c:.4f},{int(r)},2026-{1 + row // 200:02d}-01" for row, (c, r) in enumerate(zip(p, y, strict=True))]
        (folder / "log.csv").write_text("confidence,correct,date\n" + "\n".join(lines) + "\n")
        run(capsys, "monitor", folder / "log.csv", "--tolerance", "2%", "--report", folder / "log.html", "--force")
        return json.loads((folder / "log.json").read_text())
    return findings.of_limits(outcome(capsys, "check", TEST, "--max", "ece=5%", "--max", "gap=3%"))


EPOCHS = [[[1, 2, 0.11], [0, 3, 0.1]], [[0, 3, 0.2]], [[0, 3, 0.4], [1, 2, 0.3]]]  # pairs of classes and their shares

DRAWN = (
    "Array.from(document.querySelectorAll('main .chart')).every((n) => n.offsetParent === null || n.firstElementChild)"
)
EMPTY = """return Array.from(document.querySelectorAll('main .chart')).filter((node) => node.offsetParent !== null
  && !node.querySelector('canvas')
  && !node.querySelector('svg :is(.bar, .gap, .line, .curve, .dumb-right, .mark, .branch, .whisker, .few-point, .surface rect)'))
  .map((node) => node.closest('section').id)"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_is_drawn_and_accessible(modules, browser, folder, capsys, kind):
    made = data_of(kind, folder, capsys)
    if kind == "pairs":
        run(capsys, "evaluate", folder / "pairs.csv", "--resamples", 100, "--report", folder / "pairs.html", "--force")
        path = folder / "pairs.html"
    else:
        path = report.write(folder / f"{kind}.html", made)[0]
    for width, height in ((1400, 900), (390, 844)):
        for scheme in ("light", "dark"):
            browser.media(scheme=scheme)
            browser.resize(width, height, mobile=width < 500)
            page = browser.open(path)
            assert page.run("return document.documentElement.scrollWidth") <= width
            wide = page.run(
                "return Array.from(document.querySelectorAll('main *')).filter((n) => n.getBoundingClientRect().right > innerWidth + 1 "
                "&& !n.closest('.scroll, nav, .heat-holder, svg')).map((n) => n.outerHTML.slice(0, 120))"
            )
            assert wide == []
            if width > 1000:  # every section can be seen in the head; a phone scrolls it
                cut = "return document.querySelector('nav') && Array.from(document.querySelectorAll('nav a'), (n) => n.getBoundingClientRect().right - document.querySelector('nav').getBoundingClientRect().right).filter((by) => by > 1)"
                assert not page.run(cut)
            unreachable = "return Array.from(document.querySelectorAll('.scroll')).filter((n) => n.scrollWidth > n.clientWidth + 1 && getComputedStyle(n).overflowX === 'hidden').map((n) => n.textContent.slice(0, 60))"
            assert page.run(unreachable) == []  # what is beyond the edge of a table can be scrolled to
            page.wait(DRAWN)
            assert page.run(EMPTY) == []
            cut = "return Array.from(document.querySelectorAll('.multiple-name .name')).filter((n) => n.scrollWidth > n.clientWidth + 1).map((n) => n.textContent)"
            assert page.run(cut) == []  # the name of a small chart is its legend
            shot = picture(page.screenshot(folder / f"{kind}-{width}-{scheme}.png").read_bytes())
            paper = shot.getpixel((2, 2))
            assert (sum(paper) > 600) == (scheme == "light")
            page.run("document.querySelectorAll('details').forEach((node) => (node.open = true))")
            assert page.violations(modules, least="minor") == []
            assert page.console() == []
    assert page.wider_than_a4() == []


ATTACK = """<img src=x onerror="window.owned=1"><script>window.owned=1</script>"' onclick="window.owned=1"""
GIVEN = re.compile(
    r"kind \d|site \d|judge \d|\bsome\b|\bothers\b|a toy|a text|A study|fraud_net-\d-of-three|runs/net-\d-of-six|"
    r"\bnews\b|sport|money|weather|a film with a long name|labels\.npz|log\.csv|digits-test|digits-validation|"
    r"^(zero|one|two|three|four|five|six|seven|eight|nine)$"
)
"""What people named in ``data_of``: classes, groups, models, files, texts"""


def attacked(part):
    """The page's data with an attack before everything that has a name of its user's, in values and keys."""
    if isinstance(part, str):
        return GIVEN.sub(lambda found: ATTACK + found.group(), part)
    if isinstance(part, dict):
        return {attacked(key): attacked(value) for key, value in part.items()}
    return [attacked(value) for value in part] if isinstance(part, list | tuple) else part


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_no_name_is_markup(browser, folder, capsys, kind):
    if kind == "pairs":
        rows = some(k=2, n=800)
        rows = Predictions.from_probabilities(rows.probabilities, rows.known_labels, are_pairs=True, name="judge 1")
        made = report.build(rows, resamples=100)
    else:
        made = data_of(kind, folder, capsys)
    made = attacked(made)
    assert "onerror" in json.dumps(made, default=str)
    browser.media()
    browser.resize(1400, 900)
    page = browser.open(report.write(folder / f"attacked-{kind}.html", made, force=True)[0])
    for opened in ("details", "dialog"):
        page.run(f"document.querySelectorAll('{opened}').forEach((node) => (node.open = true))")
    page.run("document.querySelectorAll('main button').forEach((node) => node.click())")
    page.wait(DRAWN)
    page.run(
        "document.querySelectorAll('main *').forEach((node) => "
        "['mouseover', 'mouseenter', 'focus'].forEach((name) => node.dispatchEvent(new Event(name, {bubbles: true}))))"
    )
    assert page.run("return window.owned === undefined")
    assert page.run("return document.querySelectorAll('img[src=x], [onerror], [onclick]').length") == 0
    assert page.run("return Array.from(document.scripts).every((node) => !node.text.startsWith('window.owned'))")
    assert "onerror" in page.run("return document.body.textContent + document.title")
    assert [line for line in page.console() if str(line).strip() == "x"] == []
    assert page.requests() == []


MARKS = 'class="(?:[^"]* )?(?:bar|gap|line|curve|dumb-right|mark|branch|whisker|few-point|area|surface)[ "]|<image'


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["model", "binary", "models", "labels", "similarity", "rules", "watched"])
def test_every_drawing_that_is_saved_has_a_title_and_marks(browser, folder, capsys, kind):
    """What the page draws is in the file, not the legend alone, and no two files of a page are the same."""
    browser.media()
    browser.resize(1400, 900)
    page = browser.open(report.write(folder / f"saved {kind}.html", data_of(kind, folder, capsys), force=True)[0])
    page.wait(DRAWN)
    page.catch()
    kept = []
    count = page.run("return document.querySelectorAll('[data-take=svg]').length")
    assert count
    for place in range(count):
        page.run(f"document.querySelectorAll('[data-take=svg]')[{place}].click()")
        name, text = page.saved()
        assert name == "image/svg+xml"
        drawing = re.sub('<svg[^>]*class="swatch".*?</svg>', "", text.partition("</defs>")[2], flags=re.S)  # no legend
        assert re.search(MARKS, drawing), (place, drawing[:500])
        assert "<text" in drawing
        kept.append(text)
    if kind == "models":  # six charts in one file, each with its name and error
        assert any(len(re.findall(r">ECE [\d.]+\u202f%<", text)) == 6 for text in kept)
    assert len(set(kept)) == len(kept)
    assert page.console() == []


@pytest.mark.filterwarnings("ignore")
def test_what_the_table_of_calibrators_says_of_each_is_seen_without_scrolling(browser, folder, capsys):
    compared = "calibrate", "compare", VALIDATION, TEST, "--methods", "vector,temperature,structured-matrix"
    made = findings.of_calibrators(outcome(capsys, *compared, "--resamples", 100))
    browser.resize(1400, 900)
    page = browser.open(report.write(folder / "marked.html", made)[0])
    assert "worse than the best" in page.text(".results-all")
    assert (
        page.run(
            "const n = document.querySelector('.results-all').closest('.scroll') || document.querySelector('.results-all'); return n.scrollWidth - n.clientWidth"
        )
        <= 0
    )


@pytest.mark.filterwarnings("ignore")
def test_the_most_confused_classes_are_different_pairs(browser, folder):
    labels = torch.arange(400) % 4
    answers = torch.where(torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.4, labels ^ 1, labels)
    answers[:12] = (labels[:12] + 2) % 4
    made = Predictions(4.0 * torch.eye(4)[answers], labels, class_names=["oak", "maple", "bus", "car"], name="trees")
    page = browser.open(report.write(folder / "trees.html", report.build(made, resamples=100))[0])
    pairs = page.run("return Array.from(document.querySelectorAll('[data-pair]'), (n) => n.dataset.pair)")
    assert len(pairs) == 4
    assert len({frozenset(pair.split()) for pair in pairs}) == 4


@pytest.mark.filterwarnings("ignore")
def test_models_that_are_level_in_all_classes_have_no_empty_chart_of_wins(browser, folder):
    made = [some(sharp=1 + place, name=f"net {place}") for place in range(2)]  # the same answers
    page = browser.open(report.write(folder / "level.html", report.build_models(made, resamples=100))[0])
    assert "In no class does one model find more samples than all others." in page.text("#wins")
    assert page.run("return document.querySelector('#wins svg')") is None
    assert page.console() == []


@pytest.mark.skipif(not (SHARED / "logits").is_dir(), reason="needs ../shared/data")
def test_a_real_page_begins_with_its_answers(browser, folder, capsys):
    path = folder / "resnet32.html"
    run(
        capsys,
        "evaluate",
        SHARED / "logits" / "resnet32-cifar100-logits.npz",
        "--resamples",
        100,
        "--report",
        path,
        "--force",
    )
    browser.media()
    browser.resize(1400, 900)
    page = browser.open(path)
    bottom = page.run("return document.querySelector('.answers').getBoundingClientRect().top")
    assert bottom < 450  # all three answers begin on the first screen
    assert page.text("#headline") == "Over-confident by 11 points"


@pytest.mark.filterwarnings("ignore")
def test_what_a_network_came_to_find_similar_is_drawn_by_epoch(browser, folder, capsys):
    made = data_of("similarity", folder, capsys)
    assert made["learned"] == [
        {"a": 0, "b": 3, "shares": [0.1, 0.2, 0.4]},
        {"a": 1, "b": 2, "shares": [0.11, None, 0.3]},  # not among those listed after the second epoch
    ]
    page = browser.open(report.write(folder / "learned.html", made, force=True)[0])
    assert page.run("return document.querySelectorAll('#epochs .chart path.line').length") == 2
    assert len(page.texts("#epochs .legend li")) == 2
    assert report.build_inspection(inspection.inspect(similarity.from_distances(distances(), 2.0), some().class_names, alpha=0.1, source="a toy"), torch.as_tensor(distances()), beta=2.0)["learned"] == []  # fmt: skip
    page = browser.open(report.write(folder / "names.html", {**made, "learned": []}, force=True)[0])
    assert not page.run("return document.querySelector('#epochs')")
