"""Launching with Hugging Face accelerate: processes, devices, precision and trackers."""

import contextlib
import importlib.util
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import torch

from softkin import SoftkinError
from softkin._core import ranks
from softkin._core.checks import first_line
from softkin._core.names import did_you_mean
from softkin.lab.training.recipe import Recipe

if TYPE_CHECKING:
    from accelerate import Accelerator  # type: ignore[import-untyped]

LAUNCHES = ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_HPU")
TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}


@contextlib.contextmanager
def accelerated(
    recipe: Recipe,
    *,
    device: str | torch.device | None = None,
    trackers: Sequence[str] = (),
    folder: Path | None = None,
) -> "Iterator[Accelerator]":
    """An accelerator for one run.

    accelerate keeps its device and precision for the life of a process, but runs may need different ones, and the
    caller may use an accelerator too. So accelerate's state is set aside during the run and restored
    afterwards. The process group, if there is one, stays.
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState  # type: ignore[import-untyped]
    from accelerate.utils import (  # type: ignore[import-untyped]
        DistributedDataParallelKwargs,
        GradientAccumulationPlugin,
        ProjectConfiguration,
    )

    check_trackers(trackers)
    if "mlflow" in trackers:
        _mlflow_store()
    wanted = None if device is None else checked_device(device)
    shared: list[dict[str, Any]] = [state._shared_state for state in (AcceleratorState, PartialState, GradientState)]
    before = [dict(state) for state in shared]
    variable = "ACCELERATE_TORCH_DEVICE"
    environment = os.environ.get(variable)
    for state in shared:
        state.clear()
    try:
        if wanted is not None and wanted.type != "cpu" and "LOCAL_RANK" not in os.environ:
            os.environ[variable] = str(wanted)
        log_folder = str(folder or Path("runs"))
        accelerator = Accelerator(
            # Without this option accelerate does not join the processes of a machine that has only a CPU.
            cpu=not _has_accelerator() if wanted is None else wanted.type == "cpu",
            mixed_precision=recipe.mixed_precision,
            dynamo_backend="inductor" if recipe.compile is True else recipe.compile or "no",
            log_with=list(trackers) or None,
            project_config=ProjectConfiguration(project_dir=log_folder, logging_dir=log_folder) if trackers else None,
            kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
            # The loop weights the parts of a batch itself; accelerate would read the number from the environment.
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        )
        _check_launch(accelerator, recipe)
        yield accelerator
    finally:
        if environment is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = environment
        for state, old in zip(shared, before, strict=True):
            state.clear()
            state.update(old)


def _has_accelerator() -> bool:
    if hasattr(torch, "accelerator"):  # torch 2.6 and later
        return bool(torch.accelerator.is_available())
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _check_launch(accelerator: "Accelerator", recipe: Recipe) -> None:
    """Refuse a launch whose training would differ from the recipe."""
    kind = str(accelerator.distributed_type).rpartition(".")[2]
    if kind not in LAUNCHES:
        raise SoftkinError(f"training splits batches between processes, but {kind} splits networks; launch without it.")
    if accelerator.num_processes != ranks.world()[1]:
        raise SoftkinError(
            f"the process group has {ranks.world()[1]} processes, but accelerate sees {accelerator.num_processes}; "
            "let training.fit set up the group, or pass `device`."
        )
    if recipe.mixed_precision == "fp16" and accelerator.device.type == "cpu":
        raise SoftkinError("mixed precision fp16 needs an accelerator, and the device is cpu; use bf16 or no.")
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if launched not in ("no", recipe.mixed_precision):
        warnings.warn(
            f"accelerate was launched with mixed precision {launched}, but the recipe says {recipe.mixed_precision}, "
            f"which is used; set mixed_precision={launched!r} in the recipe (--mixed-precision {launched}).",
            stacklevel=5,
        )


def named_device(device: str | torch.device) -> torch.device:
    """A device whose name torch knows; this machine need not have it."""
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise SoftkinError(f"the device {device} cannot be used: {first_line(error)}.") from error


def checked_device(device: str | torch.device) -> torch.device:
    """A device that this machine has."""
    checked = named_device(device)
    try:
        torch.empty(1, device=checked)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        raise SoftkinError(f"the device {device} cannot be used: {first_line(error)}.") from error
    return checked


def _mlflow_store() -> None:
    """Let MLflow write to the folder mlruns, its usual place, where it has no database and no other place is stated.

    mlflow-skinny comes without a database, refuses its own default, and refuses folders unless a variable allows them.
    """
    if "MLFLOW_TRACKING_URI" not in os.environ and importlib.util.find_spec("sqlalchemy") is None:
        os.environ["MLFLOW_TRACKING_URI"] = Path("mlruns").resolve().as_uri()
    if urlsplit(os.environ.get("MLFLOW_TRACKING_URI", "sqlite:")).scheme in ("", "file"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")


def check_trackers(trackers: Sequence[str]) -> None:
    """Refuse trackers that are unknown or not installed."""
    if isinstance(trackers, str):
        raise TypeError(f"`trackers` must be a list of names, got the single text {trackers!r}.")
    for name in trackers:
        if name not in TRACKERS:
            guess = did_you_mean(str(name), TRACKERS)
            raise ValueError(f"`trackers` must be among {', '.join(TRACKERS)}, got {name!r}{guess}")
        if importlib.util.find_spec(TRACKERS[name]) is None:
            raise SoftkinError(f"the tracker {name} is not installed: pip install {TRACKERS[name]}.")


@contextlib.contextmanager
def settings(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Set torch's process-wide state for a run, then restore it: determinism, denormals, generators."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    flushes = _flushes_denormals()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        try:
            if recipe.deterministic:
                cudnn.deterministic, cudnn.benchmark = True, False
            if recipe.flush_denormals:
                torch.set_flush_denormal(True)
            yield
        finally:
            cudnn.deterministic, cudnn.benchmark = before
            torch.set_flush_denormal(flushes)


def _flushes_denormals() -> bool:
    """Whether this thread flushes denormals: torch can set that mode but not read it."""
    return float(torch.tensor([1e-310], dtype=torch.float64) * 1.0) == 0.0
