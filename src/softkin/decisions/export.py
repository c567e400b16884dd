"""Export rules as modules behind a network, with or without a calibrator in between."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from softkin.calibrators.base import Calibrator
from softkin.decisions.base import Rule
from softkin.decisions.sets import PredictionSets


class RuleModule(nn.Module):
    """A fitted rule as a module that maps logits (N, K) to answers.

    Its numbers are buffers, which move with the module and are invisible to optimisers.
    """

    def __init__(
        self, name: str, before: nn.Module, formula: Callable[..., Tensor], parameters: list[Tensor], dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.name, self.before, self.formula, self.dtype = name, before, formula, dtype
        self.count = len(parameters)
        for place, parameter in enumerate(parameters):
            kept = parameter.to(dtype) if parameter.is_floating_point() else parameter
            self.register_buffer(f"parameter_{place}", kept.clone())

    def forward(self, logits: Tensor) -> Tensor:
        """The answers."""
        parameters = [self.get_buffer(f"parameter_{place}") for place in range(self.count)]
        return self.formula(self.before(logits.to(self.dtype)), *parameters)

    def extra_repr(self) -> str:
        return self.name


class RandomisedSets(RuleModule):
    """A module for randomised sets: the second input holds one uniform number per row, (N,)."""

    def forward(self, logits: Tensor, uniforms: Tensor) -> Tensor:  # type: ignore[override]
        """The sets."""
        parameters = [self.get_buffer(f"parameter_{place}") for place in range(self.count)]
        return self.formula(self.before(logits.to(self.dtype)), *parameters, uniforms.to(self.dtype)[:, None])


def as_module(rule: Rule, calibrator: Calibrator | None, dtype: torch.dtype) -> nn.Module:
    """The module of a rule; see ``Rule.as_module``."""
    before: nn.Module
    if calibrator is not None:
        if not isinstance(calibrator, Calibrator):
            raise TypeError(f"`calibrator` must be a fitted calibrator, got {type(calibrator).__name__}.")
        before = calibrator.as_module()
        if calibrator.num_classes_ != rule.num_classes_:
            raise ValueError(
                f"`calibrator` must have the {rule.num_classes_} classes of the rule, got {calibrator.num_classes_}."
            )
        if rule.fitted_from_ != "probabilities":
            raise ValueError(
                "the rule was fitted on logits, and a calibrator returns probabilities: fit it on those, with "
                "from_probabilities=True."
            )
    else:
        before = nn.Identity() if rule.reads_logits() else nn.Softmax(dim=1)
    formula, parameters = rule._formula()
    is_random = isinstance(rule, PredictionSets) and rule.is_random
    return (RandomisedSets if is_random else RuleModule)(type(rule).__name__, before, formula, parameters, dtype)
