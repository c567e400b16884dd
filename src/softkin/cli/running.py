"""Options shared by the commands that run studies: device, workers, engine and seeds.

A command that is repeated goes on; another that has the same output is refused before any work.
"""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from softkin import __version__
from softkin._core.workers import ENGINES
from softkin._io import cache, files
from softkin.cli import choices


class Data(argparse.Action):
    """The data of a study or training, which may be the first argument or follow --data, but not both."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        """Keep the name; an argument that was left out arrives as None."""
        known = getattr(namespace, self.dest)
        if known is not None and values is not None:
            parser.error(f"the data are named twice: {known} and {values}")
        setattr(namespace, self.dest, known if values is None else values)


def add_options(options: argparse._ActionsContainer) -> None:
    """Add the options for where runs are done and how the table is printed."""
    options.add_argument("--device", help="device to train on, such as cuda (default: an accelerator if there is one)")
    options.add_argument("--workers", type=int, help="number of runs at a time (default: one for each core or GPU)")
    engine = options.add_argument("--engine", default="local")
    choices.choose(engine, "local, or ray for a cluster (default: local)", choices.engines)
    options.add_argument(
        "--address", help="address of the Ray cluster, such as ray://head:10001 (default: a local one)"
    )
    options.add_argument("--cpus", type=float, default=1, help="CPUs that Ray gives each run (default: 1)")
    options.add_argument("--gpus", type=float, default=0, help="GPUs that Ray gives each run (default: 0)")
    options.add_argument(
        "--trust-model",
        action="append",
        default=[],
        metavar="NAME",
        help="allow a file to name this package.module:callable as its network; may be repeated",
    )
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_alias(options: argparse._ActionsContainer) -> None:
    """Add the option that replaces a word of a class name before it is looked up."""
    options.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="WORD=OTHER",
        help="look up OTHER instead of WORD; a sense such as crane.n.05 counts for WordNet only; may be repeated",
    )


def add_top_m(options: argparse._ActionsContainer) -> None:
    """Add the option that keeps only the most similar classes of each."""
    options.add_argument(
        "--top-m",
        type=int,
        help="number of most similar classes that keep their share of α; the others divide the rest evenly "
        "(default: all)",
    )


def aliases(arguments: argparse.Namespace) -> dict[str, str]:
    """The words of ``--alias``, each with what to look up instead."""
    for alias in arguments.alias:
        if not all(part.strip() for part in alias.partition("=")):
            raise ValueError(f"--alias must be WORD=OTHER, got {alias!r}.")
    return dict(alias.split("=", 1) for alias in arguments.alias)


def check(arguments: argparse.Namespace) -> None:
    """Refuse values of ``add_options`` that are impossible or contradict each other."""
    from softkin._core import checks
    from softkin._core.names import require
    from softkin.lab.study.run import MOST_WORKERS
    from softkin.lab.training.launch import checked_device, named_device

    if arguments.workers is not None:
        checks.count(arguments.workers, "--workers", most=MOST_WORKERS)
    require(arguments.engine, ENGINES, "engine")
    checks.at_least_zero(arguments.cpus, "--cpus")
    checks.at_least_zero(arguments.gpus, "--gpus")
    if arguments.engine == "ray":
        if arguments.device is not None:
            named_device(arguments.device)
        return
    if arguments.device is not None:
        checked_device(arguments.device)
    for option, usual in (("address", None), ("cpus", 1), ("gpus", 0)):
        if getattr(arguments, option) != usual:
            raise ValueError(f"--{option} is for --engine ray, and the engine is {arguments.engine}.")


def how(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of ``softkin.lab.study.run``."""
    ray_options = {"address": arguments.address, "num_cpus": arguments.cpus, "num_gpus": arguments.gpus}
    return {
        "device": arguments.device,
        "workers": arguments.workers,
        "engine": arguments.engine,
        "ray_options": ray_options if arguments.engine == "ray" else None,
    }


def seeds(text: str) -> int | list[int]:
    """Parse a number of seeds, or a list of seeds."""
    try:
        parts = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seeds, or a list such as 3,4,5, got {text!r}") from None
    return parts if "," in text else parts[0]


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
    inputs = _words(value for name, value in vars(arguments).items() if name not in OUTPUTS)
    keeps_table = getattr(arguments, "action", None) == "apply" and arguments.force
    for path in () if keeps_table else files.outputs():
        if path.is_file() and any(os.path.exists(word) and os.path.samefile(word, path) for word in inputs):
            raise ValueError(f"{path} is read by this command, so its output must be another file.")
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
