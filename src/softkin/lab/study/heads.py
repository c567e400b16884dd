"""Columns that read features besides logits: a second head on frozen features, with kin and, as its control, without.

A head is fitted after a training like a calibrator, but to training rows as well, and only data of features have it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from softkin import similarity
from softkin.calibrators import KinHead
from softkin.lab.training.methods import Value
from softkin.lab.training.training_run import Rows, Unknown
from softkin.predictions import Predictions
from softkin.predictions.container import TINY

if TYPE_CHECKING:
    from softkin.distances import ClassDistances
    from softkin.lab.data import Samples

NEEDS = "features"
"""The kind of data that has heads"""
NAMES, MEANS = "we", "cm"
"""The distances that kin are measured by: class names; class means where names have no vectors"""


@dataclass(frozen=True)
class Head:
    """What a head is made from, besides the predictions of its network."""

    rows: Rows
    distances: str | None
    """The digest of the run that has the class distances; None without kin"""
    beta: Value
    """β of the similarity; "auto" is fitted to what the network confuses on validation rows"""
    ood: Unknown

    def samples(self) -> "dict[str, Samples]":
        """The training rows, and those of all predictions by the names of their files."""
        parts = self.rows.split(progress=False)
        own: dict[str, Samples] = {"train": parts.train, "validation": parts.validation, "test": parts.test}
        return own | self.ood.load(parts.train, progress=False)

    def kin(self, measured: "ClassDistances", validation: Predictions) -> Tensor:
        """The class similarity from measured distances."""
        outputs = validation.probabilities, validation.known_labels
        beta = similarity.best_beta(measured.matrix, *outputs) if self.beta == "auto" else self.beta
        return similarity.from_distances(measured.matrix, float(beta))


def kin_head(kin: Tensor | None) -> KinHead:
    """A discriminant on features whose class means lean on similar classes, blended with the network's scores."""
    return KinHead(kin)


def head(_kin: Tensor | None) -> KinHead:
    """The control of kin-head: the same discriminant without similar classes."""
    return KinHead()


HEADS: dict[str, Callable[[Tensor | None], KinHead]] = {"kin-head": kin_head, "head": head}
"""The heads by their names in studies"""
USES_KIN = "kin-head"


def fit(unfitted: KinHead, validation: Predictions, samples: "dict[str, Samples]") -> KinHead:
    """A head fitted to training and validation rows."""
    train = samples["train"]
    assert train.labels is not None
    return unfitted.fit(
        validation.logits,
        validation.known_labels,
        features=_features(validation, samples["validation"]),
        train_features=train.values,
        train_labels=train.labels,
        class_names=train.class_names,
    )


def applied(fitted: KinHead, predicted: Predictions, samples: "Samples") -> Predictions:
    """The same rows with the probabilities of a head."""
    p = fitted.predict_proba(predicted.logits.double(), features=_features(predicted, samples))
    return replace(predicted, logits=p.clamp_min(TINY).log(), exact_probabilities=p, members=None)


def _features(predicted: Predictions, samples: "Samples") -> Any:
    """The features of predicted rows, which must be the same rows."""
    if len(predicted.logits) != len(samples) or (
        samples.labels is not None and not np.array_equal(predicted.known_labels.numpy(), samples.labels)
    ):
        raise ValueError("the predictions of the network are of other rows than the features; was the data changed?")
    return samples.values
