"""The report in a real browser: what it shows is what the library computes, and nothing else happens."""

import itertools
import re

import numpy as np
import pytest
import torch

from calibration_data import toy_predictions
from report_browser import picture
from softkin import calibrators, metrics, report, similarity, smoothing
from softkin.calibrators.held_out import cross_fit
from softkin.predictions import Predictions
from softkin.report import curves

pytestmark = pytest.mark.slow

K, N = 12, 900
HOSTILE = [
    "<script>document.title = 'owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "quote ' and \" and `${1}`",
    "x" * 10_000,
    "קטגוריה בעברית",
    "فئة عربية",
    "\u202eturned around",
    "line\nbreak\u2028and\x00more",
    "{{script}} {{data}}",
    "&amp; &lt;b&gt;",
    "emoji 👩‍🔬🧪",
    "__proto__",
]


def made(names, *, name):
    generator = torch.Generator().manual_seed(5)
    labels = torch.randint(K, (N,), generator=generator)
    logits = torch.randn(N, K, generator=generator)
    logits[torch.arange(N), labels] += 1.2
    logits[:, 3] += 0.8  # a class that is answered too often, so that temperature is not the best there is
    return Predictions(2.5 * logits, labels, class_names=names, name=name, sample_ids=[f"{name} {i}" for i in range(N)])


def spread(seed=0):
    points = np.random.default_rng(seed).normal(size=(K, 3))
    return np.linalg.norm(points[:, None] - points[None], axis=2)


@pytest.fixture(scope="module")
def predictions():
    return made([f"class {k}" for k in range(K)], name="toy")


@pytest.fixture(scope="module")
def data(predictions):
    images = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)
    return report.build(predictions, distances=spread(), images=images, texts=["some text"] * N, resamples=100)


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    return report.write(tmp_path_factory.mktemp("report") / "a report's #1 page.html", data)[0]


@pytest.fixture
def page(browser, path):
    browser.media()
    browser.resize(1280, 900)
    return browser.open(path)


@pytest.fixture(scope="module")
def variants(predictions, data):
    """The probabilities behind each switch of the page, from the library."""
    z, y = predictions.logits, predictions.known_labels
    by_name = {calibrator["name"]: calibrator["code"] for calibrator in data["calibrators"]}
    actual = [predictions.probabilities]
    for variant in data["variants"][1:]:
        made_by = eval(by_name[variant["name"]], vars(calibrators).copy())
        actual.append(cross_fit(made_by, z, y, folds=2, from_probabilities=False, seed=0))
    return actual


def test_it_loads_without_a_complaint_and_without_a_request(page):
    page.run("scrollTo(0, document.body.scrollHeight)")
    page.click("details.numbers summary")
    page.click("button.disclose")
    assert page.console() == []
    assert page.requests() == []
    assert (
        page.run("return performance.getEntriesByType('resource').filter((r) => !r.name.startsWith('data:')).length")
        == 0
    )


def test_no_request_can_be_made_from_it(page):
    # What the page's policy forbids stays forbidden, also to code that would find its way in.
    page.run("const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i);")
    blocked = page.run("return fetch('https://example.org/').then(() => 'went through', () => 'blocked')")
    assert blocked == "blocked"
    assert any("Content Security Policy" in line for line in page.console())


def test_bins_change_the_errors_as_in_the_library(page, predictions, variants):
    y = predictions.known_labels
    assert len(variants) == 3
    for place, p in enumerate(variants):
        page.choose("variant", place)
        for stop, m in enumerate(curves.BINS):
            page.set("bins", stop)
            for scope in ("prediction", "output"):
                assert page.number(f"reliability-{scope}") == pytest.approx(
                    metrics.ece_hist(p, y, scope=scope, n_bins=m), abs=1e-9
                )
    bars = page.run("return document.querySelector('#reliability .chart svg').querySelectorAll('.zone').length")
    assert bars == 50


def test_the_calibrator_switches_everything(page, predictions, variants, data):
    y = predictions.known_labels
    assert [v["key"] for v in data["variants"]] == ["raw", "temperature", "best"]
    for place, p in enumerate(variants):
        page.choose("variant", place)
        assert page.number("nll") == pytest.approx(metrics.nll(p, y), abs=1e-9)
        assert page.number("accuracy") == pytest.approx(metrics.accuracy(p, y), abs=1e-12)
        assert page.number("signed_gap") == pytest.approx(metrics.signed_gap(p, y), abs=1e-9)
        assert page.number("mean-confidence") == pytest.approx(float(p.amax(1).mean()), abs=1e-9)
        assert (data["variants"][place]["verdict"]["headline"][1:] in page.text("#numbers h2")) == (place > 0)
    assert page.text("h1").replace("\u202f", " ") == data["variants"][0]["verdict"]["headline"]
    # ECE fell for certain; accuracy did not move: nothing is said of it.
    assert page.texts(".metric .change")[1].startswith("better than ")
    page.choose("variant", 1)
    assert page.texts(".metric .change")[0] == ""
    page.choose("variant", 2)
    assert "Cross-fitted in two folds on this one file" in page.text(".sticky .note")
    page.click("button[data-show='0']")
    assert page.number("nll") == pytest.approx(metrics.nll(variants[0], y), abs=1e-9)
    assert page.run("return document.querySelector('button[data-show=\"0\"]').getAttribute('aria-pressed')") == "true"


def test_labels_are_computed_by_the_librarys_formula(page, data):
    d = spread()
    page.run("document.querySelector('#similarity .label details').open = true")
    page.wait("document.querySelectorAll('#similarity td [data-label]').length > 0")
    for own, alpha, beta in ((0, 0.1, 2.0), (5, 0.0, 0.5), (7, 0.37, 6.0), (11, 0.99, 12.0), (3, 0.2, 0.0)):
        page.set("search", f"class {own}")
        page.run(
            "Array.from(document.querySelectorAll('.matches button')).find((b) => b.textContent === arguments[0]).click()",
            f"class {own}",
        )
        page.set("alpha", alpha)
        page.set("beta", beta)
        rows = page.run(
            "return Array.from(document.querySelectorAll('#similarity td [data-label]'), (n) => [+n.dataset.class, +n.dataset.label, +n.dataset.similarity])"
        )
        assert len(rows) == K
        s = similarity.from_distances(d, beta)
        labels = smoothing.similarity_labels(s, alpha)[own]
        for k, label, alike in rows:
            assert label == pytest.approx(float(labels[k]), abs=1e-6)
            assert alike == pytest.approx(float(s[own, k]), abs=1e-6)
        bars = page.run(
            "return Array.from(document.querySelectorAll('.label .bars [data-label]'), (n) => [+n.dataset.class, +n.dataset.label])"
        )
        assert bars[0][0] == own
        assert all(label == pytest.approx(float(labels[k]), abs=1e-6) for k, label in bars)


def test_the_heat_map_is_drawn_and_chooses(page, data):
    page.run("document.getElementById('similarity').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('canvas.heat').width == 12")
    # Line 4 of the picture, counted from the top, by a real click.
    from selenium.webdriver import ActionChains

    canvas = page.driver.find_element("css selector", "canvas.heat")
    page.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    size = canvas.size["height"]
    ActionChains(page.driver).move_to_element_with_offset(
        canvas, -size / 4, int(-size / 2 + (4 + 0.5) * size / K)
    ).click().perform()
    assert page.text(".label h3") == f"The label of class {data['similarity']['order'][4]}"
    page.run("document.querySelectorAll('dialog').forEach((node) => node.close())")
    # By keyboard: to the first cell, two lines down, chosen.
    from selenium.webdriver import Keys

    canvas.send_keys(Keys.HOME + Keys.ARROW_DOWN * 2 + Keys.ENTER)
    assert page.text(".label h3") == f"The label of class {data['similarity']['order'][2]}"
    page.run("document.querySelectorAll('dialog').forEach((node) => node.close())")
    # The most similar pair of a line is its darkest cell.
    own = data["similarity"]["order"][4]
    s = similarity.from_distances(spread(), 2.0)[own][data["similarity"]["order"]]
    pixels = page.run(
        "const c = document.querySelector('canvas.heat'); return Array.from(c.getContext('2d').getImageData(0, 4, c.width, 1).data)"
    )
    assert int(np.array(pixels).reshape(-1, 4)[:, :3].sum(axis=1).argmin()) == int(s.argmax())


def test_a_cell_of_the_heat_map_lists_the_samples_of_its_line_answered_with_its_column(page, data, predictions):
    from selenium.webdriver import Keys

    page.run("document.getElementById('similarity').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('canvas.heat').width == 12")
    canvas = page.driver.find_element("css selector", "canvas.heat")
    y, answer, order = predictions.known_labels, predictions.probabilities.argmax(1), data["similarity"]["order"]
    samples = {(i, j): ((y == order[i]) & (answer == order[j])).nonzero()[:, 0].tolist() for i in range(K) for j in range(K)}  # fmt: skip
    most = max((pair for pair in samples if pair[0] != pair[1]), key=lambda pair: len(samples[pair]))
    for line, column in (most, (2, 2)):
        canvas.send_keys(Keys.HOME + Keys.ARROW_DOWN * line + Keys.ARROW_RIGHT * column)
        assert f"answered this way {len(samples[line, column])}×" in page.text("#similarity .tip")
        assert "click or Enter for the samples" in page.text("#similarity .tip")
        canvas.send_keys(Keys.ENTER)
        assert page.text("dialog h2").replace("\u2068", "").replace("\u2069", "") == f"class {order[line]} answered as class {order[column]}"  # fmt: skip
        assert page.text("dialog .note").startswith(f"{len(samples[line, column])} sample")
        shown = page.run("return Array.from(document.querySelectorAll('dialog [data-row]'), (n) => +n.dataset.row)")
        assert set(shown) <= set(samples[line, column])
        assert len(shown) == min(24, len(samples[line, column]))
        page.click("[data-key='close-samples']")
        assert page.run("return document.activeElement.matches('canvas.heat')")
    empty = next((pair for pair, rows in samples.items() if not rows), None)
    assert empty is not None
    canvas.send_keys(Keys.HOME + Keys.ARROW_DOWN * empty[0] + Keys.ARROW_RIGHT * empty[1] + Keys.ENTER)
    assert page.run("return document.querySelector('dialog')") is None  # no list of nothing, only the line is chosen
    assert page.text(".label h3") == f"The label of class {order[empty[0]]}"


def test_classes_sort_by_calibration_and_open(page, predictions):
    p, y = predictions.probabilities, predictions.known_labels
    score, answer = p.max(1)
    gap = {k: float((score[answer == k] - (y[answer == k] == k).double()).mean()) for k in range(K)}
    page.click("[data-key='sort-gap']")
    assert page.texts("button.disclose") == [f"class {k}" for k in sorted(gap, key=lambda k: -gap[k])]
    assert page.run("return document.querySelector('th.gap').getAttribute('aria-sort')") == "descending"
    page.click("[data-key='sort-gap']")
    assert page.texts("button.disclose") == [f"class {k}" for k in sorted(gap, key=lambda k: gap[k])]
    worst = page.text("button.disclose")
    page.click("button.disclose")
    assert page.run("return document.querySelector('button.disclose').getAttribute('aria-expanded')") == "true"
    k = int(worst.split()[1])
    assert f"Of {int((y == k).sum())} samples" in page.text("tr.detail").replace("\u2068", "").replace("\u2069", "")
    page.wait("document.querySelectorAll('tr.detail .zone').length == 15")
    page.set("class-filter", "class 1")
    assert sorted(page.texts("button.disclose")) == ["class 1", "class 10", "class 11"]


def test_gaps_of_classes_are_marked_by_intervals_that_hold_together(page, predictions):
    """The interval of each class's share of right answers is corrected for as many as there are classes."""
    from scipy.stats import binomtest

    p, y = predictions.probabilities, predictions.known_labels
    score, answer = p.max(1)
    page.run("document.querySelector('button.more')?.click()")
    said = dict(zip(page.texts("button.disclose"), page.texts("td.gap"), strict=True))
    labels = page.run("return Array.from(document.querySelectorAll('.dumbbell'), (n) => n.getAttribute('aria-label'))")
    for (name, text), label in zip(said.items(), labels, strict=True):
        own = answer == int(name.split()[1])
        hits, n, sure = int((y == answer)[own].sum()), int(own.sum()), float(score[own].mean())
        low, high = binomtest(hits, n).proportion_ci(1 - 0.05 / K, method="wilson")
        assert ("may be chance" in text) == (low <= sure <= high)
        assert f"({100 * low:.1f}\u202f% to {100 * high:.1f}\u202f%)" in label


def test_the_threshold_moves_by_keyboard_and_by_drag(page, predictions, data):
    from selenium.webdriver import ActionChains, Keys

    p, y = predictions.probabilities, predictions.known_labels
    score, answer = p.max(1)

    def holds():
        t = page.number("threshold")
        kept = score >= t
        assert page.number("coverage") == pytest.approx(float(kept.double().mean()), abs=1e-9)
        assert page.number("risk") == pytest.approx(float((answer != y)[kept].double().mean()), abs=1e-9)
        return t

    start = holds()  # the certified threshold, where there is one
    rule = data["variants"][0]["abstention"]["rule"]
    assert page.number("coverage") == (1 if rule is None else rule["coverage"])
    page.driver.find_element("css selector", "[data-key='threshold']").send_keys(Keys.ARROW_RIGHT * 5)
    by_keys = holds()
    assert by_keys > start
    chart = page.driver.find_element("css selector", "#abstain svg")
    page.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    drag = ActionChains(page.driver).move_to_element(chart).click_and_hold()
    chart_width = chart.size["width"]
    drag.move_by_offset(-int(chart_width * 0.2), 0).release().perform()
    assert holds() > by_keys
    assert 0.15 < page.number("coverage") < 0.4
    shown = page.run("return document.querySelector('#abstain [data-certified]')?.dataset.certified ?? null")
    assert (None if shown is None else float(shown)) == (None if rule is None else rule["threshold"])
    said = re.sub(
        r"0\.\d{3,}", lambda found: f"{100 * float(found[0]):.6g} %", data["variants"][0]["abstention"]["text"]
    )
    assert page.text("#certified").replace("\u202f%", " %") == ("" if rule is None else said)  # the buttons say it
    least = next(one["target"] for one in data["variants"][0]["certified"] if one["is_least"])
    assert f"that a threshold keeps is {100 * least:g}\u202f%" in page.text("#abstain [data-key='least']")
    for certified in data["variants"][0]["certified"]:
        button = f"button[data-aim='{certified['target']}']"
        if certified["rule"] is None:
            assert page.run("return document.querySelector(arguments[0]).disabled", button)
        else:
            page.click(button)
            assert holds() > certified["rule"]["threshold"]  # the score of the last that is answered
            assert page.number("coverage") == certified["rule"]["coverage"]
            assert certified["rule"]["bound"] <= certified["target"]


def test_charts_speak_by_keyboard(page):
    from selenium.webdriver import Keys

    chart = page.driver.find_element("css selector", "#reliability .chart svg")
    chart.send_keys(Keys.END)
    said = page.text("#reliability .tip")
    assert "93.3 to 100" in said
    assert "claimed" in said
    chart.send_keys(Keys.ESCAPE)
    assert page.run("return document.querySelector('#reliability .tip').hidden")


def test_everything_has_a_name_for_those_who_do_not_see_it(page):
    for selector in ("svg[role=img]", "canvas"):
        assert all(
            page.run(
                "return Array.from(document.querySelectorAll(arguments[0]), (n) => n.getAttribute('aria-label'))",
                selector,
            )
        )
    nameless = "return Array.from(document.querySelectorAll('input')).filter((n) => !n.labels.length).length"
    assert page.run(nameless) == 0
    assert all(text.strip() for text in page.texts("button"))
    assert page.run("return document.querySelectorAll('img:not([alt])').length") == 0
    levels = page.run("return Array.from(document.querySelectorAll('h1, h2, h3, h4'), (n) => +n.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.run("return document.documentElement.lang") == "en"


def test_tables_stand_in_for_charts(page):
    page.run("document.querySelectorAll('#reliability details').forEach((d) => (d.open = true))")
    page.wait("document.querySelectorAll('#reliability tbody tr').length == 30")
    page.set("bins", 0)
    assert page.run("return document.querySelectorAll('#reliability tbody tr').length") == 10


def luminance(rgb):
    linear = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page, selector):
    """The WCAG ratio of a text and what it stands on."""
    script = """
      const node = document.querySelector(arguments[0]);
      let ground = node;
      while (ground && getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') ground = ground.parentElement;
      const parse = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      return [parse(getComputedStyle(node).color), parse(getComputedStyle(ground).backgroundColor)];
    """

    a, b = sorted(map(luminance, page.run(script, selector)))
    return (b + 0.05) / (a + 0.05)


def test_light_and_dark_follow_the_system_and_the_button(page):
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.media(scheme="dark")
    dark = page.run(ground)
    assert light != dark
    page.click("[data-key='theme']")
    assert page.run(ground) == light
    page.click("[data-key='theme']")
    assert page.run(ground) == dark
    page.run("localStorage.clear()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(page, scheme):
    page.media(scheme=scheme)
    for selector in (
        "p.lead",
        "h1",
        ".note",
        ".metric-name",
        "nav a",
        ".over-text",
        "thead th button",
        ".options label",
        "details summary",
    ):
        assert contrast(page, selector) >= 4.5, selector


@pytest.mark.parametrize(
    ("width", "height", "mobile"), [(1280, 900, False), (768, 1024, False), (390, 844, True), (320, 700, True)]
)
def test_it_fits_desktop_and_phone(page, tmp_path, width, height, mobile):
    from PIL import Image

    page.resize(width, height, mobile=mobile)
    page.click("button.disclose")
    assert page.run("return document.documentElement.scrollWidth") <= width
    picture = Image.open(page.screenshot(tmp_path / "page.png"))
    assert picture.width == width
    assert len(np.unique(np.asarray(picture.convert("L").resize((40, 200))))) > 40  # something is drawn


def test_it_prints_light_and_without_controls(page):
    page.media(scheme="dark", kind="print")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("return document.querySelector('canvas.heat').width") == K  # also where nobody had scrolled to it
    places = page.run("return Array.from(document.querySelectorAll('.heat-lines text'), (n) => n.getAttribute('y'))")
    assert places
    assert all(place.endswith("%") for place in places)  # paper has another width, and nothing is drawn again for it
    printed = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(printed) > 50_000
    page.media()


def test_a_bin_lists_its_samples_and_saves_them(page, predictions, variants):
    import csv
    import io

    from selenium.webdriver import Keys

    page.catch()
    y = predictions.known_labels
    for place in (0, 2):
        page.choose("variant", place)
        score, answer = variants[place].max(1)
        bin_ = int((score * 15).ceil().long().bincount().argmax()) - 1
        last = ((score > bin_ / 15) & (score <= (bin_ + 1) / 15)).nonzero()[:, 0].tolist()
        chart = page.driver.find_element("css selector", "#reliability .chart svg")
        chart.send_keys(Keys.END + Keys.ARROW_LEFT * (14 - bin_) + Keys.ENTER)
        assert page.text("dialog h2").startswith("Answers given with ")
        assert page.text("dialog .note").startswith(
            f"{len(last)} samples, {int((answer != y)[last].sum())} answered wrongly"
        )
        page.click("[data-key='save-samples']")
        kind, text = page.saved()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert kind == "text/csv"
        assert sorted(int(row["row"]) for row in rows) == last
        assert {row["id"] for row in rows} == {f"toy {row}" for row in last}
        for row in rows[:20]:
            at = int(row["row"])
            assert row["true class"] == f"class {int(y[at])}"
            assert row["answer"] == f"class {int(answer[at])}"
            assert float(row["confidence"]) == pytest.approx(float(score[at]), abs=2e-5)
        page.click("[data-key='close-samples']")
        assert page.run("return document.activeElement === document.querySelector('#reliability .chart svg')")
    page.choose("variant", 0)
    score, answer = variants[0].max(1)
    page.click("button.disclose")
    k = int(page.text("button.disclose").split()[1])
    page.click("[data-key='class-samples']")
    assert page.text("dialog .note").startswith(f"{int((y == k).sum())} samples")
    page.click("[data-key='close-samples']")
    other = int(page.text("tr.detail li").split()[1].split("\u2069")[0])
    page.click("tr.detail li button")
    assert page.text("dialog .note").startswith(f"{int(((y == k) & (answer == other)).sum())} sample")
    page.click("[data-key='close-samples']")


def test_every_chart_has_its_table_and_its_files(page):
    page.catch()
    page.click("button.disclose")
    page.run("document.getElementById('similarity').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('canvas.heat').width == 12")
    charts = page.run("return document.querySelectorAll('main .chart').length")
    assert charts == 6
    assert (
        page.run(
            "return Array.from(document.querySelectorAll('main .chart'), (n) => n.closest('figure').querySelectorAll('details, [data-take]').length)"
        )
        == [4] * charts
    )
    for place in range(charts):
        for kind, expected in (("svg", "image/svg+xml"), ("csv", "text/csv"), ("png", "image/png")):
            page.run(
                "document.querySelectorAll(`main [data-take='${arguments[0]}']`)[arguments[1]].click()", kind, place
            )
            names, content = page.saved()
            assert names == expected
            if kind == "svg":
                assert content.startswith("<svg")
                assert "var(--" not in content
                assert "toy</text>" in content  # what it is of
            elif kind == "csv":
                assert content.count("\r\n") > 5
            else:
                assert len(picture(content).getcolors(1 << 20)) > 20
    page.click("[data-key='card']")
    _, content = page.saved()
    card = picture(content)
    assert card.size == (1200, 630)
    drawn = card.crop((640, 110, 1140, 460)).resize((50, 35))  # the picture stands beside the words, and is no blank
    assert len(drawn.getcolors(2000)) > 20
    assert page.console() == []


def test_the_buttons_of_a_figure_are_one_stop_of_the_tab_key(page):
    stops = page.run(
        "return Array.from(document.querySelectorAll('.takes'), (n) => n.querySelectorAll('[tabindex=\"0\"]').length)"
    )
    assert set(stops) == {1}
    names = page.run(
        "const holder = document.querySelector('.takes'), [first] = holder.children; first.focus(); const seen = [];"
        "for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft']) {"
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
        "seen.push(document.activeElement.textContent); } return seen"
    )
    assert names == ["PNG", "CSV", "CSV", "PNG"]


def test_a_copied_row_pastes_as_one_row(page):
    page.run("document.querySelectorAll('details.numbers').forEach((node) => (node.open = true))")
    page.wait("document.querySelectorAll('#calibrators tr').length > 2")
    text = page.run(
        "const row = document.querySelectorAll('#calibrators tr')[1]; getSelection().selectAllChildren(row);"
        "const kept = new DataTransfer(); document.dispatchEvent(new ClipboardEvent('copy', {clipboardData: kept, bubbles: true, cancelable: true}));"
        "return kept.getData('text/plain')"
    )
    assert "\n" not in text
    assert text.split("\t")[0] == "As it is"
    assert len(text.split("\t")) == page.run("return document.querySelectorAll('#calibrators tr')[1].cells.length")
    one = page.run(
        "getSelection().selectAllChildren(document.querySelector('#calibrators p')); const kept = new DataTransfer();"
        "const event = new ClipboardEvent('copy', {clipboardData: kept, bubbles: true, cancelable: true});"
        "document.dispatchEvent(event); return event.defaultPrevented"
    )
    assert one is False  # prose is copied as it is


def test_the_address_keeps_the_state(page, path):
    from selenium.webdriver import Keys

    page.choose("variant", 1)
    page.set("bins", 0)
    page.driver.find_element("css selector", "button.disclose").send_keys(Keys.ENTER)
    name = page.text("button.disclose")
    page.wait("location.hash.includes('class=')")
    hash_ = page.run("return location.hash")
    section, *values = hash_[1:].split("&")
    assert sorted(values) == sorted(["calibrator=temperature", "bins=5", f"class={name.replace(' ', '%20')}"])
    assert section == "classes"  # where the reader was
    page.driver.get("about:blank")
    page.driver.get(path.resolve().as_uri() + hash_.replace("temperature", "ts"))
    page.wait("performance.getEntriesByName('softkin-complete').length > 0")
    assert page.run("return document.querySelector('input[data-key=variant]:checked').value") == "1"
    assert page.run("return document.querySelectorAll('tr.detail').length") == 1
    assert page.text("button.disclose[aria-expanded='true']") == name
    assert page.run("return document.querySelector('#reliability .chart svg').querySelectorAll('.zone').length") == 5


@pytest.mark.parametrize("address", ["#abstain&threshold=0.9", "#decisions&calibrator=temperature", "#abstain"])
def test_a_link_lands_on_its_section(page, path, address):
    page.driver.get("about:blank")
    page.driver.get(path.resolve().as_uri() + address)
    page.wait("performance.getEntriesByName('softkin-complete').length > 0")
    section = address[1:].split("&")[0]
    page.wait(f"Math.abs(document.getElementById('{section}').getBoundingClientRect().top) < 200")
    page.run("dispatchEvent(new Event('wheel')); scrollTo({top: 0, behavior: 'instant'})")
    page.choose("variant", 1)  # what moves the page later does not pull the reader back
    assert page.run("return scrollY") < 600


def test_the_focus_stays_where_it_was(page):
    from selenium.webdriver import Keys

    first = page.driver.find_element("css selector", "button.disclose")
    first.send_keys(Keys.ENTER)
    assert page.run("return document.activeElement.matches('button.disclose[aria-expanded=true]')")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.run("return document.activeElement.matches('button.disclose[aria-expanded=false]')")
    page.driver.find_element("css selector", ".label button.link").send_keys(Keys.ENTER)
    assert page.run("return document.activeElement.matches('.label h3')")


def test_what_a_finger_chose_stays(page):
    page.resize(390, 844, mobile=True)
    page.run("document.querySelector('#reliability .chart').scrollIntoView({block: 'center', behavior: 'instant'})")
    box = page.run(
        "const b = document.querySelector('#reliability .chart svg').getBoundingClientRect(); return [b.left + b.width * 0.8, b.top + b.height * 0.4]"
    )
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for kind, points in (("touchStart", [{"x": box[0], "y": box[1]}]), ("touchEnd", [])):
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait("!document.querySelector('#reliability .tip').hidden")
    assert "claimed" in page.text("#reliability .tip")
    assert "tap again for the samples" in page.text("#reliability .tip")
    page.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_phone_shows_the_column_that_it_sorts_by(page):
    page.resize(390, 844, mobile=True)
    for key in ("adds", "right", "ece"):
        if key != "adds":
            page.run("document.querySelector(`[data-key='sort-${arguments[0]}']`).click()", key)
        seen = page.run(
            "return Array.from(document.querySelectorAll('.classes thead th'), (n) => [n.classList[0], n.offsetWidth > 0])"
        )
        assert dict(seen)[key]
        assert page.run("return document.querySelector(`.classes td.${arguments[0]}`).offsetWidth > 0", key)
        assert page.run("return document.documentElement.scrollWidth") <= 390


def test_scales_have_ends_and_frames_that_can_be_seen(page, data):
    ends = page.run(
        "return Object.fromEntries(Array.from(document.querySelectorAll('.metric[data-metric]'), (n) => [n.dataset.metric, n.querySelector('.ends').textContent]))"
    )
    assert ends["brier"].startswith("0")
    assert ends["accuracy"] == "0\u202f%100\u202f%"
    at = page.run("return parseFloat(document.querySelector(\".metric[data-metric='brier'] .dot\").style.left)")
    high = float(ends["brier"][1:].partition(" (of 2)")[0])
    assert at == pytest.approx(100 * data["variants"][0]["metrics"]["brier"]["value"] / high, abs=0.1)
    for scheme in ("light", "dark"):
        page.media(scheme=scheme)
        border, ground = page.run(
            "const n = document.querySelector('.scale .calm'); return [getComputedStyle(n).borderTopColor, getComputedStyle(n.closest('.card')).backgroundColor].map((c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number))"
        )
        a, b = sorted(map(luminance, (border, ground)))
        assert (b + 0.05) / (a + 0.05) >= 3
    colours = page.run(
        "const s = getComputedStyle(document.documentElement); return ['--under', '--good', '--over', '--bad'].map((c) => s.getPropertyValue(c).trim())"
    )
    assert colours[0] != colours[1]


def test_it_reads_without_its_script(browser, path, data):
    browser.media()
    browser.resize(1280, 900)
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(path.resolve().as_uri())
        body = browser.driver.find_element("css selector", "body").text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    for words in (
        "Can I trust it?",
        "Where not?",
        "What to do",
        data["variants"][0]["verdict"]["headline"],
        "Divide the logits by",
        "NLL (nats)",
    ):
        assert words in body.replace("\u202f", " ")


def test_motion_is_reduced_where_that_is_asked_for(page):
    features = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    assert page.run("return getComputedStyle(document.querySelector('.scale .dot')).transitionDuration") in (
        "0s",
        "0s, 0s",
    )
    assert (
        page.run("return getComputedStyle(document.querySelector('.disclose'), '::before').transitionDuration") == "0s"
    )
    page.media()


def test_hostile_names_stay_text(browser, tmp_path):
    hostile = made(HOSTILE, name=HOSTILE[0])
    data = report.build(
        hostile, distances=spread(), texts=[HOSTILE[1]] * N, source=HOSTILE[1], candidates=[], resamples=100
    )
    browser.media()
    browser.resize(390, 844, mobile=True)
    page = browser.open(report.write(tmp_path / "hostile.html", data)[0])
    page.click("button.more")
    for place in range(3):
        page.run("document.querySelectorAll('button.disclose')[arguments[0]].click()", place)
    page.set("search", "e")
    page.run("document.querySelector('#similarity details').open = true")
    page.run("document.getElementById('similarity').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('canvas.heat').width == 12")
    assert page.console() == []
    assert page.requests() == []
    assert page.run("return document.title").startswith("<script>document.title")
    assert page.run("return document.querySelectorAll('script').length") == 2
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.run("return document.documentElement.scrollWidth") <= 390
    shown = page.texts("button.disclose")
    assert "<script>document.title = 'owned'</scrip…" in shown
    assert HOSTILE[2] in shown
    assert HOSTILE[4] in shown
    assert "x" * 39 + "…" in shown
    assert "\ufffdturned around" in shown  # a mark that turns all that follows is shown as a mark
    assert "&amp; &lt;b&gt;" in shown
    assert "{{script}} {{data}}" in shown


def test_few_samples_no_names_and_no_extras_make_a_page_too(browser, tmp_path):
    browser.media()
    browser.resize(1280, 900)
    tiny = Predictions(torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 0]))
    page = browser.open(report.write(tmp_path / "tiny.html", report.build(tiny, resamples=100))[0])
    assert page.console() == []
    assert "Not one of the 3 answers is wrong." in page.text("#mistakes")
    assert "Not tried" in page.text("#calibrators")
    never = Predictions.from_probabilities(torch.eye(3)[[1, 1, 2] * 30], torch.tensor([0, 1, 2] * 30))
    page.open(report.write(tmp_path / "infinite.html", report.build(never, candidates=[], resamples=100))[0])
    assert page.console() == []
    assert page.text("output[data-key='nll']") == "∞"


def test_unknown_data_and_members_have_a_section(browser, predictions, tmp_path):
    noise = torch.rand(3, N, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(2)
    members = 0.9 * predictions.probabilities + 0.1 * noise
    known = Predictions.from_probabilities(members.mean(0), predictions.labels, members=members)
    unknown = Predictions.from_probabilities(noise.mean(0), members=noise, name="<b>noise</b>")
    plain = report.build(known, candidates=[], resamples=100)
    page = browser.open(report.write(tmp_path / "members.html", plain)[0])
    assert page.text("#unknown h2") == "Where the members disagree"
    data = report.build(known, unknown=[unknown], candidates=[], resamples=100)
    page.open(report.write(tmp_path / "unknown.html", data)[0])
    assert page.console() == []
    (measured,) = data["out_of_distribution"]
    cells = page.run(
        "return [...document.querySelectorAll('#unknown tbody tr')].map((row) => [...row.children].map((cell) => "
        "cell.querySelector('[data-value]') ? Number(cell.querySelector('[data-value]').dataset.value) : cell.textContent))"
    )
    scores = measured["scores"]
    assert cells[0] == ["<b>noise</b>", N, "the winning score", *scores["confidence"].values()]
    assert cells[1] == ["<b>noise</b>", N, "the members' disagreement", *scores["mutual_information"].values()]
    errors = data["mutual_information"]["auroc_of_errors"]
    assert [row[3] for row in cells[2:]] == [errors["confidence"], errors["mutual_information"]]
    page.open(report.write(tmp_path / "none.html", report.build(predictions, candidates=[], resamples=100))[0])
    assert page.run("return document.getElementById('unknown')") is None


def test_a_mistake_shows_bars_only_where_they_say_something(browser, tmp_path):
    """A network that is certain has one full bar and two empty ones, as its sentence says already."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (300,), generator=generator)
    logits = torch.randn(300, 4, generator=generator)
    logits[torch.arange(300), labels] += 2
    logits[:6] = 0
    logits[torch.arange(6), (labels[:6] + 1) % 4] = 30.0  # certain, and wrong
    labels[:3], logits[:3] = labels[0].clone(), logits[0].clone()  # three times the same pair
    images = np.zeros((300, 8, 8, 3), dtype=np.uint8)
    made = report.build(
        Predictions(logits, labels, class_names=["ant", "bee", "cat", "dog"]), images=images, resamples=100
    )
    page = browser.open(report.write(tmp_path / "page.html", made)[0])
    page.wait("document.querySelectorAll('#mistakes .mistake').length > 0")
    cards = page.run(
        "return Array.from(document.querySelectorAll('#mistakes .mistake'), (n) => [n.querySelector('.claim-text').textContent, "
        "n.querySelectorAll('.bars .barline').length, n.querySelector('div').getBoundingClientRect().left - "
        "n.querySelector('img').getBoundingClientRect().right])"
    )
    certain = [bars for text, bars, _ in cards if text.startswith("100.0")]
    assert certain
    assert set(certain) == {0}
    assert all(bars == 3 for text, bars, _ in cards if not text.startswith(("100", "99")))
    assert all(apart < 20 for *_, apart in cards)  # the words are beside their picture


def test_calibrators_have_three_digits(browser, tmp_path):
    page = browser.open(report.write(tmp_path / "page.html", report.build(toy_predictions(n=400), resamples=100))[0])
    page.wait("document.querySelector('#calibrators table')")
    cells = page.texts("#calibrators tbody td")
    shown = [cell for cell in cells if "%" in cell]
    assert shown
    assert all(len(cell.replace("\u202f%", "").replace(".", "").lstrip("0")) <= 4 for cell in shown)
    assert not any(re.search(r"\d\d\.\d\d", cell) for cell in shown)


def test_the_address_names_the_section_that_was_clicked_without_focus(browser, tmp_path):
    """Some browsers do not focus a button that is clicked."""
    page = browser.open(report.write(tmp_path / "page.html", report.build(toy_predictions(n=800), resamples=100))[0])
    page.run("document.querySelector('#abstain').dispatchEvent(new Event('pointerdown', {bubbles: true}))")
    page.set("threshold", 5)
    page.wait("location.hash.includes('threshold')")
    assert page.run("return location.hash").startswith("#abstain&")


def test_a_long_arabic_name_keeps_its_beginning(browser, tmp_path):
    """The bar's label is cut at the end of the name, which is at the left."""
    names = ["القطط الصغيرة جدا التي تعيش في البيت", "الكلاب الكبيرة التي تحرس المزرعة القديمة", "a", "b", "c"]
    made = toy_predictions(n=200, k=5)
    points = np.random.default_rng(0).normal(size=(5, 3))
    far = np.linalg.norm(points[:, None] - points[None], axis=2)
    rows = Predictions(made.logits, made.known_labels, class_names=names)
    page = browser.open(report.write(tmp_path / "page.html", report.build(rows, distances=far, resamples=100))[0])
    cut = page.run(
        "return Array.from(document.querySelectorAll('#similarity .who bdi'), (node) => [node.textContent[0], "
        "getComputedStyle(node).direction, node.getBoundingClientRect().right - "
        "node.closest('.who').getBoundingClientRect().right]).filter(([letter]) => letter === 'ا')"
    )
    assert cut
    assert all(direction == "rtl" and beyond <= 0.5 for _, direction, beyond in cut)
