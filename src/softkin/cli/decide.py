"""``softkin decide``: fit a decision rule to a file of predictions, apply it to another, or compare all rules."""

import argparse
import math
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin._io import files
from softkin.cli import choices, listing, running
from softkin.cli.arguments import check_shares, percentage
from softkin.cli.choices import choose
from softkin.cli.inputs import (
    add_actions,
    add_common_options,
    add_file,
    opened,
    opened_labelled,
    read_labelled,
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
    too_wide,
    write_report,
    wrote,
)

if TYPE_CHECKING:
    from softkin.decisions import Rule
    from softkin.decisions.thresholds import Selection, Threshold
    from softkin.evaluation.results import ComparedRules
    from softkin.metrics.measurement import MeasuredData
    from softkin.predictions import Predictions

SUMMARY = "answer, answer more coarsely, offer a set or abstain, with guarantees"
DESCRIPTION = """\
Turn probabilities into decisions: prediction sets, answers that climb a tree of classes, abstaining, lowest expected
cost. A rule is fitted on held-out predictions and then guarantees something about new ones; docs/guarantees.md explains
each guarantee. To choose the threshold of a binary model by its counts and costs, see the page of softkin evaluate FILE
--report page.html. `softkin evaluate --help` lists the kinds of files."""
EXAMPLE = "softkin decide compare examples/digits-validation.npz examples/digits-test.npz"
MORE_EXAMPLES = (
    "softkin decide fit examples/churn.csv --rule abstain --error 0.3 --output rule/",
    "softkin decide apply rule/ examples/churn.csv --output answers.csv",
    "softkin decide fit --list-methods",
)
EXAMPLES = {
    "fit": "softkin decide fit examples/digits-validation.npz --rule sets --coverage 0.95 --output rule/\n"
    "softkin decide fit examples/churn.csv --rule abstain --error 0.3 --output rule/",
    "apply": "softkin decide apply rule/ examples/digits-test.npz --output answers.csv\n"
    "softkin decide apply rule/ examples/churn.csv --output answers.csv",
    "compare": f"{EXAMPLE}\nsoftkin decide compare held-out.csv test.csv",
}

COLUMNS = ("coverage", "worst_class", "worst_group", "size", "superclasses", "answered", "error", "information", "cost")
HEADINGS = {
    "coverage": "coverage %",
    "worst_class": "worst class %",
    "worst_group": "worst group %",
    "size": "size",
    "superclasses": "superclasses",
    "answered": "answered %",
    "error": "error %",
    "information": "bits",
    "cost": "cost",
}
PER_CLASS = "class"
IN_PERCENT = ("coverage", "worst_class", "worst_group", "answered", "error")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the actions fit, apply and compare."""
    action = add_actions(command, EXAMPLES)

    fit = action("fit", "fit a rule to predictions that neither the model nor its calibrator was fitted on")
    listing.add(fit, listing.rules)
    add_file(fit, "file", "held-out predictions with labels")
    choose(fit.add_argument("--rule", required=True), "the rule: one of {}", choices.rules)
    fit.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="folder for the rule")
    choose(
        fit.add_argument("--score"),
        "how classes are scored for sets, or how confidence is measured: {}; with --outcome also the column of "
        "confidences",
        choices.decision_scores,
    )
    fit.add_argument("--of", choices=["answers", "rows"], help="denominator of the error rate (default: answers)")

    apply = action("apply", "apply a rule to predictions")
    apply.add_argument("folder", type=Path, metavar="FOLDER", help="folder of a rule that `fit` wrote")
    add_file(apply, "file", "predictions, with labels or without")
    apply.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="file for the answers: .csv, .tsv, .jsonl or .npz"
    )

    compare = action("compare", "fit all rules on one file and measure them on another")
    add_file(compare, "validation", "predictions to fit on")
    add_file(compare, "test", "predictions to measure on")
    choose(
        compare.add_argument("--rules", metavar="A,B,…"), "rules, of {} (default: all)", choices.rules, separators=","
    )
    compare.add_argument("--level", type=percentage, default=0.95, help="level of the intervals (default: 0.95)")
    compare.add_argument("--output", type=Path, metavar="FILE.json", help="also write the results to this file")
    add_report(compare)

    for parser in (fit, compare):
        parser.add_argument(
            "--coverage", type=percentage, help="share of rows whose set must hold the true class (default: 0.9)"
        )
        parser.add_argument("--error", type=percentage, help="highest error rate of the answers (default: 0.05)")
        parser.add_argument("--confidence", type=percentage, help="confidence with which --error holds (default: 0.95)")
        tree = parser.add_argument("--tree", metavar="SOURCE")
        lines = "a table of parent,child or class,superclass, nested .json or .yaml, a file of class distances"
        choose(tree, f"class tree: {lines}, or names", lambda: ["names"], files=True)
        similarity = parser.add_argument("--similarity", metavar="SOURCE")
        choose(similarity, "similarity for sets of similar classes: a file, or names", lambda: ["names"], files=True)
        running.add_alias(parser)
        several = "; may be repeated to compare several" if parser is compare else ""
        costs = f"cost of taking one class for another, or class distances: .safetensors or .csv{several}"
        repeated = "append" if parser is compare else "store"
        choices.path(parser.add_argument("--costs", action=repeated, metavar="FILE", help=costs))
        groups = "guarantee --coverage for each class (class), or for each group of classes in a .csv or .json file"
        choose(parser.add_argument("--conditional", metavar="GROUPS"), groups, lambda: ["class"], files=True)
    for parser in (fit, apply):
        parser.add_argument(
            "--group", metavar="NAME", help="column of groups of rows; the guarantee of sets holds for each group"
        )
    for parser in (fit, apply, compare):
        add_common_options(parser, score=parser is not fit)


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    check_shares(arguments, "coverage", "error", "confidence", "level")
    groups = getattr(arguments, "conditional", None)
    if groups not in (None, PER_CLASS) and not Path(groups).is_file():
        raise ValueError(
            f"--conditional must be {PER_CLASS}, or a .csv or .json file with the group of each class, got {groups!r}; "
            "there is no such file."
        )
    if arguments.action == "compare":
        check_report(arguments)
        if arguments.labels is not None:
            raise ValueError("--labels must be left out: two files cannot share one file of labels.")
        if arguments.rules is not None:
            from softkin.evaluation import deciding

            for name in _names(arguments.rules):
                deciding.rule_kind(name)
    if arguments.action == "fit":
        from softkin.evaluation import deciding

        kind = deciding.rule_kind(arguments.rule)
        _take_column(arguments)
        named = {"tree": arguments.tree, "matrix": arguments.costs, "similarity": arguments.similarity}
        deciding.check_options(kind, _stated(arguments) | named)
        if arguments.score is not None and kind.name in ("sets", "abstain"):
            try:
                kind(score=arguments.score)  # type: ignore[call-arg]
            except ValueError as error:
                raise ValueError(
                    f"{str(error).rstrip('.')}; for a column of confidences add --outcome, which alone is enough."
                ) from None
    if arguments.action == "apply" and arguments.output.suffix not in (".csv", ".tsv", ".jsonl", ".npz"):
        raise ValueError(f"--output must end in .csv, .tsv, .jsonl or .npz, got {arguments.output}.")
    if arguments.output is None:
        return
    if arguments.action == "fit" and arguments.output.exists() and not arguments.output.is_dir():
        raise ValueError(f"--output must be a folder, but {arguments.output} is a file.")
    files.guard(target(arguments), force=arguments.force)


def _take_column(arguments: argparse.Namespace) -> None:
    """Let --score name the column of confidences, as in other commands, if there are outcomes and it is no score."""
    from softkin.decisions import abstain, set_scores

    score = arguments.score
    known = score is None or any(name in abstain.SCORES or name in set_scores.SCORES for name in (score, score.lower()))
    if arguments.outcome is not None and not known:
        arguments.score_column, arguments.score = score, None


def target(arguments: argparse.Namespace) -> Path:
    """The file that is written."""
    output: Path = arguments.output
    return output / "rule.safetensors" if arguments.action == "fit" else output


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _stated(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of a rule that are plain values."""
    return {
        name: getattr(arguments, name) for name in ("coverage", "error", "confidence", "score", "conditional", "of")
    }


def run(arguments: argparse.Namespace) -> None:
    """Run the action."""
    {"fit": _fit, "apply": _apply, "compare": _compare}[arguments.action](arguments)


def _sources(arguments: argparse.Namespace, predictions: "Predictions") -> dict[str, Any]:
    """The tree, similarity, costs and groups that were named; None for those that were not."""
    from softkin.evaluation import deciding

    def conditional(source: str, predictions: "Predictions") -> Any:
        return source if source == PER_CLASS else deciding.groups_of(source, predictions)

    costs = deciding.costs_of if arguments.action == "fit" else deciding.all_costs_of
    aliases = running.aliases(arguments)
    makers: dict[str, Any] = {
        "tree": partial(deciding.tree_of, aliases=aliases),
        "similarity": partial(deciding.similarity_of, aliases=aliases),
    }
    makers |= {"costs": costs, "conditional": conditional}
    named = {name: getattr(arguments, name) for name in makers}
    return {name: None if source is None else makers[name](source, predictions) for name, source in named.items()}


def _fit(arguments: argparse.Namespace) -> None:
    from softkin.evaluation import deciding, doubts

    file, held_out = opened_labelled(arguments.file, arguments)
    seen = doubts.warning(file.notes, str(held_out.name), of_rule=True)
    if seen is not None:
        warnings.warn(seen, stacklevel=2)
    sources = _sources(arguments, held_out)
    options = _stated(arguments) | {name: sources[name] for name in ("tree", "similarity", "conditional")}
    options["matrix"] = sources["costs"]
    stated = {name: value for name, value in options.items() if value is not None}
    rule: Rule = deciding.rule_kind(arguments.rule)(**stated)
    deciding.fit(rule, held_out, doubts.calibration_of(file.notes))
    rule.save(arguments.output)
    selection = getattr(rule, "selection_", None)
    if arguments.json:
        about = {"rule": repr(rule), "guarantee": rule.guarantee(), "num_samples": len(held_out)}
        if selection is not None:
            about["chosen"] = selection.to_dict()["chosen"]
        print(json_text(about | {"folder": str(arguments.output)}))
        return
    say(f"{rule.in_words()}, fitted on {len(held_out):,} samples\n{rule.guarantee()}")
    if selection is not None and selection.chosen is not None:
        say(_threshold(rule, selection))
    if held_out.num_classes == 2 and not held_out.are_pairs and rule.name == "abstain":
        say(
            "Its answers are of both classes, each where it is the more probable one. For a threshold on the single "
            "score alone, name the labels with --outcome."
        )
    wrote(target(arguments))


def _threshold(rule: "Rule", selection: "Selection") -> str:
    """Where a rule answers, what that did on the rows of the fit, and the next threshold, which did not pass."""
    from softkin.decisions import thresholds

    score, chosen = getattr(rule, "score", "mass"), selection.chosen
    assert chosen is not None

    def at(one: "Threshold") -> str:
        return f"{one.threshold:.6g}" if score in ("entropy", "logit-norm") else thresholds.in_percent(one.threshold)

    tested = round(chosen.answered / chosen.coverage)
    told = (
        f"It answers where the {'confidence' if score == 'probability' else score} is above {at(chosen)}: here in "
        f"{chosen.answered:,} of {tested:,} samples ({100 * chosen.coverage:.1f} %), {chosen.wrong:,} of them wrong."
    )
    following = selection.candidates[selection.candidates.index(chosen) + 1 :]
    if not following:
        return told
    told_next = f"{at(following[0])} ({following[0].answered:,} samples, {following[0].wrong:,} wrong)"
    return f"{told} The next threshold, {told_next}, does not pass."


def _apply(arguments: argparse.Namespace) -> None:
    from softkin import decisions
    from softkin.evaluation import deciding, doubts

    rule = decisions.load(arguments.folder)
    file, read_in = opened(arguments.file, arguments)
    predictions = read_in.in_order(rule.class_names_, "the rule")
    answers = deciding.answers(rule, predictions)
    overlap = deciding.notice(rule, recognisable(read_in, arguments), len(predictions))
    other = doubts.other_calibration(rule.calibration_, doubts.calibration_of(file.notes), str(predictions.name))
    told = [sentence for sentence in (overlap, other) if sentence is not None]
    for sentence in told:
        warnings.warn(sentence, stacklevel=2)
    deciding.written(arguments.output, rule, answers, predictions, file)
    count, answered = len(predictions), int(deciding.is_answered(answers).sum())
    result: dict[str, Any] = {"rule": repr(rule), "num_samples": len(predictions), "file": str(arguments.output)}
    result |= {
        "num_answered": answered,
        "guarantee": rule.guarantee(),
        "warnings": told,
    }
    if predictions.labels is not None:
        outcome = rule.evaluate(
            predictions.scores,
            predictions.labels,
            from_probabilities=predictions.are_probabilities,
            **deciding.beside(predictions),
        )
        result |= outcome.to_dict()
    matched = doubts.reordered(rule, read_in)
    if arguments.json:
        print(json_text(result | {"reordered": matched is not None}))
        return
    print(f"{shown(matched)}\n" if matched else "", end="")
    say(
        f"{rule.in_words()}, fitted on {rule.num_samples_:,} samples, applied to {len(predictions):,}\n"
        f"{rule.guarantee()}"
    )
    if answers.ndim == 2:
        one = int((answers.sum(dim=1) == 1).sum())
        several, none = answered - one, count - answered
        say(f"{one:,} of {count:,} rows have a set of one class, {several:,} of several, {none:,} of none.")
    else:
        left = count - answered
        say(f"{answered:,} of {count:,} rows are answered; {left:,} are left, without an answer in the file.")
    if "measures" in result:
        measures = result["measures"]
        of_pairs = getattr(rule, "of_pairs_", False)  # whose answers are all worth the same
        known = [name for name in COLUMNS if name in measures and not (of_pairs and name == "information")]
        level = f"{100 * measures[known[0]]['level']:g} % intervals"
        say(f"Measured here: {'; '.join(f'{HEADINGS[name]} {_cell(name, measures[name])}' for name in known)}, {level}")
        missed = deciding.against_promise(rule.promised, measures)
        if missed is not None:
            say(missed)
        for line in result["details"].get("by_height", []):
            if line["rows"]:
                coarse = f"a group of {line['classes_left']:.3g} classes on average"
                answer = "the class itself" if line["height"] == 0 else coarse
                share, wrong = (f"{100 * line[name]:.1f} %" for name in ("share", "error"))
                say(f"  {answer}: {share} of the samples, {wrong} of them wrong")
    wrote(arguments.output)


def _compare(arguments: argparse.Namespace) -> None:
    from softkin.evaluation import deciding

    validation, test = (read_labelled(path, arguments) for path in (arguments.validation, arguments.test))
    sources = _sources(arguments, validation)
    rules: dict[str, Rule] = deciding.candidates(
        validation,
        coverage=arguments.coverage or 0.9,
        error=arguments.error or 0.05,
        confidence=arguments.confidence or 0.95,
        tree=sources["tree"],
        alike=sources["similarity"],
        costs=sources["costs"],
        groups=None if arguments.conditional == PER_CLASS else sources["conditional"],
        rules=None if arguments.rules is None else _names(arguments.rules),
    )
    result = deciding.compare_rules(
        validation, test, rules, level=arguments.level, costs=sources["costs"], tree=sources["tree"]
    )
    present(arguments, result, _print)
    write_report(arguments, "of_rules", result)


def _print(result: "ComparedRules") -> None:
    from softkin.evaluation import deciding

    print_data_sets(result)
    lines = [line for line in result["rules"] if "measures" in line]
    known = [name for line in lines for name in line["measures"] if name.startswith("cost ")]
    columns = [name for name in [*COLUMNS, *dict.fromkeys(known)] if any(name in line["measures"] for line in lines)]
    rows = [
        [line["rule"], *(_cell(name, line["measures"][name]) if name in line["measures"] else "" for name in columns)]
        for line in lines
    ]
    headings = ["rule", *(HEADINGS.get(name, shown(name)) for name in columns)]
    droppable = [1 + columns.index(name) for name in ("information", "worst_class", "cost") if name in columns]
    if too_wide(headings, rows, droppable):  # the numbers matter more than their intervals
        rows = [[cell.partition(" [")[0] for cell in row] for row in rows]
        say("Without intervals, for which a wider terminal or --json has room.")
    print_table(headings, rows, droppable)
    headline, says = deciding.in_words(result)
    say(f"{headline}. {' '.join(says)}" if says else f"{headline}.")
    for line in result["rules"]:
        if "failed" in line:
            say(f"{line['rule']} failed: {shown(line['failed'])}")
        for words in line.get("warnings", []):
            say(f"{line['rule']}: {shown(words)}")


def _cell(name: str, value: "MeasuredData") -> str:
    """A value with its interval."""
    parts = [files.from_number(value[part]) for part in ("value", "low", "high")]
    if not math.isfinite(parts[0]):
        return "–"
    if name in IN_PERCENT:
        number, low, high = (f"{100 * part:.1f}" for part in parts)
    else:
        number, low, high = (f"{part:.2f}" for part in parts)
    return f"{number} [{low}, {high}]"
