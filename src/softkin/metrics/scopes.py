"""Which of the N·K scores a calibration metric looks at, and labels redrawn from them."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from softkin import checks

Scope = Literal["prediction", "output"]
Per = Literal["sample", "score"]


def winners(probabilities: Tensor) -> Tensor:
    """The winning class of each row; of equal scores the first wins."""
    if probabilities.device.type == "cpu" and probabilities.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(probabilities.numpy().argmax(axis=1))  # several times faster than torch's on a CPU
    return probabilities.argmax(dim=1)


@dataclass(frozen=True)
class Pool:
    """The scores in view, flat, and which of them belong to the true class."""

    scores: Tensor
    """(n,) or (n·K,)"""
    hits: Tensor
    """The places of the hits among ``scores``"""
    num_samples: int
    columns: int
    """Scores for each sample: 1 for prediction, K for output"""

    def denominator(self, per: Per) -> int:
        """What sums over scores are divided by."""
        return self.num_samples if per == "sample" else len(self.scores)

    @property
    def rows(self) -> Tensor:
        """The scores as (N, columns)."""
        return self.scores.view(self.num_samples, self.columns)

    @property
    def is_hit(self) -> Tensor:
        """(N, columns) float64, 1 for hits."""
        mask = torch.zeros(len(self.scores), dtype=torch.float64, device=self.scores.device)
        mask[self.hits] = 1
        return mask.view(self.num_samples, self.columns)

    def redrawn(self, generator: torch.Generator, times: int) -> tuple[Tensor, Tensor]:
        """Labels drawn from the scores themselves, ``times`` times: (columns drawn, whether a hit), both (times, N).

        For prediction a hit comes with the probability that the winning score claims. For output each row's label is
        drawn from the row (from the row over its sum, where that is a rounding away from 1).
        """
        rows = self.rows.to("cpu", torch.float64)
        if self.columns == 1:
            u = torch.rand(times, self.num_samples, generator=generator)
            drawn = torch.zeros(1, 1, dtype=torch.int64).expand(times, self.num_samples)
            return drawn.to(self.scores.device), (u < rows[:, 0].to(torch.float32)).to(self.scores.device)
        cumulative = rows.cumsum(dim=1)
        u = torch.rand(self.num_samples, times, generator=generator, dtype=torch.float64) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, u, right=True).clamp_(max=self.columns - 1).T
        return drawn.to(self.scores.device), torch.ones(1, 1, dtype=torch.bool).expand(drawn.shape)


def pool(probabilities: Tensor, labels: Tensor, scope: Scope) -> Pool:
    """The winning scores ("prediction") or all of them ("output")."""
    checks.option(scope, "scope", ("prediction", "output"))
    n, k = probabilities.shape
    if scope == "output":
        places = torch.arange(n, device=labels.device) * k + labels
        return Pool(probabilities.reshape(-1), places, n, k)
    predicted = winners(probabilities)
    winning = probabilities.gather(1, predicted[:, None])[:, 0]
    return Pool(winning, (predicted == labels).nonzero()[:, 0], n, 1)


def checked(probabilities: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Both inputs of nearly every metric, checked, on one device."""
    p = checks.probabilities(probabilities)
    y = checks.class_labels(labels, num_samples=len(p), num_classes=p.shape[1])
    return p, y.to(p.device)
