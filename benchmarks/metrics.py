"""Metrics against the libraries that define the same, in one run, one thread each: ratios, then growth.

    python benchmarks/metrics.py                 # N=10,000, K=100; the table of ratios
    python benchmarks/metrics.py --growth        # also time against N up to 10^7 and K up to 10^4
    python benchmarks/metrics.py --samples 1000 --classes 20 --repeats 3

Needs torchmetrics, netcal and KDEpy. The contestants of a row take turns, so that a busy moment of the machine hits
all of them; a turn calls for at least 20 ms, so that each is measured with its own data and code in the caches; each
time is a median. Times are of this machine, ratios are what to read.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
import torch
from scipy.integrate import trapezoid

from softkin import metrics
from softkin.metrics import density
from timing import medians

torch.set_num_threads(1)

Work = Callable[[], object]


def data(num_samples: int, num_classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Over-confident float32 probabilities and labels, made block by block: no second copy of all."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    p = torch.empty(num_samples, num_classes)
    for block, own in zip(p.split(100_000), labels.split(100_000), strict=True):
        block.normal_(generator=generator)
        block[torch.arange(len(own)), own] += 2.5
        block.copy_(torch.softmax(block.mul_(3), dim=1))
    return p, labels


def mix_n_match(p: np.ndarray, y: np.ndarray) -> float:
    """The published KDE estimator's procedure, step by step: at each grid point four searches for that point."""
    from KDEpy import FFTKDE

    x = np.linspace(-0.6, 1.6, 2**14)
    score, hit = np.empty(len(p)), np.empty(len(p), dtype=bool)
    for i in range(len(p)):
        winner = int(np.argmax(p[i]))
        score[i], hit[i] = p[i, winner] / p[i].sum(), winner == y[i]
    h = np.std(score[hit]) * (2 * len(p)) ** -0.2
    curves = []
    for points in (score[hit], score):
        mirrored = np.concatenate([-points[points < 0.5], points, 2 - points[points >= 0.5]])
        curve = FFTKDE(bw=h, kernel="triweight").fit(mirrored).evaluate(x)
        curve[(x <= 0) | (x >= 1)] = 0
        curves.append(2 * curve)
    of_hits, of_all = curves
    integrand = np.zeros_like(x)
    for i in range(len(x)):
        largest = max(of_hits[np.abs(x - x[i]).argmin()], of_all[np.abs(x - x[i]).argmin()])
        if largest > 1e-6:
            likelihood = hit.mean() * of_hits[np.abs(x - x[i]).argmin()] / of_all[np.abs(x - x[i]).argmin()]
            integrand[i] = abs(x[i] - min(likelihood, 1.0)) * of_all[i]
        elif i > 1:
            integrand[i] = integrand[i - 1]
    inside = (x >= 0) & (x <= 1)
    return float(trapezoid(integrand[inside], x[inside]) / trapezoid(of_all[inside], x[inside]))


def two_fits(scores: np.ndarray, hits: np.ndarray, radius: float) -> Work:
    """Densities of all scores and of the hits, on the grid that ``ece_kde`` uses."""
    from KDEpy import FFTKDE

    x = np.linspace(-0.6, 1.6, int(2.2 * density.grid_size(radius)))
    own = scores[hits]
    # Points at the very end of the grid are refused there, so it reaches beyond [0, 1].
    return lambda: [FFTKDE(bw=radius / 3, kernel="triweight").fit(points).evaluate(x) for points in (scores, own)]


def medians_of_turns(calls: dict[str, Work], turns: int) -> dict[str, float]:
    """Median seconds of a call, in turns of as many calls as fill 20 ms."""

    def turn(work: Work, times: int) -> Work:
        return lambda: [work() for _ in range(times)]

    once = medians(calls, 3)
    times = {name: max(1, round(0.02 / once[name])) for name in calls}
    took = medians({name: turn(work, times[name]) for name, work in calls.items()}, turns)
    return {name: took[name] / times[name] for name in calls}


def ratios(num_samples: int, num_classes: int, repeats: int) -> None:
    """The table of ratios."""
    from netcal.metrics import ECE
    from torchmetrics.classification import BinaryCalibrationError
    from torchmetrics.functional.classification import multiclass_calibration_error

    p, y = data(num_samples, num_classes)
    p_np, y_np = p.numpy(), y.numpy()
    p64 = p_np.astype(np.float64)
    flat = p64.reshape(-1)
    one_hot = np.zeros_like(flat)
    places = np.arange(num_samples) * num_classes + y_np
    one_hot[places] = 1
    winning, right = p64.max(1), p64.argmax(1) == y_np

    def row(what: str, ours: Work, others: dict[str, Work], reach: str, turns: int = repeats) -> None:
        times = medians_of_turns({"softkin": ours, **others}, turns)
        for name in others:
            ratio = times[name] / times["softkin"]
            print(
                f"{what:<34} {1e3 * times['softkin']:>9.2f} ms  {name:<36} {1e3 * times[name]:>10.2f} ms"
                f"  {ratio:>8.1f}×  (reach {reach})",
                flush=True,
            )

    print(f"N={num_samples:,} K={num_classes:,} float32, one thread, median of {repeats} turns\n")
    row(
        "ece_hist prediction",
        lambda: metrics.ece_hist(p, y),
        {"torchmetrics": lambda: multiclass_calibration_error(p, y, num_classes=num_classes, n_bins=15)},
        "3×",
    )
    row(
        "ece_hist prediction",
        lambda: metrics.ece_hist(p_np, y_np),
        {"netcal": lambda: ECE(15).measure(p_np, y_np)},
        "10×",
    )
    row(
        "ece_hist output",
        lambda: metrics.ece_hist(p, y, scope="output"),
        {"numpy histogram with weights": lambda: np.histogram(flat, bins=15, range=(0, 1), weights=one_hot)},
        "1×",
    )
    h = density.bandwidth("paper", torch.from_numpy(winning), torch.from_numpy(right).nonzero()[:, 0])
    row(
        "ece_kde prediction",
        lambda: metrics.ece_kde(p, y),
        {"two KDEpy fits": two_fits(winning, right.nonzero()[0], h)},
        "1×",
    )
    row(
        "ece_kde prediction, mix-n-match",
        lambda: metrics.ece_kde(p, y, convention="mix-n-match"),
        {"Mix-n-Match's procedure": lambda: mix_n_match(p64, y_np)},
        "300×",
        turns=max(1, repeats // 5),
    )
    h = density.bandwidth("paper", torch.from_numpy(flat), torch.from_numpy(places))
    row(
        "ece_kde output",
        lambda: metrics.ece_kde(p, y, scope="output"),
        {"two KDEpy fits": two_fits(flat, places, h)},
        "1×",
    )
    row(
        "classwise_ece",
        lambda: metrics.classwise_ece(p, y),
        {
            # As torch-uncertainty goes about it: a binary metric object for each class, fed one column and compared.
            "a binary metric for each class": lambda: [
                BinaryCalibrationError(n_bins=15)(p[:, k], (y == k).long()) for k in range(num_classes)
            ]
        },
        "20×",
        turns=max(1, repeats // 3),
    )
    calls = 100  # of the thousand: the others would take the same
    generator = torch.Generator().manual_seed(0)

    def plain() -> None:
        for _ in range(calls):
            rows = torch.randint(num_samples, (num_samples,), generator=generator)
            metrics.ece_hist(p[rows], y[rows])

    times = medians({"softkin": lambda: metrics.ece_hist(p, y, confidence=0.95), "plain": plain}, max(1, repeats // 5))
    many = times["plain"] * 1000 / calls
    print(
        f"{'interval, 1,000 resamples':<34} {1e3 * times['softkin']:>9.2f} ms  {'1,000 plain calls (from 100)':<36}"
        f" {1e3 * many:>10.2f} ms  {many / times['softkin']:>8.1f}×  (reach 20×)"
    )


COLUMNS: dict[str, Callable[[torch.Tensor, torch.Tensor], float]] = {
    "hist P": lambda p, y: metrics.ece_hist(p, y),
    "hist O": lambda p, y: metrics.ece_hist(p, y, scope="output"),
    "KDE P": lambda p, y: metrics.ece_kde(p, y),
    "KDE O": lambda p, y: metrics.ece_kde(p, y, scope="output"),
    "classwise": lambda p, y: metrics.classwise_ece(p, y),
    "nll": lambda p, y: metrics.nll(p, y),
}


def size(num_samples: int, num_classes: int) -> None:
    """One line of the growth table: seconds of each metric, and what all of them took of memory beside the data."""
    for work in COLUMNS.values():
        work(*data(100, num_classes))  # what first calls load is no cost of the size
    p, y = data(num_samples, num_classes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = []
    for work in COLUMNS.values():
        start = time.perf_counter()
        work(p, y)
        line.append(time.perf_counter() - start)
    # In kilobytes, on a Mac in bytes.
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2 ** (20 if sys.platform == "darwin" else 10)
    whole = p.numel() * 4 / 2**20
    print(
        f"{num_samples:>18,} {num_classes:>7,}  "
        + "".join(f"{seconds:>11.4f}" for seconds in line)
        + f"{whole:>9,.0f}{more:>9,.0f}",
        flush=True,
    )


def growth(most_samples: int, most_classes: int) -> None:
    """Time against N at K = 10, and against K at N·K up to 10^8; a process for each size, so that peaks are its own."""
    print(
        "\nseconds          N       K  " + "".join(f"{name:>11}" for name in COLUMNS) + "  MB data   beside", flush=True
    )
    sizes = [(n, 10) for n in (10**3, 10**4, 10**5, 10**6, 10**7) if n <= most_samples]
    sizes += [(10**4, k) for k in (100, 1000, 10_000) if k <= most_classes]
    for n, k in sizes:
        subprocess.run([sys.executable, __file__, "--one-size", str(n), str(k)], check=True)


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--most-samples", type=int, default=10**7)
    parser.add_argument("--most-classes", type=int, default=10**4)
    parser.add_argument("--one-size", type=int, nargs=2, metavar=("N", "K"), help="one line of the growth table")
    options = parser.parse_args()
    if options.one_size:
        size(*options.one_size)
        return
    ratios(options.samples, options.classes, options.repeats)
    if options.growth:
        growth(options.most_samples, options.most_classes)


if __name__ == "__main__":
    main()
