"""Initial weights that depend on a seed alone."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed the draws inside the block, then restore the default generator; None draws from it as usual."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU only: torch.manual_seed would reseed every GPU too
        yield
