"""Bring finished studies into the repository, and write the tables of docs/results.md and docs/measurements/ from them.

python results/collect.py DATA FOLDER   copies specs, tables and records of a finished suite, without weights
python results/collect.py demo FOLDER   keeps the table of softkin compare without options
python results/collect.py               only writes the tables again, from results/records/

On these pages and in docs/compare.md a table stands between <!-- table KIND … --> and <!-- end -->; KIND is a function
in TABLES, and what follows are its arguments.
"""

import gzip
import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

from softkin._io import files
from softkin.lab.study import StudySpec, story
from softkin.lab.study.tabulation import Cell, Row, Table, judged, metric_columns

HERE = Path(__file__).parent
DOCS, RECORDS = HERE.parent / "docs", HERE / "records"
PAGES = (DOCS / "results.md", DOCS / "compare.md", *sorted((DOCS / "measurements").glob("*.md")))
COLUMNS = {
    "accuracy": ("accuracy", 100, 1),
    "nll": ("NLL", 1, 3),
    "signed_gap": ("gap", 100, 1),
    "ece_hist": ("Hist P", 100, 1),
    "ece_hist_output": ("Hist O", 100, 1),
}


# From a folder of studies


def collect(data: Path, folder: Path) -> None:
    """Copy what a reader can check: spec, table with the values of every seed, and one line for each run.

    Paths become the DATA and FOLDER of results/suite.toml, and what only tells of one machine is left out.
    """
    for table in sorted(folder.glob("*/table.json")):
        kept = RECORDS / table.parent.name
        kept.mkdir(parents=True, exist_ok=True)
        texts = {name: (table.parent / name).read_text() for name in ("study.json", "table.json")}
        records = [json.loads(path.read_text()) for path in sorted(table.parent.glob("runs/*/record.json"))]
        for record in records:
            for key in ("host", "pid"):
                record.pop(key, None)
        texts["records.jsonl.gz"] = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
        for name, text in texts.items():
            for path, word in ((folder, "FOLDER"), (data, "DATA")):
                for given in (path.resolve(), path):
                    text = text.replace(f"{given}/", f"{word}/")
            content = text.encode()
            (kept / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
        print(f"{table.parent.name}: {len(records)} records")

    for name in ("decisions.json", "selective.json"):
        if (folder / name).exists():  # studies that are not in this folder keep what they have
            rows = json.loads((folder / name).read_text())
            again = {row["study"] for row in rows}
            kept = [row for row in json.loads((RECORDS / name).read_text()) if row["study"] not in again]
            files.write_json(RECORDS / name, kept + rows)
    if (folder / "curves.json").exists():
        curves = json.loads((RECORDS / "curves.json").read_text()) | json.loads((folder / "curves.json").read_text())
        files.write_json(RECORDS / "curves.json", curves)


# The tables

STUDIES = {
    "fair-cifar100": "CIFAR-100 features",
    "fair-banking77": "banking77",
    "fair-clinc150": "CLINC150",
    "fair-digits": "digits",
    "fair-fashion-mnist": "Fashion-MNIST",
    "fair-scratch": "CIFAR-100 from scratch",
    "fair-shipped": "shipped CIFAR-100 features",
    "cifar100-features": "CIFAR-100, frozen features",
    "scratch-step-1e-4": "CIFAR-100 from scratch, steps, decay 1e-4",
    "scratch-step-5e-4": "CIFAR-100 from scratch, steps, decay 5e-4",
    "scratch-cosine-1e-4": "CIFAR-100 from scratch, cosine, decay 1e-4",
    "scratch-cosine-5e-4": "CIFAR-100 from scratch, cosine, decay 5e-4",
    "scratch-whole": "CIFAR-100 from scratch, all images",
    "clinc150": "CLINC150",
    "banking77": "banking77",
    "fashion-mnist": "Fashion-MNIST",
    "digits": "digits",
    "tiny-imagenet": "Tiny-ImageNet from scratch",
}
METHODS = {
    "we": "names",
    "file": "names, GloVe",
    "tree": "WordNet",
    "out": "outputs",
    "l2": "inputs, L2",
    "l1": "inputs, L1",
}
SECOND = {
    "nn": "neighbours",
    "learned": "learned",
    "learned-we": "learned, names as prior",
    "ps-kd": "PS-KD",
    "ensemble": "two networks",
    "kin-head": "kin head",
    "head": "second head, no kin",
    "sms": "structured matrix",
    "ts": "temperature",
}
"""What only the second edition calls so: its ensembles have two networks, those of the first five"""


def study_title(study: str) -> str:
    """A study in words."""
    if study.startswith("sweep-"):
        _, word, value = study.split("-")
        letter = {"alpha": "α", "beta": "β"}[word]
        return f"CIFAR-100, frozen features, {letter} = {value}"
    key = next((key for key in STUDIES if study.startswith(key)), study)
    rest = [part for part in study.removeprefix(key).split("-") if part]
    words = {"fixed": "α = 0.1", "tuned": "α of four", "top5": "5 nearest classes"}
    words |= {"untuned": "recipe's decay", "stopped": "stopped early", "all": "all images", "prior": "with a prior"}
    words |= {"each": "decay for each value"}
    words |= {part: f"decay {part}" for part in rest if part.startswith("0.")}
    return ", ".join([STUDIES.get(key, key), *(words.get(part, f"{part} per class") for part in rest)])


def method_title(row: dict[str, Any], names: Mapping[str, str] = METHODS) -> str:
    """A method in words."""
    base, plus, calibrator = row["method"].partition("+")
    return f"{names[base]}{plus}{calibrator.upper()}" if base in names else str(row["title"])


def second_names(study: str) -> dict[str, str]:
    """The methods of the second edition in words."""
    return METHODS | SECOND | ({"tree": "super-classes"} if study.startswith("fair-shipped") else {})


def rows_of(study: str) -> dict[str, Any]:
    """The rows of a study's table by method; none if there is no such study yet."""
    path = RECORDS / study / "table.json"
    return {row["method"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}


def markdown(heads: list[str], words: int, rows: list[list[str]]) -> str:
    """A table whose first ``words`` columns are text."""
    lines = [heads, ["---"] * words + ["---:"] * (len(heads) - words), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def study_table(study: str, *methods: str) -> str:
    """The methods of a study, or some of them: mean and standard deviation over seeds."""
    rows = [
        [method_title(row), *(cell(row["cells"][key], factor, digits) for key, (_, factor, digits) in COLUMNS.items())]
        for row in rows_of(study).values()
        if not methods or row["method"] in methods
    ]
    return markdown(["method", *(title for title, _, _ in COLUMNS.values())], 1, rows)


def cell(value: dict[str, Any], factor: float, digits: int) -> str:
    """A mean with its deviation over seeds, bold if it is the best, ≈ if chance may explain the difference to it."""
    if not isinstance(value["value"], int | float):
        return "∞"
    text = f"{factor * value['value']:.{digits}f}".replace("-", "−")
    text = f"**{text}**" if value["best"] else f"{text} ≈" if value["tie"] else text
    return f"{text} ± {factor * value['std']:.{digits}f}" if value["std"] is not None else text


def interval(first: list[float], second: list[float]) -> tuple[float, float]:
    """Mean over seeds of the paired differences, and half of Student's 95 % interval."""
    pairs = [a - b for a, b in zip(first, second, strict=True)]
    half = student.ppf(0.975, len(pairs) - 1) * stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else math.inf
    return fmean(pairs), float(half)


def difference(first: list[float], second: list[float], factor: float, digits: int) -> str:
    """The paired differences with their interval, bold if it excludes 0; without an interval if there is one seed."""
    mean, half = interval(first, second)
    text = f"{factor * mean:+.{digits}f}"
    if math.isfinite(half):
        text = f"{text} ± {factor * half:.{digits}f}"
    return (f"**{text}**" if abs(mean) > half else text).replace("-", "−")


def pairs_table(*pairs: str) -> str:
    """For each "study:method/other", what the method has more than the other; "study:method/study:other" across two."""
    lines = []
    for pair in pairs:
        own, _, against = pair.partition("/")
        study, _, method = own.partition(":")
        reference, _, other = against.rpartition(":")
        first, second = rows_of(study).get(method), rows_of(reference or study).get(other)
        if first is None or second is None:
            continue
        cells = [
            difference(first["cells"][key]["values"], second["cells"][key]["values"], factor, digits)
            for key, (_, factor, digits) in COLUMNS.items()
        ]
        usual = {"fixed": "α auto", "tuned": "α auto", "top5": "all classes"}.get(study.removeprefix(f"{reference}-"))
        words = usual if usual and method == other else method_title(second)
        lines.append([study_title(study), method_title(first), words, *cells])
    return markdown(["study", "method", "against", *(title for title, _, _ in COLUMNS.values())], 3, lines)


def variants_table(variant: str, methods: str, *studies: str) -> str:
    """What each method has more in "study-variant" than in the study itself."""
    return pairs_table(
        *(f"{study}-{variant}:{method}/{study}:{method}" for study in studies for method in methods.split(","))
    )


def rows_table(methods: str, *studies: str) -> str:
    """The same methods ("one-hot,ts") of several studies."""
    lines = [
        [study_title(study), method_title(row)]
        + [cell(row["cells"][key], factor, digits) for key, (_, factor, digits) in COLUMNS.items()]
        for study in studies
        for row in rows_of(study).values()
        if row["method"] in methods.split(",")
    ]
    return markdown(["study", "method", *(title for title, _, _ in COLUMNS.values())], 2, lines)


MEASURES = {
    "aurc": ("AURC", 100, 2),
    "abstain_answered": ("answered, abstaining", 100, 1),
    "climb_taxonomy_answered": ("answered, climbing WordNet", 100, 1),
    "climb_names_answered": ("answered, climbing the names", 100, 1),
    "lac_size": ("LAC", 1, 2),
    "aps_size": ("APS", 1, 2),
    "aps_kin_size": ("APS of kin", 1, 2),
}


def decisions() -> list[dict[str, Any]]:
    """What results/after.py measured, a row for each network."""
    path = RECORDS / "decisions.json"
    return json.loads(path.read_text()) if path.exists() else []


FAIR = {
    "nll": ("NLL", 1, 3),
    "accuracy": ("accuracy", 100, 1),
    "ece_hist": ("ECE", 100, 1),
    "ece_hist_output": ("ECE of the output", 100, 1),
    "aurc": ("AURC", 100, 2),
}


def against(row: dict[str, Any], key: str) -> tuple[float, float] | None:
    """What a method has more than one-hot followed by a temperature, and half of its interval (seeds and test rows).

    None if it is infinite, or the row is that baseline.
    """
    found = row["cells"][key].get("against", {}).get("ts")
    if found is None or not all(isinstance(found[end], int | float) for end in ("value", "low", "high")):
        return None
    return found["value"], (found["high"] - found["low"]) / 2


def fair_cell(row: dict[str, Any], key: str, factor: float, digits: int) -> str:
    """The difference with its interval, bold if it is one when corrected for all columns."""
    found = against(row, key)
    if found is None:
        return "∞"
    text = f"{factor * found[0]:+.{digits}f} ± {factor * found[1]:.{digits}f}".replace("-", "−")
    return f"**{text}**" if row["cells"][key]["against"]["ts"]["p_value"] <= 0.05 else text


def networks(study: str) -> dict[str, int]:
    """The number of networks that each method trains: those of an ensemble, and a first one that labels are taken from.

    Hours on the clock would say more of what else the machine did.
    """
    path = RECORDS / study / "records.jsonl.gz"
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    follows = {one["digest"]: one["spec"]["outputs"] is not None for one in records if one["kind"] == "training"}
    return {
        one["method"]: (one["cost"] or {}).get("networks", 1) + follows.get(one["chosen"], False)
        for one in records
        if one["kind"] == "result"
    }


def set_sizes(study: str) -> dict[str, str]:
    """The mean size of APS sets of each network that a temperature follows: one-hot's, and what others have more."""
    rows = [row for row in json.loads((RECORDS / "selective.json").read_text()) if row["study"] == study]
    if not rows or "aps_size" not in rows[0]:
        return {}
    sizes = {
        name: [row["aps_size"] for row in rows if row["method"] == name]
        for name in dict.fromkeys(row["method"] for row in rows)
    }
    return {
        name: f"{fmean(own):.2f}" if name == "ts" else difference(own, sizes["ts"], 1, 2) for name, own in sizes.items()
    }


def fair_table(study: str) -> str:
    """What each method has more than one-hot followed by a temperature, paired by seed and by test row."""
    rows = rows_of(study)
    if not rows:
        return "Not finished yet."
    trained, size = networks(study), set_sizes(study)
    lines = [
        [
            method_title(row, second_names(study)),
            *(fair_cell(row, key, factor, digits) for key, (_, factor, digits) in FAIR.items()),
            *([size.get(method, "–")] if size else []),
            str(trained[method]),
        ]
        for method, row in rows.items()
        if method != "ts"
    ]
    heads = [*(title for title, _, _ in FAIR.values()), *(["APS sets"] if size else []), "networks"]
    return markdown([study_title(study), *heads], 1, lines)


def tuning_table(*studies: str) -> str:
    """NLL against one-hot followed by a temperature, with each way to tune: methods that were tuned in two ways."""
    variants = {
        "-untuned": "recipe's decay",
        "": "tuned decay",
        "-each": "decay for each value",
        "-stopped": "tuned, stopped early",
    }
    lines = []
    for study in studies:
        tables = [rows_of(f"{study}{variant}") for variant in variants]
        plain = [f"{rows['ts']['cells']['nll']['value']:.3f}" if rows else "–" for rows in tables]
        lines.append([f"**{study_title(study)}**", *plain])
        for method, row in tables[1].items():
            found = [fair_cell(rows[method], "nll", 1, 3) if method in rows else "–" for rows in tables]
            if (method.endswith("+ts") or method == "dir-odir") and len(found) - found.count("–") > 1:
                lines.append([method_title(row, second_names(study)), *found])
    return markdown(["NLL of one-hot + TS; the others against it", *variants.values()], 1, lines)


def resolution_table(*studies: str) -> str:
    """What the neighbours of the chosen weight decay cost on the first seed, beside what learned labels gain."""
    lines = []
    for study in studies:
        rows, cells = rows_of(study), []
        for method in ("ts", "learned+ts"):
            tried = sorted((one["value"], one["refined_nll"]) for one in rows[method]["recipe"]["tried"])
            best = min(range(len(tried)), key=lambda place: tried[place][1])
            beside = [
                f"{tried[place][1] - tried[best][1]:+.3f}" if 0 <= place < len(tried) else "–"
                for place in (best - 1, best + 1)
            ]
            cells += [f"{tried[best][0]:.2g}", " and ".join(beside)]
        lines.append([study_title(study), *cells, fair_cell(rows["learned+ts"], "nll", 1, 3)])
    heads = ["study", "one-hot: decay", "next smaller and larger", "learned: decay", "next smaller and larger"]
    return markdown([*heads, "learned labels less one-hot"], 1, lines)


def chosen_on_first_seed(study: str, method: str) -> tuple[float, float]:
    """(loss, weight decay): the validation NLL after a temperature of a method's network on the first seed."""
    path = RECORDS / study / "records.jsonl.gz"
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    losses = {
        one["digest"]: (one["refined_nll"], one["spec"]["recipe"]["weight_decay"])
        for one in records
        if one["kind"] == "training" and "refined_nll" in one
    }
    seed = min(one["seed"] for one in records if one["kind"] == "result")
    results = [one for one in records if one["kind"] == "result" and one["seed"] == seed]
    own = [one["chosen"] for one in results if one["method"] == method]
    recipe = rows_of(study)[method]["recipe"]  # records of a search that a finer one replaced are kept too
    decays = {decay for _, decay in losses.values()} if recipe is None else {recipe["chosen"]["weight_decay"]}
    return min(losses[digest] for digest in own if losses[digest][1] in decays)


def finer_table(*studies: str) -> str:
    """What decays between the half steps change: NLL, and its difference to one-hot followed by a temperature."""
    lines = []
    for study in studies:
        others = [path.parent.name for path in sorted(RECORDS.glob(f"{study}-0.*/table.json"))]
        plain: list[list[float]] = []
        for method in ("ts", "uniform+ts", "learned+ts"):
            tried = [study, *(one for one in others if method in rows_of(one))]
            best = min(tried, key=lambda one: chosen_on_first_seed(one, method)[0])
            rows = [rows_of(one)[method]["cells"]["nll"]["values"] for one in (study, best)]
            decays = [f"{chosen_on_first_seed(one, method)[1]:.3g}" for one in (study, best)]
            plain = plain or rows
            less = [difference(own, one, 1, 3) for own, one in zip(rows, plain, strict=True)]
            lines.append(
                [
                    study_title(study),
                    method_title(rows_of(study)[method], SECOND),
                    " → ".join(decays),
                    " → ".join(f"{fmean(values):.3f}" for values in rows),
                    "–" if method == "ts" else " → ".join(less),
                ]
            )
    return markdown(["half steps → finer", "method", "decay", "NLL", "less one-hot's"], 2, lines)


CLAIMS = {
    "names better than uniform": ("we+ts", "uniform+ts"),
    "names better than a temperature alone": ("we+ts", "ts"),
    "learned better than uniform": ("learned+ts", "uniform+ts"),
    "learned better than a temperature alone": ("learned+ts", "ts"),
    "PS-KD better than a temperature alone": ("ps-kd+ts", "ts"),
    "two networks better than one": ("ensemble+ts", "ts"),
}


def claims_table(*studies: str) -> str:
    """NLL of one method less that of another, each followed by a temperature: the recipe's decay, then tuned decay."""
    lines = []
    for claim, (method, other) in CLAIMS.items():
        cells = []
        for study in studies:
            parts = []
            for variant in ("-untuned", ""):
                rows = rows_of(study + variant)
                own, plain = (rows[name]["cells"]["nll"]["values"] for name in (method, other))
                parts.append(fair_cell(rows[method], "nll", 1, 3) if other == "ts" else difference(own, plain, 1, 3))
            cells.append(" → ".join(parts))
        lines.append([claim, *cells])
    return markdown(["NLL, recipe's decay → tuned", *map(study_title, studies)], 1, lines)


def as_trained_table(before: str, after: str) -> str:
    """Networks without a calibrator in two studies of the same network: with the recipe's decay, and with tuned decay.

    Differences are to one-hot training of the same study.
    """
    tables = [rows_of(before), rows_of(after)]
    lines = []
    for method in tables[0]:
        if method not in tables[1] or "+" in method or method in ("ts", "ets", "dir-odir"):
            continue
        nll, less, error = [], [], []
        for rows in tables:
            cells, plain = (rows[name]["cells"] for name in (method, "one-hot"))
            nll.append(f"{cells['nll']['value']:.3f}")
            values = cells["nll"]["values"], plain["nll"]["values"]
            less.append("–" if method == "one-hot" else difference(*values, 1, 3))
            error.append(f"{100 * cells['ece_hist']['value']:.1f}")
        lines.append([method_title(tables[1][method], METHODS | SECOND), *map(" → ".join, (nll, less, error))])
    return markdown(["without a calibrator", "NLL", "less one-hot's", "ECE"], 1, lines)


SELECTIVE = {
    "aurc": ("AURC by confidence", 100, 2),
    "aurc_norm": ("by normalised logits", 100, 2),
    "answered": ("answered at 5 % errors, by confidence", 100, 1),
    "answered_norm": ("by normalised logits", 100, 1),
}


SETS = {
    "lac_size": ("size of LAC sets", 1, 2),
    "aps_size": ("size of APS sets", 1, 2),
    "lac_coverage": ("LAC sets hold the truth", 100, 1),
    "aps_coverage": ("APS sets hold the truth", 100, 1),
}


def sets_table(study: str) -> str:
    """Of each network followed by a temperature: the sizes of its prediction sets, and what they hold."""
    return selective_table(study, SETS)


def selective_table(study: str, measures: Mapping[str, tuple[str, float, int]] = SELECTIVE) -> str:
    """Of each network followed by a temperature: how well it ranks its answers, and how many it may give."""
    path = RECORDS / "selective.json"
    rows = [row for row in json.loads(path.read_text()) if row["study"] == study] if path.exists() else []
    if not rows:
        return "Not measured yet."
    titles, lines = rows_of(study), []
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = []
        for key, (_, factor, digits) in measures.items():
            own, plain = ([row[key] for row in rows if row["method"] == name] for name in (method, "ts"))
            mean = f"{factor * fmean(own):.{digits}f}"
            cells.append(mean if method == "ts" else difference(own, plain, factor, digits))
        lines.append([method_title(titles[method], second_names(study)), *cells])
    return markdown([study_title(study), *(title for title, _, _ in measures.values())], 1, lines)


def fair_baselines_table(*studies: str) -> str:
    """One-hot training in each study: before and after a temperature."""
    lines = []
    for study in filter(rows_of, studies):
        rows = rows_of(study)
        plain, after = rows["one-hot"]["cells"], rows["ts"]["cells"]
        gap = f"{100 * plain['signed_gap']['value']:+.1f}".replace("-", "−")
        values = (f"{cells[key]['value']:.3f}" for cells, key in ((plain, "nll"), (after, "nll")))
        errors = (f"{100 * cells['ece_hist']['value']:.1f}" for cells in (plain, after))
        lines.append([study_title(study), f"{100 * plain['accuracy']['value']:.1f}", gap, *values, *errors])
    heads = ["one-hot training", "accuracy", "gap", "NLL", "after a temperature", "ECE", "after a temperature"]
    return markdown(heads, 1, lines)


def under_table(*studies: str) -> str:
    """Networks that claim too little: what a temperature is worth to them."""
    lines = []
    for study in filter(rows_of, studies):
        rows = rows_of(study)
        for plain, after in (("one-hot", "ts"), ("uniform", "uniform+ts"), ("mixup", "mixup+ts")):
            if plain not in rows or rows[plain]["cells"]["signed_gap"]["value"] > -0.02:
                continue
            before, scaled = rows[plain]["cells"], rows[after]["cells"]
            gap = f"{100 * before['signed_gap']['value']:+.1f}".replace("-", "−")
            nll = [f"{cells['nll']['value']:.3f}" for cells in (before, scaled)]
            error = [f"{100 * cells['ece_hist']['value']:.1f}" for cells in (before, scaled)]
            lines.append([study_title(study), method_title(rows[plain], METHODS | SECOND), gap, *nll, *error])
    heads = ["study", "training", "gap", "NLL", "after a temperature", "ECE", "after a temperature"]
    return markdown(heads, 2, lines)


def others() -> dict[str, Any]:
    """What results/others.py measured."""
    return json.loads((RECORDS / "others.json").read_text())


def models_table() -> str:
    """Language models: what they claim, and what repairs it."""
    lines = []
    for row in sorted(others()["language_models"], key=lambda row: -row["gap"][0]):
        gap, low, high = (f"{100 * value:+.1f}".replace("-", "−") for value in row["gap"])
        wrong = "–" if row["wrong"] is None else f"{100 * row['wrong']:.1f}"
        shares = (f"{100 * row[key]:.1f}" for key in ("ece", "ece_ts", "ece_platt", "answered"))
        lines.append(
            [
                row["model"],
                f"{100 * row['accuracy']:.1f}",
                f"{gap} ({low} to {high})",
                f"{row['auroc']:.3f}",
                *shares,
                wrong,
            ]
        )
    heads = [
        "model",
        "right, %",
        "gap, points",
        "AUROC",
        "ECE, %",
        "after a temperature",
        "after Platt",
        "answered, %",
        "of these wrong, %",
    ]
    return markdown(heads, 1, lines)


def networks_table() -> str:
    """NLL after a temperature, on networks of other people, and what other calibrators have more."""
    rows = others()["networks"]
    titles = [title for title in rows[0]["nll"] if title not in ("none", "TS")]
    lines = []
    for row in rows:
        means = {title: fmean(values) if None not in values else math.inf for title, values in row["nll"].items()}
        cells = ["∞" if math.isinf(means[title]) else f"{means[title]:.4f}" for title in ("none", "TS")]
        for title in titles:
            mean, half = row["against_ts"][title]
            text = f"{mean:+.4f} ± {half:.4f}".replace("-", "−")
            cells.append(f"**{text}**" if abs(mean) > half else text)
        lines.append([row["network"].rpartition("-")[0], *cells])
    return markdown(["NLL", "none", "TS", *(f"{title} − TS" for title in titles)], 1, lines)


def climbing_table() -> str:
    """How much smaller the area under risk against coverage is where a network climbs instead of abstaining."""
    own = {"demo": "perceptron on the shipped features", "fair-scratch": "WRN-10-1 from scratch"}
    lines = [
        [own.get(row["network"], row["network"].rpartition("-")[0]), row["tree"]]
        + [f"{100 * fmean(values):.1f} %" for values in row["gain"].values()]
        for row in others()["climbing"]
    ]
    return markdown(["gain of climbing", "tree", "as given", "after a temperature"], 2, lines)


def decisions_table(study: str) -> str:
    """One-hot's mean, and what every other method has more."""
    rows = [row for row in decisions() if row["study"] == study]
    keys = [key for key in MEASURES if rows and key in rows[0]]

    def values(method: str, key: str) -> list[float]:
        return [row[key] for row in rows if row["method"] == method]

    titles = rows_of(study)
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        cells = []
        for key in keys:
            _, factor, digits = MEASURES[key]
            own, plain = values(method, key), values("one-hot", key)
            mean = f"{factor * fmean(own):.{digits}f}"
            cells.append(mean if method == "one-hot" else difference(own, plain, factor, digits))
        lines.append([method_title(titles[method]), *cells])
    return markdown(["method", *(MEASURES[key][0] for key in keys)], 1, lines)


def unknown_table(study: str) -> str:
    """Confidence on the known and on each unknown set, and how well it tells them apart."""
    titles = rows_of(study)
    names = [key.removeprefix("auroc ") for key in next(iter(titles.values()))["cells"] if key.startswith("auroc ")]
    lines = []
    for method, row in titles.items():
        own = [measured for measured in decisions() if measured["study"] == study and measured["method"] == method]
        if not own:
            continue
        known = [
            a + b for a, b in zip(*(row["cells"][key]["values"] for key in ("accuracy", "signed_gap")), strict=True)
        ]
        cells = [f"{100 * fmean(known):.1f}"]
        for name in names:
            confidence = [measured[f"confidence {Path(name).stem}"] for measured in own]
            cells += [f"{100 * fmean(confidence):.1f}", f"{100 * row['cells'][f'auroc {name}']['value']:.1f}"]
        lines.append([method_title(row), *cells])
    heads = [f"{what} {Path(name).stem}" for name in names for what in ("confidence,", "AUROC,")]
    return markdown(["method", "confidence, test", *heads], 1, lines)


def advice_table(*studies: str) -> str:
    """What ``compare`` recommends in each study, by the rule of today, beside one-hot's gap."""
    lines = []
    for study in filter(rows_of, studies):
        rows = rows_of(study)
        read = [Row(row["method"], row["title"], cells_of(row), cost=row.get("cost")) for row in rows.values()]
        chosen = story.choose(judged(read)).method
        gap = f"{100 * rows['one-hot']['cells']['signed_gap']['value']:+.1f}".replace("-", "−")
        lines.append([study_title(study), gap, method_title(rows[chosen])])
    return markdown(["study", "one-hot's gap", "recommended"], 3, lines)


def cells_of(row: dict[str, Any]) -> dict[str, Cell]:
    """The cells of a row in table.json."""
    return {key: Cell.from_dict(cell) for key, cell in row["cells"].items() if cell["value"] is not None}


def cost_table(edition: str = "first") -> str:
    """Trainings and core-hours of each study."""
    lines, whole = [], 0.0
    for path in sorted(RECORDS.glob("*/records.jsonl.gz")):
        if path.parent.name.startswith("fair-") == (edition == "first"):
            continue
        records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        trainings = [record for record in records if record["kind"] == "training"]
        hours = sum(record["seconds"] for record in records) / 3600
        whole += hours
        seeds = len({record["seed"] for record in records if record["kind"] == "result"})
        lines.append([study_title(path.parent.name), str(len(trainings)), str(seeds), f"{hours:.2f}"])
    lines.append(["all", "", "", f"{whole:.1f}"])
    return markdown(["study", "trainings", "seeds", "core-hours"], 1, lines)


def demo_table(part: str) -> str:
    """Of softkin compare without options: the table, or the story."""
    data = json.loads((RECORDS / "demo.json").read_text())
    if part == "table":
        narrow = tuple(column for column in metric_columns() if not column.wide)
        rows = tuple(Row.from_dict(row) for row in data["rows"])
        return Table(narrow, rows, ("",), StudySpec.from_dict(data["spec"])).to_markdown().partition("\n\n")[0]
    said = data["recommendation"]
    return "\n>\n".join(textwrap.fill(text, 128, initial_indent="> ", subsequent_indent="> ") for text in said)


TABLES: dict[str, Callable[..., str]] = {
    "study": study_table,
    "pairs": pairs_table,
    "rows": rows_table,
    "variants": variants_table,
    "decisions": decisions_table,
    "unknown": unknown_table,
    "advice": advice_table,
    "cost": cost_table,
    "fair": fair_table,
    "fair-baselines": fair_baselines_table,
    "tuning": tuning_table,
    "claims": claims_table,
    "under": under_table,
    "resolution": resolution_table,
    "finer": finer_table,
    "as-trained": as_trained_table,
    "selective": selective_table,
    "sets": sets_table,
    "models": models_table,
    "networks": networks_table,
    "climbing": climbing_table,
    "demo": demo_table,
}


def with_tables(page: str) -> str:
    """The page with every marked table written again from results/records/."""

    def table(match: re.Match[str]) -> str:
        kind, *arguments = match[1].split()
        return f"<!-- table {match[1].strip()} -->\n\n{TABLES[kind](*arguments)}\n\n<!-- end -->"

    return re.sub(r"<!-- table (.*?) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["demo"]:
        files.write_json(RECORDS / "demo.json", json.loads((Path(sys.argv[2]) / "table.json").read_text()))
    elif len(sys.argv) > 1:
        collect(*map(Path, sys.argv[1:]))
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))
