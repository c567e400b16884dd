"""Reliability for every number of bins at once: sums in 300 cells, which the page adds up to bins.

The cells are right-closed like bins: ((j−1)/300, j/300], with 0 in the first. If M divides 300, the edge m/M of M bins
is the same float as the cell edge (300/M·m)/300, because division rounds equal ratios equally. Sums over cells are
therefore sums over bins, and every ECE on the page equals ``metrics.ece_hist`` up to the order of additions.
"""

import torch

from softkin._core import randomness
from softkin._io.files import Plain
from softkin.metrics import binning
from softkin.metrics.binned import RootGap
from softkin.metrics.binning import ReliabilityCurve, equal_width
from softkin.metrics.resampling import likelihood_band, resampled_band, resampled_sums
from softkin.metrics.scopes import Pool
from softkin.report import data
from softkin.report.data import Cells, Sums

CELLS = 300
BINS = tuple(m for m in range(5, 51) if CELLS % m == 0)
"""The numbers of bins that the page's slider offers: 5, 6, 10, 12, 15, 20, 25, 30, 50"""
RESAMPLES = 200


def of_pool(pool: Pool) -> Cells:
    """The sums of each cell; counts are integers."""
    curve = binning.curve(pool.scores, pool.hits, equal_width(CELLS))
    return {
        "count": data.whole(curve.count),
        "score_sum": data.floats(curve.score_sum),
        "hit_sum": data.whole(curve.hit_sum),
    }


def of_cells(cells: Sums, n_bins: int) -> ReliabilityCurve:
    """The curve that the page draws: cells added up to M bins."""
    sums = [
        torch.tensor(part, dtype=torch.float64).view(n_bins, -1).sum(dim=1)
        for part in (cells["count"], cells["score_sum"], cells["hit_sum"])
    ]
    return ReliabilityCurve(equal_width(n_bins).edges, *sums)


def bands(pool: Pool, level: float, *, seed: int) -> dict[str, list[list[Plain]]]:
    """For each number of bins, [low, high]: the confidence band of each bin's share of hits, None in empty bins.

    These are the bands that ``diagrams.reliability`` draws: Clopper–Pearson for prediction, and for output percentiles
    over resampled rows. Here the rows are resampled once for all numbers of bins.
    """
    if pool.columns == 1:
        return {
            str(m): [data.numbers(end, 6) for end in likelihood_band(RootGap(pool, equal_width(m)), level, 100, seed)]
            for m in BINS
        }
    parts = RootGap(pool, equal_width(CELLS))  # keeps counts, scores and hits apart
    sums = resampled_sums(parts, RESAMPLES, randomness.generator(seed)).cpu().view(RESAMPLES, 3, CELLS)
    by_count = {}
    for m in BINS:
        ends = resampled_band(RootGap(pool, equal_width(m)), sums.view(RESAMPLES, 3, m, -1).sum(dim=3), level)
        by_count[str(m)] = [data.numbers(end, 6) for end in ends]
    return by_count


def with_bins(pool: Pool, cells: Cells, n_bins: int, level: float, *, seed: int) -> Cells:
    """Cells with bands; also the sums and bands for ``n_bins`` itself if the slider does not offer that number."""
    content: Cells = {**cells, "bands": bands(pool, level, seed=seed)}
    if n_bins in BINS:
        return content
    binned = RootGap(pool, equal_width(n_bins))
    curve = binned.curve()
    content["bands"][str(n_bins)] = [data.numbers(end, 6) for end in likelihood_band(binned, level, RESAMPLES, seed)]
    content["exact"] = {
        str(n_bins): {
            "count": data.whole(curve.count),
            "score_sum": data.floats(curve.score_sum),
            "hit_sum": data.whole(curve.hit_sum),
        }
    }
    return content
