"""Distance sources by name: each way to measure how far apart classes are is declared here once.

Commands, training and studies read ``SOURCES``: which names there are, what tables call them, what data they need and
which options they take. A new source is one function with ``@source`` above it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from softkin import checks
from softkin.distances.autoencoder import AutoencoderFit, from_autoencoder
from softkin.distances.inputs import from_features, from_images
from softkin.distances.words import from_words
from softkin.names import Registry
from softkin.word_vectors import WordVectors, opened

Need = Literal["images", "features", "text", "names"]
SETTING = ("seed", "device", "progress")  # given to every source that uses them


class ClassData(Protocol):
    """What is measured: ``data.Labelled``, or anything that has these."""

    @property
    def kind(self) -> str:
        """What the samples are, "images", "features" or "text"; "names" where there are none."""

    @property
    def values(self) -> Any:
        """(N, …) samples."""

    @property
    def labels(self) -> Any:
        """(N,) classes."""

    @property
    def class_names(self) -> list[str]:
        """K names."""

    @property
    def synonyms(self) -> Sequence[str | Sequence[str]]:
        """The names of each class, as ``from_words`` takes them."""


@dataclass(frozen=True)
class ClassNames:
    """Classes of which only the names are known, as data to measure."""

    class_names: list[str]
    synonyms: Sequence[str | Sequence[str]]
    kind: str = "names"
    values: None = None
    labels: None = None


@dataclass(frozen=True)
class ClassDistances:
    """What a source measured."""

    matrix: Tensor
    """D, (K, K) float64 on the CPU"""
    how: str
    """How it was measured, in words: "mean L1, all pairs\""""
    autoencoder: AutoencoderFit | None = None
    """The autoencoder behind it, where there is one"""


@dataclass(frozen=True)
class DistanceSource:
    """A way to measure how far apart classes are."""

    name: str
    title: str
    """What tables call it"""
    needs: tuple[Need, ...]
    """The kinds of data that it can measure; ("names",) where the names of the classes are enough"""
    default_for: tuple[Need, ...]
    """The kinds of data that it is the default for"""
    function: Callable[..., ClassDistances]
    """Called with the data and its options"""

    @cached_property
    def options(self) -> tuple[str, ...]:
        """The keyword options of the function."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)

    @property
    def uses_samples(self) -> bool:
        """Whether it measures samples, and not names alone."""
        return "names" not in self.needs

    def check(self, kind: str) -> None:
        """Refuse data of a kind that it cannot measure."""
        if self.uses_samples and kind not in self.needs:
            suitable = [name for name, other in SOURCES.items() if not other.uses_samples or kind in other.needs]
            *first, last = self.needs
            raise ValueError(
                f"the distance {self.name!r} needs {', '.join(first)}{' or ' if first else ''}{last}, "
                f"and the data hold {kind}; use {', '.join(suitable)}."
            )


SOURCES: Registry[DistanceSource] = Registry("distance")


def source(
    name: str, *, title: str, needs: Sequence[Need], default_for: Sequence[Need] = (), aliases: Sequence[str] = ()
) -> Callable[[Callable[..., ClassDistances]], Callable[..., ClassDistances]]:
    """Declare the function below as the distance source ``name``; its keyword arguments are the source's options."""

    def declare(function: Callable[..., ClassDistances]) -> Callable[..., ClassDistances]:
        SOURCES.add(name, DistanceSource(name, title, tuple(needs), tuple(default_for), function), aliases=aliases)
        return function

    return declare


def default_source(kind: str) -> str:
    """The source that suits data of a kind, where none was named."""
    return next(name for name, known in SOURCES.items() if kind in known.default_for)


def measure(distance: str, data: ClassData, **options: Any) -> ClassDistances:
    """Class distances of labelled data by the name of their source.

    Args:
        distance: A name or alias in ``SOURCES``.
        data: Samples with their classes; of several parts of a data set, the training rows.
        options: Of the source. ``seed``, ``device`` and ``progress`` go to the sources that use them; another option
            that the source does not have must be None or empty.
    """
    known = SOURCES[SOURCES.canonical(distance, "distance")]
    known.check(data.kind)
    chosen: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or (isinstance(value, Mapping) and not value):
            continue
        if name in known.options:
            chosen[name] = value
        elif name not in SETTING:
            takers = " and ".join(other for other, candidate in SOURCES.items() if name in candidate.options)
            hint = f"it is an option of {takers}" if takers else "no distance has such an option"
            raise TypeError(f"`{name}` must be left out for the distance {known.name!r}: {hint}.")
    return known.function(data, **chosen)


def _pairs(data: ClassData, p: Literal[1, 2], **options: Any) -> ClassDistances:
    device, most = options.pop("device"), options["max_per_class"]
    values = checks.on_device(checks.as_tensor(data.values, data.kind), device)
    if p == 2 and data.kind != "images":
        matrix = from_features(values, data.labels, class_names=data.class_names, **options)
    else:
        matrix = from_images(values, data.labels, p=p, class_names=data.class_names, **options)
    return ClassDistances(matrix, f"mean L{p}, " + ("all pairs" if most is None else f"{most} a class at most"))


@source("l1", title="L1", needs=("images", "features", "text"), default_for=("images",))
def _l1(
    data: ClassData,
    *,
    max_per_class: int | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> ClassDistances:
    """Mean L1 distance of all pairs of inputs."""
    return _pairs(data, 1, max_per_class=max_per_class, seed=seed, device=device, progress=progress)


@source("l2", title="L2", needs=("images", "features", "text"), default_for=("features",))
def _l2(
    data: ClassData,
    *,
    max_per_class: int | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> ClassDistances:
    """Mean L2 distance of all pairs of inputs."""
    return _pairs(data, 2, max_per_class=max_per_class, seed=seed, device=device, progress=progress)


@source("autoencoder", title="AE", needs=("images", "features"), aliases=("ae",))
def _autoencoder(
    data: ClassData,
    *,
    latent_dim: int | None = None,
    max_epochs: int = 100,
    patience: int = 3,
    batch_size: int = 64,
    seed: int = 0,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> ClassDistances:
    """Mean L2 distance of the codes of an autoencoder that is trained on the samples."""
    matrix, fit = from_autoencoder(
        data.values,
        data.labels,
        latent_dim=latent_dim,
        max_epochs=max_epochs,
        patience=patience,
        batch_size=batch_size,
        seed=seed,
        device=device,
        progress=progress,
        class_names=data.class_names,
        channels="last" if data.kind == "images" else None,
        return_details=True,
    )
    return ClassDistances(matrix, "mean L2 of an autoencoder's codes, all pairs", fit)


@source("words", title="WE", needs=("names",), default_for=("text", "names"), aliases=("we",))
def _words(
    data: ClassData,
    *,
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> ClassDistances:
    """L2 distance of the vectors of the words that name the classes."""
    vectors = opened(vectors)
    matrix = from_words(data.synonyms, vectors, aliases=aliases, prefer=prefer)
    origin = f" from {vectors.source}" if isinstance(vectors, WordVectors) else ""
    return ClassDistances(matrix, f"class names: L2 of word vectors{origin}")
