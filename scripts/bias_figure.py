"""Draw docs/figures/bias.svg and print the numbers of docs/bias.md: estimators' bias, and coverage of intervals.

python scripts/bias_figure.py            # about three minutes on one core
python scripts/bias_figure.py --quick    # a tenth of the draws
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure

from softkin import metrics
from softkin.metrics import binning, resampling, scopes
from softkin.metrics.binned import MeanGap

TARGET = Path(__file__).parents[1] / "docs" / "figures" / "bias.svg"
ESTIMATORS = {
    "15 bins": ("ece_hist", {}, "#0072b2", "-"),
    "100 bins": ("ece_hist", {"n_bins": 100}, "#56b4e9", "--"),
    "15 bins of equal mass": ("ece_hist", {"binning": "mass"}, "#009e73", "-."),
    "KDE": ("ece_kde", {}, "#d55e00", "-"),
    "smooth ECE": ("smooth_ece", {}, "#cc79a7", "--"),
    "debiased, L2": ("debiased_ece", {}, "#000000", ":"),
}
SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
ERRORS = (0.0, 0.01, 0.02, 0.05, 0.1)


def confidences(rng: np.random.Generator, n: int) -> np.ndarray:
    """Winning scores of two classes, from ½ to 1 and most of them high."""
    return 1 - 0.5 * rng.random(n) * rng.random(n)


def biases(draws: int) -> dict[str, list[float]]:
    """What each estimator shows on average where the true error is 0."""
    rng = np.random.default_rng(0)
    shown: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for n in SIZES:
        values: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
        for _ in range(max(draws // 5, draws * 1000 // max(1000, n))):
            c = confidences(rng, n)
            p, y = np.stack([c, 1 - c], axis=1), (rng.random(n) > c).astype(int)
            for name, (metric, options, *_) in ESTIMATORS.items():
                values[name].append(getattr(metrics, metric)(p, y, **options))
        for name in ESTIMATORS:
            shown[name].append(float(np.mean(values[name])))
    return shown


def coverage(n: int, delta: float, draws: int, resamples: int = 300) -> tuple[float, float]:
    """How often the interval and plain percentiles hold the true error, both at 95 %."""
    rng = np.random.default_rng([n, int(1000 * delta)])
    bins = binning.equal_width(15)
    ours = percentile = 0
    for r in range(draws):
        c = confidences(rng, n)
        hits = torch.from_numpy(rng.random(n) < c - delta).nonzero()[:, 0]
        statistic = MeanGap(scopes.Pool(torch.from_numpy(c), hits, n, 1), bins)
        interval = resampling.interval(statistic, 0.95, resamples, r)
        ours += interval.low <= delta <= interval.high
        sums = resampling.resampled_sums(statistic, resamples, np.random.default_rng(r))
        low, high = resampling.quantiles(statistic.of(sums), 0.025)
        percentile += low <= delta <= high
    return ours / draws, percentile / draws


def main() -> None:
    """Simulate, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    draws = 20 if parser.parse_args().quick else 200
    torch.set_num_threads(1)

    shown = biases(draws)
    print("| true error 0, mean shown, % | " + " | ".join(f"n = {n:,}" for n in SIZES) + " |")
    for name, values in shown.items():
        print(f"| {name} | " + " | ".join(f"{100 * value:.2f}" for value in values) + " |")
    held = {n: [coverage(n, delta, draws) for delta in ERRORS] for n in (1000, 5000)}
    print("\n| 95 % intervals that hold the truth, % | " + " | ".join(f"ECE {delta:g}" for delta in ERRORS) + " |")
    for n, pairs in held.items():
        for place, name in enumerate(("softkin", "percentiles")):
            print(f"| {name}, n = {n:,} | " + " | ".join(f"{100 * pair[place]:.0f}" for pair in pairs) + " |")

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, (_, _, colour, style) in ESTIMATORS.items():
        left.plot(SIZES, shown[name], style, color=colour, label=name, marker="o", markersize=3)
    left.set(
        xscale="log",
        yscale="log",
        xlabel="samples",
        ylabel="mean error shown",
        title="The true error is 0",
        ylim=(5e-4, 0.3),
    )
    left.legend(fontsize=8, frameon=False)
    for n, colour in ((1000, "#0072b2"), (5000, "#d55e00")):
        for place, style, name in ((0, "-", "softkin"), (1, ":", "percentiles")):
            right.plot(
                ERRORS,
                [pair[place] for pair in held[n]],
                style,
                color=colour,
                marker="o",
                markersize=3,
                label=f"{name}, n = {n:,}",
            )
    right.axhline(0.95, color="#999999", linewidth=0.8)
    right.set(xlabel="true error", ylabel="share that holds the truth", ylim=(-0.03, 1.03), title="95 % intervals")
    right.legend(fontsize=8, frameon=False, loc="lower right")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "softkin"}):  # the same picture is the same file
        figure.savefig(TARGET, metadata={"Date": None})
    print(f"\nWrote {TARGET}")


if __name__ == "__main__":
    main()
