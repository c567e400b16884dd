"""A study as plain data: the data, the network, the methods, the seeds, and what is tuned."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from softkin._core import checks
from softkin._core.names import require
from softkin._io import files
from softkin.distances.sources import options as source_options
from softkin.lab import models
from softkin.lab.study import columns as registry
from softkin.lab.study.columns import HEADS, PAPER, USES_KIN
from softkin.lab.training.methods import METHODS, Parameter, TrainingMethod, Value, parameters
from softkin.lab.training.objectives.smooth_labels import PRIOR
from softkin.lab.training.training_run import digest_of
from softkin.losses.learned import PRIOR_ROWS
from softkin.metrics import catalogue

SEARCHES = ("grid", "halving")
REFINED = "refined-nll"
"""The NLL after a temperature, by which values can be chosen besides the metrics"""
MOST_SEEDS = MOST_VALUES = 1000  # folders of a few thousand runs are the largest that were tested
MOST_ROWS = 10_000_000
MOST_SEED = 2**63 - 1  # the largest that torch's generators take
TUNINGS = ("each seed", "first seed")
TUNABLE = {"weight_decay": "weight decay", "lr": "learning rate", "epochs": "epochs"}
"""Fields of the recipe that a study can search for every trained method, with their names in words"""
OUTPUTS = "outputs"  # the distance source, and its option
TREE = "tree"  # the option of the distance source
OWN_FIELDS = ("alpha", "beta", "top_m", "mixing")
"""Parameters that are keys of a study themselves"""


@dataclass(frozen=True)
class StudySpec:
    """A study: everything that its table depends on.

    As TOML the fields are keys, ``recipe``, ``model_options`` and ``aliases`` tables. A single number stands for a
    grid of one; ``seeds = 5`` for the seeds 0 to 4.

    Example:
        >>> spec = StudySpec(methods=("one-hot", "ts", "we"), seeds=3, beta=2.0)
        >>> spec.seeds, spec.beta
        ((0, 1, 2), (2.0,))
        >>> StudySpec.from_dict(spec.to_dict()) == spec
        True
    """

    name: str = "compare"
    """Its name"""
    data: str = "digits"
    """Any source that ``softkin.lab.data.load`` reads"""
    size: int | None = None
    """Resize images to this many pixels on each side"""
    max_per_class: int | None = None
    """The maximum number of training images of each class"""
    validation: int | None = None
    test: int | None = None
    """The numbers of rows of both; None: the defaults of ``softkin.lab.data.split``"""
    model: str | None = None
    """A network's name, or "package.module:callable"; None: depends on the kind of data"""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """The ``name`` of a recipe, and fields of ``softkin.lab.training.Recipe`` that replace its values"""
    methods: tuple[str, ...] = ()
    """Names from ``lab.study.methods``, or joined ones such as "we+ts"; empty: the paper's that suit the data"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """A seed fixes split, initial weights and the order of the data, the same for every method"""
    alpha: tuple[Value, ...] = ("auto",)
    beta: tuple[Value, ...] = ("auto",)
    """Grids of the class-similarity methods: every α with every β, small values first, so that they win ties. With α
    "auto", the validation gap adjusts α during training; with β "auto", β is fitted to the confusions of one-hot
    training on validation rows. Uniform smoothing tries the same α, and others around them where β gives the rest more
    trials; learned labels do not, because its α has another meaning"""
    top_m: int | None = None
    """For the class-similarity methods: the number of most similar classes that keep their share of α, while the others
    divide the rest evenly; None: all"""
    uniform_alpha: tuple[Value, ...] = ()
    mixing: tuple[float, ...] = ()
    """Grids of uniform smoothing's α and of mixup's a; empty: as many values as other methods, of α those of ``alpha``
    among them, of a around the default"""
    select: str | None = None
    """The number on validation rows that chooses among values: a metric's key, or "refined-nll", the NLL after a
    temperature. None: "refined-nll" for a method that is followed by a calibrator, which repairs the rest; "nll" for
    one that is not"""
    search: str = "grid"
    tuning: str = "each seed"
    """"first seed": values are chosen on the first seed and kept for the others, for expensive studies"""
    tune: tuple[str, ...] = ()
    """Fields of the recipe, of ``TUNABLE``, that are searched for every trained method alike, one after the other: on
    the first seed, by validation NLL after a temperature, in factors of three around the recipe's value"""
    half_steps: bool = False
    """Whether `tune` also tries a factor of √3 to either side of the best value"""
    tune_each: bool = False
    """Whether `tune` searches for each value that a method tries, instead of for the middle one of them alone"""
    accuracy_budget: float | None = None
    """Points of accuracy (%): choose the lowest output ECE among values that lose at most this much to one-hot"""
    vectors: str | None = None
    """"glove", or a file of word vectors; None: softkin's default vectors"""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Words of class names, each with the word to look up instead"""
    sources: Mapping[str, Any] = field(default_factory=dict)
    """Options that distance sources declare, by name: ``latent_dim`` of "ae", ``tree`` and ``measure`` of "tree",
    ``matrix`` of "file", ``outputs``, ``confusion``, ``weights``. Never an encoder: that would be code, named by a
    file"""
    parameters: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Values of further parameters of training methods, by name: of the one that a method tunes, the values to try; of
    others, the value to use"""
    ood: tuple[str, ...] = ()
    """Out-of-distribution sets: "uniform", "gaussian", or any source of data"""
    ood_rows: int = 10_000

    def __post_init__(self) -> None:
        for key in ("alpha", "beta", "uniform_alpha", "mixing"):
            self._set(key, _grid(getattr(self, key), key))
        self._set("seeds", _seeds(self.seeds))
        for key in ("methods", "ood", "tune"):
            self._set(key, _texts(getattr(self, key), key))
        self._set("tune", tuple(dict.fromkeys(name.replace("-", "_") for name in self.tune if name != "none")))
        for name in self.tune:
            require(name, TUNABLE, "`tune`:")
        for key in ("name", "data"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key):
                raise TypeError(f"`{key}` must be a text, got {getattr(self, key)!r}.")
        for key in ("model", "vectors"):
            if getattr(self, key) is not None and not isinstance(getattr(self, key), str):
                raise TypeError(f"`{key}` must be a text, got {getattr(self, key)!r}.")
        for key in ("model_options", "recipe", "aliases", "sources", "parameters"):
            if not isinstance(getattr(self, key), Mapping):
                raise TypeError(f"`{key}` must be a table, got {getattr(self, key)!r}.")
            self._set(key, dict(getattr(self, key)))
        for word, other in self.aliases.items():
            if not isinstance(other, str):
                raise TypeError(f"`aliases` must hold words, got {other!r} for {word!r}.")
        _check_sources(self.sources)
        self._set("parameters", {name: _parameter(name, values) for name, values in self.parameters.items()})
        for key in ("size", "max_per_class", "validation", "test", "top_m"):
            if getattr(self, key) is not None:
                checks.count(getattr(self, key), key)
        checks.count(self.ood_rows, "ood_rows", most=MOST_ROWS)
        self._set("methods", tuple(dict.fromkeys(registry.check(name) for name in self.methods)))
        for value in _numbers((*self.alpha, *self.uniform_alpha)):
            checks.alpha(value)
        for value in _numbers(self.beta):
            checks.beta(value)
        if 0 in self.mixing:
            raise ValueError("`mixing` must be above 0, got 0; without mixing that is one-hot.")
        if self.select in catalogue.METRICS:
            self._set("select", catalogue.METRICS.canonical(self.select))
        if isinstance(self.tuning, str):
            self._set("tuning", self.tuning.replace("-", " "))
        for key, allowed in (("select", selectable()), ("search", SEARCHES), ("tuning", TUNINGS)):
            if getattr(self, key) is not None or key != "select":
                require(getattr(self, key), allowed, key)
        if self.accuracy_budget is not None:
            checks.at_least_zero(self.accuracy_budget, "accuracy_budget")
        self._check_prior()
        _ = self.trials

    def _check_prior(self) -> None:
        if PRIOR.name not in self.parameters:
            return
        if 0 in self.parameters[PRIOR.name]:
            raise ValueError(f"`{PRIOR.name}` must be above 0, got 0; the method {registry.LEARNED} has no prior.")
        if self.methods and not any(registry.named(base).learned for base in self.bases()):
            raise ValueError(
                f"`{PRIOR.name}` is the weight of a prior, and none of the methods has one; add "
                f"{registry.LEARNED}-we, or {registry.LEARNED}- before another distance."
            )

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    # What is trained

    def bases(self) -> list[str]:
        """The training methods that the study needs; one-hot comes first if a calibrator follows it."""
        needed = [registry.parts(name)[0] for name in self.methods]
        ordered = [name for name in (registry.ONE_HOT,) if name in needed]
        return list(dict.fromkeys(ordered + needed))

    def selects(self, method: str) -> str:
        """The number on validation rows by which a method's values are chosen."""
        return self.select or (REFINED if registry.parts(method)[1] is not None else "nll")

    def selections(self, base: str) -> list[str]:
        """The numbers by which values of a training method are chosen, for it and for calibrators that follow it."""
        followed = [self.selects(name) for name in self.methods if registry.parts(name)[0] == base]
        return list(dict.fromkeys(followed)) or [self.selects(base)]

    def learns_from_one_hot(self, base: str) -> bool:
        """Whether a method needs a network's outputs and has no file of them: then the one-hot network's are taken."""
        source = registry.named(base).source
        return source is not None and source.name == OUTPUTS and OUTPUTS not in self.sources

    @property
    def looks_up_words(self) -> bool:
        """Whether one of the methods compares the words that name the classes."""
        sources = [registry.named(base).source for base in self.bases()]
        return self.uses_kin or any(source is not None and "vectors" in source.options for source in sources)

    @property
    def heads(self) -> list[str]:
        """The methods that end in a head on features."""
        return [name for name in self.methods if registry.parts(name)[1] in HEADS]

    @property
    def uses_kin(self) -> bool:
        """Whether one of the heads leans on similar classes."""
        return any(registry.parts(name)[1] == USES_KIN for name in self.heads)

    @property
    def smooths(self) -> bool:
        """Whether the study's α applies to one of its methods."""
        methods = [registry.named(base) for base in self.bases()]
        return any(
            _smooths(method.training) or (method.source is not None and not method.learned) for method in methods
        )

    @property
    def trials(self) -> int:
        """The number of values that every tunable method tries; the same for all, to keep the comparison fair."""
        bases = self.bases() if self.methods else list(PAPER)
        counts: dict[str, int] = {}
        methods = [registry.named(base) for base in bases]
        if any(method.source is not None and not method.learned for method in methods):
            counts["alpha × beta"] = len(self.alpha) * len(self.beta)
        if len(self.parameters.get(PRIOR.name, ())) > 1:
            counts[PRIOR.name] = len(self.parameters[PRIOR.name])
        smoothing = any(_smooths(method.training) for method in methods)
        if smoothing and not self.uniform_alpha and len(self.alpha) > max((1, *counts.values())):
            counts["alpha"] = len(self.alpha)
        if self.uniform_alpha and smoothing:
            counts["uniform_alpha"] = len(self.uniform_alpha)
        if self.mixing and any(method.training is not None and method.training.tuned == "mixing" for method in methods):
            counts["mixing"] = len(self.mixing)
        for method in methods:
            tuned = None if method.training is None else method.training.tuned
            if tuned in self.parameters:
                counts[str(tuned)] = len(self.parameters[str(tuned)])
        if len(set(counts.values())) > 1:
            unequal = ", ".join(f"{key} has {count}" for key, count in counts.items())
            raise ValueError(f"every tunable method must get the same number of trials, but {unequal}.")
        return checks.count(next(iter(counts.values()), len(self.alpha)), "alpha × beta", most=MOST_VALUES)

    def candidates(self, base: str) -> list[dict[str, Value]]:
        """The values that a training method tries, one set for each trial; one-hot has nothing to try.

        An α of "auto" is one trial, however many values of β the others try: there is nothing else to try.
        """
        method = registry.named(base)
        if method.source is not None:
            kept: dict[str, Value] = {} if self.top_m is None else {"top_m": self.top_m}
            if method.learned:
                return self._leaning(kept)
            alphas, betas = _small_first(self.alpha), _small_first(self.beta)
            return [{"alpha": alpha, "beta": beta, **kept} for alpha in alphas for beta in betas]
        training = method.training
        if training is None:
            return [{}]
        mine = {parameter.name for parameter in training.parameters} - {training.tuned}
        fixed: dict[str, Value] = {name: values[0] for name, values in self.parameters.items() if name in mine}
        if training.tuned is None:
            return [fixed]
        parameter = _tuned(training)
        listed: tuple[Value, ...] = self.mixing if training.tuned == "mixing" else ()
        listed = listed or self.parameters.get(training.tuned, ())
        if _smooths(training):
            listed = self.uniform_alpha or _filled(self.alpha, self.trials)
        tried = _small_first(listed or _spread(parameter.default, self.trials))
        return [{training.tuned: value, **fixed} for value in tried]

    def _leaning(self, kept: Mapping[str, Value]) -> list[dict[str, Value]]:
        """The values of learned labels with a prior: its weights if the study lists several, otherwise values of α."""
        usual = _tuned(METHODS[registry.LEARNED]).default
        rows = _small_first(self.parameters.get(PRIOR.name, (PRIOR_ROWS,)))
        alphas = (usual,) if len(rows) > 1 else _spread(usual, self.trials)
        beta = self.beta[0] if len(self.beta) == 1 else "auto"
        return [{"alpha": alpha, "beta": beta, **kept, PRIOR.name: weight} for alpha in alphas for weight in rows]

    # As data

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["parameters"] = {name: list(grid) for name, grid in self.parameters.items()}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A study from plain data; an unknown key is refused with the nearest known one."""
        for key in values:
            require(key, (f.name for f in fields(cls)), "key")
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path, *, trust_model: str | Sequence[str] = ()) -> Self:
        """A study from a TOML file.

        Args:
            path: The file.
            trust_model: A "package.module:callable" that the file may name as its network: building that runs code.
        """
        values = trusted(read_toml(path), path, trust_model)
        with files.named(path):
            return cls.from_dict(values)

    @property
    def digest(self) -> str:
        """The digest that identifies this study."""
        return digest_of(self.to_dict())


def selectable() -> list[str]:
    """The numbers on validation rows by which a study can choose values."""
    return [*(metric.key for metric in catalogue.shown("select")), REFINED]


def read_toml(path: str | Path) -> dict[str, Any]:
    """A TOML file as plain data."""
    return files.read_toml(path, "a study")


def trusted(values: dict[str, Any], path: str | Path, trust_model: str | Sequence[str]) -> dict[str, Any]:
    """The study in a file, refused if its network is code that ``trust_model`` does not name."""
    if isinstance(values.get("model"), str):
        models.require_trust(values["model"], trust_model, where=str(path))
    return values


def _tuned(training: TrainingMethod) -> Parameter:
    return next(parameter for parameter in training.parameters if parameter.name == training.tuned)


def _smooths(training: TrainingMethod | None) -> bool:
    """Whether a study's grid of α applies to this method; that of learned labels weights what the network learns."""
    return training is not None and training.tuned == "alpha" and _tuned(training).automatic


def _small_first(values: Sequence[Value]) -> list[Value]:
    """Sort values with "auto" first, then numbers from small to large: of equal trials the first is chosen."""
    return sorted(values, key=lambda value: -1.0 if isinstance(value, str) else value)


def _check_sources(options: Mapping[str, Any]) -> None:
    known = source_options()
    for name, value in options.items():
        require(name, known, "`sources`:")
        if known[name].runs_code:
            raise ValueError(
                f"`sources` must not name {name!r}, as a file must not name code to run: write its distances first "
                "(softkin similarity … --distance encoder --output m/) and name that file as `matrix`."
            )
        wanted = int if known[name].kind == "int" else str
        if not isinstance(value, wanted) or isinstance(value, bool) or value == "":
            kind = "a whole number" if wanted is int else "a text"
            raise TypeError(f"`sources` must hold {kind} for {name!r}, got {value!r}.")
        if isinstance(value, int):
            checks.count(value, name)


def _parameter(name: str, values: Any) -> tuple[Value, ...]:
    """The values of a parameter, checked by each method that has it; its own fields of the study come first."""
    if name in OWN_FIELDS:
        raise ValueError(f"`parameters` must not hold {name!r}: the study has a key of that name.")
    takers = parameters()
    require(name, (other for other in takers if other not in OWN_FIELDS), "`parameters`:")
    grid = _grid(values, name)
    tuned = [method for method in takers[name] if METHODS[method].tuned == name]
    if len(grid) > 1 and not tuned and name != PRIOR.name:
        raise ValueError(f"`parameters` must hold one value for {name!r}, which no method tunes, got {len(grid)}.")
    for parameter in takers[name].values():
        for value in grid:
            parameter.check(value)
    return grid


def source_files(options: Mapping[str, Any]) -> dict[str, Path]:
    """The files that distance sources read, by option."""
    known = source_options()
    paths = {name: Path(value) for name, value in options.items() if known[name].kind == "file"}
    for name, value in options.items():
        if name not in paths:
            continue
        stem, colon, _ = value.rpartition(":")  # FILE.parquet:COLUMN
        if name == TREE and colon and Path(stem).is_file():
            paths[name] = Path(stem)
    return {name: path for name, path in paths.items() if path.is_file()}


def _numbers(values: Sequence[Value]) -> tuple[float, ...]:
    """The values that are not "auto"."""
    return tuple(value for value in values if not isinstance(value, str))


def _grid(values: Any, name: str) -> tuple[Value, ...]:
    automatic = name != "mixing"
    if isinstance(values, Mapping) or (isinstance(values, str) and not (automatic and values == "auto")):
        raise TypeError(f"`{name}` must be a number or a list of numbers{', or auto' * automatic}, got {values!r}.")
    listed = tuple(values) if isinstance(values, list | tuple) else (values,)
    if len(listed) > MOST_VALUES:
        raise ValueError(f"`{name}` must hold at most {MOST_VALUES:,} numbers, got {len(listed):,}.")
    grid: tuple[Value, ...] = tuple(
        "auto" if automatic and isinstance(value, str) and value == "auto" else checks.at_least_zero(value, name)
        for value in listed
    )
    if not grid and name in ("alpha", "beta"):
        raise ValueError(f"`{name}` must hold at least one number, got none.")
    return tuple(dict.fromkeys(grid))


def _seeds(values: Any) -> tuple[int, ...]:
    if isinstance(values, int) and not isinstance(values, bool):
        return tuple(range(checks.count(values, "seeds", most=MOST_SEEDS)))
    if isinstance(values, str) or not isinstance(values, list | tuple):
        raise TypeError(f"`seeds` must be how many, or a list of seeds, got {values!r}.")
    checks.count(len(values), "seeds", least=0, most=MOST_SEEDS)
    seeds = tuple(checks.count(value, "seeds", least=0, most=MOST_SEED) for value in values)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"`seeds` must hold at least one seed and none twice, got {_short(values)}.")
    return seeds


def _short(values: Sequence[Any]) -> str:
    shown = ", ".join(map(str, values[:10]))
    return f"{shown} …" if len(values) > 10 else shown or "none"


def _texts(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, str):
        return tuple(part.strip() for part in values.split(",") if part.strip())
    if not isinstance(values, list | tuple):
        raise TypeError(f"`{name}` must be a list of names, got {values!r}.")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"`{name}` must hold names, got {value!r}.")
    return tuple(values)


def _filled(given: Sequence[Value], count: int) -> tuple[Value, ...]:
    """These values of α, and others until there are ``count``, if any of them is a number.

    Twice the largest comes first, then half of the least, then the middles of the widest gaps between values.
    """
    numbers = set(_numbers(given))
    least, largest = (max(0.01, end(numbers, default=0.01)) for end in (min, max))
    missing = count - len(given) if numbers else 0
    for value in (min(2 * largest, 0.9), least / 2):  # α stays below 1
        if missing > 0 and value not in numbers:
            numbers.add(value)
            missing -= 1
    for _ in range(missing):
        ordered = sorted(value for value in numbers if value > 0)
        low, high = max(pairwise(ordered), key=lambda pair: round(pair[1] / pair[0], 6))
        numbers.add(float(f"{math.sqrt(low * high):.6g}"))
    return (*(value for value in given if isinstance(value, str)), *sorted(numbers))


def _spread(usual: float, count: int) -> tuple[float, ...]:
    """``count`` values in equal ratios from half of the usual one to twice that; a single value is the usual one."""
    if count == 1:
        return (float(f"{usual:.6g}"),)
    usual = max(usual, 0.01)  # 0 has no half
    start, end = usual / 2, 2 * usual
    if usual < 1:
        end = min(end, 0.9)  # α stays below 1, and no two trials are the same
    ratio = (end / start) ** (1 / (count - 1))
    return tuple(float(f"{start * ratio**i:.6g}") for i in range(count))
