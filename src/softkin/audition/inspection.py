"""Inspect a similarity: the label of each class, groups of classes, and suspicious rows; and correct it.

All results are plain data, from which ``softkin similarity show`` makes its text, page, picture and JSON.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError, distances, similarity, smoothing
from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import did_you_mean
from softkin._io import tables
from softkin.distances import name_doubts

DOMINATES = 0.5  # share of α on one class above which it dominates
ALONE = 0.1  # fraction of the even share: a class that gets less from the others is unlike all of them
DISAGREES = 0.35  # share of the other classes that another source ranks nearer than a row's three nearest
RARE = 0.25  # share of rows: if one class dominates in more, that is how sharp β is, and no row stands out
NEAREST = 3  # classes of a row that are compared with other sources
MANY_MEANINGS = 5  # kinds of things: a name of so many may be meant otherwise, though its neighbours are of one
KINDS = ("disagreement", "dominated", "alone")
MOST_CLUSTERED = 3000  # classes: average linkage needs K² memory and time


@dataclass(frozen=True)
class Oddity:
    """A row that looks wrong, and why."""

    kind: str
    """"dominated", "alone" or "disagreement\""""
    k: int
    words: str


@dataclass(frozen=True)
class Inspection:
    """A similarity, its labels, and rows that look wrong."""

    values: Tensor
    """S, (K, K)"""
    class_names: list[str]
    alpha: float
    source: str
    oddities: list[Oddity]
    order: list[int]
    """Class numbers, ordered so that similar classes are adjacent"""
    merges: list[tuple[int, int, float]]
    """Merges of average linkage: two clusters and the height at which they join; clusters below K are classes"""
    about: Mapping[str, Any] = field(default_factory=dict)

    def row(self, k: int, *, top: int = 10) -> dict[str, Any]:
        """A description of one class.

        - ``entropy``: the entropy of s_k in nats; its exponential, ``effective_classes``, counts those that share α
        - ``uniform_epsilon``: the ε of ``label_smoothing=ε`` with the same mass on other classes
        - ``uniform_epsilon_entropy``: the ε whose uniform label has the same entropy as this label
        """
        s = self.values[k]
        order = torch.argsort(s, descending=True, stable=True)[: min(top, len(s) - 1)].tolist()
        entropy = float(torch.special.entr(s).sum())
        label = self.alpha * s
        label[k] = 1 - self.alpha
        return {
            "name": self.class_names[k],
            "label": 1 - self.alpha,
            "nearest": [
                {"name": self.class_names[j], "similarity": float(s[j]), "label": float(label[j])}
                for j in order
                if j != k
            ],
            "entropy": entropy,
            "effective_classes": math.exp(entropy),
            "uniform_epsilon": self.alpha * len(s) / (len(s) - 1),
            "uniform_epsilon_entropy": equivalent_epsilon(label),
        }

    def to_dict(self, *, top: int = 10) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "source": self.source,
            "alpha": self.alpha,
            "classes": [self.row(k, top=top) for k in range(len(self.class_names))],
            "order": self.order,
            "merges": [list(merge) for merge in self.merges],
            "oddities": [
                {"kind": oddity.kind, "class": self.class_names[oddity.k], "words": oddity.words}
                for oddity in self.oddities
            ],
            "about": dict(self.about),
        }


def equivalent_epsilon(label: Tensor) -> float:
    """The ε for which (1−ε)·one-hot + ε/K has the entropy of ``label`` (K,); 1 if there is none."""
    from scipy.optimize import brentq

    k = len(label)
    entropy = float(torch.special.entr(label).sum())
    if entropy <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        own, other = 1 - epsilon + epsilon / k, epsilon / k
        return -own * math.log(own) - (k - 1) * other * math.log(other) - entropy

    return 1.0 if entropy >= math.log(k) - 1e-12 else float(brentq(excess, 1e-15, 1.0))


def inspect(
    values: Array,
    class_names: Sequence[str],
    *,
    alpha: float = 0.1,
    source: str = "",
    others: Mapping[str, Array] | None = None,
    kinds: Sequence[int] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Inspection:
    """Inspect a similarity for rows that look wrong.

    The kinds of suspicious rows are

    - "dominated": one class takes more than half of α, and no other source has it among the five
      nearest (among the nearest quarter of fewer than 21 classes); without another source only if at most a quarter
      of the rows are like that,
    - "alone": all other classes together give this class less than a tenth of an even share, so it is unlike them all,
    - "disagreement": the three nearest classes are far in every other source, as for a name with several meanings.

    Where ``kinds`` are given, neighbours of the same kind need no other source: one that dominates, or all three.

    Args:
        values: S, (K, K).
        class_names: K names.
        alpha: α of the labels.
        source: A description of the origin of S.
        others: Distances (K, K) of the same classes from other sources, by name.
        kinds: Of each class the kinds of things that it may be (``name_doubts.kinds_of_things``), a bit for each.
        about: Further content of the file of S.
    """
    s = checks.square(values, "values")
    checks.rows_sum_to_one(s, "values")
    names = checks.class_names(class_names, num_classes=len(s))
    smoothing.similarity_labels(s, alpha)  # refuses an invalid similarity
    merges = _linkage(s)
    return Inspection(
        s,
        names,
        checks.alpha(alpha),
        source,
        _oddities(s, names, others or {}, kinds),
        _leaves(merges, len(s)),
        merges,
        about or {},
    )


def _oddities(s: Tensor, names: list[str], others: Mapping[str, Array], kinds: Sequence[int] | None) -> list[Oddity]:
    k = len(s)

    def alike(row: int, other: int) -> bool:
        return kinds is not None and kinds[row].bit_count() < MANY_MEANINGS and bool(kinds[row] & kinds[other])

    odd: list[Oddity] = []
    if k < 3:
        return odd
    apart = {name: checks.square(d, f"others[{name!r}]").fill_diagonal_(float("inf")) for name, d in others.items()}
    agreed = name_doubts.near_count(k)  # so many nearest classes of another source are no surprise
    most, nearest = s.max(dim=1)
    dominated = (most > DOMINATES).nonzero()[:, 0].tolist()
    for row in dominated if apart or len(dominated) <= RARE * k else []:
        neighbour = int(nearest[row])
        if alike(row, neighbour) or any(int((d[row] < d[row, neighbour]).sum()) < agreed for d in apart.values()):
            continue
        words = f"{names[neighbour]!r} takes {float(most[row]):.2f} of the α of {names[row]!r}"
        if apart:
            place = "the nearest" if agreed == 1 else f"among the nearest {agreed}"
            words += f", but is not {place} by {' or '.join(apart)}"
        odd.append(Oddity("dominated", row, words))
    received = s.sum(dim=0)
    for row in (received < ALONE).nonzero()[:, 0].tolist():
        words = (
            f"no class is much like {names[row]!r}: together they give it {float(received[row]):.2f} of an even share"
        )
        odd.append(Oddity("alone", row, words))
    if apart and k > 2 * NEAREST:
        places = s.topk(NEAREST, dim=1).indices
        seen = {}
        for name, d in apart.items():
            closer = (d[:, None, :] < d.gather(1, places)[:, :, None]).sum(dim=2) if k <= 500 else _closer(d, places)
            seen[name] = closer.double().mean(dim=1) / (k - 2)
        least = torch.stack(list(seen.values())).amin(dim=0)
        for row in torch.argsort(least, descending=True).tolist():
            if float(least[row]) <= DISAGREES:
                break
            if all(alike(row, j) for j in places[row].tolist()):
                continue
            listed = ", ".join(repr(names[j]) for j in places[row].tolist())
            words = (
                f"{names[row]!r} is nearest to {listed}, and {' and '.join(seen)} "
                f"{'sees' if len(seen) == 1 else 'see'} {100 * float(least[row]):.0f} % of the classes as nearer: "
                "does its name have another meaning?"
            )
            odd.append(Oddity("disagreement", row, words))
    return sorted(odd, key=lambda oddity: KINDS.index(oddity.kind))  # the most certain problems first


def _closer(d: Tensor, places: Tensor) -> Tensor:
    """(K, m) number of classes that are nearer than each of ``places``, computed row by row."""
    return torch.stack([(line < line[near][:, None]).sum(dim=1) for line, near in zip(d, places, strict=True)])


def other_sources(
    class_names: Sequence[str | Sequence[str]], *, vectors: Any = None, aliases: Mapping[str, str] | None = None
) -> dict[str, Tensor]:
    """Distances from softkin's word vectors that know all names, other than ``vectors``."""
    return {
        name: torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
        for name, rows in name_doubts.elsewhere(class_names, vectors, aliases or {}).items()
    }


def _linkage(s: Tensor) -> list[tuple[int, int, float]]:
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    if not 3 <= len(s) <= MOST_CLUSTERED:
        return []
    alike = (s + s.T).numpy()
    apart = -np.log(np.maximum(alike, alike.max() * 1e-12))
    apart -= apart.min()
    np.fill_diagonal(apart, 0)
    merges = linkage(squareform(apart, checks=False), "average", optimal_ordering=len(s) <= 500)
    return [(int(first), int(second), float(height)) for first, second, height, _ in merges]


def _leaves(merges: list[tuple[int, int, float]], k: int) -> list[int]:
    """The classes in dendrogram order."""
    if not merges:
        return list(range(k))
    order: list[int] = []
    waiting = [k + len(merges) - 1]
    while waiting:
        node = waiting.pop()
        if node < k:
            order.append(node)
        else:
            first, second, _ = merges[node - k]
            waiting += [second, first]
    return order


# Corrections

Fixes = Mapping[str, Sequence[str]]
"""A mapping from a class to the classes that it is like"""


def parse_fix(text: str) -> tuple[str, list[str]]:
    """A class and the classes that it is like: "fox=wolf,dog" is ("fox", ["wolf", "dog"])."""
    name, equals, rest = text.partition("=")
    like = [part.strip() for part in rest.split(",") if part.strip()]
    if not equals or not name.strip() or not like:
        raise ValueError(f"a correction must be CLASS=LIKE,LIKE…, got {text!r}.")
    return name.strip(), like


def read_fixes(path: str | Path) -> dict[str, list[str]]:
    """Corrections from a CSV file without a header: each row has a class and the classes that it is like."""
    fixes: dict[str, list[str]] = {}
    for line, cells in tables.read_cells(path, "CSV"):
        row = [cell.strip() for cell in cells if cell.strip()]
        if row and [cell.lower() for cell in row[:2]] == ["class", "like"] and line == 1:
            continue
        if len(row) == 1:
            raise SoftkinError(
                f"{path}, line {line} must hold a class and the classes that it is like, got {row[0]!r}."
            )
        if row:
            fixes[row[0]] = row[1:]
    return fixes


def fixed(matrix: Array, class_names: Sequence[str], fixes: Fixes) -> Tensor:
    """Corrected distances: a class becomes as far from the rest as the classes that it is like are on average.

    With T the classes that class k should be like, d(k, j) and d(j, k) become the means of d(t, j) and d(j, t) over t
    in T. The distance of k to t in T becomes the smallest distance of t to any class, or of k to the classes outside T
    if that is smaller, so that no class outside T is nearer to k than those of T.

    Args:
        matrix: D, (K, K).
        class_names: K names.
        fixes: A mapping from a class to the classes that it is like.
    """
    d = checks.square(matrix, "matrix", without_diagonal=True)
    place = {name: k for k, name in enumerate(class_names)}
    for name, like in fixes.items():
        for word in (name, *like):
            if word not in place:
                raise ValueError(f"a correction names {word!r}, which is not a class{did_you_mean(word, place)}")
        k, others = place[name], [place[word] for word in like]
        if k in others:
            raise ValueError(f"a correction must not make {name!r} like itself.")
        rest = torch.tensor([j for j in range(len(d)) if j != k and j not in others], dtype=torch.int64)
        t = torch.tensor(others)
        without = d.clone().fill_diagonal_(float("inf"))
        without[:, k] = without[k] = float("inf")
        d[k, rest], d[rest, k] = d[t][:, rest].mean(dim=0), d[rest][:, t].mean(dim=1)
        d[k, t], d[t, k] = without[t].amin(dim=1), without[:, t].amin(dim=0)
        if len(rest):
            d[k, t], d[t, k] = d[k, t].clamp(max=d[k, rest].min()), d[t, k].clamp(max=d[rest, k].min())
    return d.fill_diagonal_(0)


def fixed_similarity(values: Array, class_names: Sequence[str], fixes: Fixes) -> Tensor:
    """Corrected similarity, like ``fixed`` for distances; its rows keep their sharpness."""
    d = fixed(distances.from_similarity(values), class_names, fixes)
    return torch.softmax((-d).fill_diagonal_(-float("inf")), dim=1)


def in_words(fixes: Fixes) -> str:
    """Corrections in the form in which they are typed."""
    return "; ".join(f"{name}={','.join(like)}" for name, like in fixes.items())


def of_measured(
    measured: distances.ClassDistances,
    class_names: Sequence[str],
    beta: float,
    fixes: Fixes,
    *,
    asymmetric: bool = False,
) -> tuple[Tensor, Tensor]:
    """(D, S) of a source's measurement, after corrections."""
    if measured.similarity is not None:
        s = fixed_similarity(measured.similarity, class_names, fixes) if fixes else measured.similarity
        return distances.from_similarity(s), s
    d = fixed(measured.matrix, class_names, fixes) if fixes else measured.matrix
    return d, similarity.from_distances(d, beta, asymmetric=asymmetric or measured.asymmetric)
