"""Checkpoints: bundles such as ``step-00000704.safetensors``, written whole or not at all, and checked when read.

The two newest are kept. ``run.json`` says which run the folder belongs to.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from softkin import SoftkinError
from softkin._io import bundles, files

KEPT = 2  # so that one may be damaged
STEPS = "step-*.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: tensors by name, and plain data."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path


def claim(folder: Path, run: Mapping[str, Any]) -> None:
    """Claim ``folder`` for this run; refuse one that holds another run."""
    path = folder / "run.json"
    files.sweep(folder)
    plain = files.plain(run)
    if not path.exists():
        if any(folder.glob(STEPS)):
            raise SoftkinError(f"{folder} holds checkpoints but no run.json; use another folder.")
        files.write_json(path, plain)
        return
    there, here = flat(files.read_json(path, "the identity of a training's folder")), flat(plain)
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise SoftkinError(
                f"{folder} holds another run: its {name} is {there.get(name)}, here it is {here.get(name)}; "
                "use another folder, or delete that one."
            )


def flat(fields: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings flattened into one, with dots in the names."""
    if not isinstance(fields, Mapping):
        return {prefix: fields}
    flattened: dict[str, Any] = {}
    for name, value in fields.items():
        flattened |= flat(value, f"{prefix}.{name}" if prefix else str(name))
    return flattened


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Write the checkpoint of ``step``, then delete those beyond the newest two."""
    path = folder / f"step-{step:08d}.safetensors"
    # Copies: tied weights share memory, which safetensors refuses.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    bundles.write(path, {"step": step, "state": dict(state)}, copies)
    files.sync_folder(folder)  # before older files are deleted
    for old in sorted(folder.glob(STEPS))[:-KEPT]:
        old.unlink(missing_ok=True)
    return path


def latest(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint; damaged ones are set aside with a warning."""
    for path in sorted(folder.glob(STEPS), reverse=True):
        try:
            return read(path)
        except SoftkinError as error:
            os.replace(path, path.with_name(path.name + ".damaged"))
            warnings.warn(f"{error} It was set aside as {path.name}.damaged, and the one before is used.", stacklevel=3)
    return None


def read(path: Path) -> Checkpoint:
    """One checkpoint, verified."""
    try:
        about, tensors = bundles.read(path, "a checkpoint", bounded=False)
        with files.reading(path, "a checkpoint"):
            return Checkpoint(tensors, dict(about["state"]), path)
    except SoftkinError as error:
        raise SoftkinError(f"the checkpoint {path} is damaged: {error}") from error
