"""The report of a comparison: from a real study's records, and from plain data."""

import json
from types import SimpleNamespace

import pytest

from report_browser import picture
from softkin import SoftkinError, metrics, report
from softkin.lab import study
from softkin.lab.study import writing
from softkin.lab.study.perform import resolve
from softkin.report import side_by_side

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A real study, small: three methods, two seeds, a grid of α and β, one set of unknown data; its folder and table."""
    folder = tmp_path_factory.mktemp("study") / "study"
    spec = study.StudySpec(
        methods=("one-hot", "ts", "we"),
        seeds=2,
        test=200,
        max_per_class=10,
        validation=200,
        alpha=(0.1, 0.3),
        beta=(1.0, 4.0),
        recipe={"epochs": 2},
        ood=("uniform",),
        ood_rows=100,
    )
    study.keep(folder, resolve(spec))
    study.work(folder)
    table = study.table(folder, resamples=100)
    writing.write(study.StudyFolder(folder), table, report.write_comparison)
    assert (folder / "report.html").exists()  # a study leaves its page; here with a table of fewer resamples
    return folder, table


@pytest.fixture(scope="module")
def folder(made):
    return made[0]


@pytest.fixture(scope="module")
def data(folder):
    return report.build_comparison(folder)


@pytest.fixture
def page(browser, folder):
    browser.media()
    browser.resize(1280, 900)
    return browser.open(folder / "report.html")


def test_a_study_ends_with_its_report(folder, data):
    assert json.loads((folder / "report.json").read_bytes()) == json.loads(json.dumps(data, allow_nan=False))


def test_the_table_is_the_studys(made, data):
    table = made[1]
    assert [row["method"] for row in data["table"]["rows"]] == [row.method for row in table.rows]
    for row, ours in zip(table.rows, data["table"]["rows"], strict=True):
        for key, cell in row.cells.items():
            assert ours["cells"][key]["value"] == cell.value
            assert (ours["cells"][key]["best"], ours["cells"][key]["tie"]) == (cell.best, cell.tie)
    meanings = ("Hist P:", "Hist O:", "AURC:", "KDE P, KDE O:", "Gap:")  # said once, in the list of columns
    marks = ("≈: cannot be told from the best.", "○: worse than the best by more than sampling noise explains.")
    assert data["notes"] == [note.replace(*marks) for note in table.notes if not note.startswith(meanings)]
    assert all(column["explained"] for column in data["table"]["columns"])
    assert data["table"]["rows"][2]["chosen"].startswith("α = ")


def test_a_table_of_other_results_is_not_taken(folder, data, tmp_path, monkeypatch):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "study")
    saved = json.loads((copy / "table.json").read_bytes())
    made_again = {**saved, "notes": ["made again"]}
    monkeypatch.setattr(study, "table", lambda _: SimpleNamespace(to_dict=lambda: made_again))
    assert report.build_comparison(copy)["notes"] == data["notes"]
    saved["rows"][0]["cells"]["nll"]["values"][0] += 1e-9
    (copy / "table.json").write_text(json.dumps(saved))
    assert report.build_comparison(copy)["notes"] == ["made again"]
    (copy / "table.json").write_text("{")
    assert report.build_comparison(copy)["notes"] == ["made again"]


def test_curves_pool_the_seeds_and_errors_are_each_seeds_own(folder, data):
    for method in ("one-hot", "ts", "we"):
        everything = [result.test() for result in study.results(folder) if result.method == method]
        pool = data["curves"][method]
        assert sum(pool["prediction"]["count"]) == sum(map(len, everything)) == pool["num_samples"]
        for scope in ("prediction", "output"):
            for m in (5, 15, 50):
                expected = [
                    metrics.ece_hist(item.probabilities, item.known_labels, scope=scope, n_bins=m)
                    for item in everything
                ]
                assert pool[scope]["ece"][str(m)] == pytest.approx(expected, abs=1e-9)


def test_the_sweep_holds_every_value_that_was_tried(folder, data):
    assert data["sweep"]["letters"] == {"alpha": "α", "beta": "β"}
    points = data["sweep"]["points"]
    assert sorted((p["values"]["alpha"], p["values"]["beta"]) for p in points) == [
        (0.1, 1.0),
        (0.1, 4.0),
        (0.3, 1.0),
        (0.3, 4.0),
    ]
    assert sum(p["chosen"] for p in points) == 2  # one for each seed
    tried = [trial for result in study.results(folder) if result.method == "we" for trial in result.record["tried"]]
    first = points[0]
    nlls = [trial["validation"]["nll"]["value"] for trial in tried if trial["values"] == first["values"]]
    assert first["validation"]["nll"] == pytest.approx(sum(nlls) / 2)
    assert first["seeds"] == 2


def test_unknown_data_and_training_curves_are_there(folder, data):
    (uniform,) = data["ood"]
    assert uniform["name"] == "uniform"
    assert sum(uniform["count"]["we"]) == 200
    aurocs = [r.metrics["auroc uniform"].value for r in study.results(folder) if r.method == "ts"]
    assert uniform["auroc"]["ts"] == pytest.approx(sum(aurocs) / 2)
    assert {(line["method"], line["seed"]) for line in data["histories"]} == {
        ("one-hot", 0),
        ("one-hot", 1),
        ("we", 0),
        ("we", 1),
    }
    assert data["histories"][0]["epochs"] == [1, 2]
    assert len(data["histories"][0]["values"]["loss"]) == 2
    (alike,) = data["similarity"]
    assert alike["name"] == "WE"
    assert "word vectors" in alike["source"]


def test_plain_data_make_the_same_page(data):
    supplied = {key: data[key] for key in side_by_side.ALLOWED if key in data}
    assert report.build_comparison(supplied) == data


def test_the_page_leads_with_the_recommendation_and_draws_the_path_of_alpha(browser, data, tmp_path):
    said = ["One-hot training is over-confident.", "Use <b>TS</b>."]
    changed = json.loads(json.dumps({key: data[key] for key in side_by_side.ALLOWED if key in data}))
    changed["recommendation"] = said
    for line in changed["histories"]:
        line["values"]["alpha"] = [0.02 + 0.01 * place for place in range(len(line["epochs"]))]
        line["values"]["validation_nll"] = [None, 0.5]  # validated once, at the end
    page = browser.open(report.write_comparison(tmp_path / "page.html", changed)[0])
    assert page.texts(".story p") == said
    assert page.run("return document.querySelector('#answers').firstElementChild.id") == "headline"
    assert "α, adjusted by the validation gap" in page.texts("#training h3")
    seen = page.run(
        "const figure = Array.from(document.querySelectorAll('#training figure')).find((node) => "
        "node.querySelector('h3').textContent === 'Validation NLL');"
        "return figure.querySelectorAll('.chart svg .mark').length"
    )
    assert seen == 2  # a point for each of the two networks, as no line can show it
    assert page.console() == []


def test_the_table_alone_is_enough(browser, data, tmp_path):
    supplied = {key: data[key] for key in side_by_side.NEEDED}
    browser.open(report.write_comparison(tmp_path / "table.html", supplied)[0])
    assert browser.console() == []
    assert len(browser.texts("section")) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"curvs": {}}, "comparison data have no part 'curvs'; did you mean 'curves'\\?"),
        ({"table": None}, "comparison data must have 'table'; it is missing."),
        ({"histories": [{"method": "wee"}]}, "'histories' of the comparison data must use known methods, got 'wee'."),
    ],
)
def test_wrong_plain_data_are_one_sentence(data, change, words):
    supplied = {key: data[key] for key in side_by_side.NEEDED} | change
    supplied = {key: value for key, value in supplied.items() if value is not None}
    with pytest.raises(ValueError, match=words):
        report.build_comparison(supplied)


def test_a_folder_without_a_study_or_without_results(tmp_path, folder):
    with pytest.raises(SoftkinError, match="holds no study"):
        report.build_comparison(tmp_path)
    (tmp_path / "study.json").write_bytes((folder / "study.json").read_bytes())
    with pytest.raises(SoftkinError, match="holds no results yet; the page can be made once a method is done."):
        report.build_comparison(tmp_path)


# In the browser


def test_it_loads_without_a_complaint_and_without_a_request(page):
    page.run("document.getElementById('similarity').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('canvas.heat').width == 10")
    assert page.console() == []
    assert page.requests() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(modules, page, scheme):
    page.media(scheme=scheme)
    page.run("document.getElementById('similarity').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('canvas.heat').width == 10")
    page.run("document.querySelectorAll('details').forEach((node) => (node.open = true))")
    page.wait(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
    )  # they fill
    assert page.violations(modules) == []


def test_the_table_shows_best_and_ties(page, data):
    for row in data["table"]["rows"]:
        for key in ("accuracy", "ece_hist"):
            cell = row["cells"][key]
            shown = page.run(
                "const n = document.querySelector(`tr[data-method='${arguments[0]}'] [data-column='${arguments[1]}']`); return [n.dataset.value, n.querySelector('.best') !== null, n.textContent.includes('○')]",
                row["method"],
                key,
            )
            assert (float(shown[0]), *shown[1:]) == (
                cell["value"],
                cell["best"],
                not cell["tie"] and not cell["best"] and cell["p_value"] is not None,
            )
    page.click("[data-key='table-nll']")
    order = page.run("return Array.from(document.querySelectorAll('#table tbody tr'), (n) => n.dataset.method)")
    nll = {row["method"]: row["cells"]["nll"]["value"] for row in data["table"]["rows"]}
    assert order == sorted(nll, key=nll.get)


def test_methods_switch_on_and_off_and_bins_change_the_errors(page, data):
    lines = "return Array.from(document.querySelectorAll('#reliability figure:first-child path.line[data-method]'), (n) => n.dataset.method)"
    assert page.run(lines) == ["one-hot", "ts", "we"]
    page.click("input[data-method='ts']")
    assert page.run(lines) == ["one-hot", "we"]
    for stop, m in ((0, 5), (8, 50)):
        page.set("bins", stop)
        for scope in ("prediction", "output"):
            shown = page.run(
                "return Array.from(document.querySelectorAll(`output[data-key='ece-${arguments[0]}']`), (n) => [n.dataset.method, +n.dataset.value])",
                scope,
            )
            assert dict(shown) == pytest.approx(
                {k: sum(data["curves"][k][scope]["ece"][str(m)]) / 2 for k in ("one-hot", "we")}, abs=1e-12
            )


def test_the_surface_and_the_front_follow_the_metric(page, data):
    points = [p["validation"] for p in data["sweep"]["points"]]
    for metric in ("nll", "ece_hist", "accuracy"):
        page.choose("sweep-metric", metric)
        shown = page.run(
            "return Array.from(document.querySelectorAll('.surface rect[data-value]'), (n) => +n.dataset.value)"
        )
        assert sorted(shown) == pytest.approx(sorted(p[metric] for p in points))
        error = "ece_hist_output" if metric == "accuracy" else metric
        front = [
            p
            for p in points
            if not any(q["accuracy"] >= p["accuracy"] and q[error] <= p[error] and q != p for q in points)
        ]
        assert int(page.run("return document.querySelector('path.front').dataset.front")) == len(front)


def test_it_fits_desktop_and_phone_and_prints(page):
    for width in (1280, 390, 320):
        page.resize(width, 900, mobile=width < 500)
        assert page.run("return document.documentElement.scrollWidth") <= width
    page.media(scheme="dark", kind="print")
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.media()
    assert page.console() == []


def test_hostile_method_names_stay_text(browser, data, tmp_path):
    changed = json.loads(json.dumps({key: data[key] for key in side_by_side.ALLOWED if key in data}))
    bad = ["<img src=x onerror=alert(1)>", "y" * 10_000, "שלום\u202e"]
    for method, name in zip(changed["methods"], bad, strict=True):
        method["name"] = name
    changed["ood"][0]["name"] = changed["name"] = changed["source"] = changed["notes"][0] = bad[0]
    changed["class_names"][:3] = bad
    browser.resize(390, 844, mobile=True)
    page = browser.open(report.write_comparison(tmp_path / "hostile.html", changed)[0])
    assert page.console() == []
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.run("return document.documentElement.scrollWidth") <= 390
    assert bad[0] in page.text("#ood h3")


def twenty():
    """Twenty methods as plain data."""
    cells = {"count": [20] * 300, "score_sum": [20 * (j + 0.5) / 300 for j in range(300)], "hit_sum": [10] * 300}
    scope = cells | {"ece": {str(m): [0.1] for m in (5, 6, 10, 12, 15, 20, 25, 30, 50)}}
    methods = [{"key": f"k{i}", "name": f"method {i}"} for i in range(20)]
    rows = [{"method": m["key"], "cells": {"ece_hist": {"value": 0.1 + i / 100, "best": i == 0, "tie": False, "p_value": None}}, "chosen": None}
            for i, m in enumerate(methods)]  # fmt: skip
    column = {"key": "ece_hist", "title": "Hist P", "percent": True, "larger_is_better": False}
    return {
        "name": "twenty", "num_samples": 10, "num_classes": 2, "methods": methods, "table": {"columns": [column], "rows": rows},
        "curves": {m["key"]: {"num_samples": 10, "prediction": scope, "output": scope} for m in methods},
    }  # fmt: skip


def test_twenty_methods_stay_apart_in_small_charts_and_few_presses(browser, tmp_path):
    from selenium.webdriver import Keys

    browser.media()
    browser.resize(1280, 900)
    page = browser.open(report.write_comparison(tmp_path / "twenty.html", twenty())[0])
    looks = page.run(
        "return Array.from(document.querySelectorAll('.methods .swatch'), (n) => [n.querySelector('.line').getAttribute('class'), n.querySelector('.line').getAttribute('stroke-dasharray'), n.querySelector('.mark').getAttribute('d')])"
    )
    assert len({tuple(look) for look in looks}) == 20
    for a in range(20):
        for b in range(a):
            if looks[a][0] == looks[b][0]:
                assert looks[a][1] != looks[b][1]
                assert looks[a][2] != looks[b][2]
    page.wait("document.querySelectorAll('#reliability .multiple').length == 40")
    # One tab stop for all methods; End, Space reaches the last one.
    assert page.run("return document.querySelectorAll(\".methods input[tabindex='0']\").length") == 1
    page.driver.find_element("css selector", ".methods input").send_keys(Keys.END)
    page.driver.switch_to.active_element.send_keys(Keys.SPACE)
    page.wait("document.querySelectorAll('#reliability .multiple').length == 38")
    # A sorted column has one arrow, which the style draws; what is better stands in words.
    page.click("[data-key='table-ece_hist']")
    assert page.text("[data-key='table-ece_hist']") == "Hist P"
    assert page.text(".wish") == "lower is better"
    assert "ahead of all others" not in page.text("#answers")
    assert page.console() == []


def test_saved_small_charts_hold_their_charts(browser, tmp_path):
    """Each file has the line of each method and its name, and files of different charts differ."""
    from PIL import ImageChops

    shown = twenty()
    for place, curves in enumerate(shown["curves"].values()):
        output = {**curves["output"], "hit_sum": [0.2 * value for value in curves["output"]["hit_sum"]]}
        curves["output"] = output if place else curves["output"]
    browser.media()
    browser.resize(1280, 900)
    page = browser.open(report.write_comparison(tmp_path / "twenty.html", shown)[0])
    page.wait("document.querySelectorAll('#reliability .multiple').length == 40")
    page.catch()
    drawings, pictures = [], []
    for place in range(2):
        for kind, kept in (("svg", drawings), ("png", pictures)):
            page.run(
                "document.querySelectorAll(`#reliability [data-take='${arguments[0]}']`)[arguments[1]].click()",
                kind,
                place,
            )
            kept.append(page.saved()[1])
    for drawing in drawings:
        assert drawing.count('class="diagonal"') == 20
        assert drawing.count("data-method=") >= 20
        assert "twenty</text>" in drawing
        for method in shown["methods"]:
            assert f"{method['name']}</text>" in drawing
    first, second = map(picture, pictures)
    assert ImageChops.difference(first, second.resize(first.size)).getbbox() is not None
    inked = [sum(count for count, colour in one.getcolors(1 << 22) if min(colour) < 128) for one in (first, second)]
    assert min(inked) > 20_000  # axes, lines and names of twenty charts at twice the size


def test_a_study_prints_on_a4(page):
    """Nothing is wider than the paper, and the heads of a table that goes on are whole."""
    assert page.wider_than_a4() == []
