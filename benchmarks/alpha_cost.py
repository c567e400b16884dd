"""What ``alpha="auto"`` and class names cost: ``python benchmarks/alpha_cost.py`` (a minute or two, one thread).

- ``adjust``: its share of a whole training by ``training.fit``, which validates after each epoch. The validation pass
  itself is not counted: a training that reports validation numbers has it anyway. Aim: 3 % at most.
- Names: loading the shipped word vectors and looking up 1,000 names, in a fresh process that has imported softkin.
  Aim: 30 ms at most.

``--output`` also writes the tables as Markdown.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from softkin.lab import data, models, training
from softkin.losses import SoftLabelCrossEntropy

LOOK_UP = """
import gc, json, sys, time
from softkin import distances
from softkin.word_vectors import WordVectors
names = json.loads(sys.stdin.read())
gc.collect()  # what the imports left
start = time.perf_counter()
WordVectors.shipped()
loaded = time.perf_counter()
distances.name_vectors(names)
print(json.dumps([loaded - start, time.perf_counter() - loaded]))
"""


def pictures(rows: int, classes: int, seed: int) -> data.Labelled:
    """Noise in the shape of CIFAR images: what ``adjust`` costs does not depend on what is learnt."""
    generator = np.random.default_rng(seed)
    return data.Labelled(
        values=generator.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8),
        ids=np.arange(rows),
        class_names=[f"class {k}" for k in range(classes)],
        kind="images",
        source="noise",
        digest=f"noise {seed}",
        labels=np.arange(rows) % classes,
    )


def share(network: str, train: Any, validation: Any, recipe: training.Recipe) -> tuple[float, float, float]:
    """(seconds of the training, seconds in ``adjust``, share)."""
    spent = 0.0
    plain = SoftLabelCrossEntropy.adjust

    def timed(self: SoftLabelCrossEntropy, logits: Any, labels: Any) -> float:
        nonlocal spent
        start = time.perf_counter()
        alpha = plain(self, logits, labels)
        spent += time.perf_counter() - start
        return alpha

    model = models.build(network, num_classes=len(train.class_names), input_shape=train.input_shape, seed=0)
    SoftLabelCrossEntropy.adjust = timed  # type: ignore[method-assign]
    try:
        method = training.Method("uniform", alpha="auto")
        trained = training.fit(model, train, validation, method=method, recipe=recipe, device="cpu", progress=False)
    finally:
        SoftLabelCrossEntropy.adjust = plain  # type: ignore[method-assign]
    return trained.seconds, spent, spent / trained.seconds


def adjust_table(*, tiny: bool) -> list[str]:
    digits = data.split("digits", seed=0, max_per_class=10, validation=697, test=1000)
    many, held_out = (256, 100) if tiny else (5000, 5000)
    small = training.Recipe.named("small", epochs=2 if tiny else 60)
    paper = training.Recipe.named("paper", epochs=1 if tiny else 2)
    settings = (
        ("digits, 100 training and 697 validation rows", "small", digits.train, digits.validation, small),
        (
            f"32×32 images of 100 classes, {many:,} training and {held_out:,} validation rows",
            "wrn(units=2)",
            pictures(many, 100, 0),
            pictures(held_out, 100, 1),
            paper,
        ),
    )
    lines = [
        "| training | network | epochs | seconds | in `adjust` | share |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for title, network, train, validation, recipe in settings:
        seconds, spent, part = share(network, train, validation, recipe)
        lines.append(
            f"| {title} | {network} | {recipe.epochs} | {seconds:.2f} | {1000 * spent:.1f} ms | {100 * part:.2f} % |"
        )
    return lines


def names_table(*, repeats: int) -> list[str]:
    from softkin.word_vectors import WordVectors

    generator = np.random.default_rng(0)
    entries = list(WordVectors.shipped())
    names = [entries[place] for place in generator.choice(len(entries), 1000, replace=False)]
    times = []
    for _ in range(repeats):
        process = subprocess.run(
            [sys.executable, "-c", LOOK_UP], input=json.dumps(names), capture_output=True, text=True, check=True
        )
        times.append(json.loads(process.stdout))
    load, look_up = (1000 * median(column) for column in zip(*times, strict=True))
    return [
        "| what, median of fresh processes | milliseconds |",
        "| --- | ---: |",
        f"| load of the shipped vectors | {load:.1f} |",
        f"| look-up of 1,000 names | {look_up:.1f} |",
        f"| both | {load + look_up:.1f} |",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="a Markdown file")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that the script works")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, one thread"
    tables = [adjust_table(tiny=arguments.tiny), names_table(repeats=2 if arguments.tiny else 11)]
    text = "\n\n".join([f'# The cost of alpha="auto" and of class names\n\n{machine}', *map("\n".join, tables)]) + "\n"
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
