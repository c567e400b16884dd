"""Logits or probabilities in the form that rules use: float64 probabilities in blocks of rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin._core.checks import Array
from softkin.calibrators.held_out import LARGEST, doubt_logits, two_columns

BLOCK = 2**17  # numbers at a time: one megabyte of float64, so that the passes over a block stay in the cache


@dataclass(frozen=True)
class Rows:
    """(N, K) scores on the CPU, in their original dtype; only ``blocks`` converts them to float64."""

    values: Tensor
    are_probabilities: bool
    uniforms: Tensor | None = None
    """(N,) float64 numbers in [0, 1) that randomise the sets"""
    are_pairs: bool = False
    """Whether the two columns are those of a pair: the answer is wrong, or right"""
    groups: NDArray[np.str_] | None = None
    """(N,) the name of each row's group, where each group has limits of its own"""
    weights: Tensor | None = None
    """(N,) density ratios of the rows, float64"""

    @classmethod
    def of(cls, values: Array, from_probabilities: bool, *, least: int = 0, are_pairs: bool = False) -> "Rows":
        """Checked rows; one score for each sample is that of class 1 of two, or the confidence of pairs."""
        given = checks.as_tensor(values, "logits")
        if given.ndim == 1 or (given.ndim == 2 and given.shape[1] == 1):
            two = cls.of(two_columns(given.reshape(-1), from_probabilities), from_probabilities, least=least)
            return replace(two, are_pairs=are_pairs)
        if from_probabilities:
            return cls(checks.probabilities(values, "logits", least=least).cpu(), True)
        z = checks.logits(values, least=least).cpu()
        if z.dtype == torch.float64 and z.numel() and not max(-float(z.min()), float(z.max())) <= LARGEST:
            raise ValueError(f"`logits` must lie between ±{LARGEST:g}: differences of larger ones are infinite.")
        doubt_logits(z, stacklevel=5)
        return cls(z, False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> torch.Size:
        """(N, K)."""
        return self.values.shape

    @property
    def num_classes(self) -> int:
        """K."""
        return self.values.shape[1]

    @property
    def source(self) -> Literal["logits", "probabilities"]:
        """What the scores are."""
        return "probabilities" if self.are_probabilities else "logits"

    def take(self, places: Tensor) -> "Rows":
        """The rows at ``places``."""
        uniforms, weights = (None if part is None else part[places] for part in (self.uniforms, self.weights))
        groups = None if self.groups is None else self.groups[places.numpy()]
        return Rows(self.values[places], self.are_probabilities, uniforms, self.are_pairs, groups, weights)

    def blocks(self, width: int | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with their (n, K) float64 probabilities; ``width`` is the caller's values per row."""
        step = max(1, BLOCK // (width or self.num_classes))
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            block = self.values[rows]
            yield rows, block.double() if self.are_probabilities else torch.softmax(block, dim=1, dtype=torch.float64)

    @property
    def are_float32(self) -> bool:
        """Whether these are float32 logits, whose float32 softmax is accurate to about 1e-6."""
        return not self.are_probabilities and self.values.dtype == torch.float32

    def exact_blocks(self, places: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Parts of ``places`` with the float64 probabilities of those rows."""
        for part in places.split(max(1, BLOCK // self.num_classes)):
            yield part, torch.softmax(self.values[part], dim=1, dtype=torch.float64)

    def rough_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with their probabilities in float32."""
        step = max(1, 2 * BLOCK // self.num_classes)
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, torch.softmax(self.values[rows], dim=1)

    def logit_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Slices of rows with their float64 logits."""
        step = max(1, BLOCK // self.num_classes)
        for start in range(0, len(self), step):
            rows = slice(start, min(start + step, len(self)))
            yield rows, self.values[rows].double()


def pseudo_uniforms(values: Tensor, seed: int) -> Tensor:
    """(N,) numbers in [0, 1) that look random, and depend only on ``seed`` and on each row's values as float32.

    A row gets the same number in any batch and at any position. Numbers drawn by position would repeat: rows that are
    predicted one at a time would all get the first.
    """
    generator = torch.Generator().manual_seed(seed)
    # Wrapping sums of products with random odd factors; int32, as int64 products take ten times as long.
    factors = torch.randint(-(2**30), 2**30, (values.shape[1],), generator=generator, dtype=torch.int32) * 2 + 1
    digests = torch.empty(len(values), dtype=torch.int64)
    step = max(1, 2 * BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        rows = slice(start, min(start + step, len(values)))
        bits = values[rows].float().contiguous().view(torch.int32)
        bits = bits ^ (bits >> 16)  # round numbers have zeros in the lower half, which products do not mix upwards
        digests[rows] = bits.mul_(factors).sum(dim=1, dtype=torch.int32)
    for shift, factor in ((16, 0x45D9F3B45D9F3B), (29, 0x1B03738712FAD5C9), (32, 0x2545F4914F6CDD1D)):
        digests = (digests ^ (digests >> shift)) * factor  # so that nearby sums become unrelated numbers
    return ((digests >> 11) & (2**53 - 1)).double() / 2**53


def set_apart(num_samples: int, wanted: int, seed: int) -> tuple[Tensor, Tensor]:
    """``wanted`` random rows for choosing a rule's parameters, and the other rows, which its guarantee uses."""
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed))
    return order[:wanted].sort().values, order[wanted:].sort().values
