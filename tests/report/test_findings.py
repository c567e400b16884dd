"""Pages of what commands compare: their numbers are those of --json, and limits have ✓ and ✗."""

import json

import numpy as np
import pytest

from command_line import run
from places import ROOT
from softkin import report
from softkin.evaluation import monitoring
from softkin.report import findings

VALIDATION, TEST = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))
COMMANDS = {
    "of_calibrators": ["calibrate", "compare", VALIDATION, TEST, "--methods", "temperature,vector", "--resamples", 100],
    "of_rules": ["decide", "compare", VALIDATION, TEST],
    "of_audition": ["similarity", "audition", "digits", "--against", VALIDATION, "--resamples", 100],
    "of_limits": ["check", TEST, "--max", "ece=5%", "--max", "gap=3%", "--min", "accuracy=80%"],
}


@pytest.mark.parametrize("build", COMMANDS)
def test_the_page_shows_the_numbers_of_json(build, tmp_path, capsys):
    page = tmp_path / "page.html"
    code, output, _ = run(capsys, *COMMANDS[build], "--json", "--report", page)
    assert code == (build == "of_limits")  # a limit is broken
    printed, shown = json.loads(output), json.loads(page.with_suffix(".json").read_text())
    lines = printed.get("methods") or printed.get("rules") or printed.get("candidates") or printed["limits"]
    assert len(shown["rows"]) == len(lines)
    for row, line in zip(shown["rows"], lines, strict=True):
        measured = line.get("metrics") or line.get("measures") or line
        for key, cell in row["cells"].items():
            own = line if build == "of_limits" else measured[key]
            for part in ("value", "low", "high"):
                assert cell.get(part) == own.get(part), (row["name"], key)
    text = page.read_text()
    assert shown["headline"] in text
    page.write_text("something else")
    code, _, errors = run(capsys, *COMMANDS[build], "--report", page)
    assert code != 0  # it exists
    assert "--force" in errors
    code, _, errors = run(capsys, *COMMANDS[build], "--report", tmp_path / "page.txt")
    assert (code, "--report must end in .html" in errors) == (2, True)


def test_limits_are_marked(tmp_path, capsys):
    _, output, _ = run(capsys, *COMMANDS["of_limits"], "--json")
    page = findings.of_limits(json.loads(output))
    assert [row["mark"] for row in page["rows"]] == ["open", "broken", "kept"]
    assert page["headline"] == "1 of 3 limits is broken"
    assert (page["tone"], page["rows"][1]["limit"]["kind"]) == ("bad", "within")


def test_what_a_rule_promises_stands_beside_what_it_kept(capsys):
    _, output, _ = run(capsys, *COMMANDS["of_rules"], "--json")
    detail = findings.of_rules(json.loads(output))["detail"]
    assert "88.7 % of the samples (promised: at least 90 %; the difference may be sampling noise)" in detail
    assert "% are wrong (promised: at most 5 %)" in detail


def test_a_value_beyond_its_limit_is_in_the_headline(capsys):
    _, output, _ = run(capsys, "check", TEST, "--max", "ece=5%", "--json")
    page = findings.of_limits(json.loads(output))
    assert page["headline"] == "No limit is shown to be broken, but 1 of 1 value lies beyond"
    _, output, _ = run(capsys, "check", TEST, "--max", "ece=5%", "--min", "accuracy=50%", "--json")
    page = findings.of_limits(json.loads(output))
    assert page["headline"] == "No limit is shown to be broken, but 1 of 2 values lies beyond"
    assert page["tone"] == "plain"


@pytest.mark.slow
def test_limits_and_pictures_are_drawn(browser, tmp_path, capsys):
    browser.media()
    browser.resize(1280, 900)
    for build, command in COMMANDS.items():
        _, output, _ = run(capsys, *command, "--json")
        data = getattr(findings, build)(json.loads(output))
        page = browser.open(report.write(tmp_path / f"{build}.html", data)[0])
        assert page.console() == []
        if build == "of_limits":
            assert page.texts("[data-mark]") == ["? may be chance", "✗ broken", "✓ kept"]
            assert page.run("return document.querySelectorAll('.limit-mark .chance').length") == 4  # within has two
        else:
            dots = page.run("return document.querySelectorAll('#picture figure:first-child .dumb-right').length")
            assert dots == sum(data["chart"][0] in row["cells"] for row in data["rows"])


def test_the_suffix_of_a_page_may_be_left_out(capsys, tmp_path):
    arguments = ["check", TEST, "--min", "accuracy=10%", "--report", tmp_path / "page"]
    assert run(capsys, *arguments)[0] == 0
    assert (tmp_path / "page.html").exists()


def a_log(path, *, drop, rows=3000):
    """Claims of a model that is right as often as it says for 1,000 rows, and less by ``drop`` from then on."""
    generator = np.random.default_rng(0)
    p = generator.uniform(0.6, 1, rows)
    y = generator.random(rows) < p - drop * (np.arange(rows) >= 1000)
    days = [f"2026-{1 + row // 300:02d}-01" for row in range(rows)]
    lines = [f"{c:.6f},{int(r)},{day}" for c, r, day in zip(p, y, days, strict=True)]
    path.write_text("confidence,correct,date\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
@pytest.mark.parametrize("drop", [0.0, 0.15])
def test_the_page_of_a_log_begins_with_the_state_of_the_alarm(tmp_path, capsys, drop):
    log, page, state = a_log(tmp_path / "log.csv", drop=drop), tmp_path / "page.html", tmp_path / "state"
    code, output, _ = run(capsys, "monitor", log, "--json", "--report", page, "--state", state)
    printed, shown = json.loads(output), json.loads(page.with_suffix(".json").read_text())
    assert code == (3 if drop else 0)
    assert shown["headline"] == ("Alarm: the claims are too high" if drop else "No alarm")
    assert shown["tone"] == ("bad" if drop else "good")
    assert f'<h1 id="headline" class="calm-title {shown["tone"]}">{shown["headline"]}</h1>' in page.read_text()
    assert [{key: window[key] for key in printed["windows"][0]} for window in shown["windows"]] == printed["windows"]
    assert (shown["windows"][0]["first"], shown["windows"][-1]["last"]) == (1, 3000)
    # The evidence after each row, thinned out: the alarm's row and the last row are among those kept.
    monitor, twin = monitoring.Monitor(), {}
    read = monitoring.read_log(log)
    for row in range(len(read)):
        monitor.update(read.confidence[row], read.correct[row])
        twin[row + 1] = monitor.evidence
    assert 100 <= len(shown["course"]) <= 402
    assert [twin[row] for row, _ in shown["course"]] == pytest.approx([value for _, value in shown["course"]])
    assert shown["course"][-1] == [3000, pytest.approx(printed["evidence"])]
    if drop:
        assert printed["alarm"]["row"] in [row for row, _ in shown["course"]]
        assert "Raised at row" in shown["detail"]
        assert f"({printed['alarm']['time']})" in shown["detail"]
        since = read.confidence[printed["alarm"]["row"] :], read.correct[printed["alarm"]["row"] :]
        assert (
            f"claimed {100 * since[0].mean():.1f} % and were right in {100 * since[1].mean():.1f} %" in shown["detail"]
        )
    # With a state, the second run counts no new row, and draws the whole course all the same.
    run(capsys, "monitor", log, "--report", page, "--state", state, "--force")
    assert json.loads(page.with_suffix(".json").read_text())["course"] == shown["course"]


def test_the_note_of_a_log_with_a_tolerance_says_what_counts_as_right(tmp_path, capsys):
    page = tmp_path / "page.html"
    run(capsys, "monitor", TEST, "--tolerance", "10%", "--report", page)
    (note,) = json.loads(page.with_suffix(".json").read_text())["notes"]
    assert note.startswith("While claims and outcomes differ by at most 10 points, the probability of ever raising")


def grouped(path):
    """Pairs of three groups whose gaps differ by far."""
    generator = np.random.default_rng(0)
    lines = []
    for name, gap in (("a benchmark", 0.1), ("another benchmark with a long name", 0.25), ("winogrande", 0.45)):
        p = generator.uniform(0.5, 1, 400)
        y = generator.random(400) < p - gap
        lines += [f"{c:.4f},{int(r)},{name}" for c, r in zip(p, y, strict=True)]
    path.write_text("confidence,correct,benchmark\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_limits_of_one_metric_share_their_scale_and_fit_a_phone(browser, tmp_path, capsys):
    page, limits = tmp_path / "page.html", ["--group", "benchmark", "--max", "gap=5%", "--resamples", 100]
    code, _, errors = run(capsys, "check", grouped(tmp_path / "log.csv"), *limits, "--report", page)
    assert code == 1, errors
    browser.media()
    browser.resize(390, 844, mobile=True)
    shown = browser.open(page)
    places = shown.run(
        "return Array.from(document.querySelectorAll('.limit-mark'), (n) => [...Array.from(n.querySelectorAll('.chance'), "
        "(line) => line.getAttribute('x1')), n.querySelector('.dumb-right').getAttribute('cx')].map(Number))"
    )
    assert len({tuple(each[:2]) for each in places}) == 1  # the same limit at the same place
    dots = [each[2] for each in places[1:]]
    assert dots == sorted(dots)
    assert dots[2] - dots[0] > 60
    wide = "document.querySelector('.limits').scrollWidth - document.querySelector('#limits .card').clientWidth"
    assert shown.run(f"return {wide}") <= 1
    browser.resize(1280, 900)


@pytest.mark.filterwarnings("ignore::softkin._io.files.Assumption")
def test_limits_fit_a_narrow_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    limits = ["--group", "benchmark", "--max", "gap=5%", "--resamples", 100]
    _, output, _ = run(capsys, "check", grouped(tmp_path / "log.csv"), *limits)
    assert "in another benchmark with a long name: " in output.replace("\n", " ")
    assert max(map(len, output.splitlines())) <= 80


def test_terminal_and_page_say_the_same_of_rules(tmp_path, capsys):
    page = tmp_path / "page.html"
    code, output, errors = run(capsys, "decide", "compare", VALIDATION, TEST, "--report", page)
    assert code == 0, errors
    shown = json.loads(page.with_suffix(".json").read_text())
    assert shown["headline"] in output
    assert "Most answers (abstain by logit-norm): 65.9 % of the samples, of which 3.6 % are wrong" in output
    assert shown["detail"].startswith("Most answers (abstain by logit-norm): ")
    assert [row["name"] for row in shown["rows"] if row["mark"]] == ["abstain by logit-norm"]
    assert "66\u202f% alone" in page.read_text()


@pytest.mark.slow
def test_names_of_rules_are_whole_on_a_phone(browser, tmp_path, capsys):
    page = tmp_path / "page.html"
    run(capsys, "decide", "compare", VALIDATION, TEST, "--report", page)
    browser.media()
    browser.resize(390, 844, mobile=True)
    shown = browser.open(page)
    names = shown.texts("#picture figure:first-child .row-name")
    browser.resize(1280, 900)
    assert any("probability" in name for name in names)
    assert not any("…" in name for name in names)
