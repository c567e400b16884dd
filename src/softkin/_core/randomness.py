"""Draws that depend on a seed and on what they are for, and on nothing else."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from softkin._core import checks

CPU = torch.device("cpu")


def key(seed: int, *what: Any) -> int:
    """A seed for one draw, which depends only on ``seed`` and the draw's purpose: 63 bits of a digest."""
    text = " ".join(map(str, (seed, *what)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int) -> np.random.Generator:
    """Numpy's generator for a seed that a caller gave."""
    return np.random.default_rng(checks.count(seed, "seed", least=0))


def reseed(seed: int, device: torch.device = CPU) -> None:
    """Seed the default generators of the CPU and of the device.

    ``torch.manual_seed`` would do both, but reseeds every GPU, and records a stack trace for each kind of device that
    is not in use yet.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        getattr(torch, device.type).manual_seed(seed)


@contextlib.contextmanager
def seeded(seed: int | None, device: torch.device = CPU) -> Iterator[None]:
    """Seed the draws inside the block, then restore the generators of the CPU and of the device; None seeds nothing."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        reseed(seed, device)
        yield
