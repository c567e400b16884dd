"""Write files atomically, read them through one set of checks, identify them by digests, and encode JSON numbers.

Every reader in softkin opens its file with ``open_file`` or checks it with ``require_regular``, and parses it inside
``reading``, which turns any parser's exception into one line that names the file. The size that a file declares is
checked against ``limit`` before anything is read.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from softkin import SoftkinError
from softkin._core.assumption import Assumption as Assumption
from softkin._io import turns

if TYPE_CHECKING:
    from zipfile import ZipFile

# Writing

DEEPEST = 2  # levels of folders in which softkin writes: study/runs/<digest>/checkpoints


def write(path: str | Path, content: bytes | str) -> None:
    """Write a file atomically: a crash at any moment leaves the old file or the new one.

    A link to a file in its own folder or below stays a link: its target is replaced. A link out of its folder is
    refused, as the folder may be somebody else's. Only regular files are ever replaced.

    Raises:
        SoftkinError: The file cannot be written, or its name belongs to something other than a file.
    """
    write_together({Path(path): content})


def write_together(contents: Mapping[Path, bytes | str]) -> None:
    """Write several files of one result: all are synced before the first gets its name.

    A full or failing disk leaves the old files and no new one. The files get their names in the order of ``contents``:
    if the last one exists, the others do too, also after a crash. Two processes that write to one folder take turns, so
    that the files of both are never mixed; ``turns.unwritten`` lets readers wait for them.

    Raises:
        SoftkinError: A file cannot be written, or its name belongs to something other than a file.
    """
    with contextlib.ExitStack() as alone:
        if len(contents) > 1:
            for folder in sorted({replaceable(path).parent for path in contents}):
                alone.enter_context(turns.in_turn(folder))
        _write_all(contents)


def _write_all(contents: Mapping[Path, bytes | str]) -> None:
    temporaries: dict[Path, str] = {}
    try:
        for path, content in contents.items():
            target = replaceable(path)
            if _unchanged(target, content):
                continue
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                turns.sweep_once(target.parent)
                temporaries[target] = _write_beside(target, content)
            except OSError as error:
                raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error
        for target in list(temporaries):
            try:
                os.replace(temporaries[target], target)
            except OSError as error:
                raise SoftkinError(f"{target} could not be written: {error.strerror or error}.") from error
            del temporaries[target]
    finally:
        for temporary in temporaries.values():
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def replaceable(path: Path) -> Path:
    """The file to write: ``path``, or the target of its link if that is in the same folder or below.

    Raises:
        SoftkinError: The name belongs to something other than a file, or to a link out of its folder or to nothing.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise SoftkinError(
                f"{path} could not be written: it is a link to {os.readlink(path)}, where there is no file; "
                "name that file, or delete the link."
            ) from None
        broken = next((folder for folder in path.parents if folder.is_symlink() and not folder.exists()), None)
        if broken is not None:
            raise SoftkinError(
                f"{path} could not be written: {broken} is a link to {os.readlink(broken)}, where there is no folder; "
                "make that folder, or delete the link."
            ) from None
        return path
    except OSError as error:
        raise SoftkinError(f"{path} could not be written: {error.strerror or error}.") from error
    if not stat.S_ISREG(mode):
        raise SoftkinError(f"{path} could not be written: it is {_in_words(mode)}, and only files are replaced.")
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(os.path.realpath(path.parent)):
        raise SoftkinError(
            f"{path} could not be written: it is a link out of its folder, to {target}; name that file, or delete the "
            "link."
        )
    return target


def refuse_links_out(folder: Path) -> None:
    """Refuse a folder of results in which a folder is a link to somewhere else, where files would be written.

    The folder itself may be a link, as the user named it.

    Raises:
        SoftkinError: A folder inside is a link out of ``folder``.
    """
    own = os.path.realpath(folder)
    for parent, names, _ in os.walk(own):
        for path in [Path(parent, name) for name in names]:
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(own):
                raise SoftkinError(
                    f"{path} must be a folder, but it is a link out of {folder}, to {os.path.realpath(path)}; delete "
                    "the link."
                )
        if len(Path(parent).relative_to(own).parts) >= DEEPEST:
            names.clear()


def _write_beside(target: Path, content: bytes | str) -> str:
    """The name of a new synced file beside ``target`` that holds ``content``."""
    rest = memoryview(content.encode("utf-8") if isinstance(content, str) else content).cast("B")
    temporary = os.path.join(target.parent, turns.unfinished_name(target.name))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666)  # reduced by the user's umask
    try:
        try:
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure, if the system can sync folders."""
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


def refuse_to_overwrite(*paths: str | Path | None, force: bool = False) -> None:
    """Refuse if one of ``paths`` exists, unless ``force`` is set; call it before any work starts.

    Raises:
        SoftkinError: A path exists, or cannot be replaced.
    """
    for path in paths:
        if path is None:
            continue
        if not force and os.path.lexists(path) and Path(path).resolve() not in _GUARDED:
            raise Exists(f"{path} exists already; pass force=True to overwrite it.")
        replaceable(Path(path))


class Exists(SoftkinError, ValueError):
    """A file that exists would be overwritten."""


_GUARDED: dict[Path, bool] = {}
"""Files that may be written again with the content that they have; whether that has happened"""
_OUTPUTS: list[Path] = []
_RELEASED: list[Path] = []


def guard(*paths: str | Path | None, force: bool = False) -> None:
    """Allow to write existing files only with the content that they have, until ``unguard``; with ``force`` any.

    A command that is repeated then says that nothing changed. Call it before any work starts; ``guarded`` and
    ``outputs`` say what was named.

    Raises:
        SoftkinError: A path cannot be replaced.
    """
    for path in paths:
        if path is None:
            continue
        replaceable(Path(path))
        _OUTPUTS.append(Path(path))
        if not force and os.path.lexists(path):
            _GUARDED[Path(path).resolve()] = False


def outputs() -> tuple[Path, ...]:
    """All files that were named to ``guard``, whether they exist or not."""
    return tuple(_OUTPUTS)


def guarded() -> tuple[Path, ...]:
    """The files among them that may only be written with the content that they have."""
    return tuple(path for path in _OUTPUTS if path.resolve() in _GUARDED)


def release() -> None:
    """Allow to write the guarded files with any content: they come from the same command, whose seconds may differ."""
    _RELEASED.extend(_GUARDED)


def unguard() -> None:
    """Forget all guarded files."""
    _RELEASED.clear()
    _GUARDED.clear()
    _OUTPUTS.clear()


def was_same(path: str | Path) -> bool:
    """Whether a guarded file was to be written with the content that it has."""
    return _GUARDED.get(Path(path).resolve(), False)


def _unchanged(path: Path, content: bytes | str) -> bool:
    """Whether a guarded file has this content.

    Raises:
        SoftkinError: It is guarded and has another content.
    """
    if path.resolve() not in _GUARDED:
        return False
    if path.read_bytes() != (content.encode() if isinstance(content, str) else content):
        if path.resolve() in _RELEASED:
            return False
        raise Exists(f"{path} exists already with another content; pass force=True to overwrite it.")
    _GUARDED[path.resolve()] = True
    return True


# Reading


def expanded(path: str | Path) -> Path:
    """A path with the user's home for ``~``, or as it is where there is no home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


@contextlib.contextmanager
def reading(path: str | Path, what: str, *, hint: str = "") -> Iterator[None]:
    """Turn any exception of a parser inside the block into one line that names the file.

    Args:
        path: The file, or its name in messages.
        what: The expected content, such as "a class matrix".
        hint: Advice for the end of the sentence, such as "make it again".

    Raises:
        SoftkinError: Replaces any exception other than KeyboardInterrupt and the like.
    """
    ending = f"; {hint}{'' if hint.endswith('?') else '.'}" if hint else "."
    try:
        yield
    except (SoftkinError, Assumption):
        raise
    except FileNotFoundError as error:
        raise SoftkinError(f"{path} could not be read: there is no such file{ending}") from error
    except MemoryError as error:
        raise SoftkinError(f"{path} could not be read as {what}: it needs more memory than there is{ending}") from error
    except RecursionError as error:
        raise SoftkinError(f"{path} could not be read as {what}: it is nested too deeply{ending}") from error
    except BaseException as error:
        panic = type(error).__name__ == "PanicException"  # raised by parsers written in Rust; not an Exception
        if not isinstance(error, Exception) and not panic:
            raise
        if isinstance(error, OSError) and error.errno is not None and error.strerror:
            raise SoftkinError(f"{path} could not be read: {error.strerror}{ending}") from error
        raise SoftkinError(f"{path} could not be read as {what}, or it is damaged: {cause(error)}{ending}") from error


@contextlib.contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Add the file's name to errors of checks inside the block about values in the file.

    Raises:
        SoftkinError: Replaces ValueError, TypeError and SoftkinError.
    """
    try:
        yield
    except (SoftkinError, ValueError, TypeError) as error:
        raise SoftkinError(f"{path}: {error}") from error


LONGEST_CAUSE = 500  # characters: softkin's longest sentence lists every method of a study


def cause(error: BaseException) -> str:
    r"""A library's error as one line of printable text, without its full stop and shortened if very long.

    Example:
        >>> cause(ValueError("no such shape.\nTraceback …"))
        'no such shape'
        >>> cause(KeyError("labels"))
        "it lacks 'labels'"
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = str(SoftkinError(lines[0])) if lines else type(error).__name__
    text = text if len(text) <= LONGEST_CAUSE else f"{text[: LONGEST_CAUSE - 1]}…"
    return f"it lacks {text}" if isinstance(error, KeyError) and lines else text.rstrip(".")


def require_regular(path: str | Path) -> int:
    """The size of a file in bytes; pipes, devices and folders are refused before they are opened.

    Raises:
        SoftkinError: There is no such file, or it is not a regular file.
    """
    try:
        about = os.stat(path)
    except FileNotFoundError:
        raise SoftkinError(f"{path} could not be read: there is no such file.") from None
    except (OSError, ValueError) as error:
        raise SoftkinError(f"{path} could not be read: {getattr(error, 'strerror', None) or error}.") from error
    if not stat.S_ISREG(about.st_mode):
        raise SoftkinError(f"{path} could not be read: it is {_in_words(about.st_mode)}, not a file.")
    return about.st_size


def open_file(path: str | Path) -> IO[bytes]:
    """A regular file, opened for reading; this never blocks, as opening a pipe would."""
    require_regular(path)
    try:
        return open(path, "rb")
    except OSError as error:
        raise SoftkinError(f"{path} could not be read: {error.strerror or error}.") from error


def read_bytes(path: str | Path, what: str, *, bounded: bool = True) -> bytes:
    """The content of a regular file; ``bounded`` refuses a file larger than ``limit("bytes")``."""
    size = require_regular(path)
    if bounded:
        within("bytes", size, f"{path} ({what})")
    with reading(path, what), open_file(path) as file:
        return file.read()


def open_zip(file: IO[bytes], name: str | Path) -> "ZipFile":
    """A .zip archive, refused if its directory lists fewer entries than it declares.

    zipfile reads the directory without counting, so one damaged length hides all following entries.
    """
    import zipfile  # here, and tomllib below: help and completions load this module, and read no such files

    archive = zipfile.ZipFile(file)
    file.seek(max(0, file.seek(0, os.SEEK_END) - 2**16 - 22))
    _, mark, record = file.read().rpartition(b"PK\x05\x06")
    stated = int.from_bytes(record[6:8], "little") if mark and len(record) >= 18 else 0
    infos = archive.infolist()
    if stated not in (len(infos), 2**16 - 1):  # the maximum of the field stands for any larger number
        raise SoftkinError(f"{name} is damaged: it must list {stated:,} entries, and lists {len(infos):,}.")
    return archive


def _in_words(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket", stat.S_ISLNK: "a link"}
    return next((words for is_kind, words in kinds.items() if is_kind(mode)), "a device")


# Limits

LIMITS: Final = {
    "bytes": 2**31,  # that one file may occupy in memory, or unpack to
    "pixels": 2**26,  # in one image: 8192 × 8192
    "classes": 2**17,  # in one file; ImageNet-21k has 21,841
}
RATIO = 100  # a file may always unpack to this many times its size: numbers seldom compress to a tenth


def limit(of: str) -> int:
    """The maximum bytes, pixels or classes of one file: ``LIMITS``, or the variables SOFTKIN_MAX_BYTES and so on."""
    variable = f"SOFTKIN_MAX_{of.upper()}"
    text = os.environ.get(variable, "")
    if not text:
        return LIMITS[of]
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise SoftkinError(f"{variable} must be a whole number of {of}, got {text[:50]!r}.")
    return int(text)


def within(of: str, amount: int, what: str, *, share: int = 1) -> None:
    """Refuse a declared size above the limit, before anything is read.

    Args:
        of: "bytes", "pixels" or "classes".
        amount: The declared size.
        what: The object that has this size, with its file, for the error.
        share: Only 1/``share`` of the limit is allowed.
    """
    most = limit(of) // share
    if amount > most:
        raise SoftkinError(
            f"{what} would have {amount:,} {of}, more than the {most:,} allowed; if that is right, set "
            f"SOFTKIN_MAX_{of.upper()}={amount * share} and try again."
        )


def unpacked_within(packed: int, unpacked: int, what: str) -> None:
    """Refuse a file that would unpack to far more than its size, as only zip bombs and constant data do."""
    if unpacked > RATIO * packed:
        within("bytes", unpacked, what)


# Digests


def sha256(content: Any) -> str:
    """The hexadecimal SHA-256 of bytes, or of anything that exposes them as a contiguous buffer."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(path: str | Path) -> str:
    """The hexadecimal SHA-256 of a regular file's content."""
    require_regular(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(data: Any) -> str:
    """The hexadecimal SHA-256 of plain data, independent of the order of keys."""
    return sha256(canonical_json(data))


# JSON and TOML

DEPTH = 100  # nested brackets; parsers fail or crash at some thousands
DOTS = 1000  # in a line of TOML: tomllib's time grows with the square of the parts of a dotted name
TEXT_SHARE = 8  # parsed text takes several times its size in memory

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def parse_json(content: bytes | str, name: str | Path, what: str) -> Any:
    """Plain data from JSON that may be damaged or hostile; its size and nesting depth are checked first.

    Raises:
        SoftkinError: The content is not JSON, too large or too deep; ``name`` and ``what`` are as for ``reading``.
    """
    with reading(name, what):
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        within("bytes", len(raw), f"{name} ({what})", share=TEXT_SHARE)
        _shallow(raw)
        return json.loads(raw.decode("utf-8-sig", "surrogatepass"))


def read_json(path: str | Path, what: str) -> Any:
    """``parse_json`` of a regular file."""
    return parse_json(read_bytes(path, what), path, what)


def _shallow(content: bytes) -> None:
    """Refuse brackets nested more than ``DEPTH`` deep, or that many unclosed ones."""
    if content.count(b"[") + content.count(b"{") <= DEPTH:
        return
    brackets = _STRINGS.sub(b"", content).translate(None, _NO_BRACKETS)
    for _ in range(DEPTH):  # each pass removes the innermost pairs
        fewer = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    if len(brackets) > DEPTH:
        raise RecursionError


def parse_toml(content: bytes, name: str | Path, what: str) -> dict[str, Any]:
    """The tables of TOML text that may be damaged or hostile; ``name`` and ``what`` are as for ``reading``."""
    import tomllib

    with reading(name, what):
        within("bytes", len(content), f"{name} ({what})", share=2**9)  # tomllib is slow, and nobody types 4 MiB
        for number, line in enumerate(content.split(b"\n"), start=1):
            if (dots := line.count(b".")) > DOTS:
                raise ValueError(f"line {number} has {dots:,} dots, more than the {DOTS:,} allowed")
        tables = tomllib.loads(content.decode("utf-8-sig"))
        level: list[Any] = [tables]
        for _ in range(DEPTH):  # dotted names nest without brackets
            level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
            level = [inner for inner in level if isinstance(inner, dict | list)]
        if level:
            raise RecursionError
        return tables


def read_toml(path: str | Path, what: str) -> dict[str, Any]:
    """``parse_toml`` of a regular file."""
    return parse_toml(read_bytes(path, what), path, what)


def canonical_json(data: Any) -> bytes:
    """Plain data as canonical bytes, equal for equal data: sorted keys, ASCII, no spaces."""
    return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def json_bytes(data: Any, *, indent: int | None = 1) -> bytes:
    """Plain data as JSON for a file; NaN and infinity are refused, see ``number``."""
    return (json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def write_json(path: str | Path, data: Any, *, indent: int | None = 1) -> None:
    """Write plain data as JSON, atomically; see ``json_bytes``."""
    write(path, json_bytes(data, indent=indent))


Plain = float | Literal["Infinity", "-Infinity"] | None
"""A number in softkin's JSON, see ``number``"""


def number(value: float, digits: int | None = None) -> Plain:
    """A float for softkin's JSON: None for NaN, and "Infinity" or "-Infinity", which JavaScript also reads.

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


def plain(data: Any) -> Any:
    """Nested lists and mappings with every float converted by ``number``, ready for ``write_json``.

    Example:
        >>> plain({"nll": [0.5, float("inf")]})
        {'nll': [0.5, 'Infinity']}
    """
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return number(data) if isinstance(data, float) else data


def from_number(value: float | str | None) -> float:
    """The float that ``number`` wrote.

    Example:
        >>> from_number("Infinity"), from_number(None)
        (inf, nan)
    """
    return math.nan if value is None else float(value)
