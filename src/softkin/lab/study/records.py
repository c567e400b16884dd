"""A study's folder: one folder for each run, named by the digest of its spec, with a record that marks it as done.

::

    study.json               the study, and the digest of its data
    runs/<digest>/           the files of a run: predictions, distances …
    runs/<digest>/record.json    written last; names every file with its SHA-256, and carries one of its own
    claims/                  which process holds which run, see softkin.lab.study.claims
    damaged/                 runs that were found damaged, set aside

A run without a whole record is not done. Nothing is trusted: a record counts if its own checksum and those of all its
files are right.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NotRequired, TypedDict, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from softkin import SoftkinError
from softkin._io import bundles, files
from softkin._io.files import Plain
from softkin.lab import models
from softkin.lab.study.claims import create
from softkin.lab.study.spec import StudySpec
from softkin.lab.training.declaration import Value
from softkin.lab.training.recipe import Recipe
from softkin.lab.training.training_run import Cost, TrainingData
from softkin.metrics.measurement import Measured, MeasuredData

FORMAT = 2
RECORD = "record.json"
FAILURE = "failure.json"
STUDY = "study.json"


class Described(TypedDict):
    """What a record of every kind says of its run; ``Records.commit`` adds the digest and those of its files."""

    title: str
    spec: dict[str, Any]
    softkin: str
    versions: dict[str, str]
    device: str
    threads: int
    host: str
    pid: int
    seconds: Plain
    processor_seconds: NotRequired[Plain]
    format: NotRequired[int]
    digest: NotRequired[str]
    files: NotRequired[dict[str, str]]


class DistancesRecord(Described):
    """The record of class distances."""

    kind: Literal["distances"]
    split_digest: str | None
    autoencoder: NotRequired[dict[str, Any]]


class TrainingRecord(Described, TrainingData):
    """The record of a training."""

    kind: Literal["training"]
    metrics: dict[str, MeasuredData]
    """On the validation rows"""
    refined_nll: NotRequired[Plain]


class Tried(TypedDict):
    """A set of values that was tried, and how it did on the validation rows."""

    run: str
    values: dict[str, Value]
    epochs: int
    validation: dict[str, MeasuredData] | None


class TriedRecipe(TypedDict):
    """A value of a field of the recipe that was tried."""

    run: str
    field: str
    value: float
    refined_nll: Plain


class TunedRecipe(TypedDict):
    """The fields of the recipe that were searched: what was chosen and tried, and what it gained."""

    chosen: dict[str, Any]
    tried: list[TriedRecipe]
    gain: NotRequired[Plain]


class ResultRecord(Described):
    """The record of one method on one seed."""

    kind: Literal["result"]
    seed: int
    method: str
    chosen: str
    """The digest of the training"""
    predictions: str
    """The digest of the run whose predictions are measured: the training, or this one if it calibrates"""
    values: dict[str, Value]
    found: NotRequired[dict[str, float]]
    recipe: NotRequired[TunedRecipe]
    tried: list[Tried]
    data_digest: str | None
    split_digest: str | None
    effective_target: str
    cost: Cost | None
    metrics: dict[str, MeasuredData]
    """On the test rows"""
    ood: list[str]


Record = DistancesRecord | TrainingRecord | ResultRecord
KINDS: dict[str, Any] = {"distances": DistancesRecord, "training": TrainingRecord, "result": ResultRecord}
State = Literal["done", "damaged", "absent"]


class Records:
    """The runs in a study's folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._whole: dict[str, tuple[int, Record]] = {}

    def path(self, digest: str) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / digest

    def find(self, digest: str) -> Record | None:
        """A run's record, if the run is done and undamaged."""
        path = self.path(digest) / RECORD
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._whole.get(digest)
        if known is not None and known[0] == changed:
            return known[1]
        try:
            record = read(self.path(digest))
        except SoftkinError:
            return None
        self._whole[digest] = changed, record
        return record

    def training(self, digest: str) -> TrainingRecord | None:
        """The record of a training, if it is done and undamaged."""
        record = self.find(digest)
        return record if record is not None and record["kind"] == "training" else None

    def result(self, digest: str) -> ResultRecord | None:
        """The record of a result, if it is done and undamaged."""
        record = self.find(digest)
        return record if record is not None and record["kind"] == "result" else None

    def known(self) -> set[str]:
        """The runs whose records this object has verified."""
        return set(self._whole)

    def state(self, digest: str) -> State:
        """Whether a run is done."""
        if self.find(digest) is not None:
            return "done"
        return "damaged" if (self.path(digest) / RECORD).exists() else "absent"

    def commit(self, digest: str, record: Record, names: list[str]) -> None:
        """Write the record of a run whose files are in its folder, which marks the run as done."""
        folder = self.path(digest)
        hashes = {name: files.sha256_of_file(folder / name) for name in names}
        body = files.plain({**record, "format": FORMAT, "digest": digest, "files": hashes})
        files.sync_folder(folder)  # sync the file names before writing the record that lists them
        files.write_json(folder / RECORD, bundles.sealed(body))
        files.sync_folder(folder)
        (folder / FAILURE).unlink(missing_ok=True)

    def set_aside(self, digest: str) -> Path:
        """Move a damaged run out of the way; only the holder of its claim may call this."""
        aside = self.folder / "damaged"
        aside.mkdir(parents=True, exist_ok=True)
        number = 1
        while (aside / f"{digest}-{number}").exists():
            number += 1
        os.rename(self.path(digest), aside / f"{digest}-{number}")
        return aside / f"{digest}-{number}"

    def fail(self, digest: str, title: str, reason: str) -> None:
        """Record why a run failed; the next start of the study tries it again."""
        files.write_json(self.path(digest) / FAILURE, {"title": title, "reason": " ".join(reason.split())})

    def failure(self, digest: str) -> str | None:
        """Why a run failed, if it did."""
        path = self.path(digest) / FAILURE
        if not path.exists():
            return None
        try:
            return str(files.read_json(path, "a note of a failure")["reason"])
        except (SoftkinError, KeyError, TypeError):
            return None if not path.exists() else "its note of the failure is damaged"

    def forgive(self, digest: str) -> None:
        """Forget a failure, so that the run is tried again."""
        (self.path(digest) / FAILURE).unlink(missing_ok=True)


def read(folder: Path) -> Record:
    """The record of a run, verified together with all files that it names.

    Raises:
        SoftkinError: A file of the run differs from what was written.
    """
    path = folder / RECORD
    record = cast(Record, bundles.read_sealed(path, "the record of a run"))
    with files.reading(path, "the record of a run"):
        _check_fields(record, path)
        for name, digest in record["files"].items():
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise SoftkinError(f"{path} must name files of its own folder, got {name[:100]!r}.")
            if files.sha256_of_file(folder / name) != digest:
                raise SoftkinError(f"{folder / name} is not what was written.")
        if record["kind"] != "distances":
            measured(record)  # refuses other forms
    return record


def _check_fields(record: Record, path: Path) -> None:
    """Refuse a record without the fields of its kind: whoever writes a record can write its checksum, too."""
    kind = KINDS[record["kind"]]
    for name, form in get_type_hints(kind).items():
        if (name in record or name in kind.__required_keys__) and not _fits(record[name], form):  # type: ignore[literal-required]
            raise SoftkinError(f"{path} has a field {name!r} of another type than a record's.")
    if record["kind"] == "result":
        for run in (record["chosen"], record["predictions"]):
            if Path(run).name != run:
                raise SoftkinError(f"{path} must name runs of its own study, got {run[:100]!r}.")


def _fits(value: object, form: Any) -> bool:
    """Whether a value that was read has the outer form of a type; what is in lists and mappings is not looked at."""
    outer = get_origin(form) or form
    if outer in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(form))
    if outer is Literal:
        return value in get_args(form)
    if outer is float:
        return isinstance(value, float | int)
    return isinstance(value, dict if is_typeddict(outer) else outer)


def measured(record: TrainingRecord | ResultRecord) -> dict[str, Measured]:
    """The metrics of a record, by key."""
    return {key: Measured.from_dict(plain) for key, plain in record["metrics"].items()}


@dataclass(frozen=True)
class Kept:
    """The content of ``study.json``."""

    spec: StudySpec
    """The spec, with all fields that depend on the data filled in"""
    data: dict[str, Any]
    """Source in words, digest, kind, rows and classes; ``contents`` as below"""

    @property
    def contents(self) -> dict[str, str]:
        """Digests of other inputs read from files: word vectors, out-of-distribution sets."""
        digests: dict[str, str] = self.data.get("contents", {})
        return digests


def keep(folder: Path, kept: Kept, *, force: bool = False) -> None:
    """Write ``study.json``, or verify that the folder holds this very study.

    Several processes may do this at once: one of them creates the file, the others find it.

    Raises:
        SoftkinError: The folder holds another study or other files; nothing was changed.
    """
    path = folder / STUDY
    files.refuse_links_out(folder)
    body = {"format": FORMAT, "spec": kept.spec.to_dict(), "digest": kept.spec.digest, "data": kept.data}
    content = bundles.sealed(body)
    if folder.exists() and not folder.is_dir():
        raise SoftkinError(f"{folder} must be a folder, but it is a file.")
    if not force and not os.path.lexists(path):
        # study.json is written first: a folder that holds other files of a study has it too.
        if _other_things(folder) and not os.path.lexists(path):
            raise SoftkinError(
                f"{folder} holds other files and no study; choose another folder, or pass force=True (--force)."
            )
        if not os.path.lexists(path):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if create(path, files.json_bytes(content), sync=True):
                    return
            except OSError as error:
                raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error
    try:
        old: Kept | None = kept_in(folder) if os.path.lexists(path) else None
    except SoftkinError as error:
        if not force:
            raise SoftkinError(
                f"{str(error).rstrip('.')}; choose another folder, or pass force=True (--force) to put this study "
                "there: the runs that both have are kept."
            ) from error
        old = None
    if old is not None and old.spec == kept.spec and _same_files(old, kept):
        return
    if old is not None and not force:
        if old.spec == kept.spec:
            raise SoftkinError(
                f"{folder} holds this study for other data: {_changed(old, kept)} has changed since; "
                "choose another folder, or pass force=True (--force) to go on with the new data."
            )
        raise SoftkinError(
            f"{folder} holds another study ({_difference(old.spec, kept.spec)}); choose another folder, or pass "
            "force=True (--force) to replace it, which keeps the runs that both have."
        )
    files.write_json(path, content)


def _other_things(folder: Path) -> bool:
    """Whether a folder holds anything but a ``study.json`` that another process is about to write."""
    try:
        return any(not name.startswith(f".{STUDY}") for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def kept_in(folder: str | Path) -> Kept:
    """The study that a folder holds.

    Raises:
        SoftkinError: There is no study, it is damaged, or a newer softkin wrote it.
    """
    path = Path(folder) / STUDY
    if not os.path.lexists(path):
        raise SoftkinError(f"{folder} holds no study: there is no {STUDY}.")
    content = bundles.read_sealed(path, "a study that softkin wrote")
    with files.reading(path, "a study that softkin wrote"):
        written = content["format"]
        if written != FORMAT:
            raise SoftkinError(f"{path} has format {written!r}, and this softkin reads {FORMAT}; update softkin.")
        data = dict(content["data"])
        for key in ("source", "digest", "kind", "classes", "rows"):
            data[key]
        dict(data.get("contents", {}))
        kept = Kept(StudySpec.from_dict(content["spec"]), data)
        int(kept.spec.recipe["epochs"])
        Recipe.from_dict(kept.spec.recipe)
        return kept


def require_trusted_model(folder: Path, kept: Kept, trust_model: str | Sequence[str]) -> None:
    """Refuse a study whose network is custom code, unless the caller names it: the folder may come from anywhere."""
    if kept.spec.model is not None:
        models.require_trust(kept.spec.model, trust_model, where=f"the study in {folder}")


def _same_files(old: Kept, new: Kept) -> bool:
    return bool(old.data["digest"] == new.data["digest"] and old.contents == new.contents)


def _changed(old: Kept, new: Kept) -> str:
    if old.data["digest"] != new.data["digest"]:
        return str(new.data["source"])
    before, now = old.contents, new.contents
    name = next(name for name in (*now, *before) if before.get(name) != now.get(name))
    if name == "vectors":
        return new.spec.vectors or "the file of word vectors that softkin ships"
    if name.startswith("source "):
        return str(new.spec.sources.get(name.removeprefix("source "), name))
    if name.startswith("own "):
        return f"the {name.removeprefix('own ')} that comes with {new.data['source']}"
    return name.removeprefix("ood ")


def _difference(old: StudySpec, new: StudySpec) -> str:
    """The first few fields in which two studies differ."""
    a, b = old.to_dict(), new.to_dict()
    keys = [key for key in {**a, **b} if a.get(key) != b.get(key)]
    different = [f"{key} {_short(a.get(key))} there, {_short(b.get(key))} here" for key in keys]
    return "; ".join(different[:3]) + (" …" if len(different) > 3 else "")


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def remove(folder: Path) -> None:
    """Delete a folder of intermediate files, if it exists."""
    shutil.rmtree(folder, ignore_errors=True)
