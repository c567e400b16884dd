"""Checkpoints: tensors as safetensors, the rest as JSON, each written whole or not at all, and checked when read.

``step-00000704.safetensors`` is written first, then ``step-00000704.json``, which holds its digest; tensors without
their JSON file are ignored. The two newest checkpoints are kept. ``run.json`` says which run the folder belongs to.
"""

import json
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from softkin import SoftkinError
from softkin._io import files

KEPT = 2  # so that one may be damaged
ABANDONED = 3600  # seconds after which a half-written file counts as left by a killed process


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: tensors by name, and plain data."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    path: Path


def claim(folder: Path, run: Mapping[str, Any]) -> None:
    """Claim ``folder`` for this run; refuse one that holds another run."""
    path = folder / "run.json"
    for half_written in folder.glob(".step-*"):  # a process that is writing now has a fresh file
        if time.time() - half_written.stat().st_mtime > ABANDONED:
            half_written.unlink(missing_ok=True)
    plain = files.plain(run)
    if not path.exists():
        if any(folder.glob("step-*.json")):
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
    from safetensors.torch import save as to_bytes

    # Copies: tied weights share memory, which safetensors refuses.
    content = to_bytes({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    path = folder / f"step-{step:08d}.json"
    body: dict[str, Any] = {"step": step, "tensors": files.sha256(content), "state": dict(state)}
    body["digest"] = _digest(body)
    files.write_together({path.with_suffix(".safetensors"): content, path: json.dumps(body, allow_nan=False)})
    files.sync_folder(folder)  # before older files are deleted
    for old in sorted(folder.glob("step-*.json"))[:-KEPT]:
        old.unlink(missing_ok=True)
    kept = {path.stem for path in folder.glob("step-*.json")}
    for old in folder.glob("step-*.safetensors"):
        if old.stem not in kept:
            old.unlink(missing_ok=True)
    return path


def latest(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint; damaged ones are set aside with a warning."""
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            return read(path)
        except SoftkinError as error:
            for part in (path, path.with_suffix(".safetensors")):
                if part.exists():
                    os.replace(part, part.with_name(part.name + ".damaged"))
            warnings.warn(f"{error} It was set aside as {path.name}.damaged, and the one before is used.", stacklevel=3)
    return None


def read(path: Path) -> Checkpoint:
    """One checkpoint, verified against its digests."""
    from safetensors.torch import load

    try:
        body = files.read_json(path, "a checkpoint")
        with files.reading(path, "a checkpoint"):
            if body.pop("digest") != _digest(body):
                raise ValueError("its digest does not fit")
            content = files.read_bytes(path.with_suffix(".safetensors"), "a checkpoint", bounded=False)
            if files.sha256(content) != body["tensors"]:
                raise ValueError("the digest of its tensors does not fit")
            return Checkpoint(load(content), dict(body["state"]), path)
    except SoftkinError as error:
        raise SoftkinError(f"the checkpoint {path} is damaged: {error}") from error


def _digest(body: Mapping[str, Any]) -> str:
    return files.sha256(json.dumps(body, sort_keys=True).encode())
