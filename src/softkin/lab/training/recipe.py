"""Training recipes as plain data: optimizer, learning rate, batches, precision; everything but the labels."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from softkin._core import checks
from softkin._core.names import Registry, did_you_mean
from softkin._core.options import setting
from softkin.lab.training import AUGMENTATIONS, PRECISIONS, SCHEDULES, STOPS

MOST_EPOCHS = 100_000  # 500 times the paper recipe; the history has an entry for each


@dataclass(frozen=True)
class Recipe:
    """Stochastic gradient descent with momentum, and a learning rate that is a function of the step.

    The defaults are the usual ones for CIFAR-100, the "paper" recipe: lr 0.1, momentum 0.9 without Nesterov, weight
    decay 5e-4 on every parameter, batches of 128, 200 epochs, ×0.2 at 60, 120 and 160, one epoch of linear warm-up,
    random crops and flips (not the rotations that some add).

    Schedules, with t the step, w the number of warm-up steps and T of all steps, each after a warm-up lr·(t+1)/w:

    - "step": lr·γ^(number of milestones, in epochs, that have passed)
    - "cosine": lr·½(1 + cos π(t−w)/(T−w))
    - "one-cycle": half a cosine from lr/25 up to lr over the first 30 % of the steps, then one down to lr/250000, as
      ``torch.optim.lr_scheduler.OneCycleLR``; it has its own warm-up, and leaves the momentum alone
    - "constant": lr
    """

    epochs: int = setting(200, "number of passes over the training rows")
    batch_size: int = setting(128, "rows in a step, over all processes")
    """Rows in a step of the optimizer, over all processes and all parts of an accumulated batch"""
    lr: float = setting(0.1, "highest learning rate")
    momentum: float = setting(0.9, "momentum of stochastic gradient descent")
    nesterov: bool = setting(False, "Nesterov's form of the momentum")
    weight_decay: float = setting(5e-4, "L2 penalty on all parameters")
    schedule: Literal["step", "cosine", "one-cycle", "constant"] = setting(
        "step", "learning-rate schedule", choices=SCHEDULES
    )
    milestones: tuple[int, ...] = setting((60, 120, 160), "epochs after which the schedule step lowers the rate")
    gamma: float = 0.2
    """The factor of each step; no option, as methods have parameters called gamma"""
    warmup_epochs: float = setting(1, "epochs over which the learning rate rises from 0", "float")
    augmentation: Literal["none", "flip", "crop-flip"] = setting(
        "crop-flip", "augmentation of training images", choices=AUGMENTATIONS
    )
    """Augmentation of images; features and texts are never augmented"""
    gradient_accumulation: int = setting(1, "number of parts of a batch that go through the network one after another")
    """The number of parts in which a batch goes through the network, to save memory; the gradient is the same"""
    mixed_precision: Literal["no", "bf16", "fp16"] = setting(
        "no", "number format of forward and backward passes", choices=PRECISIONS
    )
    compile: bool | str = setting(False, "compile the network with torch.compile")
    """``torch.compile``: True for its default backend, or a backend's name"""
    channels_last: bool = setting(True, "store images channels-last in memory, which is faster on a CPU")
    """Store images with channels innermost in memory: the same results, 1.3 times as fast on a CPU"""
    flush_denormals: bool = True
    deterministic: bool = True
    """Use cuDNN's deterministic algorithms; otherwise a resumed run on a GPU differs in the last bits"""
    stop_by: str | None = setting(
        None,
        "metric on validation rows that chooses which epoch to keep; refined-nll: NLL after temperature scaling; "
        "without it the last epoch is kept",
        choices=STOPS,
    )
    """The metric on validation rows that chooses which epoch's weights to keep, a name in ``STOPS``; None: the last.
    "refined-nll" is the NLL after temperature scaling on the same rows, which leaves out what calibration repairs"""

    def __post_init__(self) -> None:
        if not isinstance(self.milestones, list | tuple):
            raise TypeError(f"`milestones` must be a list of epochs, got {self.milestones!r}.")
        object.__setattr__(self, "milestones", tuple(self.milestones))
        checks.count(self.epochs, "epochs", most=MOST_EPOCHS)
        checks.count(self.batch_size, "batch_size")
        checks.count(self.gradient_accumulation, "gradient_accumulation")
        if checks.at_least_zero(self.lr, "lr") == 0:
            raise ValueError("`lr` must be above 0, got 0.")
        if not 0 <= checks.number(self.momentum, "momentum") < 1:
            raise ValueError(f"`momentum` must be at least 0 and below 1, got {self.momentum:g}.")
        if self.nesterov and self.momentum == 0:
            raise ValueError("`nesterov` needs a momentum above 0, got 0.")
        checks.at_least_zero(self.weight_decay, "weight_decay")
        checks.at_least_zero(self.gamma, "gamma")
        checks.at_least_zero(self.warmup_epochs, "warmup_epochs")
        checks.option(self.schedule, "schedule", SCHEDULES)
        checks.option(self.augmentation, "augmentation", AUGMENTATIONS)
        checks.option(self.mixed_precision, "mixed_precision", PRECISIONS)
        for milestone in self.milestones:
            checks.count(milestone, "milestones")
        if self.stop_by is not None:
            checks.option(self.stop_by, "stop_by", STOPS)

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """A recipe by name, with some of its fields changed.

        With other ``epochs`` the milestones move along: "paper" for 20 epochs steps down at 6, 12 and 16.

        Example:
            >>> Recipe.named("paper", epochs=20).milestones
            (6, 12, 16)
        """
        base = cls(**RECIPES[RECIPES.canonical(name, "recipe")])
        _known(changes, [field.name for field in dataclasses.fields(cls)])
        if "epochs" in changes and "milestones" not in changes:
            epochs = checks.count(changes["epochs"], "epochs")
            moved = (max(1, round(milestone * epochs / base.epochs)) for milestone in base.milestones)
            changes["milestones"] = tuple(moved)
        return dataclasses.replace(base, **changes)

    def learning_rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate of step ``step``, counted from 0 over all epochs."""
        total, warm = self.epochs * steps_per_epoch, round(self.warmup_epochs * steps_per_epoch)
        if self.schedule == "one-cycle":
            return self._one_cycle(step, total)
        if step < warm:
            return self.lr * (step + 1) / warm
        if self.schedule == "step":
            passed = sum(step >= milestone * steps_per_epoch for milestone in self.milestones)
            return self.lr * self.gamma**passed
        if self.schedule == "cosine":
            return self.lr * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))
        return self.lr

    def _one_cycle(self, step: int, total: int) -> float:
        top, last = max(0.0, 0.3 * total - 1), total - 1
        if step <= top:
            return _half_cosine(self.lr / 25, self.lr, step / top if top > 0 else 1.0)
        return _half_cosine(self.lr, self.lr / 25e4, (step - top) / max(1e-9, last - top))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a record, which ``from_dict`` reads."""
        return dataclasses.asdict(self) | {"milestones": list(self.milestones)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """A recipe from plain data; unknown fields are refused by name."""
        _known(fields, [field.name for field in dataclasses.fields(cls)])
        return cls(**fields)


RECIPES: Registry[dict[str, Any]] = Registry("recipe")
"""Recipes by name: the fields that differ from the defaults of ``Recipe``"""
RECIPES.add("paper", {})
# For about a hundred images and a small network: trains in seconds.
RECIPES.add(
    "small",
    {
        "epochs": 60,
        "batch_size": 32,
        "lr": 0.05,
        "nesterov": True,
        "schedule": "cosine",
        "milestones": (),
        "augmentation": "none",
    },
)


def _half_cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * part))


def _known(fields: Mapping[str, Any], known: list[str]) -> None:
    for field in fields:
        if field not in known:
            raise ValueError(f"a recipe has no field {field!r}{did_you_mean(field, known)}")
