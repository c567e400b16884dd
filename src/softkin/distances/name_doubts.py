"""Sentences about what looks wrong in the similarity of named classes, each with a remedy."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin.distances.words import aliases_of_words, class_vectors, known_names, tokens
from softkin.similarity import SparseRows
from softkin.word_vectors import SHIPPED, WordVectors, opened

FEW = 4  # classes: up to here the normalisation makes every row extreme, whatever the distances
CALM = 0.5  # of the largest possible entropy, ln(K−1): the least that a row of so few classes should have
SHARP = 0.5  # of α: a nearest class that takes more must be near in another source
NEAREST = 5  # classes that count as near in another source, but at most a quarter of the others


def doubts(
    class_names: Sequence[str | Sequence[str]],
    similarity: Tensor | SparseRows,
    beta: float | str,
    *,
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    aliases: Mapping[str, str] | None = None,
) -> list[str]:
    """Doubts about a similarity that was made from class names.

    Of three or four classes each row's distances are normalised to mean 0 and deviation 1, so its two or three entries
    are always far apart. A row is too sharp if its entropy is below half of ln(K−1). Nearest classes that other sources
    do not confirm are looked for on request only (``disagreement``).

    Args:
        class_names: The names, as for ``from_words``.
        similarity: The similarity made from them by ``similarity.from_distances`` or ``from_vectors``.
        beta: Its β; a text if data decided it, in which case sharpness is not doubted.
        vectors: The vectors in which ``class_names`` were looked up.
        aliases: Words, each with the word that was looked up instead.

    Returns:
        The sentences; an empty list if there is no doubt.
    """
    sharp = "" if isinstance(beta, str) else too_sharp(similarity, beta)
    return [sharp] if sharp else []


def too_sharp(similarity: Tensor | SparseRows, beta: float) -> str:
    """The sentence about three or four classes, if a row is too sharp."""
    count = len(similarity)
    if not 3 <= count <= FEW or beta == 0:
        return ""
    dense = similarity.dense() if isinstance(similarity, SparseRows) else similarity

    def calm(at: float) -> bool:
        rows = torch.softmax(dense.log() * (at / beta), dim=1)  # as each row is a softmax of −β times its distances
        return bool((torch.special.entr(rows).sum(dim=1) >= CALM * math.log(count - 1)).all())

    if calm(beta):
        return ""
    milder = next((at for at in (2.0, 1.5, 1.25, 1.0, 0.75, 0.5) if at < beta and calm(at)), 0.25)
    return (
        f"with {count} classes normalised distances are always extreme: at beta={beta:g} the nearest class takes up to "
        f"{float(dense.max()):.2f} of alpha, however near it is; beta={milder:g} keeps the labels milder."
    )


def disagreement(
    class_names: Sequence[str | Sequence[str]],
    similarity: Tensor | SparseRows,
    *,
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    aliases: Mapping[str, str] | None = None,
) -> str:
    """The sentence about nearest classes that are near in one source only, if there are any; see ``unconfirmed``."""
    names = [name if isinstance(name, str) else next(iter(name)) for name in class_names]
    doubtful = [
        f"{names[j]!r} for {names[k]!r}"
        for k, j in unconfirmed(class_names, similarity, vectors=vectors, aliases=aliases)
    ]
    if not doubtful:
        return ""
    shown = ", ".join(doubtful[:5]) + (f" and {len(doubtful) - 5} more" if len(doubtful) > 5 else "")
    return (
        "more than half of alpha goes to a nearest class that is near neither in WordNet nor in other word vectors: "
        f"{shown}; if that is wrong, say what is meant with `aliases` (--alias), or lower beta."
    )


def unconfirmed(
    class_names: Sequence[str | Sequence[str]],
    similarity: Tensor | SparseRows,
    *,
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    aliases: Mapping[str, str] | None = None,
) -> list[tuple[int, int]]:
    """(class, nearest class) where the nearest takes more than half of α, although no other source sees them as near.

    The other sources are WordNet, where the two names may stand for things of one kind (animal, artifact, food,
    plant, …), and the other vectors that come with softkin, where the nearest should be among the first five (of fewer
    than 21 classes among the first quarter). A source that does not know both names is not used.

    It is right too rarely to be said unasked: of 317 such neighbours of 13 lists of classes, judged by hand, 39 are
    wrong, and it finds 7 of them with 9 false alarms (``benchmarks/neighbours.py``).
    """
    aliases = aliases or {}
    if isinstance(similarity, SparseRows):
        most, place = similarity.values.max(dim=1)
        nearest = similarity.indices.gather(1, place[:, None])[:, 0]
    else:
        most, nearest = similarity.max(dim=1)
    names = [name if isinstance(name, str) else next(iter(name)) for name in class_names]
    if len(names) < 3:
        return []
    wordnet = kinds_of_things(names, aliases)
    suspects = [
        (k, int(nearest[k]))
        for k in (most > SHARP).nonzero()[:, 0].tolist()
        if not wordnet[k] & wordnet[int(nearest[k])]  # also if WordNet does not know one of the two
    ]
    if not suspects:
        return []
    others = _partly_known(class_names, vectors, aliases)
    doubtful = []
    for k, j in suspects:
        opinions = [False] if wordnet[k] and wordnet[j] else []
        opinions += [_is_near(rows, row_of[k], row_of[j]) for row_of, rows in others if k in row_of and j in row_of]
        if opinions and not any(opinions):
            doubtful.append((k, j))
    return doubtful


def kinds_of_things(names: Sequence[str], aliases: Mapping[str, str]) -> list[int]:
    """A bit for each kind of thing (animal, plant …) that a name may mean in WordNet.

    If WordNet does not know the whole name, its last word counts ("oak tree": a tree).
    """
    shipped = WordVectors.shipped()
    lower = aliases_of_words(aliases)
    kinds = []
    for name in names:
        words = tokens(lower.get(name.lower(), name))
        words = [part for word in words for part in tokens(lower.get(word, word))]
        kinds.append(shipped.categories(" ".join(words)) or shipped.categories(words[-1] if words else ""))
    return kinds


def elsewhere(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None,
    aliases: Mapping[str, str],
) -> dict[str, Tensor]:
    """The class vectors at unit length in the shipped sets other than ``vectors`` that know all names, by set."""
    return {
        name: _directions(class_names, other, aliases)
        for name, other in _other_sets(vectors).items()
        if len(known_names(class_names, other, aliases=aliases)) == len(class_names)
    }


def _partly_known(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None,
    aliases: Mapping[str, str],
) -> list[tuple[dict[int, int], Tensor]]:
    """For each other shipped set, the row of each class that it knows, and the rows; at least 3, to have a nearest."""
    sets = []
    for other in _other_sets(vectors).values():
        known = known_names(class_names, other, aliases=aliases)
        if len(known) >= 3:
            rows = _directions([class_names[k] for k in known], other, aliases)
            sets.append(({k: row for row, k in enumerate(known)}, rows))
    return sets


def _other_sets(vectors: WordVectors | Mapping[str, Any] | str | Path | None) -> dict[str, WordVectors]:
    own = opened(vectors)
    return {name: other for name in SHIPPED if (other := WordVectors.shipped(name)) is not own}


def _directions(class_names: Sequence[str | Sequence[str]], vectors: WordVectors, aliases: Mapping[str, str]) -> Tensor:
    return torch.nn.functional.normalize(class_vectors(class_names, vectors, aliases=aliases), dim=1)


def _is_near(rows: Tensor, k: int, j: int) -> bool:
    """Whether row j is among those that count as near to row k."""
    gaps = (rows - rows[k]).norm(dim=1)
    gaps[k] = float("inf")
    return int((gaps < gaps[j]).sum()) < near_count(len(rows))


def near_count(num_classes: int) -> int:
    """How many of a class's nearest classes in another source confirm that they are near."""
    return max(1, min(NEAREST, (num_classes - 1) // 4))
