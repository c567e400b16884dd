"""The evaluation of pixels or tokens, (N, K, …) scores and (N, …) classes of an .npz file, an image at a time.

What is kept of an image are its sums, so memory is that of one image. Values are exact. The pixels of an image depend
on each other, so images are resampled: of averages by percentiles, of calibration errors as everywhere
(``resampling``), with the sums of images in place of those of rows.
"""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks, randomness
from softkin._io import files, roles
from softkin._io.numpy_files import Archive, ArrayStream
from softkin._io.roles import ScoreKind
from softkin.calibrators import Calibrator
from softkin.evaluation import results, streams
from softkin.evaluation.in_memory import settings_data
from softkin.evaluation.results import Evaluation
from softkin.evaluation.streams import GroupSums, ValueOnly
from softkin.metrics import Accumulator, binning, catalogue, measurement
from softkin.metrics.binned import Binned, BinnedError, Classwise, ClasswiseMean, DifferenceError
from softkin.metrics.binning import ReliabilityCurve
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Claims, NoMeaning
from softkin.metrics.statistics import NEEDS_ALL, Averaged, Statistic, Streamed
from softkin.metrics.streaming import Running
from softkin.predictions import Predictions, Reading, inference
from softkin.predictions.request import choose

MOST_DRAWN = 20_000  # pixels that calibrators are fitted to, and from which a page's charts are made
SUMMED = (Averaged, Binned, Classwise)  # metrics of few sums, which are kept of each image; a density has many


class ImageMean(Statistic):
    """A metric of the sums of images that is no calibration error; images are resampled."""

    def __init__(self, reader: Streamed, totals: Tensor, counts: Tensor) -> None:
        """``totals`` are the (images, F) sums, ``counts`` the numbers of pixels."""
        self.reader, self.rows = reader, torch.cat([totals, counts[:, None]], dim=1)
        self.num_samples, self.device = len(totals), totals.device

    def value(self) -> float:
        return float(self.of(self.once()))

    def sums(self, weights: Tensor) -> Tensor:
        return weights.to(torch.float64) @ self.rows

    def of(self, sums: Tensor) -> Tensor:
        read = [self.reader.read(line[:-1], float(line[-1])) for line in sums]
        return torch.tensor(read, dtype=torch.float64)


class ImageError(GroupSums):
    """A calibration error of the departures of images."""

    can_redraw = False


def holds(path: str | Path) -> bool:
    """Whether a file is an .npz with scores of more than two dimensions."""
    if Path(path).suffix.lower() != ".npz" or not Path(path).is_file():
        return False
    with files.open_file(path) as file:
        archive = Archive(file, str(path))
        known = [key for key in archive.keys if any(key.lower() in names for names in roles.KINDS.values())]
        return any(len(archive.array(key).shape) > 2 for key in known)


class Images:
    """Sums of one image after the other."""

    def __init__(self, num_classes: int, settings: Settings) -> None:
        self.settings = settings
        self.running = {
            metric.key: Running(metric, metric.with_bins(settings.n_bins), streams.KDE_CELLS)
            for metric in catalogue.shown("evaluate", num_classes, ordered=settings.ordered)
        }
        self.readers: dict[str, Streamed] = {}
        self.absent: dict[str, str] = {}
        for key, part in self.running.items():
            try:
                reader = part.trial(num_classes)
            except NoMeaning as reason:
                self.absent[key] = str(reason.args[0])
                continue
            needs = reader.needs_all if isinstance(reader, Streamed) else NEEDS_ALL
            if needs is None and isinstance(reader, Streamed):
                self.readers[key] = reader
            else:
                self.absent[key] = f"{needs}, and pixels are read an image at a time"
        self.kept = {key: list[Tensor]() for key, reader in self.readers.items() if isinstance(reader, SUMMED)}
        self.counts: list[int] = []
        self.curves: dict[int, Tensor] = {}

    def add(self, claims: Claims) -> None:
        """Add the pixels of one image."""
        for key in self.readers:
            statistic = self.running[key].of(claims)
            if key in self.kept:
                self.kept[key].append(statistic.totals(self.running[key].cells))
            else:
                self.running[key].feed(statistic)
        self.counts.append(claims.num_samples)
        pool = claims.pool("prediction")
        for bins in {self.settings.n_bins, results.CELLS}:
            curve = pool.curve(binning.equal_width(bins))
            sums = torch.stack([curve.count, curve.score_sum, curve.hit_sum])
            self.curves[bins] = sums + self.curves.get(bins, 0)

    def curve(self, bins: int) -> ReliabilityCurve:
        """The winning scores of all images."""
        return ReliabilityCurve(binning.equal_width(bins).edges, *self.curves[bins])

    def statistics(self) -> dict[str, Statistic]:
        """Each metric as a statistic that resamples images."""
        counts = torch.tensor(self.counts, dtype=torch.float64)
        made: dict[str, Statistic] = {}
        for key, reader in self.readers.items():
            if key not in self.kept:
                total = self.running[key].totals
                assert total is not None
                floor = reader.read_floor(total) if self.running[key].metric.floor else None
                made[key] = ValueOnly(reader.read(total, float(counts.sum())), floor)
                continue
            totals = torch.stack(self.kept[key])
            if isinstance(reader, DifferenceError | ClasswiseMean):
                _, scores, hits = totals.view(len(totals), 3, -1).unbind(dim=1)
                made[key] = ImageError(scores - hits, reader, int(counts.sum()))
            elif isinstance(reader, BinnedError):
                made[key] = ValueOnly(reader.read(totals.sum(dim=0), float(counts.sum())))
            else:
                made[key] = ImageMean(reader, totals, counts)
        return made


VOID = (255, -1, -100)
"""What pixels of no class are usually labelled: data sets of segmentation, and torch's losses"""


@dataclass
class PixelFile:
    """An open .npz file of (N, K, …) scores and (N, …) classes, which is read an image at a time."""

    name: str
    values: ArrayStream
    labels: ArrayStream | None
    kind: ScoreKind | None
    class_names: list[str] | None
    ignore: int | None

    def images(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """(1, K, …) scores, (1, …) classes, and which of these pixels count, of one image after the other.

        Without labels the classes are 0 and all pixels count.
        """
        num_classes = self.values.shape[1]
        for _ in range(self.values.shape[0]):
            image = checks.as_tensor(self.values.take(1), "scores")
            y = image[:, 0].new_zeros(image[:, 0].shape, dtype=torch.int64)
            if self.labels is not None:
                y = checks.as_tensor(self.labels.take(1), "labels")
            if self.kind is None:
                some = image.reshape(num_classes, -1).T[:1000].double()
                self.kind, _, why = inference.kind_of(some, self.name, "its numbers")
                inference.say([why])
            if self.ignore is None and self.labels is not None:
                self.ignore = self._void(y, num_classes)
            counts = torch.ones_like(y, dtype=torch.bool) if self.ignore is None else y != self.ignore
            kept = y[counts]
            if kept.numel() and (int(kept.max()) >= num_classes or int(kept.min()) < 0):
                wrong = int(kept.max() if int(kept.max()) >= num_classes else kept.min())
                raise SoftkinError(
                    f"{self.name}: labels must be 0 to {num_classes - 1}, got {wrong}; pixels of no class are left out "
                    f"by --ignore-index {wrong}."
                )
            yield image.float(), y.to(torch.int64), counts

    def _void(self, y: Tensor, num_classes: int) -> int | None:
        """The label of pixels of no class, if an image has one that cannot be a class and is usual for this."""
        beyond = y[(y < 0) | (y >= num_classes)].unique().tolist()
        if len(beyond) != 1 or int(beyond[0]) not in VOID:
            return None
        void = int(beyond[0])
        inference.say([f"{self.name}: pixels of the label {void} are of no class, and left out (--ignore-index)."])
        return void


@contextmanager
def opened(path: str | Path, reading: Reading, ignore: int | None, *, labelled: bool = True) -> Iterator[PixelFile]:
    """Open a file of pixels, which must have labels if ``labelled``."""
    name = str(path)
    with files.open_file(path) as file, files.reading(name, "npz"):
        archive = Archive(file, name)
        keys = [key for key in archive.keys if key not in roles.CLASS_NAMES]
        part = reading.label_part(keys, name)
        scores, kind = choose(keys, [key for key in keys if key != part], reading.kind, name)
        values, labels = archive.array(scores), None if part is None else archive.array(part)
        shape = values.shape
        if (labels is None and labelled) or (labels is not None and labels.shape != (shape[0], *shape[2:])):
            found = "none" if labels is None else str(labels.shape)
            raise SoftkinError(
                f"{name}: `labels` must be the class of each pixel, {(shape[0], *shape[2:])}, for `{scores}` of shape "
                f"{shape} (N, K, …), got {found}."
            )
        key = next((key for key in roles.CLASS_NAMES if key in archive.keys), None)
        names = reading.names or (None if key is None else [str(text) for text in archive.text(key)])
        inference.say([f"{name}: `{scores}` of shape {shape} is read as {shape[1]} classes for each pixel or token."])
        yield PixelFile(name, values, labels, kind, names, ignore)


def drawn(
    path: str | Path,
    reading: Reading,
    ignore: int | None,
    *,
    most: int = MOST_DRAWN,
    seed: int = 0,
    labelled: bool = True,
) -> Predictions:
    """Random pixels of all images, as rows: about as many of each image, at most ``most`` in all."""
    values, labels, generator = [], [], randomness.generator(seed)
    with opened(path, reading, ignore, labelled=labelled) as file:
        each = max(1, most // max(1, file.values.shape[0]))
        for image, y, counts in file.images():
            where = counts.reshape(-1).nonzero()[:, 0]
            chosen = where[torch.from_numpy(generator.permutation(len(where))[:each]).sort().values]
            values.append(image.reshape(image.shape[1], -1).T[chosen])
            labels.append(y.reshape(-1)[chosen])
    rows, truth = torch.cat(values), None if file.labels is None else torch.cat(labels)
    if not len(rows):
        raise nothing_counts(str(path), file.ignore)
    about: dict[str, Any] = {"class_names": file.class_names, "name": Path(path).name}
    try:
        if file.kind == "probs":
            return Predictions.from_probabilities(rows, truth, **about)
        return Predictions(rows, truth, **about)
    except (TypeError, ValueError) as error:
        raise SoftkinError(f"{path}: {error}") from error


@dataclass(frozen=True)
class Calibrated:
    """The calibrated pixels of a file."""

    probabilities: NDArray[np.float32]
    """(N, K, …)"""
    labels: NDArray[np.int64] | None
    class_names: list[str] | None
    before: dict[str, float]
    """Metrics of the pixels that count; empty without labels"""
    after: dict[str, float]
    num_pixels: int

    def save(self, path: str | Path) -> None:
        """Write an .npz file of ``probs`` and ``labels``."""
        buffer = io.BytesIO()
        more = {} if self.class_names is None else {"class_names": np.array(self.class_names)}
        more |= {} if self.labels is None else {"labels": self.labels}
        np.savez(buffer, probs=self.probabilities, **more)  # type: ignore[arg-type]
        files.write(path, buffer.getvalue())


def calibrated(path: str | Path, calibrator: Calibrator, reading: Reading, ignore: int | None) -> Calibrated:
    """The calibrated probabilities of all pixels, an image at a time; the result must fit into memory."""
    totals = [Accumulator(["nll", "ece_hist"]) for _ in range(2)]
    found, truth, counted = [], [], 0
    with opened(path, reading, ignore, labelled=False) as file:
        files.within("bytes", 4 * math.prod(file.values.shape), f"{path}, calibrated,")
        for image, y, counts in file.images():
            p = image.softmax(dim=1) if file.kind == "logits" else image
            q = calibrator.predict_proba(image, from_probabilities=file.kind == "probs").float()
            found.append(q.numpy())
            truth.append(y.numpy())
            counted += int(counts.sum())
            if file.labels is not None and bool(counts.any()):
                for total, own in zip(totals, (p, q), strict=True):
                    total.update(own, y, ignore_index=file.ignore)
    if not counted:
        raise nothing_counts(str(path), file.ignore)
    known = file.labels is not None
    before, after = (total.compute() if known else {} for total in totals)
    labels = np.concatenate(truth) if known else None
    return Calibrated(np.concatenate(found), labels, file.class_names, before, after, counted)


def nothing_counts(name: str, ignore: int | None) -> SoftkinError:
    """The refusal of a file whose pixels are all left out."""
    return SoftkinError(f"{name} holds no pixel that counts: all labels are {ignore}.")


def evaluated(path: str | Path, reading: Reading, settings: Settings, title: str, ignore: int | None) -> Evaluation:
    """The evaluation of all pixels of a file."""
    with opened(path, reading, ignore) as file:
        name, shape, names = file.name, file.values.shape, file.class_names
        images = Images(shape[1], settings)
        for image, y, counts in file.images():
            if bool(counts.any()):
                p = image.softmax(dim=1) if file.kind == "logits" else image
                images.add(Claims.of(p, y, ignore_index=file.ignore))
    if not images.counts:
        raise nothing_counts(name, file.ignore)
    measured = measurement.measured(images.statistics(), settings)
    measured |= {key: measurement.absent(reason) for key, reason in images.absent.items()}
    bins, cells = images.curve(settings.n_bins), images.curve(results.CELLS)
    sums = {part: getattr(cells, part).tolist() for part in ("count", "score_sum", "hit_sum")}
    return {
        "name": title,
        "num_samples": sum(images.counts),
        "num_classes": shape[1],
        "kind": "classes",
        "class_names": names,
        "digest": None,
        "settings": settings_data(settings, f"{len(images.counts)} images"),
        "verdict": results.verdict(measured["signed_gap"].interval, measured["ece_hist"].interval, sums, trained=True),
        "reliability": {
            "edges": bins.edges.tolist(),
            "count": [round(count) for count in bins.count.tolist()],
            "mean_confidence": [files.number(value) for value in bins.confidence.tolist()],
            "share_right": [files.number(value) for value in bins.likelihood.tolist()],
        },
        "metrics": {key: measured[key].to_dict() for key in images.running},
    }
