"""Calibrators on disk: numbers as safetensors, the rest as JSON to read; nothing that is ever executed.

A folder holds ``calibrator.json``, which names a safetensors file by the digest of its content and carries a checksum
of its own. The JSON gets its name last, so that a crash at any moment leaves the old calibrator or the new one.
"""

import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError, __version__, files
from softkin.calibrators.base import REGISTRY, Calibrator
from softkin.calibrators.certificate import Certificate, HeldOut
from softkin.calibrators.composition import Composed
from softkin.calibrators.zeros import TINY

FORMAT = 1
NAME = "calibrator.json"


def save(calibrator: Calibrator, folder: Path) -> None:
    """Write a fitted calibrator."""
    from safetensors.torch import save as to_bytes

    tensors: dict[str, Tensor] = {}
    about = {"format": FORMAT, "softkin": __version__, "calibrator": _describe(calibrator, "", tensors)}
    content = to_bytes({name: tensor.contiguous() for name, tensor in tensors.items()})
    about["tensors"] = f"tensors-{files.sha256(content)[:16]}.safetensors"
    about["checksum"] = files.sha256_of_json(about)
    files.write_together({folder / str(about["tensors"]): content, folder / NAME: files.json_bytes(about)})
    for old in folder.glob("tensors-*.safetensors"):
        if old.name != about["tensors"]:
            old.unlink(missing_ok=True)


def _describe(calibrator: Calibrator, prefix: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """What JSON holds of a calibrator; its tensors are put aside under their names."""
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
        about["options"] = _plain(calibrator.get_params(deep=False))
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
    """What JSON knows; numbers that it does not (infinity, NaN) as text."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def load(folder: str | Path) -> Calibrator:
    """Read a calibrator that ``save`` wrote."""
    from safetensors.torch import load as from_bytes

    folder = Path(folder)
    path = folder / NAME
    if not path.exists():
        raise SoftkinError(f"{folder} holds no calibrator: there is no {NAME}.")
    what = "a calibrator that softkin wrote"
    about = files.read_json(path, what)
    with files.reading(path, what):
        if about["format"] != FORMAT:
            raise SoftkinError(f"{path} has format {about['format']}, and this softkin reads {FORMAT}; update softkin.")
        checksum = about.pop("checksum", None)  # calibrators of softkin before 0.2 have none
        if checksum is not None and files.sha256_of_json(about) != checksum:
            raise SoftkinError(f"{path} is damaged, or was changed by hand: its checksum does not fit.")
        name = str(about["tensors"])
        if Path(name).name != name:
            raise ValueError(f"the tensors' file must lie beside it, got {name!r}")
        content = files.read_bytes(folder / name, "the tensors of a calibrator")
        if files.sha256(content)[:16] not in name:
            raise ValueError(f"{name} is not what was written")
        calibrator = _build(about["calibrator"], "", from_bytes(content))
        files.within("classes", calibrator.num_classes_, str(path))
        calibrator._predict(torch.zeros(1, calibrator.num_classes_, dtype=torch.float64))  # do the shapes fit?
    return calibrator


def _build(about: dict[str, Any], prefix: str, tensors: dict[str, Tensor]) -> Calibrator:
    calibrator: Calibrator
    if about["class"] == Composed.__name__:
        calibrator = Composed([_build(s, f"{prefix}{i}.", tensors) for i, s in enumerate(about["steps"])])
        # Before 0.2 a zero between two steps was always float64's smallest number.
        tensors.setdefault(f"{prefix}floors_", torch.full((len(calibrator.steps) - 1,), TINY, dtype=torch.float64))
    else:
        calibrator = REGISTRY[REGISTRY.canonical(about["class"], "class")](**about["options"])
    for name in calibrator._fitted:
        setattr(calibrator, name, tensors[prefix + name] if prefix + name in tensors else about["values"][name])
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
