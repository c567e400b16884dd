"""``--list-methods``: one line for each method that a command knows."""

import argparse
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

Methods = Callable[[], Iterable[tuple[str, Any]]]


def add(parser: argparse._ActionsContainer, methods: Methods) -> None:
    """Add the option to a command; ``methods`` gives names and the objects whose documentation has the line."""

    class Listed(argparse.Action):
        def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
            print("\n".join(lines(methods())))
            parser.exit()

    parser.add_argument(
        "--list-methods", nargs=0, action=Listed, help="list all methods with a sentence each, and exit"
    )


def lines(methods: Iterable[tuple[str, Any]]) -> list[str]:
    """A line for each method; what is wider than the terminal goes on in the next line, indented."""
    listed = list(methods)
    indent = max(len(name) for name, _ in listed) + 2
    most = shutil.get_terminal_size((120, 24)).columns
    return [
        line
        for name, described in listed
        for line in textwrap.wrap(
            first_line(described),
            max(most, 2 * indent),
            initial_indent=f"{name:{indent}}",
            subsequent_indent=" " * indent,
        )
    ]


def first_line(described: Any) -> str:
    """The first line of an object's documentation as plain text; a text stands for itself."""
    text = described if isinstance(described, str) else (inspect.getdoc(described) or "").partition("\n")[0]
    return re.sub(r":math:`[^`]*`", "", text).replace("``", "").replace(" ;", ";").strip()


def calibrators() -> Iterable[tuple[str, Any]]:
    """All calibrators."""
    from softkin.calibrators import REGISTRY

    return REGISTRY.items()


def rules() -> Iterable[tuple[str, Any]]:
    """All rules of decision."""
    from softkin.decisions import REGISTRY

    return REGISTRY.items()


def training_methods() -> Iterable[tuple[str, Any]]:
    """All methods of one training."""
    from softkin.lab.training.methods import METHODS

    return ((name, _class_of(method)) for name, method in METHODS.items())


def _class_of(method: Any) -> Any:
    """The class whose statement declared a training method; a way to mix has no objective of its own."""
    target = method.target
    return method.objective or getattr(sys.modules[target.__module__], target.__qualname__.partition(".")[0])


def study_methods() -> Iterable[tuple[str, Any]]:
    """All columns of a study: ways to train, distances for similarity labels, calibrators after any of them."""
    from softkin.lab.study.columns import known

    for name, method in known().items():
        if method.training is not None:
            yield name, _class_of(method.training)
        elif method.source is not None:
            about = first_line(method.source.function)
            prior = f"As learned, with the similarity of {method.source.title.lower()} as a prior (--prior-rows)."
            yield name, prior if method.learned else f"Labels smoothed by similarity. {about}"
        elif method.calibrator is not None:
            yield name, f"Calibrator. {first_line(method.calibrator)}"
        else:
            yield name, method.head
