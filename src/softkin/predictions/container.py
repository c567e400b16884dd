"""Logits and labels of samples, with the names of the classes and samples, and a file format written atomically."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks, notebooks
from softkin._core.checks import Array
from softkin._core.named_labels import numbered
from softkin._io import bundles, escape, files, roles
from softkin.metrics.scopes import Claims

if TYPE_CHECKING:
    from softkin.calibrators import Calibrator

TINY = torch.finfo(torch.float64).tiny  # a probability of 0 gets the logit ln TINY, about −708
SUFFIXES = (".npz", ".safetensors", ".csv", ".tsv")

SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits (N, K) of N samples, with their labels, class names and sample ids.

    Everything is on the CPU. If you have only probabilities, call ``from_probabilities``: ``logits`` are then ln p,
    clipped at the smallest normal float64, and ``probabilities`` are returned unchanged. Nothing is guessed.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> preds = Predictions(logits, torch.tensor([0, 1]), class_names=["cat", "dog"])
        >>> preds
        Predictions(2 samples, 2 classes)
        >>> preds.probabilities.argmax(1)
        tensor([0, 1])
    """

    logits: Tensor
    """(N, K), floating-point"""
    labels: Tensor | None = None
    """(N,) int64; None where the samples belong to none of the classes (out of distribution). Given (N, K) votes or
    soft labels, these are kept as ``votes``, and the labels are the classes with most of them; one 1 in each row is a
    class"""
    class_names: list[str] | None = None
    sample_ids: Tensor | list[str] | None = None
    """(N,) integers or texts that identify the samples in their data set"""
    split_digest: str | None = None
    """Digest of the split that the samples came from"""
    name: str | None = None
    exact_probabilities: Tensor | None = None
    """(N, K) probabilities as they came, if the source has probabilities instead of logits"""
    texts: list[str] | None = None
    """(N,) texts of the samples, for people to read"""
    members: Tensor | None = None
    """(M, N, K) probabilities of the members of an ensemble or the draws of a Bayesian network, if kept"""
    mutual_information: Tensor | None = None
    """(N,) disagreement of the members in nats; computed from ``members`` if those are given"""
    images: Any = None
    """(N, H, W) or (N, H, W, C) uint8, for the report; files of predictions do not hold them"""
    features: Tensor | None = None
    """(N, d) what a layer of the network returned, if kept; files of predictions do not hold them"""
    votes: Tensor | None = None
    """(N, K) shares of people's votes, float64, if there are several people's labels"""
    weights: Tensor | None = None
    """(N,) weights of the samples, float64"""
    groups: list[str] | None = None
    """(N,) the group of each sample"""
    calibrated_by: str | None = None
    """What calibrated the probabilities, such as "beta calibrator"; None if nothing is known to have"""
    are_pairs: bool = False
    """Whether the two classes are that an answer is wrong, and that it is right, with its confidence as the second
    probability"""
    file_rows: Tensor | list[str] | None = None
    """(N,) the rows of the file that the samples are, counted from 0, where some were left out, or of several files
    each with its name. They are no ids: any other file has the same"""
    ids_called: str | None = None
    """What the ids are called where they come from, such as "customer_id", for the report"""

    def __post_init__(self) -> None:
        labels, named = numbered(self.labels, self.logits, self.class_names)
        logits = checks.logits(self.logits).cpu()
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.to(torch.float32)
        ids = self.sample_ids
        names = self.class_names if self.class_names is not None else named
        labels = None if labels is None else checks.as_tensor(labels, "labels")
        if labels is not None and labels.ndim == 2 and labels.shape[1] != 1:
            shares = _shares(labels, logits.shape)
            if not bool(((labels == 0) | (labels == 1)).all() & (labels.sum(dim=1) == 1).all()):
                object.__setattr__(self, "votes", shares)
            labels = shares.argmax(dim=1)
        if labels is not None:
            labels = checks.class_labels(labels, num_samples=len(logits), num_classes=logits.shape[1]).cpu()
        if names is not None:
            names = checks.class_names(names, num_classes=logits.shape[1])
        for field, value in {"logits": logits, "labels": labels, "class_names": names}.items():
            object.__setattr__(self, field, value)
        object.__setattr__(self, "sample_ids", None if ids is None else _ids(ids, len(logits)))
        if self.texts is not None:
            object.__setattr__(self, "texts", _texts(self.texts, len(logits)))
        if self.weights is not None:
            object.__setattr__(self, "weights", checks.weights(self.weights, len(logits)).cpu())
        if self.groups is not None:
            object.__setattr__(self, "groups", [str(name) for name in self.groups])
            if len(self.groups) != len(logits):
                raise ValueError(f"`groups` must be as many as the samples: got {len(self.groups)} for {len(logits)}.")
        rows = self.file_rows
        if isinstance(rows, Tensor) and torch.equal(rows, torch.arange(len(logits))):
            object.__setattr__(self, "file_rows", None)
        self._check_spread()

    def _check_spread(self) -> None:
        """Refuse members or disagreement scores that do not match these samples."""
        n, k = self.logits.shape
        members, information = self.members, self.mutual_information
        if self.features is not None and len(self.features) != n:
            raise ValueError(f"`features` must have {n} rows, one for each sample, got {len(self.features)}.")
        if members is not None and (members.ndim != 3 or members.shape[1:] != (n, k) or len(members) == 0):
            raise ValueError(f"`members` must have shape (M, {n}, {k}), got {tuple(members.shape)}.")
        if information is not None and information.shape != (n,):
            raise ValueError(
                f"`mutual_information` must have shape ({n},), one for each sample, got {tuple(information.shape)}."
            )
        if members is not None and information is None:
            p = members.double()
            entropies = torch.special.entr(p).sum(dim=2).mean(dim=0)
            information = (torch.special.entr(p.mean(dim=0)).sum(dim=1) - entropies).clamp_min(0.0)
            object.__setattr__(self, "mutual_information", information)

    @classmethod
    def from_probabilities(cls, probabilities: Array, labels: Array | None = None, **about: Any) -> Self:
        """Predictions from (N, K) probabilities; ``about`` holds the other fields of the class."""
        labels, named = numbered(labels, probabilities, about.get("class_names"))
        about = {"class_names": named} | about
        checked = checks.probabilities(probabilities).cpu()
        logits = checked.to(torch.float64).clamp_min(TINY).log()
        return cls(
            logits, None if labels is None else checks.as_tensor(labels, "labels"), exact_probabilities=checked, **about
        )

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        name = f"{self.name}: " if self.name else ""
        unlabelled = ", no labels" if self.labels is None else ""
        return f"Predictions({name}{len(self)} samples, {self.num_classes} classes{unlabelled})"

    def _repr_html_(self) -> str:
        names = self.class_names or [f"class {k}" for k in range(self.num_classes)]
        shown = range(min(5, len(self)))
        winning, places = self.probabilities[: len(shown)].max(dim=1)
        rows = [
            [
                self.known_as[row] if self.known_as is not None else row,
                names[int(places[row])],
                f"{100 * float(winning[row]):.1f} %",
                "" if self.labels is None else names[int(self.labels[row])],
            ]
            for row in shown
        ]
        return notebooks.table(rows, head=["sample", "answer", "confidence", "label"], title=repr(self))

    @property
    def known_as(self) -> Tensor | list[str] | None:
        """What people call the samples: their ids, or the rows of their file where some were left out."""
        return self.file_rows if self.sample_ids is None else self.sample_ids

    @property
    def numbered_as(self) -> Tensor | list[str] | None:
        """The ids of the samples, or the rows of their one file: what images or texts elsewhere may be found by."""
        return self.known_as if self.sample_ids is not None or isinstance(self.file_rows, Tensor) else None

    @property
    def num_classes(self) -> int:
        """K."""
        return self.logits.shape[1]

    @cached_property
    def probabilities(self) -> Tensor:
        """(N, K) float64: the softmax of the logits, or the probabilities that were given."""
        if self.exact_probabilities is not None:
            return self.exact_probabilities.to(torch.float64)
        return self.logits.to(torch.float64).softmax(dim=1)

    @property
    def are_probabilities(self) -> bool:
        """Whether the source has probabilities rather than logits."""
        return self.exact_probabilities is not None

    @property
    def scores(self) -> Tensor:
        """(N, K) numbers as they came: probabilities if ``are_probabilities``, else logits."""
        return self.logits if self.exact_probabilities is None else self.exact_probabilities

    def calibrated(self, calibrator: "Calibrator") -> "Predictions":
        """The same samples with the float64 probabilities that a fitted calibrator computes from their scores.

        A calibrator of the same classes in another order gets its own order; the classes here keep theirs.

        Raises:
            SoftkinError: The calibrator does not accept such scores, or was fitted on other classes.
        """
        mine = self.in_order(calibrator.class_names_, "the calibrator")
        try:
            if self.are_pairs:
                one = calibrator.predict_proba(mine.probabilities[:, 1].contiguous(), from_probabilities=True)
                calibrated = torch.stack([1 - one, one], dim=1)
            else:
                beside: dict[str, Any] = {"features": mine.features} if calibrator.takes_features else {}
                given = mine.scores.double()
                stated = self.are_probabilities or None  # logits may have been meant as probabilities
                calibrated = calibrator.predict_proba(given, from_probabilities=stated, **beside)
        except ValueError as error:
            raise SoftkinError(f"{self.name or 'the predictions'}: {error}") from error
        if mine is not self:
            calibrated = calibrated[:, checks.class_order(mine.class_names, self.class_names, "")]
        by = f"{calibrator.in_words()} calibrator"
        logits = calibrated.clamp_min(TINY).log()
        return replace(self, logits=logits, exact_probabilities=calibrated, members=None, calibrated_by=by)

    def in_order(self, class_names: Sequence[str] | None, whose: str) -> "Predictions":
        """The predictions with their classes in the given order; themselves if that is theirs, or there are no names.

        Args:
            class_names: The classes, such as those of a calibrator or a rule.
            whose: Their owner, for errors, such as "the calibrator".

        Raises:
            SoftkinError: They are other classes.
        """
        refused = f"{self.name or 'the predictions'} must have the classes of {whose}, in any order, but"
        try:
            order = checks.class_order(self.class_names, class_names, refused)
        except ValueError as error:
            raise SoftkinError(str(error)) from error
        if order is None:
            return self
        exact, names = self.exact_probabilities, [] if class_names is None else list(class_names)
        return replace(
            self,
            logits=self.logits[:, order],
            labels=None if self.labels is None else order.argsort()[self.labels],
            class_names=names,
            exact_probabilities=None if exact is None else exact[:, order],
            members=None if self.members is None else self.members[:, :, order],
            votes=None if self.votes is None else self.votes[:, order],
        )

    @property
    def known_labels(self) -> Tensor:
        """The labels; raises an error if there are none."""
        if self.labels is None:
            raise ValueError(f"{self.name or 'the predictions'} must have labels for this, but have none.")
        return self.labels

    @property
    def claims(self) -> Claims:
        """The claims that metrics measure: of classes, of pairs, or against votes, with the weights of the rows."""
        return self.claims_of(self.probabilities)

    def claims_of(self, probabilities: Tensor) -> Claims:
        """The claims of other (N, K) probabilities about the same samples, such as those of a calibrator."""
        w = None if self.weights is None else self.weights * (len(self) / self.weights.sum())
        if self.are_pairs:
            outcome = self.known_labels.to(torch.float64)
            return Claims(probabilities[:, 1:].contiguous(), outcome[:, None], w, exclusive=False)
        return Claims(probabilities, self.known_labels if self.votes is None else self.votes, w)

    def arrays(self, probabilities: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores, labels and weights in the shapes that metrics and calibrators take.

        Of pairs these are (N,) confidences and booleans; with votes, labels are (N, K).

        Args:
            probabilities: Others about the same samples; by default their own ``scores``, in float64.
        """
        if self.are_pairs:
            p = self.probabilities if probabilities is None else probabilities
            return p[:, 1].contiguous(), self.known_labels == 1, self.weights
        labels = self.known_labels if self.votes is None else self.votes
        return self.scores.double() if probabilities is None else probabilities, labels, self.weights

    @cached_property
    def digest(self) -> str:
        """A digest of the content: equal for equal numbers and labels, in any file format."""
        hasher = sha256(b"pairs" if self.are_pairs else b"")
        for tensor in (self.scores, self.labels, self.votes, self.weights):
            if tensor is not None:
                hasher.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
                hasher.update(tensor.contiguous().numpy().data)
        return hasher.hexdigest()

    def take(self, rows: Tensor) -> "Predictions":
        """The selected samples, by index or by mask."""
        places = torch.arange(len(self))[rows]
        ids = self.sample_ids
        return replace(
            self,
            logits=self.logits[places],
            labels=None if self.labels is None else self.labels[places],
            sample_ids=_rows(ids, places),
            file_rows=_rows(self.file_rows, places),
            exact_probabilities=_rows(self.exact_probabilities, places),
            texts=None if self.texts is None else [self.texts[row] for row in places.tolist()],
            members=None if self.members is None else self.members[:, places],
            mutual_information=_rows(self.mutual_information, places),
            images=None if self.images is None else self.images[places.numpy()],
            features=_rows(self.features, places),
            votes=_rows(self.votes, places),
            weights=_rows(self.weights, places),
            groups=None if self.groups is None else [self.groups[row] for row in places.tolist()],
        )

    def save(
        self,
        path: str | Path,
        *,
        notes: Mapping[str, str] | None = None,
        overwrite: bool = False,
        force: bool = False,
    ) -> None:
        """Write an .npz, .safetensors, .csv or .tsv file atomically.

        The first two hold ``logits`` (or ``probs``, if probabilities were given), ``labels``, ``class_names``,
        ``sample_ids``, texts and checksums; for an ensemble they also hold ``mutual_information`` (N,) and, if kept,
        ``members`` (N, M, K). A .csv has one column per class (``probs_cat`` …), ``labels`` with class names if there
        are any, ``sample_ids`` and ``text``. With the note ``calibrated_by`` its columns are called
        ``calibrated_cat`` …; the note ``calibration`` stands in the first row of a column
        ``calibration_note``.

        Args:
            path: The file.
            notes: Texts to keep beside the numbers, such as how they were calibrated.
            overwrite: Replace an existing file.
            force: Like ``overwrite``, under the name that the command line uses.

        Raises:
            SoftkinError: The file exists and ``overwrite`` is not set, or it cannot be written.
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise ValueError(f"`path` must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, got {path.name!r}.")
        files.refuse_to_overwrite(path, force=overwrite or force)
        by = {} if self.calibrated_by is None else {"calibrated_by": self.calibrated_by}
        notes = by | dict(notes or {})
        if path.suffix in SEPARATORS:
            files.write(path, self._csv(notes, SEPARATORS[path.suffix]))
            return
        ids = self.sample_ids
        pairs = self.are_pairs
        tensors = {
            "confidence" if pairs else "probs" if self.are_probabilities else "logits": self._written_scores,
            "correct" if pairs else "labels": self.labels if self.votes is None else self.votes,
            "weights": self.weights,
            "sample_ids": ids if isinstance(ids, Tensor) else None,
            "mutual_information": self.mutual_information,
            "members": None if self.members is None else self.members.transpose(0, 1).contiguous(),
        }
        about = {
            "class_names": None if pairs else self.class_names,
            "sample_ids": ids if isinstance(ids, list) else None,
            "split_digest": self.split_digest,
            "name": self.name,
            "texts": self.texts,
            "groups": self.groups,
            **notes,
        }
        held = {key: tensor for key, tensor in tensors.items() if tensor is not None}
        known = {key: text for key, text in about.items() if text is not None}
        files.write(path, _npz(held, known) if path.suffix == ".npz" else bundles.encoded(known, held))

    @property
    def _written_scores(self) -> Tensor:
        """The scores as files hold them: of pairs the confidences (N,)."""
        if not self.are_pairs:
            return self.scores
        return self.probabilities[:, 1].contiguous()

    def _csv(self, notes: Mapping[str, str], separator: str) -> str:
        """The content of a .csv file; every number is written so that it is read back exactly."""
        names = self.class_names or [str(k) for k in range(self.num_classes)]
        kind = "probs_" if self.are_probabilities else "logits_"
        kind, single = (roles.CALIBRATED, roles.CALIBRATED_PAIR) if "calibrated_by" in notes else (kind, "confidence")
        if self.votes is not None:
            raise ValueError("a .csv file has no room for votes; write an .npz or .safetensors file.")
        table: dict[str, Any] = {}
        if self.groups is not None:
            table["group"] = [escape.csv_cell(name) for name in self.groups]
        if self.weights is not None:
            table["weight"] = [repr(weight) for weight in self.weights.tolist()]
        if self.sample_ids is not None:
            table["sample_ids"] = [escape.csv_cell(str(known_as)) for known_as in _plain(self.sample_ids)]
        if self.texts is not None:
            table["text"] = [escape.csv_cell(text) for text in self.texts]
        if self.labels is not None and self.are_pairs:
            table["correct"] = [str(label) for label in self.labels.tolist()]
        elif self.labels is not None:
            table["labels"] = [escape.csv_cell(names[label]) for label in self.labels.tolist()]
        last: dict[str, Any] = {}
        if "calibration" in notes:
            last[roles.CALIBRATION] = [escape.csv_cell(notes["calibration"]), *[""] * (len(self) - 1)]
        buffer = io.StringIO()
        rows = csv.writer(buffer, delimiter=separator, lineterminator="\n")
        rows.writerow([*table, *([single] if self.are_pairs else [f"{kind}{name}" for name in names]), *last])
        written = self._written_scores.view(len(self), -1).tolist()
        behind = zip(*last.values(), strict=True) if last else [()] * len(self)
        for *beside, scores, note in zip(*table.values(), written, behind, strict=True):
            rows.writerow([*beside, *map(repr, scores), *note])
        return buffer.getvalue()


def _shares(votes: Tensor, shape: Sequence[int]) -> Tensor:
    """(N, K) shares of votes, from shares or numbers of them."""
    v = checks.as_tensor(votes, "labels").to("cpu", torch.float64)
    if tuple(v.shape) != tuple(shape):
        raise ValueError(f"`labels` of votes must have the shape of the scores, {tuple(shape)}, got {tuple(v.shape)}.")
    if not bool(torch.isfinite(v).all()) or bool((v < 0).any()) or not bool((v.sum(dim=1) > 0).all()):
        raise ValueError("`labels` must hold at least one vote in each row, and no negative ones.")
    return v / v.sum(dim=1, keepdim=True)


def save(
    path: str | Path,
    predictions: Predictions,
    *,
    notes: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write predictions to a file; a function form of ``Predictions.save`` to match ``load``."""
    predictions.save(path, notes=notes, overwrite=overwrite)


def _npz(tensors: Mapping[str, Tensor], texts: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    arrays = {key: tensor.numpy() for key, tensor in tensors.items()}
    arrays |= {key: np.array(content) for key, content in texts.items() if key != "texts"}
    if "texts" in texts:  # an array of text would pad each text to the longest
        arrays["texts_json"] = np.frombuffer(json.dumps(texts["texts"], ensure_ascii=False).encode(), dtype=np.uint8)
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _plain(values: Tensor | list[str]) -> list[Any]:
    return values.tolist() if isinstance(values, Tensor) else values


def _texts(texts: Any, num_samples: int) -> list[str]:
    """Texts, one for each sample."""
    known = list(texts)
    if len(known) != num_samples:
        raise ValueError(f"`texts` must be as many as the samples: got {len(known)} for {num_samples} samples.")
    wrong = next((text for text in known if not isinstance(text, str)), None)
    if wrong is not None:
        raise TypeError(f"`texts` must hold text, got {wrong!r:.50}.")
    return known


def _rows(values: Any, places: Tensor) -> Any:
    if isinstance(values, list):
        return [values[row] for row in places.tolist()]
    return None if values is None else values[places]


def _ids(ids: Any, num_samples: int) -> Tensor | list[str]:
    """Sample ids as int64 or as texts, one for each sample."""
    if isinstance(ids, np.ndarray | Tensor):
        ids = ids.tolist()
    known: list[Any] = list(ids)
    if len(known) != num_samples:
        raise ValueError(f"`sample_ids` must be as many as the samples: got {len(known)} for {num_samples} samples.")
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        return torch.tensor(known, dtype=torch.int64)
    if not all(isinstance(value, str) for value in known):
        raise TypeError("`sample_ids` must be whole numbers or texts, all of one kind.")
    return known
