"""Class images, features or names → how far apart the classes are.

Each function returns D, a (K, K) float64 tensor on the CPU: row and column k are class k, and larger is less
alike. ``similarity.from_distances`` turns it into what the labels need; the units cancel there.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from softkin import checks, matrices, ranks
from softkin.checks import Array
from softkin.distances import histograms, pairs, samples, words
from softkin.distances.autoencoder import AutoencoderFit
from softkin.distances.autoencoder import fit as fit_autoencoder
from softkin.matrices import ClassMatrix
from softkin.word_vectors import WordVectors

__all__ = [
    "AutoencoderFit",
    "ClassMatrix",
    "WordVectors",
    "from_autoencoder",
    "from_features",
    "from_images",
    "from_words",
    "load",
    "name_vectors",
    "read",
    "save",
]

Batches = DataLoader[Any] | Iterable[tuple[Any, Any]]

MAX_LEVELS = 2**16
PAIRS = 16  # multiply-adds of a matrix product that take as long as one |x − x'| (measured: 10 to 25)


@torch.no_grad()
def from_images(
    images: Array | Batches,
    labels: Array | None = None,
    *,
    p: Literal[1, 2] = 1,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    levels: int | None = None,
    value_range: tuple[float, float] | None = None,
    max_per_class: int | None = None,
    seed: int = 0,
    return_error: bool = False,
    num_samples: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    r"""Mean L_p distance between the images of two classes, exactly, over all pairs.

    With :math:`C_k` the :math:`n_k` images of class k,

    .. math:: d(k, k') = \frac{1}{n_k n_{k'}} \sum_{x \in C_k} \sum_{x' \in C_{k'}} \|x - x'\|_p

    in the images' own units. The diagonal is the same mean over all :math:`n_k^2` pairs, an image with itself
    being 0. The layout of the images does not matter (N, …), as long as it is the same for all.

    Cost: L1 of bytes, and of floats that take at most 4,096 distinct values (bytes divided by 255, or normalised),
    takes N·D + K²·D·levels steps and no pairs (``softkin.distances.histograms``). L2, and L1 of other floats, take
    N²·D/2, in float64 where that is small and in float32 with float64 sums where it is not
    (``softkin.distances.pairs``). Float64 images are computed in float64. Memory beside the images stays under
    1 GiB; work runs on the images' device (on the CPU for MPS, which has no float64).

    Streams: without ``labels``, ``images`` is a DataLoader or any iterable of (images, labels) batches, read once.
    L1 of bytes, of floats with few distinct values, or with ``levels``, keeps only the histograms (K·D·levels·4 bytes,
    at most 4 GiB); L2 and L1 of other floats keep the samples.

    Several processes: under an initialised ``torch.distributed`` group each rank brings its shard and every rank
    gets the same matrix. The samples that a ``DistributedSampler`` repeats are left out; a loader that brings more
    samples than its data set has is refused, and so are arrays if ``num_samples`` is given.

    Args:
        images: (N, …) numbers, or batches that carry their labels.
        labels: (N,) integers from 0 to K−1, in any order.
        p: 1 or 2.
        num_classes: K, where it is not the largest label plus one.
        class_names: For messages only, and for K.
        levels: L1 of floats with at least that many distinct values: round to this many equal steps first. With
            step s = (high − low)/(levels − 1) no entry of the result moves by more than D·s, D the values an image.
        value_range: (low, high) of ``levels``; found in the images if not given, but a stream must state it.
        max_per_class: Use a random sample of this many images of each class, without replacement.
        seed: Of that sample.
        return_error: Also return each entry's standard error, (K, K); 0 without ``max_per_class``.
        num_samples: The size of the whole data set, so that duplicates from several ranks are noticed.
        progress: Show a bar; by default on a terminal, for work longer than a second.

    Returns:
        D, or (D, standard errors). With a sample of m of a class's n images, m' of n', and a, b the row and column
        means of the sampled distances, SE² = (1 − m/n)·s_a²/m + (1 − m'/n')·s_b²/m'. The diagonal uses each pair of
        different images once, which makes it unbiased, and SE² = (1 − m/n)·4·s_a²/m·(m − 1)²/(m − 2)² (the jackknife;
        NaN for m = 2), both times the share (n − 1)/n of pairs that are not self-pairs.

    Example:
        >>> images = torch.tensor([[[0, 0]], [[2, 0]], [[0, 5]]], dtype=torch.uint8)
        >>> from_images(images, torch.tensor([0, 0, 1]))
        tensor([[1., 6.],
                [6., 0.]], dtype=torch.float64)

    References:
        Liu and JaJa, Class-Similarity Based Label Smoothing for Confidence Calibration, 2021, Sec. 5.1.
    """
    if p not in (1, 2):
        raise ValueError(f"`p` must be 1 or 2, got {p!r}.")
    if levels is not None:
        if p != 1:
            raise ValueError("`levels` must be left out for p=2: only L1 distances can be counted by levels.")
        if checks.count(levels, "levels", least=2) > MAX_LEVELS:
            raise ValueError(f"`levels` must be at most {MAX_LEVELS}, got {levels}.")
    if value_range is not None:
        low, high = value_range
        if levels is None:
            raise ValueError("`value_range` must come with `levels`, which it is the range of.")
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"`value_range` must be finite (low, high) with low < high, got {value_range}.")
    source = samples.open_source(
        images,
        labels,
        name="images",
        num_classes=num_classes,
        class_names=class_names,
        num_samples=num_samples,
        progress=progress,
    )
    if max_per_class is None and p == 1 and (not source.in_memory or ranks.world()[1] > 1):
        source, start = samples.peek(source)
        scale = _scale(start.dtype, levels, value_range)
        values = histograms.few(start) if scale is None else None
        if scale is not None or values is not None:
            sums, counts = histograms.stream_sums(source, scale, values)
            return _means(sums, counts, counts, None, return_error)
    return _from_samples(source, p, levels, value_range, max_per_class, seed, return_error, progress)


@torch.no_grad()
def from_features(
    features: Array | Batches,
    labels: Array | None = None,
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    max_per_class: int | None = None,
    seed: int = 0,
    return_error: bool = False,
    num_samples: int | None = None,
    progress: bool | None = None,
) -> Tensor:
    """Mean L2 distance between the feature vectors of two classes, exactly, over all pairs.

    ``from_images`` with p = 2 over any vectors: a trained model's penultimate layer, an autoencoder's codes, text
    embeddings. All options, streams and processes work as there.

    Args:
        features: (N, …) numbers, or batches that carry their labels.
        labels: (N,) integers from 0 to K−1, in any order.
        num_classes: K, where it is not the largest label plus one.
        class_names: For messages only, and for K.
        max_per_class: Use a random sample of this many rows of each class, without replacement.
        seed: Of that sample.
        return_error: Also return each entry's standard error, (K, K).
        num_samples: The size of the whole data set, so that duplicates from several ranks are noticed.
        progress: Show a bar; by default on a terminal, for work longer than a second.

    Returns:
        D, or (D, standard errors).

    Example:
        >>> from_features(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 1]))
        tensor([[0., 5.],
                [5., 0.]], dtype=torch.float64)
    """
    source = samples.open_source(
        features,
        labels,
        name="features",
        num_classes=num_classes,
        class_names=class_names,
        num_samples=num_samples,
        progress=progress,
    )
    return _from_samples(source, 2, None, None, max_per_class, seed, return_error, progress)


@overload
def from_autoencoder(
    images: Array,
    labels: Array,
    *,
    latent_dim: int | None = None,
    seed: int = 0,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    channels: Literal["first", "last"] | None = None,
    max_epochs: int = 100,
    patience: int = 3,
    batch_size: int = 64,
    device: str | torch.device | None = None,
    progress: bool | None = None,
    return_details: Literal[False] = False,
) -> Tensor: ...


@overload
def from_autoencoder(
    images: Array,
    labels: Array,
    *,
    latent_dim: int | None = None,
    seed: int = 0,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    channels: Literal["first", "last"] | None = None,
    max_epochs: int = 100,
    patience: int = 3,
    batch_size: int = 64,
    device: str | torch.device | None = None,
    progress: bool | None = None,
    return_details: Literal[True],
) -> tuple[Tensor, AutoencoderFit]: ...


def from_autoencoder(
    images: Array,
    labels: Array,
    *,
    latent_dim: int | None = None,
    seed: int = 0,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    channels: Literal["first", "last"] | None = None,
    max_epochs: int = 100,
    patience: int = 3,
    batch_size: int = 64,
    device: str | torch.device | None = None,
    progress: bool | None = None,
    return_details: bool = False,
) -> Tensor | tuple[Tensor, AutoencoderFit]:
    """Mean L2 distance between the latent codes r(x) of two classes' samples, over all pairs.

    An autoencoder (``models.autoencoder``: convolutional for images, dense for vectors) learns to reconstruct the
    samples, standardised channel by channel, with least squared error. A tenth of them is held out: when the error on
    those has not fallen for ``patience`` epochs, training goes on at a tenth of the rate from the best weights, and
    when that happens again it stops, with the best weights. Pass training rows only. The same seed gives the same
    result on the same machine and number of threads.

    The reconstruction error on the held-out rows stands beside that of PCA with as many dimensions, from which training
    starts. Where it does not beat PCA a warning says so (with ``return_details`` the details do), and the distances are
    those of PCA's codes.

    Args:
        images: (N, height, width, channels), (N, channels, height, width), (N, height, width) with 8 to 64 pixels a
            side, or (N, D) vectors; N ≥ 20.
        labels: (N,) integers from 0 to K−1, in any order.
        latent_dim: Length of a code; by default a twelfth of the values of a sample, which is the paper's 256 for 32×32
            pixels in colour and 1024 for 64×64.
        seed: Of the initial weights, the held-out rows and the order of training.
        num_classes: K, where it is not the largest label plus one.
        class_names: For messages only, and for K.
        channels: "first" or "last"; needed only where the shape does not tell.
        max_epochs: Where to stop at the latest.
        patience: Epochs without improvement.
        batch_size: Of training.
        device: Where to train, such as "cuda"; the CPU by default.
        progress: Show a bar; by default on a terminal.
        return_details: Also return the ``AutoencoderFit``: the trained model, both errors, epochs, seconds.

    Returns:
        D, or (D, details).

    References:
        Liu and JaJa, Class-Similarity Based Label Smoothing for Confidence Calibration, 2021, Sec. 5.2.
    """
    for value, name in ((max_epochs, "max_epochs"), (patience, "patience"), (batch_size, "batch_size")):
        checks.count(value, name)
    if latent_dim is not None:
        checks.count(latent_dim, "latent_dim")
    if ranks.world()[1] > 1:
        raise ValueError(
            "from_autoencoder must run in one process, as its ranks would each train another autoencoder; "
            "compute the distances before the process group starts."
        )
    checks.class_labels(labels, num_samples=len(images), num_classes=num_classes)
    details, codes = fit_autoencoder(
        images,
        latent_dim=latent_dim,
        seed=checks.count(seed, "seed", least=0),
        max_epochs=max_epochs,
        patience=patience,
        batch_size=batch_size,
        channels=channels,
        device=device,
        progress=progress,
    )
    matrix = from_features(codes, labels, num_classes=num_classes, class_names=class_names, progress=progress)
    if return_details:
        return matrix, details
    if not details.beats_pca:
        warnings.warn(str(details), stacklevel=2)
    return matrix


def _from_samples(
    source: samples.Source,
    p: int,
    levels: int | None,
    value_range: tuple[float, float] | None,
    max_per_class: int | None,
    seed: int,
    return_error: bool,
    progress: bool | None,
) -> Tensor:
    """Distances of samples that are brought into memory, all or some of each class."""
    if max_per_class is not None:
        checks.count(max_per_class, "max_per_class", least=2)
    chosen = samples.collect(source, max_per_class=max_per_class, seed=seed)
    with_rows = return_error and bool((chosen.drawn < chosen.population).any())
    scale = None
    if p == 1:
        if levels is not None and value_range is None:
            value_range = (float(chosen.rows.min()), float(chosen.rows.max()))
        scale = _scale(chosen.rows.dtype, levels, value_range) or histograms.distinct(chosen.rows)
        # Few samples of many classes: their pairs cost less than K² products of histograms. Both are exact.
        if (
            levels is None
            and scale is not None
            and len(chosen.drawn) ** 2 * scale.levels > PAIRS * len(chosen.rows) ** 2
        ):
            scale = None
    if scale is None:
        sums, rows = pairs.class_sums(chosen, p=p, with_rows=with_rows, progress=progress)
    else:
        sums, rows = histograms.class_sums(chosen, scale, with_rows=with_rows, progress=progress)
    return _means(sums, chosen.drawn, chosen.population, rows, return_error)


def _scale(dtype: torch.dtype, levels: int | None, value_range: tuple[float, float] | None) -> histograms.Scale | None:
    """The levels that are known from the type of number or the caller's word alone."""
    if dtype in (torch.uint8, torch.bool):
        if levels is not None:
            raise ValueError("`levels` must be left out for bytes: their 256 levels are counted exactly.")
        return histograms.BYTES
    if levels is None:
        return None
    if value_range is None:
        raise ValueError(
            "`value_range` must be given with `levels` for a stream or several processes, as none sees all values."
        )
    return histograms.steps(levels, *value_range)


def _means(sums: Tensor, drawn: Tensor, population: Tensor, rows: Tensor | None, return_error: bool) -> Tensor:
    """Class distances from sums over the drawn pairs, with standard errors if asked for.

    Args:
        sums: Over all ordered pairs of two classes' drawn samples, (K, K).
        drawn: m, how many samples of each class were used, (K,).
        population: n, how many there are, (K,).
        rows: Sums from each drawn sample, in class order, to the drawn samples of each class, (Σm, K).
        return_error: Return (distances, errors).
    """
    m, n = drawn.to(torch.float64), population.to(torch.float64)
    pairs_drawn = m[:, None] * m
    # Within a class: the mean over pairs of different samples, times their share (n−1)/n of all n² pairs.
    own = (m * (m - 1)).clamp(min=1) * n / (n - 1).clamp(min=1)
    pairs_drawn.diagonal().copy_(own)
    distances = sums / pairs_drawn
    distances = (distances + distances.T) / 2  # equal to the last bit, whatever the order of summation
    if not bool(torch.isfinite(distances).all()):
        raise ValueError(
            "the distances exceed the range of float64; divide the values by a constant, which cancels later."
        )
    if not return_error:
        return distances
    if rows is None:
        return distances, torch.zeros_like(distances)  # type: ignore[return-value]
    variance = torch.zeros_like(distances)  # [k, k'] of a, the mean distances of class k's samples to class k'
    for k, of_class in enumerate(rows.split(drawn.tolist())):
        to_others = m.clone()
        to_others[k] = own[k] / m[k]
        if len(of_class) > 1:
            variance[k] = (of_class / to_others).var(dim=0)
    part = ((1 - m / n) / m)[:, None] * variance
    squared = part + part.T
    # Within a class the same samples are rows and columns: 4 s²/m where the sum above has 2 s²/m, times the jackknife's
    # (m−1)²/(m−2)², as each a leaves out its own sample. One pair alone (m = 2) shows no spread: NaN, if m < n.
    squared.diagonal().mul_(torch.where(m < n, 2 * ((m - 1) / (m - 2)) ** 2, 0.0))
    return distances, squared.sqrt()  # type: ignore[return-value]


def from_words(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    r"""L2 distance between the vectors of the class names: how far apart the words are in meaning.

    .. math:: d(k, k') = \|V(w_k) - V(w_{k'})\|_2

    with V of a name of several words the mean of their vectors. Names are split at ``_``, spaces, hyphens,
    ``/ , ? &`` and other punctuation, at the humps of camelCase and before a possessive 's, and lower-cased; a
    one-character token without a vector is left out if another token remains.

    Args:
        class_names: K names that differ; each a text, or a list of synonyms of which the first whose words all
            have vectors is taken.
        vectors: None for the GloVe vectors that come with softkin, a ``WordVectors``, a mapping from words to
            arrays, or the path of a file for ``WordVectors.load``.
        aliases: What to look up instead of a name or a word, such as {"gasmask": "gas mask"}.
        prefer: "entity" takes each class's whole-name entity vector (Wikipedia2Vec's ``ENTITY/…`` rows) if every
            class has one, and else warns and takes words for all: the two kinds never share a matrix.

    Returns:
        D, with zeros on the diagonal.

    Raises:
        ValueError: Words without a vector: all of them, the closest known words, and what to do.

    Example:
        >>> D = from_words(["dolphin", "whale", "rose"])
        >>> bool(D[0, 1] < D[0, 2])
        True

    References:
        Liu and JaJa, 2021, Sec. 5.3; Pennington et al., GloVe, 2014.
    """
    rows = name_vectors(class_names, vectors, aliases=aliases, prefer=prefer)
    return torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")


def name_vectors(
    class_names: Sequence[str | Sequence[str]],
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    *,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> Tensor:
    """The vectors that ``from_words`` takes the distances of, (K, d) float64: for ``similarity.from_vectors``."""
    return words.name_vectors(class_names, vectors, aliases=aliases or {}, prefer=prefer)


def save(path: str | Path, distances: Array, *, class_names: Sequence[str], source: str) -> None:
    """Write a distance matrix to ``path`` (.safetensors) with its class names and what it was made from and how."""
    matrices.save(path, distances, kind="distances", class_names=class_names, source=source)


def load(path: str | Path, *, class_names: Sequence[str]) -> Tensor:
    """Read a distance matrix for just these classes, in this order.

    A file for the same classes in another order is reordered by name; one for other classes is refused.
    """
    return matrices.load(path, kind="distances", class_names=class_names)


def read(path: str | Path) -> ClassMatrix:
    """Read a distance matrix with its class names and its source, in the order of the file."""
    return matrices.read(path, kind="distances")
