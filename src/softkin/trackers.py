"""Figures and pages for experiment trackers: TensorBoard, MLflow, Weights & Biases, directly or through a framework.

A tracker may be a ``SummaryWriter``, the module ``mlflow``, a run of ``wandb``, one of accelerate's
``accelerator.trackers``, or a logger of Lightning. Trackers are recognised by their methods, and none of these packages
is imported.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError
from softkin._io import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN = "a SummaryWriter, mlflow, a wandb run, a tracker of accelerate or a logger of Lightning"


def log_figure(figure: "Figure", tracker: Any, name: str, *, step: int = 0) -> bool:
    """Pass a figure to a tracker; returns whether the tracker accepts figures."""
    from softkin._core.figures import own_settings

    with own_settings():
        return _log_figure(figure, tracker, name, step)


def _log_figure(figure: "Figure", tracker: Any, name: str, step: int) -> bool:
    from softkin._core.figures import rendered

    writer = _writer(tracker)
    if hasattr(writer, "add_figure"):  # TensorBoard
        writer.add_figure(name, figure, global_step=step, close=False)
    elif hasattr(tracker, "log_image") and hasattr(tracker, "experiment"):  # Lightning's logger for Weights & Biases
        tracker.log_image(key=name, images=[_image(figure)], step=step)
    elif hasattr(tracker, "run_id") and hasattr(writer, "log_figure"):  # Lightning's logger for MLflow
        writer.log_figure(tracker.run_id, figure, f"{name}-{step:06d}.png")
    elif hasattr(writer, "log_figure"):  # mlflow itself, or accelerate's
        writer.log_figure(figure, f"{name}-{step:06d}.png")
    elif _is_wandb(writer):
        writer.log({name: _wandb().Image(_image(figure))}, step=step)
    elif isinstance(getattr(tracker, "log_dir", None), str):  # Lightning's CSV logger has only a folder
        path = Path(tracker.log_dir) / f"{name.replace('/', '-')}-{step:06d}.png"
        files.write(path, rendered(figure, dpi=120))
    else:
        return False
    return True


def log_page(page: str | Path, tracker: Any, *, name: str = "report") -> None:
    """Pass a page that ``report.write`` or ``softkin evaluate --report`` wrote to a tracker.

    MLflow and Weights & Biases keep the page itself; TensorBoard keeps no files and gets a text that says where it is.

    Args:
        page: The .html file.
        tracker: A ``SummaryWriter``, ``mlflow``, a run of ``wandb``, one of ``accelerator.trackers``, or a logger of
            Lightning.
        name: The page's name in the tracker.

    Raises:
        SoftkinError: There is no such file.
        TypeError: The tracker is not supported.
    """
    path = Path(page)
    if not path.is_file():
        raise SoftkinError(f"{path} could not be read: there is no such file.")
    writer = _writer(tracker)
    if hasattr(writer, "add_text"):
        writer.add_text(name, f"[{path.name}]({path.resolve().as_uri()})")
    elif hasattr(tracker, "run_id") and hasattr(writer, "log_artifact"):
        writer.log_artifact(tracker.run_id, str(path), name)
    elif hasattr(writer, "log_artifact") and not _is_wandb(writer):
        writer.log_artifact(str(path), name)
    elif _is_wandb(writer):
        writer.log({name: _wandb().Html(path.read_text(encoding="utf-8"), inject=False)})
    else:
        raise TypeError(f"`tracker` must be {KNOWN}, got {type(tracker).__name__}.")


def _image(figure: "Figure") -> Any:
    """A figure as a Pillow image: Weights & Biases accepts only figures of pyplot."""
    from PIL import Image

    from softkin._core.figures import rendered

    return Image.open(io.BytesIO(rendered(figure, dpi=120)))


def _writer(tracker: Any) -> Any:
    """The object that writes for a tracker of accelerate or a logger of Lightning."""
    for attribute in ("writer", "experiment", "run"):  # accelerate's TensorBoard, Lightning's, accelerate's wandb
        inner = getattr(tracker, attribute, None)
        if inner is not None and not callable(inner):
            return inner
    if type(tracker).__name__ == "MLflowTracker":  # accelerate's tracker has only the active run
        import mlflow

        return mlflow
    return tracker


def _is_wandb(writer: Any) -> bool:
    return type(writer).__module__.split(".")[0] == "wandb"


def _wandb() -> Any:
    import wandb

    return wandb
