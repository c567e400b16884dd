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


FIGURES = {"audition": (audition, (6.4, 3.8)), "answers": (answers, (6.8, 2.8)), "gaps": (gaps, (6.4, 2.6))}


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
