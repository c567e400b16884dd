"""A trained network and data → ``Predictions``, standardised as in training."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from softkin.bayes import Posterior
from softkin.lab.training.batches import Inputs, Standardisation
from softkin.lab.training.launch import checked_device
from softkin.lab.training.loop import Trained
from softkin.lab.training.validation import evaluate
from softkin.predictions import Predictions

if TYPE_CHECKING:
    from softkin.lab.data import Samples


def predict(
    trained: Trained | nn.Module,
    data: "Samples",
    *,
    standardisation: Standardisation | None = None,
    device: str | torch.device | None = None,
    split_digest: str | None = None,
    name: str | None = None,
) -> Predictions:
    """The predictions of a network for each row of ``data``.

    Args:
        trained: The result of ``fit``, or a network; a network needs ``standardisation``.
        data: The rows; labels are optional, as out-of-distribution rows have none.
        standardisation: The standardisation of the training, if ``trained`` is a network.
        device: The device to compute on; by default the network's.
        split_digest: Digest of the split that the rows came from, kept with the predictions.
        name: A name for the rows, such as "test".
    """
    model, class_names = (trained.model, trained.class_names) if isinstance(trained, Trained) else (trained, None)
    how = trained.standardisation if isinstance(trained, Trained) else standardisation
    if how is None:
        raise ValueError(
            "`standardisation` must be given with a bare network: pass the result of fit, or its standardisation."
        )
    weight = next(model.parameters(), torch.empty(0))
    target = weight.device if device is None else checked_device(device)
    model.to(target)
    laid_out = any(
        weights.ndim == 4 and not weights.is_contiguous() and weights.is_contiguous(memory_format=torch.channels_last)
        for weights in model.parameters()
    )
    inputs = Inputs(data, how, device=target, channels_last=laid_out and data.kind == "images")
    known = class_names or (list(data.class_names) if data.class_names else None)
    rows = range(len(data.values))
    information = None
    if isinstance(model, Posterior):
        mean = model.averaged(lambda network: evaluate(network, inputs, rows, len(known or ())))
        logits, information = mean.logits, mean.mutual_information
    else:
        logits = evaluate(model, inputs, rows, len(known or ()))
    labels = None if data.labels is None else torch.from_numpy(data.labels.copy())
    return Predictions(
        logits,
        labels,
        class_names=known,
        sample_ids=None if data.ids is None else torch.from_numpy(data.ids.copy()),
        split_digest=split_digest,
        name=name,
        mutual_information=information,
    )
