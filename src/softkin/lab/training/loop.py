"""The training loop: one plain loop for every method, in one process or many, which resumes after a crash.

A signal that asks a run to end is remembered until the current step is done and a checkpoint is written. Progress is a
line on the terminal, JSON lines in a file, and numbers for trackers.
"""

import contextlib
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from softkin import SoftkinError, metrics
from softkin._core import checks, ranks
from softkin._core.modes import evaluating
from softkin._core.randomness import key, reseed
from softkin.bayes import Companion
from softkin.calibrators import TemperatureScaling
from softkin.lab.training import CHECKPOINT_EVERY, checkpoints, launch
from softkin.lab.training.batches import Batches, Inputs, Standardisation
from softkin.lab.training.checkpoints import Keeper, Standing
from softkin.lab.training.events import Epoch, Listener, Live, live
from softkin.lab.training.methods import Method
from softkin.lab.training.objectives import objective
from softkin.lab.training.recipe import Recipe
from softkin.lab.training.signals import SIGNALS, Stop, watched
from softkin.metrics.measurement import measure
from softkin.metrics.scopes import Claims

if TYPE_CHECKING:
    from accelerate import Accelerator  # type: ignore[import-untyped]

    from softkin.lab.data import Labelled


HISTORY = {"accuracy": "accuracy", "ece_hist": "ece", "signed_gap": "gap", "nll": "nll"}
"""The metrics of every epoch, and what its history calls them"""
EVALUATED = 512  # rows at a time without gradients


def validation_numbers(logits: Tensor, labels: Tensor, stop_by: str | None = None) -> dict[str, float]:
    """The validation metrics of an epoch for its history, including the one of ``stop_by`` (``training.STOPS``)."""
    names = HISTORY | ({"brier": "brier"} if stop_by == "brier" else {})
    claims = Claims.of(logits.double().softmax(dim=1), labels)
    measured = measure(claims, names)
    numbers = {f"validation_{name}": measured[key].value for key, name in names.items()}
    if stop_by == "refined-nll":
        numbers["validation_refined_nll"] = refined_nll(logits, labels)
    return numbers


def cost_of(numbers: dict[str, float], stop_by: str) -> float:
    """The metric of ``stop_by``, with a sign that makes the smallest value the best."""
    key = HISTORY.get(stop_by, stop_by.replace("-", "_"))
    value = numbers[f"validation_{key}"]
    return -value if stop_by == "accuracy" else value


def refined_nll(logits: Tensor, labels: Tensor) -> float:
    """The NLL after temperature scaling on the same rows, the part that calibration cannot repair.

    References:
        Berta et al., Rethinking Early Stopping: Refine, Then Calibrate, 2025, arXiv:2501.19195, sec. 4 (TS-refinement).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fitting warns where all rows are right: then no temperature is best
        scaled = TemperatureScaling().fit(logits.double(), labels).predict_proba(logits.double())
    return metrics.nll(scaled, labels)


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Inputs, rows: range, num_classes: int) -> Tensor:
    """Logits (n, K) of the rows, float32 on the CPU; the model's mode (train or eval) is restored."""
    with evaluating(model):
        logits = [torch.empty(0, num_classes)]
        for start in range(rows.start, rows.stop, EVALUATED):
            output = model(inputs.rows(slice(start, min(start + EVALUATED, rows.stop))))
            logits.append(getattr(output, "logits", output).float().cpu())
        return torch.cat(logits)


MOST_SEED = 2**63 - 1  # the largest that torch's generators take
IDENTITY = ("method", "recipe", "seed", "training_digest")  # the fields of a record that identify a run
LISTED = 20  # pairs of similar classes in the history of an epoch
PATIENCE = 10  # steps between two checks of losses and signals where a check stalls the device


@dataclass(eq=False)
class Trained:
    """A trained network, with its history and record."""

    model: nn.Module
    history: list[Epoch]
    seconds: float
    """Training time, summed over all sessions if the run was resumed"""
    effective_target: str
    resumed: bool
    standardisation: Standardisation
    class_names: list[str]
    record: dict[str, Any] = field(default_factory=dict)
    """Plain data: method, recipe, seed, device, processes, versions, which rows batch statistics covered"""
    similarity: "Tensor | None" = None
    """(K, K) what the network came to find similar, if labels are learned"""


def fit(
    model: nn.Module,
    train: "Labelled",
    validation: "Labelled | None" = None,
    *,
    method: Method,
    recipe: Recipe,
    seed: int = 0,
    folder: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool | Listener | None = None,
    log_json: str | Path | None = None,
    trackers: Sequence[str] = (),
    checkpoint_every: float = CHECKPOINT_EVERY,
    validate_every: int | None = None,
) -> Trained:
    """Train ``model`` in place.

    With a ``folder``, the state is written there after an epoch and when the process is asked to end (SIGTERM,
    Ctrl-C). The same call on the same folder resumes from there and ends with the same weights, to the bit, as an
    uninterrupted run. Started by ``accelerate launch`` or ``torchrun``, the processes split each batch between them.

    Args:
        model: A network from standardised inputs (n, C, H, W) or (n, D) to logits (n, K).
        train: The training rows; their channel means and deviations standardise all inputs.
        validation: The rows that accuracy, ECE and NLL are reported on. They adjust ``alpha="auto"``, class-adaptive
            penalties and the choice of ``stop_by``, and change nothing else in the training.
        method: The training method, which decides labels and loss.
        recipe: The optimizer, learning rate, batches and precision.
        seed: The seed of the order of the rows, augmentation, mixing and dropout. The initial weights are those of
            ``model``.
        folder: The folder for checkpoints.
        device: A device such as "cuda:1"; by default the first accelerator of this machine, else the CPU.
        progress: Whether to show a progress line, by default if stderr is a terminal; or a function that is called
            with each event.
        log_json: A file that gets a JSON line for each step, epoch and checkpoint.
        trackers: Names among "tensorboard", "wandb", "mlflow".
        checkpoint_every: Minimum seconds between two checkpoints; 0 writes one after every epoch. The last epoch's is
            always written.
        validate_every: Epochs between two validations; the last epoch is always validated. Defaults to
            ⌈validation rows / training rows⌉, so that validating never costs more than training; to 1 if α is adjusted.

    Raises:
        SoftkinError: The loss became NaN or infinite; the folder belongs to another run; the device does not exist.
    """
    seed = checks.count(seed, "seed", least=0, most=MOST_SEED)
    if validate_every is None:
        moves = method.auto_alpha is not None or method.labelling.from_validation or recipe.stop_by is not None
        validate_every = 1 if moves or validation is None else -(-len(validation.labels) // max(1, len(train.labels)))
    checks.count(validate_every, "validate_every")
    checks.at_least_zero(checkpoint_every, "checkpoint_every")
    _check_data(train, validation, method, recipe)
    model = _with_companion(model, train, method, seed)
    path = None if folder is None else Path(folder)
    with launch.accelerated(recipe, device=device, trackers=trackers, folder=path) as accelerator:
        main = accelerator.process_index == 0
        with (
            launch.settings(recipe, accelerator.device),
            watched(path is not None) as stop,
            live(progress, log_json, description=method.name, main=main) as events,
        ):
            run = _Run(model, train, validation, method, recipe, seed, path, accelerator, events, stop)
            run.checkpoint_every, run.validate_every = checkpoint_every, validate_every
            if trackers:
                accelerator.init_trackers("softkin", config=_flat_config(run.record))
            try:
                run.train()
            finally:
                run.release()
                for tracker in accelerator.trackers:  # accelerator.end_training would end the process group too
                    tracker.finish()
            return run.result()


def _flat_config(record: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run as trackers take them: numbers and texts."""
    flat = checkpoints.flat(record)
    return {name: value if isinstance(value, int | float | str) else str(value) for name, value in flat.items()}


def _with_companion(model: nn.Module, train: "Labelled", method: Method, seed: int) -> nn.Module:
    """The network, wrapped in the method's companion if it has one."""
    if method.labelling.several:
        raise ValueError(f"the method {method.label} trains several networks: call training.fit_method.")
    make = method.labelling.companion
    if make is None or isinstance(model, Companion):
        return model
    return make(method, model, len(train.class_names), seed)


def _check_data(train: "Labelled", validation: "Labelled | None", method: Method, recipe: Recipe) -> None:
    if len(train.labels) == 0:
        raise ValueError("`train` must hold at least one row, got none.")
    checks.class_names(train.class_names)  # Predictions would refuse the same names, but only after the training
    if train.kind == "images" and train.values.dtype != np.uint8:
        raise TypeError(f"`train` must hold images of uint8, 0 to 255, got {train.values.dtype}.")
    for part in (method.labelling, method.mixing_method):
        if part is not None and part.images_only and train.kind != "images":
            raise ValueError(f"the method {part.name} needs images, and `train` holds {train.kind}.")
    if validation is None or len(validation.labels) == 0:
        if method.auto_alpha is not None:
            raise ValueError("alpha='auto' is adjusted on validation rows, but there are none.")
        if method.labelling.from_validation:
            raise ValueError(f"the method {method.label} learns from validation rows, but there are none.")
        if recipe.stop_by is not None:
            raise ValueError(f"stop_by={recipe.stop_by!r} chooses on validation rows, but there are none.")
    if recipe.stop_by is not None and method.label == "swag":
        raise ValueError("`stop_by` chooses one epoch, and swag averages over many; leave one of them out.")
    if validation is not None and list(validation.class_names) != list(train.class_names):
        raise ValueError("`validation` must have the classes of `train`, in the same order, but they differ.")


class _Run:
    """One run: its parts and its state."""

    checkpoint_every: float
    validate_every: int

    def __init__(
        self,
        model: nn.Module,
        train: "Labelled",
        validation: "Labelled | None",
        method: Method,
        recipe: Recipe,
        seed: int,
        folder: Path | None,
        accelerator: "Accelerator",
        events: Live,
        stop: Stop,
    ) -> None:
        self.model, self.method, self.recipe, self.seed, self.folder = model, method, recipe, seed, folder
        self.accelerator, self.events, self.stop = accelerator, events, stop
        self.rank, self.world, self.device = accelerator.process_index, accelerator.num_processes, accelerator.device
        self.class_names = list(train.class_names)
        self._set_up_data(train, validation)
        self._set_up_network()
        self.effective_target = method.effective_target(len(self.class_names))
        self.record = self._record(train)
        self.at = Standing()
        self.resumed = False
        self.last_good: Path | None = None
        scaler = self._resume()
        self.had_forward = "forward" in vars(model)
        self.net, self.optimizer = accelerator.prepare(model, self.sgd)
        if accelerator.scaler is not None and scaler is not None:
            accelerator.scaler.load_state_dict(scaler)
        self.saved = self.clock = time.monotonic()
        self.check_every = 1 if self.device.type == "cpu" else PATIENCE
        self.pending: list[Tensor] = []

    def _set_up_data(self, train: "Labelled", validation: "Labelled | None") -> None:
        """Set up the batches of this process, and the validation rows."""
        self.standardisation = Standardisation.of(train)
        self.channels_last = self.recipe.channels_last and train.kind == "images" and self.device.type != "mps"
        self.batches = Batches(
            train,
            self.standardisation,
            method=self.method,
            recipe=self.recipe,
            seed=self.seed,
            device=self.device,
            channels_last=self.channels_last,
            rank=self.rank,
            world=self.world,
        )
        self.validation = validation
        if validation is not None:
            self.validation_inputs = Inputs(
                validation, self.standardisation, device=self.device, channels_last=self.channels_last
            )

    def _set_up_network(self) -> None:
        """Set up the network on its device, its loss, its optimizer, and the keeper of its checkpoints."""
        if self.channels_last:
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model.to(self.device)
        self.objective = objective(self.method, len(self.class_names))
        self.objective.begin(self.batches.size)
        self.objective.to(self.device)
        self.sgd = torch.optim.SGD(
            [parameter for parameter in self.model.parameters() if parameter.requires_grad],
            lr=self.recipe.lr,
            momentum=self.recipe.momentum,
            nesterov=self.recipe.nesterov,
            weight_decay=self.recipe.weight_decay,
        )
        self.keeper = Keeper(
            self.folder or Path(), self.model, self.sgd, self.objective, rank=self.rank, world=self.world
        )

    def _record(self, train: "Labelled") -> dict[str, Any]:
        import accelerate

        record: dict[str, Any] = {
            "method": self.method.to_dict(),
            "effective_target": self.effective_target,
            "recipe": self.recipe.to_dict(),
            "seed": self.seed,
            "device": str(self.device),
            "processes": self.world,
            "versions": {"torch": str(torch.__version__), "accelerate": accelerate.__version__},
            "training_rows": len(train.labels),
            "training_digest": train.digest,
        }
        kinds = (nn.modules.batchnorm._BatchNorm,)
        normed = [m for m in self.model.modules() if isinstance(m, kinds) and not isinstance(m, nn.SyncBatchNorm)]
        if normed:
            record["batch_statistics"] = "per process" if self.world > 1 else "whole batches"
            if self.recipe.gradient_accumulation > 1:
                record["batch_statistics"] = "per part of an accumulated batch" + " and process" * (self.world > 1)
        return record

    # -- checkpoints ---------------------------------------------------------------------------------------------

    def _resume(self) -> dict[str, Any] | None:
        """Resume where the last session stopped; return the state of mixed precision's scaler, if there is one."""
        if self.folder is None:
            return None
        resumed = self.keeper.resume({name: self.record[name] for name in IDENTITY})
        if resumed is None:
            return None
        self.resumed, self.last_good, self.at = True, resumed.path, resumed.standing
        return resumed.scaler

    def _checkpoint(self) -> None:
        if self.folder is None:
            return
        self._tick()
        number = self.at.epoch * self.batches.steps + self.at.step
        path = self.keeper.save(number, self.at, self.accelerator.scaler)
        if path is not None:
            self.last_good = path
            self.events.tell("checkpoint", step=number, path=str(path))
        self.saved = time.monotonic()

    def _due(self) -> bool:
        """Whether a checkpoint is due, by the clock of the first process."""
        late = self.at.epoch == self.recipe.epochs or time.monotonic() - self.saved >= self.checkpoint_every
        return bool(ranks.gather(late)[0])

    def _tick(self) -> float:
        now = time.monotonic()
        self.at.seconds, self.clock = self.at.seconds + now - self.clock, now
        return self.at.seconds

    # -- training ------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Train the remaining epochs."""
        steps = self.batches.steps
        self.events.tell(
            "start",
            method=self.method.name,
            effective_target=self.effective_target,
            epochs=self.recipe.epochs,
            steps=self.recipe.epochs * steps,
            step=self.at.epoch * steps + self.at.step,
            resumed=self.resumed,
        )
        while self.at.epoch < self.recipe.epochs:
            order = self.batches.order(self.at.epoch)
            self.net.train()
            self.objective.train()
            while self.at.step < steps:
                started = time.monotonic()
                lr = self._one_step(order)
                self.at.epoch_seconds += time.monotonic() - started
                self.at.step += 1
                if self.at.step % self.check_every == 0 or self.at.step == steps:
                    self._look()
            self._end_epoch(lr)
        self.events.tell("end", seconds=self._tick())

    def _one_step(self, order: "np.ndarray[Any, Any]") -> float:
        number = self.at.epoch * self.batches.steps + self.at.step
        lr = self._learning_rate(number)
        for group in self.sgd.param_groups:
            group["lr"] = lr
        # Dropout and similar layers draw from torch's own generators: seed those by the step alone, too.
        reseed(key(self.seed, "network", self.rank, self.at.epoch, self.at.step), self.device)
        total: Tensor | float = 0.0
        parts = self.batches.parts
        for place, part in enumerate(self.batches.batch(order, self.at.epoch, self.at.step)):
            waits = self.world > 1 and place < parts - 1
            with self.accelerator.no_sync(self.net) if waits else contextlib.nullcontext():
                logits = self._logits(self.net(part.inputs))
                self.objective.attend(part.rows, self.at.epoch + 1, self.recipe.epochs)
                # The processes' gradients are averaged, so each brings its rows' sum times the number of processes.
                loss = self.objective(logits, part.targets) / part.whole
                self.accelerator.backward(loss * self.world if self.world > 1 else loss)
            total = loss.detach() + total
        # accelerate's own optimizer looks for an optional package at every step; it is needed for scaled losses.
        (self.sgd if self.accelerator.scaler is None else self.optimizer).step()
        self.sgd.zero_grad()
        assert isinstance(total, Tensor)
        self.pending.append(total)
        return lr

    def _learning_rate(self, step: int) -> float:
        """The learning rate of step ``step``, counted from 0 over all epochs."""
        usual = self.recipe.learning_rate(step, self.batches.steps)
        if not isinstance(self.model, Companion):
            return usual
        return self.model.learning_rate(usual, step / (self.recipe.epochs * self.batches.steps))

    def _training_rows(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All training rows in order, without augmentation; every process goes through all of them."""
        batch = self.recipe.batch_size
        for start in range(0, self.batches.size, batch):
            rows = slice(start, min(start + batch, self.batches.size))
            yield self.batches.inputs.rows(rows), self.batches.labels[rows].to(self.device)

    def _logits(self, output: Any) -> Tensor:
        logits = getattr(output, "logits", output)
        k = (self.model.outputs if isinstance(self.model, Companion) else None) or len(self.class_names)
        if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] != k:
            came = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(f"`model` must return logits (n, {k}), one column for each class, got {came}.")
        return logits

    def _look(self) -> None:
        """Check the losses since the last check, and signals. Collective: all ranks call it at the same steps."""
        wide = torch.float32 if self.device.type == "mps" else torch.float64
        flags = [float(self.stop.signal == signal) for signal in SIGNALS]
        news = torch.cat([torch.stack(self.pending).to(wide), torch.tensor(flags, dtype=wide, device=self.device)])
        totals = ranks.total(news).tolist()  # one collective call for all of it
        losses, asked = totals[: -len(flags)], totals[-len(flags) :]
        self.pending.clear()
        steps, first = self.batches.steps, self.at.step - len(losses)
        for place, loss in enumerate(losses):
            if not abs(loss) < float("inf"):
                self._not_a_number(self.at.epoch * steps + first + place, f"the loss became {loss:g}")
            self.at.epoch_loss += loss
            number = self.at.epoch * steps + first + place
            self.events.tell(
                "step",
                epoch=self.at.epoch + 1,
                epochs=self.recipe.epochs,
                step=number + 1,
                loss=loss,
                learning_rate=self._learning_rate(number),
                images_per_second=self._images_per_second(),
            )
        if self.at.step < steps:
            self._end_if(next((signal for signal, count in zip(SIGNALS, asked, strict=True) if count), 0))

    def _images_per_second(self) -> float:
        return self.batches.size * self.at.step / self.batches.steps / max(self.at.epoch_seconds, 1e-9)

    def _not_a_number(self, step: int, what: str) -> None:
        """Raise the error for a loss or weights that became NaN at ``step``, counted from 0 over all epochs."""
        steps = self.batches.steps
        lr = self._learning_rate(step)
        good = ranks.gather(None if self.last_good is None else str(self.last_good))[0]
        raise SoftkinError(
            f"{what} at step {step + 1} (epoch {step // steps + 1}) with learning rate {lr:g}; "
            f"the last good checkpoint is {good or 'none, as none was written'}; try a lower lr or a longer warm-up."
        )

    def _check_weights(self) -> None:
        """Refuse weights that are NaN or infinite: a step can end in them although its loss was finite."""
        if not all(bool(torch.isfinite(weights).all()) for weights in self.keeper.trained().values()):
            last = self.at.epoch * self.batches.steps + self.at.step - 1
            self._not_a_number(last, "the weights became infinite or NaN")

    def _end_if(self, number: int) -> None:
        """If ``number`` is a signal, write a checkpoint and end as the signal asks."""
        if number and self.folder is not None:
            self._check_weights()
            self._checkpoint()
            self.accelerator.wait_for_everyone()
            self.stop.deliver(number)
            # The process goes on, so the caller has a handler for the signal.
            raise SoftkinError(
                f"training was stopped by signal {number} in epoch {self.at.epoch + 1}; the same call resumes it."
            )

    def _end_epoch(self, lr: float) -> None:
        self.objective.end_epoch()
        entry: Epoch = {
            "epoch": self.at.epoch + 1,
            "loss": self.at.epoch_loss / self.batches.steps,
            "learning_rate": lr,
            "images_per_second": self._images_per_second(),
        }
        if self.objective.alpha is not None:
            entry["alpha"] = self.objective.alpha
        if self.objective.learning is not None:
            entry["similar"] = [list(pair) for pair in self.objective.learning.pairs(LISTED)]
        self.at.epoch, self.at.step = self.at.epoch + 1, 0
        self.at.epoch_loss = self.at.epoch_seconds = 0.0
        self._check_weights()
        looked_at = self.at.epoch % self.validate_every == 0 or self.at.epoch == self.recipe.epochs
        if isinstance(self.model, Companion):
            self.model.end_epoch(self.at.epoch / self.recipe.epochs, self._training_rows, looked_at=looked_at)
        if self.validation is not None and looked_at:
            entry |= cast(Epoch, self._validate(self.validation))
        entry["seconds"] = self._tick()
        self.at.history.append(entry)
        left = (self.recipe.epochs - self.at.epoch) * self.at.seconds / self.at.epoch
        self.events.tell(
            "epoch", **entry, epochs=self.recipe.epochs, step=self.at.epoch * self.batches.steps, seconds_left=left
        )
        if self.accelerator.log_with:
            numbers = {
                name: value for name, value in entry.items() if name != "epoch" and isinstance(value, int | float)
            }
            self.accelerator.log(numbers, step=self.at.epoch)
        if self.folder is not None and self._due():
            self._checkpoint()
        self._end_if(ranks.largest(self.stop.signal))

    def _validate(self, validation: "Labelled") -> dict[str, float]:
        if self.world > 1:  # all ranks use the running statistics of the first
            for buffer in self.model.buffers():
                buffer.copy_(ranks.from_first(buffer))
        n = len(validation.labels)
        mine = range(n * self.rank // self.world, n * (self.rank + 1) // self.world)
        logits = ranks.gather_rows(evaluate(self.model, self.validation_inputs, mine, len(self.class_names)))
        labels = torch.from_numpy(np.array(validation.labels, dtype=np.int64))
        if not bool(torch.isfinite(logits).all()):
            self._not_a_number(self.at.epoch * self.batches.steps - 1, "logits became infinite or NaN")
        if self.objective.moving is not None:
            self.objective.moving.adjust(logits, labels)  # all ranks have all rows, so all get the same α
        self.objective.validated(logits.to(self.device))
        numbers = validation_numbers(logits, labels, self.recipe.stop_by)
        if self.recipe.stop_by is not None:
            value = cost_of(numbers, self.recipe.stop_by)
            if self.at.best is None or value < self.at.best[1]:
                self.at.best = [self.at.epoch, value]
                self.keeper.remember_best()
        return numbers

    def release(self) -> None:
        """Remove accelerate's wrappers from the model."""
        # The network inside of torch.compile's, as accelerate 1.0 has no `keep_torch_compile=False`.
        self.accelerator.unwrap_model(getattr(self.net, "_orig_mod", self.net), keep_fp32_wrapper=False)
        vars(self.model).pop("_is_accelerate_prepared", None)
        if not self.had_forward:
            vars(self.model).pop("forward", None)

    def result(self) -> Trained:
        if self.at.best is not None:
            self.keeper.take_best()
            self.record["chosen_epoch"] = int(self.at.best[0])
        self.model.eval()
        return Trained(
            self.model,
            self.at.history,
            self.at.seconds,
            self.effective_target,
            self.resumed,
            self.standardisation,
            self.class_names,
            self.record,
            None if self.objective.learning is None else self.objective.learning.similarity.cpu(),
        )
