"""The first screen as plain HTML, readable without JavaScript: whether to trust the model, where not, and what to do.

All texts that come from outside pass through ``_text``, which cleans and escapes them.
"""

import html
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softkin._io.files import from_number
from softkin.calibrators import REGISTRY
from softkin.metrics import intervals
from softkin.metrics.binning import ReliabilityCurve
from softkin.report import curves
from softkin.report.data import Cells

FEW = 10  # scores in a bin; a bin with fewer is drawn as a point, not as a bar
LEAST_EXCESS = 2  # answers too many or too few: one mistake of a sure class is no pattern
WORST = 5  # classes to list
CONFUSED = 2  # true classes of the wrong answers to list
FEWEST = 3  # a confusion that happened less often is not worth a line
NAMED = 4  # methods to list in a sentence
_UNSAFE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def header(data: Mapping[str, Any]) -> str:
    """The line above the headline: the name, and how many samples and classes there are."""
    facts = [f"{data[f'num_{what}']:,} {what}" for what in ("samples", "classes") if data.get(f"num_{what}", 0) > 1]
    if data["kind"] == "model" and data["pairs"]:
        groups = data["num_classes"] - 1
        facts = [
            f"{data['num_samples']:,} pairs of a confidence and an outcome",
            *([_count(groups, "group")] * (groups > 1)),
        ]
    if data["kind"] == "comparison" and data["subject"] == "labels":
        facts = [f"{data['num_samples']:,} samples", f"{data['num_classes']:,} labels each"]
    elif data["kind"] == "comparison":
        seeds, count = len(data["seeds"]), f"{len(data['methods'])} {data['subject']}"
        own = [] if data["name"].startswith(count) else [count]
        facts = [*own, *([_count(seeds, "seed")] if seeds else []), *facts]
    elif data.get("source") and data["source"] != data["name"]:
        facts.append(_name(data["source"], 80))
    if data.get("sampled") and data["sampled"]["rows"] < data["sampled"]["of"]:
        facts.append(f"drawn at random from {data['sampled']['of']:,}")
    return f'<p class="eyebrow">{_name(data["name"], 120)}' + "".join(f"<span>{fact}</span>" for fact in facts) + "</p>"


def first_screen(data: Mapping[str, Any]) -> str:
    """The first screen of this kind of page."""
    return FIRST_SCREENS[data["kind"]](data)


# One model


def _of_model(data: Mapping[str, Any]) -> str:
    raw = data["variants"][0]
    verdict = raw["verdict"]
    if data["binary"] and not data["pairs"]:
        # Of a binary model the probability of the positive class matters, the confidence of the answer comes second.
        verdict = {**verdict, **data["binary"]}
        verdict["detail"] += f" As answers: {raw['verdict']['detail'][0].lower()}{raw['verdict']['detail'][1:]}"
    return (
        '<section class="hero" id="answers" aria-labelledby="headline">'
        f"{_doubts(verdict)}"
        f'<h1 id="headline" class="{verdict["kind"]}">{_sentence(verdict["headline"])}</h1>'
        f'<p class="lead">{_sentence(verdict["detail"])}{_mostly_wrong(raw)}{_by_group(data)}</p>'
        f"{_sampling(data)}"
        f'<div class="answers">{_trust(data)}{_told_apart(data) or _where(data)}{_what_to_do(data)}</div>'
        f"{_numbers(data, raw)}</section>"
    )


def _sampling(data: Mapping[str, Any]) -> str:
    if not data.get("sampled"):
        return ""
    rows, of = data["sampled"]["rows"], data["sampled"]["of"]
    whole = "The numbers of the cards are those of all." if data["kind"] == "model" else "So are the numbers."
    some = f"{rows:,} of the {of:,} samples, drawn at random" if rows < of else f"{of:,} samples"
    if "images" in data["sampled"]:
        some = some.replace("samples", f"pixels of {data['sampled']['images']:,} images")
        whole = (
            "The numbers of the cards have intervals over images. Everything else takes pixels as independent, which "
            "those of one image are not: thresholds and sets promise too much."
        )
    return f'<p class="note sampling">Charts, classes, calibrators and thresholds are those of {some}. {whole}</p>'


def _mostly_wrong(raw: Mapping[str, Any]) -> str:
    """What calibration cannot repair."""
    measured = raw["metrics"].get("accuracy")
    if measured is None or from_number(measured["value"]) >= 0.5:
        return ""
    return " Most of its answers are wrong, whatever their confidence: calibration does not change that."


def _by_group(data: Mapping[str, Any]) -> str:
    """The group whose gap is the largest of those beyond chance; groups of pairs have an answer of their own."""
    seen = data.get("groups")
    if not seen or data["pairs"]:
        return ""
    far = [row for row in seen["rows"] if from_number(row["gap"]["low"]) > 0 or from_number(row["gap"]["high"]) < 0]
    by = f'<a href="#groups">By {_text(seen["column"], 40)}</a>'
    if not far:
        return f" {by}, no group is seen to claim too much or too little."
    sure, right = (_percent(far[0][part]) for part in ("sure", "right"))
    return f" {by}, {_name(far[0]['name'], 40)} is furthest off: {sure} sure and {right} right."


def _doubts(verdict: Mapping[str, Any], name: str = "") -> str:
    """What cannot be right about the file, before anything else is said."""
    return "".join(f'<p class="doubt" role="alert">{name}{_sentence(doubt)}</p>' for doubt in verdict["doubts"])


def _trust(data: Mapping[str, Any]) -> str:
    raw, after = data["variants"][0], _best_variant(data)
    n_bins = data["n_bins"] if data["n_bins"] in curves.BINS else 15

    binary = data["binary"] if not data["pairs"] else None

    def parts(variant: Mapping[str, Any]) -> tuple[Cells, str]:
        ece = variant["positive"]["error"] if binary else variant["metrics"]["ece_hist"]
        cells = variant["positive"]["cells"] if binary else variant["prediction"]
        chance = f" (chance alone: {_percent(ece['when_calibrated']['value'])})" if "when_calibrated" in ece else ""
        return cells, f"calibration error (ECE) {_percent(ece['value'])}{chance}"

    def figure(variant: Mapping[str, Any], then: Mapping[str, Any] | None) -> str:
        axis = f"probability of {binary['positive']}" if binary else "confidence"
        cells, words = parts(variant)
        later, after_words = (None, "") if then is None else parts(then)
        drawn = reliability_svg(cells, n_bins, "As it is", axis, later)
        line = "" if then is None else f"<strong>◆ After {_text(_inside(then['name']), 60)}</strong> {after_words}"
        return f"<figure>{drawn}<figcaption><strong>▮ As it is</strong> {words}{line}</figcaption></figure>"

    says = (
        "Each bar shows how often answers with that confidence are right. On the dashed line both are equal."
        if binary is None
        else f"Each bar shows how many samples with that probability are {_name(binary['positive'], 40)}."
    )
    figures = figure(raw, after)
    return (
        '<div class="card answer" id="answer-trust"><h2>Can I trust it?</h2>'
        f'{figures}<p class="note">{says} The hatched part is the gap.</p></div>'
    )


def _drawn_over(curve: ReliabilityCurve, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    """The line of a calibrator, a diamond for each bin."""
    bins = zip(curve.count.tolist(), curve.confidence.tolist(), curve.likelihood.tolist(), strict=True)
    spots = [(x(claimed), y(share)) for count, claimed, share in bins if count >= FEW]
    line = " ".join(f"{at},{up}" for at, up in spots)
    diamonds = [f'<path class="after-mark" d="M{at} {round(up - 4, 2)}l4 4l-4 4l-4 -4Z"/>' for at, up in spots]
    return [f'<polyline class="after-line" points="{line}"/>', *diamonds]


def _told_apart(data: Mapping[str, Any]) -> str:
    """Of a binary model: how well it ranks, and what a threshold of 50 % and a certified one catch."""
    if not data["binary"] or data["pairs"]:
        return ""
    binary, positive = data["binary"], data["variants"][0]["positive"]
    name = _name(binary["positive"], 40)
    lines = []
    if positive["auroc"] is not None:
        lines.append(
            f"In {_percent(positive['auroc'])} of pairs of {name} and another it scores {name} higher (AUROC)."
        )
    half = max((place for place, t in enumerate(positive["threshold"]) if t >= 0.5), default=None)
    if half is not None and binary["positives"]:
        alarms, caught = positive["alarms"][half], positive["caught"][half]
        lines.append(
            f"From 50\u202f% on it catches {_percent(caught / binary['positives'])} of {name}, and "
            f"{_percent(caught / alarms)} of its {_count(alarms, 'alarm')} are right."
        )
    kept = next((one for one in reversed(positive["certified"]) if one["rule"] is not None), None)
    if kept is not None:
        rule = kept["rule"]
        lines.append(
            f"Certified: from {_percent(rule['threshold'])} on, at most {100 * kept['target']:g}\u202f% of the alarms "
            f"are false, with {100 * data['abstain']['confidence']:g}\u202f% confidence "
            f"({_count(rule['answered'], 'alarm')})."
        )
    items = "".join(f"<li>{line}</li>" for line in lines)
    return (
        f'<div class="card answer" id="answer-where"><h2>Does it tell them apart?</h2><ul>{items}</ul>'
        '<p><a href="#cut">Threshold, counts and costs</a></p></div>'
    )


def _where(data: Mapping[str, Any]) -> str:
    if data.get("pairs") and data["num_classes"] == 2:
        return ""
    is_pairs = data.get("pairs", False)
    one, what, count = (
        ("group", "groups", data["num_classes"] - 1) if is_pairs else ("class", "classes", data["num_classes"])
    )
    worst = worst_classes(data)
    classes = data["variants"][0]["classes"]
    lines = []
    for k in worst:
        n = classes["answered"][k]
        right, sure = classes["right"][k] / n, classes["score_sum"][k] / n
        kind = "over" if sure > right else "under"
        mixed = [] if is_pairs else [(other, n) for other, n in classes["truly"][k][:CONFUSED] if n >= FEWEST]
        others = ", ".join(f"{_name(data['class_names'][other], 30)} {count}×" for other, count in mixed)
        wrong = n - classes["right"][k]
        truly = f" When wrong ({wrong:,} of {n:,}), mostly {others}." if mixed else ""
        lines.append(
            f'<li><a href="#class={_address(data["class_names"][k])}">{_name(data["class_names"][k], 40)}</a>: '
            f'<span class="{kind}-text">{_percent(sure)} sure, {_percent(right)} right</span> '
            f'<span class="note">{truly.strip() or _count(n, "answer") + "."}</span></li>'
        )
    if lines:
        note = (
            f"{what.capitalize()} whose accuracy differs from their confidence by more than sampling noise explains, "
            f"corrected for testing all {count:,}. The one that adds most to the error comes first."
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
                beyond.append((excess, k))
    return [k for _, k in sorted(beyond, key=lambda pair: (-pair[0], pair[1]))[:WORST]]


def _what_to_do(data: Mapping[str, Any]) -> str:
    alike = [] if data["binary"] else _similarity_advice(data)  # two classes have one way to be mistaken
    advice = [*_calibration_advice(data), *_rule_advice(data), *alike]
    items = "".join(f"<li>{line}</li>" for line in advice)
    return f'<div class="card answer" id="answer-do"><h2>What to do</h2><ul>{items}</ul>{_code(data)}</div>'


def _calibration_advice(data: Mapping[str, Any]) -> list[str]:
    after = _variant(data, "temperature")
    if after is None:
        return ["No calibrator was fitted: there are too few samples, or none was requested."]
    raw, temperature = data["variants"][0], from_number(after["temperature"])
    if data["binary"] and not data["pairs"]:
        return _binary_advice(data)
    before, then = (variant["metrics"]["ece_hist"]["value"] for variant in (raw, after))
    moved = after["against_raw"]["ece_hist"]
    action = f"Divide the logits by {temperature:.3f}"
    if data["pairs"]:
        action = f"Divide the log-odds of the confidence by {temperature:.3f}"
    elif data["are_probabilities"]:
        action = f"Raise the probabilities to the power {1 / temperature:.3f} and rescale each row to sum to 1"
    unchanged = "" if data["pairs"] else ", answers unchanged"
    lines = []
    if _lowers(after):
        lines.append(
            f"<strong>Fit a temperature ({temperature:.2f})</strong>: calibration error {_number_pair(before, then)}"
            f"{unchanged}. {action}."
        )
    elif from_number(moved["low"]) > 0:
        lines.append(
            f"Temperature scaling makes it worse: calibration error (ECE) {_number_pair(before, then)}, cross-fitted."
        )
    else:
        lines.append(
            f"Temperature scaling (T = {temperature:.3f}) makes no difference that "
            f"{data['num_samples']:,} samples can show."
        )
    best = _variant(data, "best")
    if best is not None and _beats(best):
        nlls = [f"{from_number(variant['metrics']['nll']['value']):.3f}" for variant in (after, best)]
        if nlls[0] != nlls[1]:  # a difference that does not show is not worth another calibrator
            lines.append(
                f"{_text(best['name'])} does better{' still' if _lowers(after) else ''}: NLL {nlls[0]} → {nlls[1]} "
                f"(the best of {len(data['calibrators'])} on these samples; expect a little less)."
            )
    return lines


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
        if temperature is None or (best is not None and not _lowers(temperature) and _beats(best)):
            return best
        return temperature
    errors = _positive_errors(data)
    lowest: Mapping[str, Any] = min(others, key=lambda variant: errors[variant["key"]])
    return lowest


def _lowers(variant: Mapping[str, Any]) -> bool:
    """Whether a calibrator lowers the calibration error beyond chance."""
    return from_number(variant["against_raw"]["ece_hist"]["high"]) < 0


def _beats(best: Mapping[str, Any]) -> bool:
    """Whether the best calibrator is better than a temperature in NLL beyond chance."""
    return "against_temperature" in best and from_number(best["against_temperature"]["nll"]["high"]) < 0


def _binary_advice(data: Mapping[str, Any]) -> list[str]:
    """What calibrators do to the probability of the positive class, which a temperature need not repair."""
    raw, *others = data["variants"]
    name = _name(data["binary"]["positive"], 40)
    errors = _positive_errors(data)
    chance = from_number(raw["positive"]["error"].get("when_calibrated", {"value": 0.0})["value"])
    best = min(others, key=lambda variant: errors[variant["key"]])
    if errors["raw"] <= 2 * chance or errors[best["key"]] > 0.9 * errors["raw"]:
        return [
            f"No calibrator that was tried improves the probability of {name}: its error is {_percent(errors['raw'])} "
            f"(chance alone: {_percent(chance)}), at best {_percent(errors[best['key']])} after one."
        ]
    says = f"calibration error of the probability of {name} {_number_pair(errors['raw'], errors[best['key']])}"
    lines = [f"<strong>Fit {_text(_inside(best['name']))}</strong>: {says}, cross-fitted."]
    worse = [v for v in others if v is not best and errors[v["key"]] > errors["raw"]]
    lines += [f"{_text(v['name'])} does not repair it: {_number_pair(errors['raw'], errors[v['key']])}." for v in worse]
    return lines


def _rule_advice(data: Mapping[str, Any]) -> list[str]:
    """The effect of a certified threshold on the confidence."""
    certified = data["variants"][0]["abstention"]
    if certified is None:
        return []
    asked = data["abstain"]
    limit = f"at most {100 * asked['target']:g}\u202f% wrong, with {100 * asked['confidence']:g}\u202f% confidence"
    rule = certified["rule"]
    if rule is None:
        return [f"No threshold on the confidence keeps {limit}."]
    unknown = [seen for seen in data["unknown"] if seen["answered"] is not None]
    beside = "".join(
        f" Of {seen['num_samples']:,} samples of none of the classes ({_name(seen['name'], 40)}) "
        f"{_percent(seen['answered'] / seen['num_samples'])} would be answered too."
        for seen in unknown
    )
    return [
        f"Or answer only above {100 * rule['threshold']:.1f}\u202f% confidence and pass the rest on: "
        f"{100 * rule['coverage']:.1f}\u202f% are "
        f'answered, {limit} (<a href="#abstain">curve</a>).{beside}'
    ]


def _classes(count: int) -> str:
    """A number of classes in words."""
    return "class" if count == 1 else f"{count} classes"


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
    nearest = _classes(near["nearest"])
    says = f"{100 * share:.0f}\u202f% of the wrong answers are among the {nearest} most like the true one"
    chance = f"(by chance {100 * near['chance']:.0f}\u202f%)"
    low, _ = intervals.wilson(share, near["wrong"], data["level"])
    if low > near["chance"]:
        return [
            f"{says} {chance}: training with class-similarity labels puts α there instead of spreading it over all "
            "classes."
        ]
    return [f"{says} {chance}: these distances do not explain the mistakes, so similarity labels promise little."]


def _calibrator(data: Mapping[str, Any]) -> tuple[str, str]:
    """What the page advises to fit, as Python and as the command's name of it."""
    best = _best_variant(data)
    code = "TemperatureScaling()" if best is None else str(best["code"])
    known = {made.__name__: name for name, made in REGISTRY.items()}
    made = code.partition("(")[0]
    return (code, known[made]) if made in known else ("TemperatureScaling()", "temperature")


def _code(data: Mapping[str, Any]) -> str:
    scores = "probabilities" if data["are_probabilities"] else "logits"
    option = ", from_probabilities=True" if data["are_probabilities"] else ""
    code, method = _calibrator(data)
    python = (
        "from softkin import calibrators, predictions\n\n"
        'val = predictions.load("validation.npz")  # not the samples you report on\n'
        f"cal = calibrators.{code}\n"
        f"cal.fit(val.{scores}, val.labels{option})\n"
        f"P = cal.predict_proba({scores}{option})"
    )
    kind = "csv" if data.get("pairs") else "npz"
    if data.get("pairs"):
        python = (
            "from softkin import calibrators, predictions\n\n"
            'val = predictions.load("validation.csv")  # not the pairs you report on\n'
            "confidence, correct, _ = val.arrays()\n"
            f"cal = calibrators.{code}.fit(confidence, correct, from_probabilities=True)\n"
            "calibrated = cal.predict_proba(others, from_probabilities=True)"
        )
    file = shlex.quote(data["source"]) if data.get("source") else f"test.{kind}"
    shell = (
        f"softkin calibrate fit validation.{kind} --method {method} --output cal/\n"
        f"softkin calibrate apply cal/ {file} --output calibrated.{kind}"
    )
    return (
        f'<details class="code"><summary>In Python</summary><pre><code>{_text(python, 4000)}</code></pre></details>'
        f'<details class="code"><summary>In the shell</summary><pre><code>{_text(shell, 4000)}</code></pre></details>'
    )


def _numbers(data: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    """The numbers of the cards as a table, for browsers without JavaScript; the script draws the cards instead."""
    rows = []
    for metric in data["metrics"]:
        measured = raw["metrics"].get(metric["key"])
        if measured is None or "card" not in metric["shown"]:
            continue
        value, low, high = (_metric_text(metric, measured.get(part)) for part in ("value", "low", "high"))
        chance = _metric_text(metric, measured["when_calibrated"]["value"]) if "when_calibrated" in measured else ""
        between = f"{low} to {high}" if "low" in measured else ""
        rows.append(
            f'<tr><th scope="row">{_text(metric["name"])}</th><td>{value}</td><td>{between}</td><td>{chance}</td></tr>'
        )
    return (
        '<div class="scroll no-script"><table><caption>The model as it is, with '
        f'{100 * data["level"]:g} % intervals</caption><thead><tr><th scope="col">metric</th><th scope="col">value</th>'
        '<th scope="col">interval</th><th scope="col">if calibrated, chance alone</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def reliability_svg(cells: Cells, n_bins: int, name: str, axis: str = "confidence", after: Cells | None = None) -> str:
    """A reliability diagram, made from the cells; a bin with fewer than 10 scores is a point.

    With the cells of a calibrator, its curve is drawn over the bars.
    """
    width, height, left, base, top = 360, 262, 34, 226, 10
    curve = curves.of_cells(cells, n_bins)
    total = sum(cells["count"])

    def x(value: float) -> float:
        return round(left + value * (width - left - 14), 2)

    def y(value: float) -> float:
        return round(base - value * (base - top), 2)

    marks = []
    for m, count in enumerate(curve.count.tolist()):
        if not count:
            continue
        share, claimed = float(curve.likelihood[m]), float(curve.confidence[m])
        if count < FEW:
            marks.append(f'<circle class="few-point" cx="{x(claimed)}" cy="{y(share)}" r="2.4"/>')
            continue
        x0, span = x(m / n_bins), round(x((m + 1) / n_bins) - x(m / n_bins) - 0.8, 2)
        kind = "over" if claimed > share else "under"
        high, low = max(share, claimed), min(share, claimed)
        marks.append(
            f'<rect class="bar" x="{x0}" width="{span}" y="{y(share)}" height="{round(base - y(share), 2)}"/>'
            f'<rect class="gap {kind}" x="{x0}" width="{span}" y="{y(high)}" height="{round(y(low) - y(high), 2)}"/>'
        )
    marks += [] if after is None else _drawn_over(curves.of_cells(after, n_bins), x, y)
    ticks = "".join(
        f'<text x="{x(v)}" y="{base + 14}" text-anchor="middle">{100 * v:.0f}</text>'
        f'<text x="{left - 5}" y="{y(v) + 4}" text-anchor="end">{100 * v:.0f}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    )
    label = (
        f"Reliability of {total:,} answers, {name[0].lower()}{name[1:]}: share that comes true by {axis}, in percent"
    )
    return (
        f'<svg class="small-chart" viewBox="0 0 {width} {height}" role="img" aria-label="{_text(label)}">'
        f'<line class="axis" x1="{left}" x2="{width - 14}" y1="{base}" y2="{base}"/>{"".join(marks)}'
        f'<line class="diagonal" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>{ticks}'
        f'<text class="title" x="{(left + width - 14) / 2}" y="{height - 2}" text-anchor="middle">'
        f"{_text(axis, 28)}, %</text>"
        "</svg>"
    )


# A study, or several models


def _of_comparison(data: Mapping[str, Any]) -> str:
    if data.get("overview"):
        return _of_overview(data)
    lines = (_sentence(line, 600) for line in data["recommendation"])
    advice = "".join(re.sub(r"<p>(Use [^:<]{1,80}):", r"<p><strong>\1</strong>:", f"<p>{line}</p>") for line in lines)
    source = f'<p class="note">{_name(data["source"], 300)}</p>' if data.get("source") else ""
    items = "".join(f"<li>{line}</li>" for line in findings(data))
    return (
        f'<section class="hero" id="answers" aria-labelledby="headline">{_all_doubts(data)}'
        + (f'<div class="lead recommendation" id="recommendation">{advice}</div>' if advice else "")
        + f'<h1 id="headline" class="calm-title">{headline(data)}</h1>{source}'
        + (f'<ul class="findings">{items}</ul>' if items else "")
        + f"{_verdicts(data)}{_table(data)}</section>"
    )


def _all_doubts(data: Mapping[str, Any]) -> str:
    verdicts = data.get("verdicts") or {}
    return "".join(
        _doubts(verdicts[method["key"]], f"{_name(method['name'], 80)}: ")
        for method in data["methods"]
        if method["key"] in verdicts
    )


def _of_overview(data: Mapping[str, Any]) -> str:
    """Headline, one picture of all rows, and what to do; the script draws the picture, and a table stands in for it."""
    seen = data["overview"]
    story = "".join(f"<p>{_sentence(line, 600)}</p>" for line in data["recommendation"])
    told = f'<details class="numbers story"><summary>How this was decided</summary>{story}</details>' if story else ""
    source = f'<p class="note">{_name(data["source"], 300)}</p>' if data.get("source") else ""
    return (
        f'<section class="hero" id="answers" aria-labelledby="headline">{_all_doubts(data)}'
        f'<h1 id="headline" class="calm-title {seen["kind"]}">{_text(seen["headline"], 400)}</h1>'
        f'<p class="lead wide">{_sentence(seen["detail"], 900)}</p>{_sampling(data)}'
        f'<div class="overview"><div id="overview">{_overview_table(data)}</div>'
        f'<div class="choices">{"".join(map(_choice, seen["choices"]))}</div></div>{told}{source}'
        f"{_table(data)}</section>"
    )


def _choice(choice: Mapping[str, Any]) -> str:
    mark = '<p class="mark-recommended">★ Recommended</p>' if choice["kind"] == "recommended" else ""
    code = ""
    if choice["code"]:
        lines = f"<pre><code>{_text(choice['code'], 2000)}</code></pre>"
        code = f'<details class="code"><summary>In the shell</summary>{lines}</details>'
    return (
        f'<div class="card choice-card {choice["kind"]}">{mark}<h2>{_text(choice["title"], 200)}</h2>'
        f"<p>{_sentence(choice['text'], 500)}</p>{code}</div>"
    )


def _overview_table(data: Mapping[str, Any]) -> str:
    """The numbers of the picture, for browsers without JavaScript."""
    names = {method["key"]: _name(method["name"], 60) for method in data["methods"]}
    rows = "".join(
        f'<tr><th scope="row">{names[row["method"]]}</th><td>{_percent(row["right"])}</td>'
        f"<td>{_percent(row['sure'])}</td>"
        f"<td>{_percent(row['error'])}</td><td>{'–' if row['chance'] is None else _percent(row['chance'])}</td></tr>"
        for group in data["overview"]["groups"]
        for row in group["rows"]
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("method", "right", "sure", "calibration error", "chance alone")
    )
    return f'<div class="scroll no-script"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def leader(data: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """The best method by a metric, the methods not significantly worse, and whether the others are.

    ``proved`` needs a p-value for each of the others: without them, as with a single seed, no method is ahead.
    """
    rows = [row for row in data["table"]["rows"] if key in row["cells"]]
    best = next((row for row in rows if row["cells"][key].get("best")), None)
    if best is None:
        return None
    level = [row["method"] for row in rows if row is not best and row["cells"][key].get("tie")]
    others = [row["cells"][key] for row in rows if row is not best and not row["cells"][key].get("tie")]
    proved = bool(others) and all(cell.get("p_value") is not None for cell in others)
    return {"best": best["method"], "level": level, "proved": proved}


ONE_HOT = "one-hot"
PROVED = 0.05


def against(cell: Mapping[str, Any]) -> dict[str, Any] | None:
    """A method's difference to one-hot training, and whether it is more than chance; None without one."""
    difference = (cell.get("against") or {}).get(ONE_HOT)
    if difference is None:
        return None
    return {"value": from_number(difference["value"]), "proved": difference["p_value"] <= PROVED}


def headline(data: Mapping[str, Any]) -> str:
    """The result in a few words: which method is best calibrated, if the data show one."""
    lead = leader(data, "ece_hist")
    names = _short(data)
    if lead is None:
        return _name(data["name"], 120)
    compared = [against(row["cells"]["ece_hist"]) for row in data["table"]["rows"] if "ece_hist" in row["cells"]]
    better = sum(one is not None and one["proved"] and one["value"] < 0 for one in compared)
    if better:
        rest = len(data["methods"]) - 1
        many = "the only other method is" if rest == 1 else f"{better} of {rest} other methods are"
        first = "" if rest == 1 or lead["best"] == ONE_HOT else f"; lowest ECE: {names[lead['best']]}"
        return f"{many[0].upper()}{many[1:]} better calibrated than one-hot{first}"
    if len(lead["level"]) + 1 == len(data["methods"]):
        return f"No difference in calibration found between these {data['subject']}"
    if len(lead["level"]) > 2:
        ahead = f"{len(lead['level']) + 1} {data['subject']}"
        return f"{ahead} do not differ significantly in calibration, and are ahead of the others"
    if lead["level"]:
        together = " and ".join(names[key] for key in (lead["best"], *lead["level"]))
        return f"Best calibrated: {together}, without a significant difference"
    if not lead["proved"]:
        return f"Lowest ECE: {names[lead['best']]}, without evidence that it is lower"
    return f"Best calibrated: {names[lead['best']]}"


def findings(data: Mapping[str, Any]) -> list[str]:
    """A sentence for each metric that names a winner."""
    names = _short(data)
    lines = []
    for metric in data["metrics"]:
        lead = leader(data, metric["key"]) if metric["winner"] else None
        if lead is None:
            continue
        tail = (
            ", significantly ahead of all others"
            if lead["proved"]
            else "; whether it is better than others is not known"
        )
        if lead["level"]:
            tail = f", not significantly better than {_listed([names[key] for key in lead['level']], len(names) - 1)}"
        lines.append(f"{_text(metric['winner'])}: {names[lead['best']]}{tail}.")
    return lines


def _listed(names: Sequence[str], others: int) -> str:
    """A few names, or how many there are."""
    if len(names) > NAMED:
        return f"{len(names)} others" if len(names) < others else f"any of the {others} others"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _short(data: Mapping[str, Any]) -> dict[str, str]:
    return {method["key"]: _name(method.get("short", method["name"]), 40) for method in data["methods"]}


def _verdicts(data: Mapping[str, Any]) -> str:
    if not data.get("verdicts"):
        return ""
    items = "".join(
        f"<li>{_name(method['name'], 80)}: <strong>{_text(data['verdicts'][method['key']]['headline'])}</strong></li>"
        for method in data["methods"]
    )
    return f'<ul class="findings verdicts">{items}</ul>'


def _table(data: Mapping[str, Any]) -> str:
    """The table for browsers without JavaScript; the script replaces it by one that can be sorted."""
    columns = data["table"]["columns"]
    heads = "".join(f'<th scope="col">{_text(column["title"])}</th>' for column in columns)
    names = {method["key"]: _name(method["name"], 60) for method in data["methods"]}
    rows = []
    for row in data["table"]["rows"]:
        cells = []
        for column in columns:
            cell = row["cells"].get(column["key"])
            text = "–" if cell is None else _metric_text(column, cell["value"])
            if cell is not None and cell.get("std") is not None:
                scale = 100 if column.get("percent") else 1
                text += f'<span class="note">± {scale * from_number(cell["std"]):.{1 if scale > 1 else 3}f}</span>'
            elif cell is not None and cell.get("low") is not None:
                low, high = (_metric_text(column, cell[end]) for end in ("low", "high"))
                text += f'<span class="note">{low} to {high}</span>'
            if cell is not None and cell.get("best"):
                text = f"<strong>{text}</strong>"
            elif cell is not None and _is_worse(cell):
                text += " ○"
            compared = None if cell is None else against(cell)
            if compared is not None and compared["proved"]:
                text += " ▴" if (compared["value"] > 0) == column.get("larger_is_better") else " ▾"
            cells.append(f"<td>{text}</td>")
        rows.append(f'<tr><th scope="row">{names[row["method"]]}</th>{"".join(cells)}</tr>')
    notes = "".join(f'<li class="note">{_sentence(note, 600)}</li>' for note in data["notes"])
    meanings = "".join(
        f"<dt>{_text(column['title'])}</dt><dd>{_text(column['explained'])}</dd>"
        for column in columns
        if column.get("explained")
    )
    return (
        '<div class="no-script"><div class="scroll"><table class="results"><thead><tr><th scope="col">'
        f"{data['subject'][:-1].capitalize()}</th>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f'<ul class="notes">{notes}</ul><dl class="meanings">{meanings}</dl></div>'
    )


def _is_worse(cell: Mapping[str, Any]) -> bool:
    """Whether a method is worse than the best beyond chance."""
    return not cell.get("tie") and not cell.get("best") and cell.get("p_value") is not None


def _of_similarity(data: Mapping[str, Any]) -> str:
    odd, names = data["oddities"], data["class_names"]
    pairs = [(_name(names[int(a)], 40), _name(names[int(b)], 40), share) for a, b, share in data["closest"]]
    headline = f"Most alike: {pairs[0][0]} and {pairs[0][1]}" if pairs else "Class similarity"
    items = "".join(f"<li>{a} and {b} <span class='note'>{_percent(share)}</span></li>" for a, b, share in pairs)
    look = (
        f'{_count(len(odd), "row")} of {len(names):,} may be worth <a href="#odd">a look</a>: rows that stand alone, '
        "or that other sources see otherwise. Most such rows are right."
        if odd
        else "No row looks wrong."
    )
    return (
        '<section class="hero" id="answers" aria-labelledby="headline">'
        f'<h1 id="headline" class="calm-title">{headline}</h1>'
        f'<p class="lead">How alike the classes are: {_text(data["source"] or "a similarity")}. {look}</p>'
        f'<p class="note">The most similar pairs, by the mean share of both directions:</p><ol>{items}</ol></section>'
    )


def _of_results(data: Mapping[str, Any]) -> str:
    """What was found, in a sentence; the table for browsers without JavaScript."""
    heads = "".join(f'<th scope="col">{_text(column["title"])}</th>' for column in data["columns"])
    rows = "".join(
        f'<tr><th scope="row">{_name(row["name"], 60)}</th>'
        + "".join(f"<td>{_plain_cell(column, row)}</td>" for column in data["columns"])
        + f"<td>{MARKS.get(row['mark'], '')}</td></tr>"
        for row in data["rows"]
    )
    return (
        '<section class="hero" id="answers" aria-labelledby="headline">'
        f'<h1 id="headline" class="calm-title {data["tone"]}">{_text(data["headline"])}</h1>'
        f'<p class="lead wide">{_sentence(data["detail"], 900)}</p>'
        '<div class="scroll no-script"><table><thead><tr><td></td>'
        f"{heads}<td></td></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


MARKS = {"best": "★ best", "worse": "○ worse", "kept": "✓ kept", "open": "? may be chance", "broken": "✗ broken"}


def _plain_cell(column: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    cell = row["cells"].get(column["key"])
    percent = row["limit"]["percent"] if "limit" in row else column.get("percent", False)
    return "–" if cell is None else _metric_text({**column, "percent": percent}, cell["value"])


FIRST_SCREENS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "model": _of_model,
    "comparison": _of_comparison,
    "similarity": _of_similarity,
    "results": _of_results,
}
"""The function that draws the first screen without JavaScript, by kind of page; a new kind adds its own"""


# Texts and numbers


def _variant(data: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    return next((variant for variant in data["variants"] if variant["key"] == key), None)


def _text(text: str, most: int = 300) -> str:
    """Untrusted text as HTML: control and direction characters replaced, shortened, escaped."""
    keeps = "\n" if most > 1000 else ""
    clean = _UNSAFE.sub(lambda hit: hit[0] if hit[0] == keeps else "\ufffd", text[: 4 * most])
    return html.escape(clean if len(clean) <= most else clean[: most - 1] + "…")


def _sentence(text: str, most: int = 300) -> str:
    """A sentence of ours as HTML; its numbers keep their unit and their minus sign."""
    return re.sub(r"(^|[\s(])-(?=\d)", "\\1−", re.sub(r"(\d) %", "\\1\u202f%", _text(text, most)))


def _name(text: str, most: int) -> str:
    return f'<bdi class="name">{_text(text, most)}</bdi>'


def _address(text: str) -> str:
    from urllib.parse import quote

    return html.escape(quote(text[:400].encode("utf-8", errors="replace"), safe=""))


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _percent(value: Any) -> str:
    share = 100 * from_number(value)
    return f"{share:.1f}\u202f%" if abs(share) >= 9.95 else f"{share:.2f}\u202f%" if share else "0\u202f%"


def _number_pair(before: Any, then: Any) -> str:
    first, second = (100 * from_number(value) for value in (before, then))
    return f"{first:.1f} → {second:.1f}\u202f%"


def _metric_text(metric: Mapping[str, Any], value: Any) -> str:
    if value is None:
        return "–"
    number = from_number(value)
    if math.isinf(number):
        return "∞"
    if not metric["percent"]:
        return f"{number:.3f}".replace("-", "−")
    if metric.get("signed"):
        text = f"{100 * number:+.1f}\u202fpts"
        return text.replace("-0.0", "0.0").replace("+0.0", "0.0").replace("-", "−")
    return _percent(number).replace("-", "−")
