"""The wrong answers that a model was most sure of, and what those samples look like."""

import base64
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin._core import checks
from softkin.lab.data import decoding
from softkin.report.attach import LazyImages
from softkin.report.data import Mistake, Sample

SHOWN = 48  # mistakes on the page
FOR_A_CLASS = 4  # mistakes in the details of a class
LARGEST = 96  # pixels of a thumbnail's longer side
BUDGET = 1_500_000  # characters of all thumbnails: most of the 2 MB that a page for 100 classes aims for
LONGEST = 500  # characters of a text
TEXT_BUDGET = 3_000_000  # characters of all texts
MOST_SAMPLES = 2000  # samples that are described even without image or text


def most_confident(p: Tensor, y: Tensor) -> list[Mistake]:
    """The mistakes by falling confidence: row, answer, its score, the true class's score, the best classes."""
    score, answer = p.max(dim=1)
    wrong = (answer != y).nonzero()[:, 0]
    order = wrong[score[wrong].argsort(descending=True, stable=True)][:SHOWN]
    best = p[order].topk(min(4, p.shape[1]), dim=1)
    return [
        {
            "row": row,
            "answer": int(answer[row]),
            "confidence": round(float(score[row]), 6),
            "truth": round(float(p[row, y[row]]), 6),
            "best": [[k, round(s, 6)] for k, s in zip(ks, ss, strict=True)],
        }
        for row, ks, ss in zip(order.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def by_class(p: Tensor, y: Tensor) -> list[list[list[float]]]:
    """For each class, the wrong answers with the highest confidence, as [row, score]."""
    score, answer = p.max(dim=1)
    wrong = (answer != y).nonzero()[:, 0]
    order = wrong[score[wrong].argsort(descending=True, stable=True)]
    surest: list[list[list[float]]] = [[] for _ in range(p.shape[1])]
    for row, k in zip(order.tolist(), answer[order].tolist(), strict=True):
        if len(surest[k]) < FOR_A_CLASS:
            surest[k].append([row, round(float(score[row]), 6)])
    return surest


def confusions(p: Tensor, y: Tensor, most: int = 5) -> tuple[list[list[list[int]]], list[list[list[int]]]]:
    """([what samples of class k were answered with], [what the wrong answers "k" truly were]): [class, count] pairs."""
    k = p.shape[1]
    answer = p.argmax(dim=1)
    wrong = answer != y
    pairs, counts = torch.unique(y[wrong] * k + answer[wrong], return_counts=True)
    instead: list[list[list[int]]] = [[] for _ in range(k)]
    truly: list[list[list[int]]] = [[] for _ in range(k)]
    order = counts.argsort(descending=True, stable=True)
    for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True):
        truth, answered = divmod(pair, k)
        for lists, own, other in ((instead, truth, answered), (truly, answered, truth)):
            if len(lists[own]) < most:
                lists[own].append([other, count])
    return instead, truly


def described(
    rows: Iterable[int],
    labels: Tensor,
    *,
    sample_ids: Tensor | Sequence[str] | None,
    images: Any,
    texts: Sequence[str] | None,
) -> dict[str, Sample]:
    """The page's description of each sample, by row; thumbnails and texts are included while their budgets last."""
    samples: dict[str, Sample] = {}
    pictures, letters = 0, 0
    for row in rows:
        if str(row) in samples:
            continue
        about: Sample = {"label": int(labels[row])}
        if sample_ids is not None:
            known = sample_ids[row]
            about["id"] = int(known) if isinstance(known, Tensor) else known
        if texts is not None and letters < TEXT_BUDGET:
            about["text"] = texts[row] if len(texts[row]) <= LONGEST else texts[row][: LONGEST - 1] + "…"
            letters += len(about["text"])
        if images is not None and pictures < BUDGET:
            about["image"] = thumbnail(images[row])
            pictures += len(about["image"])
        if len(samples) > MOST_SAMPLES and "text" not in about and "image" not in about:
            break  # the budgets are spent
        samples[str(row)] = about
    return samples


def checked_images(images: Any, num_samples: int) -> Any:
    """Images as (N, H, W) or (N, H, W, C) uint8, C = 1, 3 or 4, or ``LazyImages``."""
    array: Any = images
    if not isinstance(images, LazyImages):
        array = images.cpu().numpy() if isinstance(images, Tensor) else np.asanyarray(images)
        shape = tuple(array.shape)
        if array.ndim == 4 and shape[3] not in (1, 3, 4) and shape[1] in (1, 3, 4):
            array = np.moveaxis(array, 1, 3)  # as torch has them
        if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in (1, 3, 4)):
            raise ValueError(f"`images` must have shape (N, H, W) or (N, H, W, C) with C = 1, 3 or 4, got {shape}.")
        array = decoding.pixels(array, "`images`")
    if len(array) != num_samples:
        raise ValueError(f"`images` must be as many as the samples: got {len(array)} for {num_samples} samples.")
    return array


def checked_texts(texts: Any, num_samples: int) -> list[str]:
    """``texts`` as a list with one text for each sample, or an error."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError("`texts` must be a list of texts, one for each sample.")
    if len(texts) != num_samples:
        raise ValueError(f"`texts` must be as many as the samples: got {len(texts)} for {num_samples} samples.")
    return list(texts)


def thumbnail(image: NDArray[np.uint8]) -> str:
    """A data URI: small images as PNG in full size, others as JPEG within 96 × 96 pixels."""
    from PIL import Image

    pixels = np.ascontiguousarray(image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image)
    picture = Image.fromarray(pixels)
    buffer = io.BytesIO()
    if max(picture.size) <= LARGEST // 2:
        picture.save(buffer, "PNG", optimize=True)
        kind = "png"
    else:
        picture.thumbnail((LARGEST, LARGEST))
        picture.convert("RGB").save(buffer, "JPEG", quality=85)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def display_names(names: Sequence[str] | None, num_classes: int) -> list[str]:
    """The names of the classes, or "class 7" where they have none: a bare number reads as a count."""
    return (
        [f"class {k}" for k in range(num_classes)]
        if names is None
        else checks.class_names(names, num_classes=num_classes)
    )
