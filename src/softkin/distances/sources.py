"""Distance sources by name: every way to measure distances between classes is declared here once.

Commands, training and studies read from ``SOURCES`` the names, the titles in tables, the data that a source needs and
the options that it takes. A new source is one function decorated with ``@source``; an ``Option`` that it declares is an
option of ``softkin similarity``, ``train`` and ``compare``.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import Registry
from softkin._core.options import Option, united
from softkin.distances import saving as readers
from softkin.distances import tree_files
from softkin.distances.autoencoder import AutoencoderFit, from_autoencoder
from softkin.distances.class_means import from_class_means, from_weights
from softkin.distances.encoders import TEMPLATE, Encoder, from_encoder
from softkin.distances.images import from_features, from_images
from softkin.distances.order import from_order, values_of
from softkin.distances.saving import from_similarity
from softkin.distances.taxonomy import TaxonomyMeasure, from_taxonomy
from softkin.distances.tree_files import Edges
from softkin.distances.words import from_words, partly_known
from softkin.similarity import from_confusion, from_neighbours, from_outputs
from softkin.word_vectors import WordVectors, opened

Need = Literal["images", "features", "text", "names"]
SETTING = ("seed", "device", "progress")  # passed to every source that uses them


class ClassData(Protocol):
    """The data to measure: ``data.Labelled``, or any object with these attributes."""

    @property
    def kind(self) -> str:
        """The kind of samples: "images", "features" or "text", or "names" if there are none."""

    @property
    def values(self) -> Any:
        """(N, …) samples."""

    @property
    def labels(self) -> Any:
        """(N,) class numbers."""

    @property
    def class_names(self) -> list[str]:
        """K names."""

    @property
    def synonyms(self) -> Sequence[str | Sequence[str]]:
        """The names of each class, in the form that ``from_words`` takes."""


@dataclass(frozen=True)
class ClassNames:
    """Data to measure for classes known only by their names."""

    class_names: list[str]
    synonyms: Sequence[str | Sequence[str]]
    kind: str = "names"
    values: None = None
    labels: None = None


@dataclass(frozen=True)
class ClassDistances:
    """The distances that a source measured."""

    matrix: Tensor
    """D, (K, K) float64 on the CPU"""
    how: str
    """A description of the measurement, such as "mean L1, all pairs\""""
    autoencoder: AutoencoderFit | None = None
    """The autoencoder, if one was trained"""
    similarity: Tensor | None = None
    """S itself, if the source is a file that holds a similarity instead of distances: β is already applied"""
    asymmetric: bool = False
    """Whether d(k, k') ≠ d(k', k) is intended, as in a model's confusions"""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further content of such a file: a suggested α, the sources of a mixture"""


@dataclass(frozen=True)
class DistanceSource:
    """A way to measure distances between classes."""

    name: str
    title: str
    """The title in tables"""
    needs: tuple[Need, ...]
    """The kinds of data that the source can measure; ("names",) if class names are enough"""
    default_for: tuple[Need, ...]
    """The kinds of data for which this is the default source"""
    function: Callable[..., ClassDistances]
    """The function, called with the data and the options"""
    declared: tuple[Option, ...] = ()
    """The options that commands and studies offer"""

    @property
    def required(self) -> tuple[str, ...]:
        """Options without which the source has nothing to measure."""
        return tuple(option.name for option in self.declared if option.required)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """The keyword options of the function."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY)

    @property
    def uses_samples(self) -> bool:
        """Whether the source measures samples rather than names alone."""
        return "names" not in self.needs

    def check(self, kind: str) -> None:
        """Refuse a kind of data that the source cannot measure."""
        if self.uses_samples and kind not in self.needs:
            suitable = [name for name, other in SOURCES.items() if not other.uses_samples or kind in other.needs]
            *first, last = self.needs
            raise ValueError(
                f"the distance {self.name!r} needs {', '.join(first)}{' or ' if first else ''}{last}, "
                f"and the data hold {kind}; use {', '.join(suitable)}."
            )


SOURCES: Registry[DistanceSource] = Registry("distance")


def source(
    name: str,
    *,
    title: str,
    needs: Sequence[Need],
    default_for: Sequence[Need] = (),
    aliases: Sequence[str] = (),
    options: Sequence[Option] = (),
) -> Callable[[Callable[..., ClassDistances]], Callable[..., ClassDistances]]:
    """Declare the decorated function as the distance source ``name``.

    Its keyword arguments are what Python callers may pass; ``options`` are those that commands and studies offer, too.
    """

    def declare(function: Callable[..., ClassDistances]) -> Callable[..., ClassDistances]:
        declared = DistanceSource(name, title, tuple(needs), tuple(default_for), function, tuple(options))
        spellings = dict.fromkeys([*aliases, title.lower()])  # studies and tables use the title
        SOURCES.add(name, declared, aliases=[spelling for spelling in spellings if spelling != name], origin=function)
        return function

    return declare


def options() -> dict[str, Option]:
    """The options that the sources declare, by name, each with the sources that have it."""
    takers: dict[str, list[str]] = {}
    for name, known in SOURCES.items():
        for option in known.declared:
            takers.setdefault(option.name, []).append(name)
    declared = united(option for known in SOURCES.values() for option in known.declared)
    return {name: replace(option, of=tuple(takers[name])) for name, option in declared.items()}


def default_source(kind: str) -> str:
    """The default source for a kind of data."""
    return next(name for name, known in SOURCES.items() if kind in known.default_for)


def measure(distance: str, data: ClassData, **options: Any) -> ClassDistances:
    """Class distances of labelled data, measured by a named source.

    Args:
        distance: A name or alias in ``SOURCES``.
        data: Samples with their classes; pass the training rows if the data set is divided.
        options: Options of the source. ``seed``, ``device`` and ``progress`` are passed to the sources that use them.
            Any other option that the source does not have must be None or empty.
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
    lacking = [name for name in known.required if name not in chosen]
    if lacking:
        raise ValueError(f"the distance {known.name!r} needs `{lacking[0]}` (--{lacking[0].replace('_', '-')}).")
    return known.function(data, **chosen)


def _declare_pairs(name: str, p: Literal[1, 2], default_for: Need) -> None:
    @source(name, title=f"L{p}", needs=("images", "features", "text"), default_for=(default_for,))
    def mean_of_pairs(
        data: ClassData,
        *,
        max_per_class: int | None = None,
        seed: int = 0,
        device: str | torch.device | None = None,
        progress: bool | None = None,
    ) -> ClassDistances:
        """Mean distance over all pairs of inputs, in one norm."""
        values = checks.on_device(checks.as_tensor(data.values, data.kind), device)
        options: Any = {"class_names": data.class_names, "max_per_class": max_per_class, "seed": seed}
        if p == 2 and data.kind != "images":
            matrix = from_features(values, data.labels, **options, progress=progress)
        else:
            matrix = from_images(values, data.labels, p=p, **options, progress=progress)
        pairs = "all pairs" if max_per_class is None else f"at most {max_per_class} per class"
        return ClassDistances(matrix, f"mean L{p}, {pairs}")

    mean_of_pairs.__doc__ = f"Mean L{p} distance over all pairs of inputs."


_declare_pairs("l1", 1, "images")
_declare_pairs("l2", 2, "features")


@source(
    "autoencoder",
    title="AE",
    needs=("images", "features"),
    options=[
        Option("latent_dim", "numbers in a code of the autoencoder (default: depends on the size of the images)", "int")
    ],
)
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
    """Mean L2 distance between the codes of an autoencoder that is trained on the samples."""
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


@source("words", title="WE", needs=("names",), default_for=("text", "names"))
def _words(
    data: ClassData,
    *,
    vectors: WordVectors | Mapping[str, Any] | str | Path | None = None,
    aliases: Mapping[str, str] | None = None,
    prefer: Literal["words", "entity"] = "words",
) -> ClassDistances:
    """L2 distance between the word vectors of the class names."""
    vectors = opened(vectors)
    names = tree_files.in_words(data.synonyms)
    origin = f" from {vectors.source}" if isinstance(vectors, WordVectors) else ""
    how = f"class names: L2 of word vectors{origin}"
    partly = partly_known(names, vectors, aliases=aliases) if prefer == "words" else None
    if partly is not None:
        return ClassDistances(partly, f"{how}, their mean for names without one", asymmetric=True)
    return ClassDistances(from_words(names, vectors, aliases=aliases, prefer=prefer), how)


@source("class-means", title="CM", needs=("images", "features", "text"))
def _class_means(data: ClassData) -> ClassDistances:
    """L2 distance between the classes' mean inputs or features."""
    matrix = from_class_means(data.values, data.labels, num_classes=len(data.class_names))
    return ClassDistances(matrix, "L2 of the class means")


@source(
    "taxonomy",
    title="Tree",
    needs=("names",),
    options=[
        Option(
            "tree",
            "taxonomy: a table of parent,child or class,superclass, nested .json or .yaml, FILE.parquet:COLUMN of "
            "superclasses, or wordnet",
            "file",
            required=True,
        ),
        Option("measure", "distance within the tree (default: lca)", choices=get_args(TaxonomyMeasure)),
    ],
)
def _taxonomy(
    data: ClassData,
    *,
    tree: Edges | None = None,
    measure: TaxonomyMeasure = "lca",
    aliases: Mapping[str, str] | None = None,
) -> ClassDistances:
    """Distance between the classes in a taxonomy."""
    assert tree is not None
    origin = Path(tree).name if isinstance(tree, str | Path) else getattr(tree, "name", "given edges")
    matrix = from_taxonomy(tree, data.synonyms, measure, aliases=aliases)
    return ClassDistances(matrix, f"taxonomy {origin}: {measure}{_in_words(aliases)}")


@source(
    "order",
    title="Ord",
    needs=("names",),
    aliases=("ordered",),
    options=[
        Option(
            "order",
            "the classes from lowest to highest: bad,fair,good (default: by value if names are numbers, else as given)",
        )
    ],
)
def _order(data: ClassData, *, order: str | Sequence[str] | None = None) -> ClassDistances:
    """Difference between the values or the ranks of ordered classes."""
    values, how = values_of(data.class_names, order.split(",") if isinstance(order, str) else order)
    return ClassDistances(from_order(values), f"ordered classes: {how}")


@source(
    "encoder",
    title="Enc",
    needs=("names",),
    options=[
        Option("encoder", "sentence-transformers model on this machine", required=True, runs_code=True),
        Option("template", "text with {} for the name; several are averaged", repeats=True, runs_code=True),
        Option(
            "descriptions",
            "texts to encode instead of names: lines of a class, a tab and a text",
            "file",
            runs_code=True,
        ),
    ],
)
def _encoder(
    data: ClassData,
    *,
    encoder: Encoder | str | Path | None = None,
    template: str | Sequence[str] | None = None,
    descriptions: Sequence[str | Sequence[str]] | str | Path | None = None,
) -> ClassDistances:
    """L2 distance between a text encoder's vectors of the class names or of descriptions."""
    assert encoder is not None
    if template is not None and descriptions is not None:
        raise ValueError("`template` must be left out with `descriptions`: they are encoded as they are.")
    model = (
        str(encoder) if isinstance(encoder, str | Path) else getattr(encoder, "__qualname__", type(encoder).__name__)
    )
    if descriptions is not None:
        origin = f" in {Path(descriptions).name}" if isinstance(descriptions, str | Path) else ""
        if isinstance(descriptions, str | Path):
            descriptions = readers.read_descriptions(descriptions, data.class_names)
        matrix = from_encoder(data.class_names, encoder, descriptions=descriptions)
        return ClassDistances(matrix, f"class descriptions{origin}: L2 of the encoder {model}")
    names = [entry if isinstance(entry, str) else entry[0] for entry in data.synonyms]
    names = names if len(set(names)) == len(names) else data.class_names
    matrix = from_encoder(names, encoder, template or TEMPLATE)
    return ClassDistances(matrix, f"class names as {template or TEMPLATE!r}: L2 of the encoder {model}")


@source("neighbours", title="NN", needs=("images", "features", "text"), aliases=("neighbors",))
def _neighbours(data: ClassData, *, neighbours: int = 20, progress: bool | None = None) -> ClassDistances:
    """The classes of each sample's nearest neighbours, by cosine."""
    flat = checks.as_tensor(data.values, data.kind).flatten(1)
    s = from_neighbours(flat, data.labels, k=neighbours, num_classes=len(data.class_names), progress=progress)
    how = f"classes of the {neighbours} nearest neighbours by cosine"
    return ClassDistances(from_similarity(s), how, similarity=s, asymmetric=True)


@source(
    "outputs",
    title="Out",
    needs=("names",),
    options=[Option("outputs", "model predictions on held-out rows", "file", required=True)],
)
def _outputs(data: ClassData, *, outputs: tuple[Array, Array] | None = None) -> ClassDistances:
    """Minus the logarithm of a model's mean calibrated output for each class."""
    assert outputs is not None
    probabilities, labels = outputs
    _same_count(len(data.class_names), checks.as_tensor(probabilities, "outputs").shape[-1], "outputs")
    s = from_outputs(probabilities, labels)
    how = f"a model's mean calibrated outputs on {len(labels):,} held-out rows"
    return ClassDistances(from_similarity(s), how, asymmetric=True)


@source(
    "confusion",
    title="Conf",
    needs=("names",),
    options=[
        Option("confusion", "confusion matrix: a .csv of counts with class names on both sides", "file", required=True)
    ],
)
def _confusion(data: ClassData, *, confusion: Array | str | Path | None = None) -> ClassDistances:
    """Minus the logarithm of the shares of a confusion matrix."""
    assert confusion is not None
    with _named(confusion) as origin:
        counts = readers.read_confusion(confusion, data.class_names) if isinstance(confusion, str | Path) else confusion
        _same_count(len(data.class_names), len(counts), "confusion")
        return ClassDistances(from_similarity(from_confusion(counts)), f"confusion matrix{origin}", asymmetric=True)


@source(
    "weights",
    title="LW",
    needs=("names",),
    options=[Option("weights", "(K, d) weights of a last layer: .npy, .npz or .safetensors", "file", required=True)],
)
def _weights(data: ClassData, *, weights: Array | str | Path | None = None) -> ClassDistances:
    """L2 distance between the directions of a last layer's rows."""
    assert weights is not None
    count = len(data.class_names)
    with _named(weights) as origin:
        rows = readers.read_weights(weights, count) if isinstance(weights, str | Path) else weights
        _same_count(count, len(rows), "weights")
        return ClassDistances(from_weights(rows), f"last-layer weights{origin}: L2 of their directions")


@source(
    "file",
    title="File",
    needs=("names",),
    options=[Option("matrix", "distances, similarity or a taxonomy", "file", required=True)],
)
def _file(data: ClassData, *, matrix: str | Path | None = None) -> ClassDistances:
    """Distances, similarity or a taxonomy from a file."""
    assert matrix is not None
    content = readers.read_file(matrix, data.class_names, data.synonyms)
    how = f"{Path(matrix).name}: {content.source}"
    if content.kind == "distances":
        asymmetric = content.about.get("asymmetric") is True
        return ClassDistances(content.values, how, asymmetric=asymmetric, about=content.about)
    return ClassDistances(from_similarity(content.values), how, similarity=content.values, about=content.about)


@contextmanager
def _named(given: object) -> Iterator[str]:
    """The name of a file for descriptions; errors inside the block name the file, unless they do already."""
    if not isinstance(given, str | Path):
        yield ""
        return
    try:
        yield f" {Path(given).name}"
    except (ValueError, TypeError) as error:
        raise SoftkinError(f"{given}: {error}") from error


def _same_count(classes: int, covered: int, name: str) -> None:
    if classes != covered:
        raise ValueError(
            f"`{name}` covers {covered} classes but the data have {classes}; was it made for another data set?"
        )


def _in_words(aliases: Mapping[str, str] | None) -> str:
    return f" ({', '.join(f'{word} as {other}' for word, other in aliases.items())})" if aliases else ""
