"""Decision rules by name: fitted to predictions, applied to others, and compared side by side."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError, distances, similarity
from softkin._core.names import did_you_mean, spelling
from softkin._io import escape, files, roles, tables
from softkin._io.files import from_number
from softkin.decisions import REGISTRY, Abstain, Climb, Costs, Outcome, PredictionSets, Rule, Tree, set_scores
from softkin.decisions import abstain as confidence_scores
from softkin.decisions.rule import Promise
from softkin.distances.tree_files import holds_tree, open_tree
from softkin.evaluation import doubts
from softkin.evaluation.results import ComparedRules, RuleLine
from softkin.metrics.measurement import MeasuredData
from softkin.predictions import Predictions, rewriting
from softkin.predictions.blocks import PredictionFile
from softkin.predictions.container import SEPARATORS

NAMES_ALONE = "names"
FORMATS = (".csv", ".jsonl", ".npz")


def rule_kind(name: str) -> type[Rule]:
    """A rule's class by one of its names."""
    return REGISTRY[REGISTRY.canonical(name, "rule")]


def set_score_names() -> list[str]:
    """The names of the scores of sets and of confidence."""
    return [*set_scores.SCORES, *confidence_scores.SCORES]


# The inputs of rules


def tree_of(source: str | Path, predictions: Predictions, aliases: Mapping[str, str] | None = None) -> Tree:
    """A tree over the classes of predictions.

    Args:
        source: "names" for the dendrogram of the class names' word distances; "wordnet"; a file that
            ``distances.read_tree`` reads; or a file of class distances.
        predictions: The predictions whose classes the tree must have.
        aliases: Words to look up instead, for "names".
    """
    names = _named(predictions, "a tree")
    if source == NAMES_ALONE:
        found = _of_names(names, aliases)
        return Tree.from_distances((found + found.T) / 2, class_names=names)
    try:
        if not holds_tree(source):
            return Tree.from_distances(distances.load(source, class_names=names), class_names=names)
        hierarchy, nodes = open_tree(source, names)
        return Tree.from_edges(hierarchy, names, nodes=nodes)
    except (ValueError, TypeError) as error:
        raise SoftkinError(f"{source}: {error}") from error


def costs_of(source: str | Path, predictions: Predictions) -> Tensor:
    """(K, K) costs from a file of class distances, or from a .csv with the class names as its header."""
    path, names = Path(source), _named(predictions, "costs")
    try:
        return distances.load(path, class_names=names)
    except ValueError as error:
        raise SoftkinError(f"{path}: {error}") from error


def all_costs_of(sources: Sequence[str | Path], predictions: Predictions) -> dict[str, Tensor]:
    """``costs_of`` each file by its name without suffix, or by its path if two names would be the same."""
    stems = [Path(source).stem for source in sources]
    titles = [str(source) if stems.count(stem) > 1 else stem for source, stem in zip(sources, stems, strict=True)]
    return {title: costs_of(source, predictions) for title, source in zip(titles, sources, strict=True)}


def groups_of(source: str | Path, predictions: Predictions) -> Tensor:
    """The group 0 … G−1 of each class, (K,), from a .csv of class,group lines or a .json object of class: group."""
    path, names = Path(source), _named(predictions, "groups")
    if path.suffix.lower() == ".json":
        content = files.read_json(path, "JSON")
        if not isinstance(content, dict) or not all(isinstance(value, str | int) for value in content.values()):
            raise SoftkinError(f"{path} must be one JSON object with the group of each class, a text or a number.")
        lines = [(name, str(group)) for name, group in content.items()]
    else:
        lines = _pairs(path, names)
    group_of: dict[str, str] = {}
    alike = {spelling(name): name for name in names}
    for stated, group in lines:
        name = str(stated if stated in names else alike.get(spelling(stated), stated))
        if name not in names:
            raise SoftkinError(
                f"{path} must hold the classes of {predictions.name}, got {escape.terminal(name)!r}"
                f"{did_you_mean(name, names)}"
            )
        if group_of.setdefault(name, group) != group:
            raise SoftkinError(f"{path} must give each class one group, but {escape.terminal(name)!r} has two.")
    missing = next((name for name in names if name not in group_of), None)
    if missing is not None:
        raise SoftkinError(f"{path} must have a group for each class, but {escape.terminal(missing)!r} has none.")
    numbers = {group: place for place, group in enumerate(dict.fromkeys(group_of[name] for name in names))}
    return torch.tensor([numbers[group_of[name]] for name in names])


def _pairs(path: Path, class_names: Sequence[str]) -> list[tuple[str, str]]:
    """The classes and groups in a table with two columns; a first line that names no class is its header."""
    lines, known = tables.read_cells(path, "classes and groups"), {spelling(name) for name in class_names}
    wrong = next(((number, line) for number, line in lines if len(line) != 2), None)
    if wrong is not None or not lines:
        where = f"line {wrong[0]} has {len(wrong[1])}" if wrong is not None else "it is empty"
        raise SoftkinError(f"{path} must have two columns, class and group, but {where}.")
    return [(line[0], line[1]) for _, line in lines[spelling(lines[0][1][0]) not in known :]]


def similarity_of(source: str, predictions: Predictions, aliases: Mapping[str, str] | None = None) -> Tensor:
    """(K, K) similarity from a file, or from the class names alone ("names"), with words to look up instead."""
    names = _named(predictions, "similarity")
    if source == NAMES_ALONE:
        return similarity.from_distances(_of_names(names, aliases), asymmetric=True)
    return similarity.load(source, class_names=names)


def _of_names(names: list[str], aliases: Mapping[str, str] | None) -> Tensor:
    """(K, K) distances of names; a name without a vector is at the mean distance, with a warning."""
    return distances.measure("words", distances.ClassNames(names, names), aliases=aliases).matrix


def _named(predictions: Predictions, what: str) -> list[str]:
    if predictions.class_names is None:
        raise SoftkinError(f"{predictions.name} must have class names for {what}; give them with --class-names.")
    return predictions.class_names


def check_options(kind: type[Rule], options: Mapping[str, Any]) -> None:
    """Refuse options that the rule does not take, and the lack of one that it needs; None is an option left out."""
    spelled = {name: "--costs" if name == "matrix" else f"--{name}" for name in options}
    taken = kind.option_names()
    foreign = next((name for name, value in options.items() if value is not None and name not in taken), None)
    if foreign is not None:
        allowed = ", ".join(spelled[name] for name in options if name in taken)
        raise ValueError(f"{spelled[foreign]} is not for the rule {kind.name}, which takes {allowed}.")
    needed = next((name for name in options if name in kind.required_options() and options[name] is None), None)
    if needed is not None:
        raise ValueError(f"{spelled[needed]} must be given with the rule {kind.name}.")


# Fitting, applying, comparing


def fit(rule: Rule, predictions: Predictions, calibration: str | None = None) -> Rule:
    """Fit on predictions, and remember their rows by content and ids.

    Args:
        rule: The rule.
        predictions: The rows.
        calibration: What had calibrated them (``doubts.calibration_of`` their file), if that is known.
    """
    if predictions.votes is not None:
        raise SoftkinError(f"{predictions.name} has votes, which the guarantees of rules do not know.")
    scores, labels, _ = predictions.arrays()
    rule.fit(
        scores if predictions.are_pairs else predictions.scores,
        labels,
        from_probabilities=predictions.are_probabilities,
        class_names=predictions.class_names,
        **beside(predictions),
    )
    rule.sample_digests_, rule.calibration_ = doubts.known_by(predictions), calibration
    return rule


def beside(predictions: Predictions) -> dict[str, Any]:
    """The groups and weights of the rows, as rules take them."""
    return {"groups": predictions.groups, "weights": predictions.weights}


def notice(rule: Rule, predictions: Predictions, num_samples: int) -> str | None:
    """The sentence about rows that the rule was fitted on, or None; ``predictions`` may be those rows with labels."""
    return doubts.notice(doubts.seen(rule, predictions, num_samples), f"{rule.name} rule", str(predictions.name))


def answers(rule: Rule, predictions: Predictions) -> Tensor:
    """The rule's answer for each row of predictions whose classes are in its order (``Predictions.in_order``)."""
    if predictions.are_pairs and not getattr(rule, "of_pairs_", False):
        raise SoftkinError(
            f"{predictions.name} is read as pairs of a confidence and an outcome, but the rule was fitted on classes; "
            "leave --score and --outcome out, or fit the rule with them."
        )
    try:
        result: Tensor = rule.predict(
            predictions.scores, from_probabilities=predictions.are_probabilities, **beside(predictions)
        )
    except ValueError as error:
        raise SoftkinError(f"{predictions.name}: {error}") from error
    return result


def written(path: Path, rule: Rule, result: Tensor, predictions: Predictions, source: PredictionFile) -> None:
    """Write answers as CSV, TSV, JSONL or npz, atomically, with class names if there are any.

    A CSV or TSV keeps the columns of the table that the predictions come from, and has the answers and their
    confidences beside them; without a table it has the ids.
    """
    ids = _sample_ids(predictions)
    if path.suffix == ".npz":
        arrays: dict[str, Any] = {"answers": result.numpy(), "sample_ids": np.array(ids), "rule": np.array(rule.name)}
        arrays["guarantee"] = np.array(rule.guarantee())
        names = predictions.class_names or rule.class_names_
        if names is not None:
            arrays["class_names"] = np.array(names)
        if isinstance(rule, Climb):
            arrays["node_names"] = np.array(rule.tree.names)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        files.write(path, buffer.getvalue())
        return
    said = [_in_words(rule, answer, predictions) for answer in result.tolist()]
    if path.suffix == ".jsonl":
        lines = [
            json.dumps({"sample_id": name, "answer": answer}, ensure_ascii=False)
            for name, answer in zip(ids, said, strict=True)
        ]
        files.write(path, "".join(f"{line}\n" for line in lines))
        return
    cells = [escape.csv_cell(_cell(answer)) for answer in said]
    table = source.table
    if table is not None and source.score_columns:
        form = rewriting.NumberForm.of(table, source.score_columns)
        answer, confidence = _free("answer", table.columns), _free("answer_confidence", table.columns)
        added = {answer: cells, confidence: form.cells(_confidences(rule, result, predictions))}
        text = rewriting.text_of(table, [*table.columns, *added], added, tabs=path.suffix == ".tsv")
        files.write(path, text)
        return
    lines_of_text = io.StringIO()
    writer = csv.writer(lines_of_text, delimiter=SEPARATORS[path.suffix], lineterminator="\n")
    writer.writerow(["sample_id", "answer"])
    writer.writerows(zip((escape.csv_cell(str(name)) for name in ids), cells, strict=True))
    files.write(path, lines_of_text.getvalue())


def _cell(answer: Any) -> str:
    return " | ".join(answer) if isinstance(answer, list) else "" if answer is None else str(answer)


def _free(name: str, columns: Iterable[str]) -> str:
    """A name that no column has."""
    taken = {roles.plain(column) for column in columns}
    names = chain([name, f"rule_{name}"], (f"rule_{name}_{n}" for n in count(2)))
    return next(free for free in names if free not in taken)


def is_answered(result: Tensor) -> Tensor:
    """(N,) whether each row has an answer, or a set of at least one class."""
    return result.any(dim=1) if result.ndim == 2 else result >= 0


def _confidences(rule: Rule, result: Tensor, predictions: Predictions) -> list[float | None]:
    """The probability that each answer holds the true class; None without an answer, and for an action."""
    p = predictions.probabilities
    if result.ndim == 2:
        inside = result.bool()
    elif isinstance(rule, Costs) and rule.actions is not None:
        return [None] * len(result)
    else:
        of_answers = rule.tree.members if isinstance(rule, Climb) else torch.eye(p.shape[1], dtype=torch.bool)
        is_class = (result >= 0) & (result < len(of_answers))
        inside = of_answers[torch.where(is_class, result, 0)] & is_class[:, None]
    total = (p * inside).sum(dim=1).clamp_max(1.0)
    return [value if some else None for value, some in zip(total.tolist(), inside.any(dim=1).tolist(), strict=True)]


def _sample_ids(predictions: Predictions) -> list[Any]:
    ids = predictions.sample_ids
    if ids is None:
        return list(range(len(predictions)))
    return ids.tolist() if isinstance(ids, Tensor) else list(ids)


def _in_words(rule: Rule, answer: Any, predictions: Predictions) -> Any:
    """An answer by name: a list for a set, None for no answer."""
    names = predictions.class_names or rule.class_names_ or [str(k) for k in range(rule.num_classes_)]
    if isinstance(answer, list):
        return [names[k] for k, inside in enumerate(answer) if inside]
    if answer < 0:
        return None
    if isinstance(rule, Climb):
        return rule.tree.names[answer]
    if isinstance(rule, Costs):
        if rule.actions is not None:
            return rule.actions[answer]
        return names[answer] if answer < len(names) else f"action {answer}"
    return names[answer]


def candidates(
    predictions: Predictions,
    *,
    coverage: float,
    error: float,
    confidence: float,
    tree: Tree | None = None,
    alike: Tensor | None = None,
    costs: Mapping[str, Tensor] | None = None,
    groups: Tensor | None = None,
    rules: Sequence[str] | None = None,
) -> dict[str, Rule]:
    """The rules that can be compared on such predictions, by title."""
    offered: dict[str, Rule] = {}
    for score, known in set_scores.SCORES.items():
        if known.ordinal:  # whether classes are ordered, the files do not say
            continue
        offered[f"sets, {score.upper()}"] = PredictionSets(coverage, score)
        if alike is not None:
            offered[f"sets of kin, {score.upper()}"] = PredictionSets(coverage, score, similarity=alike)
    offered["sets per class, LAC"] = PredictionSets(coverage, conditional="class")
    if groups is not None:
        offered["sets per group, LAC"] = PredictionSets(coverage, conditional=groups)
    for score, declared in confidence_scores.SCORES.items():
        if not (declared.takes_logits and predictions.are_probabilities):
            offered[f"abstain by {score}"] = Abstain(error, confidence=confidence, score=score)
    if tree is not None:
        offered["climb"] = Climb(tree, error, confidence=confidence)
    for name, matrix in (costs or {}).items():
        offered[f"least cost, {name}" if len(costs or {}) > 1 else "least cost"] = Costs(matrix)
    options = {"coverage": coverage, "error": error, "confidence": confidence, "tree": tree, "similarity": alike}
    for kind in REGISTRY.values():  # rules declared outside softkin
        if kind not in (PredictionSets, Abstain, Climb, Costs) and kind.required_options() <= {
            name for name, value in options.items() if value is not None
        }:
            offered[kind.title] = kind(**{name: options[name] for name in kind.option_names() if name in options})
    wanted = None if rules is None else {REGISTRY.canonical(name, "rules") for name in rules}
    return {title: rule for title, rule in offered.items() if wanted is None or rule.name in wanted}


def compare_rules(
    validation: Predictions,
    test: Predictions,
    rules: Mapping[str, Rule],
    *,
    level: float = 0.95,
    costs: Mapping[str, Tensor] | None = None,
    tree: Tree | None = None,
) -> ComparedRules:
    """Fit every rule on one set of samples and measure it on another.

    Args:
        validation: The samples that the rules are fitted on.
        test: The samples that they are measured on; a warning counts samples that are in both sets.
        rules: Unfitted rules by title.
        level: The level of all intervals.
        costs: Cost matrices (K, K) by name, for the measure ``cost`` of single answers, or ``cost NAME`` of several.
        tree: A tree whose uppermost kinds are the super-classes in which sets are counted.

    Returns:
        Plain data: ``rules``, each with ``measures`` and its ``guarantee``, or with why it ``failed``.
    """
    import time
    import warnings

    doubts.require_same_classes(validation, test)
    shared = doubts.between(validation, test)
    groups = None if tree is None else uppermost(tree)
    several = costs if costs is not None and len(costs) > 1 else {}
    single = next(iter(costs.values())) if costs and not several else None
    lines: list[RuleLine] = []
    for title, rule in rules.items():
        line: RuleLine = {"rule": title, "kind": rule.name, "code": repr(rule)}
        lines.append(line)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fit(rule, validation)
                outcome = _measured(rule, test, level, superclasses=groups, costs=single)
                for name, matrix in several.items():
                    cost = _measured(rule, test, level, costs=matrix).get("cost")
                    if cost is None:  # sets have no cost
                        break
                    outcome.measures.pop("cost", None)
                    outcome.measures[f"cost {name}"] = cost
        except ValueError as error:
            line["failed"] = str(error)
            continue
        line |= cast(RuleLine, outcome.to_dict())
        line |= {"guarantee": rule.guarantee(), "seconds": time.perf_counter() - start}
        if rule.promised is not None:
            line["promised"] = rule.promised.share
        if caught:
            line["warnings"] = sorted({str(warning.message) for warning in caught})
    return {
        "fitted_on": {"name": validation.name, "num_samples": len(validation), "digest": validation.digest},
        "measured_on": {"name": test.name, "num_samples": len(test), "digest": test.digest},
        "confidence": level,
        "rules": lines,
        "warnings": [] if shared is None else [shared.replace("the calibrators were", "the rules were")],
    }


def _measured(rule: Rule, test: Predictions, level: float, **options: Any) -> Outcome:
    test = test.in_order(rule.class_names_, "the rule")
    return rule.evaluate(
        test.scores,
        test.known_labels,
        from_probabilities=test.are_probabilities,
        confidence=level,
        **beside(test),
        **options,
    )


def uppermost(tree: Tree) -> Tensor:
    """The uppermost group of each class below the root, (K,) 0 … G−1."""
    top = tree.paths[:, -1]
    groups: Tensor = torch.unique(top, return_inverse=True)[1]
    return groups


# In words


def of_kind(result: ComparedRules, kind: str) -> list[RuleLine]:
    """The lines of a comparison whose rules are sets, or answers and abstaining, and could be measured."""
    key = {"sets": "size", "abstain": "answered"}[kind]
    return [line for line in result["rules"] if line["kind"] == kind and key in line.get("measures", {})]


def most_answers(lines: Sequence[RuleLine]) -> RuleLine:
    """The rule of these that answers most."""
    return max(lines, key=lambda line: _value(line, "answered"))


def in_words(result: ComparedRules) -> tuple[str, list[str]]:
    """What a comparison of rules says: a headline, and a sentence for the best of each kind."""
    sets, answers = of_kind(result, "sets"), of_kind(result, "abstain")
    measured = [line for line in result["rules"] if "measures" in line]
    headline, says = f"{len(measured)} ways to decide, each with its guarantee", []
    if answers:
        most = most_answers(answers)
        headline = f"Answer {100 * _value(most, 'answered'):.0f} % alone, pass on the rest"
        if _value(most, "answered") == 0:
            headline = "No rule answers alone as surely as was asked"
            says.append(most["guarantee"])
        else:
            says.append(
                f"Most answers ({most['rule']}): {100 * _value(most, 'answered'):.1f} % of the samples, of which "
                f"{100 * _value(most, 'error'):.1f} % are wrong{_promised(most)}."
            )
    if sets:
        small = min(sets, key=lambda line: _value(line, "size"))
        says.append(
            f"Smallest sets ({small['rule']}): {_value(small, 'size'):.2f} classes, which hold the truth in "
            f"{100 * _value(small, 'coverage'):.1f} % of the samples{_promised(small)}."
        )
    return headline, says


def _promised(line: RuleLine) -> str:
    """The share that a rule guarantees, beside the one that was measured."""
    if "promised" not in line:
        return ""
    promise = Promise("coverage" if "coverage" in line["measures"] else "error", line["promised"])
    noise = "; the difference may be sampling noise" if _missed(promise, line["measures"]) == "perhaps" else ""
    return f" (promised: {promise.words}{noise})"


def _missed(promise: Promise, measures: Mapping[str, MeasuredData]) -> str:
    cell = measures[promise.measure]
    return promise.missed(*(from_number(cell[end]) for end in ("value", "low", "high")))


def against_promise(promise: Promise | None, measures: Mapping[str, MeasuredData]) -> str | None:
    """What to make of a measured share that misses the promise of its rule; None if it does not miss it."""
    missed = "no" if promise is None else _missed(promise, measures)
    if promise is None or missed == "no":
        return None
    cell = measures[promise.measure]
    value, low, high = (f"{100 * from_number(cell[end]):.1f}" for end in ("value", "low", "high"))
    what, than = ("wrong", "more") if promise.measure == "error" else ("of the sets with the true class", "less")
    told = f"{value} % {what} is {than} than the promised {100 * promise.share:g} %"
    interval = f"the {100 * cell['level']:g} % interval is {low} to {high} %"
    if missed == "perhaps":
        return f"{told}, but does not contradict it: {interval}."
    return (
        f"{told}, and contradicts it: {interval}. These samples are not like those of the fit, or the fit was one of "
        "the few whose promise fails."
    )


def _value(line: RuleLine, key: str) -> float:
    return from_number(line["measures"][key]["value"])
