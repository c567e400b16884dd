"""Draw the tables of docs/measurements/ that are better seen than read: ``python scripts/measurement_figures.py``."""

import re
from collections.abc import Iterator
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from softkin._core.figures import rendered

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#666666"
SMALL = 8


def table(page: str, *heads: str) -> Iterator[dict[str, str]]:
    """The rows of a page's first table with these heads; an empty first cell repeats the one above."""
    lines = (DOCS / "measurements" / page).read_text().splitlines()
    names: list[str] = []
    above = ""
    for line in lines:
        cells = [cell.strip() for cell in line.strip("| \n").split(" | ")] if line.startswith("|") else []
        if line.startswith("| |"):  # strip() took the empty cell
            cells.insert(0, above)
        if not cells and names:
            return
        if names and not set(line) <= set("|-: "):
            above = cells[0]
            yield dict(zip(names, cells, strict=False))
        elif set(heads) <= set(cells):
            names = cells


def numbers(cell: str) -> list[float]:
    """The numbers in a cell, such as those of "1.64 ± 0.01" or "55.3 (51.9–60.6)"."""
    return [float(text.replace("−", "-")) for text in re.findall(r"[−-]?\d+\.?\d*", cell.replace("–", " "))]


PLACES: dict[str, tuple[tuple[int, int], str]] = {
    "outputs, other half": ((7, 4), "left"),
    "class means": ((-7, 6), "right"),
    "tree over the classes, lca": ((-7, 0), "right"),
    "GloVe, raw L2": ((7, -10), "left"),
    "pixels, L2": ((-9, 2), "right"),
    "pixels, L1": ((8, -11), "left"),
    "WordNet by lemma, first senses": ((-8, 0), "right"),
    "none": ((7, 6), "left"),
}
"""Where names stand beside their points, if not to the right"""


def audition(figure: Figure) -> None:
    """Nats of the audition against the NLL of the network that was trained with the source."""
    ax = figure.subplots()
    for row in table("choosing.md", "by people", "NLL at α = 0.1"):
        (nats,), (nll, spread) = numbers(row["by people"]), numbers(row["NLL at α = 0.1"])
        ax.errorbar(nats, nll, yerr=spread, fmt="o", color=BLUE, markersize=4, capsize=2, linewidth=1)
        name = row["source"].partition(" of ")[0].removesuffix(", or MiniLM with its classes renamed")
        offset, side = PLACES.get(name, ((7, -3), "left"))
        ax.annotate(name, (nats, nll), offset, textcoords="offset points", fontsize=SMALL, ha=side)
    ax.set_xlabel("audition: nats per row against people's confusions (left is better)")
    ax.set_ylabel("test NLL of the network (lower is better)")
    ax.margins(x=0.14, y=0.08)


def answers(figure: Figure) -> None:
    """Of the images, the share that each rule answers, with the smallest and largest of 30 splits."""
    rows = list(table("decisions.md", "answers, % of the images"))
    ax = figure.subplots()
    for place, (limit, colour) in enumerate((("at most 10 % errors", BLUE), ("at most 5 % errors", ORANGE))):
        values = [numbers(row[limit]) for row in rows]
        at = [level + 0.38 * place for level in range(len(rows))]
        ends = [[mean - low for mean, low, _ in values], [high - mean for mean, _, high in values]]
        ax.barh(
            at, [mean for mean, _, _ in values], 0.36, xerr=ends, color=colour, label=limit, error_kw={"capsize": 2}
        )
    ax.set_yticks([level + 0.19 for level in range(len(rows))], [row["answers, % of the images"] for row in rows])
    ax.invert_yaxis()
    ax.set_xlabel("answered, % of the images (bars: smallest and largest of 30 splits)")
    ax.legend(frameon=False, fontsize=SMALL, loc="upper right")
    ax.set_xlim(0, 130)
    ax.set_xticks(range(0, 101, 20))


def gaps(figure: Figure) -> None:
    """The gap on test rows without smoothing, with a fixed α and with α = "auto"."""
    rows = list(table("auto_alpha.md", "labels", "test gap"))
    data = list(dict.fromkeys(row["data"] for row in rows))
    ax = figure.subplots()
    shown = {"one-hot": ("o", GREY), "similarity, α = 0.1": ("s", ORANGE), "similarity, auto": ("D", BLUE)}
    for level, name in enumerate(data):
        found = {row["labels"]: numbers(row["test gap"])[0] for row in rows if row["data"] == name}
        ax.plot([found[key] for key in shown], [level] * len(shown), color="0.8", linewidth=1.5, zorder=1)
        for key, (marker, colour) in shown.items():
            label = key if level == 0 else None
            ax.plot(found[key], level, marker, color=colour, markersize=5, label=label, linestyle="none")
    ax.axvline(0, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
    ax.set_yticks(range(len(data)), data)
    ax.invert_yaxis()
    ax.set_xlabel("test gap: mean confidence minus accuracy, points")
    ax.legend(frameon=False, fontsize=SMALL, loc="upper right")


def rules(figure: Figure) -> None:
    """The gap that each rule for α leaves, a point for each data set and schedule."""
    rows = list(table("auto_alpha.md", "schedule", "Lagrangian"))
    names = list(rows[0])[4:]
    ax = figure.subplots()
    for place, name in enumerate(names):
        for row in rows:
            if found := numbers(row[name]):
                long = row["epochs"] == "20"
                colour = BLUE if long else ORANGE
                ax.plot(
                    max(found[0], 0.05), place + (0.12 if long else -0.12), "o", color=colour, markersize=4, alpha=0.6
                )
    for colour, label in ((ORANGE, "5 epochs"), (BLUE, "20 epochs")):
        ax.plot([], [], "o", color=colour, markersize=4, label=label)
    ax.set_yticks(range(len(names)), [name.strip("*") for name in names])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    ax.set_xlabel(
        "median of |validation gap| at the end, points (a point: a data set and a schedule; at most 0.05 at the left)"
    )
    ax.legend(frameon=False, fontsize=SMALL, loc="lower right")


def rows(figure: Figure) -> None:
    """The gap on test rows that "auto" leaves, against the number of validation rows that it has."""
    found = list(table("auto_alpha.md", "validation rows", "largest test gap"))
    shown = {
        "CIFAR-100": ("o", BLUE),
        "Fashion-MNIST": ("s", ORANGE),
        "banking77": ("D", "#009e73"),
        "CLINC150": ("^", GREY),
    }
    axes = figure.subplots(1, 2, sharey=True)
    for ax, labels in zip(axes, ("uniform", "similarity"), strict=True):
        for place, (name, (marker, colour)) in enumerate(shown.items()):
            mine = [row for row in found if row["data"] == name and row["labels"] == labels]
            sizes = [numbers(row["validation rows"].replace(",", ""))[0] * 1.08 ** (place - 1.5) for row in mine]
            gaps, spreads = zip(*(numbers(row["test gap"]) for row in mine), strict=True)
            ax.errorbar(sizes, gaps, yerr=spreads, fmt=f"{marker}-", color=colour, markersize=4, capsize=2, label=name)
        ax.axhline(0, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
        ax.set_xscale("log")
        ax.set_xticks([100, 500, 5000], ["100", "500", "5,000"])
        ax.minorticks_off()
        ax.set_xlabel(f"validation rows ({labels} labels)")
    axes[0].set_ylabel("test gap, points (bars: over 5 seeds)")
    axes[1].legend(frameon=False, fontsize=SMALL, loc="upper right")


def strengths(figure: Figure) -> None:
    """The NLL of structured matrices against the strength of their prior, without and with similarity."""
    lines = (DOCS / "measurements" / "structured.md").read_text().partition("## Tables")[2]
    axes = figure.subplots(1, 3)
    for ax, part in zip(axes, lines.split("\n### ")[1:], strict=True):
        found = [
            numbers(line.replace("-", "−")) for line in part.splitlines() if "of 20" in line and line.count("(") == 2
        ]
        scaled = next(numbers(line.replace("-", "−"))[0] for line in part.splitlines() if line.startswith("| TS:"))
        strength = [row[0] for row in found]
        nll = [row[1] for row in found]
        for label, at, colour, marker in (
            ("none", None, GREY, "o"),
            ("names", 2, BLUE, "s"),
            ("outputs", 7, ORANGE, "D"),
        ):
            values = nll if at is None else [base + row[at] for base, row in zip(nll, found, strict=True)]
            ax.plot(strength, values, f"{marker}-", color=colour, markersize=4, label=f"similarity: {label}")
        ax.axhline(scaled, color="black", linewidth=0.9, linestyle=(0, (3, 2)), label="temperature scaling")
        ax.set_xscale("log")
        ax.set_xlabel("λ")
        ax.set_title(part.splitlines()[0], fontsize=SMALL)
    axes[0].set_ylabel("NLL on the other half")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)


def coverage(figure: Figure) -> None:
    """How often 95 % intervals of six errors hold, a cell for each population and number of samples."""
    text = (DOCS / "measurements" / "coverage.md").read_text().partition("Errors, 200 draws")[2]
    metrics: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| `") and cells[1:] == ["n = 40", "n = 200", "n = 1,000", "n = 10,000"]:
            rows = metrics.setdefault(cells[0].strip("`"), {})
        elif metrics and line.startswith("| ") and not line.startswith("| ---"):
            rows[cells[0]] = cells[1:]
        elif metrics and not line.startswith("|") and line.strip():
            break
    names = list(next(iter(metrics.values())))
    axes = figure.subplots(1, len(metrics), sharey=True)
    for ax, (metric, rows) in zip(axes, metrics.items(), strict=True):
        values = [[numbers(cell)[0] if numbers(cell) else float("nan") for cell in rows[name]] for name in names]
        ax.imshow(values, cmap="RdBu", vmin=85, vmax=105, aspect="auto")
        for level, row in enumerate(values):
            for place, value in enumerate(row):
                if value < 93:
                    ax.text(place, level, f"{value:g}", ha="center", va="center", fontsize=SMALL - 1)
                elif value != value:
                    ax.text(place, level, "–", ha="center", va="center", fontsize=SMALL - 1, color=GREY)
        ax.set_xticks(range(4), ["40", "200", "1k", "10k"], fontsize=SMALL - 1)
        ax.set_title(metric, fontsize=SMALL - 1)
        ax.tick_params(length=0)
    axes[0].set_yticks(range(len(names)), names)
    figure.supxlabel(
        "samples (red: too seldom, blue: more often than 95 %; cells below 93 % have their number)", fontsize=SMALL
    )


FIGURES = {
    "audition": (audition, (6.4, 3.8)),
    "answers": (answers, (6.8, 2.8)),
    "gaps": (gaps, (6.4, 2.6)),
    "rules": (rules, (6.8, 2.8)),
    "rows": (rows, (6.8, 2.8)),
    "strengths": (strengths, (7.2, 2.6)),
    "coverage": (coverage, (7.6, 3.8)),
}


def main() -> None:
    """All figures."""
    with matplotlib.rc_context({"font.size": SMALL, "svg.fonttype": "none"}):
        for name, (draw, size) in FIGURES.items():
            figure = Figure(figsize=size, layout="constrained")
            draw(figure)
            (DOCS / "figures" / f"{name}.svg").write_bytes(rendered(figure, "svg"))
            print(f"Wrote docs/figures/{name}.svg")


if __name__ == "__main__":
    main()
