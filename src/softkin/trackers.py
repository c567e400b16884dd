"""Figures and pages for whatever keeps a run's records: TensorBoard, MLflow, Weights & Biases, by way of anything.

A tracker is the object that a person has at hand: a ``SummaryWriter``, the module ``mlflow`` or its client's logger, a
run of ``wandb``, one of accelerate's ``accelerator.trackers``, or a logger of Lightning. They are known by what they
can do, and none of them is imported.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN = "a SummaryWriter, mlflow, a wandb run, a tracker of accelerate or a logger of Lightning"


def log_figure(figure: "Figure", tracker: Any, name: str, *, step: int = 0) -> bool:
    """Hand a figure to a tracker; returns whether it takes figures."""
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
    elif isinstance(getattr(tracker, "log_dir", None), str):  # a folder is all that Lightning's CSV logger has
        place = Path(tracker.log_dir) / f"{name.replace('/', '-')}-{step:06d}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(place, dpi=120)
    else:
        return False
    return True


def log_page(page: str | Path, tracker: Any, *, name: str = "report") -> None:
    """Hand a page that ``report.write`` or ``softkin evaluate --report`` wrote to a tracker.

    MLflow and Weights & Biases keep the page itself; TensorBoard keeps no files and gets a text that says where it is.

    Args:
        page: The .html file.
        tracker: A ``SummaryWriter``, ``mlflow``, a run of ``wandb``, one of ``accelerator.trackers``, or a logger of
            Lightning.
        name: What to call it there.

    Raises:
        SoftkinError: There is no such file.
        TypeError: The tracker is of no known kind.
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
    """A figure as an image of Pillow: Weights & Biases takes figures of pyplot only."""
    from PIL import Image

    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return Image.open(file)


def _writer(tracker: Any) -> Any:
    """What does the writing behind a tracker of accelerate or a logger of Lightning."""
    for attribute in ("writer", "experiment", "run"):  # accelerate's TensorBoard, Lightning's, accelerate's wandb
        inner = getattr(tracker, attribute, None)
        if inner is not None and not callable(inner):
            return inner
    if type(tracker).__name__ == "MLflowTracker":  # accelerate's keeps no more than the active run
        import mlflow

        return mlflow
    return tracker


def _is_wandb(writer: Any) -> bool:
    return type(writer).__module__.split(".")[0] == "wandb"


def _wandb() -> Any:
    import wandb

    return wandb
