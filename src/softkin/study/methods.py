"""The methods that a study can put side by side: what each is called, what it trains, what of it is tuned."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["training", "similarity", "calibrator"]


@dataclass(frozen=True)
class Entry:
    """One way to come to probabilities."""

    title: str
    """What tables call it"""
    kind: Kind
    """"training": a loss or labels of its own; "similarity": smooth labels from class distances; "calibrator": fitted
    on the validation predictions of a network that is trained anyway"""
    tuned: str | None = None
    """Its parameter, if it has one"""
    centre: float = 0.0
    """Where the trials of that parameter lie around, if the study does not say"""


ENTRIES: dict[str, Entry] = {
    "one-hot": Entry("one-hot", "training"),
    "ts": Entry("TS", "calibrator"),
    "uniform": Entry("uniform", "training", "alpha"),
    "mixup": Entry("mixup", "training", "mixing", 0.2),
    "dir-odir": Entry("Dir-ODIR", "calibrator"),
    "ets": Entry("ETS", "calibrator"),
    "l1": Entry("L1", "similarity"),
    "l2": Entry("L2", "similarity"),
    "ae": Entry("AE", "similarity"),
    "we": Entry("WE", "similarity"),
    "cutmix": Entry("CutMix", "training", "mixing", 1.0),
    "focal": Entry("focal", "training", "gamma", 2.0),
    "margin": Entry("margin", "training", "margin", 10.0),
    "online": Entry("online", "training", "alpha"),
    "vector": Entry("vector", "calibrator"),
    "matrix": Entry("matrix", "calibrator"),
    "platt": Entry("Platt", "calibrator"),
    "beta": Entry("beta", "calibrator"),
    "isotonic": Entry("isotonic", "calibrator"),
    "histogram": Entry("histogram", "calibrator"),
    "spline": Entry("spline", "calibrator"),
}
PAPER = ("one-hot", "ts", "uniform", "mixup", "dir-odir", "ets", "l1", "l2", "ae", "we")
"""The columns of the paper's tables, in their order"""
ONE_HOT = "one-hot"


def parts(name: str) -> tuple[str, str | None]:
    """What is trained, and the calibrator behind it: "ts" is ("one-hot", "ts"), "we+ts" is ("we", "ts")."""
    base, plus, calibrator = name.partition("+")
    if plus:
        return base, calibrator
    return (ONE_HOT, name) if ENTRIES[name].kind == "calibrator" else (name, None)


def title(name: str) -> str:
    """What tables call a method."""
    return "+".join(ENTRIES[part].title for part in name.split("+"))


def in_words(values: Mapping[str, float]) -> str:
    """Chosen values as people write them.

    Example:
        >>> in_words({"alpha": 0.1, "beta": 2.0})
        'α = 0.1, β = 2'
    """
    letters = {"alpha": "α", "beta": "β", "mixing": "a", "gamma": "γ", "margin": "m"}
    return ", ".join(f"{letters.get(key, key)} = {value:g}" for key, value in values.items())


def check(name: object) -> str:
    """A method's name, or the sentence that knows a better one."""
    if not isinstance(name, str):
        raise TypeError(f"`methods` must hold names, got {name!r}.")
    base, plus, calibrator = name.partition("+")
    known(base, ENTRIES, "method")
    if plus:
        known(calibrator, (key for key, entry in ENTRIES.items() if entry.kind == "calibrator"), "calibrator")
        if ENTRIES[base].kind == "calibrator":
            raise ValueError(f"method {name!r} must be a training method + a calibrator, but {base} is a calibrator.")
    return name


def known(name: str, names: Iterable[str], what: str) -> str:
    """``name`` if it is one of ``names``; else an error with the nearest of them."""
    every = list(names)
    if name in every:
        return name
    near = difflib.get_close_matches(name.lower(), every, n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]}?" if near else "."
    raise ValueError(f"{what} {name!r} is not known; there are {', '.join(every)}{guess}")
