import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from softkin.cli import compare, main
from softkin.cli.compare import spec_of
from softkin.lab import study
from softkin.lab.study import tabulation
from softkin.lab.study.perform import resolve
from softkin.metrics.measurement import Measured
from study_parts import without_pictures  # noqa: F401  a fixture

pytestmark = pytest.mark.slow

SMALL = [
    "--data",
    "digits",
    "--tune",
    "none",
    "--max-per-class",
    "3",
    "--validation",
    "60",
    "--test",
    "80",
    "--model",
    "mlp(hidden=32)",
    "--epochs",
    "12",
    "--workers",
    "1",
]


def parsed(*options):
    from softkin.cli import parser

    return spec_of(parser().parse_args(["compare", *options]))


def options_of(command):
    from softkin.cli import parser
    from softkin.cli.arguments import subcommands

    (commands,) = subcommands(parser())
    return {option for action in commands.choices[command]._actions for option in action.option_strings}


def test_what_changes_a_training_is_an_option_of_train_and_of_compare():
    """Those of one run alone are left: what is logged, and code to run, which a study's file must not name."""
    alone = {"--method", "--seed", "--distance", "--log-json", "--tracker", "--checkpoint-every"}
    alone |= {"--encoder", "--template", "--descriptions"}
    assert options_of("train") - options_of("compare") == alone


def test_parameters_of_methods_are_values_or_lists_to_try():
    spec = parsed(
        "--methods", "focal,swag,margin", "--gamma", "1,2", "--margin", "5,10", "--passes", "3", "--lr", "0.2"
    )
    assert spec.parameters == {"gamma": (1.0, 2.0), "margin": (5.0, 10.0), "passes": (3.0,)}
    assert spec.candidates("focal") == [{"gamma": 1.0}, {"gamma": 2.0}]
    assert spec.candidates("swag") == [{"passes": 3.0}]
    assert spec.recipe == {"lr": 0.2}
    with pytest.raises(
        ValueError, match="every tunable method must get the same number of trials, but gamma has 2, mar"
    ):
        parsed("--methods", "focal,margin", "--gamma", "1,2", "--margin", "5,6,7")
    with pytest.raises(ValueError, match="must hold one value for 'passes', which no method tunes, got 2"):
        parsed("--methods", "swag", "--passes", "3,4")


def test_options_describe_a_study():
    spec = parsed(
        *[
            "--data",
            "digits",
            "--model",
            "mlp",
            "--methods",
            "one-hot,ts,we",
            "--alpha",
            "0.05",
            "--beta",
            "1,2",
            "--seeds",
            "3",
            "--epochs",
            "9",
        ],
        *[
            "--select",
            "accuracy",
            "--search",
            "halving",
            "--accuracy-budget",
            "0.3",
            "--ood",
            "uniform,gaussian",
            "--alias",
            "gasmask=mask",
        ],
    )
    assert spec == study.StudySpec(
        data="digits",
        tune=("weight-decay",),
        model="mlp",
        methods=("one-hot", "ts", "we"),
        alpha=(0.05,),
        beta=(1.0, 2.0),
        seeds=(0, 1, 2),
        recipe={"epochs": 9},
        select="accuracy",
        search="halving",
        accuracy_budget=0.3,
        ood=("uniform", "gaussian"),
        aliases={"gasmask": "mask"},
        tuning="first seed",
    )
    usual = {"data": "cifar100-features", "tune": ("weight-decay",), "tuning": "first seed"}
    assert parsed() == study.StudySpec(**usual, alpha=("auto", 0.05, 0.2, 0.5))
    assert parsed("--tuning", "each-seed").tuning == "each seed"
    assert parsed("--beta", "1,2").alpha == ("auto",)  # a list says how many trials there are
    assert parsed("--beta", "1").trials == 4
    assert parsed("--seeds", "7,9").seeds == (7, 9)


def test_where_a_calibrator_follows_values_are_chosen_for_what_it_makes_of_them():
    spec = parsed("--methods", "one-hot,we,we+ts,uniform,learned+ts,mixup")
    assert (spec.selects("we"), spec.selects("we+ts")) == ("nll", "refined-nll")
    assert [values["alpha"] for values in spec.candidates("we")] == ["auto", 0.05, 0.2, 0.5]
    assert [values["alpha"] for values in spec.candidates("uniform")] == ["auto", 0.05, 0.2, 0.5]
    assert len(spec.candidates("learned")) == len(spec.candidates("mixup")) == 4  # as many trials for all
    assert spec.candidates("one-hot") == [{}]


def test_an_alpha_is_tried_by_all_that_smooth_and_refused_if_none_does():
    spec = parsed("--methods", "one-hot,uniform,we,learned", "--alpha", "0.1", "--beta", "0.5,1,2,4")
    assert {values["alpha"] for values in spec.candidates("we")} == {0.1}
    assert [values["alpha"] for values in spec.candidates("uniform")] == [0.05, 0.0707107, 0.1, 0.2]
    for methods in ("one-hot,learned,ps-kd", "one-hot,ts"):
        with pytest.raises(ValueError, match="--alpha is for uniform smoothing and class similarity, and none"):
            parsed("--methods", methods, "--alpha", "0.1")
    assert parsed("--methods", "one-hot,learned").trials == 4


def test_a_kin_head_is_seen_beside_its_controls(tmp_path, capsys):
    spec = parsed("--methods", "one-hot,ts,kin-head,we+kin-head")
    assert spec.methods == ("one-hot", "ts", "kin-head", "we+kin-head", "head", "we+head", "ensemble+ts")
    assert spec.parameters == {"members": (2,)}
    assert parsed("--methods", "one-hot,kin-head,head,ensemble").methods == ("one-hot", "kin-head", "head", "ensemble")
    assert parsed("--methods", "kin-head", "--members", "3").parameters == {"members": (3,)}
    path = tmp_path / "study.toml"
    path.write_text('methods = ["one-hot", "kin-head"]')
    assert parsed("--config", str(path)).methods == ("one-hot", "kin-head")  # a file says everything
    output = ["--output", str(tmp_path / "s"), "--seeds", "1", "--dry-run"]
    assert main(["compare", "--methods", "one-hot,kin-head", *output]) == 0
    assert (
        "Beside a kin head, also head, ensemble+ts: the same without kin, and two networks." in capsys.readouterr().err
    )
    assert main(["compare", "--methods", "one-hot,ts,ts", *output]) == 0
    assert "Beside" not in capsys.readouterr().err


def test_a_file_and_options_over_it(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('methods = ["one-hot", "we"]\nseeds = 4\n[recipe]\nname = "small"\nlr = 0.01\n')
    spec = parsed("--config", str(path), "--seeds", "2", "--epochs", "3")
    assert (spec.data, spec.tune) == ("digits", ())  # a file says everything
    assert spec.seeds == (0, 1)
    assert spec.methods == ("one-hot", "we")
    assert spec.recipe == {"name": "small", "lr": 0.01, "epochs": 3}


@pytest.mark.filterwarnings("ignore:more than half of alpha")
def test_the_defaults_are_few_columns_of_the_shipped_features():
    kept = study.perform.resolve(parsed())
    trained = ("uniform", "uniform+ts", "mixup", "mixup+ts", "we", "we+ts", "learned+ts")
    assert kept.spec.methods == ("one-hot", "ts", *trained)
    assert kept.spec.data == "cifar100-features"
    assert kept.data["rows"] == "10,000 training, 5,000 validation, 5,000 test rows"
    assert kept.data["classes"] == 100
    assert (len(kept.spec.seeds), kept.spec.model, kept.spec.tune) == (5, "mlp", ("weight_decay",))


def test_digits_have_the_papers_ten_columns_learned_labels_and_each_network_with_temperature_scaling():
    kept = study.perform.resolve(parsed("--data", "digits"))
    one_hot, trained = ("one-hot", "ts", "dir-odir", "ets"), ("uniform", "mixup", "l1", "l2", "ae", "we")
    assert set(kept.spec.methods) == {*one_hot, *trained, *(f"{name}+ts" for name in (*trained, "learned"))}
    assert len(kept.spec.seeds) == 5
    assert kept.data["rows"] == "100 training, 697 validation, 1,000 test rows"
    assert kept.spec.model == "small"


@pytest.mark.filterwarnings("ignore:alpha='auto' has stayed at 0")
def test_table_status_and_json(tmp_path, capsys, without_pictures):  # noqa: F811
    command = [
        "compare",
        *SMALL,
        "--methods",
        "one-hot,ts,we",
        "--seeds",
        "1",
        "--beta",
        "2",
        "--alpha",
        "auto",
        "--output",
        str(tmp_path / "s"),
    ]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err.startswith("About 2 trainings, ")
    assert "\nOn the validation rows (1 seed), for now, one-hot training is " in err
    for words in (
        "one-hot",
        "TS",
        "WE",
        "Hist P ↓",
        "KDE O",
        "one seed: the samples alone decide, and the chance of training is not in it",
        "Gap: mean confidence − accuracy",
        "Values: WE α = auto (",
        "One seed shows nothing of the chance of training",
        f"Wrote {tmp_path / 's' / 'table.md'}",
    ):
        assert words in out
    assert out.startswith("One-hot training claims ")  # the verdict, then the numbers, then notes
    assert out.index("One seed shows nothing") < out.index("Hist P ↓") < out.index("Gap: mean confidence")
    assert main([*command, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in plain["rows"]] == ["one-hot", "ts", "we"]
    assert plain["recommendation"][0].startswith("One-hot training claims ")
    assert main(["status", str(tmp_path / "s"), "--all"]) == 0
    out = capsys.readouterr().out
    assert "6 done, 0 running, 0 failed, 0 damaged, 0 left, of 6 runs" in out
    assert "done: WE (α = auto, β = 2), seed 0" in out
    assert main([*command[:-1], str(tmp_path / "s"), "--seeds", "2"]) == 1
    assert "holds another study (seeds 0 there, 0, 1 here)" in capsys.readouterr().err
    assert main(["status", str(tmp_path)]) == 0  # a folder of studies, as `softkin paper` leaves it
    assert f"{tmp_path / 's'}: compare on" in capsys.readouterr().out
    (tmp_path / "s" / "table.md").unlink()
    assert main(command) == 0  # what was deleted is written again
    assert (tmp_path / "s" / "table.md").exists()
    (tmp_path / "none").mkdir()
    assert main(["status", str(tmp_path / "none")]) == 1
    assert "holds no study" in capsys.readouterr().err


def wide_table(methods=("one-hot", "WE+Dir-ODIR", "uniform")):
    """All columns of the default study and those of two sets of samples of no class, with numbers of full length."""
    columns = [*tabulation.columns(study.StudySpec(ood=("uniform", "gaussian")))]
    scale = {"nll": 12.345}
    cells = {
        column.key: tabulation.Cell(
            scale.get(column.key, 0.1234),
            std=0.0567,
            n=5,
            values=(0.1,) * 5,
            when_calibrated=Measured(0.0123) if "ece" in column.key else None,
            floor=0.1234 if column.key == "ece_kde_output" else None,
        )
        for column in columns
    }
    best = {**cells, "ece_hist": replace(cells["ece_hist"], best=True)}
    rows = tuple(tabulation.Row(name.lower(), name, best if name == methods[0] else cells) for name in methods)
    return tabulation.Table(tuple(columns), rows, ("about the data", "Bold: best."), study.StudySpec())


@pytest.mark.parametrize(
    ("width", "gone"),
    [
        (300, ["KDE P", "KDE O"]),
        (120, ["KDE P", "KDE O", "AUROC gaussian"]),
        (85, ["KDE P", "KDE O", "AUROC uniform", "FPR@95 uniform", "AUROC gaussian", "FPR@95 gaussian"]),
        (70, ["AURC"]),
        (40, ["Hist P", "Hist O", "KDE P"]),
    ],
)
def test_the_table_fits_the_terminal(width, gone, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    table = wide_table()
    compare.show(table, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith(("Not shown", "about the data")))
    grid = lines[:end]
    assert max(map(len, grid)) <= width
    assert "…" not in "".join(grid)
    heading, *rows = [line for line in grid if line.strip() and set(line.strip()) - {"─", " "}]
    assert [row.split()[0] for row in rows if not row.startswith(" ")] == ["one-hot", "WE+Dir-ODIR", "uniform"]
    assert len(rows) == 3
    assert "accuracy" in heading
    for title in gone:
        assert title not in heading
        assert title in " ".join(lines[end:])
    assert "Not shown" in lines[end]
    compare.show(table, as_json=False, wide=True)
    whole = capsys.readouterr().out
    assert "Not shown" not in whole
    assert "(1.23, floor 12.34)" in whole


def test_the_usual_table_fits_80_columns():
    table = wide_table(("one-hot", "uniform+TS"))
    usual = [column for column in table.columns if not column.key.startswith(("auroc", "fpr"))]
    scale = {"nll": 2.345, "accuracy": 0.5678}
    cells = {column.key: tabulation.Cell(scale.get(column.key, 0.1234), std=0.0123, n=5) for column in usual}
    rows = tuple(replace(row, cells=cells) for row in table.rows)
    _, left_out = compare.fitted(replace(table, columns=tuple(usual), rows=rows), 80)
    assert left_out == ["KDE P", "KDE O"]


def test_a_dry_run_counts_what_the_first_seed_has_still_to_choose(tmp_path, capsys):
    (tmp_path / "s.toml").write_text(
        'methods = ["one-hot", "we"]\nseeds = 3\nbeta = [1, 2, 4]\ntuning = "first seed"\n'
    )
    command = ["compare", "--config", str(tmp_path / "s.toml"), "--epochs", "1", "--output", str(tmp_path / "s")]
    assert main([*command, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "6 trainings" in out  # three one-hot, three of WE on the first seed
    assert "2 more trainings once the first seed has chosen their values" in out


def test_a_network_of_ones_own_that_cannot_be_built(tmp_path, capsys, monkeypatch):
    (tmp_path / "badly_made.py").write_text("def network(num_classes):\n    raise RuntimeError('no\\nmemory')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["compare", "--model", "badly_made:network", "--output", str(tmp_path / "s")]) == 1
    assert capsys.readouterr().err == ("softkin compare: badly_made:network could not be built: RuntimeError: no\n")


def test_dry_run_writes_nothing(tmp_path, capsys):
    command = ["compare", *SMALL, "--methods", "one-hot,ts,we", "--beta", "1,2,4", "--tuning", "each-seed"]
    command += ["--output", str(tmp_path / "s")]
    assert main([*command, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "one-hot, seed 0 (shared by 2 runs)" in out
    assert "WE distances (shared by 15 runs)" in out
    assert "result of TS, seed 4 (from one-hot, seed 4)" in out
    assert "result of WE, seed 0 (from the best of 3)" in out
    assert "36 runs: 1 distances, 20 trainings, 15 results; 0 done already" in out
    assert "s per training (measured)" in out
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--methods", "one-hot,unifrom"],
            "--methods must be one of one-hot, .*, got 'unifrom'; did you mean 'uniform'",
        ),
        (["--model", "resnet81"], "network 'resnet81' is not known; there are .*did you mean 'resnet18'"),
        (["--select", "nnl"], "did you mean 'nll'"),
        (["--engine", "rey"], "engine 'rey' is not known; there are local, ray; did you mean 'ray'"),
        (["--recipe", "papre"], "did you mean 'paper'"),
        (["--alpha", "1.5"], "--alpha must be at least 0 and below 1"),
        (["--workers", "0"], "`--workers` must be at least 1"),
        (["--workers", "1000000"], "`--workers` must be at most 1,024"),
        (["--seeds", "10000000"], "--seeds must be at most 1,000, got 10,000,000"),
        (["--epochs", "1000000000"], "--epochs must be at most 100,000"),
        (["--config", "absent.toml"], "absent.toml could not be read: there is no such file"),
        (["--alias", "gasmask"], "--alias must be WORD=OTHER"),
        (["--device", "gpu"], "the device gpu cannot be used"),
        (["--model", "wrn(unit=2)"], "wrn has no option 'unit'; it has .*did you mean 'units'"),
        (["--data", "digit"], "digit could not be read.*did you mean 'digits'"),
        (["--ood", "uniform,digit"], "digit could not be read.*did you mean 'digits'"),
        (["--address", "ray://head:10001"], "--address is for --engine ray, and the engine is local"),
        (["--gpus", "1"], "--gpus is for --engine ray"),
        (["--engine", "ray", "--cpus", "-1"], "`--cpus` must be finite and at least 0"),
        (["--engine", "ray", "--device", "foo"], "the device foo cannot be used"),
        (["--methods", "mixup", "--mixing", "0"], "--mixing must be above 0"),
        (
            ["--methods", "one-hot,uniform,mixup", "--alpha", "0.1,0.2", "--mixing", "0.1,0.2,0.4"],
            "alpha has 2, mixing",
        ),
    ],
)
def test_wrong_usage(options, words, capsys, tmp_path):
    import re

    assert main(["compare", *options, "--output", str(tmp_path / "s")]) == 2
    error = capsys.readouterr().err
    assert re.search(words, error)
    assert error.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_no_methods(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--methods", ","])
    assert stop.value.code == 2
    assert "must be a name or a list such as one-hot,we, got ','" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--alpha", "--seeds"])
def test_no_numbers(option, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["compare", option, "many"])
    assert stop.value.code == 2
    assert "got 'many'" in capsys.readouterr().err


@pytest.mark.filterwarnings("always")
def test_names_that_look_wrong_are_named_once(capsys, tmp_path, without_pictures):  # noqa: F811
    labels = np.repeat(np.arange(4), 12)
    features = np.eye(4, dtype=np.float32)[labels] + np.random.default_rng(0).normal(size=(48, 4)).astype(np.float32)

    def data(*names):
        path = tmp_path / f"{names[0]}.npz"
        np.savez(path, features=features, labels=labels, class_names=np.array(names))
        return str(path)

    options = ["--methods", "we", "--seeds", "1", "--epochs", "1", "--validation", "12", "--test", "12", "--beta", "1"]
    arguments = [*options, "--workers", "1", "--output", str(tmp_path / "study")]
    assert main(["compare", "--data", data(*(f"class_{k}" for k in range(4))), *arguments]) == 0
    errors = capsys.readouterr().err
    assert errors.count("warning:") == errors.count("warning: the class names differ only by numbers or letters") == 1
    flowers = study.StudySpec(data=data("dolphin", "seal", "rose", "tulip"), methods=["one-hot", "we"])
    with pytest.warns(UserWarning, match="with 4 classes normalised distances are always extreme: at beta=2"):
        resolve(replace(flowers, beta=2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(flowers)
        resolve(replace(flowers, beta=(1.0, 2.0)))  # validation rows choose
