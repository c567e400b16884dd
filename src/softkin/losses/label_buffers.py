"""Smooth labels as the buffers of a module: on its device, in exact rows, with an α that can be moved.

A loss that derives from ``SmoothLabels`` only has to say what it does with them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from softkin._core import checks
from softkin._core.checks import Array
from softkin.losses.auto_alpha import AutoAlpha
from softkin.similarity import SparseRows


class SmoothLabels(nn.Module):
    """Q, one smooth label for each class: ``soft_labels`` (K, K), or ``own``, ``indices``, ``values`` and ``rest``.

    Args:
        soft_labels: Q, (K, K) with rows that sum to 1, or ``SparseRows``.
        auto: The rule that moves α, which then scales the mass of the rows on other classes; None keeps Q as it is.
        persistent: Whether Q is part of the ``state_dict``.
    """

    soft_labels: Tensor
    own: Tensor
    indices: Tensor
    values: Tensor
    rest: Tensor
    auto_alpha: Tensor

    def __init__(self, soft_labels: Array | SparseRows, auto: AutoAlpha | None, *, persistent: bool) -> None:
        super().__init__()
        self._labels_persist = persistent
        self._is_sparse = isinstance(soft_labels, SparseRows)
        if isinstance(soft_labels, SparseRows):
            self.num_classes = len(soft_labels)
            others = self.num_classes - 1 - soft_labels.indices.shape[1]
            sums = soft_labels.own + soft_labels.values.sum(dim=1) + others * soft_labels.rest
            checks.rows_sum_to_one(sums[:, None], "soft_labels")
            self.register_buffer("own", soft_labels.own.to(torch.float64, copy=True), persistent)
            self.register_buffer("indices", soft_labels.indices.clone(), persistent)
            self.register_buffer("values", soft_labels.values.to(torch.float64, copy=True), persistent)
            self.register_buffer("rest", soft_labels.rest.to(torch.float64, copy=True), persistent)
        else:
            dense = checks.square(soft_labels, "soft_labels")
            checks.rows_sum_to_one(dense, "soft_labels")
            self.num_classes = len(dense)
            self.register_buffer("soft_labels", dense, persistent)
        self._casts: dict[str, tuple[Tensor, int, Tensor]] = {}  # the buffers in the logits' type, on their device
        self._auto = None if auto is None else self._moving_by(auto)

    # α

    @property
    def alpha(self) -> float:
        """The mean over the rows of Q of the mass on other classes."""
        return 1 - float(self._own().mean()) if self._auto is None else float(self.auto_alpha)

    @property
    def moves_alpha(self) -> bool:
        """Whether ``adjust`` changes α, that is, whether the loss was made with ``alpha="auto"``."""
        return self._auto is not None

    def _own(self) -> Tensor:
        """Each label's mass on its own class, (K,)."""
        return self.own if self._is_sparse else self.soft_labels.diagonal()

    def _moving_by(self, auto: AutoAlpha) -> AutoAlpha:
        """Keep the labels at α = 1, set the first α, and return the rule with limits that suit these labels."""
        mass = 1 - self._own()
        mean, largest = float(mass.mean()), float(mass.max())
        if not mean > 0:
            raise ValueError("`soft_labels` must have mass on other classes for alpha='auto', got one-hot rows.")
        most = min(auto.most, mean / largest)  # so that the row with the largest mass stays a distribution
        auto = replace(auto, most=most, start=min(auto.start, most))
        self.register_buffer("auto_alpha", torch.tensor(auto.start, dtype=torch.float64))
        self.register_buffer("_unit_mass", mass / mean, persistent=False)
        for name in self._off_diagonal():
            self.register_buffer(f"_unit_{name}", getattr(self, name) / mean, persistent=False)
        self.set_alpha(auto.start)
        return auto

    def _off_diagonal(self) -> tuple[str, ...]:
        return ("values", "rest") if self._is_sparse else ("soft_labels",)

    @torch.no_grad()
    def set_alpha(self, alpha: float) -> None:
        """Set the current value of ``alpha="auto"``, for loops that resume from their own checkpoints."""
        # In place, so that compiled graphs and cached casts see the new labels.
        with torch.inference_mode(False):
            self.auto_alpha.fill_(alpha)
            for name in self._off_diagonal():
                getattr(self, name).copy_(getattr(self, f"_unit_{name}") * alpha)
            self._own().copy_(1 - alpha * self.get_buffer("_unit_mass"))

    # Devices and types

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Follow .to(device), but keep float64: half-precision labels no longer sum to 1. MPS refuses float64 outright.
        exact = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        for name, buffer in exact.items():
            self._buffers[name] = buffer.to(torch.float32) if buffer.is_floating_point() else buffer
        super()._apply(fn, recurse)
        for name, buffer in exact.items():
            moved = self._buffers[name]
            if moved is not None and buffer.is_floating_point() and moved.device.type != "mps":
                self._buffers[name] = buffer.to(moved.device)
        self._casts = {}  # frees the copies on the old device
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_casts": {}}

    def _cast(self, name: str, like: Tensor) -> Tensor:
        """The buffer ``name`` with the dtype and device of ``like``, cached for the next call."""
        buffer = self._buffers[name]  # attribute access is ten times as slow
        assert buffer is not None
        dtype = like.dtype if buffer.is_floating_point() else buffer.dtype
        if buffer.dtype == dtype and buffer.device == like.device:
            return buffer
        if torch.compiler.is_compiling():
            return buffer.to(like.device, dtype)
        # Cast again after an assignment (another tensor), and after writing in place or loading (another version).
        known, version, cast = self._casts.get(name, (None, 0, buffer))
        if known is not buffer or version != buffer._version or cast.dtype != dtype or cast.device != like.device:
            with torch.inference_mode(False):  # a tensor cached in a validation step must be usable in training
                cast = buffer.to(like.device, dtype)
            self._casts[name] = buffer, buffer._version, cast
        return cast

    # States

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # States load strictly with or without the labels, and between a fixed α and "auto".
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        labels = {f"{prefix}{name}": self.get_buffer(name) for name in self._label_buffers()}
        saved = labels.keys() & state_dict.keys()
        if not saved:
            missing_keys[:] = [key for key in missing_keys if key not in labels]
        elif (
            not self._labels_persist
        ):  # PyTorch leaves buffers that are not persistent alone, and calls them unexpected
            unexpected_keys[:] = [key for key in unexpected_keys if key not in labels]
            missing_keys += sorted(labels.keys() - saved) if strict else []
            for key in sorted(saved):
                if labels[key].shape == state_dict[key].shape:
                    with torch.no_grad():
                        labels[key].copy_(state_dict[key])
                else:
                    error_msgs.append(
                        f"size mismatch for {key}: the checkpoint's labels have shape {tuple(state_dict[key].shape)}, "
                        f"this loss's {tuple(labels[key].shape)}; was the checkpoint trained on other classes?"
                    )
        alpha = f"{prefix}auto_alpha"
        if self._auto is None:
            unexpected_keys[:] = [key for key in unexpected_keys if key != alpha]
            return
        if alpha not in state_dict:
            missing_keys[:] = [key for key in missing_keys if key != alpha]
            if saved:
                self.auto_alpha.fill_(1 - self._own().mean())
        self.set_alpha(self.alpha)

    def _label_buffers(self) -> tuple[str, ...]:
        return ("own", "indices", "values", "rest") if self._is_sparse else ("soft_labels",)
