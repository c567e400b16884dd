"""Collective operations over an initialised ``torch.distributed`` group; every rank must call them.

Without a process group all of these are the identity, so callers need no second code path.
"""

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

GRACE = 0.5  # seconds


def world() -> tuple[int, int]:
    """(rank, number of processes); (0, 1) without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def _reachable(tensor: Tensor) -> Tensor:
    """``tensor`` in memory that the group's backend can read: CUDA memory for NCCL, the CPU's for gloo."""
    if dist.get_backend() == "nccl":
        return tensor.to(torch.device("cuda", torch.cuda.current_device())).contiguous()
    return tensor.cpu().contiguous()


def total(tensor: Tensor) -> Tensor:
    """The sum of all ranks' ``tensor``, on its own device; ``tensor`` itself may be overwritten."""
    if world()[1] == 1:
        return tensor
    moved = _reachable(tensor)
    dist.all_reduce(moved)
    return moved.to(tensor.device)


def largest(value: int) -> int:
    """The largest of all ranks' ``value``."""
    return int(max(gather(value)))


def gather(value: Any) -> list[Any]:
    """Every rank's small ``value``, in rank order; only for our own plain data, because gloo pickles it."""
    size = world()[1]
    if size == 1:
        return [value]
    values: list[Any] = [None] * size
    dist.all_gather_object(values, value)
    return values


def gather_rows(tensor: Tensor) -> Tensor:
    """The rows of all ranks concatenated in rank order; ranks may have different numbers of rows."""
    size = world()[1]
    if size == 1:
        return tensor
    lengths = gather(len(tensor))
    padded = torch.zeros((max(lengths), *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device)
    padded[: len(tensor)] = tensor
    moved = _reachable(padded)
    parts = [torch.empty_like(moved) for _ in range(size)]
    dist.all_gather(parts, moved)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)]).to(tensor.device)


def agree(error: Exception | None) -> None:
    """Raise on every rank if one of them failed; a rank that raised alone would leave the others waiting."""
    if world()[1] == 1:
        if error is not None:
            raise error
        return
    messages = gather(None if error is None else str(error))
    if error is not None:
        raise error
    for rank, message in enumerate(messages):
        if message is not None:
            raise ValueError(f"rank {rank} could not read its shard: {message}")


def from_first(tensor: Tensor) -> Tensor:
    """Rank 0's ``tensor`` on every rank, on its own device; all ranks pass a tensor of the same shape and dtype."""
    if world()[1] == 1:
        return tensor
    moved = _reachable(tensor)
    dist.broadcast(moved, 0)
    return moved.to(tensor.device)


def leave() -> None:
    """End the process group, the last thing before the process ends; the processes end together.

    gloo's threads drop the tensors of an operation a moment after it returns. PyTorch aborts a process whose
    interpreter is shutting down by then (pytorch/pytorch#190489), and destroying the group does not wait for threads
    that ``DistributedDataParallel`` keeps alive. A barrier has no tensors of its own, and the pause lets the threads
    go idle.
    """
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        time.sleep(GRACE)
