r"""Rank similarity sources, before anything is trained, by how well they predict observed confusions.

Row k of the confusions, :math:`c_k(j)`, is the share of class j among the classes that class k is taken for. A source
with normalised distances z (rows of mean 0 and deviation 1 over the other classes) predicts it by
:math:`s_k(j) \propto \exp(-\beta z_k(j))`, and is judged by

- the cross-entropy of rows, :math:`-\frac1K \sum_k \sum_j c_k(j) \ln s_k(j)` in nats, at a β that was fitted to other
  classes (cross-validation over classes); a uniform similarity has ln(K−1),
- the mean rank correlation of s_k and c_k, and the mean overlap of their five largest entries.

Each statistic has a bootstrap interval over classes, and a control: its value after renaming the source's classes at
random. A mixture of all sources, :math:`\exp(-\sum_m w_m z_m)` with w ≥ 0, is fitted in the same way, which is a convex
problem.
"""

import math
from collections.abc import Mapping

import numpy as np

from softkin import similarity
from softkin._core import checks, randomness
from softkin._core.checks import Array
from softkin.audition.judging import (
    LARGEST_WEIGHT,
    MIXTURE,
    TOP,
    Agreement,
    Audition,
    Candidate,
    Confusions,
    Floats,
    Judged,
    Problem,
    confusions_of_counts,
    confusions_of_labels,
    confusions_of_outputs,
    confusions_of_votes,
    starting_alpha,
    suggestion,
    top_membership,
)

__all__ = [
    "FEWEST_RENAMINGS",
    "LARGEST_WEIGHT",
    "MIXTURE",
    "TOP",
    "Audition",
    "Candidate",
    "Confusions",
    "Judged",
    "audition",
    "confusions_of_counts",
    "confusions_of_labels",
    "confusions_of_outputs",
    "confusions_of_votes",
    "top_membership",
]

FEW = 10  # minimum number of classes with confusions for cross-validation
FEWEST_RENAMINGS = 19  # the source itself counts too, so with fewer no p-value could be 0.05


def audition(
    sources: Mapping[str, Array],
    confusions: Confusions,
    *,
    mixture: bool = True,
    folds: int = 5,
    resamples: int = 1000,
    permutations: int = 100,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audition:
    """Rank sources of class similarity by how well they predict observed confusions.

    Args:
        sources: Distances (K, K) by name; they may be asymmetric.
        confusions: The confusions to predict, of the same classes in the same order. A source must not come from the
            rows on which these were counted: a model's outputs predict themselves.
        mixture: Also learn a mixture of all sources, if there are several.
        folds: Number of folds of the classes; the rows of a fold are predicted with the β or weights of the others.
        resamples: Number of bootstrap resamples of the classes, for the intervals.
        permutations: Number of random renamings of the classes, for the controls; at least 19, because with fewer no
            p-value could be 0.05.
        confidence: The level of the intervals.
        seed: Seed for folds, resamples and renamings.

    Example:
        >>> import torch
        >>> D = torch.rand(12, 12, generator=torch.Generator().manual_seed(0)).fill_diagonal_(0)
        >>> confused = Confusions(similarity.from_distances(D, 1.5, asymmetric=True), "a toy")
        >>> result = audition({"right": D, "wrong": D.roll(1, 0).roll(1, 1)}, confused, permutations=20)
        >>> result.chosen.name, round(result.chosen.beta, 2)
        ('right', 1.5)
    """
    shares = checks.square(confusions.shares, "confusions", without_diagonal=True)
    k = len(shares)
    if not sources:
        raise ValueError("`sources` must hold at least one matrix of distances, got none.")
    if MIXTURE in sources:
        raise ValueError(f"`sources` must not be called {MIXTURE!r}: that is what is learned from them.")
    matrices = {name: checks.square(d, f"sources[{name!r}]", without_diagonal=True) for name, d in sources.items()}
    for name, d in matrices.items():
        if len(d) != k:
            raise ValueError(f"`sources[{name!r}]` covers {len(d)} classes but the confusions cover {k}.")
    kept = (shares.sum(dim=1) > 0).nonzero()[:, 0]
    if len(kept) < FEW:
        raise ValueError(
            f"the confusions must cover at least {FEW} classes to be cross-validated over them, and {len(kept)} of {k} "
            "have any; take data with more mistakes, or more classes."
        )
    folds = checks.count(folds, "folds", least=2, most=len(kept))
    checks.count(resamples, "resamples", least=100, most=1_000_000)
    checks.count(permutations, "permutations", least=FEWEST_RENAMINGS, most=1_000_000)
    tail = (1 - checks.level(confidence)) / 2
    rng = randomness.generator(seed)
    problem = Problem(matrices, shares, kept, rng.permutation(len(kept)) % folds, folds)
    names = list(matrices)
    fits = {name: problem.fit([place]) for place, name in enumerate(names)}
    if mixture and len(names) > 1:
        fits[MIXTURE] = problem.fit(list(range(len(names))))
    rows = np.stack([fit.rows for fit in fits.values()])
    counts = rng.multinomial(len(kept), np.full(len(kept), 1 / len(kept)), size=resamples) / len(kept)
    draws = counts @ rows.T  # (resamples, candidates)
    alike = Agreement(problem, list(fits.values()))
    correlations, overlaps = alike.correlations, alike.overlaps
    controls = alike.controls(permutations, rng)
    candidates = []
    for place, (name, fit) in enumerate(fits.items()):
        rivals = [other for other in range(len(names)) if other != place]
        wins = draws[:, [place]] <= draws[:, rivals] if rivals else np.ones((resamples, 1), dtype=bool)
        energies, permuted_correlations, permuted_overlaps = (part[place] for part in controls)
        candidates.append(
            Candidate(
                name,
                dict(zip(names, fit.weights.tolist(), strict=True)) if name == MIXTURE else {name: float(fit.beta)},
                _judged(fit.rows, draws[:, place], tail, fit.control(energies), larger=False),
                _judged(correlations[place], counts @ correlations[place], tail, permuted_correlations, larger=True),
                _judged(overlaps[place], counts @ overlaps[place], tail, permuted_overlaps, larger=True),
                float(wins.all(axis=1).mean()),
                fit.rows,
            )
        )
    order = sorted(range(len(candidates)), key=lambda place: candidates[place].cross_entropy.value)
    uniform = math.log(k - 1)
    chosen, words = suggestion([candidates[place] for place in order], draws[:, order], uniform, tail)
    alpha, about_alpha = starting_alpha(confusions)
    weights = [chosen.weights.get(name, 0.0) for name in names]
    return Audition(
        [candidates[place] for place in order],
        uniform,
        chosen,
        similarity.mixture(list(matrices.values()), weights),
        alpha,
        [*words, about_alpha],
        confusions,
        k,
        len(kept),
    )


def _judged(rows: Floats, draws: Floats, tail: float, control: Floats, *, larger: bool) -> Judged:
    value = float(rows.mean())
    low, high = (float(end) for end in np.quantile(draws, [tail, 1 - tail]))
    as_good = control >= value if larger else control <= value
    return Judged(value, low, high, float(control.mean()), float((1 + as_good.sum()) / (1 + len(control))))
