"""Predictions that ``torch.save`` wrote: tensors, and mappings or pairs of them; nothing else is unpickled."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._io import files, roles
from softkin.predictions import arrays
from softkin.predictions.blocks import PredictionFile
from softkin.predictions.request import Reading, kind_by_name


def open_pt(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """One tensor of scores, a pair of scores and labels, or both by name."""
    content = _content(file, name)
    if isinstance(content, Tensor):
        found = {arrays.ALONE: content}
        return arrays.predictions_in(_arrays(found, name), reading, (arrays.ALONE, kind_by_name(name, reading)))
    tensors = {key: value for key, value in content.items() if isinstance(value, Tensor) and value.ndim}
    weights = [key for key in tensors if key.split(".")[-1] in ("weight", "bias", "running_mean")]
    if not tensors or (weights and roles.find(tensors, "label") is None):
        what = "the weights of a network" if weights else "no tensor of scores"
        raise SoftkinError(
            f"{name} must hold the scores of a network and its labels, but seems to hold {what}; save its outputs with "
            'torch.save({"logits": …, "labels": …}, file).'
        )
    about: dict[str, Any] = {}
    for key in roles.CLASS_NAMES:
        value = content.get(key)
        if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
            about["class_names"] = list(value)
            break
    return arrays.predictions_in(_arrays(tensors, name, about), reading)


def labels_in(path: Path) -> tuple[Any, list[str] | None, list[Any] | None]:
    """(labels, class names, ids): the tensor, or the one that is called so, and what stands beside it."""
    with files.open_file(path) as file, files.reading(path, "pt"):
        content = _content(file, str(path))
    if isinstance(content, Tensor):
        return content.numpy(), None, None
    key = roles.find(content, "label")
    if key is None or not isinstance(content[key], Tensor):
        raise SoftkinError(f"{path} must hold `labels`, it holds {', '.join(map(str, content)) or 'nothing'}.")
    names = next((content[name] for name in roles.CLASS_NAMES if isinstance(content.get(name), list)), None)
    ids = content.get(roles.find(content, "id") or "")
    ids = ids.tolist() if isinstance(ids, Tensor) else ids
    return content[key].numpy(), names, ids if isinstance(ids, list) else None


def _content(file: IO[bytes], name: str) -> Tensor | dict[str, Any]:
    """The tensor, or what the file holds by name; the parts of a pair are called as numpy calls them."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise SoftkinError(
            f"{name} holds Python objects, which are never unpickled; save tensors, lists and texts alone."
        ) from error
    if isinstance(content, list | tuple):
        content = {f"arr_{place}": part for place, part in enumerate(content)}
    if not isinstance(content, Tensor | Mapping):
        raise SoftkinError(f"{name} must hold tensors, got {type(content).__name__}.")
    tensors = [content] if isinstance(content, Tensor) else [v for v in content.values() if isinstance(v, Tensor)]
    files.within("bytes", sum(tensor.numel() * tensor.element_size() for tensor in tensors), name)
    if any(tensor.layout is not torch.strided or tensor.is_quantized for tensor in tensors):
        raise SoftkinError(f"{name} must hold dense tensors.")
    return content.detach() if isinstance(content, Tensor) else {str(key): part for key, part in content.items()}


def _arrays(tensors: Mapping[str, Tensor], name: str, about: Mapping[str, Any] | None = None) -> arrays.Arrays:
    shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
    return arrays.Arrays(name, shapes, lambda key, count: iter(tensors[key].detach().split(count)), about or {})
