"""Files: written whole or not at all, known by their digests, never overwritten unasked; numbers as JSON has them."""

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from softkin import SoftkinError


def write(path: str | Path, content: bytes | str) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one.

    Raises:
        SoftkinError: The file cannot be written.
    """
    path = Path(path)
    if isinstance(content, str):
        content = content.encode("utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's own mode lets nobody else read it
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power, where the system lets a folder be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def refuse_to_overwrite(*paths: str | Path, force: bool = False) -> None:
    """Refuse if one of ``paths`` exists, unless ``force`` is set; call it before any work starts.

    Raises:
        SoftkinError: One of them is there.
    """
    for path in paths:
        if not force and os.path.lexists(path):
            raise SoftkinError(f"{path} exists already; pass force=True (--force) to overwrite it.")


# Digests


def sha256(content: Any) -> str:
    """The hexadecimal SHA-256 of bytes, or of anything that exposes them as a contiguous buffer."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(path: Path) -> str:
    """The same of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(data: Any) -> str:
    """The same of plain data, whatever the order of their keys."""
    return sha256(canonical_json(data))


# JSON


def canonical_json(data: Any) -> bytes:
    """Plain data as the one sequence of bytes that equal data share: sorted keys, ASCII, no spaces."""
    return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def write_json(path: str | Path, data: Any, *, indent: int | None = 1) -> None:
    """Write plain data as JSON, atomically; NaN and infinity are refused, see ``number``."""
    write(path, json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


def number(value: float, digits: int | None = None) -> float | str | None:
    """A float as softkin's JSON has it: None for NaN, the texts "Infinity" and "-Infinity", which JavaScript reads too.

    Example:
        >>> number(0.123456, 3), number(float("inf")), number(float("nan"))
        (0.123, 'Infinity', None)
    """
    value = float(value)
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value if digits is None else round(value, digits)


LEGACY_INFINITY = 1.7e308  # stood for an infinite NLL in the records of studies before 0.1


def from_number(value: float | str | None) -> float:
    """The float that ``number`` wrote.

    Example:
        >>> from_number("Infinity"), from_number(None)
        (inf, nan)
    """
    if value is None:
        return math.nan
    value = float(value)
    return math.inf if value >= LEGACY_INFINITY else value
