"""The loss with class-similarity labels: from similarity, distances, names or a file, or learned by the network."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from torch import Tensor

from softkin import similarity as similarities
from softkin import smoothing
from softkin._core import checks
from softkin._core.assumption import Assumption
from softkin._core.checks import Array
from softkin._core.named_labels import in_order
from softkin.losses import soft_labels
from softkin.losses.learned import PRIOR_ROWS, LearnedSimilarityLoss
from softkin.losses.soft_labels import Alpha, AutoAlpha, SoftLabelCrossEntropy
from softkin.similarity import Beta, Outputs, SparseRows

if TYPE_CHECKING:
    from softkin.word_vectors import WordVectors


class ClassSimilarityLoss(SoftLabelCrossEntropy):
    """``SoftLabelCrossEntropy`` with the labels (1−α)·one-hot + α·similarity.

    With equal similarities it equals ``F.cross_entropy(label_smoothing=α·K/(K−1))``: here α is the mass on the other
    classes, whereas PyTorch spreads its mass over all K classes.

    Args:
        similarity: (K, K) from ``softkin.similarity``, or its ``SparseRows``.
        alpha: The smoothing factor, 0 ≤ α < 1, or "auto": see ``adjust``. "auto" closes the gap between confidence and
            accuracy: right where no calibrator follows. Where one may, choose α by the NLL after a temperature.
        weight: As in ``SoftLabelCrossEntropy``, like all options below.
        weight_by: "class" or "sample".
        ignore_index: Integer targets with this value are ignored.
        reduction: "mean", "sum" or "none".
        persistent: Whether the labels are part of the ``state_dict``.

    Example:
        >>> loss_fn = ClassSimilarityLoss.from_names(["cat", "dog", "car"], alpha=0.1, beta=1.0)
        >>> row = loss_fn.soft_labels[0]
        >>> round(float(row[0]), 4), bool(row[1] > row[2])  # a cat is more like a dog than like a car
        (0.9, True)
    """

    def __init__(
        self,
        similarity: Array | SparseRows,
        alpha: Alpha = 0.1,
        *,
        weight: Array | None = None,
        weight_by: Literal["class", "sample"] = "class",
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
        persistent: bool = False,
    ) -> None:
        auto = soft_labels.requested(alpha)
        # A loss that moves α scales the labels at α = 1, which are the similarity itself.
        labels: Tensor | SparseRows
        if isinstance(alpha, str | AutoAlpha):
            labels = smoothing.checked_similarity(similarity)
        else:
            labels = smoothing.similarity_labels(similarity, alpha)
        super().__init__(
            labels,
            alpha=auto,
            weight=weight,
            weight_by=weight_by,
            ignore_index=ignore_index,
            reduction=reduction,
            persistent=persistent,
        )

    def extra_repr(self) -> str:
        return super().extra_repr() if self._auto else f"alpha={self.alpha:.6g}, {super().extra_repr()}"

    @classmethod
    def from_distances(
        cls,
        matrix: Array,
        alpha: Alpha = 0.1,
        beta: Beta = 2.0,
        *,
        asymmetric: bool = False,
        top_m: int | None = None,
        outputs: Outputs | None = None,
        **options: Any,
    ) -> Self:
        """Make the loss from class distances (K, K): see ``similarity.from_distances``."""
        similarity: Tensor | SparseRows = similarities.from_distances(
            matrix, beta, asymmetric=asymmetric, top_m=top_m, outputs=outputs
        )
        return cls(similarity, alpha, **options)

    @classmethod
    def from_names(
        cls,
        class_names: Sequence[str | Sequence[str]],
        alpha: Alpha = 0.1,
        beta: Beta = 2.0,
        *,
        vectors: "WordVectors | Mapping[str, Any] | str | Path | None" = None,
        aliases: Mapping[str, str] | None = None,
        prefer: Literal["words", "entity"] = "words",
        top_m: int | None = None,
        outputs: Outputs | None = None,
        strict: bool = False,
        **options: Any,
    ) -> Self:
        """Make the loss from class names: see ``distances.from_words`` and ``similarity.from_vectors``.

        With ``top_m`` each class keeps only its m most similar classes. ``beta="auto"`` chooses β by a baseline's
        ``outputs`` on held-out rows. A class whose name has no vector is smoothed uniformly, with a warning, and
        is to the others a class at their mean distance; if fewer than half of the names have one, all are smoothed
        uniformly. ``strict`` refuses both.

        Example:
            >>> import warnings
            >>> with warnings.catch_warnings():
            ...     warnings.simplefilter("ignore")
            ...     loss_fn = ClassSimilarityLoss.from_names(["cat", "dog", "car", "qzx"], alpha=0.3)
            >>> loss_fn.soft_labels[3]
            tensor([0.1000, 0.1000, 0.1000, 0.7000], dtype=torch.float64)
        """
        from softkin import distances
        from softkin.distances import name_doubts, tree_files  # here, as a loss from a matrix needs no distances
        from softkin.distances.words import partly_known

        listed = [str(name) if isinstance(name, int) else name for name in in_order(class_names)]
        listed = tree_files.in_words(listed)
        free = prefer == "words" and not strict and top_m is None and outputs is None
        partly = partly_known(listed, vectors, aliases=aliases, even_few=True) if free else None
        if partly is not None:
            similarity: Tensor | SparseRows = similarities.from_distances(partly, beta, asymmetric=True)
        else:
            rows = distances.name_vectors(listed, vectors, aliases=aliases, prefer=prefer)
            similarity = similarities.from_vectors(rows, beta, top_m=top_m, outputs=outputs)
        if prefer == "words":
            for sentence in name_doubts.doubts(listed, similarity, beta, vectors=vectors, aliases=aliases):
                warnings.warn(sentence, stacklevel=2)
        return cls(similarity, alpha, **options)

    @staticmethod
    def learned(
        num_classes: int,
        alpha: float = 0.5,
        *,
        prior: Array | SparseRows | None = None,
        prior_rows: float = PRIOR_ROWS,
        steps: int | None = None,
        **options: Any,
    ) -> LearnedSimilarityLoss:
        """Make a loss whose similarity the network learns: the mean probabilities of the rows that it gets right.

        Call ``end_epoch()`` after each epoch, or pass ``steps``. Fit a temperature afterwards: α = 0.5 makes the
        network less sure than it is right.

        Args:
            num_classes: K.
            alpha: The weight of what was learned in the labels (1−α)·one-hot + α·learned.
            prior: A class similarity, such as ``similarity.from_distances`` makes, on which a class with few right rows
                leans.
            prior_rows: The number of rows that the prior counts as.
            steps: Turn over after so many training batches, so that nobody has to call ``end_epoch``; one epoch is a
                good choice.
            options: ``weight``, ``weight_by``, ``ignore_index`` and ``reduction`` of the loss.

        Example:
            >>> import torch
            >>> loss_fn = ClassSimilarityLoss.learned(3, alpha=0.5)
            >>> loss = loss_fn(torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]]), torch.tensor([0, 1]))
            >>> loss_fn.end_epoch()
            >>> loss_fn.soft_labels[0]  # ½·(1, 0, 0) + ½·softmax(2, 1, 0)
            tensor([0.8326, 0.1224, 0.0450], dtype=torch.float64)
        """
        return LearnedSimilarityLoss(num_classes, alpha, prior=prior, prior_rows=prior_rows, steps=steps, **options)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        class_names: Sequence[str],
        alpha: "Alpha | None" = None,
        beta: Beta | None = None,
        *,
        asymmetric: bool = False,
        **options: Any,
    ) -> Self:
        """Make the loss from a file about class similarity, such as ``softkin similarity`` and its audition write.

        Args:
            path: A file of distances, similarity, smooth labels, a confusion matrix or a taxonomy.
            class_names: The names in the order of the labels; the file's classes are reordered by name.
            alpha: None uses the value that the file suggests, as one of an audition does, and says so; else 0.1.
            beta: For distances, by default 2. A similarity already contains its β.
            asymmetric: Allow distances that differ by direction.
            options: Other options of the loss.
        """
        from softkin import distances  # here, as a loss from a matrix needs no distances

        content = distances.read_file(path, checks.class_names(class_names), class_names)
        if beta is not None and content.kind != "distances":
            raise ValueError(f"`beta` must be left out: {path} holds a similarity, which already includes its β.")
        if alpha is None:
            alpha = content.about.get("alpha", 0.1)
            if "alpha" in content.about:
                shown = repr(alpha) if isinstance(alpha, str) else f"{alpha:.3g}"
                why = ", by the gap of the predictions that it was judged by" if "audition" in content.about else ""
                said = f"alpha={shown} is what {path} suggests{why}; pass `alpha` for another."
                warnings.warn(Assumption(said), stacklevel=2)
        if content.kind == "distances":
            beta = 2.0 if beta is None else beta
            asymmetric = asymmetric or content.about.get("asymmetric") is True
            return cls.from_distances(content.values, alpha, beta, asymmetric=asymmetric, **options)
        return cls(content.values, alpha, **options)
