"""The evaluation of pixels or tokens, (N, K, …) scores and (N, …) classes of an .npz file, an image at a time.

What is kept of an image are its sums, so memory is that of one image. Values are exact. The pixels of an image depend
on each other, so images are resampled: of averages by percentiles, of calibration errors as everywhere
(``resampling``), with the sums of images in place of those of rows.
"""

from pathlib import Path

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles
from softkin._io.numpy_files import Archive
from softkin.evaluation import results, streams
from softkin.evaluation.in_memory import settings_data
from softkin.evaluation.results import Evaluation
from softkin.evaluation.streams import GroupSums, ValueOnly
from softkin.metrics import binning, catalogue, measurement
from softkin.metrics.binned import Binned, BinnedError, Classwise, ClasswiseMean, DifferenceError
from softkin.metrics.binning import ReliabilityCurve
from softkin.metrics.measurement import Settings
from softkin.metrics.scopes import Claims, NoMeaning
from softkin.metrics.statistics import NEEDS_ALL, Averaged, Statistic, Streamed
from softkin.metrics.streaming import Running
from softkin.predictions import Reading, inference
from softkin.predictions.score_tables import choose

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


def evaluated(path: str | Path, reading: Reading, settings: Settings, title: str, ignore: int | None) -> Evaluation:
    """The evaluation of all pixels of a file."""
    name = str(path)
    with files.open_file(path) as file, files.reading(name, "npz"):
        archive = Archive(file, name)
        keys = [key for key in archive.keys if key not in roles.CLASS_NAMES]
        part = reading.label_part(keys, name)
        scores, kind = choose(keys, [key for key in keys if key != part], reading.kind, name)
        values, labels = archive.array(scores), None if part is None else archive.array(part)
        shape = values.shape
        if labels is None or labels.shape != (shape[0], *shape[2:]):
            found = "none" if labels is None else str(labels.shape)
            raise SoftkinError(
                f"{name}: `labels` must be the class of each pixel, {(shape[0], *shape[2:])}, for `{scores}` of shape "
                f"{shape} (N, K, …), got {found}."
            )
        key = next((key for key in roles.CLASS_NAMES if key in archive.keys), None)
        names = reading.names or (None if key is None else [str(text) for text in archive.text(key)])
        inference.say([f"{name}: `{scores}` of shape {shape} is read as {shape[1]} classes for each pixel or token."])
        images = Images(shape[1], settings)
        for _ in range(shape[0]):
            image, y = (checks.as_tensor(stream.take(1), scores) for stream in (values, labels))
            if kind is None:
                kind, _, why = inference.kind_of(image.reshape(shape[1], -1).T[:1000].double(), name, f"`{scores}`")
                inference.say([why])
            kept = y if ignore is None else y[y != ignore]
            if kept.numel() == 0:
                continue
            if int(kept.max()) >= shape[1] or int(kept.min()) < 0:
                wrong = int(kept.max() if int(kept.max()) >= shape[1] else kept.min())
                raise SoftkinError(
                    f"{name}: labels must be 0 to {shape[1] - 1}, got {wrong}; pixels of no class are left out by "
                    f"--ignore-index {wrong}."
                )
            p = image.float().softmax(dim=1) if kind == "logits" else image.float()
            images.add(Claims.of(p, y, ignore_index=ignore))
    if not images.counts:
        raise SoftkinError(f"{name} holds no pixel that counts: all labels are {ignore}.")
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
