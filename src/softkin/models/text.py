"""A network for text as counts of words."""

import math

import torch
from torch import Tensor, nn

from softkin.models.stem import dropped, kaiming


class Weighted(nn.Module):
    """Counts → ln(1 + count), each text scaled to length √D: a word said twice counts less than double.

    With that length a unit of the next layer has the same variance as if all D inputs were standardised.
    """

    def forward(self, counts: Tensor) -> Tensor:
        length = math.sqrt(counts.shape[1])
        return torch.nn.functional.normalize(counts.log1p(), dim=1) * length


def bag_of_words(num_classes: int, input_shape: tuple[int], hidden: int = 256, dropout: float = 0.0) -> nn.Module:
    """Word counts (N, D), hashed or not → logits, through one hidden layer of ``hidden`` units with ReLU.

    The order of words is lost; for short queries such as CLINC150's the words alone say most.
    ``dropout`` follows the hidden layer.
    """
    network = nn.Sequential(
        Weighted(),
        nn.Linear(*input_shape, hidden),
        nn.ReLU(inplace=True),
        *dropped(dropout),
        nn.Linear(hidden, num_classes),
    )
    kaiming(network)
    return network
