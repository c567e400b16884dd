"""A study's folder: one folder a run, named by the digest of its spec, and a record that says that it is done.

::

    study.json               the study, and the digest of its data
    runs/<digest>/           what a run left: predictions, distances …
    runs/<digest>/record.json    written last; names every file with its SHA-256, and carries one of its own
    claims/                  who works on what, see softkin.study.claims
    damaged/                 runs that were found damaged, set aside

A run without a whole record is not done. Nothing is trusted: a record counts if its own checksum and those of all its
files are right.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from softkin import SoftkinError, files
from softkin.study.spec import StudySpec, canonical

FORMAT = 1
RECORD = "record.json"
FAILURE = "failure.json"
STUDY = "study.json"

Record = dict[str, Any]
State = Literal["done", "damaged", "absent"]


class Records:
    """The runs in a study's folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._whole: dict[str, tuple[int, Record]] = {}

    def path(self, digest: str) -> Path:
        """Where a run's files are."""
        return self.folder / "runs" / digest

    def find(self, digest: str) -> Record | None:
        """A run's record, if the run is done and all of it is whole."""
        path = self.path(digest) / RECORD
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._whole.get(digest)
        if known is not None and known[0] == changed:
            return known[1]
        if damage(self.path(digest)) is not None:
            return None
        record: Record = json.loads(path.read_bytes())
        self._whole[digest] = changed, record
        return record

    def known(self) -> set[str]:
        """The runs whose records this object has found whole."""
        return set(self._whole)

    def state(self, digest: str) -> State:
        """Whether a run is done."""
        if self.find(digest) is not None:
            return "done"
        return "damaged" if (self.path(digest) / RECORD).exists() else "absent"

    def commit(self, digest: str, record: Record, names: list[str]) -> None:
        """Write the record of a run whose files lie in its folder: from here on the run is done."""
        folder = self.path(digest)
        body = {**record, "format": FORMAT, "digest": digest, "files": {name: _sha(folder / name) for name in names}}
        _sync(folder)  # the names of its files, before the record that counts on them
        content = {**body, "checksum": hashlib.sha256(canonical(body)).hexdigest()}
        files.write(folder / RECORD, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode())
        _sync(folder)
        (folder / FAILURE).unlink(missing_ok=True)

    def set_aside(self, digest: str) -> Path:
        """Move a damaged run out of the way; only for who has claimed it."""
        aside = self.folder / "damaged"
        aside.mkdir(parents=True, exist_ok=True)
        number = 1
        while (aside / f"{digest}-{number}").exists():
            number += 1
        os.rename(self.path(digest), aside / f"{digest}-{number}")
        return aside / f"{digest}-{number}"

    def fail(self, digest: str, title: str, reason: str) -> None:
        """Note why a run could not be done; the next start of the study tries again."""
        content = json.dumps({"title": title, "reason": " ".join(reason.split())}, ensure_ascii=False).encode()
        files.write(self.path(digest) / FAILURE, content)

    def failure(self, digest: str) -> str | None:
        """Why a run failed, if it did."""
        try:
            return str(json.loads((self.path(digest) / FAILURE).read_bytes())["reason"])
        except OSError:
            return None
        except (ValueError, KeyError, TypeError):
            return "its note of the failure is damaged"

    def forgive(self, digest: str) -> None:
        """Forget a failure, so that the run is tried again."""
        (self.path(digest) / FAILURE).unlink(missing_ok=True)


def damage(folder: Path) -> str | None:
    """What is wrong with a run's folder, None if it is whole."""
    try:
        content = json.loads((folder / RECORD).read_bytes())
        checksum = content.pop("checksum")
        if hashlib.sha256(canonical(content)).hexdigest() != checksum:
            return f"{RECORD} is not what was written"
        for name, digest in content["files"].items():
            if _sha(folder / name) != digest:
                return f"{name} is not what was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{RECORD} or a file that it names cannot be read ({error})"
    return None


def _sha(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    """Make the names in a folder last through a loss of power, where the system lets a folder be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        pass


@dataclass(frozen=True)
class Kept:
    """What ``study.json`` holds."""

    spec: StudySpec
    """With everything that the data decided filled in"""
    data: dict[str, Any]
    """Source in words, digest, kind, rows and classes; ``contents`` as below"""

    @property
    def contents(self) -> dict[str, str]:
        """Digests of whatever else is read from files: word vectors, out-of-distribution sets."""
        found: dict[str, str] = self.data.get("contents", {})
        return found


def keep(folder: Path, kept: Kept, *, force: bool = False) -> None:
    """Write ``study.json``, or find that the folder holds this very study.

    Raises:
        SoftkinError: The folder holds another study, or other things; nothing was touched.
    """
    path = folder / STUDY
    if path.exists():
        try:
            old: Kept | None = kept_in(folder)
        except SoftkinError:  # damaged: its runs are still good, as each names its own spec
            old = None
        if old is not None and old.spec == kept.spec and _same_files(old, kept):
            return
        if old is not None and not force:
            if old.spec == kept.spec:
                raise SoftkinError(
                    f"{folder} holds this study for other data: {_changed(old, kept)} has changed since; "
                    "choose another folder, or pass force (--force) to go on with the new data."
                )
            raise SoftkinError(
                f"{folder} holds another study ({_difference(old.spec, kept.spec)}); choose another folder, or pass "
                "force (--force) to replace it, which keeps the runs that both have."
            )
    elif folder.exists() and not folder.is_dir():
        raise SoftkinError(f"{folder} must be a folder, but it is a file.")
    elif folder.exists() and any(folder.iterdir()) and not force:
        raise SoftkinError(f"{folder} holds other things and no study; choose another folder, or pass force (--force).")
    content = {"format": FORMAT, "spec": kept.spec.to_dict(), "digest": kept.spec.digest, "data": kept.data}
    files.write(path, json.dumps(content, indent=1, ensure_ascii=False).encode())


def kept_in(folder: str | Path) -> Kept:
    """The study that a folder holds."""
    path = Path(folder) / STUDY
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise SoftkinError(
                f"{path} has format {content['format']}, and this softkin reads {FORMAT}; update softkin."
            )
        return Kept(StudySpec.from_dict(content["spec"]), dict(content["data"]))
    except FileNotFoundError:
        raise SoftkinError(f"{folder} holds no study: there is no {STUDY}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SoftkinError(f"{path} is not a study that softkin wrote, or it is damaged ({error}).") from error


def _same_files(old: Kept, new: Kept) -> bool:
    return bool(old.data["digest"] == new.data["digest"] and old.contents == new.contents)


def _changed(old: Kept, new: Kept) -> str:
    if old.data["digest"] != new.data["digest"]:
        return str(new.data["source"])
    before, now = old.contents, new.contents
    name = next(name for name in (*now, *before) if before.get(name) != now.get(name))
    return str(new.spec.vectors) if name == "vectors" else name.removeprefix("ood ")


def _difference(old: StudySpec, new: StudySpec) -> str:
    """The first few fields in which two studies differ."""
    a, b = old.to_dict(), new.to_dict()
    different = [f"{key} {_short(a[key])} there, {_short(b[key])} here" for key in a if a[key] != b[key]]
    return "; ".join(different[:3]) + (" …" if len(different) > 3 else "")


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def remove(folder: Path) -> None:
    """Delete a folder of intermediate files, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)
