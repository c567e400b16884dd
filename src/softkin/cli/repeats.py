"""A command that is repeated: the same one goes on, another that has the same output is refused before any work."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from softkin import __version__
from softkin._io import cache, files

OUTPUTS = ("output", "report", "junit", "picture")
SILENT = (*OUTPUTS, "force", "json", "wide")
"""Options that change no file's content"""
MOST = 100_000  # files of a folder that are looked at


def refuse_another(arguments: argparse.Namespace) -> str | None:
    """Refuse existing outputs that this same command did not write; ``files.guard`` knows which these are.

    Returns:
        What to ``remember`` once they are written; None if the command has no outputs.

    Raises:
        SoftkinError: An output comes from other options, from files that have changed, or from elsewhere.
    """
    if not files.outputs():
        return None
    request = _request(arguments)
    for path in files.guarded():
        if not path.is_file() or cache.recall(_key(path)) != [request, _stamp(path)]:
            raise files.Exists(
                f"{path} exists already, from another command or other files; add --force to overwrite it."
            )
    if "-" not in _words(vars(arguments).values()):  # standard input may hold anything: only the result tells
        files.release()
    return request


def remember(request: str | None) -> None:
    """Remember in the cache folder which command wrote its outputs."""
    for path in files.outputs():
        if request is not None and path.is_file():
            cache.keep(_key(path), [request, _stamp(path)])


def _words(values: Iterable[Any]) -> list[str]:
    """The texts among the values of options, also those in lists."""
    lists = (value if isinstance(value, list | tuple) else [value] for value in values)
    return [str(word) for words in lists for word in words]


def _key(path: Path) -> str:
    return f"output {path.resolve()}"


def _request(arguments: argparse.Namespace) -> str:
    """A digest of what the outputs follow from: version, options, and the files that these name."""
    told = {name: _told(value) for name, value in vars(arguments).items() if name not in SILENT}
    return files.sha256_of_json({"version": __version__, **told})


def _told(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_told(part) for part in value]
    if isinstance(value, str | Path):
        text = str(value)
        return [text, _state(text), _state(text.partition("=")[2])]  # NAME=PATH
    return repr(value)


def _state(text: str) -> Any:
    """The size and time of a file, or of all files in a folder; None for a text that names neither."""
    path = Path(text)
    try:
        if not text or path.resolve() in files.outputs():
            return None
        if path.is_file():
            return _stamp(path)
        if not path.is_dir() or any(path.resolve() in output.resolve().parents for output in files.outputs()):
            return None
        return [[str(found), *_stamp(found)] for found in _below(path)]
    except (OSError, ValueError):  # a text that is no path, or what nobody may read
        return None


def _below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        found += [Path(root, name) for name in sorted(names)]
        if len(found) > MOST:
            break
    return found[:MOST]


def _stamp(path: Path) -> list[Any]:
    about = path.stat()
    return [str(path.resolve()), about.st_size, about.st_mtime_ns]
