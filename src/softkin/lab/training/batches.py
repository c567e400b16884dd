"""Rows in memory → batches on the device: shuffled, gathered by index, standardised, augmented, mixed.

Every draw is made for the whole batch of all processes, and each process then takes its slice, so the batches do not
depend on how many processes share them. A draw depends on the seed, on what it is for, on the epoch and the step, and
on nothing else. No generator has a state that a crash could lose, and no method's draws disturb another's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core.randomness import key
from softkin.lab.training.methods import Method
from softkin.lab.training.objectives.penalties import mixed_targets
from softkin.lab.training.recipe import Recipe

if TYPE_CHECKING:
    from softkin.lab.data import Labelled, Samples

PADDING = 4  # pixels added on each side before a random crop of the original size
CHUNK = 2**24  # values at a time, so that memory-mapped data need not fit into memory


@dataclass(frozen=True)
class Standardisation:
    """The mean and deviation that inputs are standardised with: one number for each channel or column."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, data: "Samples") -> "Standardisation":
        """Mean and population deviation of the rows: exact for images; 0 and 1 for word counts."""
        values = data.values
        if data.kind == "text":
            return cls((0.0,), (1.0,))
        chunks = range(0, len(values), max(1, CHUNK // max(1, values[0].size)))
        step = chunks.step
        if data.kind == "images":
            channels = values.shape[-1]
            counts = np.zeros((channels, 256), dtype=np.int64)
            for start in chunks:
                part = np.asarray(values[start : start + step]).reshape(-1, channels)
                counts += np.stack([np.bincount(part[:, c], minlength=256) for c in range(channels)])
            levels, total = np.arange(256), counts.sum(axis=1)
            mean = counts @ levels / total
            variance = counts @ levels**2 / total - mean**2
        else:
            mean = variance = np.zeros(values.shape[1])
            for start in chunks:
                mean = mean + np.asarray(values[start : start + step], dtype=np.float64).sum(axis=0) / len(values)
            for start in chunks:
                part = np.asarray(values[start : start + step], dtype=np.float64) - mean
                variance = variance + (part**2).sum(axis=0) / len(values)
        std = np.sqrt(variance)
        std[std <= 1e-9 * np.maximum(1, abs(mean))] = 1  # constant columns
        return cls(tuple(mean.tolist()), tuple(std.tolist()))


class Inputs:
    """Rows of a data set as standardised float32 inputs on a device."""

    def __init__(
        self, data: "Samples", standardisation: Standardisation, *, device: torch.device, channels_last: bool
    ) -> None:
        self.values, self.kind, self.device = data.values, data.kind, device
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        shape = (-1, 1, 1) if data.kind == "images" else (-1,)
        std = torch.tensor(standardisation.std, dtype=torch.float64)
        mean = torch.tensor(standardisation.mean, dtype=torch.float64)
        self.scale = (1 / std).float().view(shape).to(device)
        self.shift = (-mean / std).float().view(shape).to(device)

    def rows(self, rows: NDArray[np.int64] | slice, window: "Window | None" = None) -> Tensor:
        """Standardised rows, (n, C, H, W) or (n, D)."""
        # Copy even a slice: the data may be a read-only memory map, and torch warns about those.
        raw = torch.from_numpy(np.array(self.values[rows], copy=True) if isinstance(rows, slice) else self.values[rows])
        if self.device.type == "cuda":
            raw = raw.pin_memory()
        raw = raw.to(self.device, non_blocking=True)
        if self.kind == "text":
            return raw.to(torch.float32)
        if self.kind == "images":
            raw = (raw if window is None else window.of(raw)).permute(0, 3, 1, 2)
            raw = raw.to(torch.float32, memory_format=self.layout)
            return raw.mul_(self.scale).add_(self.shift)
        return raw.to(torch.float32) * self.scale + self.shift


@dataclass(frozen=True)
class Window:
    """Which crop of each padded image to take, and which images to mirror."""

    top: NDArray[np.int64]
    left: NDArray[np.int64]
    flip: NDArray[np.bool_]
    padding: int

    @classmethod
    def draw(cls, augmentation: str, count: int, generator: np.random.Generator) -> "Window | None":
        if augmentation == "none":
            return None
        padding = PADDING if augmentation == "crop-flip" else 0
        top, left = generator.integers(0, 2 * padding + 1, (2, count))
        return cls(top, left, generator.random(count) < 0.5, padding)

    def take(self, places: NDArray[np.int64]) -> "Window":
        return Window(self.top[places], self.left[places], self.flip[places], self.padding)

    def of(self, images: Tensor) -> Tensor:
        """Crop and mirror (n, H, W, C) images, padded with black."""
        device, (n, height, width, _) = images.device, images.shape
        padding = self.padding
        if padding:
            images = torch.nn.functional.pad(images, (0, 0, padding, padding, padding, padding))
        across = np.arange(width)
        columns = np.where(self.flip[:, None], across[::-1], across) + self.left[:, None]
        lines = np.arange(height) + self.top[:, None]
        sample = torch.arange(n, device=device)[:, None, None]
        return images[
            sample,
            torch.from_numpy(lines).to(device)[:, :, None],
            torch.from_numpy(columns).to(device)[:, None, :],
        ]


@dataclass(frozen=True)
class Mix:
    """How a batch is mixed with itself: row i with row ``partner[i]``, ``weight`` = λ for the first."""

    partner: NDArray[np.int64]
    weight: float
    box: tuple[int, int, int, int] | None = None
    """Top, bottom, left and right of the rectangle that CutMix pastes"""

    @classmethod
    def draw(cls, method: Method, count: int, shape: tuple[int, ...], generator: np.random.Generator) -> "Mix | None":
        if method.mixing_method is None:
            return None
        weight = float(generator.beta(method.values["mixing"], method.values["mixing"]))
        partner = generator.permutation(count)
        if not method.mixing_method.pastes:
            return cls(partner, weight)
        height, width = shape[:2]
        side = np.sqrt(1 - weight)
        middle_y, middle_x = int(generator.integers(height)), int(generator.integers(width))
        half_y, half_x = int(height * side) // 2, int(width * side) // 2
        top, bottom = max(0, middle_y - half_y), min(height, middle_y + half_y)
        left, right = max(0, middle_x - half_x), min(width, middle_x + half_x)
        # Labels are weighted by the area actually pasted: the image's border may have cut the rectangle.
        area = 1 - (bottom - top) * (right - left) / (height * width)
        return cls(partner, area, (top, bottom, left, right))

    def of(self, first: Tensor, second: Tensor) -> Tensor:
        """Mixed inputs; ``first`` may be overwritten."""
        if self.box is None:
            return first.mul_(self.weight).add_(second, alpha=1 - self.weight)
        top, bottom, left, right = self.box
        first[:, :, top:bottom, left:right] = second[:, :, top:bottom, left:right]
        return first


@dataclass(frozen=True)
class Part:
    """A process's share of a batch, or of a part of it that goes through the network at once."""

    inputs: Tensor
    targets: Tensor
    whole: int
    """Rows in the whole batch"""
    rows: Tensor
    """(n,) the places of the samples among the training rows; of mixed samples, of the first"""


class Batches:
    """The training batches of this process.

    An epoch of N rows has ⌈N / batch_size⌉ batches whose sizes differ by one at most, so that no small last batch
    disturbs the statistics of batch normalisation.
    """

    def __init__(
        self,
        data: "Labelled",
        standardisation: Standardisation,
        *,
        method: Method,
        recipe: Recipe,
        seed: int,
        device: torch.device,
        channels_last: bool,
        rank: int,
        world: int,
    ) -> None:
        self.inputs = Inputs(data, standardisation, device=device, channels_last=channels_last)
        self.labels = torch.from_numpy(np.array(data.labels, dtype=np.int64))
        self.num_classes, self.size, self.shape = len(data.class_names), len(data.labels), data.values.shape[1:]
        self.method, self.seed, self.device = method, seed, device
        self.augmentation = recipe.augmentation if data.kind == "images" else "none"
        self.steps = -(-self.size // recipe.batch_size)
        self.rank, self.world, self.parts = rank, world, recipe.gradient_accumulation
        shares = world * self.parts
        if self.size // self.steps < shares:
            raise ValueError(
                f"a batch of {self.size // self.steps} rows cannot be split into {shares} parts, {world} processes × "
                f"{self.parts} parts of an accumulated batch; use a larger batch_size or fewer parts."
            )

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The order of the rows in epoch ``epoch``."""
        return np.random.default_rng(key(self.seed, "order", epoch)).permutation(self.size)

    def batch(self, order: NDArray[np.int64], epoch: int, step: int) -> Iterator[Part]:
        """The parts of batch ``step`` of an epoch that belong to this process."""
        rows = order[self.size * step // self.steps : self.size * (step + 1) // self.steps]
        count = len(rows)
        window = mix = None
        if self.augmentation != "none":
            generator = np.random.default_rng(key(self.seed, "augmentation", epoch, step))
            window = Window.draw(self.augmentation, count, generator)
        if self.method.mix is not None:
            generator = np.random.default_rng(key(self.seed, "mixing", epoch, step))
            mix = Mix.draw(self.method, count, self.shape, generator)
        shares = self.world * self.parts
        for share in range(self.rank * self.parts, (self.rank + 1) * self.parts):
            places = np.arange(count * share // shares, count * (share + 1) // shares)
            yield self._part(rows, places, window, mix)

    def _part(self, rows: NDArray[np.int64], places: NDArray[np.int64], window: Window | None, mix: Mix | None) -> Part:
        mine = torch.from_numpy(rows[places])
        labels, mine = self.labels[mine].to(self.device), mine.to(self.device)
        inputs = self._inputs(rows, places, window)
        if mix is None:
            return Part(inputs, labels, len(rows), mine)
        partners = mix.partner[places]
        if len(places) == len(rows):
            second = inputs[torch.from_numpy(partners).to(self.device)]
        else:
            second = self._inputs(rows, partners, window)
        others = self.labels[rows[partners]].to(self.device)
        targets = mixed_targets(labels, others, mix.weight, self.num_classes)
        return Part(mix.of(inputs, second), targets, len(rows), mine)

    def _inputs(self, rows: NDArray[np.int64], places: NDArray[np.int64], window: Window | None) -> Tensor:
        return self.inputs.rows(rows[places], None if window is None else window.take(places))
