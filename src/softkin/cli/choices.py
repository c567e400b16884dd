"""What an option's value may be: names from the registries, without loading the code that they stand beside.

Registries lie beside the code that they name, and importing that loads torch. So help and completions read
``choices.json``, which ``scripts/commands_page.py`` writes from the registries; where torch is loaded anyway the
registries themselves are asked.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

Names = Callable[[], Sequence[str]]

RECORDED = Path(__file__).with_name("choices.json")


def calibrators() -> list[str]:
    """Calibrators."""
    from softkin import calibrators

    return list(calibrators.REGISTRY)


def data_sets() -> list[str]:
    """Data sets that have a name."""
    from softkin import data

    return ["digits", *data.names()]


def decision_scores() -> list[str]:
    """How sets are scored, and how sure answers are."""
    from softkin.evaluation import decided

    return decided.set_score_names()


def distances() -> list[str]:
    """Distance sources."""
    from softkin.distances import SOURCES

    return list(SOURCES)


def metrics_of_choice() -> list[str]:
    """Metrics by which a study chooses values."""
    from softkin.metrics import catalogue

    return [metric.key for metric in catalogue.shown("select")]


def metrics_of_order() -> list[str]:
    """Metrics by which calibrators are ordered."""
    from softkin.evaluation import calibrated

    return calibrated.orders()


def networks() -> list[str]:
    """Networks."""
    from softkin import models

    return models.names()


def papers() -> list[str]:
    """The paper's tables and figures."""
    from softkin import paper

    return paper.names()


def recipes() -> list[str]:
    """Training recipes."""
    from softkin.training.recipe import RECIPES

    return list(RECIPES)


def rules() -> list[str]:
    """Rules of decision."""
    from softkin import decisions

    return list(decisions.REGISTRY)


def study_methods() -> list[str]:
    """The columns that a study can have."""
    from softkin.study.methods import known

    return list(known())


def training_methods() -> list[str]:
    """Ways to label and to mix."""
    from softkin.training.methods import METHODS

    return list(METHODS)


def word_vectors() -> list[str]:
    """Word vectors that come with softkin."""
    from softkin.word_vectors import SHIPPED

    return list(SHIPPED)


REGISTRIES: tuple[Names, ...] = (
    calibrators,
    data_sets,
    decision_scores,
    distances,
    metrics_of_choice,
    metrics_of_order,
    networks,
    papers,
    recipes,
    rules,
    study_methods,
    training_methods,
    word_vectors,
)


def current() -> dict[str, list[str]]:
    """What ``choices.json`` has to say."""
    return {names.__name__: list(names()) for names in REGISTRIES}


@cache
def _recorded() -> dict[str, list[str]]:
    recorded: dict[str, list[str]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return recorded


def listed(names: Names) -> Sequence[str]:
    """The names, from the registry where torch is loaded, else as they were recorded."""
    if "torch" in sys.modules or names not in REGISTRIES:
        return names()
    return _recorded()[names.__name__]


class NamesInHelp(str):
    """Help of an option with the names that can be chosen in the place of "{}", looked up when it is printed."""

    names: Names

    def __mod__(self, values: Any) -> str:
        """What argparse calls to fill in the help of an option."""
        return self.replace("{}", ", ".join(listed(self.names)))


def choose(action: argparse.Action, words: str, names: Names, *, separators: str = "", files: bool = False) -> None:
    """Say what can be chosen, in an option's help and when a shell completes it.

    Args:
        action: The option.
        words: Its help, with "{}" where the names go.
        names: One of the functions above.
        separators: The letters that join several names: "," and "+".
        files: Whether a path can be given instead.
    """
    action.help = help_text = NamesInHelp(words)
    help_text.names = names
    action.names, action.separators = names, separators  # type: ignore[attr-defined]
    if files:
        action.complete = FILE  # type: ignore[attr-defined]


FILE, FOLDER = "files", "folders"


def path(action: argparse.Action, kind: str = FILE) -> None:
    """Let shells complete files or folders for an argument that is no ``Path``."""
    action.complete = kind  # type: ignore[attr-defined]
