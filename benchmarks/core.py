"""Cost of the core beside its peers, in one run: ``make bench`` (about 8 minutes, needs ../shared/data for CIFAR-100).

Both sides of a row run with the same threads, interleaved, and the medians are compared. Prints a table; ``--output``
also writes it as Markdown.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from softkin import distances, similarity, smoothing
from softkin.lab import data
from softkin.losses import ClassSimilarityLoss, SoftLabelCrossEntropy
from timing import medians

CIFAR = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar100" / "train-00000-of-00001.parquet"
Row = tuple[str, str, str, str, str]


def cifar() -> tuple[torch.Tensor, torch.Tensor]:
    loaded = data.load(CIFAR)
    return torch.from_numpy(loaded.values), torch.from_numpy(loaded.labels)


def l1(images: torch.Tensor, labels: torch.Tensor) -> Row:
    n = len(labels)
    rows = images.flatten(1)
    a, b = rows[labels == 0].float(), rows[labels == 1].float()
    actual = {}

    def ours() -> None:
        actual["D"] = distances.from_images(images, labels, p=1, progress=False)

    def cdist() -> None:
        actual["block"] = torch.cdist(a, b, p=1)

    took = medians({"ours": ours, "cdist": cdist}, 5, warm_up=1)
    scaled = took["cdist"] * (n * n / 2) / (len(a) * len(b))
    gap = abs(float(actual["D"][0, 1]) / float(actual["block"].double().mean()) - 1)
    return (
        f"exact L1, {n:,} images, {n * n / 2:.3g} pairs",
        f"torch.cdist(p=1) on 2 classes ({took['cdist']:.2f} s), scaled to {scaled:,.0f} s",
        f"{took['ours']:.2f} s",
        f"{scaled / took['ours']:,.0f}× faster (entry [0, 1] agrees to {gap:.0e})",
        "≥ 500×",
    )


def l2(images: torch.Tensor, labels: torch.Tensor) -> Row:
    n = len(labels)
    rows = images.flatten(1)[torch.argsort(labels, stable=True)]
    starts = range(0, n, images.TILE)

    def products() -> float:
        """Only the products of the same blocks: the blocks are made outside the clock."""
        spent = 0.0
        for i in starts:
            x = rows[i : i + images.TILE].float()
            for j in range(i, n, images.TILE):
                y = rows[j : j + images.TILE].float()
                start = time.perf_counter()
                torch.mm(x, y.T)
                spent += time.perf_counter() - start
        return spent

    ours, bare, D = [], [], torch.empty(0)
    for _ in range(3):
        bare.append(products())
        start = time.perf_counter()
        D = distances.from_images(images, labels, p=2, progress=False)
        ours.append(time.perf_counter() - start)
    worst = 0.0
    for k, other in ((0, 0), (0, 1), (17, 42), (98, 99), (99, 99)):
        a, b = images.flatten(1)[labels == k].double(), images.flatten(1)[labels == other].double()
        exact = float(torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").mean())
        worst = max(worst, abs(float(D[k, other]) / exact - 1))
    ratio = statistics.median(o / b for o, b in zip(ours, bare, strict=True))
    return (
        f"exact L2, {n:,} images",
        f"the bare torch.mm of the same blocks, {statistics.median(bare):.1f} s",
        f"{statistics.median(ours):.1f} s",
        f"{ratio:.2f}× their time; 5 entries within {worst:.0e} of float64 brute force (relative)",
        "≤ 1.2×, 1e-6",
    )


def memory(p: int) -> Row:
    """Extra peak memory of one call, read by a fresh process of itself."""
    done = subprocess.run([sys.executable, __file__, "--memory-of", str(p)], capture_output=True, text=True, check=True)
    return (
        f"extra memory of exact L{p}",
        "its own peak less that of holding the images",
        f"{done.stdout.strip()} MiB",
        "",
        "≤ 1024 MiB",
    )


def peak_mib() -> float:
    """Peak resident memory of this process since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def report_memory(p: int) -> None:
    images, labels = cifar()
    small = distances.from_images(images[:200], labels[:200] % 2, p=p)  # imports and thread pools
    del small
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_mib()
    distances.from_images(images, labels, p=p)  # type: ignore[arg-type]
    print(f"{peak_mib() - before:.0f}")


def backward(loss: Callable[[torch.Tensor], torch.Tensor], logits: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        logits.grad = None
        loss(logits).backward()

    return step


def loss_rows() -> list[Row]:
    n, k, alpha = 512, 1000, 0.1
    logits, targets = torch.randn(n, k, requires_grad=True), torch.randint(0, k, (n,))
    S = similarity.from_vectors(torch.randn(k, 50))
    loss_fn = SoftLabelCrossEntropy(smoothing.similarity_labels(S, alpha))
    s = S.float()

    def by_hand(z: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(z, (1 - alpha) * F.one_hot(targets, k).float() + alpha * s[targets])

    ours = backward(lambda z: loss_fn(z, targets), logits)
    took = medians(
        {"ours": ours, "pytorch": backward(lambda z: F.cross_entropy(z, targets, label_smoothing=alpha), logits)},
        400,
        warm_up=3,
    )
    hand = medians({"ours": ours, "by hand": backward(by_hand, logits)}, 200, warm_up=3)
    rows: list[Row] = [
        (
            f"loss forward + backward, N={n}, K={k}",
            f"F.cross_entropy(label_smoothing=0.1), {took['pytorch'] * 1e3:.2f} ms",
            f"{took['ours'] * 1e3:.2f} ms",
            f"{took['ours'] / took['pytorch']:.2f}× its time",
            "≤ 1.2×",
        ),
        (
            "same",
            f"soft targets by hand and F.cross_entropy, {hand['by hand'] * 1e3:.2f} ms",
            f"{hand['ours'] * 1e3:.2f} ms",
            f"{hand['by hand'] / hand['ours']:.2f}× faster",
            "faster",
        ),
    ]
    k = 21_841
    logits, targets = torch.randn(n, k, requires_grad=True), torch.randint(0, k, (n,))
    sparse = SoftLabelCrossEntropy(
        smoothing.similarity_labels(similarity.from_vectors(torch.randn(k, 50), top_m=32), alpha)
    )
    took = medians(
        {
            "ours": backward(lambda z: sparse(z, targets), logits),
            "pytorch": backward(lambda z: F.cross_entropy(z, targets, label_smoothing=alpha), logits),
        },
        31,
        warm_up=3,
    )
    rows.append(
        (
            f"top_m=32, N={n}, K={k:,}",
            f"F.cross_entropy(label_smoothing=0.1), {took['pytorch'] * 1e3:.0f} ms",
            f"{took['ours'] * 1e3:.0f} ms",
            f"{took['ours'] / took['pytorch']:.2f}× its time",
            "≤ 1.2×",
        )
    )
    return rows


def many_classes() -> Row:
    """K = 100,000 trains: similarity, then a few steps of a linear head; the loss must fall."""
    k, width = 100_000, 64
    vectors = torch.randn(k, width)
    start = time.perf_counter()
    loss_fn = ClassSimilarityLoss(similarity.from_vectors(vectors, top_m=32, progress=False), alpha=0.1)
    built = time.perf_counter() - start
    head = torch.nn.Linear(width, k)
    optimizer = torch.optim.SGD(head.parameters(), lr=1.0)
    losses = []
    start = time.perf_counter()
    for _ in range(5):
        y = torch.arange(128)
        optimizer.zero_grad()
        loss = loss_fn(head(vectors[y]), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    step = (time.perf_counter() - start) / 5
    return (
        f"K={k:,}, top_m=32 (a dense matrix: {8 * k * k / 2**30:.0f} GiB)",
        "–",
        f"{built:.0f} s to build, {step:.2f} s a step of 128",
        f"loss {losses[0]:.2f} → {losses[-1]:.2f} in 5 steps; peak {peak_mib() / 1024:.1f} GiB",
        "trains",
    )


def start_up() -> Row:
    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True)

    took = medians({"help": run("-m", "softkin", "--help"), "pass": run("-c", "pass")}, 21, warm_up=3)
    return (
        "softkin --help",
        f"python -c pass, {took['pass']:.3f} s",
        f"{took['help']:.3f} s",
        f"{took['help'] / took['pass']:.1f}× its time",
        "≤ 0.3 s or 3×",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="also write the table there, as Markdown")
    parser.add_argument("--memory-of", type=int, choices=[1, 2], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    if arguments.memory_of:
        report_memory(arguments.memory_of)
        return
    rows = [start_up(), *loss_rows(), many_classes()]
    if CIFAR.exists():
        images, labels = cifar()
        rows += [l1(images, labels), l2(images, labels), memory(1), memory(2)]
    else:
        print(f"Left out: L1 and L2 of CIFAR-100, as {CIFAR} is not there.", file=sys.stderr)
    lines = [
        f"torch {torch.__version__}, numpy {np.__version__}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads, {platform.machine()}; medians of one interleaved run.",
        "",
        "| what | against | ours | ratio | to reach |",
        "| --- | --- | --- | --- | --- |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    print("\n".join(lines))
    if arguments.output:
        arguments.output.write_text("# Core: measured\n\nBy `benchmarks/core.py`. " + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
