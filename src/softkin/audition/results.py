"""The result of an audition: each candidate with its statistics, and the chosen similarity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from softkin import similarity
from softkin._io.files import number
from softkin.audition.confusions import Confusions
from softkin.audition.fits import Floats


@dataclass(frozen=True)
class Judged:
    """A statistic of a source: its value, its interval over classes, and its value for renamed classes."""

    value: float
    low: float
    high: float
    control: float
    """Mean over renamings"""
    p_value: float
    """Share of renamings that do at least as well, counting the source itself"""


@dataclass(frozen=True)
class Candidate:
    """A source, or the mixture, and how well it predicts the confusions."""

    name: str
    weights: Mapping[str, float]
    """β of each source; the mixture has several entries"""
    cross_entropy: Judged
    """Cross-validated nats per row; smaller is better"""
    rank_correlation: Judged
    overlap: Judged
    wins: float
    """Share of bootstrap resamples of the classes in which no other single source has a lower cross-entropy"""
    rows: Floats
    """(n,) cross-entropies of the classes with confusions"""

    @property
    def beta(self) -> float:
        """The sharpness; for the mixture, the sum of its weights."""
        return sum(self.weights.values())


@dataclass(frozen=True)
class Audition:
    """The candidates, best first, and a suggestion."""

    candidates: list[Candidate]
    uniform: float
    """The cross-entropy of a uniform similarity, ln(K−1)"""
    chosen: Candidate
    similarity: Tensor
    """S of the chosen candidate, (K, K)"""
    alpha: float | str
    """The suggested α to start with, from the baseline's gap, or "auto\""""
    words: list[str]
    """The suggestion and its certainty, in sentences"""
    confusions: Confusions
    num_classes: int
    num_rows: int
    """Number of classes with known confusions"""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""

        def judged(statistic: Judged) -> dict[str, Any]:
            return {
                "value": number(statistic.value),
                "low": number(statistic.low),
                "high": number(statistic.high),
                "control": number(statistic.control),
                "p_value": statistic.p_value,
            }

        return {
            "against": self.confusions.source,
            "classes": self.num_classes,
            "rows": self.num_rows,
            "uniform": self.uniform,
            "candidates": [
                {
                    "name": candidate.name,
                    "beta": candidate.beta,
                    "weights": dict(candidate.weights),
                    "cross_entropy": judged(candidate.cross_entropy),
                    "rank_correlation": judged(candidate.rank_correlation),
                    "overlap": judged(candidate.overlap),
                    "wins": candidate.wins,
                }
                for candidate in self.candidates
            ],
            "chosen": self.chosen.name,
            "beta": self.chosen.beta,
            "alpha": self.alpha,
            "suggestion": self.words,
        }

    def save(self, path: str | Path, *, class_names: Sequence[str], sources: Mapping[str, str] | None = None) -> None:
        """Write the chosen similarity with the suggestion, for ``train``, ``compare`` and ``from_file``.

        Args:
            path: A path that ends in .safetensors.
            class_names: The names of the classes, in the order of the confusions.
            sources: A description of each source's origin, by its name.
        """
        similarity.save(
            path,
            self.similarity,
            class_names=class_names,
            source=self.source(sources or {}),
            about={"alpha": self.alpha, "beta": self.chosen.beta, "audition": self.to_dict()},
        )

    def source(self, sources: Mapping[str, str]) -> str:
        """The provenance of the chosen similarity, in words."""
        parts = [
            f"{weight:.4g} × {name}" + (f" ({sources[name]})" if name in sources else "")
            for name, weight in self.chosen.weights.items()
            if weight > 0
        ]
        return f"audition against {self.confusions.source}: {' + '.join(parts) or 'uniform'}"
