"""The base classes: a network with additional state, and predictions that average over members."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from softkin._core import checks
from softkin._core.randomness import key
from softkin.predictions import Predictions, collect
from softkin.predictions.container import TINY

TrainingRows = Callable[[], Iterable[tuple[Tensor, Tensor]]]
"""A function that yields the training rows again, as batches (inputs, labels) without augmentation"""
LogitsOf = Callable[[nn.Module], Tensor]
"""A function from a network to its (N, K) logits"""


@dataclass(frozen=True)
class Averaged:
    """The mean of several predictions for the same samples."""

    probabilities: Tensor
    """(N, K) float64 mean probabilities"""
    mutual_information: Tensor | None = None
    """(N,) float64, nats; None if there are no members"""
    members: Tensor | None = None
    """(M, N, K) float64, if requested"""

    @classmethod
    def over(cls, members: Iterable[Tensor], *, keep: bool = False) -> Self:
        r"""Average probabilities (N, K) one member at a time, so that memory does not grow with their number.

        The mutual information of label and weights is the entropy of the mean minus the mean entropy of the members,

        .. math:: I = H\Big(\frac1M \sum_m p_m\Big) - \frac1M \sum_m H(p_m)

        Example:
            >>> split = Averaged.over([torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])])
            >>> split.probabilities, split.mutual_information
            (tensor([[0.5000, 0.5000]], dtype=torch.float64), tensor([0.6931], dtype=torch.float64))
        """
        total: Tensor | None = None
        entropy: Tensor | float = 0.0
        kept: list[Tensor] = []
        count = 0
        for member in members:
            p = member.detach().cpu().double()
            total = p.clone() if total is None else total.add_(p)
            entropy = entropy + _entropy(p)
            count += 1
            if keep:
                kept.append(p)
        if total is None:
            raise ValueError("`members` must hold at least one prediction, got none.")
        mean = total / count
        information = (_entropy(mean) - entropy / count).clamp_min(0.0)  # rounding may leave −1e-17
        return cls(mean, information, torch.stack(kept) if keep else None)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The averages of successive batches as one."""
        information = [part.mutual_information for part in parts if part.mutual_information is not None]
        members = [part.members for part in parts if part.members is not None]
        return cls(
            torch.cat([part.probabilities for part in parts]),
            torch.cat(information) if information else None,
            torch.cat(members, dim=1) if members else None,
        )

    @property
    def logits(self) -> Tensor:
        """The log of p, (N, K): logits whose softmax is the mean, so that calibrators can use them like a network's."""
        return self.probabilities.clamp_min(TINY).log()


def _entropy(p: Tensor) -> Tensor:
    entropies: Tensor = torch.special.entr(p).sum(dim=1)
    return entropies


class Companion(nn.Module):
    """A network with more state than its weights; training notifies it at the end of each epoch.

    It behaves like the network. Its additional state is in buffers, so that a checkpoint holds everything.
    """

    network: nn.Module

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.network(*inputs, **named)

    @property
    def passes(self) -> int:
        """The number of passes through the network for one prediction."""
        return 1

    @property
    def held(self) -> int:
        """The number of values that a prediction needs in memory: all parameters and buffers."""
        return sum(tensor.numel() for tensor in self.state_dict().values())

    @property
    def outputs(self) -> int | None:
        """The number of columns that ``forward`` returns in training, if it is not the number of classes."""
        return None

    def learning_rate(self, usual: float, share: float) -> float:
        """The learning rate at ``share`` of the training, from 0 to 1, given the recipe's ``usual`` rate."""
        return usual

    def end_epoch(self, share: float, rows: TrainingRows, *, looked_at: bool) -> None:
        """Update the additional state after an epoch.

        Args:
            share: Completed share of the training; 1 at its end.
            rows: Yields the training rows.
            looked_at: Whether predictions are needed now, for validation or because training ends.
        """


class Posterior(Companion):
    """A network whose predictions average over members, which are networks that fit the data about as well."""

    @property
    def count(self) -> int:
        """M, the number of members."""
        raise NotImplementedError

    @property
    def passes(self) -> int:
        return self.count

    def member(self, place: int) -> contextlib.AbstractContextManager[nn.Module]:
        """A context with member number ``place`` as a network; the network is restored afterwards."""
        raise NotImplementedError

    def ready(self) -> None:
        """Refuse to predict before the members exist."""

    def averaged(self, logits_of: LogitsOf, *, members: bool = False) -> Averaged:
        """The mean over all members of the predictions that ``logits_of`` computes for each."""
        self.ready()
        return Averaged.over(self._probabilities(logits_of), keep=members)

    def _probabilities(self, logits_of: LogitsOf) -> Iterator[Tensor]:
        for place in range(self.count):
            with self.member(place) as network:
                yield logits_of(network).double().softmax(dim=1)

    def predict(
        self,
        loader: Iterable[Any],
        *,
        members: bool = False,
        device: torch.device | str | None = None,
        class_names: list[str] | None = None,
        name: str | None = None,
        progress: bool | None = None,
    ) -> Predictions:
        """The mean probabilities for every sample of ``loader``, and the disagreement of the members.

        Args:
            loader: A loader as for ``predictions.collect``. It is read once per member, so it must not shuffle and must
                not be an iterator that ends.
            members: Also keep the members' probabilities, (M, N, K).
            device: Device for the computation; by default that of the network.
            class_names: The names of the classes, in the order of the labels.
            name: A name for the samples.
            progress: Show a bar for each member; by default only on a terminal.

        Returns:
            ``Predictions`` whose ``probabilities`` are the mean, with ``mutual_information`` (N,), and with ``members``
            if requested.
        """
        first: Predictions | None = None

        def logits_of(network: nn.Module) -> Tensor:
            nonlocal first
            try:
                collected = collect(
                    network, loader, device=device, class_names=class_names, name=name, progress=progress
                )
            except ValueError as error:
                if first is None or "at least one batch" not in str(error):
                    raise
                raise ValueError(
                    "`loader` must give its batches again for every member, but it has ended; pass a DataLoader or a "
                    "list, not an iterator."
                ) from error
            first = collected if first is None else _same_samples(first, collected)
            return collected.logits

        mean = self.averaged(logits_of, members=members)
        assert first is not None
        return replace(first, logits=mean.logits, members=mean.members, mutual_information=mean.mutual_information)


def _same_samples(first: Predictions, later: Predictions) -> Predictions:
    if len(first) != len(later) or not torch.equal(first.known_labels, later.known_labels):
        raise ValueError(
            "`loader` must give the same samples in the same order for every member, but it does not; does it shuffle?"
        )
    return first


def normal(count: int, seed: int, *what: object, rows: int | None = None) -> Tensor:
    """Draws from N(0, 1) that are the same on every device: (count,) or (rows, count) float32 on the CPU."""
    generator = torch.Generator().manual_seed(key(seed, *what))
    shape = (count,) if rows is None else (rows, count)
    return torch.randn(shape, generator=generator)


def device_of(network: nn.Module) -> torch.device:
    """The device of a network."""
    return next((weight.device for weight in network.parameters()), torch.device("cpu"))


def last_layer(network: nn.Module, num_classes: int | None = None, layer: nn.Linear | None = None) -> nn.Linear:
    """The linear layer that produces the logits: ``layer``, or the last one of the network."""
    if layer is not None:
        if not isinstance(layer, nn.Linear) or all(layer is not module for module in network.modules()):
            raise ValueError(f"`layer` must be an nn.Linear of the network, got {layer!r}.")
        return layer
    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError("`model` must end in an nn.Linear that makes the logits, but has none; name it as `layer`.")
    last = linear[-1]
    if num_classes is not None and last.out_features != num_classes:
        raise ValueError(
            f"the last nn.Linear of `model` has {last.out_features} outputs, but there are {num_classes} classes; "
            "name the one that makes the logits as `layer`."
        )
    return last


def check_network(network: object) -> nn.Module:
    """Refuse anything that is not a network."""
    if not isinstance(network, nn.Module):
        raise TypeError(f"`model` must be an nn.Module, got {type(network).__name__}.")
    return network


def check_count(value: int, name: str) -> int:
    """A valid number of members."""
    return checks.count(value, name, most=100_000)
