"""softkin in Hugging Face's ``Trainer``: the loss, the names of the classes, the metrics.

    from softkin.transformers import TrainerLoss, compute_metrics

    trainer = Trainer(
        model=model, args=args, train_dataset=…, eval_dataset=…,
        compute_loss_func=TrainerLoss.from_model(model, alpha=0.1),  # or "auto", with eval_strategy="epoch"
        compute_metrics=compute_metrics,
    )

Nothing here imports transformers: the arguments that its ``Trainer`` passes are enough. Tested with 4.46 and newer
(``pip install 'softkin[transformers]'``), the first whose ``Trainer`` has ``compute_loss_func``.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from softkin import losses
from softkin._core import checks
from softkin.metrics.measurement import measure
from softkin.metrics.scopes import Claims

__all__ = ["TrainerLoss", "class_names", "compute_metrics"]

MEASURED = ("accuracy", "nll", "brier", "signed_gap", "ece_hist", "ece_hist_output")


class TrainerLoss:
    """A loss for ``Trainer(compute_loss_func=…)``.

    ``Trainer`` uses the same function for the loss of the evaluation. A smooth loss there would not be the NLL that
    ``eval_loss`` is expected to be, and could not be compared with that of a run without smoothing. So outside of
    training (where gradients are off) this is the plain cross-entropy, unless ``evaluation="smooth"``.

    With gradient accumulation ``Trainer`` passes the number of samples of all accumulated batches
    (``num_items_in_batch``), and the gradients are those of one large batch.

    A loss with ``alpha="auto"`` adjusts α by the evaluated rows when the training goes on after an evaluation:
    set ``eval_strategy="epoch"``. So does a loss that learns its labels turn over (``TrainerLoss.learned``), unless it
    has ``steps``; evaluated rows teach it nothing. A checkpoint of ``Trainer`` holds the model only; to resume, keep
    ``loss_fn.state_dict()`` yourself.

    Args:
        loss_fn: A loss such as ``losses.ClassSimilarityLoss``.
        evaluation: "nll" for the plain cross-entropy in evaluations, "smooth" for ``loss_fn``.
    """

    def __init__(self, loss_fn: losses.SoftLabelCrossEntropy, *, evaluation: Literal["nll", "smooth"] = "nll") -> None:
        self.loss_fn = loss_fn
        checks.option(evaluation, "evaluation", ("nll", "smooth"))
        self.evaluation = evaluation
        self._evaluated: list[tuple[Tensor, Tensor]] = []
        self._turns = isinstance(loss_fn, losses.LearnedSimilarityLoss) and loss_fn.steps is None
        self._due = False

    @classmethod
    def from_model(cls, model: Any, *, evaluation: Literal["nll", "smooth"] = "nll", **options: Any) -> Self:
        """``ClassSimilarityLoss.from_names`` with the names in ``model.config.id2label``, and its ``options``."""
        names = [_words(name) for name in class_names(model)]
        return cls(losses.ClassSimilarityLoss.from_names(names, **options), evaluation=evaluation)

    @classmethod
    def learned(cls, model: Any, *, evaluation: Literal["nll", "smooth"] = "nll", **options: Any) -> Self:
        """``ClassSimilarityLoss.learned`` for the classes of ``model.config.num_labels``, and its ``options``."""
        count = int(getattr(model, "config", model).num_labels)
        return cls(losses.ClassSimilarityLoss.learned(count, **options), evaluation=evaluation)

    def __call__(self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | float | None = None) -> Tensor:
        """The loss of a model's output, an object or mapping with ``logits``."""
        logits = outputs["logits"] if isinstance(outputs, Mapping) else getattr(outputs, "logits", outputs)
        if logits.ndim == 3 and labels.ndim == 2:  # a label for each token: a loss needs the classes second
            logits = logits.movedim(-1, 1)
        self.loss_fn.to(logits.device)
        if self.loss_fn.moves_alpha:
            self._move_alpha(logits, labels)
        self.loss_fn.train(torch.is_grad_enabled())
        if self._turns:
            self._turn_over()
        if torch.is_grad_enabled() or self.evaluation == "smooth":
            loss: Tensor = self.loss_fn(logits, labels, num_items_in_batch)
            return loss
        return F.cross_entropy(logits.float(), labels, ignore_index=self.loss_fn.ignore_index)

    def _turn_over(self) -> None:
        """Turn over learned labels when the training goes on after an evaluation. Collective."""
        if not torch.is_grad_enabled():
            self._due = True
        elif self._due:
            self._due = False
            assert isinstance(self.loss_fn, losses.LearnedSimilarityLoss)
            self.loss_fn.end_epoch()

    def _move_alpha(self, logits: Tensor, labels: Tensor) -> None:
        """Keep the rows of an evaluation, and move α by them when the training goes on. Collective."""
        if not torch.is_grad_enabled():
            self._evaluated.append((logits.detach().float().cpu(), labels.detach().cpu()))
        elif self._evaluated:
            scores, classes = zip(*(_flat(*batch) for batch in self._evaluated), strict=True)
            self._evaluated = []
            self.loss_fn.adjust(torch.cat(scores), torch.cat(classes))


def _flat(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, K) logits and (rows,) labels, also of data with a label for each token; batches differ in length."""
    return logits.movedim(1, -1).reshape(-1, logits.shape[1]), labels.reshape(-1)


def class_names(model: Any) -> list[str]:
    """The names of the classes in their order, from a model or its configuration: ``id2label`` is a mapping.

    Raises:
        ValueError: There are no names, or only the placeholders LABEL_0, LABEL_1 …
    """
    config = getattr(model, "config", model)
    named = getattr(config, "id2label", None)
    if not isinstance(named, Mapping) or not named:
        raise ValueError(f"`model` must have `config.id2label`, a mapping from class numbers to names, got {named!r}.")
    by_number = {int(number): str(name) for number, name in named.items()}
    if sorted(by_number) != list(range(len(by_number))):
        raise ValueError(f"`id2label` must name the classes 0 to {len(by_number) - 1}, got {sorted(by_number)[:10]}.")
    names = [by_number[number] for number in range(len(by_number))]
    if all(re.fullmatch(r"LABEL_\d+", name) for name in names):
        raise ValueError(
            "`id2label` holds the placeholders LABEL_0 …; pass id2label={0: 'name', …} when you make the model."
        )
    return names


def _words(name: str) -> str:
    """A name such as ``card_payment_fee`` as words with spaces."""
    return re.sub(r"[_\-\s]+", " ", name).strip()


def compute_metrics(evaluation: Any) -> dict[str, float]:
    """Accuracy, NLL, Brier score and calibration errors for ``Trainer(compute_metrics=compute_metrics)``.

    Args:
        evaluation: The argument that ``Trainer`` passes: ``predictions`` (logits, or a tuple that begins with them) and
            ``label_ids``. Rows or tokens with the label −100 are left out.
    """
    values, labels = evaluation.predictions, evaluation.label_ids
    logits = np.asarray(values[0] if isinstance(values, tuple | list) else values)
    labels = np.asarray(labels[0] if isinstance(labels, tuple) else labels)
    if logits.shape[:-1] != labels.shape:
        raise ValueError(
            f"`predictions` must be logits (N, K) of the {labels.shape} labels, got {logits.shape}; is there a "
            "`preprocess_logits_for_metrics` that changes them?"
        )
    counted = labels.reshape(-1) != -100
    y = torch.from_numpy(labels.reshape(-1)[counted].astype(np.int64))
    z = torch.from_numpy(logits.reshape(-1, logits.shape[-1])[counted].astype(np.float64))
    p = z.softmax(dim=1)
    return {key: one.value for key, one in measure(Claims.of(p, y), MEASURED).items()}
