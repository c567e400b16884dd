"""Cross-fitting, and the choice between calibrators by what they do on samples they have not seen."""

import torch
from torch import Tensor


def folds_of(num_samples: int, folds: int, seed: int) -> list[Tensor]:
    """The samples in ``folds`` random parts, as equal as can be; fewer parts where there are fewer samples."""
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(min(folds, num_samples))]
