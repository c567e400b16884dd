"""Export of calibrators: as a module after a network, or folded into its last linear layer."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from softkin.calibrators import zeros
from softkin.calibrators.base import Calibrator, Parametric
from softkin.calibrators.composition import Composed
from softkin.calibrators.linear import MatrixScaling, VectorScaling
from softkin.calibrators.temperature import TemperatureScaling


class CalibratorModule(nn.Module):
    """A fitted map as a module: logits (N, K) in, calibrated probabilities out, computed in the dtype of the logits.

    Its parameters are buffers: they move with the module, and optimisers ignore them.
    """

    def __init__(self, name: str, formula: Callable[..., Tensor], parameters: list[Tensor]) -> None:
        super().__init__()
        self.name, self.formula = name, formula
        self.count = len(parameters)
        for place, parameter in enumerate(parameters):
            self.register_buffer(f"parameter_{place}", parameter.clone())

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities."""
        parameters = [self.get_buffer(f"parameter_{place}").to(logits) for place in range(self.count)]
        return self.formula(logits, *parameters)

    def extra_repr(self) -> str:
        return self.name


class _Logarithm(nn.Module):
    """The step between two calibrators: turns probabilities of the first into logits for the next."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, probabilities: Tensor) -> Tensor:
        return zeros.logarithms(probabilities, self.floor)


def as_module(calibrator: Calibrator) -> nn.Module:
    """See ``Calibrator.as_module``."""
    if calibrator.fell_back_:
        return nn.Softmax(dim=1)
    module = _formula(calibrator)
    if calibrator.fitted_from_ == "probabilities" and not calibrator._is_shift_invariant():
        return nn.Sequential(nn.LogSoftmax(dim=1), module)  # the map takes ln p, from which logits differ by a constant
    return module


def _formula(calibrator: Calibrator) -> nn.Module:
    """The map as a module that takes what the calibrator was fitted on: logits, or ln p."""
    if isinstance(calibrator, Composed):
        parts: list[nn.Module] = []
        for place, step in enumerate(calibrator.steps):
            parts += [_Logarithm(float(calibrator.floors_[place - 1])), as_module(step)] if parts else [as_module(step)]
        return nn.Sequential(*parts)
    if not isinstance(calibrator, Parametric):
        raise TypeError(
            f"{type(calibrator).__name__} has no fixed number of parameters and cannot become a module; "
            "use predict_proba on the network's logits."
        )
    return CalibratorModule(type(calibrator).__name__, type(calibrator)._map, calibrator._parameter_tensors())


@torch.no_grad()
def fold_into_linear(calibrator: Calibrator, linear: nn.Linear) -> nn.Linear:
    r"""The network's last layer with the calibration folded in: the softmax of its outputs is calibrated.

    With z = A x + a of the layer: temperature gives A/T, a/T; vector scaling diag(w) A, w∘a + b; matrix scaling W A,
    W a + b. Others cannot be folded exactly (Dirichlet needs ln p, not z): use ``as_module``.

    Args:
        calibrator: A calibrator fitted on the logits of this layer.
        linear: The layer; it is not changed.

    Returns:
        A new layer of the same type, on the same device, with a bias.
    """
    calibrator._check_fitted()
    if linear.out_features != calibrator.num_classes_:
        raise ValueError(
            f"`linear` must have {calibrator.num_classes_} outputs, one for each class of the calibrator, "
            f"got {linear.out_features}."
        )
    weight = linear.weight.detach().cpu().to(torch.float64)
    bias = weight.new_zeros(len(weight)) if linear.bias is None else linear.bias.detach().cpu().to(torch.float64)
    if calibrator.fell_back_:
        pass
    elif calibrator.fitted_from_ != "logits" and not calibrator._is_shift_invariant():
        raise ValueError("the calibrator was fitted on probabilities, and a layer returns logits: fit it on logits.")
    elif isinstance(calibrator, TemperatureScaling):
        weight, bias = weight / calibrator.temperature_, bias / calibrator.temperature_
    elif isinstance(calibrator, VectorScaling):
        w = calibrator.weight_
        weight, bias = w[:, None] * weight, w * bias + calibrator.bias_
    elif isinstance(calibrator, MatrixScaling) and calibrator.weight_.ndim == 2:
        weight, bias = calibrator.weight_ @ weight, calibrator.weight_ @ bias + calibrator.bias_
    else:
        raise TypeError(
            f"{type(calibrator).__name__} cannot be folded into a linear layer exactly; put as_module() after it."
        )
    folded = nn.Linear(linear.in_features, linear.out_features, device=linear.weight.device, dtype=linear.weight.dtype)
    folded.weight.copy_(weight)
    folded.bias.copy_(bias)
    return folded
