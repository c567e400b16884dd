"""The first screen of one model: whether to trust it, where not, and what to do."""

import math
import shlex
from collections.abc import Mapping
from typing import Any

from softkin._io import tables
from softkin._io.files import from_number
from softkin.calibrators import REGISTRY
from softkin.decisions import thresholds
from softkin.evaluation.positive import STATED_BINS
from softkin.evaluation.results import already
from softkin.metrics import intervals
from softkin.report import curves
from softkin.report.data import Cells
from softkin.report.drawing import reliability_svg
from softkin.report.markup import (
    address,
    counted,
    doubts,
    escaped,
    metric_text,
    named,
    number_pair,
    percent,
    sampling,
    sentence,
)
from softkin.report.positive import FALSE_ALARMS

LEAST_EXCESS = 2  # answers too many or too few: one mistake of a sure class is no pattern
WORST = 5  # classes to list
CONFUSED = 2  # true classes of the wrong answers to list
FEWEST = 3  # a confusion that happened less often is not worth a line


def of_model(data: Mapping[str, Any]) -> str:
    raw = data["variants"][0]
    verdict = raw["verdict"]
    return (
        '<section class="hero" id="answers" aria-labelledby="headline">'
        f"{doubts(verdict)}"
        f'<h1 id="headline" class="{verdict["kind"]}">{sentence(verdict["headline"])}</h1>'
        f'<p class="lead">{sentence(verdict["detail"], 900)}{_by_group(data)}</p>'
        f"{sampling(data)}"
        f'<div class="answers">{_trust(data)}{_told_apart(data) or _where(data)}{_what_to_do(data)}</div>'
        f"{_numbers(data, raw)}</section>"
    )


def _by_group(data: Mapping[str, Any]) -> str:
    """The group whose gap is the largest of those beyond chance; groups of pairs have an answer of their own."""
    seen = data.get("groups")
    if not seen or data["pairs"]:
        return ""
    far = [row for row in seen["rows"] if from_number(row["gap"]["low"]) > 0 or from_number(row["gap"]["high"]) < 0]
    by = f'<a href="#groups">By {escaped(seen["column"], 40)}</a>'
    if not far:
        return f" {by}, no group is seen to claim too much or too little."
    sure, right = (percent(far[0][part]) for part in ("sure", "right"))
    return f" {by}, {named(far[0]['name'], 40)} is furthest off: {sure} sure and {right} right."


def _trust(data: Mapping[str, Any]) -> str:
    is_settled = _groups_differ(data) or data.get("calibrated_by")
    raw, after = data["variants"][0], None if is_settled else _best_variant(data)
    binary = data["binary"] if not data["pairs"] else None
    n_bins = STATED_BINS if binary else data["n_bins"] if data["n_bins"] in curves.BINS else 15

    def parts(variant: Mapping[str, Any]) -> tuple[Cells, str]:
        ece = variant["positive"]["error"] if binary else variant["metrics"]["ece_hist"]
        cells = variant["positive"]["cells"] if binary else variant["prediction"]
        chance = f" (chance alone: {percent(ece['when_calibrated']['value'])})" if "when_calibrated" in ece else ""
        return cells, f"calibration error (ECE) {percent(ece['value'])}{chance}"

    def figure(variant: Mapping[str, Any], then: Mapping[str, Any] | None) -> str:
        axis = f"probability of {binary['positive']}" if binary else "confidence"
        cells, words = parts(variant)
        later, after_words = (None, "") if then is None else parts(then)
        drawn = reliability_svg(cells, n_bins, "As it is", axis, later)
        line = "" if then is None else f"<strong>◆ After {escaped(_inside(then['name']), 60)}</strong> {after_words}"
        return f"<figure>{drawn}<figcaption><strong>▮ As it is</strong> {words}{line}</figcaption></figure>"

    says = (
        "Each bar shows how often answers with that confidence are right. On the dashed line both are equal."
        if binary is None
        else f"Each bar shows how many samples with that probability are {named(binary['positive'], 40)}, in steps of "
        f"ten points as in the headline; the error is that of {data['n_bins']} bins."
    )
    figures = figure(raw, after)
    return (
        '<div class="card answer" id="answer-trust"><h2>Can I trust it?</h2>'
        f'{figures}<p class="note">{says} Hatched is the gap: / claimed but not true, \\ true but not claimed.</p>'
        "</div>"
    )


def _told_apart(data: Mapping[str, Any]) -> str:
    """Of a binary model: how well it ranks, and what a threshold of 50 % and a certified one catch."""
    is_pairs = data["pairs"]
    if not data["binary"] or (is_pairs and data["num_classes"] > 2):
        return ""
    binary, positive = data["binary"], data["variants"][0]["positive"]
    name, alarm = named(binary["positive"], 40), "answer" if is_pairs else "alarm"
    lines = []
    if positive["auroc"] is not None:
        higher = f"of pairs of {name} and another it scores {name} higher (AUROC)."
        if is_pairs:
            higher = "of pairs of a right and a wrong answer it is surer of the right one (AUROC)."
        lines.append(f"In {percent(positive['auroc'])} {higher}")
    half = max((place for place, t in enumerate(positive["threshold"]) if t >= 0.5), default=None)
    if half is not None and binary["positives"]:
        alarms, caught = positive["alarms"][half], positive["caught"][half]
        found = f"it catches {percent(caught / binary['positives'])} of {name}, and"
        lines.append(
            f"From 50\u202f% on {'' if is_pairs else found} {percent(caught / alarms)} of its {counted(alarms, alarm)} "
            "are right."
        )
    offered = [one for one in reversed(positive["certified"]) if one["rule"] is not None]
    # The least that one keeps was found on these samples, so a rate that was fixed beforehand comes first.
    kept = next((one for one in offered if one["target"] in FALSE_ALARMS), offered[0] if offered else None)
    if kept is not None:
        rule = kept["rule"]
        every = rule["answered"] == data["num_samples"]
        start = "" if every else f"above {sentence(thresholds.in_percent(rule['threshold']))}, "
        of = f"of all {rule['answered']:,} {alarm}s" if every else f"of the {alarm}s"
        count = "" if every else f" ({counted(rule['answered'], alarm)})"
        lines.append(
            f"Certified: {start}at most {100 * kept['target']:g}\u202f% {of} are {'wrong' if is_pairs else 'false'}, "
            f"with {100 * data['abstain']['confidence']:g}\u202f% confidence{count}; the least whole percent that a "
            f"threshold keeps is {100 * offered[0]['target']:g}\u202f%."
        )
    items = "".join(f"<li>{line}</li>" for line in lines)
    return (
        '<div class="card answer" id="answer-where">'
        f"<h2>Does it tell {'right from wrong' if is_pairs else 'them apart'}?</h2>"
        f"<ul>{items}</ul>"
        '<p><a href="#cut">Threshold, counts and costs</a></p></div>'
    )


def _where(data: Mapping[str, Any]) -> str:
    if data.get("pairs") and data["num_classes"] == 2:
        return ""
    is_pairs = data.get("pairs", False)
    one, what, count = (
        ("group", "groups", data["num_classes"] - 1) if is_pairs else ("class", "classes", data["num_classes"])
    )
    apart = worst_classes(data)
    worst = apart[:WORST]
    classes = data["variants"][0]["classes"]
    lines = []
    for k in worst:
        n = classes["answered"][k]
        right, sure = classes["right"][k] / n, classes["score_sum"][k] / n
        kind = "over" if sure > right else "under"
        mixed = [] if is_pairs else [(other, n) for other, n in classes["truly"][k][:CONFUSED] if n >= FEWEST]
        others = ", ".join(f"{named(data['class_names'][other], 30)} {count}×" for other, count in mixed)
        wrong = n - classes["right"][k]
        often = "mostly" if 2 * sum(count for _, count in mixed) >= wrong else "most often"
        truly = f" When wrong ({wrong:,} of {n:,}), {often} {others}." if mixed else ""
        lines.append(
            f'<li><a href="#class={address(data["class_names"][k])}">{named(data["class_names"][k], 40)}</a>: '
            f'<span class="{kind}-text">{percent(sure)} sure, {percent(right)} right</span> '
            f'<span class="note">{truly.strip() or counted(n, "answer") + "."}</span></li>'
        )
    if lines:
        note = (
            f"{what.capitalize()} whose accuracy differs from their confidence by more than sampling noise explains, "
            f"corrected for testing all {count:,}. "
            + ("The furthest off comes first." if is_pairs else "The one that adds most to the error comes first.")
        )
        if further := len(apart) - len(worst):
            lines.append(
                f"<li>{further:,} more {what if further > 1 else one} "
                f"{'differ' if further > 1 else 'differs'} beyond noise"
                + ("" if is_pairs else ': <a href="#classes">Class by class</a>')
                + ".</li>"
            )
        said = f'<ol>{"".join(lines)}</ol><p class="note">{note}</p>'
    else:
        said = (
            f"<p>No single {one} stands out from sampling noise among {count:,}.</p>"
            '<p class="note">More samples of each would show smaller faults.</p>'
        )
    return f'<div class="card answer" id="answer-where"><h2>Where not?</h2>{said}</div>'


def worst_classes(data: Mapping[str, Any]) -> list[int]:
    """The answers "class k" that are right more or less often than their mean confidence allows, worst first.

    Binomial test with Bonferroni's correction for K tests. Where confidences differ, the number of right answers varies
    less than the binomial of their mean, so the test names a class of a calibrated model too rarely, never too often.
    """
    from scipy.special import bdtr, bdtrc  # scipy.stats takes most of a second to import

    classes = data["variants"][0]["classes"]
    tail = (1 - data["level"]) / max(1, data["num_classes"])
    beyond = []
    for k, n in enumerate(classes["answered"]):
        if n:
            right, sure = classes["right"][k], min(1.0, classes["score_sum"][k] / n)
            at_least = bdtrc(right - 1, n, sure) if right else 1.0
            excess = abs(classes["score_sum"][k] - right)
            if excess >= LEAST_EXCESS and min(bdtr(right, n, sure), at_least) <= tail / 2:
                beyond.append((excess / n if data.get("pairs") else excess, k))  # groups by how far they are off
    return [k for _, k in sorted(beyond, key=lambda pair: (-pair[0], pair[1]))]


def _what_to_do(data: Mapping[str, Any]) -> str:
    alike = [] if data["binary"] else _similarity_advice(data)  # two classes have one way to be mistaken
    advice = [*_better_answers(data), *_calibration_advice(data), *_rule_advice(data), *alike]
    items = "".join(f"<li>{line}</li>" for line in advice)
    return f'<div class="card answer" id="answer-do"><h2>What to do</h2><ul>{items}</ul>{_code(data)}</div>'


def _better_answers(data: Mapping[str, Any]) -> list[str]:
    """What comes before calibration, if most answers are wrong."""
    measured = data["variants"][0]["metrics"].get("accuracy")
    if measured is None or from_number(measured["value"]) >= 0.5:
        return []
    return ["<strong>Improve its answers first</strong>: what follows makes confidence honest, not answers right."]


def _calibration_advice(data: Mapping[str, Any]) -> list[str]:
    if data.get("calibrated_by"):
        return [escaped(already(data["calibrated_by"], data["variants"][0]["verdict"]["kind"]), 400)]
    if _groups_differ(data):
        return [
            f"<strong>Fit a calibrator for each {named(data['groups']['column'], 40)}</strong>, on its rows alone: the "
            "groups differ in confidence − accuracy, so one temperature for all cannot suit each."
        ]
    after = _variant(data, "temperature")
    if after is None:
        return ["No calibrator was fitted: there are too few samples, or none was requested."]
    raw, temperature = data["variants"][0], from_number(after["temperature"])
    if data["binary"] and not data["pairs"]:
        return _binary_advice(data)
    before, then = (variant["metrics"]["ece_hist"]["value"] for variant in (raw, after))
    action = f"Divide the logits by {temperature:.3f}"
    if data["pairs"]:
        action = f"Divide the log-odds of the confidence by {temperature:.3f}"
    elif data["are_probabilities"]:
        action = f"Raise the probabilities to the power {1 / temperature:.3f} and rescale each row to sum to 1"
    unchanged = "" if data["pairs"] else ", answers unchanged"
    errors = f"calibration error (ECE) {number_pair(before, then)}"
    nll_before, nll_then = (_nll(variant) for variant in (raw, after))
    nlls = f"NLL {nll_before} → {nll_then}"
    if nll_before == "∞":
        nlls = f"NLL ∞ (a true class had the probability 0) → {nll_then}"
    nll_falls = _falls(after, "nll")
    name, advised = f"Temperature scaling (T = {temperature:.3f})", _best_variant(data) is after
    if _lowers(after):
        line = (
            f"<strong>Fit a temperature ({temperature:.2f})</strong>: calibration error {number_pair(before, then)}"
            f"{unchanged}. {action}."
        )
    elif nll_falls and _rises(after, "ece_hist"):
        line = (
            f"{name} lowers the NLL, {nlls.removeprefix('NLL ')}, but raises the calibration error (ECE), "
            f"{number_pair(before, then)}, cross-fitted in two folds."
        )
    elif _rises(after, "ece_hist") or _rises(after, "nll"):
        line = f"{name} makes it worse: {nlls}, {errors}, cross-fitted in two folds."
    elif nll_falls and nll_before == nll_then:
        line = f"{name} makes no difference that shows in three digits: {nlls}, {errors}."
    elif nll_falls:
        title = f"<strong>Fit a temperature ({temperature:.2f})</strong>:" if advised else f"{name} helps less:"
        how = f" {action}." if advised else ""
        line = f"{title} {nlls}{unchanged}; {errors}, which may be chance.{how}"
    else:
        samples = f"{data['num_samples']:,} samples"
        line = f"{name} makes no difference that {samples} can show: {nlls}, {errors}."
    best = _variant(data, "best")
    if best is None or not _beats(best, after):
        return [line]
    than = f"its NLL is {_nll(best)}, that of a temperature {nll_then}"
    many = f"(the best of {len(data['calibrators'])} on these samples; expect a little less)."
    if advised:
        still = " still" if _lowers(after) or nll_falls else ""
        return [line, f"{escaped(best['name'])} does better{still}: {than} {many}"]
    return [f"<strong>Fit {escaped(_inside(best['name']))}</strong>: {than} {many}", line]


def _nll(variant: Mapping[str, Any]) -> str:
    value = from_number(variant["metrics"]["nll"]["value"])
    return "∞" if math.isinf(value) else f"{value:.3f}"


def _inside(name: str) -> str:
    """A calibrator's name inside a sentence; one that is named after a person keeps its capital."""
    return name if name.startswith("Platt") else name[0].lower() + name[1:]


def _positive_errors(data: Mapping[str, Any]) -> dict[str, float]:
    """The calibration error of the probability of the positive class, as it is and after each calibrator."""
    return {variant["key"]: from_number(variant["positive"]["error"]["value"]) for variant in data["variants"]}


def _best_variant(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the page advises to fit, and draws: for a positive class the calibrator with the lowest error, else a
    temperature, unless only another calibrator is seen to help; None if none was fitted.
    """
    _, *others = data["variants"]
    if not others:
        return None
    if data.get("binary") is None or data["pairs"]:
        temperature, best = (_variant(data, key) for key in ("temperature", "best"))
        if temperature is None or (best is not None and not _lowers(temperature) and _beats(best, temperature)):
            return best
        return temperature
    errors = _positive_errors(data)
    lowest: Mapping[str, Any] = min(others, key=lambda variant: errors[variant["key"]])
    return lowest


def _lowers(variant: Mapping[str, Any]) -> bool:
    """Whether a calibrator lowers the calibration error beyond chance."""
    return _falls(variant, "ece_hist")


def _falls(variant: Mapping[str, Any], metric: str) -> bool:
    """Whether a calibrator lowers a metric beyond chance; an NLL that was infinite needs no test."""
    moved = variant["against_raw"][metric]
    return from_number(moved["high"]) < 0 or from_number(moved["difference"]) == -math.inf


def _rises(variant: Mapping[str, Any], metric: str) -> bool:
    return from_number(variant["against_raw"][metric]["low"]) > 0


def _beats(best: Mapping[str, Any], temperature: Mapping[str, Any]) -> bool:
    """Whether the best calibrator is better than a temperature in NLL, beyond chance and in the digits shown."""
    if "against_temperature" not in best or _nll(best) == _nll(temperature):
        return False
    return from_number(best["against_temperature"]["nll"]["high"]) < 0


def _binary_advice(data: Mapping[str, Any]) -> list[str]:
    """What calibrators do to the probability of the positive class, which a temperature need not repair."""
    raw, *others = data["variants"]
    name = named(data["binary"]["positive"], 40)
    errors = _positive_errors(data)
    error = raw["positive"]["error"]
    best = min(others, key=lambda variant: errors[variant["key"]])
    if from_number(error.get("low", 0.0)) <= 0:  # its test does not reject calibration
        chance = f" (chance alone: {percent(error['when_calibrated']['value'])})" if "when_calibrated" in error else ""
        return [
            f"The probability of {name} needs no calibrator, as far as {data['num_samples']:,} samples show: "
            f"its error is {percent(errors['raw'])}{chance}."
        ]
    if errors[best["key"]] > 0.9 * errors["raw"]:
        return [
            f"No calibrator that was tried improves the probability of {name}: its error is {percent(errors['raw'])}, "
            f"at best {percent(errors[best['key']])} after one."
        ]
    says = f"calibration error {number_pair(errors['raw'], errors[best['key']])} of the probability of {name}"
    lines = [f"<strong>Fit {escaped(_inside(best['name']))}</strong>: {says}, cross-fitted in two folds."]
    worse = [v for v in others if v is not best and errors[v["key"]] > errors["raw"]]
    lines += [
        f"{escaped(v['name'])} does not repair it: {number_pair(errors['raw'], errors[v['key']])}." for v in worse
    ]
    return lines


def _rule_advice(data: Mapping[str, Any]) -> list[str]:
    """The effect of a certified threshold on the confidence; where groups differ, of one for each."""
    if _groups_differ(data):
        return _rules_of_groups(data["groups"])
    certified = data["variants"][0]["abstention"]
    if certified is None:
        return []
    asked = data["abstain"]
    limit = f"at most {100 * asked['target']:g}\u202f% wrong, with {100 * asked['confidence']:g}\u202f% confidence"
    rule = certified["rule"]
    if rule is None:
        least = certified["least"]
        from_ = "" if least is None else f" The least whole percent that one keeps is {100 * least:g}\u202f%."
        return [f"No threshold on the confidence passes the test of {limit}.{from_}"]
    unknown = [seen for seen in data["unknown"] if seen["answered"] is not None]
    beside = "".join(
        f" Of {seen['num_samples']:,} samples of none of the classes ({named(seen['name'], 40)}) "
        f"{percent(seen['answered'] / seen['num_samples'])} would be answered too."
        for seen in unknown
    )
    return [
        f"Or answer only above {sentence(thresholds.in_percent(rule['threshold']))} confidence and pass the rest on: "
        f"{100 * rule['coverage']:.1f}\u202f% are "
        f'answered, {limit} (<a href="#abstain">curve</a>).{beside}'
    ]


def _groups_differ(data: Mapping[str, Any]) -> bool:
    """Whether pairs are of groups whose confidence is wrong by different amounts, beyond chance."""
    seen = data.get("groups")
    if not seen or not data["pairs"] or seen["gaps_differ"] is None:
        return False
    return bool(seen["gaps_differ"] <= 1 - seen["level"])


def _rules_of_groups(seen: Mapping[str, Any]) -> list[str]:
    asked = [row for row in seen["rows"] if "threshold" in row]
    if not asked:
        return []
    first = asked[0]["threshold"]
    limit = f"at most {100 * first['risk']:g}\u202f% wrong, with {100 * first['confidence']:g}\u202f% confidence"
    found = [(row["name"], row["threshold"]["chosen"]) for row in asked if row["threshold"]["chosen"] is not None]
    if not found:
        return [f"In no group does a threshold on the confidence pass the test of {limit}."]
    most = sorted(found, key=lambda pair: -pair[1]["coverage"])[:WORST]
    each = ", ".join(
        f"{named(name, 40)} above {sentence(thresholds.in_percent(rule['threshold']))} "
        f"({100 * rule['coverage']:.1f}\u202f% answered)"
        for name, rule in most
    )
    more = f" and {len(found) - len(most)} more" if len(found) > len(most) else ""
    left = len(asked) - len(found)
    none = f" {'The other group has' if left == 1 else f'The other {left} have'} no such threshold." if left else ""
    return [f'Or answer only where a <a href="#groups">group</a> allows it: {each}{more}; {limit} in each.{none}']


def _similarity_advice(data: Mapping[str, Any]) -> list[str]:
    """Whether labels based on class similarity could help."""
    alike = data["similarity"]
    if alike is not None and (not alike["mistakes"]["wrong"] or alike["mistakes"]["chance"] == 1):
        return []  # no mistake to explain, or one other class only
    if alike is None:
        return [
            "Class similarity was not examined: with <code>--distances</code> the page shows whether mistakes stay "
            "among similar classes."
        ]
    near = alike["mistakes"]
    share = near["near"] / near["wrong"]
    nearest = near["nearest"]
    where = "are the class" if nearest == 1 else f"are among the {nearest} classes"
    says = f"{100 * share:.0f}\u202f% of the wrong answers {where} most like the true one"
    chance = f"(by chance {100 * near['chance']:.0f}\u202f%)"
    low, _ = intervals.wilson(share, near["wrong"], data["level"])
    if low > near["chance"]:
        return [
            f"{says} {chance}: training with class-similarity labels puts α there instead of spreading it over all "
            "classes."
        ]
    return [f"{says} {chance}: these distances do not explain the mistakes, so similarity labels promise little."]


def _calibrator(data: Mapping[str, Any]) -> str:
    """What the page advises to fit, as Python."""
    best = _best_variant(data)
    code = "TemperatureScaling()" if best is None else str(best["code"])
    known = {made.__name__ for made in REGISTRY.values()}
    return code if code.partition("(")[0] in known else "TemperatureScaling()"


def _code(data: Mapping[str, Any]) -> str:
    if data.get("calibrated_by"):
        return ""
    scores = "probabilities" if data["are_probabilities"] else "logits"
    option = ", from_probabilities=True" if data["are_probabilities"] else ""
    code = _calibrator(data)
    held_out, file, calibrated = _files(data)
    python = (
        "from softkin import calibrators, predictions\n\n"
        f'val = predictions.load("{held_out}")  # not the samples you report on\n'
        f"cal = calibrators.{code}\n"
        f"cal.fit(val.{scores}, val.labels{option})\n"
        f"P = cal.predict_proba({scores}{option})"
    )
    if data.get("pairs"):
        python = (
            "from softkin import calibrators, predictions\n\n"
            f'val = predictions.load("{held_out}")  # not the pairs you report on\n'
            "confidence, correct, _ = val.arrays()\n"
            f"cal = calibrators.{code}.fit(confidence, correct, from_probabilities=True)\n"
            "calibrated = cal.predict_proba(others, from_probabilities=True)"
        )
    if _groups_differ(data):
        python = (
            "from softkin import calibrators\n\n"
            "# confidence, correct, groups: arrays of held-out pairs, not of those you report on\n"
            "cal = {}\n"
            "for group in set(groups):\n"
            "    mine = groups == group\n"
            f"    cal[group] = calibrators.{code}\n"
            "    cal[group].fit(confidence[mine], correct[mine], from_probabilities=True)"
        )
        return _folded("In Python", python)
    shell = (  # which one is best is chosen on the held-out rows, not on those of the page
        f"softkin calibrate fit {held_out} --output cal/\nsoftkin calibrate apply cal/ {file} --output {calibrated}"
    )
    return _folded("In Python", python) + _folded("In the shell", shell)


def _files(data: Mapping[str, Any]) -> tuple[str, str, str]:
    """Held-out predictions, those that the page shows, and calibrated ones, all of the kind that was measured."""
    source, usual = data.get("source"), ".csv" if data.get("pairs") else ".npz"
    of_source = "" if source is None else tables.suffix_of(source)
    is_table = source is not None and tables.form_of(source) is not None
    kind = of_source if is_table or of_source == ".safetensors" else usual
    written = kind if kind in WRITTEN else ".csv"
    return f"validation{kind}", f"test{kind}" if source is None else shlex.quote(source), f"calibrated{written}"


WRITTEN = (".npz", ".safetensors", ".csv", ".tsv")  # what `softkin calibrate apply` writes


def _folded(title: str, code: str) -> str:
    return f'<details class="code"><summary>{title}</summary><pre><code>{escaped(code, 4000)}</code></pre></details>'


def _numbers(data: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    """The numbers of the cards as a table, for browsers without JavaScript; the script draws the cards instead."""
    rows = []
    for metric in data["metrics"]:
        measured = raw["metrics"].get(metric["key"])
        if measured is None or "card" not in metric["shown"]:
            continue
        value, low, high = (metric_text(metric, measured.get(part)) for part in ("value", "low", "high"))
        chance = metric_text(metric, measured["when_calibrated"]["value"]) if "when_calibrated" in measured else ""
        between = f"{low} to {high}" if "low" in measured else ""
        rows.append(
            f'<tr><th scope="row">{escaped(metric["name"])}</th><td>{value}</td><td>{between}</td>'
            f"<td>{chance}</td></tr>"
        )
    return (
        '<div class="scroll no-script"><table><caption>The model as it is, with '
        f'{100 * data["level"]:g} % intervals</caption><thead><tr><th scope="col">metric</th><th scope="col">value</th>'
        '<th scope="col">interval</th><th scope="col">if calibrated, chance alone</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _variant(data: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    return next((variant for variant in data["variants"] if variant["key"] == key), None)
