"""Several processes: real ones, over gloo."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from softkin import distances

pytestmark = pytest.mark.slow

HEADER = """
import json, sys
import numpy as np, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from softkin import distances

rank, size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
rng = np.random.default_rng(0)
images = rng.integers(0, 256, (61, 2, 3), dtype=np.uint8)
labels = np.concatenate([np.arange(4), rng.integers(0, 4, 57)])
mine = slice(rank, None, size)
dataset = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))

def show(call):
    try:
        print(json.dumps(call().tolist()))
    except (ValueError, TypeError) as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
"""


def ranks(tmp_path, body, size=2, end="dist.destroy_process_group()"):
    """What each of ``size`` processes prints, line by line, after running ``body``."""
    script = tmp_path / "rank.py"
    script.write_text(HEADER + body + f"\n{end}\n")
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(size), str(tmp_path / "meeting")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    results = [process.communicate(timeout=120) for process in running]
    for process, (_, errors) in zip(running, results, strict=True):
        assert process.returncode == 0, errors
    return [[json.loads(line) for line in output.splitlines()] for output, _ in results]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (61, 2, 3), dtype=np.uint8)
    return images, np.concatenate([np.arange(4), rng.integers(0, 4, 57)])


def test_every_rank_gets_the_whole_matrix(tmp_path, data):
    body = """
for p in (1, 2):
    show(lambda: distances.from_images(images[mine], labels[mine], p=p))
    show(lambda: distances.from_images(images[mine] / 255, labels[mine], p=p))
    sampler = DistributedSampler(dataset, shuffle=True)  # 61 samples on 2 ranks: one is repeated
    show(lambda: distances.from_images(DataLoader(dataset, batch_size=7, sampler=sampler), p=p))
show(lambda: distances.from_features(images[mine], labels[mine]))
show(lambda: distances.from_images(images[mine], labels[mine], num_samples=61))
show(lambda: distances.from_images(images[mine], labels[mine], max_per_class=1000))
show(lambda: distances.from_images(images[mine], labels[mine], p=2, max_per_class=6, return_error=True)[1])
"""
    first, second = ranks(tmp_path, body)
    assert first == second
    images, labels = data
    left, two = distances.from_images(images, labels, p=1), distances.from_images(images, labels, p=2)
    expected = [left, left / 255, left, two, two / 255, two, two, left, left]
    for actual, exact in zip(first, expected, strict=False):
        torch.testing.assert_close(torch.tensor(actual, dtype=torch.float64), exact, rtol=1e-9, atol=0)
    assert torch.tensor(first[-1]).isfinite().all()


def test_ranks_draw_their_own_samples(tmp_path):
    """With one seed on all ranks each would keep the rows at the same places of its shard."""
    body = """
rows = torch.arange(40)[:, None] * 1000.0 + rank
from softkin.distances import samples
source = samples.open_stream(rows, torch.zeros(40, dtype=int) + torch.arange(40) % 2, name="images", num_classes=2,
                             class_names=None, num_samples=None, progress=None)
show(lambda: samples.collect(source, max_per_class=10, seed=0).rows.flatten())
"""
    first, second = ranks(tmp_path, body)
    assert first == second
    kept = np.array(first[0])
    places = [set((kept[kept % 1000 == rank] // 1000).tolist()) for rank in (0, 1)]
    assert len(kept) == 20
    assert places[0] != places[1]


def test_floats_of_few_values_are_counted_over_ranks(tmp_path, data):
    body = """
ours = images[mine] / 255 if rank == 0 else images[mine][:, :, ::-1] / 255  # other values on each rank
batches = [(ours[i : i + 5], labels[mine][i : i + 5]) for i in range(0, len(ours), 5)]
from softkin.distances import samples
samples.collect = None  # must not be needed
show(lambda: distances.from_images(batches, p=1))
"""
    first, second = ranks(tmp_path, body)
    assert first == second
    images, labels = data
    both = np.concatenate([images[0::2], images[1::2][:, :, ::-1]]), np.concatenate([labels[0::2], labels[1::2]])
    exact = distances.from_images(both[0] / 255, both[1])
    torch.testing.assert_close(torch.tensor(first[0], dtype=torch.float64), exact, rtol=1e-9, atol=0)


def test_three_ranks_and_a_sampler(tmp_path, data):
    body = """
sampler = DistributedSampler(dataset, shuffle=False)  # 61 on 3 ranks: 2 padded
show(lambda: distances.from_images(DataLoader(dataset, batch_size=7, sampler=sampler), p=1))
"""
    results = ranks(tmp_path, body, size=3)
    exact = distances.from_images(*data)
    for (actual,) in results:
        torch.testing.assert_close(torch.tensor(actual, dtype=torch.float64), exact, rtol=1e-9, atol=0)


def test_what_is_wrong_on_one_rank_is_refused_on_all(tmp_path):
    body = """
show(lambda: distances.from_images(images, labels, num_samples=61))  # every rank brings all
show(lambda: distances.from_images(DataLoader(dataset, batch_size=7)))
show(lambda: distances.from_images(DataLoader(dataset, batch_size=7), p=2))
broken = images.astype(float)
broken[:, 0, 0] = np.nan if rank == 1 else 0
show(lambda: distances.from_images(broken[mine], labels[mine], p=2))
show(lambda: distances.from_images(images[mine][:, : 2 - rank], labels[mine]))
show(lambda: distances.from_images([] if rank == 0 else [(images, labels)]))
show(lambda: distances.from_images(images[mine], labels[mine], num_classes=5))
show(lambda: distances.from_images(images[mine] if rank == 0 else images[mine] / 255, labels[mine]))
three = TensorDataset(torch.from_numpy(images[:1]), torch.from_numpy(labels[:1]))
show(lambda: distances.from_images(DataLoader(three, sampler=DistributedSampler(three))))
"""
    first, second = ranks(tmp_path, body)
    for actual in (first, second):
        assert "brought 122 samples, but the data set has 61: a distributed sampler repeats" in actual[0]
        assert "brought 122 samples" in actual[1]
        assert "brought 122 samples" in actual[2]
        assert (
            "one length and one type of number on all ranks, got [(6, 'torch.uint8'), (3, 'torch.uint8')]" in actual[4]
        )
        assert "got [(6, 'torch.uint8'), (6, 'torch.float64')]" in actual[7]
        assert "1 of 5 have none: class 4" in actual[6]
    assert "rank 1 has no images; use fewer processes" in first[8]
    assert first[8] == second[8]
    assert "rank 1 could not read its shard: `images` must be finite" in first[3]
    assert second[3].startswith("ValueError: `images` must be finite")
    assert "must hold samples, got none" in first[5]
    assert "rank 0 could not read its shard" in second[5]


@pytest.mark.skipif(sys.platform != "linux", reason="reads threads from /proc")
def test_processes_that_leave_end_well_though_their_threads_are_slow(tmp_path):
    """With destroy_process_group alone, PyTorch 2.13 aborts most of these processes."""
    body = """
import os, pathlib
from softkin._core import ranks
dist.barrier()
core = min(os.sched_getaffinity(0))
for thread in pathlib.Path("/proc/self/task").iterdir():
    os.sched_setaffinity(int(thread.name), {core})
    if (thread / "comm").read_text().startswith("pt_gloo"):
        os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
kept = dist.group.WORLD  # as DistributedDataParallel keeps it
for _ in range(20):
    ranks.total(torch.ones(100))
    ranks.gather({"rank": rank})
"""
    ranks(tmp_path, body, end="ranks.leave()")  # checks that both return 0
