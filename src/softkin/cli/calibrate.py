"""``softkin calibrate``: fit a calibrator to a file of predictions, apply it to another, or compare all of them."""

import argparse
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files
from softkin._io.files import Assumption
from softkin.cli import choices, listing
from softkin.cli.arguments import MOST_SEED, check_shares, percentage, within
from softkin.cli.choices import choose
from softkin.cli.inputs import (
    add_actions,
    add_common_options,
    add_file,
    opened,
    read_labelled,
    reading_options,
    recognisable,
)
from softkin.cli.printing import (
    add_report,
    check_report,
    json_text,
    present,
    print_data_sets,
    print_table,
    say,
    shown,
    signed,
    write_report,
    wrote,
)

if TYPE_CHECKING:
    from torch import Tensor

    from softkin.calibrators import Calibrator
    from softkin.calibrators.selection import BestFit
    from softkin.evaluation.results import CalibratorLine, ComparedCalibrators
    from softkin.metrics.catalogue import Metric
    from softkin.predictions import Predictions

SUMMARY = "fit a calibrator to predictions, apply it to others, or compare all of them"
DESCRIPTION = """\
Make confidences match accuracy: fit a calibrator on held-out predictions, apply it to others, or compare all of them.
softkin warns when a calibrator is measured on samples that it was fitted on, whatever the files are called.
`softkin evaluate --help` lists the kinds of files."""
EXAMPLE = "softkin calibrate compare examples/digits-validation.npz examples/digits-test.npz"
MORE_EXAMPLES = (
    "softkin calibrate fit examples/churn.csv --output cal/",
    "softkin calibrate apply cal/ examples/churn.csv --output calibrated.csv",
    "softkin calibrate fit --list-methods",
)
EXAMPLES = {
    "fit": "softkin calibrate fit examples/digits-validation.npz --output cal/\n"
    "softkin calibrate fit examples/churn.csv --method platt --output cal/",
    "apply": "softkin calibrate apply cal/ examples/digits-test.npz --output calibrated.npz\n"
    "softkin calibrate apply cal/ examples/churn.csv --output calibrated.csv",
    "compare": f"{EXAMPLE}\nsoftkin calibrate compare held-out.csv test.csv --methods temperature,platt,isotonic",
}

COST = """\
matrix, dirichlet, structured-matrix and kin-matrix choose their penalty by cross-validation, which takes seconds for
10 classes and about half a minute for 5,000 samples of 100 classes; cross-validation is skipped beyond n·K² = 5·10⁸"""

HEADINGS = (
    "method",
    "NLL",
    "interval of the NLL",
    "ECE %",
    "its interval",
    "if calibrated",
    "ECE of the output %",
    "accuracy %",
    "seconds",
)
IN_HEADINGS = ("nll", "ece_hist", "ece_hist_output", "accuracy")  # other metrics have columns before the seconds
LEFT_OUT_FIRST = (5, 6, 4, 2)  # the columns that go after these where the terminal is too narrow for all


BEST, HEAD = "best", "kin-head"


def _with_best() -> list[str]:
    return [*choices.listed(choices.calibrators), HEAD, BEST]


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the actions fit, apply and compare."""
    action = add_actions(command, EXAMPLES)

    fit = action("fit", "fit a calibrator to predictions on held-out samples")
    add_file(fit, "file", "held-out predictions with labels")
    method = fit.add_argument("--method", default=BEST)
    choose(
        method,
        "the calibrator: one of {} (default: best, which chooses by cross-validation and searches the penalty of the "
        "one ahead; kin-head, a second head for few training rows, needs --features)",
        _with_best,
    )
    listing.add(fit, listing.calibrators)
    fit.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder for the calibrator")
    head = fit.add_argument_group("for --method kin-head")
    _add_features(head, "the held-out rows")
    head.add_argument(
        "--train",
        type=Path,
        metavar="FILE",
        help="`features` and `labels` of the rows that the network was trained on: .npz or .safetensors (default: "
        "those of FILE, whose scores must then come from cross-validation)",
    )
    head.add_argument(
        "--similarity",
        type=Path,
        metavar="FILE",
        help="class distances or similarity, as `softkin similarity` writes them (default: a head without kin)",
    )
    fit.add_argument("--certify", action="store_true", help="also measure it by five-fold cross-fitting")

    apply = action("apply", "apply a calibrator to predictions")
    apply.add_argument("folder", type=Path, metavar="FOLDER", help="folder of a calibrator that `fit` wrote")
    add_file(apply, "file", "predictions, with labels or without")
    _add_features(apply, "the rows, for a kin-head")
    apply.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="file for the calibrated probabilities: .npz or .safetensors; .csv and .tsv keep all columns of a table",
    )

    compare = action("compare", "fit all calibrators on one file and measure them on another")
    add_file(compare, "validation", "predictions to fit on")
    add_file(compare, "test", "predictions to measure on")
    only = compare.add_argument("--methods", metavar="A,B,…")
    choose(only, f"calibrators to compare, of {{}} (default: all; {COST})", choices.calibrators, separators=",")
    ordered = compare.add_argument("--metric", default="nll")
    choose(ordered, "metric that orders the table: {} (default: nll)", choices.metrics_of_order)
    listing.add(compare, listing.calibrators)
    compare.add_argument("--confidence", type=percentage, default=0.95, help="level of the intervals (default: 0.95)")
    compare.add_argument("--resamples", type=int, default=1000, help="resamples for the intervals (default: 1000)")
    compare.add_argument("--seed", type=int, default=0, help="seed of the resampling (default: 0)")
    compare.add_argument("--output", type=Path, metavar="FILE.json", help="also write the results to this file")
    add_report(compare)

    for parser in (fit, compare):
        parser.add_argument(
            "--floor",
            type=float,
            metavar="P",
            help="value that replaces probabilities of exactly 0 (default: estimated)",
        )
    for parser in (fit, apply):
        parser.add_argument(
            "--ignore-index",
            type=int,
            metavar="N",
            help="label of pixels to leave out, of an .npz with (N, K, …) scores",
        )
    for parser in (fit, apply, compare):
        add_common_options(parser)


def _add_features(group: "argparse._ActionsContainer", of: str) -> None:
    group.add_argument(
        "--features", type=Path, metavar="FILE", help=f"(N, d) features of {of}: .npy, .npz or .safetensors"
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    if arguments.action == "compare":
        check_report(arguments)
        check_shares(arguments, "confidence")
        within(arguments.resamples, "--resamples", 100, 1_000_000)
        within(arguments.seed, "--seed", 0, MOST_SEED)
        if arguments.labels is not None:
            raise ValueError("--labels must be left out: two files cannot share one file of labels.")
    if arguments.action in ("fit", "compare"):
        from softkin.evaluation import calibrations

        if arguments.action == "fit":
            _check_head(arguments)
        for name in _methods(arguments):
            if name not in (BEST, HEAD) or arguments.action != "fit":
                calibrations.method(name)
        if arguments.action == "compare":
            calibrations.order(arguments.metric)
        if arguments.floor is not None and not 0 < arguments.floor < 1:
            raise ValueError(f"--floor must be above 0 and below 1, got {arguments.floor:g}.")
    if arguments.action == "apply" and arguments.output.suffix not in (".npz", ".safetensors", ".csv", ".tsv"):
        raise ValueError(f"--output must end in .npz, .safetensors, .csv or .tsv, got {arguments.output}.")
    if arguments.output is None:
        return
    if arguments.action == "fit" and arguments.output.exists() and not arguments.output.is_dir():
        raise ValueError(f"--output must be a folder, but {arguments.output} is a file.")
    files.guard(target(arguments), force=arguments.force)


def _check_head(arguments: argparse.Namespace) -> None:
    if arguments.method == HEAD:
        if arguments.features is None:
            raise ValueError(
                "--method kin-head needs --features, those of the same rows; predictions.collect keeps them."
            )
        return
    for option in ("features", "train", "similarity"):
        if getattr(arguments, option) is not None:
            raise ValueError(f"--{option} must be left out with --method {arguments.method}: it is for kin-head.")


def target(arguments: argparse.Namespace) -> Path:
    """The file that is written."""
    output: Path = arguments.output
    return output / "calibrator.safetensors" if arguments.action == "fit" else output


def _methods(arguments: argparse.Namespace) -> list[str]:
    """The names of the calibrators that the options name."""
    from softkin.evaluation import calibrations

    return calibrations.methods_in(arguments.method if arguments.action == "fit" else arguments.methods or "")


def run(arguments: argparse.Namespace) -> None:
    """Run the action."""
    {"fit": _fit, "apply": _apply, "compare": _compare}[arguments.action](arguments)


def _fit(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict, replace

    from softkin.evaluation import calibrations

    held_out = _pixels(arguments) or read_labelled(arguments.file, arguments)
    _warn_of_a_second(held_out)
    floor, chosen = arguments.floor, None
    if arguments.method == BEST:
        floor, said = calibrations.zeros_as(held_out, floor)
        if said is not None:
            warnings.warn(said, stacklevel=2)
        chosen = calibrations.best(held_out, floor=floor)
    beside: dict[str, Any] = {}
    if arguments.method == HEAD:
        method, beside = _head(arguments, held_out)
    else:
        method = calibrations.method(arguments.method) if chosen is None else chosen.candidates[0].calibrator
    calibrator = calibrations.fit(method, held_out, floor=floor, **beside)
    calibrator.fell_back_ = chosen is not None and not _helps(chosen)
    if arguments.certify:
        calibrator.certify(held_out.scores, held_out.known_labels, from_probabilities=held_out.are_probabilities)
    calibrator.save(arguments.output)
    if arguments.json:
        about = {"calibrator": repr(calibrator), "folder": str(arguments.output), "digest": held_out.digest}
        certificate = files.plain(asdict(calibrator.certificate_))
        print(json_text(about | {"certificate": certificate}))
        return
    if chosen is not None:
        _print_choice(chosen)
    if calibrator.fell_back_:
        wrote(target(arguments))
        return
    positive = _positive(held_out)
    certified, told = calibrator.certificate_, calibrator.summary()
    outcome = replace(certified, notes=tuple(note for note in certified.notes if note != told)).outcome
    outcome = outcome.replace("P(class 1)", f"P({positive or 'right'})")
    say(f"{_summary(calibrator)}\nFitted on {signed(outcome)}")
    changed = calibrator.certificate_.argmax_changed
    if changed and calibrator.name != "temperature":
        but = "" if positive is None else f", but may leave P({positive}) wrong"
        say(
            f"It changes {100 * changed:.2g} % of the answers on these samples; --method temperature changes none{but}."
        )
    if calibrator.floor_ is not None and math.isinf(_nll(held_out, held_out.probabilities)):
        say(
            f"These NLL take probabilities of exactly 0 as {calibrator.floor_:.3g}; as they are, the uncalibrated NLL "
            "is ∞, and `evaluate` says so."
        )
    wrote(target(arguments))


def _positive(predictions: "Predictions") -> str | None:
    """The name of the positive class of a binary model; None for others."""
    from softkin.evaluation.positive import name_of

    if predictions.are_pairs or predictions.num_classes != 2:
        return None
    return "class 1" if predictions.class_names is None else shown(name_of(predictions.class_names[1]))


def _pixels(arguments: argparse.Namespace) -> "Predictions | None":
    """Random pixels of a file of them; None if it holds rows."""
    from softkin.evaluation import pixels
    from softkin.predictions import Reading

    if not pixels.holds(arguments.file):
        if arguments.ignore_index is not None:
            raise ValueError(
                f"--ignore-index is for pixels, (N, K, …) scores of an .npz, and {arguments.file} has none."
            )
        return None
    reading = Reading(**reading_options(arguments))
    rows = pixels.drawn(arguments.file, reading, arguments.ignore_index, labelled=arguments.action == "fit")
    warnings.warn(
        Assumption(f"{arguments.file}: {len(rows):,} pixels, drawn at random from all images, stand for the others."),
        stacklevel=2,
    )
    return rows


def _warn_of_a_second(raw: "Predictions") -> None:
    """Warn of a calibrator on top of another one, which is seldom meant."""
    from softkin.evaluation.results import already

    if raw.calibrated_by is not None:
        first = f"{raw.name} is c{already(raw.calibrated_by, '')[1:-1]}"
        warnings.warn(f"{first}; a second calibrator takes its output for the scores.", stacklevel=2)


def _nll(predictions: "Predictions", p: "Tensor") -> float:
    from softkin import metrics

    of, labels, weights = predictions.arrays(p)
    return metrics.nll(of, labels, sample_weight=weights)


def _helps(chosen: "BestFit") -> bool:
    """Whether the best calibrator lowers the cross-validated NLL, in the digits that are printed."""
    before, after = chosen.uncalibrated, chosen.candidates[0].score
    return after < before and f"{before:.4f}" != f"{after:.4f}"


def _print_choice(chosen: "BestFit") -> None:
    """Print which calibrator cross-validation chose and how sure that is, then the table of all."""
    best = chosen.candidates[0]
    before, after = (_plain(files.number(score)) for score in (chosen.uncalibrated, best.score))
    name = best.calibrator.in_words()
    if _helps(chosen):
        say(f"Use {name}: NLL {before} → {after} by cross-validation{_lead(chosen)}.")
    else:
        say(
            f"No calibrator helps, so the one that is written changes nothing: by cross-validation the best, {name}, "
            f"takes the NLL from {before} to {after}."
        )
    rows = [[one.calibrator.in_words(), _plain(files.number(one.score))] for one in chosen.candidates]
    rows.append(["uncalibrated", before])
    place = next((n for n, one in enumerate(chosen.candidates) if one.score > chosen.uncalibrated), len(rows) - 1)
    print_table(["method", "NLL"], [*rows[:place], rows[-1], *rows[place:-1]], [])
    print()


def _lead(chosen: "BestFit") -> str:
    """How far the choice is ahead of the next, and the interval of that."""
    found = chosen.comparison
    if found is None or not math.isfinite(found.difference):
        return ""
    if not chosen.is_significant and abs(found.difference) < 5e-5:
        return f"; {chosen.candidates[1].calibrator.in_words()} does as well"
    low, high = sorted((-found.low, -found.high))
    interval = signed(f"{-found.difference:.4f} (95 % interval {low:.4f} to {high:.4f})")
    rival = chosen.candidates[1].calibrator.in_words()
    if chosen.is_significant:
        return f"; better than {rival} by {interval}"
    return f"; not clearly better than {rival}, ahead by {interval}"


def _summary(calibrator: "Calibrator") -> str:
    """The calibrator's name and its fitted numbers."""
    return ", ".join(part for part in (calibrator.in_words(), signed(calibrator.summary())) if part)


def _head(arguments: argparse.Namespace, held_out: "Predictions") -> "tuple[Calibrator, dict[str, Any]]":
    """The unfitted head, and what its fit takes besides scores and labels."""
    from softkin import calibrators, distances, similarity
    from softkin._io import numpy_files
    from softkin.distances.sources import ClassNames

    kin = None
    if arguments.similarity is not None:
        names = held_out.class_names or [str(number) for number in range(held_out.num_classes)]
        measured = distances.measure("file", ClassNames(names, names), matrix=arguments.similarity)
        kin = measured.similarity
        if kin is None:
            kin = similarity.from_distances(measured.matrix, asymmetric=measured.asymmetric)
    beside = {"features": _features(arguments.features, held_out)}
    if arguments.train is not None:
        beside["train_features"] = _features(arguments.train)
        labels = numpy_files.read(arguments.train, "labels (N,)", ("labels",), lambda s: len(s) == 1)
        beside["train_labels"] = _of_classes(labels, arguments.train, held_out)
    return calibrators.KinHead(kin), beside


def _features(path: Path, rows: "Predictions | None" = None) -> "Tensor":
    """The features in a file, in the order of the rows of predictions where both have ids."""
    from softkin._io import numpy_files, roles
    from softkin.predictions import label_files

    features = numpy_files.read(path, "features (N, d)", ("features",), lambda shape: len(shape) >= 2)
    ids = numpy_files.listed(path, "features (N, d)", roles.NAMES["id"])
    if rows is None or rows.sample_ids is None or ids is None or len(ids) != len(features):
        return features
    wanted = rows.sample_ids if isinstance(rows.sample_ids, list) else rows.sample_ids.tolist()
    found = label_files.RowsById(ids, str(path)).of(wanted, lambda row: "the predictions")
    if found != list(range(len(features))):
        warnings.warn(f"{path}: its rows are matched with those of the predictions by ids.", Assumption, stacklevel=2)
    return features[found]


def _of_classes(labels: "Tensor", path: Path, held_out: "Predictions") -> "Tensor":
    """Labels of training rows as numbers of the classes of the held-out rows, where both files have class names."""
    from softkin._core import checks
    from softkin._io import numpy_files, roles

    names = numpy_files.listed(path, "labels (N,)", roles.CLASS_NAMES)
    refused = f"{path} must have the classes of the held-out rows, in any order, but"
    order = checks.class_order(names, held_out.class_names, refused)
    if order is None:
        return labels
    said = f"{path} has its classes in another order than the held-out rows; they are matched by name."
    warnings.warn(said, Assumption, stacklevel=2)
    known = checks.class_labels(labels, num_samples=len(labels), num_classes=len(order))
    return order.argsort()[known]


def _apply(arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from softkin import calibrators, metrics
    from softkin.evaluation import doubts
    from softkin.predictions import rewriting

    calibrator = calibrators.load(arguments.folder)
    if (some := _pixels(arguments)) is not None:
        _apply_to_pixels(arguments, calibrator, some)
        return
    file, raw = opened(arguments.file, arguments)
    if calibrator.takes_features != (arguments.features is not None):
        takes = "needs --features, those of the same rows" if calibrator.takes_features else "takes no --features"
        raise ValueError(f"{arguments.folder} holds the calibrator {calibrator.in_words()}, which {takes}.")
    if calibrator.takes_features:
        raw = replace(raw, features=_features(arguments.features, raw))
    _warn_of_a_second(raw)
    n = len(raw)
    after = raw.calibrated(calibrator)
    name = calibrator.in_words()
    common = doubts.seen(calibrator, recognisable(raw, arguments), n)
    notice = doubts.notice(common, f"{name} calibrator", str(raw.name))
    if notice:
        warnings.warn(notice, stacklevel=2)
    notes = doubts.note(common, f"{name} calibrator", calibrator.fingerprint)
    table, suffix = None, arguments.output.suffix
    if suffix in (".csv", ".tsv"):
        table = rewriting.rewritten(file, after, notes.get("calibration"), tabs=suffix == ".tsv")
    if table is None:
        after.save(arguments.output, notes=notes, force=arguments.force)
    else:
        files.write(arguments.output, table.text)
    result: dict[str, Any] = {"calibrator": repr(calibrator), "num_samples": n, "file": str(arguments.output)}
    result["kept"] = [] if table is None else table.kept
    result["added"] = [] if table is None else table.written
    if raw.labels is not None:
        for key, p in (("before", raw.probabilities), ("after", after.probabilities)):
            of, labels, weights = raw.arrays(p)
            names = ("nll", "ece_hist", *(("ece_positive",) if _positive(raw) is not None else ()))
            found = {name: getattr(metrics, name) for name in names}
            result[key] = {name: metric(of, labels, sample_weight=weights) for name, metric in found.items()}
    matched = doubts.reordered(calibrator, raw)
    if arguments.json:
        print(json_text(result | {"warnings": [notice] if notice else [], "reordered": matched is not None}))
        return
    print(f"{shown(matched)}\n" if matched else "", end="")
    say(f"{name}, fitted on {calibrator.certificate_.num_samples:,} samples, applied to {n:,}")
    if raw.labels is not None:
        before, behind = result["before"], result["after"]
        told = [f"NLL {_plain(files.number(before['nll']))} → {_plain(files.number(behind['nll']))}"]
        titles = {"ece_positive": f"ECE of P({_positive(raw)})", "ece_hist": "ECE of the prediction"}
        told += [
            f"{title} {100 * before[key]:.2f} % → {100 * behind[key]:.2f} %"
            for key, title in titles.items()
            if key in before
        ]
        say(", ".join(told))
        if math.isinf(before["nll"]) and calibrator.floor_ is not None:
            from softkin.calibrators import zeros

            floored = _nll(raw, zeros.logarithms(raw.probabilities.double(), calibrator.floor_).softmax(dim=1))
            say(
                f"NLL is ∞ before calibration because a true class has the probability 0; with zeros taken as "
                f"{calibrator.floor_:.3g}, as `fit` takes them, it is {floored:.4f}."
            )
    if table is not None:
        say(f"{shown(table.summary)}.")
    wrote(arguments.output)


def _apply_to_pixels(arguments: argparse.Namespace, calibrator: "Calibrator", some: "Predictions") -> None:
    """Calibrate a file of pixels, of which ``some`` show whether the calibrator was fitted on them."""
    from softkin.evaluation import doubts, pixels
    from softkin.predictions import Reading

    if arguments.output.suffix != ".npz" or calibrator.takes_features:
        raise ValueError(
            f"pixels are calibrated into an .npz file, and by no kin-head; got {arguments.output} and "
            f"{calibrator.in_words()}."
        )
    common = doubts.seen(calibrator, some, len(some))
    notice = doubts.notice(common, f"{calibrator.in_words()} calibrator", str(some.name))
    if notice:
        warnings.warn(notice, stacklevel=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Assumption)  # said when the pixels were drawn
        reading = Reading(**reading_options(arguments))
        found = pixels.calibrated(arguments.file, calibrator, reading, arguments.ignore_index)
    found.save(arguments.output)
    result = {
        "calibrator": repr(calibrator), "num_pixels": found.num_pixels, "file": str(arguments.output),
        "before": found.before, "after": found.after, "warnings": [notice] if notice else [],
    }  # fmt: skip
    if arguments.json:
        print(json_text(result))
        return
    say(
        f"{calibrator.in_words()}, fitted on {calibrator.certificate_.num_samples:,} samples, applied to "
        f"{found.num_pixels:,} pixels"
    )
    if found.before:
        say(
            f"NLL {_plain(files.number(found.before['nll']))} → {_plain(files.number(found.after['nll']))}, ECE of "
            f"the prediction {100 * found.before['ece_hist']:.2f} % → {100 * found.after['ece_hist']:.2f} %"
        )
    wrote(arguments.output)


def _compare(arguments: argparse.Namespace) -> None:
    from softkin.evaluation import calibrations

    validation, test = (read_labelled(path, arguments) for path in (arguments.validation, arguments.test))
    result = calibrations.compare_methods(
        validation,
        test,
        _methods(arguments) or None,
        floor=arguments.floor,
        metric=arguments.metric,
        confidence=arguments.confidence,
        resamples=arguments.resamples,
        seed=arguments.seed,
    )
    present(arguments, result, _print)
    write_report(arguments, "of_calibrators", result)


def _print(result: "ComparedCalibrators") -> None:
    from softkin.evaluation import calibrations
    from softkin.metrics.catalogue import METRICS
    from softkin.metrics.catalogue import shown as shown_metrics

    level = f"{100 * result['confidence']:g} %"
    print_data_sets(result)
    rows_of = [line["metrics"] for line in result["methods"] if "metrics" in line]
    others = [
        metric
        for metric in shown_metrics("compare")
        if metric.key not in IN_HEADINGS and all(metric.key in each for each in rows_of)
    ]
    *first, seconds = HEADINGS
    headings = [*first, *(f"{metric.short} %" if metric.percent else metric.short for metric in others), seconds]
    droppable = [place for place, metric in enumerate(others, len(first)) if metric.key != result["metric"]]
    rows = [_cells(line, others) for line in result["methods"] if "metrics" in line]
    print_table(headings, rows, [len(headings) - 1, *droppable, *LEFT_OUT_FIRST])
    for line in result["methods"]:
        if "failed" in line:
            say(f"{line['method']} failed: {shown(line['failed'])}")
    say(f"{calibrations.headline(result)} (chosen on the test samples, so expect a little less).")
    reason = calibrations.why(result)
    if reason:
        say(reason)
    told = {result["methods"][1]["method"], result["recommended"], calibrations.UNCALIBRATED}
    pairs = [pair for pair in result["comparisons"] if pair["b"] in told]
    count = len(result["comparisons"])
    if count > 1 and any(isinstance(pair["difference"], float) for pair in pairs):
        short = METRICS[result["metric"]].short
        say(f"Differences in {short}; their intervals and p-values count all {count} comparisons:")
    for pair in pairs:
        if not isinstance(pair["difference"], float):
            who = f"{pair['a']} and {pair['b']} have" if pair["difference"] is None else f"{pair['b']} has"
            say(f"{who} an infinite {pair['metric']}: it gave a true class the probability 0.")
            continue
        words = "better than" if pair["significant"] else "not significantly different from"
        say(
            f"{pair['a']} is {words} {pair['b']}: difference {_plain(pair['difference'])} "
            f"({level} interval {_plain(pair['low'])} to {_plain(pair['high'])}, p = {pair['p_value']:.3f})."
        )


def _cells(line: "CalibratorLine", others: "Sequence[Metric]") -> list[str]:
    """The cells of a method's row in the table."""
    measured = line["metrics"]
    nll, ece = measured["nll"], measured["ece_hist"]
    return [
        line["method"],
        _plain(nll["value"]),
        f"[{_plain(nll['low'])}, {_plain(nll['high'])}]",
        _percent(ece["value"]),
        f"{_percent(ece['low'])} to {_percent(ece['high'])}",
        _percent(ece["when_calibrated"]["value"]),
        _percent(measured["ece_hist_output"]["value"]) if "ece_hist_output" in measured else "–",
        _percent(measured["accuracy"]["value"]),
        *((_percent if metric.percent else _plain)(measured[metric.key]["value"]) for metric in others),
        f"{line['seconds']:.2f}",
    ]


def _plain(value: Any) -> str:
    known = f"{value:.4f}" if isinstance(value, float) else {"Infinity": "∞", "-Infinity": "-∞"}.get(value, "undefined")
    return known.replace("-", "−")


def _percent(value: Any) -> str:
    return f"{100 * value:.2f}" if isinstance(value, float) else _plain(value)
