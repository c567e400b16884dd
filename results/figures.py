"""Draw the figures of docs/results.md from results/records/: ``python results/figures.py``."""

from pathlib import Path

from collect import METHODS, RECORDS, SECOND, against, method_title, rows_of, study_title
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from softkin import diagrams
from softkin._core.figures import rendered
from softkin._io import files

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
SMALL = 7
STUDIES = (
    "fair-cifar100-10", "fair-cifar100-20", "fair-cifar100-50", "fair-cifar100-100", "fair-cifar100-400",
    "fair-shipped-20", "fair-shipped-100", "fair-banking77", "fair-clinc150", "fair-digits", "fair-fashion-mnist",
    "fair-scratch", "fair-scratch-all",
)  # fmt: skip
ROWS = (
    "ets", "dir-odir", "sms", "uniform+ts", "we+ts", "tree+ts", "out+ts", "nn+ts", "learned+ts", "learned-we+ts",
    "mixup+ts", "ps-kd+ts", "ensemble+ts", "head", "kin-head",
)  # fmt: skip
KIN = {"we+ts", "tree+ts", "out+ts", "nn+ts", "learned+ts", "learned-we+ts", "kin-head"}


def forest() -> None:
    """NLL of each method less that of one-hot followed by a temperature: methods as rows, studies as panels."""
    studies = [study for study in STUDIES if rows_of(study)]
    across = -(-len(studies) // 2)
    figure = Figure(figsize=(1.6 + 1.2 * across, 7.2), layout="constrained")
    panels = figure.subplots(2, across, sharey=True, squeeze=False)
    for ax in panels.flat[len(studies) :]:
        ax.set_axis_off()
    for ax, study in zip(panels.flat, studies, strict=False):
        rows = rows_of(study)
        reach = 0.0
        for level, method in enumerate(ROWS):
            found = against(rows[method], "nll") if method in rows else None
            if found is None:
                continue  # infinite, or not run
            mean, half = found
            colour = diagrams.series(2 if method in KIN else 1)[0]
            look = {"marker": "s" if method in KIN else "o", "color": colour, "markersize": 3.5, "linewidth": 1}
            ax.errorbar(mean, level, xerr=half, capsize=2, **look)
            reach = max(reach, half - mean)
        ax.axvline(0, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
        # A range of its own, as effects differ tenfold between studies; what is far worse lies beyond it.
        ax.set_xlim(-1.1 * reach, 0.7 * reach)
        ax.xaxis.set_major_locator(MaxNLocator(3))
        title = study_title(study).replace(" CIFAR-100 f", " f")
        ax.set_title(title.replace(", ", "\n").replace(" from", "\nfrom"), fontsize=SMALL)
        ax.tick_params(labelsize=SMALL - 1)
        ax.grid(axis="y", linewidth=0.3)
    titles = [
        method_title({"method": method, "title": method}, METHODS | SECOND).removesuffix("+TS").removesuffix("+ts")
        for method in ROWS
    ]
    titles = [{"ets": "ETS", "dir-odir": "Dirichlet", "uniform": "uniform", "mixup": "mixup"}.get(t, t) for t in titles]
    panels[0, 0].set_yticks(range(len(ROWS)), titles, fontsize=SMALL)
    panels[1, 0].tick_params(axis="y", labelsize=SMALL)
    panels[0, 0].set_ylim(len(ROWS) - 0.4, -0.6)
    figure.supxlabel(
        "NLL less that of one-hot + temperature, nats (left is better; scales differ; far worse lies outside); "
        "squares: class similarity",
        fontsize=SMALL,
    )
    files.write(FIGURES / "forest.svg", rendered(figure, "svg"))


def owed() -> None:
    """How much of each method's gain is owed to the weight decay of its baseline."""
    studies = [
        s for s in ("fair-cifar100-20", "fair-cifar100-100", "fair-banking77", "fair-digits") if rows_of(f"{s}-untuned")
    ]
    if not studies:
        return
    methods = ("uniform+ts", "we+ts", "out+ts", "learned+ts", "mixup+ts", "ps-kd+ts", "ensemble+ts")
    figure = Figure(figsize=(1.6 + 1.7 * len(studies), 2.9), layout="constrained")
    axes = figure.subplots(1, len(studies), sharey=True, squeeze=False)[0]
    for ax, study in zip(axes, studies, strict=True):
        for place, (variant, words) in enumerate((("-untuned", "recipe's decay"), ("", "tuned decay"))):
            rows = rows_of(f"{study}{variant}")
            colour, _, marker = diagrams.series(place + 1)
            look = {"marker": marker, "color": colour, "markersize": 3.5, "linewidth": 1, "linestyle": "none"}
            points = [
                (level, found) for level, m in enumerate(methods) if (found := against(rows[m], "nll")) is not None
            ]
            means, halves = zip(*(found for _, found in points), strict=True)
            levels = [level + 0.24 * place - 0.12 for level, _ in points]
            ax.errorbar(means, levels, xerr=halves, capsize=2, label=words, **look)
        ax.axvline(0, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
        ax.set_title(study_title(study).replace(", ", "\n").replace(" from", "\nfrom"), fontsize=SMALL)
        ax.tick_params(labelsize=SMALL - 1)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.grid(axis="y", linewidth=0.3)
    titles = [method_title({"method": m, "title": m}, METHODS | SECOND).partition("+")[0] for m in methods]
    axes[0].set_yticks(range(len(methods)), titles, fontsize=SMALL)
    axes[0].set_ylim(len(methods) - 0.4, -0.6)
    legend = axes[0].get_legend_handles_labels()
    figure.legend(*legend, fontsize=SMALL, frameon=False, loc="outside upper center", ncols=2)
    figure.supxlabel("NLL less that of one-hot + temperature at the same decay, nats (left is better)", fontsize=SMALL)
    files.write(FIGURES / "owed.svg", rendered(figure, "svg"))


BOXES = {
    "start": (0, 2.0, "Train the usual way.\nFit a temperature\non held-out rows."),
    "enough": (1, 2.0, "Is that\ngood enough?"),
    "done": (2, 3.2, "Stop here.\nNothing to retrain."),
    "held": (2, 2.0, "Many held-out rows\nfor each class?"),
    "richer": (3, 3.0, "Fit a richer calibrator,\nsuch as Dirichlet"),
    "few": (3, 1.4, "Frozen features, 20 rows\nper class or fewer?"),
    "kin": (4, 2.3, "Tune weight decay;\nfit a second head\n(KinHead)"),
    "more": (4, 0.5, "Tune weight decay; then compare\nlearned labels, mixup and\ntwo networks, each + temperature"),
}
ARROWS = (
    ("start", "enough", ""), ("enough", "done", "yes"), ("enough", "held", "no"), ("held", "richer", "yes"),
    ("held", "few", "no"), ("few", "kin", "yes"), ("few", "more", "no"),
)  # fmt: skip


def decision() -> None:
    """What to do with a network, from left to right."""
    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    ax = figure.subplots()
    for start, end, word in ARROWS:
        (x0, y0, _), (x1, y1, _) = BOXES[start], BOXES[end]
        arrow = {"arrowstyle": "->", "shrinkA": 32, "shrinkB": 36, "color": "0.35"}
        ax.annotate("", (2 * x1, y1), (2 * x0, y0), arrowprops=arrow)
        ax.text(x0 + x1, (y0 + y1) / 2 + 0.12, word, fontsize=SMALL, ha="center", color="0.25")
    for name, (x, y, text) in BOXES.items():
        ends = name in ("done", "richer", "kin", "more")
        look = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f5e9" if ends else "white", "edgecolor": "0.4"}
        ax.text(2 * x, y, text, fontsize=SMALL + 1, ha="center", va="center", bbox=look)
    ax.set(xlim=(-0.9, 9.1), ylim=(-0.1, 3.8))
    ax.axis("off")
    files.write(FIGURES / "decision.svg", rendered(figure, "svg"))


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
    files.write(FIGURES / "sweeps.svg", rendered(figure, "svg"))


def main() -> None:
    """All figures."""
    forest()
    owed()
    decision()
    if list(RECORDS.glob("sweep-*")):
        sweeps()


if __name__ == "__main__":
    main()
