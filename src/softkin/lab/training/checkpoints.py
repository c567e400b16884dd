"""Checkpoints: bundles such as ``step-00000704.safetensors``, written whole or not at all, and checked when read.

The two newest are kept. ``run.json`` says which run the folder belongs to.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from softkin import SoftkinError
from softkin._core import ranks
from softkin._io import bundles, files, turns
from softkin.lab.training.events import Epoch
from softkin.lab.training.objectives import Objective

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
    turns.sweep(folder)
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


@dataclass
class Standing:
    """Everything besides tensors that a checkpoint must hold."""

    epoch: int = 0
    """The epoch under way, counted from 0"""
    step: int = 0
    """The step within that epoch"""
    history: list[Epoch] = field(default_factory=list)
    seconds: float = 0.0
    """Training time over all sessions"""
    epoch_seconds: float = 0.0
    epoch_loss: float = 0.0
    best: list[float] | None = None
    """[epoch, value] of the best epoch so far, if ``stop_by`` is set"""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        plain: dict[str, Any] = files.plain(asdict(self))
        return plain

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read the plain data of ``to_dict``; losses may be infinite."""
        history = [cast(Epoch, {key: _number(value) for key, value in entry.items()}) for entry in state["history"]]
        seconds, epoch_seconds, epoch_loss = (
            files.from_number(state[name]) for name in ("seconds", "epoch_seconds", "epoch_loss")
        )
        best = None if state.get("best") is None else [files.from_number(value) for value in state["best"]]
        return cls(int(state["epoch"]), int(state["step"]), history, seconds, epoch_seconds, epoch_loss, best)


def _number(value: Any) -> Any:
    return files.from_number(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Resumed:
    """The content of a checkpoint besides its tensors."""

    standing: Standing
    scaler: dict[str, Any] | None
    """The state of mixed precision's loss scaler"""
    path: Path | None
    """The checkpoint; None in processes that did not read it"""


class Keeper:
    """Writes and reads the checkpoints of a run: weights, momentum, and labels that a method has learnt."""

    def __init__(
        self, folder: Path, model: nn.Module, sgd: torch.optim.SGD, objective: Objective, *, rank: int, world: int
    ) -> None:
        self.folder, self.model, self.sgd, self.objective = folder, model, sgd, objective
        self.rank, self.world = rank, world
        self.best: dict[str, Tensor] = {}
        """The weights of the best epoch so far, if ``stop_by`` is set"""

    def remember_best(self) -> None:
        """Keep the current weights as the best so far."""
        self.best = {name: value.detach().clone() for name, value in self._weights().items()}

    @torch.no_grad()
    def take_best(self) -> None:
        """Put the best weights back into the network."""
        for name, value in self._weights().items() if self.best else ():
            value.copy_(self.best[name])

    def resume(self, run: Mapping[str, Any]) -> Resumed | None:
        """Claim the folder for this run, and resume from its newest whole checkpoint, if there is one.

        Args:
            run: The identity of the run, besides the shapes of its weights; a folder of another run is refused.
        """
        newest, error = None, None
        if self.rank == 0:
            try:
                shapes = {name: "×".join(map(str, value.shape)) for name, value in self._weights().items()}
                claim(self.folder, {**run, "weights": shapes})
                newest = latest(self.folder)
            except SoftkinError as refused:
                error = refused
        ranks.agree(error)
        state = ranks.gather(None if newest is None else newest.state)[0]
        if state is None:
            return None
        tensors = self._spread(newest.tensors if newest is not None else None)
        path = newest.path if newest is not None else None
        try:
            self._restore(tensors)
            if self.objective.moving is not None:
                self.objective.moving.set_alpha(float(state["alpha"]))
            return Resumed(Standing.from_dict(state), state["scaler"], path)
        except (KeyError, RuntimeError, TypeError, ValueError, IndexError, AttributeError) as wrong:
            raise SoftkinError(
                f"the checkpoint {path or self.folder} does not fit this run: {files.cause(wrong)}; "
                "use another folder, or delete that one."
            ) from wrong

    @torch.no_grad()
    def _restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, weight in self._weights().items():
            weight.copy_(_of_shape(tensors[f"model.{name}"], weight, name))
        if any(name.startswith("best.") for name in tensors):
            self.best = {
                name: torch.empty_like(weight).copy_(_of_shape(tensors[f"best.{name}"], weight, f"best.{name}"))
                for name, weight in self._weights().items()
            }
        for name, parameter in self.trained().items():
            if f"momentum.{name}" in tensors:
                kept = _of_shape(tensors[f"momentum.{name}"], parameter, f"momentum.{name}")
                self.sgd.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(kept)
        for name, buffer in self._labels().items():
            parts = tensors[f"labels.{name}"]
            # Each process resumes with its own sums; if the number of processes changed, the first gets all of them.
            if name not in self.objective.summed:
                mine = parts[0]
            else:
                mine = parts[self.rank] if len(parts) == self.world else parts.sum(dim=0) * (self.rank == 0)
            buffer.copy_(_of_shape(mine, buffer, f"labels.{name}"))

    def save(self, number: int, standing: Standing, scaler: Any) -> Path | None:
        """Write a checkpoint and return its path in the first process. Collective: every rank must call it."""
        tensors = {f"model.{name}": value for name, value in self._weights().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for name, parameter in self.trained().items():
            buffer = self.sgd.state[parameter].get("momentum_buffer") if parameter in self.sgd.state else None
            if buffer is not None:
                tensors[f"momentum.{name}"] = buffer
        for name, value in self._labels().items():
            tensors[f"labels.{name}"] = ranks.gather_rows(value[None])
        if self.rank != 0:
            return None
        state = {**standing.to_dict(), "scaler": None if scaler is None else scaler.state_dict()}
        if self.objective.moving is not None:
            state["alpha"] = self.objective.moving.alpha
        return save(self.folder, number, tensors, state)

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that the optimizer moves."""
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def _weights(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.model.state_dict().items() if isinstance(value, Tensor)}

    def _labels(self) -> dict[str, Tensor]:
        """The labels that the method has learnt so far."""
        return self.objective.learnt()

    def _spread(self, tensors: dict[str, Tensor] | None) -> dict[str, Tensor]:
        """Send the first rank's tensors to all ranks: only the first needs access to the folder."""
        if self.world == 1:
            return tensors or {}
        about = (
            None if tensors is None else [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()]
        )
        spread = {}
        for name, shape, dtype in ranks.gather(about)[0]:
            mine = torch.empty(shape, dtype=dtype) if tensors is None else tensors[name]
            spread[name] = ranks.from_first(mine)
        return spread


def _of_shape(kept: Tensor, like: Tensor, name: str) -> Tensor:
    if kept.shape != like.shape:
        raise ValueError(f"its {name} has the shape {tuple(kept.shape)}, and here it is {tuple(like.shape)}")
    return kept
