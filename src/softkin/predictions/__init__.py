"""Predictions: what a network said of some samples. The one thing that training hands to calibration and measuring.

Logits and labels stay together with the names of the classes and of the samples, in memory and in files.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softkin import SoftkinError, checks, files
from softkin.checks import Array
from softkin.progress import track

TINY = torch.finfo(torch.float64).tiny  # ln p of a probability that is 0 is ln of this, about −708
SUFFIXES = (".npz", ".safetensors")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits (N, K) of N samples, their labels, and what both are called.

    Everything is on the CPU. Who has only probabilities calls ``from_probabilities``: then ``logits`` are ln p,
    clipped at float64's tiny, and ``probabilities`` are the very ones that were given. Nothing is guessed.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> preds = Predictions(logits, torch.tensor([0, 1]), class_names=["cat", "dog"])
        >>> preds
        Predictions(2 samples, 2 classes)
        >>> preds.probabilities.argmax(1)
        tensor([0, 1])
    """

    logits: Tensor
    """(N, K), floating-point"""
    labels: Tensor | None = None
    """(N,) int64; None where the samples are of none of the classes (out of distribution)"""
    class_names: list[str] | None = None
    sample_ids: Tensor | list[str] | None = None
    """(N,) whole numbers or texts that name the samples in their data set"""
    split_digest: str | None = None
    """Digest of the split that the samples came from"""
    name: str | None = None
    given: Tensor | None = None
    """(N, K) probabilities where those were given instead of logits"""

    def __post_init__(self) -> None:
        logits = checks.logits(self.logits).cpu()
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.to(torch.float32)
        labels, names, ids = self.labels, self.class_names, self.sample_ids
        if labels is not None:
            labels = checks.class_labels(labels, num_samples=len(logits), num_classes=logits.shape[1]).cpu()
        if names is not None:
            names = checks.class_names(names, num_classes=logits.shape[1])
        for field, value in {"logits": logits, "labels": labels, "class_names": names}.items():
            object.__setattr__(self, field, value)
        object.__setattr__(self, "sample_ids", None if ids is None else _ids(ids, len(logits)))

    @classmethod
    def from_probabilities(cls, probabilities: Array, labels: Array | None = None, **about: Any) -> Self:
        """The same from (N, K) probabilities; ``about`` names the class's other fields."""
        given = checks.probabilities(probabilities).cpu()
        logits = given.to(torch.float64).clamp_min(TINY).log()
        return cls(logits, None if labels is None else checks.as_tensor(labels, "labels"), given=given, **about)

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        unlabelled = ", no labels" if self.labels is None else ""
        return f"Predictions({name}{len(self)} samples, {self.num_classes} classes{unlabelled})"

    @property
    def num_classes(self) -> int:
        """K."""
        return self.logits.shape[1]

    @cached_property
    def probabilities(self) -> Tensor:
        """(N, K) float64: the softmax of the logits, or the probabilities that were given."""
        if self.given is not None:
            return self.given.to(torch.float64)
        return self.logits.to(torch.float64).softmax(dim=1)

    @property
    def known_labels(self) -> Tensor:
        """The labels, where there must be some."""
        if self.labels is None:
            raise ValueError(f"{self.name or 'the predictions'} must have labels for this, but have none.")
        return self.labels

    @cached_property
    def digest(self) -> str:
        """A digest of the content: equal for equal numbers and labels, whatever the file's form."""
        hasher = hashlib.sha256()
        numbers = self.logits if self.given is None else self.given
        for tensor in (numbers, self.labels):
            if tensor is not None:
                hasher.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                hasher.update(tensor.contiguous().numpy().data)
        return hasher.hexdigest()

    def take(self, rows: Tensor) -> "Predictions":
        """Some of the samples, by place or by mask."""
        places = torch.arange(len(self))[rows]
        ids = self.sample_ids
        return replace(
            self,
            logits=self.logits[places],
            labels=None if self.labels is None else self.labels[places],
            sample_ids=[ids[row] for row in places.tolist()] if isinstance(ids, list) else _rows(ids, places),
            given=_rows(self.given, places),
        )

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write an .npz or .safetensors file, whole or not at all.

        It holds ``logits`` (or ``probs``, where probabilities were given), ``labels``, ``class_names``, ``sample_ids``.

        Raises:
            SoftkinError: The file is there already and ``force`` is not set, or it cannot be written.
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise ValueError(f"`path` must end in {' or '.join(SUFFIXES)}, got {path.name!r}.")
        if path.exists() and not force:
            raise SoftkinError(f"{path} is there already; pass force=True (--force) to overwrite it.")
        arrays: dict[str, NDArray[Any]] = {}
        arrays["logits" if self.given is None else "probs"] = (
            self.logits if self.given is None else self.given
        ).numpy()
        if self.labels is not None:
            arrays["labels"] = self.labels.numpy()
        if isinstance(self.sample_ids, Tensor):
            arrays["sample_ids"] = self.sample_ids.numpy()
        texts = {
            "class_names": self.class_names,
            "sample_ids": self.sample_ids if isinstance(self.sample_ids, list) else None,
            "split_digest": self.split_digest,
            "name": self.name,
        }
        known = {key: value for key, value in texts.items() if value is not None}
        files.write(path, _npz(arrays, known) if path.suffix == ".npz" else _safetensors(arrays, known))


def load(path: str | Path) -> Predictions:
    """Read an .npz or .safetensors file.

    It must hold ``logits`` or ``probs``, and may hold ``labels``, ``class_names``, ``sample_ids``.

    Raises:
        SoftkinError: There is no such file, it is damaged, or it holds something else.
    """
    path = Path(path)
    if not path.is_file():
        raise SoftkinError(f"{path} could not be read: there is no such file.")
    if path.suffix not in SUFFIXES:
        raise SoftkinError(f"{path} must be a file of predictions, {' or '.join(SUFFIXES)}.")
    found = _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)
    return from_arrays(found, path)


def from_arrays(found: Mapping[str, Any], path: str | Path) -> Predictions:
    """Predictions from what a file holds, by the names of its parts."""
    both = [key for key in ("logits", "probs") if key in found]
    if len(both) != 1:
        held = ", ".join(found) or "nothing"
        raise SoftkinError(f"{path} must hold either `logits` or `probs`, it holds {held}.")
    about = {key: found[key] for key in ("class_names", "sample_ids", "split_digest", "name") if key in found}
    try:
        labels = None if found.get("labels") is None else checks.as_tensor(found["labels"], "labels")
        if both == ["probs"]:
            return Predictions.from_probabilities(found["probs"], labels, **about)
        return Predictions(checks.as_tensor(found["logits"], "logits"), labels, **about)
    except (ValueError, TypeError) as error:
        raise SoftkinError(f"{path}: {error}") from error


def collect(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    device: torch.device | str | None = None,
    class_names: Sequence[str] | None = None,
    name: str | None = None,
    progress: bool | None = None,
) -> Predictions:
    """What ``model`` says of every sample of ``loader``, which is not to shuffle if the order matters.

    Args:
        model: Any network that returns logits (N, K), or an object or mapping with ``logits``. It is put in evaluation
            mode for the while and left as it was.
        loader: Batches ``(inputs, labels)``, ``(inputs, labels, sample ids)``, or mappings with ``labels`` whose other
            entries are the model's keyword arguments, as Hugging Face's are.
        device: Where to compute; by default where the model's parameters are.
        class_names: The names of the classes, in the order of the labels.
        name: What to call the samples, such as "test".
        progress: Show a bar; by default on a terminal.
    """
    if device is None:
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    modes = [(module, module.training) for module in model.modules()]
    outputs: list[Tensor] = []
    labels: list[Tensor] = []
    ids: list[Any] = []
    total = len(loader) if isinstance(loader, Sized) else None
    model.eval()
    try:
        with torch.no_grad():
            for batch in track(loader, "predicting", total=total, show=progress):
                output, wanted, known_as = _answer(model, batch, device)
                outputs.append(output.detach().float().cpu() if output.dtype != torch.float64 else output.cpu())
                labels.append(torch.as_tensor(wanted).cpu())
                ids.extend(known_as.tolist() if isinstance(known_as, Tensor) else known_as)
    finally:
        for module, mode in modes:
            module.training = mode
    if not outputs:
        raise ValueError("`loader` must give at least one batch, got none.")
    return Predictions(
        torch.cat(outputs),
        torch.cat(labels),
        class_names=None if class_names is None else list(class_names),
        sample_ids=ids or None,
        name=name,
    )


def _answer(model: nn.Module, batch: Any, device: torch.device | str) -> tuple[Tensor, Any, Any]:
    """Logits, labels and sample ids of one batch."""
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


def _rows(values: Tensor | None, places: Tensor) -> Tensor | None:
    return None if values is None else values[places]


def _ids(ids: Any, num_samples: int) -> Tensor | list[str]:
    """Sample ids as int64 or as texts, one for each sample."""
    if isinstance(ids, np.ndarray | Tensor):
        ids = ids.tolist()
    known: list[Any] = list(ids)
    if len(known) != num_samples:
        raise ValueError(f"`sample_ids` must be as many as the samples: got {len(known)} for {num_samples} samples.")
    if all(isinstance(one, int) and not isinstance(one, bool) for one in known):
        return torch.tensor(known, dtype=torch.int64)
    if not all(isinstance(one, str) for one in known):
        raise TypeError("`sample_ids` must be whole numbers or texts, all of one kind.")
    return known


def _npz(arrays: dict[str, NDArray[Any]], texts: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **{key: np.array(value) for key, value in texts.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def _safetensors(arrays: dict[str, NDArray[Any]], texts: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    # One entry: safetensors writes several in random order, and equal predictions should be equal files.
    return save(arrays, {"softkin": json.dumps(texts, ensure_ascii=False)})


def _read_npz(path: Path) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):
        raise SoftkinError(f"{path} could not be read as .npz: it is no such file, or it was cut off.")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            found: dict[str, Any] = {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SoftkinError(f"{path} could not be read as .npz without pickles: {error}") from error
    return {key: value.tolist() if value.dtype.kind in "US" else value for key, value in found.items()}


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            found: dict[str, Any] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  no mapping
            texts: dict[str, Any] = json.loads((file.metadata() or {}).get("softkin", "{}"))
            return found | texts
    except (SafetensorError, ValueError, TypeError, OSError) as error:
        raise SoftkinError(f"{path} could not be read as safetensors, or it is damaged: {error}") from error
