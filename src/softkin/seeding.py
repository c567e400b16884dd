"""Initial weights that depend on a seed alone."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw from ``seed``, and leave the default generator as it was; None draws from that as usual."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone: torch.manual_seed would reseed every GPU too
        yield
