"""What a training method declares about itself, and the registry of those declarations.

Commands, studies, tables and records are views of ``METHODS``. A method is declared by the class that has its formula:
``class Focal(Objective, name="focal", parameters=(…,))``, see ``objectives/``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from softkin._core.names import Registry
from softkin._core.options import Option

if TYPE_CHECKING:
    from torch import nn

    from softkin.lab.training.methods import Method
    from softkin.lab.training.objectives import Objective

Value: TypeAlias = float | Literal["auto"]
"""A parameter's value; "auto": the training chooses it"""


@dataclass(frozen=True)
class Parameter:
    """A number that a training method depends on."""

    name: str
    letter: str
    """The symbol of the parameter in tables"""
    default: float
    about: str
    """Its meaning, as a phrase for help and messages"""
    allowed: Literal["at least 0", "above 0", "share", "count"] = "at least 0"
    """"share": at least 0 and below 1; "count": a whole number of at least 0"""
    automatic: bool = False
    """Whether "auto" is allowed"""

    def check(self, value: Value) -> Value:
        """Refuse an invalid value."""
        from softkin._core import checks

        if isinstance(value, str):
            if value == "auto" and self.automatic:
                return "auto"
            takers = [name for name, parameter in parameters()[self.name].items() if parameter.automatic]
            auto = f", or 'auto' for {' and '.join(takers)}" if takers else ""
            raise ValueError(f"`{self.name}` must be a number{auto}, got {value!r}.")
        if self.allowed == "count":
            return checks.count(int(value) if float(value).is_integer() else value, self.name, least=0)  # type: ignore[arg-type]
        if self.allowed == "share" and self.name == "alpha":
            return checks.alpha(value)
        checked = checks.at_least_zero(value, self.name)
        if checked == 0 and self.allowed == "above 0":
            raise ValueError(f"`{self.name}` must be above 0, got 0; it is {self.about}.")
        if checked >= 1 and self.allowed == "share":
            raise ValueError(f"`{self.name}` must be below 1, got {checked:g}; it is {self.about}.")
        return checked


Target = Callable[["Method", int], str]
"""(method, number of classes) → the target of a sample, in words and numbers"""
MakeObjective = Callable[["Method", int], "Objective"]
"""(method, number of classes) → the loss"""
MakeCompanion = Callable[["Method", "nn.Module", int, int], "nn.Module"]
"""(method, network, number of classes, seed) → the module that is trained instead of the network"""


@dataclass(frozen=True)
class TrainingMethod:
    """A way to label samples, or to mix them."""

    name: str
    title: str
    """Its name in tables; studies accept it in lower case"""
    target: Target
    objective: MakeObjective | None = None
    """None for a way to mix, which leaves the loss to the way to label"""
    parameters: tuple[Parameter, ...] = ()
    tuned: str | None = None
    """The parameter that a study tunes: values around its default, unless the study lists values"""
    from_distances: bool = False
    """Whether its labels come from class distances: a study then has one column for each distance source"""
    images_only: bool = False
    pastes: bool = False
    """Whether a way to mix pastes a rectangle of the second image instead of adding both images"""
    mixable: bool = True
    """Whether its loss accepts mixed samples of two classes"""
    from_validation: bool = False
    """Whether its loss learns from every validation"""
    companion: MakeCompanion | None = None
    """Makes the module that it puts around the network, such as ``bayes.Swag``"""
    options: Callable[["Method"], dict[str, Any]] | None = None
    """Options with which the network is built, if the network has them"""
    several: bool = False
    """Whether it trains several networks, as many as its parameter ``members`` says"""
    distils: bool = False
    """Whether one more network is trained on labels that these networks give"""

    @property
    def mixes(self) -> bool:
        """Whether it is a way to mix rather than a way to label."""
        return self.objective is None


METHODS: Registry[TrainingMethod] = Registry("training method")


def declare(made: type, name: str, title: str | None = None, *, aliases: tuple[str, ...] = (), **about: Any) -> None:
    """Register the method that a class defines, under its name, its title and ``aliases``.

    Args:
        made: The class: its ``target`` describes the labels in words.
        name: Its name in commands and files.
        title: Its name in tables; by default ``name``.
        aliases: Other accepted spellings.
        about: Other fields of ``TrainingMethod``.
    """
    declared: Any = made
    lower = (title or name).lower()
    others = [lower] if lower not in (name, *aliases, *METHODS) else []
    method = TrainingMethod(name, title or name, declared.target, **about)
    METHODS.add(name, method, aliases=(*aliases, *others), origin=made)


def parameters() -> dict[str, dict[str, Parameter]]:
    """The name of each parameter → the methods that have it, with each method's declaration of it."""
    by_name: dict[str, dict[str, Parameter]] = {}
    for name, method in METHODS.items():
        for parameter in method.parameters:
            by_name.setdefault(parameter.name, {})[name] = parameter
    return by_name


def options() -> list[Option]:
    """The parameters as options: the meaning of each, and its default for each method that has it."""
    return [Option(name, _meaning(takers), "value") for name, takers in parameters().items()]


def _meaning(takers: dict[str, Parameter]) -> str:
    usual = next(iter(takers.values()))
    others = "".join(
        f"; {method} {parameter.default:g}"
        for method, parameter in takers.items()
        if parameter.default != usual.default
    )
    of = "" if len(takers) > 1 else f", for {next(iter(takers))}"
    auto = "; also auto" if usual.automatic else ""
    return f"{usual.about}{of} (default: {usual.default:g}{others}{auto})"


def letters() -> dict[str, str]:
    """The letter of each parameter, by its name."""
    return {name: next(iter(takers.values())).letter for name, takers in parameters().items()}


def in_words(values: Mapping[str, Value]) -> str:
    """Values of parameters as text.

    Example:
        >>> in_words({"alpha": 0.1, "beta": 2.0})
        'α = 0.1, β = 2'
    """
    known = letters()
    return ", ".join(f"{known.get(name, name)} = {text_of(value)}" for name, value in values.items())


def text_of(value: Value) -> str:
    """A value as text."""
    return value if isinstance(value, str) else f"{value:g}"
