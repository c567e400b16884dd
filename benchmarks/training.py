"""Training throughput, in one run: ``python benchmarks/training.py`` (5 minutes, needs ../shared/data for CIFAR-100).

A WRN 16-1 on CIFAR-100 images, one thread. ``training.fit`` does all that it does in real runs: shuffling, crops and
flips, class-similarity labels, a JSON line a step, a checkpoint. Against it

- the bare forward, backward and step of the same network on one fixed batch, in both memory layouts;
- the loop of the tutorials: a ``DataLoader`` whose data set opens, pads, crops, flips and converts image by image.

The contestants take turns, and medians are compared. ``--output`` also writes the table as Markdown.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from softkin.lab import data, models, training
from timing import medians

CIFAR = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar100"
BATCH = 128


def wrn() -> nn.Module:
    return models.build("wrn", num_classes=100, input_shape=(3, 32, 32), seed=0, units=2)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)


def bare(steps: int, layout: torch.memory_format) -> Callable[[], None]:
    """Forward, backward and step on one batch that never changes."""
    model = wrn().to(memory_format=layout)  # type: ignore[call-overload]
    inputs, labels = torch.randn(BATCH, 3, 32, 32).to(memory_format=layout), torch.randint(0, 100, (BATCH,))
    optimizer, loss = sgd(model), nn.CrossEntropyLoss(label_smoothing=0.1)

    def run() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()
            optimizer.step()

    return run


def ours(train: data.Labelled) -> Callable[[], None]:
    """``training.fit`` for one epoch, with a log and a checkpoint."""
    distances = training.class_distances(train, "words")
    method = training.Method.from_distances(distances)
    recipe = training.Recipe.named("paper", epochs=1, lr=0.01)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            training.fit(
                wrn(),
                train,
                method=method,
                recipe=recipe,
                folder=folder,
                log_json=Path(folder) / "log.jsonl",
                device="cpu",
            )

    return run


class Tutorial(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """One image at a time, as tutorials and torchvision's CIFAR do."""

    def __init__(self, train: data.Labelled) -> None:
        self.images, self.labels = np.array(train.values), train.labels.tolist()
        self.mean = torch.tensor([0.5071, 0.4865, 0.4409]).view(3, 1, 1)
        self.std = torch.tensor([0.2673, 0.2564, 0.2762]).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        padded = ImageOps.expand(Image.fromarray(self.images[row]), 4)
        top, left = torch.randint(0, 9, (2,)).tolist()
        image = padded.crop((left, top, left + 32, top + 32))
        if torch.rand(1).item() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
        return (pixels - self.mean) / self.std, self.labels[row]


def tutorial(train: data.Labelled, workers: int) -> Callable[[], None]:
    loader = torch.utils.data.DataLoader(Tutorial(train), batch_size=BATCH, shuffle=True, num_workers=workers)

    def run() -> None:
        model = wrn()
        optimizer, loss = sgd(model), nn.CrossEntropyLoss(label_smoothing=0.1)
        running = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            value = loss(model(inputs), labels)
            value.backward()
            optimizer.step()
            running += value.item()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    steps = arguments.steps
    train = data.load(CIFAR, split="train").take(range(steps * BATCH))
    train = replace(train, values=np.array(train.values))
    took = medians(
        {
            "ours": ours(train),
            "bare": bare(steps, torch.contiguous_format),
            "bare, channels last": bare(steps, torch.channels_last),
            "tutorial": tutorial(train, 0),
            "tutorial, 2 workers": tutorial(train, 2),
        },
        arguments.repeats,
    )
    images = steps * BATCH
    rate = {name: images / seconds for name, seconds in took.items()}
    goals = {"bare": "≥ 93 %", "bare, channels last": "≥ 93 %", "tutorial": "≥ 1.3×", "tutorial, 2 workers": "≥ 1.3×"}
    lines = [
        f"torch {torch.__version__}, {platform.processor() or platform.machine()}, 1 thread, load "
        f"{os.getloadavg()[0]:.1f}; WRN 16-1, {images:,} CIFAR-100 images in batches of {BATCH}, "
        f"medians of {arguments.repeats}",
        "",
        "| against | images/s | training.fit, images/s | ratio | reach |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, goal in goals.items():
        ratio = rate["ours"] / rate[name]
        shown = f"{100 * ratio:.1f} %" if goal.endswith("%") else f"{ratio:.2f}×"
        lines.append(f"| {name} | {rate[name]:,.0f} | {rate['ours']:,.0f} | {shown} | {goal} |")
    table = "\n".join(lines)
    print(table)
    if arguments.output is not None:
        arguments.output.write_text(f"# Training throughput\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
