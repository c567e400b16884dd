"""A network for text given as word counts."""

import math

import torch
from torch import Tensor, nn

from softkin.lab.models.stem import dropped, kaiming


class Weighted(nn.Module):
    """Map counts to ln(1 + count) and scale each text to length √D, so that a repeated word counts less than double.

    With this length, a unit of the next layer has the same variance as if all D inputs were standardised.
    """

    def forward(self, counts: Tensor) -> Tensor:
        length = math.sqrt(counts.shape[1])
        return torch.nn.functional.normalize(counts.log1p(), dim=1) * length


def bag_of_words(num_classes: int, input_shape: tuple[int], hidden: int = 256, dropout: float = 0.0) -> nn.Module:
    """Map word counts (N, D), hashed or not, to logits through one hidden layer of ``hidden`` units with ReLU.

    The order of words is lost; in short queries such as CLINC150's, the words alone carry most of the meaning.
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
