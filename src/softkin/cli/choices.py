"""The values that an option may have: names from the registries, without loading the code that they name.

Registries are in the modules of the things that they name, and importing those loads torch. So help and completions
read ``choices.json``, which ``scripts/commands_page.py`` writes from the registries. Where torch is already loaded, the
registries themselves are read.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from softkin._core.options import Option

Names = Callable[[], Sequence[str]]

RECORDED = Path(__file__).with_name("choices.json")


def calibrators() -> list[str]:
    """Calibrators."""
    from softkin import calibrators

    return list(calibrators.REGISTRY)


def data_sets() -> list[str]:
    """Data sets that have a name."""
    from softkin.lab.data import npz, published

    return [*npz.SHIPPED, *(name for name, known in published.DATA_SETS.items() if not known.is_vectors)]


def downloads() -> list[str]:
    """All that ``softkin data get`` downloads: data sets and word vectors."""
    from softkin.lab.data import names

    return names()


def decision_scores() -> list[str]:
    """Scores of prediction sets and of confidence."""
    from softkin.evaluation import deciding

    return deciding.set_score_names()


def distances() -> list[str]:
    """Distance sources."""
    from softkin.distances import SOURCES

    return list(SOURCES)


def engines() -> Sequence[str]:
    """Where work can be done."""
    from softkin._core.workers import ENGINES

    return ENGINES


def metrics_of_choice() -> list[str]:
    """Metrics by which a study chooses values."""
    from softkin.lab.study.spec import selectable

    return selectable()


def metrics_of_order() -> list[str]:
    """Metrics by which calibrators are ordered."""
    from softkin.evaluation import calibrations

    return calibrations.orders()


def networks() -> list[str]:
    """Networks."""
    from softkin.lab import models

    return models.names()


def papers() -> list[str]:
    """The paper's tables and figures."""
    from softkin.lab import suites

    return suites.names()


def recipes() -> list[str]:
    """Training recipes."""
    from softkin.lab.training.recipe import RECIPES

    return list(RECIPES)


def rules() -> list[str]:
    """Decision rules."""
    from softkin import decisions

    return list(decisions.REGISTRY)


def searches() -> list[str]:
    """Ways to search among the values of a study."""
    from softkin.lab.study.spec import SEARCHES

    return list(SEARCHES)


def tunings() -> list[str]:
    """Where a study chooses its values."""
    from softkin.lab.study.spec import TUNINGS

    return [name.replace(" ", "-") for name in TUNINGS]


def study_methods() -> list[str]:
    """The columns that a study can have."""
    from softkin.lab.study.columns import known

    return list(known())


def trackers() -> list[str]:
    """Trackers that a training can log to."""
    from softkin.lab.training.launch import TRACKERS

    return list(TRACKERS)


def label_methods() -> list[str]:
    """Training methods that are ways to label."""
    from softkin.lab.training.methods import METHODS

    return [name for name, method in METHODS.items() if not method.mixes]


def mix_methods() -> list[str]:
    """Training methods that are ways to mix."""
    from softkin.lab.training.methods import METHODS

    return [name for name, method in METHODS.items() if method.mixes]


def training_methods() -> list[str]:
    """Training methods: ways to label and ways to mix."""
    from softkin.lab.training.methods import METHODS

    return list(METHODS)


def unknown_data() -> list[str]:
    """Out-of-distribution data that have a name."""
    from softkin.lab.data.ood import NOISE

    return [*NOISE, *data_sets()]


def word_vectors() -> list[str]:
    """Word vectors that come with softkin."""
    from softkin.word_vectors import SHIPPED

    return list(SHIPPED)


def of_methods() -> list[Option]:
    """The parameters of training methods."""
    from softkin.lab.training.methods import options

    return options()


def of_recipes() -> list[Option]:
    """The fields of a training recipe."""
    from softkin._core.options import settings
    from softkin.lab.training.recipe import Recipe

    return settings(Recipe)


def of_sources() -> list[Option]:
    """The options of distance sources."""
    from softkin.distances.sources import options

    return list(options().values())


OPTIONS: tuple[Callable[[], list[Option]], ...] = (of_methods, of_recipes, of_sources)
REGISTRIES: tuple[Names, ...] = (
    calibrators,
    data_sets,
    downloads,
    decision_scores,
    distances,
    label_methods,
    metrics_of_choice,
    metrics_of_order,
    mix_methods,
    networks,
    papers,
    recipes,
    rules,
    searches,
    tunings,
    study_methods,
    trackers,
    training_methods,
    unknown_data,
    word_vectors,
)


def current() -> dict[str, Any]:
    """The content of ``choices.json``."""
    names = {names.__name__: list(names()) for names in REGISTRIES}
    return names | {options.__name__: [option.to_dict() for option in options()] for options in OPTIONS}


@cache
def _recorded() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return recorded


def listed(names: Names) -> Sequence[str]:
    """The names: from the registry if torch is loaded, else from ``choices.json``."""
    if "torch" in sys.modules or names.__name__ not in _recorded():
        return names()
    recorded: list[str] = _recorded()[names.__name__]
    return recorded


def declared(options: Callable[[], list[Option]]) -> list[Option]:
    """The options: as the code declares them if torch is loaded, else from ``choices.json``."""
    if "torch" in sys.modules or options.__name__ not in _recorded():
        return options()
    return [Option.from_dict(values) for values in _recorded()[options.__name__]]


class NamesInHelp(str):
    """An option's help in which "{}" is replaced by the names that can be chosen when the help is printed."""

    names: Names

    def __mod__(self, values: Any) -> str:
        """Fill in the names; argparse calls this when it prints the help."""
        return self.replace("{}", ", ".join(listed(self.names)))


def choose(action: argparse.Action, words: str, names: Names, *, separators: str = "", files: bool = False) -> None:
    """Set the names that can be chosen for an option, for its help and for shell completion.

    Args:
        action: The option.
        words: Its help, with "{}" where the names go.
        names: One of the functions above.
        separators: The characters that may join several names, such as ",+".
        files: Whether a path can be given instead.
    """
    action.help = help_text = NamesInHelp(words)
    help_text.names = names
    action.names, action.separators = names, separators  # type: ignore[attr-defined]
    if files:
        action.complete = FILE  # type: ignore[attr-defined]


FILE, FOLDER = "files", "folders"


def path(action: argparse.Action, kind: str = FILE) -> None:
    """Let shells complete files or folders for an argument whose type is not ``Path``."""
    action.complete = kind  # type: ignore[attr-defined]
