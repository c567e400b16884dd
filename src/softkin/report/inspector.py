"""An inspection of a similarity → the data of its page, and its picture."""

from typing import TYPE_CHECKING

import numpy as np

from softkin import __version__
from softkin.report import data, matrix, mistakes
from softkin.report.data import InspectionPage, LearnedPair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from softkin._core.figures import Figure
    from softkin.audition.inspection import Inspection

LEGIBLE = 300  # classes whose names fit into a picture
DRAWN = 600  # leaves of the largest dendrogram that a page draws


def build_inspection(seen: "Inspection", distances: "Tensor", *, beta: float | None) -> InspectionPage:
    """Everything that the page of a similarity shows.

    Args:
        seen: The result of ``inspection.inspect``.
        distances: D, (K, K), from which the similarity was made.
        beta: The β it was made with; None if ``distances`` are minus the logarithm of the similarity itself.

    Returns:
        Plain data for ``report.write``.
    """
    content = matrix.encoded(
        distances,
        num_classes=len(seen.class_names),
        source=seen.source,
        alpha=seen.alpha,
        beta=1.0 if beta is None else beta,
        asymmetric=True,
    )
    rows = [seen.row(k, top=3) for k in range(len(seen.class_names))]
    return {
        "format": "softkin report",
        "version": data.VERSION,
        "kind": "similarity",
        "softkin": __version__,
        "name": "Class similarity",
        "source": seen.source,
        "num_classes": len(seen.class_names),
        "class_names": mistakes.display_names(seen.class_names, len(seen.class_names)),
        "similarity": {**content, "order": seen.order, "as_it_is": beta is None},
        "merges": [list(merge) for merge in seen.merges] if len(seen.class_names) <= DRAWN else [],
        "oddities": [{"kind": oddity.kind, "k": oddity.k, "words": oddity.words} for oddity in seen.oddities],
        "closest": _closest(seen),
        "rows": [
            {key: row[key] for key in ("entropy", "effective_classes", "uniform_epsilon_entropy")} for row in rows
        ],
        "uniform_epsilon": rows[0]["uniform_epsilon"],
        "fixes": dict(seen.about.get("fixes", {})),
        "learned": _learned(seen.about.get("learned", ())),
    }


CLOSEST = 5
FOLLOWED = 8  # pairs whose way through the epochs is drawn


def _learned(epochs: "Sequence[Sequence[Sequence[float]]]") -> list[LearnedPair]:
    """The leading pairs of the last epoch, with their shares in all epochs."""
    shares = [{(int(a), int(b)): float(share) for a, b, share in pairs} for pairs in epochs]
    last = list(shares[-1])[:FOLLOWED] if shares else []
    return [{"a": a, "b": b, "shares": [epoch.get((a, b)) for epoch in shares]} for a, b in last]


def _closest(seen: "Inspection") -> list[list[float]]:
    """The pairs of classes with the largest mean similarity of both directions."""
    values = seen.values.double()
    both = ((values + values.T) / 2).triu(diagonal=1)
    top = both.flatten().topk(min(CLOSEST, len(values) * (len(values) - 1) // 2))
    places = (divmod(place, len(values)) for place in top.indices.tolist())
    return [[float(a), float(b), round(value, 6)] for (a, b), value in zip(places, top.values.tolist(), strict=True)]


def picture(seen: "Inspection") -> bytes:
    """Heat map and dendrogram as a PNG with legible class names; without names above 300 classes."""
    from softkin._core.figures import own_settings, rendered

    with own_settings():
        return rendered(_drawn(seen), metadata={"Software": f"softkin {__version__}"})


def _drawn(seen: "Inspection") -> "Figure":
    from matplotlib.colors import LogNorm
    from scipy.cluster.hierarchy import dendrogram

    from softkin._core.figures import Figure

    k = len(seen.class_names)
    legible = k <= LEGIBLE
    side = max(3.0, 0.12 * k) if legible else 12.0
    figure = Figure(figsize=(side * 1.25 + 2.2, side + 1.6), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(0.25, 1))
    if seen.merges:
        counts: dict[int, int] = {}
        lines = []
        for place, (first, second, height) in enumerate(seen.merges):
            counts[k + place] = counts.get(first, 1) + counts.get(second, 1)
            lines.append((first, second, height, counts[k + place]))
        dendrogram(np.array(lines, dtype=float), orientation="left", ax=left, no_labels=True, color_threshold=0)
        left.invert_yaxis()
    left.axis("off")
    shown = seen.values[seen.order][:, seen.order].numpy().copy()
    np.fill_diagonal(shown, np.nan)
    high = float(np.nanmax(shown))
    low = max(float(np.nanmin(shown)), high * 1e-4)
    norm = LogNorm(low, high) if high > low > 0 else None
    image = right.imshow(np.maximum(shown, low), norm=norm, cmap="Blues", aspect="auto", interpolation="nearest")
    if legible:
        # No mathtext: a name may hold dollar signs.
        names = [_short(seen.class_names[j]).replace("$", r"\$") for j in seen.order]
        right.set_xticks(range(k), names, rotation=90, fontsize=7)
        right.set_yticks(range(k), names, fontsize=7)
    else:
        right.set_xticks([])
        right.set_yticks([])
    right.set_title("similarity of each class (line) to the others", fontsize=9)
    figure.colorbar(image, ax=right, fraction=0.03, pad=0.01, label="share of the similarity of a line")
    return figure


def _short(name: str, most: int = 24) -> str:
    printable = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    return printable if len(printable) <= most else f"{printable[: most - 1]}…"
