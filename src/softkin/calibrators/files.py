"""Calibrators on disk: tensors as safetensors, the rest as readable JSON; loading executes no code.

A folder holds ``calibrator.json``, which names a safetensors file by the digest of its content and ends with a checksum
of itself. Both are on the disk before either gets its name, the JSON last, so that a crash at any moment leaves the old
calibrator or the new one. Files of format 1 have no checksum: they are read, with a warning.
"""

import math
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError, __version__
from softkin._io import files, tensor_files
from softkin.calibrators.base import REGISTRY, Calibrator
from softkin.calibrators.certificate import Certificate, HeldOut
from softkin.calibrators.composition import Composed
from softkin.calibrators.zeros import TINY

FORMAT = 2
WITHOUT_CHECKSUM = 1
NAME = "calibrator.json"
WHAT = "a calibrator"
RENAMED = {"bins": "binning"}  # options of earlier files


def save(calibrator: Calibrator, folder: Path) -> None:
    """Write a fitted calibrator."""
    tensors: dict[str, Tensor] = {}
    about = {"format": FORMAT, "softkin": __version__, "calibrator": _describe(calibrator, "", tensors)}
    tensor_files.write_described(folder / NAME, about, tensors)


def _describe(calibrator: Calibrator, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """A calibrator as JSON data; its tensors are collected in ``tensors`` under their names."""
    about: dict[str, Any] = {
        "class": type(calibrator).__name__,
        "num_classes": calibrator.num_classes_,
        "fitted_from": calibrator.fitted_from_,
        "fell_back": calibrator.fell_back_,
        "floor": calibrator.floor_,
        "certificate": _plain(asdict(calibrator.certificate_)),
    }
    if calibrator.sample_digests_ is not None:
        tensors[f"{prefix}sample_digests_"] = calibrator.sample_digests_
    if isinstance(calibrator, Composed):
        about["steps"] = [_describe(s, f"{prefix}{i}.", tensors) for i, s in enumerate(calibrator.steps)]
    else:
        options = calibrator.get_params(deep=False)
        arrays = {name: value for name, value in options.items() if hasattr(value, "shape")}
        tensors |= {f"{prefix}option {name}": torch.as_tensor(value).cpu() for name, value in arrays.items()}
        about["options"] = _plain({name: value for name, value in options.items() if name not in arrays})
    values: dict[str, Any] = {}
    for name in calibrator._fitted:
        value = getattr(calibrator, name)
        if isinstance(value, Tensor):
            tensors[prefix + name] = value
        else:
            values[name] = _plain(value)
    about["values"] = values
    return about


def _plain(value: Any) -> Any:
    """A value as JSON data: infinity as softkin's JSON writes it, and NaN as text, because None has another meaning."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    return "NaN" if isinstance(value, float) and math.isnan(value) else files.plain(value)


def _with_infinity(value: Any) -> Any:
    """A value of ``_plain`` with infinity as a number; earlier files have "inf"."""
    return float(value) if isinstance(value, str) and value in ("Infinity", "-Infinity", "inf") else value


def load(folder: str | Path) -> Calibrator:
    """Read a calibrator that ``save`` wrote.

    Raises:
        SoftkinError: The folder holds no calibrator, or it is damaged.
    """
    folder = Path(folder)
    path = folder / NAME
    if not path.exists():
        raise SoftkinError(f"{folder} holds no calibrator: there is no {NAME}.")
    about = files.read_json(path, WHAT)
    with files.reading(path, WHAT):
        if about["format"] not in (WITHOUT_CHECKSUM, FORMAT):
            raise SoftkinError(f"{path} has format {about['format']}, and this softkin reads {FORMAT}; update softkin.")
        is_unchecked = about["format"] == WITHOUT_CHECKSUM and "checksum" not in about
        if not is_unchecked and about.pop("checksum") != files.sha256_of_json(about):
            raise SoftkinError(f"{path} is damaged: its checksum does not fit.")
        calibrator = _assembled(about["calibrator"], tensor_files.described(path, about, WHAT), path)
    if is_unchecked:
        warnings.warn(
            f"{path} was written before calibrators had checksums, so that a changed digit in it would go unnoticed; "
            "save it again.",
            stacklevel=2,
        )
    return calibrator


def _assembled(about: Any, tensors: dict[str, Tensor], path: Path) -> Calibrator:
    """The calibrator, refused unless it maps a few rows to distributions, which shows that its parts fit together."""
    calibrator = _build(about, "", tensors)
    k = calibrator.num_classes_
    files.within("classes", k, f"{path}: a calibrator")
    rows = torch.linspace(-5, 5, k, dtype=torch.float64) * torch.tensor([[0.0], [1.0], [-1.0]], dtype=torch.float64)
    p = calibrator._predict(rows)
    off = float((p.sum(dim=1) - 1).abs().max()) if p.shape == rows.shape and k > 1 else math.inf
    if not off < 1e-6:  # also refuses NaN
        raise ValueError("its numbers do not fit together")
    return calibrator


def _build(about: dict[str, Any], prefix: str, tensors: dict[str, Tensor]) -> Calibrator:
    calibrator: Calibrator
    if about["class"] == Composed.__name__:
        calibrator = Composed([_build(s, f"{prefix}{i}.", tensors) for i, s in enumerate(about["steps"])])
        # Before 0.2 a zero between two steps was always float64's smallest number.
        tensors.setdefault(f"{prefix}floors_", torch.full((len(calibrator.steps) - 1,), TINY, dtype=torch.float64))
    else:
        options = {RENAMED.get(name, name): _with_infinity(value) for name, value in about["options"].items()}
        start = f"{prefix}option "
        arrays = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
        calibrator = REGISTRY[REGISTRY.canonical(about["class"], "class")](**options, **arrays)
    for name in calibrator._fitted:
        value = tensors[prefix + name] if prefix + name in tensors else about["values"][name]
        setattr(calibrator, name, _with_infinity(value))
    calibrator.num_classes_ = int(about["num_classes"])
    calibrator.fitted_from_ = about["fitted_from"]
    calibrator.fell_back_ = bool(about["fell_back"])
    calibrator.floor_ = about.get("floor", TINY if calibrator.fitted_from_ == "probabilities" else None)
    calibrator.sample_digests_ = tensors.get(f"{prefix}sample_digests_")
    calibrator.certificate_ = _certificate(about["certificate"])
    return calibrator


def _certificate(about: dict[str, Any]) -> Certificate:
    held_out = about["held_out"]
    if held_out is not None:
        held_out = HeldOut(**{f.name: _number(held_out[f.name]) for f in fields(HeldOut)})
    numbers = {
        f.name: _number(about[f.name]) for f in fields(Certificate) if f.name not in ("notes", "held_out", "method")
    }
    return Certificate(method=about["method"], notes=tuple(about["notes"]), held_out=held_out, **numbers)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value
