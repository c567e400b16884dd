"""Draw docs/figures/results.png and sweeps.svg from results/records/: ``python results/figures.py``."""

import json
from pathlib import Path

from collect import RECORDS, interval, method_title, rows_of, study_title
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from softkin import diagrams

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
SHOWN = "cifar100-features-100"
LINES = {"one-hot": "one-hot", "ts": "one-hot, then temperature", "we": "similarity of names"}
FOREST = (
    "scratch-step-1e-4",
    "scratch-cosine-5e-4",
    "scratch-whole",
    "cifar100-features-10",
    "cifar100-features-100",
    "cifar100-features-400",
    "banking77",
    "clinc150",
    "tiny-imagenet",
    "fashion-mnist",
    "digits",
)
COMPARED = {"ts": "one-hot, then temperature", "uniform": "uniform smoothing", "we": "similarity of names"}
LOOKS = ("one-hot", *COMPARED)  # a method looks the same on both sides
SMALL = 7


def reliability(ax: Axes) -> None:
    """Confidence against accuracy, over all seeds of a study."""
    curves = json.loads((RECORDS / "curves.json").read_text())[SHOWN]
    ax.plot([0, 1], [0, 1], color="black", linestyle=(0, (3, 2)), linewidth=0.9)
    for method, title in LINES.items():
        bins = [bin_ for bin_ in zip(*curves[method].values(), strict=True) if bin_[2] >= 10]
        colour, dash, marker = diagrams.series(LOOKS.index(method))
        error = 100 * rows_of(SHOWN)[method]["cells"]["ece_hist"]["value"]
        ax.plot(
            [bin_[0] for bin_ in bins],
            [bin_[1] for bin_ in bins],
            color=colour,
            linestyle=dash,
            marker=marker,
            markersize=3.5,
            linewidth=1.3,
            label=f"{title}: ECE {error:.1f} %",
        )
    ax.set(xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    ax.set_xlabel("confidence", fontsize=SMALL + 1)
    ax.set_ylabel("accuracy", fontsize=SMALL + 1)
    ax.set_title(study_title(SHOWN), fontsize=SMALL + 1)
    ax.legend(fontsize=SMALL, loc="upper left", frameon=False)
    ax.tick_params(labelsize=SMALL)


def forest(ax: Axes) -> None:
    """NLL of each method less one-hot's, with 95 % intervals over seeds; a very wide one runs out of the picture."""
    means = []
    studies = [study for study in FOREST if "ts" in rows_of(study)]
    for place, (method, title) in enumerate(COMPARED.items(), start=1):
        colour, _, marker = diagrams.series(LOOKS.index(method))
        for level, study in enumerate(studies):
            rows = rows_of(study)
            if method not in rows:
                continue
            mean, half = interval(rows[method]["cells"]["nll"]["values"], rows["one-hot"]["cells"]["nll"]["values"])
            means.append(mean)
            ax.errorbar(
                mean,
                level + 0.22 * (place - 2),
                xerr=half if half < 10 else None,
                color=colour,
                marker=marker,
                markersize=3.5,
                linewidth=1,
                capsize=2,
                label=title if level == 0 else None,
            )
    gaps = [100 * rows_of(study)["one-hot"]["cells"]["signed_gap"]["value"] for study in studies]
    words = [f"{gap:+.1f}".replace("-", "−") for gap in gaps]
    names = [f"{study_title(study)}\ngap {gap}" for study, gap in zip(studies, words, strict=True)]
    ax.axvline(0, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
    ax.set_yticks(range(len(studies)), names)
    ax.invert_yaxis()
    ax.set_xlim(min(means) - 0.1, max(means) + 0.1)
    ax.tick_params(labelsize=SMALL)
    ax.set_xlabel("NLL less that of one-hot (left is better)", fontsize=SMALL + 1)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1))


def sweeps() -> None:
    """Prediction and output error, by α and by β."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots(1, 3)
    parts = (("alpha", "ece_hist", "Hist P, %"), ("alpha", "ece_hist_output", "Hist O, %"), ("beta", None, "%"))
    for ax, (value, metric, title) in zip(axes, parts, strict=True):
        studies = {float(path.name.rsplit("-", 1)[1]): path.name for path in RECORDS.glob(f"sweep-{value}-*")}
        drawn = [(method, metric) for method in ("uniform", "we")] if metric else []
        drawn = drawn or [("we", "ece_hist"), ("we", "ece_hist_output")]
        for place, (method, key) in enumerate(drawn):
            xs = sorted(studies)
            cells = [rows_of(studies[x])[method]["cells"][key] for x in xs]
            colour, dash, marker = diagrams.series(place + 1)
            label = (
                method_title(rows_of(studies[xs[0]])[method]) if metric else {"ece_hist": "Hist P"}.get(key, "Hist O")
            )
            ax.errorbar(
                xs,
                [100 * cell["value"] for cell in cells],
                yerr=[100 * (cell["std"] or 0) for cell in cells],
                color=colour,
                linestyle=dash,
                marker=marker,
                markersize=3.5,
                linewidth=1.2,
                capsize=2,
                label=label,
            )
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("α (β = 2)" if value == "alpha" else "β (α = 0.1)", fontsize=SMALL + 1)
        ax.set_title(title, fontsize=SMALL + 1)
        ax.tick_params(labelsize=SMALL)
        ax.legend(fontsize=SMALL, frameon=False)
    figure.savefig(FIGURES / "sweeps.svg")


def main() -> None:
    """Both figures."""
    figure = Figure(figsize=(8.4, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    reliability(left)
    forest(right)
    figure.savefig(FIGURES / "results.png", dpi=130)
    if list(RECORDS.glob("sweep-*")):
        sweeps()


if __name__ == "__main__":
    main()
