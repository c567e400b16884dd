import json
import re
import sys
import tomllib
from dataclasses import replace
from importlib import resources

import pytest

from places import ROOT
from softkin import SoftkinError
from softkin.cli import main
from softkin.lab import suites
from softkin.lab.study import perform, tabulation
from softkin.lab.suites.printed import METRICS, SCALES
from softkin.lab.suites.runs import recipe_in_words

pytestmark = pytest.mark.slow

METHODS = ("one-hot", "ts", "uniform", "mixup", "dir-odir", "ets", "l1", "l2", "ae", "we")

# what the paper prints


def test_names():
    assert suites.names() == ["table1", "table2", "alpha", "beta", "ood", "reliability"]


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_every_cell_of_both_tables_is_there(name):
    spec = suites.load(name)
    assert spec.methods == METHODS
    assert list(spec.values) == ["DN", "RN", "WRN"]
    for row in spec.values.values():
        assert list(row) == list(METRICS)
        assert all(len(values) == 10 for values in row.values())


@pytest.mark.parametrize(
    ("name", "row", "metric", "method", "value"),
    [
        ("table1", "DN", "ece_hist", "one-hot", 16.40),
        ("table1", "DN", "ece_hist_output", "uniform", 8.11),
        ("table1", "DN", "ece_kde_output", "ets", 7.00),
        ("table1", "RN", "ece_hist", "we", 1.74),
        ("table1", "RN", "ece_kde", "dir-odir", 1.84),
        ("table1", "WRN", "ece_hist", "ae", 0.77),
        ("table1", "WRN", "ece_kde_output", "we", 3.73),
        ("table2", "DN", "ece_hist", "one-hot", 13.98),
        ("table2", "DN", "ece_kde_output", "we", 15.67),
        ("table2", "RN", "ece_hist_output", "one-hot", 58.01),
        ("table2", "RN", "ece_kde_output", "ae", 29.97),
        ("table2", "WRN", "ece_hist", "uniform", 12.92),
        ("table2", "WRN", "ece_kde", "mixup", 8.74),
        ("table2", "WRN", "ece_kde_output", "ets", 19.44),
    ],
)
def test_values_read_from_the_paper(name, row, metric, method, value):
    assert suites.load(name).value(row, metric, method) == value


def test_the_least_is_what_the_paper_prints_in_bold():
    """WE everywhere but for three cells, where it is ETS."""
    bold = {}
    for name in ("table1", "table2"):
        spec = suites.load(name)
        for row, metrics in spec.values.items():
            for metric, values in metrics.items():
                bold[name, row, metric] = METHODS[values.index(min(values))]
    others = {place: method for place, method in bold.items() if method != "we"}
    assert others == {
        ("table1", "DN", "ece_kde_output"): "ets",
        ("table1", "RN", "ece_hist"): "ets",
        ("table1", "RN", "ece_kde"): "ets",
    }


def test_all_240_values_against_the_papers_own_text(shared_data):
    source = next((shared_data.parent / "paper").glob("*.txt")).read_text(encoding="utf-8")
    titles = {title: metric for metric, title in METRICS.items()}
    tables = re.findall(r"\\midrule(.*?)\\bottomrule", source, re.DOTALL)
    compared = 0
    for name, text in zip(("table1", "table2"), tables, strict=True):
        spec = suites.load(name)
        for line in re.findall(r"^\s*((?:DN|RN|WRN)\s*&.*?)\\\\", text, re.MULTILINE):
            row, title, *cells = (cell.strip() for cell in line.split("&"))
            printed = tuple(float(cell.replace(r"\bf", "")) for cell in cells)
            assert spec.values[row][titles[title]] == printed
            compared += len(printed)
    assert compared == 240


# the specs


@pytest.mark.parametrize("name", ["table1", "table2", "alpha", "beta", "ood", "reliability"])
def test_specs_state_studies_at_both_scales(name):
    spec = suites.load(name)
    for scale in SCALES:
        parts = spec.parts(scale)
        assert parts
        epochs = "200 epochs" if scale == "full" else "40 epochs"
        for part in parts:
            assert part.study.model
            assert len(part.study.seeds) == 3
            assert epochs in recipe_in_words(part)


def test_networks_and_recipes_of_the_tables():
    first, two = suites.load("table1"), suites.load("table2")
    assert [part.study.model for part in first.parts("full")] == ["densenet161", "resnet18", "wrn(units=5)"]
    assert [part.study.model for part in two.parts("full")] == ["densenet161", "resnet34", "wrn50_2"]
    assert [part.study.sources["latent_dim"] for part in (*first.parts("full"), *two.parts("full"))] == [256] * 3 + [
        1024
    ] * 3
    assert {part.study.alpha for part in first.parts("full")} == {(0.1,)}
    betas = first.parts("full")[0].study.beta
    assert (min(betas), max(betas)) == (0.5, 6)
    (small,) = first.parts("small")
    assert (small.study.model, small.study.max_per_class) == ("wrn(units=2)", 100)
    assert recipe_in_words(small) == (
        "at most 100 images per class, 40 epochs, batch 128, SGD 0.2 one-cycle, momentum 0.9 Nesterov, "
        "weight decay 0.0005, flips"
    )
    assert recipe_in_words(first.parts("full")[0]) == (
        "all images, 200 epochs, batch 128, SGD 0.1 steps ×0.2 at 60, 120, 160, momentum 0.9, "
        "weight decay 0.0005, warm-up 1, crops and flips"
    )


def test_the_trial_is_the_small_scale_with_nothing_chosen():
    spec = suites.load("table1")
    (trial,), (small,) = spec.parts("trial"), spec.parts("small")
    assert trial.study.seeds == (0,)
    assert [len(trial.study.candidates(base)) for base in trial.study.bases()] == [1] * 7
    assert recipe_in_words(trial) == recipe_in_words(small)
    assert trial.study.model == small.study.model
    with pytest.raises(ValueError, match="scale of table2 'trial' is not known; there are full, small"):
        suites.load("table2").parts("trial")


def test_the_trial_shows_what_was_measured_to_whoever_has_not_run_it(tmp_path):
    shown = suites.table(suites.load("table1"), tmp_path / "none", scale="trial")
    ours = {(line.method, line.metric): line.ours for line in shown.lines if line.row == "WRN"}
    page = (ROOT / "docs" / "measurements" / "paper_trial.md").read_text(encoding="utf-8")
    table = [re.findall(r"[a-zA-Z][\w-]*|[\d.]+", re.sub(r"\(.*?\)", "", line)) for line in page.splitlines()]
    of_methods = {cells[0].lower(): cells[1:] for cells in table if len(cells) == 12 and cells[0] != "method"}
    places = {"accuracy": 0, "ece_hist": 3, "ece_hist_output": 5, "ece_kde": 7, "ece_kde_output": 9}
    assert {
        (name, key): float(cells[place]) for name, cells in of_methods.items() for key, place in places.items()
    } == ours
    text = shown.to_markdown()
    assert "| WE | 41.7" in text.replace("41.70", "41.7")
    assert "0.72 → 5.13" in text
    assert f"as we measured them with this recipe, since {tmp_path / 'none'} holds no run of it." in text
    small = suites.table(suites.load("table1"), tmp_path / "none").to_markdown()
    assert "Nothing is run yet; `softkin paper table table1 --scale trial` shows values of ours." in small


def test_sweeps_hold_the_other_parameter():
    for scale in SCALES:
        alphas = [part.study for part in suites.load("alpha").parts(scale)]
        assert {study.beta for study in alphas} == {(2.0,)}
        assert {study.methods for study in alphas} == {("we", "uniform")}
        assert (0.1,) in {study.alpha for study in alphas}
        for study in alphas:  # the same α for both methods
            assert study.candidates("uniform") == [{"alpha": study.alpha[0]}]
        betas = [part.study for part in suites.load("beta").parts(scale)]
        assert {study.alpha for study in betas} == {(0.1,)}
        assert {study.methods for study in betas} == {("we",)}
        assert min(betas, key=lambda study: study.beta).beta == (0.5,)
        assert max(betas, key=lambda study: study.beta).beta == (6.0,)


def test_reliability_shares_the_runs_of_the_tables():
    for scale in SCALES:
        folders = {part.folder for name in ("table1", "table2") for part in suites.load(name).parts(scale)}
        shared = suites.load("reliability").parts(scale)
        assert len(shared) == 2
        assert {part.folder for part in shared} <= folders


def test_out_of_distribution_sets():
    (part,) = suites.load("ood").parts("full", data={"cifar100": "here", "tiny-imagenet": "there"})
    assert part.study.data == "here"
    assert part.study.ood == ("there", "uniform")
    assert part.study.methods == ("one-hot", "uniform", "mixup", "we")


def test_options_of_parts():
    spec = suites.load("table1")
    assert [part.row for part in spec.parts("full", rows=["WRN", "DN"])] == ["DN", "WRN"]
    (elsewhere,) = spec.parts("small", data={"cifar100": "there"})
    assert elsewhere.study.data == "there"
    assert elsewhere.folder == spec.parts("small")[0].folder  # found again wherever the data are
    with pytest.raises(ValueError, match="`rows` must name some of WRN, got none"):
        spec.parts("small", rows=[])
    (part,) = spec.parts("small", seeds=1, vectors="some.txt")
    assert (part.study.seeds, part.study.vectors) == ((0,), "some.txt")
    assert part.folder != spec.parts("small")[0].folder
    (part,) = spec.parts("small")
    assert part.study.vectors == "glove"  # the paper's kind
    assert part.folder.endswith(
        replace(part.study, vectors=None, data="cifar100").digest[:8]
    )  # as it always was called
    with pytest.raises(ValueError, match="row of table1 at scale small 'RN' is not known; there are WRN"):
        spec.parts("small", rows=["RN"])
    with pytest.raises(ValueError, match="data set 'cifar' is not known; there are cifar100; did you mean 'cifar100'"):
        spec.parts("small", data={"cifar": "x"})
    with pytest.raises(ValueError, match="scale of table1 'smal' is not known; there are full, small, trial; did"):
        spec.parts("smal")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("kind = \"table\"", "kind = \"tabel\""), "kind 'tabel' is not known; .*did you mean 'table'"),
        (("title =", "titel ="), "key 'titel' is not known; .*did you mean 'title'"),
        (("16.40, ", ""), "paper.DN.ece_hist must hold a number for each of 10 methods, got 9"),
        (("accuracy = [40.7, ", "accuracy = ["), "trial.recorded.WRN.accuracy must hold a number for each of 10"),
        (("16.40", "-16.40"), "`paper.DN.ece_hist` must be finite and at least 0"),
        (("\"dir-odir\"", "\"dir-odri\""), "`methods` must be one of .*, got 'dir-odri'; did you mean 'dir-odir'"),
        (("[small.networks]\nWRN", "[small.networks]\nVGG"), "row of small.networks 'VGG' is not known"),
        (("alpha = 0.1", "alpha = 1.5"), "`alpha` must be at least 0 and below 1"),
        (("[small.study]", "[small.studie]"), "`small.study` is missing"),
        (("name = \"table1\"", "name = "), "could not be read as a table or figure"),
        (("reference = ", "# "), "`reference` is missing"),
    ],
)  # fmt: skip
def test_wrong_specs_get_one_sentence(tmp_path, change, words):
    text = (resources.files("softkin.lab.suites") / "table1.toml").read_text(encoding="utf-8")
    assert change[0] in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(SoftkinError, match=words):
        suites.load(path)


def test_absent_specs():
    with pytest.raises(ValueError, match="table or figure 'tabel1' is not known; .*did you mean 'table1'"):
        suites.load("tabel1")
    with pytest.raises(SoftkinError, match="absent.toml could not be read"):
        suites.load("absent.toml")


# miniatures: every spec through real training, on digits

RECIPE = 'recipe = { name = "small", epochs = 3 }\nsources = { latent_dim = 8 }\nmax_per_class = 5\nvalidation = 200\ntest = 300\n'


def miniature(name, folder):
    """The spec with a small scale that digits finish in seconds."""
    text = (resources.files("softkin.lab.suites") / f"{name}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    head, _, small = text.rpartition("[small]")
    if "study" in content["small"]:
        fixed = {key: content["small"]["study"][key] for key in ("alpha", "beta") if key in content["small"]["study"]}
        fixed = {key: 2 if isinstance(value, list) else value for key, value in fixed.items()}
        values = f"values = {content['small']['values'][:2]}\n" if "values" in content["small"] else ""
        row = next(iter(content["small"]["networks"]))
        small = f'\nabout = "digits"\n{values}[small.networks]\n{row} = "small"\n[small.study]\ndata = "digits"\n'
        small += (
            f"seeds = {2 if content['kind'] == 'table' else 1}\n"
            + RECIPE
            + "".join(f"{key} = {value}\n" for key, value in fixed.items())
        )
        head = head.replace('sets = ["tiny-imagenet", "uniform"]', 'sets = ["gaussian", "uniform"]')
    path = folder / f"{name}.toml"
    path.write_text(f"{head}[small]{small}", encoding="utf-8")
    return path


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    """Chance levels from a few draws, and no ties, figures and report of each study: tested elsewhere, and not cheap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perform, "OF_RESULTS", replace(perform.OF_RESULTS, draws=4))
        running = sys.modules["softkin.lab.study.run"]  # as an attribute that name is the function
        patch.setattr(running, "table", lambda folder: tabulation.table(folder, resamples=2))
        patch.setattr(running, "write", lambda folder, table, write_page: None)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where all miniatures run: what they share is done once."""
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def specs(folder):
    return {name: suites.load(miniature(name, folder)) for name in suites.names()}


@pytest.fixture(scope="module")
def table1(specs, folder):
    return suites.run(specs["table1"], folder, workers=1, device="cpu", progress=False)


def test_table_puts_ours_beside_the_papers(table1, specs, folder):
    done = [line for line in table1.lines if line.n and line.metric in METRICS]
    assert len(done) == 40, "ten methods, four errors, one network"
    left = [line for line in table1.lines if not line.n]
    assert len(left) == 80
    assert {line.network for line in left} == {"none at scale small"}
    for line in done:
        assert line.row == "WRN"
        assert line.paper == specs["table1"].value("WRN", line.metric, line.method)
        assert line.ours is not None
        assert line.std is not None
        assert (line.n, line.network) == (2, "small")
        assert line.recipe.startswith("at most 5 images per class, 3 epochs, batch 32, SGD 0.05 cosine")
        assert line.calibrated is not None
        assert (line.unreflected is not None) == line.metric.startswith("ece_kde")
        assert (line.floor is not None) == (line.metric == "ece_kde_output")
    we = next(line for line in done if (line.metric, line.method) == ("ece_hist", "we"))
    assert we.parameter == "α = 0.1, β = 2"


def test_lines_are_the_metrics_of_the_saved_predictions(table1, specs, folder):
    """From the predictions that the study left, by the metric's own function."""
    from softkin import metrics
    from softkin.lab import study

    (part,) = specs["table1"].parts("small")
    line = next(line for line in table1.lines if (line.metric, line.method) == ("ece_hist_output", "ets"))
    tests = [result.test() for result in study.results(folder / part.folder) if result.method == "ets"]
    values = [metrics.ece_hist(item.probabilities, item.known_labels, scope="output") for item in tests]
    assert line.ours == pytest.approx(100 * sum(values) / 2)
    assert line.std == pytest.approx(100 * abs(values[0] - values[1]) / 2**0.5)


def test_table_forms(table1):
    text = table1.to_markdown()
    lines = text.splitlines()
    assert "| method | accuracy | Hist P | Hist O | KDE P | KDE O |" in lines  # the paper's matrix
    row = next(line for line in lines if line.startswith("| WE | "))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2].startswith("0.72 → ")
    assert " ± " in cells[2]
    assert "(floor " in cells[5]
    assert sum(line.startswith("| WE | ") for line in lines) == len({line.row for line in table1.lines})
    assert any(line.startswith("Here: small, at most 5 images per class") for line in lines)
    rows = table1.to_csv().splitlines()
    assert len(rows) == 1 + len(table1.lines)
    assert rows[0].startswith("table,scale,row,metric,method,paper,ours,std,n,")
    assert json.loads(json.dumps(table1.to_dict()))["lines"][0]["row"] == "WRN"


def test_reliability_draws_the_tables_runs(table1, specs, folder):
    """Only table 1 is done: its two groups, for both scopes, without a training of its own."""
    before = sorted(path.name for path in folder.iterdir())
    drawn = suites.figure(specs["reliability"], folder)
    assert sorted(drawn) == [
        f"reliability-digits-wrn-{scope}-{group}" for scope in ("output", "prediction") for group in (1, 2)
    ]
    texts = [text.get_text() for text in drawn["reliability-digits-wrn-prediction-1"].axes[0].get_legend().get_texts()]
    assert [text.partition(":")[0] for text in texts[:5]] == ["one-hot", "TS", "uniform", "mixup", "Dir-ODIR"]
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_sweeps(name, specs, folder):
    spec = specs[name]
    written = suites.run(spec, folder, workers=1, device="cpu", progress=False)
    values = [part.value for part in spec.parts("small")]
    assert len(values) == 2
    assert len(written.lines) == 2 * len(spec.methods) * 5
    letter = {"alpha": "α", "beta": "β"}[name]
    for line in written.lines:
        assert line.paper is None
        assert line.n == 1
        assert any(f"{letter} = {value:g}" in line.parameter for value in values)
    assert any(note.startswith("The paper: ") for note in written.notes)
    assert any(re.match(r"Ours: Hist P of WE is lowest, [\d.]+ %, at ", note) for note in written.notes)
    drawn = suites.figure(spec, folder)
    assert sorted(drawn) == [f"{name}-output", f"{name}-prediction"]
    ax = drawn[f"{name}-prediction"].axes[0]
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) == 2 and line.get_marker() in ("o", "s")]
    assert [list(line.get_xdata()) for line in lines] == [values] * len(spec.methods)
    first = [line.ours for line in written.lines if (line.metric, line.method) == ("ece_hist", spec.methods[0])]
    assert list(lines[0].get_ydata()) == first


def test_out_of_distribution_figure(specs, folder):
    spec = specs["ood"]
    written = suites.run(spec, folder, workers=1, device="cpu", progress=False)
    metrics = {line.metric for line in written.lines}
    assert {"auroc gaussian", "fpr_at_95 gaussian", "auroc uniform", "fpr_at_95 uniform"} <= metrics
    assert all(0 <= line.ours <= 100 for line in written.lines if line.metric.startswith("auroc"))
    drawn = suites.figure(spec, folder)
    assert sorted(drawn) == ["ood-gaussian", "ood-uniform"]
    texts = [text.get_text() for text in drawn["ood-uniform"].axes[0].get_legend().get_texts()]
    assert [text.partition(":")[0] for text in texts] == ["one-hot", "uniform", "mixup", "WE"]


# the command


def test_command_lists_with_recipes(capsys):
    assert main(["paper", "list"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("table1: Histogram and KDE ECE (%)")
    assert "wrn(units=2) on cifar100; 3 seeds" in out
    typed = " ".join(out.split())
    assert "To run one: softkin paper run table1 --scale trial --data cifar100=FOLDER; --dry-run shows" in typed
    assert main(["paper", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [item["name"] for item in listed] == suites.names()
    assert listed[0]["scales"]["full"]["networks"] == ["densenet161", "resnet18", "wrn(units=5)"]


def test_all_tables_and_figures_are_one_command(capsys):
    assert main(["paper", "run", "all", "--scale", "full", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    alone = []
    for name in suites.names():
        main(["paper", "run", name, "--scale", "full", "--dry-run"])
        alone.append(capsys.readouterr().out)
    assert planned == "".join(alone)
    assert main(["paper", "run", "all", "--scale", "trial", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    main(["paper", "run", "table1", "--scale", "trial", "--dry-run"])
    assert planned == capsys.readouterr().out
    assert main(["paper", "run"]) == 2
    assert "reliability, or all for each in turn" in " ".join(capsys.readouterr().err.split())
    assert main(["paper", "table", "all"]) == 2


def test_command_runs_prints_and_draws(tmp_path, capsys):
    path = miniature("beta", tmp_path)
    where = ["--output", str(tmp_path / "out"), "--seeds", "1"]
    assert main(["paper", "run", str(path), *where, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert planned.count("1 seed; 1 training at most") == 2
    assert not (tmp_path / "out").exists()
    assert main(["paper", "run", str(path), *where, "--workers", "1", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "ECE of class-similarity smoothing as beta grows" in out
    assert f"Wrote {tmp_path / 'out' / 'beta-small.md'}" in out
    assert main(["paper", "table", str(path), *where, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["lines"]) == 10
    assert main(["paper", "figure", str(path), *where, "--format", "png"]) == 0
    written = capsys.readouterr().out.split()
    assert written[1] == str(tmp_path / "out" / "figures" / "beta-prediction-small.png")
    assert (tmp_path / "out" / "figures" / "beta-output-small.png").read_bytes().startswith(b"\x89PNG")


def test_command_shows_what_is_not_done(tmp_path, capsys):
    assert main(["paper", "table", "table2", "--output", str(tmp_path / "none")]) == 0
    out = capsys.readouterr().out
    assert "tiny-imagenet-wrn: 30 results are missing; `softkin paper run table2 --scale small` resumes." in out
    assert "4.21" in out
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run"], 2, "NAME must be given with run: one of table1, table2"),
        (["list", "tabel1"], 2, "did you mean 'table1'"),
        (["run", "tabel1"], 2, "did you mean 'table1'"),
        (["run", "table1", "--rows", "VGG"], 2, "row of table1 at scale small 'VGG' is not known"),
        (["run", "table1", "--data", "cifar100"], 2, "--data must be NAME=PATH"),
        (["run", "table1", "--workers", "0"], 2, "`--workers` must be at least 1"),
        (["figure", "table1"], 2, "table1 is a table; `softkin paper table table1` prints it."),
        (["figure", "ood", "--output", "absent"], 1, "absent holds no finished run of ood at scale small"),
    ],
)
def test_command_refuses_in_one_sentence(arguments, code, words, capsys):
    assert main(["paper", *arguments]) == code
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_without_a_network_the_command_names_the_option_for_data_at_hand(monkeypatch, tmp_path, capsys):
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # where nobody listens
    monkeypatch.setenv("SOFTKIN_CACHE", str(tmp_path / "cache"))
    assert main(["paper", "run", "table1", "--scale", "trial", "--output", str(tmp_path / "runs")]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "could not be reached" in said
    assert said.endswith("If you have the data, name them, as in --data cifar100=PATH.")


def test_command_hands_the_study_to_a_cluster(monkeypatch, tmp_path):
    asked = {}

    def run(spec, folder, **how):
        asked.update(how)
        raise SoftkinError("far enough")

    monkeypatch.setattr(suites, "run", run)
    assert main(["paper", "run", "table1", "--engine", "ray", "--gpus", "1", "--output", str(tmp_path)]) == 1
    assert asked["engine"] == "ray"
    assert asked["ray_options"] == {"address": None, "num_cpus": 1, "num_gpus": 1.0}


def test_command_knows_its_engines(capsys):
    assert main(["paper", "run", "table1", "--engine", "rey"]) == 2
    assert "did you mean 'ray'" in capsys.readouterr().err
