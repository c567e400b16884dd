"""All samples in a compact form, so that every bar, bin and class of the page can list its samples.

A score becomes one 16-bit code: its cell among the 300, exactly the cell in which the sums count it, and one of 218
steps within the cell. The page adds cells up to bins, so it lists for a bin exactly the samples that the bin counts.
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin.metrics.binning import equal_width
from softkin.report.curves import CELLS
from softkin.report.data import ModelRows, RowsOfVariant

STEPS = 218  # per cell: 300 · 218 codes fit into 16 bits
BEST = 4  # classes to keep for each sample
MANY = 20_000  # samples; above this only the winning class is kept


def encoded(all_probabilities: Sequence[Tensor], labels: Tensor, ids: Tensor | Sequence[str] | None) -> ModelRows:
    """Labels, ids, and for each variant the best classes of each row with their scores.

    A variant's ``best`` is None if it ranks the classes as the first variant does, as after temperature scaling.
    """
    n, k = all_probabilities[0].shape
    most = min(BEST if n <= MANY else 1, k)
    variants: list[RowsOfVariant] = []
    first: Tensor | None = None
    for p in all_probabilities:
        top = p.topk(most, dim=1)
        same = first is not None and torch.equal(first, top.indices)
        first = top.indices if first is None else first
        variants.append(
            {
                "best": None if same else packed(top.indices.numpy()),
                "score": packed(codes(top.values)),
            }
        )
    return {
        "count": n,
        "most": most,
        "steps": STEPS,
        "label": packed(labels.numpy()),
        "ids": _plain_ids(ids),
        "variants": variants,
    }


def codes(scores: Tensor) -> NDArray[np.int64]:
    """218 times the cell of each score, plus its step within the cell."""
    s = scores.to(torch.float64)
    edges = equal_width(CELLS).edges.to(torch.float64)
    cell = (torch.searchsorted(edges, s.contiguous(), side="left") - 1).clamp_(0, CELLS - 1)
    within = ((s - edges[cell]) * CELLS * STEPS).floor_().clamp_(0, STEPS - 1)
    return (cell * STEPS + within.to(torch.int64)).numpy()


def packed(values: NDArray[Any]) -> str:
    """Base64 of little-endian 16-bit numbers, which suffice for the classes of a page and the nodes of its tree."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<u2").tobytes()).decode("ascii")


def _plain_ids(ids: Tensor | Sequence[str] | None) -> list[Any] | None:
    if isinstance(ids, Tensor):
        return None if torch.equal(ids, torch.arange(len(ids))) else list(ids.tolist())
    return None if ids is None else list(ids)
