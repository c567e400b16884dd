"""Collect a network's predictions for every sample of a loader."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from softkin._core.modes import evaluating
from softkin._core.names import did_you_mean
from softkin._core.progress import track
from softkin.predictions.container import Predictions


def collect(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    class_names: Sequence[str] | None = None,
    name: str | None = None,
    features: str | None = None,
    progress: bool | None = None,
) -> Predictions:
    """The predictions of ``model`` for every sample of ``loader``, in the loader's order.

    Args:
        model: Any network that returns logits (N, K), or an object or mapping with ``logits``. It is put in evaluation
            mode during the call, and its previous mode is restored afterwards.
        loader: Yields batches ``(inputs, labels)``, ``(inputs, labels, sample ids)``, or mappings with ``labels`` whose
            other entries are keyword arguments of the model, as in Hugging Face's loaders.
        device: Device for the computation; by default that of the model's parameters.
        class_names: The names of the classes, in the order of the labels.
        name: A name for the samples, such as "test".
        features: The name of a layer, as in ``model.named_modules()``; what it returns, flattened, is kept as
            ``Predictions.features``, for ``calibrators.KinHead`` and ``similarity.from_neighbours``.
        progress: Show a bar; by default only on a terminal.
    """
    if device is None:
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    outputs: list[Tensor] = []
    labels: list[Tensor] = []
    ids: list[Any] = []
    total = len(loader) if isinstance(loader, Sized) else None
    kept: list[Tensor] = []
    with torch.no_grad(), evaluating(model), _watching(model, features, kept):
        for batch in track(loader, "predicting", total=total, show=progress):
            output, wanted, known_as = answer(model, batch, device)
            outputs.append(output.detach().float().cpu() if output.dtype != torch.float64 else output.cpu())
            labels.append(torch.as_tensor(wanted).cpu())
            ids.extend(known_as.tolist() if isinstance(known_as, Tensor) else known_as)
    if not outputs:
        raise ValueError("`loader` must give at least one batch, got none.")
    if features is not None and sum(map(len, kept)) != sum(map(len, outputs)):
        raise ValueError(f"the layer {features!r} must be called once for each batch, with a row for each sample.")
    return Predictions(
        torch.cat(outputs),
        torch.cat(labels),
        class_names=None if class_names is None else list(class_names),
        sample_ids=ids or None,
        name=name,
        features=torch.cat(kept) if kept else None,
    )


@contextmanager
def _watching(model: nn.Module, layer: str | None, kept: list[Tensor]) -> Iterator[None]:
    """Keep what a layer returns inside the block."""
    if layer is None:
        yield
        return
    layers = dict(model.named_modules())
    if layer not in layers:
        raise ValueError(f"`features` must name a layer of the model, got {layer!r}{did_you_mean(layer, layers)}")

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        output = output[0] if isinstance(output, tuple) else getattr(output, "last_hidden_state", output)
        kept.append(output.detach().float().flatten(1).cpu())

    handle = layers[layer].register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()


def answer(model: nn.Module, batch: Any, device: torch.device | str) -> tuple[Tensor, Any, Any]:
    """Logits, labels and sample ids of one batch, in any of the forms that ``collect`` accepts."""
    ids: Any = []
    if isinstance(batch, Mapping):
        inputs = dict(batch)
        if "labels" not in inputs:
            raise ValueError(f"`loader` must give `labels` with each batch, got {', '.join(map(str, inputs))}.")
        labels = inputs.pop("labels")
        ids = inputs.pop("sample_ids", [])
        output = model(**{key: _moved(value, device) for key, value in inputs.items()})
    elif isinstance(batch, Sequence) and len(batch) in (2, 3):
        labels = batch[1]
        ids = batch[2] if len(batch) == 3 else []
        output = model(_moved(batch[0], device))
    else:
        raise TypeError(f"`loader` must give (inputs, labels) or a mapping with `labels`, got {type(batch).__name__}.")
    if isinstance(output, Mapping):
        output = output.get("logits")
    output = getattr(output, "logits", output)
    if not isinstance(output, Tensor):
        raise TypeError(f"`model` must return logits (N, K), or an object that has them, got {type(output).__name__}.")
    return output, labels, ids


def _moved(value: Any, device: torch.device | str) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value
