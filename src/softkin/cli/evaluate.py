"""``softkin evaluate``: files of predictions → every metric with its interval, comparisons, a threshold, a page."""

import argparse
import gc
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError
from softkin._core.names import require, short_names
from softkin._core.workers import ENGINES
from softkin._io import files
from softkin._io.files import Assumption
from softkin.cli import choices
from softkin.cli.arguments import MOST_SEED, check_shares, percentage, within
from softkin.cli.inputs import add_input_arguments, reading_options
from softkin.cli.printing import json_text, page_path, print_table, say, shown, wrote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from softkin._io.files import Plain
    from softkin.evaluation import Compared, Evaluated, Evaluation
    from softkin.evaluation.comparison import Scaled
    from softkin.evaluation.results import GroupData, GroupsData
    from softkin.metrics.catalogue import Metric
    from softkin.metrics.measurement import Measured
    from softkin.predictions import Predictions

SUMMARY = "measure how far a model's confidences can be trusted, from a file of its predictions"
DESCRIPTION = """\
Measure calibration, accuracy and scores of predictions, with confidence intervals; several files of the same samples
are also compared pairwise.

FILE is one of
  .csv, .tsv, .xlsx, .parquet, .feather
                         a column for each class, named after it (cat, prob_cat, P(cat) …), or one score of a binary
                         model, and labels as numbers or names; other columns are left out. Or pairs: a confidence and
                         whether it was right (`confidence`, `correct` …), as language models and judges have them
  .npz, .safetensors, .pt
                         arrays `logits` or `probs` (N, K), `labels` (N,); optional `class_names`, `sample_ids`
  .npy                   logits.npy or probs.npy with labels.npy beside it, also x_logits.npy with x_labels.npy
  .jsonl, .json          objects with `logits` or `probs`, a list or numbers by class name, and `label`; or with
                         `top_logprobs` of a language model: missing classes share the remaining probability
  -                      any of these on standard input
  a folder, or a pattern in quotes such as 'shards/*.parquet': all its files, as one set of samples
Several FILEs are several models of the same samples; a pattern without quotes counts as several files.
Where the file does not say what its numbers or columns are, they are inferred and a note says how; docs/files.md has
the list. A file with two readings is refused with the option for each."""
EXAMPLE = "softkin evaluate examples/digits-test.npz --abstain 0.05"
MORE_EXAMPLES = (
    "softkin evaluate examples/churn.csv",
    "softkin evaluate examples/tickets.csv --report tickets.html",
    "softkin evaluate pairs.csv --group model --report pairs.html",
)


MOST_MODELS = 20  # on one page; equals report.models.MOST


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names and defaults."""
    choices.path(command.add_argument("files", nargs="+", metavar="FILE", help="file of predictions"))
    add_input_arguments(command)
    command.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="file of labels, if FILE holds none: .npy, .npz, or .txt with one per line",
    )
    numbers = command.add_argument_group("numbers")
    numbers.add_argument("--n-bins", type=int, default=15, help="number of bins of the histograms (default: 15)")
    numbers.add_argument("--group", metavar="NAME", help="column of groups of rows: measure each, and compare them")
    numbers.add_argument(
        "--multi-label",
        action="store_true",
        help="several labels per sample, (N, L) zeros and ones in an .npz file: measure all together and each",
    )
    numbers.add_argument(
        "--ignore-index", type=int, metavar="N", help="label of pixels to leave out, of an .npz with (N, K, …) scores"
    )
    numbers.add_argument("--confidence", type=percentage, default=0.95, help="level of the intervals (default: 0.95)")
    numbers.add_argument(
        "--resamples",
        type=int,
        default=1000,
        help="resamples for the intervals (default: 1000); comparing more than 5 models takes more",
    )
    numbers.add_argument(
        "--ordered",
        action="store_true",
        help="the classes are ordered as given (ratings, grades): add the ranked probability score",
    )
    numbers.add_argument("--kde-interval", action="store_true", help="add an interval for the output's KDE ECE (slow)")
    numbers.add_argument(
        "--abstain",
        type=percentage,
        metavar="RATE",
        help="find the confidence above which the error rate is below RATE",
    )
    numbers.add_argument(
        "--abstain-confidence", type=percentage, default=0.95, help="confidence of that guarantee (default: 0.95)"
    )
    choices.path(
        numbers.add_argument(
            "--ood",
            action="append",
            default=[],
            metavar="FILE",
            help="predictions for out-of-distribution samples: measure how well scores detect them; may be repeated",
        )
    )
    page = command.add_argument_group("the page")
    page.add_argument(
        "--report",
        type=Path,
        metavar="PAGE.html",
        help="write an interactive page of one model, or comparing up to 20",
    )
    choices.path(
        page.add_argument("--images", metavar="SOURCE", help="images for the page: a folder, or a parquet file")
    )
    choices.path(
        page.add_argument(
            "--texts", metavar="FILE", help="texts for the page: .txt with one per line, or a table with a text column"
        )
    )
    choices.path(
        page.add_argument("--distances", metavar="FILE", help="class distances for the page, saved by softkin")
    )
    numbers.add_argument("--seed", type=int, default=0, help="seed of the resampling (default: 0)")
    several = command.add_argument_group("several files")
    several.add_argument(
        "--pairs", action="store_true", help="with more than two models, print every pairwise comparison"
    )
    several.add_argument("--details", action="store_true", help="print all metrics of each of several models")
    large = command.add_argument_group("large sets of files")
    large.add_argument("--jobs", type=int, default=1, help="processes that read the files of a large set (default: 1)")
    engine = large.add_argument("--engine", default="local")
    choices.choose(engine, "local, or ray to read them on a cluster (default: local)", choices.engines)
    large.add_argument("--address", help="address of the Ray cluster, such as ray://head:10001 (default: a local one)")
    output = command.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON instead of tables")
    output.add_argument("--output", type=Path, metavar="FILE.json", help="also write the results to this file")
    output.add_argument("--force", action="store_true", help="overwrite existing files")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    check_shares(arguments, "confidence", "abstain", "abstain_confidence")
    within(arguments.n_bins, "--n-bins", 1, 100_000)
    within(arguments.resamples, "--resamples", 100, 1_000_000)
    within(arguments.seed, "--seed", 0, MOST_SEED)
    within(arguments.jobs, "--jobs", 1, 1024)
    require(arguments.engine, ENGINES, "--engine")
    if arguments.address is not None and arguments.engine != "ray":
        raise ValueError(f"--address is for --engine ray, and the engine is {arguments.engine}.")
    if arguments.multi_label:
        for option in ("group", "abstain", "ood", "weight", "labels", "ordered"):
            if getattr(arguments, option):
                raise ValueError(f"--{option} must be left out with --multi-label.")
        if len(arguments.files) > 1:
            raise ValueError("--multi-label takes one FILE; models of several labels per sample are not compared.")
    if arguments.files.count("-") > 1:
        raise ValueError("standard input (-) can be read only once.")
    if arguments.report is not None and arguments.weight is not None:
        raise ValueError("--report shows no weights yet; leave it out, or leave out --weight.")
    if arguments.report is not None and len(arguments.files) > MOST_MODELS:
        raise ValueError(f"--report shows at most {MOST_MODELS} files on one page, got {len(arguments.files)}.")
    for option in ("images", "texts", "distances"):
        if getattr(arguments, option) is not None and (arguments.report is None or len(arguments.files) > 1):
            raise ValueError(f"--{option} is for the page of one file: it needs --report and a single FILE.")
    if arguments.report is not None:
        arguments.report = page_path(arguments.report)
    beside = None if arguments.report is None else arguments.report.with_suffix(".json")
    if beside is not None and arguments.output is not None and beside.resolve() == arguments.output.resolve():
        raise ValueError(f"--output must be another file than {beside}, which --report writes beside its page.")
    if arguments.ood and len(arguments.files) > 1:
        raise ValueError(f"--ood needs a single FILE, got {len(arguments.files)}; run the command once for each.")
    files.guard(arguments.output, arguments.report, beside, force=arguments.force)


def run(arguments: argparse.Namespace) -> None:
    """Read, measure, print, write."""
    gc.disable()  # importing torch makes many objects that stay: collecting meanwhile only costs time
    from softkin import evaluation
    from softkin.evaluation.comparison import Scaled
    from softkin.evaluation.from_files import after_temperature, compare_files

    gc.freeze()
    gc.enable()
    settings = {name: getattr(arguments, name) for name in ("n_bins", "confidence", "resamples", "seed", "ordered")}
    if arguments.report is not None:
        _announce(arguments)
    models = []
    for path, title in zip(arguments.files, _titles(arguments.files), strict=True):
        model = evaluation.evaluate_file(
            path,
            name=title,
            kde_interval=arguments.kde_interval,
            multi_label=arguments.multi_label,
            ignore_index=arguments.ignore_index,
            jobs=arguments.jobs,
            engine=arguments.engine,
            address=arguments.address,
            **_of_groups(arguments),
            **reading_options(arguments),
            **settings,
        )
        _notice(model)
        models.append(model)
    compared = compare_files(models, **settings) if len(models) > 1 else []
    scaled = after_temperature(models, **settings)
    if arguments.abstain is not None:
        _abstain(models, arguments)
    unknown = _unknown(models[0], arguments) if arguments.ood else []
    result: dict[str, Any] = {"models": [model.data for model in models], "comparisons": compared}
    if scaled is not None and scaled.pairs:
        result["after_temperature"] = scaled.pairs
        result["nll_after_temperature"] = [files.number(value) for value in scaled.nll]
    text = json_text(result)
    if arguments.json:
        print(text)
    else:
        _print(models, compared, scaled or Scaled([], []), arguments)
    if arguments.output is not None:
        files.write(arguments.output, text.encode())
        _wrote(arguments.output, arguments)
    if arguments.report is not None:
        _report(models, compared, scaled, unknown, arguments)


def _of_groups(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the threshold of each group must keep: what ``--abstain`` asks for of all rows."""
    if arguments.abstain is None:
        return {}
    return {"risk": arguments.abstain, "certainty": arguments.abstain_confidence}


def _announce(arguments: argparse.Namespace) -> None:
    """Say before anything is measured that the page will be made from some of the rows."""
    from softkin.evaluation import pixels
    from softkin.report import sampled

    for path in [] if arguments.multi_label else arguments.files:
        if pixels.holds(path):
            continue
        sentence = sampled.announced(path, **reading_options(arguments))
        if sentence is not None:
            warnings.warn(Assumption(sentence), stacklevel=2)


def _wrote(path: Path, arguments: argparse.Namespace) -> None:
    if not arguments.json:
        wrote(path)


def _titles(files: list[str]) -> list[str]:
    """A name for each model: the file's name, with its folders where two are alike; a pattern as it was typed."""
    names = [file if "*" in file else Path(file).name if file != "-" else "standard input" for file in files]
    return [name if names.count(name) == 1 else file for name, file in zip(names, files, strict=True)]


def _notice(model: "Evaluated") -> None:
    """Warn if the file was calibrated by a calibrator that was fitted on its own rows."""
    from softkin.evaluation import doubts

    warning = doubts.warning(model.notes, model.name)
    for said in model.data.get("warnings", []):
        warnings.warn(f"{model.name}: {said}", stacklevel=2)
    if warning:
        warnings.warn(warning, stacklevel=2)
        model.data["warnings"] = [*model.data.get("warnings", []), warning]


def _abstain(models: "list[Evaluated]", arguments: argparse.Namespace) -> None:
    from softkin import SoftkinError, decisions

    for model in models:
        if model.answers is None:
            raise SoftkinError(f"--abstain needs answers that stand for themselves, and {model.name} holds pixels.")
        certificate = decisions.select(*model.answers, risk=arguments.abstain, confidence=arguments.abstain_confidence)
        model.data["abstention"] = certificate.to_dict() | {"text": str(certificate)}


def _unknown(model: "Evaluated", arguments: argparse.Namespace) -> "list[Predictions]":
    """Read out-of-distribution samples, and add how well the model's scores detect them."""
    from softkin import evaluation
    from softkin.predictions import file_sets

    if model.predictions is None:
        raise SoftkinError(
            f"--ood needs all predictions at once, and {model.name} holds {model.data['num_samples']:,} rows; use a "
            "random sample of them."
        )
    options = {**reading_options(arguments), "labels": None}
    unknown = [file_sets.read(path, **options) for path in arguments.ood]
    for other in unknown:
        if other.num_classes != model.predictions.num_classes:
            raise SoftkinError(
                f"{other.name} has {other.num_classes} classes and {model.name} has {model.predictions.num_classes}; "
                "they must be from the same model."
            )
    model.data["out_of_distribution"] = [evaluation.out_of_distribution(model.predictions, other) for other in unknown]
    return unknown


def _detection_lines(data: "Evaluation") -> list[str]:
    """How well the scores detect out-of-distribution samples: one line for each set and score."""
    titles = {"confidence": "the winning score", "mutual_information": "the members' mutual information"}
    return [
        f"{shown(str(unknown['name']))}: {unknown['num_samples']:,} out-of-distribution samples; by {titles[name]} "
        f"AUROC {_number(measured['auroc'], False)}, {100 * files.from_number(measured['fpr_at_95']):.1f} % accepted "
        "where 95 % of the known samples are"
        for unknown in data.get("out_of_distribution", ())
        for name, measured in unknown["scores"].items()
    ]


def _report(
    models: "list[Evaluated]",
    compared: "list[Compared]",
    scaled: "Scaled | None",
    unknown: "list[Predictions]",
    arguments: argparse.Namespace,
) -> None:
    from softkin import report
    from softkin.evaluation import pixels
    from softkin.predictions import Reading
    from softkin.report import sampled

    if models[0].claims is not None:
        page = report.build_labels(models[0].data, models[0].claims)
        for path in report.write(arguments.report, page, force=arguments.force):
            _wrote(path, arguments)
        return
    population = None
    kept: list[Predictions] = []
    if any(model.predictions is None for model in models):
        population = models[0].data["num_samples"]
        for path, model in zip(arguments.files, models, strict=True):
            if pixels.holds(path):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", Assumption)  # said when the file was measured
                    reading = Reading(**reading_options(arguments))
                    rows = pixels.drawn(path, reading, arguments.ignore_index, seed=arguments.seed)
            else:
                rows = sampled.drawn(path, population, seed=arguments.seed, **reading_options(arguments))
            kept.append(replace(rows, name=model.name))
    else:
        kept = [model.predictions for model in models if model.predictions is not None]
    settings = {name: getattr(arguments, name) for name in ("n_bins", "confidence", "resamples", "seed")}
    first, count = kept[0], len(kept[0])
    data: Any
    if len(models) > 1:
        known = [model.data for model in models]
        known_already: dict[str, Any] = {}
        if population is None:
            known_already = {"comparisons": compared, "evaluated": known, "scaled": scaled}
        data = report.build_models(kept, population=population, **known_already, **settings)
    else:
        images, texts = arguments.images, arguments.texts
        images = None if images is None else report.attach.images(images, first.numbered_as, count)
        texts = None if texts is None else report.attach.texts(texts, first.numbered_as, count)
        data = report.build(
            first,
            source=models[0].name,
            abstain=arguments.abstain,
            abstain_confidence=arguments.abstain_confidence,
            images=images,
            texts=texts,
            unknown=unknown,
            **_similar(arguments.distances, first),
            asymmetric=True,
            evaluated=models[0].data,
            population=population,
            **settings,
        )
    for path in report.write(arguments.report, data, force=arguments.force):
        _wrote(path, arguments)


def _similar(path: str | None, predictions: "Predictions") -> dict[str, Any]:
    """The class distances that were named, or those of the class names where these are words."""
    if path is not None:
        return {"distances": _distances(path, predictions), "distances_source": Path(path).name}
    from softkin import distances

    names = predictions.class_names
    if names is None or predictions.are_pairs or not 3 <= len(names) <= MOST_NAMED:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a doubt about the names is reason enough to leave them out
            found = distances.from_words(names)
    except (ValueError, UserWarning, OSError, SoftkinError):
        return {}
    return {"distances": found, "distances_source": "word vectors of the class names; --distances takes others"}


MOST_NAMED = 1000  # classes whose names are looked up without being asked


def _distances(path: str, predictions: "Predictions") -> "Tensor":
    from softkin import distances

    if predictions.class_names is None:
        raise SoftkinError(
            f"--distances are matched by class names, and {predictions.name} has none; name them with --class-names."
        )
    return distances.load(path, class_names=predictions.class_names)


def _print(
    models: "list[Evaluated]",
    compared: "list[Compared]",
    scaled: "Scaled",
    arguments: argparse.Namespace,
) -> None:
    level = f"{100 * arguments.confidence:g} %"
    if len(models) > 1:
        _print_models(models, scaled.nll)
    for model in models if len(models) == 1 or arguments.details else ():
        data = model.data
        what = (
            "pairs of a confidence and an outcome"
            if data.get("kind") == "pairs"
            else f"samples, {data['num_classes']:,} {'labels each' if data.get('kind') == 'labels' else 'classes'}"
        )
        say(f"{shown(model.name)}: {data['num_samples']:,} {what}")
        for doubt in data["verdict"]["doubts"]:
            say(f"Doubtful: {doubt}")
        say(f"{shown(data['verdict']['headline'])}. {shown(data['verdict']['detail'])}")
        rows, caveats, by_chance = [], [], []
        absent: dict[str, list[str]] = {}
        for title, metric, measured in _measured(data):
            if measured.absent is not None:
                absent.setdefault(measured.absent, []).append(title)
                continue
            if metric.percent and measured.low == 0 and measured.when_calibrated is not None and measured.value > 0:
                if metric.key == "mce" and files.from_number(data["metrics"]["ece_hist"].get("low", 0)) > 0:
                    caveats.append(f"{title}: its interval reaches 0 since a bin of few samples may have the largest.")
                else:
                    by_chance.append(title)
            if measured.caveat is not None:
                caveats.append(f"{title}: {measured.caveat}.")
            rows.append((title, *_cells(measured, metric.percent)))
        print_table(["", "value", f"{level} interval", "if calibrated"], rows, [3])
        if data["num_classes"] == 2 and data.get("kind") == "classes":
            half = files.from_number(data["metrics"]["brier"]["value"]) / 2
            caveats.append(f"Brier score: scikit-learn's, of one class alone, is half of this, {half:.4f}.")
        if data["metrics"]["nll"].get("value") == "Infinity":
            caveats.append(_infinite([model]))
        if by_chance:
            caveats.append(
                f"{', '.join(by_chance)}: the interval reaches 0, because these samples do not rule out that the model "
                "is calibrated there (the column if calibrated has what it would show on average)."
            )
        missing = [f"No {', '.join(titles)}: {reason}." for reason, titles in absent.items()]
        for line in (*missing, *caveats, *_detection_lines(data)):
            say(line)
        if "people" in data:
            entropy, own = (_number(data["people"][part], False) for part in ("entropy", "entropy_of_model"))
            say(
                f"People's votes have an entropy of {entropy} nats on average, the model's probabilities {own}; "
                f"people agree on {_number(data['people']['unanimous'], True)} of the samples."
            )
        if "groups" in data:
            _print_groups(data["groups"])
        if "abstention" in data:
            _print_abstention(data["abstention"])
        print()
    if compared and (len(models) == 2 or arguments.pairs):
        _print_comparisons(compared, scaled.pairs, models, arguments)
    elif compared:
        pairs = len(models) * (len(models) - 1) // 2
        say(f"--pairs prints the {pairs} pairwise comparisons, --details prints all metrics of each.")


def _measured(data: "Evaluation") -> "Iterator[tuple[str, Metric, Measured]]":
    """Every metric with its title."""
    from softkin.metrics.catalogue import METRICS
    from softkin.metrics.measurement import Measured

    for key, plain in data["metrics"].items():
        yield _title(key, data), METRICS[key], Measured.from_dict(plain)


def _title(key: str, data: "Evaluation", *, short: bool = False) -> str:
    """A metric's title; where it speaks of class 1, with the name of that class."""
    from softkin.metrics.catalogue import METRICS

    title = METRICS[key].short if short else METRICS[key].title
    if "positive" not in data:
        return title
    return title.replace("class 1", shown(data["positive"]["name"]))


def _print_models(models: "list[Evaluated]", after_temperature: "list[float]") -> None:
    """One line for each model, the lowest NLL first, its NLL after a temperature, and what its verdict says."""
    from softkin.metrics.catalogue import METRICS

    lowest = [files.from_number(model.data["metrics"]["nll"]["value"]) for model in models]
    places = sorted(range(len(models)), key=lowest.__getitem__)
    ordered = [models[place] for place in places]
    first = ordered[0].data
    # Of a binary model the winning class hides half.
    columns = [key for key in MODEL_COLUMNS if key != ("ece_hist" if "ece_positive" in first["metrics"] else None)]
    keys = [key for key in columns if "absent" not in first["metrics"].get(key, {"absent": ""})]
    rows = []
    headings = ["lowest NLL first", *(_title(key, first, short=True) for key in keys), ""]
    behind = 1 + keys.index("nll") + 1
    for place, model, name in zip(places, ordered, short_names([model.name for model in ordered]), strict=True):
        measured = model.data["metrics"]
        cells = [_number(measured[key]["value"], METRICS[key].percent) for key in keys]
        row = [name, *cells, model.data["verdict"]["headline"]]
        if after_temperature:
            row.insert(behind, _number(files.number(after_temperature[place]), False))
        rows.append(row)
    if after_temperature:
        headings.insert(behind, "after T")
    droppable = [headings.index(_title(key, first, short=True)) for key in DROPPABLE if key in keys]
    classes = f"samples, {first['num_classes']:,} classes" if first.get("kind") != "pairs" else "pairs each"
    print(f"{len(models)} models, {first['num_samples']:,} {classes}")
    for model in ordered:
        for doubt in model.data["verdict"]["doubts"]:
            say(f"Doubtful: {shown(model.name)}: {doubt}")
    print_table(headings, rows, droppable, left=(0, len(headings) - 1), wrapped=(0, len(headings) - 1))
    if after_temperature:
        say("after T: NLL with a temperature, fitted to one half of these samples for the other, and vice versa.")
    print()


MODEL_COLUMNS = ("accuracy", "nll", "brier", "ece_positive", "ece_hist", "signed_gap")
DROPPABLE = ("brier", "signed_gap", "ece_positive", "ece_hist")


def _cells(measured: "Measured", percent: bool) -> tuple[str, str, str]:
    """The value, its interval, and what a calibrated model or smoothing alone would show."""
    ends = [_number(end, percent) for end in (measured.low, measured.high) if end is not None]
    beside = [] if measured.when_calibrated is None else [_number(measured.when_calibrated.value, percent)]
    beside += [] if measured.floor is None else [f"{_number(measured.floor, percent)} (floor)"]
    return _number(measured.value, percent), " to ".join(ends), ", ".join(beside)


def _number(plain: "Plain", percent: bool) -> str:
    value = files.from_number(plain)
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    digits = 1 if abs(value) >= 0.0995 else 2  # three significant digits
    return (f"{100 * value:.{digits}f} %" if percent else f"{value:.4f}").replace("-", "−")


ABOVE = "confidence above"
INFINITE = "NLL is infinite because a true class has the probability 0, as rounding leaves it"


def _infinite(models: "list[Evaluated]") -> str:
    """Why an NLL is infinite, and what it is with zeros as a fit on these rows would take them."""
    from softkin.evaluation import calibrations

    told = []
    for model in models:
        if model.data["metrics"]["nll"].get("value") == "Infinity" and model.predictions is not None:
            value, floor = calibrations.without_zeros(model.predictions)
            of = f" for {shown(model.name)}" if len(models) > 1 else ""
            told.append(f"{value:.4f}{of} with zeros as {floor:.3g}, the value that suits these rows")
    if not told:
        return f"{INFINITE}; `softkin calibrate` replaces such zeros by a small value, and says which."
    return f"{INFINITE}; it is {', '.join(told)} (a calibrator uses that of its own fit)."


def _print_abstention(abstention: dict[str, Any]) -> None:
    from softkin.decisions import thresholds

    say(f"\n{abstention['text']}")
    rules = abstention["candidates"]
    wanted = [rules[place] for place in sorted({round(j * (len(rules) - 1) / 9) for j in range(10)})]
    chosen = abstention["chosen"]
    if chosen is not None:  # with the first one that did not pass
        place = rules.index(chosen)
        wanted += [rule for rule in rules[place : place + 2] if rule not in wanted]
        wanted.sort(key=lambda rule: int(rule["answered"]))
    rows = []
    for rule in wanted:
        numbers = [_number(rule[part], True) for part in ("coverage", "risk", "bound")]
        mark = "→ " if rule == chosen else ""
        rows.append((f"{mark}{thresholds.in_percent(rule['threshold'])}".rjust(len(ABOVE)), *numbers))
    print_table([ABOVE, "answered", "wrong", "upper bound"], rows, [])
    passed = 0 if chosen is None else chosen["answered"]
    if any(rule["bound"] <= abstention["target"] and rule["answered"] > passed for rule in wanted):
        say(thresholds.IN_TURN)


def _print_comparisons(
    compared: "list[Compared]", scaled: "list[Compared]", models: "list[Evaluated]", arguments: argparse.Namespace
) -> None:
    """A table for each two models, and their NLL once each has its temperature."""
    from itertools import groupby

    from softkin.metrics.catalogue import METRICS

    interval, first = f"{100 * arguments.confidence:g} % interval", models[0].data
    for (a, b), lines in groupby(sorted(compared, key=_pair), key=_pair):
        names = [shown(name) if len(name) <= 16 else place for name, place in ((a, "the first"), (b, "the second"))]
        called = [
            name if name == short else f"{name} ({short})"
            for name, short in zip(map(shown, (a, b)), names, strict=True)
        ]
        say(f"On the same samples, {called[0]} minus {called[1]}:")
        rows = []
        told = [(line, "") for line in lines] + [
            (line, " after temperatures") for line in scaled if _pair(line) == (a, b)
        ]
        for line, how in told:
            metric = METRICS[line["metric"]]
            numbers = [_number(line[part], metric.percent) for part in ("difference", "low", "high")]
            first_is_better = (files.from_number(line["difference"]) > 0) == metric.larger_is_better
            better = names[0 if first_is_better else 1] if line["significant"] else "not significant"
            if math.isinf(files.from_number(line["difference"])):  # one gave a true class the probability 0
                better = f"{names[0 if first_is_better else 1].removeprefix('the ')}: finite"
                rows.append((_title(metric.key, first) + how, numbers[0], "–", "–", better))
                continue
            between = f"{numbers[1]} to {numbers[2]}"
            rows.append((_title(metric.key, first) + how, numbers[0], between, f"{line['p_value']:.3f}", better))
        print_table(["", "difference", interval, "p", "better"], rows, [3])
        print()
    found = [line["p_value"] <= 1 - arguments.confidence and not line["significant"] for line in [*compared, *scaled]]
    if any(found):
        pairs = len({_pair(line) for line in compared})
        say(f"p and interval are of a difference alone; the last column counts that {pairs} are tested (Holm).\n")
    if first.get("kind") == "classes" and not any("calibrated_by" in model.data for model in models):
        say("The intervals are about these samples. Networks that are trained again differ, too: try several seeds.\n")
    if any(line["metric"] == "nll" and not math.isfinite(files.from_number(line["difference"])) for line in compared):
        say(f"{_infinite(models)}\n")


def _pair(line: "Compared") -> tuple[str, str]:
    return line["a"], line["b"]


def _print_groups(data: "GroupsData") -> None:
    """Print who over-claims and by how much, how well confidence ranks, and the threshold that keeps 90 % right."""
    from softkin.metrics.catalogue import METRICS

    level, first = f"{100 * data['level']:g} %", data["groups"][0]
    keys = [key for key in GROUP_COLUMNS if "absent" not in first["metrics"].get(key, {"absent": ""})]
    right = f"{100 * (1 - first['threshold']['risk']):g} % right" if "threshold" in first else ""
    headings = [data["column"], "rows", *(METRICS[key].short for key in keys)]
    headings += ["interval of gap", "answer above", "answers"] if right else ["interval of gap"]
    rows = []
    for group in sorted(data["groups"], key=lambda group: -abs(_value(group, "signed_gap"))):
        cells = [shown(group["name"]), f"{group['num_samples']:,}"]
        cells += [_number(group["metrics"][key]["value"], METRICS[key].percent) for key in keys]
        gap = group["metrics"]["signed_gap"]
        cells.append(" to ".join(_number(gap[end], True) for end in ("low", "high")))
        if right:
            chosen = group.get("threshold", {}).get("chosen")
            above = "never" if chosen is None else _above(chosen)
            cells += [above, "0 %" if chosen is None else f"{100 * chosen['coverage']:.1f} %"]
        rows.append(cells)
    say(f"\nBy {shown(data['column'])}, {level} intervals that hold together; the largest gap first:")
    brier, *others = (METRICS[key].short for key in ("brier", "ece_hist", "confidence_auroc"))
    least = [brier, "interval of gap", *others]
    print_table(headings, rows, order=[headings.index(title) for title in least if title in headings])
    claims: dict[str, list[str]] = {"over": [], "under": []}
    for group in data["groups"]:
        gap = group["metrics"]["signed_gap"]
        if files.from_number(gap["low"]) > 0:
            claims["over"].append(group["name"])
        elif files.from_number(gap["high"]) < 0:
            claims["under"].append(group["name"])
    for word, names in claims.items():
        if names:
            say(f"{word.capitalize()}-claiming beyond doubt: {', '.join(map(shown, names))}.")
    p = data["differ"].get("signed_gap")
    if p is not None:
        verdict = "differ in" if p <= 1 - data["level"] else "may have the same"
        shown_p = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
        say(f"The groups {verdict} confidence − accuracy ({shown_p}).")
    if right:
        sure = f"{100 * first['threshold']['confidence']:g} %"
        say(f"Answering above the threshold keeps {right}, with confidence {sure} for each group.")
        never = [group for group in data["groups"] if group.get("threshold", {}).get("chosen") is None]
        seen = [(group["name"], group.get("threshold", {}).get("observed")) for group in never]
        kept = [
            f"{shown(name)} {'in' if rule['coverage'] == 1 else 'above'} {_above(rule)} ({rule['answered']:,} rows)"
            for name, rule in seen
            if rule
        ]
        if kept:
            say(f"Without a guarantee, {right} among these rows: {', '.join(kept)}.")


def _above(rule: dict[str, Any]) -> str:
    from softkin.decisions import thresholds

    return "every row" if rule["coverage"] == 1 else thresholds.in_percent(rule["threshold"])


GROUP_COLUMNS = ("accuracy", "signed_gap", "ece_hist", "brier", "confidence_auroc")


def _value(group: "GroupData", key: str) -> float:
    return files.from_number(group["metrics"][key]["value"])
