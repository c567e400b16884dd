"""Groups of rows, such as models, sites or devices: every metric of each, the worst one, and whether they differ.

The intervals of a metric are simultaneous: with G groups each has the level 1 − (1 − level)/G (Bonferroni), so that all
of them hold their truths together at the level asked for. So the interval of the worst group stays valid although the
data chose that group.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin.decisions import select
from softkin.evaluation.results import GroupData, GroupsData
from softkin.metrics import catalogue, measurement
from softkin.metrics.catalogue import METRICS
from softkin.metrics.measurement import Measured, Settings
from softkin.metrics.scopes import Claims
from softkin.metrics.statistics import Averaged, CalibrationError, Statistic
from softkin.predictions import Predictions

MOST = 500  # groups; more are names of rows
RISK = 0.1  # the error rate that the threshold of each group keeps
CERTAINTY = 0.95  # with which it does
ONE_ERROR = 0.6826894921370859  # the level of an interval of one standard error to either side


def evaluate_groups(
    predictions: Predictions,
    groups: Sequence[str] | None = None,
    *,
    n_bins: int = 15,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    risk: float = RISK,
    certainty: float = CERTAINTY,
) -> GroupsData:
    """Every metric of every group of rows, the worst group of each metric, and whether groups differ.

    Args:
        predictions: Predictions with labels.
        groups: (N,) the group of each row; by default the ``groups`` of the predictions.
        n_bins: The number of bins of each histogram.
        confidence: The level at which all intervals of a metric hold together.
        resamples: The number of resamples for an interval, at least; many groups take more.
        seed: The seed of the resampling.
        risk: The error rate that the threshold on each group's confidence keeps.
        certainty: The confidence of that guarantee, for each group.

    Returns:
        Plain data: ``groups``, each with ``metrics`` as from ``evaluate`` and a ``threshold``; ``worst``, the group
        with the worst value; ``differ``, the p-value of Cochran's test, by metric; and ``curves_differ``, that of the
        test whether groups are calibrated alike.

    Example:
        >>> p = torch.tensor([[0.1, 0.9], [0.3, 0.7]]).repeat(50, 1)
        >>> rows = Predictions.from_probabilities(p, torch.arange(100) % 3 % 2, groups=["a", "b"] * 50)
        >>> evaluate_groups(rows, resamples=100)["worst"]["signed_gap"]
        'a'
    """
    if groups is not None:
        predictions = replace(predictions, groups=list(groups))
    if predictions.groups is None:
        raise ValueError("`groups` must name the group of each row, and the predictions have none.")
    settings = Settings(n_bins, confidence, resamples, seed)
    return evaluated(predictions, "group", settings, risk=risk, certainty=certainty)


def united(groups: Sequence[str], column: str) -> tuple[list[str], str | None]:
    """Groups in one spelling where they differ in case or blanks alone, the most usual one, and a sentence about it.

    Example:
        >>> united(["Rome", "rome ", "Rome", "Oslo"], "site")[0]
        ['Rome', 'Rome', 'Rome', 'Oslo']
    """
    of: dict[str, Counter[str]] = {}
    for name, count in Counter(groups).items():
        plain = " ".join(name.split())
        of.setdefault(plain if len(plain) == 1 else plain.casefold(), Counter())[name] += count
    usual = {key: max(forms, key=lambda form: (forms[form], form)) for key, forms in of.items()}
    other = {form: usual[key] for key, forms in of.items() for form in forms if form != usual[key]}
    if not other:
        return list(groups), None
    form, taken = next(iter(other.items()))
    said = (
        f"`{column}` has {len(usual):,} groups in {len(usual) + len(other):,} spellings, which are read as one each: "
        f"{form!r} is {taken!r}."
    )
    return [other.get(name, name) for name in groups], said


def evaluated(
    predictions: Predictions, column: str, settings: Settings, *, risk: float = RISK, certainty: float = CERTAINTY
) -> GroupsData:
    """Every metric of every group of rows, with simultaneous intervals.

    Args:
        predictions: Predictions with ``groups``.
        column: The name of the groups' column, for the result.
        settings: The options; ``confidence`` is the level of all intervals of a metric together.
        risk: The error rate that the threshold of each group keeps.
        certainty: The confidence of that guarantee, for each group.
    """
    assert predictions.groups is not None
    return of_claims(predictions.claims, predictions.groups, column, settings, risk=risk, certainty=certainty)


def of_claims(
    claims: Claims,
    groups: Sequence[str],
    column: str,
    settings: Settings,
    *,
    risk: float = RISK,
    certainty: float = CERTAINTY,
) -> GroupsData:
    """``evaluated`` of claims; ``groups`` are (N,) names."""
    if len(groups) != claims.num_samples:
        raise ValueError(f"`groups` must be as many as the samples: got {len(groups)} for {claims.num_samples}.")
    names = sorted(set(groups), key=_in_order)
    if len(names) > MOST:
        raise SoftkinError(
            f"--group {column} must name groups of rows, but has {len(names):,} different values; up to {MOST} are "
            "measured."
        )
    number = {name: place for place, name in enumerate(names)}
    member = torch.tensor([number[name] for name in groups])
    every = settings.simultaneous(len(names))
    parts = [claims.take((member == place).nonzero()[:, 0]) for place in range(len(names))]
    shown = catalogue.shown("evaluate", claims.num_classes, ordered=settings.ordered)
    metrics = [metric for metric in shown if not metric.slow]
    made = [measurement.statistics(part, metrics, every) for part in parts]
    measured = [measurement.measured(each, every) for each in made]
    return {
        "column": column,
        "level": settings.level,
        "groups": [
            _described(name, part, own, risk, certainty) for name, part, own in zip(names, parts, measured, strict=True)
        ],
        "worst": {key: names[place] for key, place in _worst(measured).items()},
        "differ": differences(made),
        "curves_differ": curves_differ(parts),
    }


def of_labels(claims: Claims, names: Sequence[str], settings: Settings) -> GroupsData:
    """Every metric of every label of several per sample, with simultaneous intervals.

    The labels of a sample depend on each other, so there is no test whether they differ.
    """
    if len(names) > MOST:
        raise SoftkinError(f"up to {MOST} labels per sample are measured one by one, got {len(names):,}.")
    every = settings.simultaneous(len(names))
    p, y = claims.probabilities, claims.labels
    parts = [Claims(p[:, [k]], y[:, [k]], claims.weights, exclusive=False) for k in range(len(names))]
    # The share of a label's samples is not how often an answer is right.
    metrics = [metric for metric in catalogue.shown("evaluate", 1) if not metric.slow and metric.key != "accuracy"]
    measured = [measurement.measure(part, metrics, every) for part in parts]
    return {
        "column": "label",
        "level": settings.level,
        "groups": [
            _described(name, part, own, RISK, CERTAINTY) for name, part, own in zip(names, parts, measured, strict=True)
        ],
        "worst": {key: names[place] for key, place in _worst(measured).items()},
        "differ": {},
        "curves_differ": None,
    }


def _in_order(name: str) -> tuple[bool, float, str]:
    """Numbers in their order, before texts in theirs."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _described(name: str, claims: Claims, measured: Mapping[str, Measured], risk: float, certainty: float) -> GroupData:
    data: GroupData = {
        "name": name,
        "num_samples": claims.num_samples,
        "metrics": {key: one.to_dict() for key, one in measured.items()},
    }
    if claims.weights is None and (claims.are_pairs or (claims.exclusive and not claims.are_soft)):
        pool = claims.pool("prediction")
        selection = select(pool.scores, pool.is_hit[:, 0] > 0, risk=risk, confidence=certainty)
        seen = [candidate for candidate in selection.candidates if candidate.risk <= risk]
        data["threshold"] = {
            "risk": risk,
            "confidence": selection.confidence,
            "chosen": None if selection.chosen is None else vars(selection.chosen).copy(),
            "observed": vars(seen[-1]).copy() if seen else None,
            "text": str(selection),
        }
    return data


def _worst(measured: Sequence[Mapping[str, Measured]]) -> dict[str, int]:
    """The index of the group with the worst value of each metric that has better and worse values."""
    worst = {}
    for key in measured[0]:
        metric = METRICS[key]
        costs = {place: metric.cost(own[key].value) for place, own in enumerate(measured)}
        known = {place: cost for place, cost in costs.items() if not math.isnan(cost)}
        if known and (metric.signed or metric.larger_is_better is not None):
            worst[key] = max(known, key=known.__getitem__)
    return worst


def differences(made: Sequence[Mapping[str, Statistic]]) -> dict[str, float]:
    r"""The p-value, for each metric, of the hypothesis that all groups have the same value.

    Cochran's test: with v the values of G groups, e their standard errors and v̄ the mean weighted by 1/e²,
    :math:`\sum_g (v_g - \bar v)^2 / e_g^2` has a χ² distribution with G − 1 degrees of freedom if all truths are equal.
    Calibration errors are left out: chance inflates those of small groups, so that equal truths would not look equal.
    ``curves_differ`` is the test for them.
    """
    from scipy.special import chdtrc

    found = {}
    for key in made[0]:
        known = [(own[key].value(), _standard_error(own[key])) for own in made]
        usable = [(value, error) for value, error in known if error is not None and 0 < error < math.inf]
        if len(usable) < 2 or len(usable) < len(known):
            continue
        total = sum(1 / error**2 for _, error in usable)
        mean = sum(value / error**2 for value, error in usable) / total
        found[key] = float(chdtrc(len(usable) - 1, sum(((value - mean) / error) ** 2 for value, error in usable)))
    return found


def _standard_error(statistic: Statistic) -> float | None:
    """Half the width of the interval of one standard error to either side, by formula; None where there is none."""
    if isinstance(statistic, CalibrationError) or statistic.no_resampling is not None:
        return None
    ends = statistic.formula_ends(ONE_ERROR)
    if ends is not None:
        return None if math.isnan(ends[0]) else (ends[1] - ends[0]) / 2
    if isinstance(statistic, Averaged) and statistic.rows.ndim == 1:
        return _error_of_mean(statistic.rows, statistic.weights)
    return None


def _error_of_mean(rows: Tensor, weights: Tensor | None) -> float:
    w = torch.ones_like(rows) if weights is None else weights
    return float(((w * (rows - (w * rows).mean())).square().mean() / len(rows)) ** 0.5)


def curves_differ(parts: Sequence[Claims]) -> float | None:
    r"""The p-value of the hypothesis that confidence means the same in all groups; None where it cannot be tested.

    With s the confidence and o the outcome, :math:`P(o) = \sigma(a_g + b_g \ln\frac{s}{1 - s})` is fitted to each group
    and to all together (Cox, 1958). Twice the difference of the log-likelihoods has a χ² distribution with 2(G − 1)
    degrees of freedom if all groups have one curve. Chance does not inflate it, unlike calibration errors. It needs at
    least five right and five wrong answers in each group, without weights and votes.
    """
    from scipy.special import chdtrc

    pools = [claims.pool("prediction") for claims in parts if claims.are_pairs or claims.exclusive]
    if len(pools) < max(2, len(parts)) or any(pool.weights is not None or pool.outcomes is not None for pool in pools):
        return None
    rows = [(pool.scores.double().cpu(), pool.is_hit[:, 0].double().cpu()) for pool in pools]
    if any(min(float(hit.sum()), float((1 - hit).sum())) < 5 for _, hit in rows):
        return None
    own = sum(_likelihood(score, hit) for score, hit in rows)
    together = _likelihood(*(torch.cat(part) for part in zip(*rows, strict=True)))
    return float(chdtrc(2 * (len(rows) - 1), max(0.0, 2 * (own - together))))


def _likelihood(scores: Tensor, hits: Tensor) -> float:
    """The largest log-likelihood of a line in the log odds of the scores, by Newton's method."""
    x = torch.logit(scores.clamp(1e-6, 1 - 1e-6))
    design = torch.stack([torch.ones_like(x), x - x.mean()], dim=1)
    line = torch.zeros(2, dtype=torch.float64)

    def value(at: Tensor) -> float:
        odds = design @ at
        return float((hits * odds - torch.nn.functional.softplus(odds)).sum())

    best = value(line)
    for _ in range(50):
        p = (design @ line).sigmoid()
        slope = design.T @ (hits - p)
        curvature = (design * (p * (1 - p))[:, None]).T @ design + 1e-9 * torch.eye(2, dtype=torch.float64)
        step = torch.linalg.solve(curvature, slope)
        while value(line + step) < best - 1e-12 and float(step.abs().max()) > 1e-9:
            step = step / 2
        line = line + step
        now = value(line)
        if now - best < 1e-10:
            break
        best = now
    return value(line)
