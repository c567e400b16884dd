"""Networks in evaluation mode for a while."""

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def restored(network: nn.Module) -> Iterator[None]:
    """Restore the mode (training or evaluation) of every part of a network after the block."""
    modes = [(module, module.training) for module in network.modules()]
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network in evaluation mode inside the block, then restore the mode of each of its parts."""
    with restored(network):
        network.eval()
        yield
