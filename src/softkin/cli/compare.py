"""``softkin compare``: train methods side by side on one data set, and print the table of results."""

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io.escape import terminal
from softkin.cli import choices, listing, measuring, running
from softkin.cli.arguments import declare, given, in_shell, names
from softkin.cli.printing import json_text, rows_that_fit, say, width

if TYPE_CHECKING:
    from softkin.lab.study import Cell, Column, StudySpec, Table

SUMMARY = "train methods side by side and print the table of accuracy and calibration"
DESCRIPTION = """\
Train several methods on the same data, with the same number of tuning trials each, and print accuracy, NLL and
calibration error with their standard deviation over seeds. The output says which methods beat plain (one-hot) training
and which cannot be distinguished from the best.

Without options it compares one-hot training, uniform smoothing, mixup, and smoothing towards classes whose names have
similar meanings, each with and without temperature scaling, and labels that the network learns. It trains on frozen
CIFAR-100 features that come with softkin, with five seeds, and takes about two minutes on two cores. --data digits
compares the paper's ten methods and learned labels.

Weight decay is tuned first, in the same way for every trained method, on the first seed. One-hot training is next, and
softkin prints what it implies for smoothing before it trains the others. A summary precedes the table: how wrong plain
training is, what fixes it, whether it pays to train differently, and what to use.

Finished runs are kept in the output folder. Run the same command again to resume after an interruption, or start it in
more processes, also on other machines that share the folder, to divide the work."""
EXAMPLE = "softkin compare --methods one-hot,ts,we --seeds 1 --beta 2 --epochs 5 --tune none --output study/"
MORE_EXAMPLES = (
    "softkin compare",
    "softkin compare reviews.csv --methods one-hot,uniform,we,we+ts --seeds 3 --output study/",
    "softkin compare --list-methods",
)

DEFAULT_FOLDER = Path("softkin-compare")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the options, with the library's names; None means the default of ``StudySpec``."""
    command.add_argument("data", nargs="?", action=running.Data, help=argparse.SUPPRESS)
    what = command.add_argument_group("the study")
    what.add_argument(
        "--config", type=Path, metavar="STUDY.TOML", help="study as a TOML file; the options override its values"
    )
    choices.choose(
        what.add_argument("--data", action=running.Data),
        "data set: {}, a folder, .npz, .parquet …, see softkin data --help (default: cifar100-features; with --config: "
        "digits)",
        choices.data_sets,
        files=True,
    )
    what.add_argument("--size", type=int, help="resize images to this many pixels on each side")
    what.add_argument(
        "--max-per-class",
        "--per-class",
        type=int,
        help="maximum number of training rows of each class (default: all; digits: 10)",
    )
    what.add_argument("--validation", type=int, help="number of held-out rows for tuning and for fitting calibrators")
    what.add_argument("--test", type=int, help="number of test rows, which the table is computed from")
    choices.choose(
        what.add_argument("--model"),
        "network: one of {}, or package.module:callable (default: depends on the data)",
        choices.networks,
    )
    choices.choose(
        what.add_argument("--methods", type=names),
        "methods to compare, separated by commas, such as one-hot,we,we+ts; +ts and other calibrators may follow any "
        "method; --list-methods describes them all (default: see above)",
        choices.study_methods,
        separators=",+",
    )
    listing.add(what, listing.study_methods)
    what.add_argument("--seeds", type=running.seeds, help="number of seeds, or a list such as 3,4,5 (default: 5)")
    _add_values(
        command.add_argument_group("parameters: one value, or a list, of which the best on validation is chosen")
    )
    choices.choose(
        what.add_argument("--select"),
        "metric on validation rows that decides between the values tried: {}; refined-nll: NLL after a temperature "
        "(default: refined-nll for methods followed by a calibrator, nll for the others)",
        choices.metrics_of_choice,
    )
    choices.choose(
        what.add_argument("--search"),
        "grid: try every value; halving: the better half of the values trains for twice as long (default: grid)",
        choices.searches,
    )
    choices.choose(
        what.add_argument("--tuning"),
        "where values are chosen: on the first seed for all of them, or on each seed for itself: {} (default: "
        "first-seed; with --config: each-seed)",
        choices.tunings,
    )
    what.add_argument(
        "--accuracy-budget",
        type=float,
        metavar="POINTS",
        help="choose the value with the lowest output ECE among those that lose at most this many points of accuracy",
    )
    what.add_argument(
        "--tune",
        type=names,
        metavar="FIELDS",
        help="settings of the recipe to tune in the same way for every trained method, on the first seed: "
        "weight-decay, lr, epochs, or none (default: weight-decay; with --config: none)",
    )
    what.add_argument(
        "--half-steps",
        action="store_true",
        default=None,
        help="also try the values halfway (a factor of √3) to either side of the best that --tune found; worth it if "
        "the best weight decay is near the largest that still trains",
    )
    what.add_argument(
        "--tune-each",
        action="store_true",
        default=None,
        help="let --tune search for each value that a method tries, not only for the middle one: two to three times "
        "the trials, and fairer to methods whose best value wants another weight decay",
    )
    choices.choose(
        what.add_argument("--ood", type=names),
        "out-of-distribution data, separated by commas: uniform, gaussian (noise) or any data set",
        choices.unknown_data,
        separators=",",
        files=True,
    )
    labels = command.add_argument_group("class distances")
    measuring.add_word_options(labels)
    measuring.add_options(labels, code=False, of="for the method {}")
    recipe = command.add_argument_group("training recipe, the same for every method")
    choices.choose(recipe.add_argument("--recipe"), "training recipe: one of {} (default: small)", choices.recipes)
    declare(recipe, choices.declared(choices.of_recipes), default=" (default: the recipe's)")
    how = command.add_argument_group("how it runs")
    how.add_argument(
        "--output",
        type=Path,
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        help=f"folder of the study (default: {DEFAULT_FOLDER})",
    )
    how.add_argument(
        "--wide", action="store_true", help="print all columns, with what perfect calibration would show in brackets"
    )
    how.add_argument("--force", action="store_true", help="replace another study in that folder")
    how.add_argument(
        "--dry-run",
        action="store_true",
        help="print the runs, which of them are shared, and an estimate of the time, without training",
    )
    running.add_options(how)


def _add_values(command: argparse._ArgumentGroup) -> None:
    """Add the parameters of training methods; those of smoothing have defaults of their own here."""
    usual = {
        "alpha": "; auto adjusts it during training by the gap on validation rows; compare itself tries auto, 0.05, "
        "0.2 and 0.5, unless another parameter has a list; a method without β tries these values too, and others "
        "around them until it has as many trials as α and β have together; learned and ps-kd have an α of their own",
        "beta": "; compare itself defaults to auto, fitted to what one-hot training confuses",
        "mixing": "; compare itself tries several values around the default, as many as for α and β",
        "top_m": "; a single value, not a list",
        "prior_rows": "; compare itself defaults to 1, for learned-we and the other learned- methods",
    }
    for option in choices.declared(choices.of_methods):
        about = option.about + usual.get(option.name, "")
        kind: Any = "int" if option.name == "top_m" else option.kind
        declare(command, [replace(option, about=about, kind=kind)], lists=True)


DEFAULTS: dict[str, Any] = {
    "data": "cifar100-features",
    "tune": ["weight-decay"],
    "tuning": "first seed",
    "alpha": ["auto", 0.05, 0.2, 0.5],
}
"""Of the command, where a study in a file or in Python has others. The α that closes the gap is rarely the best one for
a temperature that follows, so both kinds are tried"""
FIELDS = ("data", "size", "max_per_class", "validation", "test", "model", "methods", "seeds")
CHOICES = ("tune", "half_steps", "tune_each", "select", "search", "tuning", "accuracy_budget", "vectors", "ood")


def spec_of(arguments: argparse.Namespace) -> "StudySpec":
    """The study that the options and the configuration file describe."""
    from softkin._io import files
    from softkin.lab.study import columns
    from softkin.lab.study.spec import OWN_FIELDS, StudySpec, read_toml, trusted

    typed = {name: getattr(arguments, name) for name in (*FIELDS, *OWN_FIELDS, *CHOICES)}
    values: dict[str, Any] = {}
    if arguments.config is not None:
        values = read_toml(arguments.config)
        if arguments.model is None:
            values = trusted(values, arguments.config, arguments.trust_model)
        with files.named(arguments.config):  # errors in values that no option replaces name the file
            StudySpec.from_dict({key: value for key, value in values.items() if typed.get(key) is None})
    usual = {} if arguments.config is not None else DEFAULTS  # a file says everything
    values = usual | values | {name: value for name, value in typed.items() if value is not None}
    tried = [getattr(arguments, option.name, None) for option in choices.declared(choices.of_methods)]
    if usual and typed["alpha"] is None and any(isinstance(value, list | tuple) and len(value) > 1 for value in tried):
        del values["alpha"]  # whoever lists values of one parameter has said how many trials a method gets
    recipe = dict(values.get("recipe", {}))
    if arguments.recipe is not None:
        recipe = {"name": arguments.recipe}
    recipe |= given(arguments, choices.declared(choices.of_recipes))
    if recipe:
        values["recipe"] = recipe
    if sources := measuring.chosen(arguments):
        values["sources"] = {**values.get("sources", {}), **sources}
    others = [option for option in choices.declared(choices.of_methods) if option.name not in OWN_FIELDS]
    if parameters := given(arguments, others):
        values["parameters"] = {**values.get("parameters", {}), **parameters}
    if arguments.alias:
        values["aliases"] = {**values.get("aliases", {}), **running.aliases(arguments)}
    spec = StudySpec.from_dict(values)
    if arguments.alpha is not None and spec.methods and not spec.smooths:
        raise ValueError(
            "--alpha is for uniform smoothing and class similarity, and none of the methods is one; learned labels and "
            "PS-KD try values around an α of their own."
        )
    if arguments.methods is None or not (beside := columns.controls(spec.methods)):
        return spec
    if columns.TWO_NETWORKS in beside:
        values["parameters"] = {"members": 2, **values.get("parameters", {})}
    return StudySpec.from_dict(values | {"methods": [*spec.methods, *beside]})


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin.lab import models
    from softkin.lab.data import loading, ood
    from softkin.lab.study.perform import recipe_of

    running.check(arguments)
    spec = spec_of(arguments)
    with _from_file(arguments, "recipe", "epochs"):
        recipe_of(spec)
    with _from_file(arguments, "model"):
        if spec.model is not None:
            models.check(spec.model, **spec.model_options)
    with _from_file(arguments, "data"):
        loading.check(spec.data)
    with _from_file(arguments, "ood"):
        for name in spec.ood:
            ood.check(name)


def _from_file(arguments: argparse.Namespace, *options: str) -> AbstractContextManager[object]:
    """Name the configuration file in messages about values that none of these options replaced."""
    from softkin._io import files

    replaced = any(getattr(arguments, option) is not None for option in options)
    return nullcontext() if arguments.config is None or replaced else files.named(arguments.config)


def run(arguments: argparse.Namespace) -> None:
    """Run the study and print its table."""
    from softkin import report
    from softkin.lab import study

    spec = spec_of(arguments)
    typed = {study.columns.check(name) for name in arguments.methods or spec.methods}
    if beside := [name for name in spec.methods if name not in typed]:
        say(f"Beside a kin head, also {', '.join(beside)}: the same without kin, and two networks.", to=sys.stderr)
    if arguments.dry_run:
        from softkin.lab.study.estimate import estimate

        told = estimate(spec, arguments.output, device=arguments.device, workers=arguments.workers)
        say(told.text().rstrip("\n"))
        return
    table = study.run(
        spec,
        arguments.output,
        force=arguments.force,
        write_page=report.write_comparison,
        tell=lambda sentence: say(sentence, to=sys.stderr),
        **running.how(arguments),
    )
    show(table, arguments.json, wide=arguments.wide)
    if not arguments.json:
        if table.times is not None:
            say(table.times)
        for path in study.writing.written(arguments.output):
            print(f"Wrote {terminal(str(path))}")


ONLY_WIDE = ("KDE P, KDE O:", "In brackets:")
"""Notes on what only the wide table shows"""


def show(table: "Table", as_json: bool, *, wide: bool = False) -> None:
    """Print a table as text or JSON; the wide one has every column, and perfect calibration in brackets."""
    if as_json:
        print(json_text(table.to_dict()))
        return
    text, left_out = fitted(table, max(width(), 400) if wide else width(), wide=wide)
    if table.recommendation:
        say(in_shell("\n".join(table.recommendation), {"--alpha"}) + "\n")
    print(f"{text}\n")
    if left_out:
        say(f"Not shown: {', '.join(left_out)}; --wide shows all, as does table.md in the study's folder.")
    for note in table.notes:
        if wide or not note.startswith(ONLY_WIDE):
            say(in_shell(note.replace("Bold: best.", "*: best."), {"--alpha"}))


def fitted(table: "Table", columns: int, *, wide: bool = False) -> tuple[str, list[str]]:
    """The table in at most this many columns of text, and the titles of the columns that were dropped.

    The columns of the wide table come first; then those of out-of-distribution sets, AURC, Hist O, the gap, and the
    others from the right. Methods always stay.
    """
    from softkin.lab.study.tabulation import heading

    kept = [column for column in table.columns if wide or not column.wide]
    titles = {heading(column): column.title for column in table.columns}
    rows = [
        [row.title, *(_cell(column, row.cells.get(column.key), wide=wide) for column in kept)] for row in table.rows
    ]
    order = sorted(range(len(kept)), key=lambda place: (_expendable(kept[place].key), place), reverse=True)[:-1]
    headings = ["method", *map(heading, kept)]
    text, dropped = rows_that_fit(headings, rows, [1 + place for place in order], gap=1, columns=columns)
    gone = {titles[name] for name in dropped}
    return text, [column.title for column in table.columns if column not in kept or column.title in gone]


DROPPED = ("signed_gap", "ece_hist_output", "aurc")  # the last is dropped first


def _expendable(key: str) -> int:
    if key.startswith(("auroc ", "fpr_at_95 ")):
        return len(DROPPED) + 1
    return DROPPED.index(key) + 1 if key in DROPPED else 0


def _cell(column: "Column", cell: "Cell | None", *, wide: bool) -> str:
    from softkin.lab.study.tabulation import mark, shown

    if cell is None:  # measured before the metric was declared
        return "–"
    value, beside = shown(column, cell, short=not wide)
    return f"{value}{mark(column, cell)}" + (f" ({beside})" if beside else "")
