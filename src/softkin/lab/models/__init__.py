"""Networks: the paper's, small ones for digits, features and text, and any other by the name of its constructor.

``build`` returns a network whose initial weights depend on ``seed`` alone. All networks take standardised
floating-point inputs and return logits.
"""

import ast
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.modes import evaluating
from softkin._core.names import Registry, did_you_mean
from softkin._core.randomness import seeded
from softkin.distances.autoencoder import autoencoder
from softkin.lab.models.networks import bag_of_words, densenet161, mlp, resnet18, resnet34, small, wrn, wrn50_2

__all__ = [
    "NETWORKS",
    "Network",
    "autoencoder",
    "build",
    "build_for",
    "check",
    "default_network",
    "has_option",
    "is_code",
    "names",
    "require_trust",
]


@dataclass(frozen=True)
class Network:
    """A network that can be built by name."""

    make: Callable[..., nn.Module]
    takes: str
    """"images", "vectors" or "any"."""
    pixels: int = 1
    """The smallest image side that the network does not shrink to nothing."""


NETWORKS: Registry[Network] = Registry("network")
NETWORKS.add("bag_of_words", Network(bag_of_words, "vectors"))
NETWORKS.add("densenet161", Network(densenet161, "images", 8))
NETWORKS.add("mlp", Network(mlp, "any"))
NETWORKS.add("resnet18", Network(resnet18, "images"))
NETWORKS.add("resnet34", Network(resnet34, "images"))
NETWORKS.add("small", Network(small, "images", 4))
NETWORKS.add("wrn", Network(wrn, "images"))
NETWORKS.add("wrn50_2", Network(wrn50_2, "images"))

SMALL_IMAGES = 28  # pixels of the shorter side: `small` trains on digits and Fashion-MNIST with a CPU
CLASS_OPTIONS = ("num_classes", "num_labels", "n_classes", "classes")  # common parameter names for K


def names() -> list[str]:
    """The names that ``build`` accepts."""
    return sorted(NETWORKS)


def default_network(kind: str, input_shape: Sequence[int]) -> str:
    """The default network for data of a kind ("images", "features", "text").

    The choice can be trained on a CPU: ``small`` for images of up to 28 pixels per side, ``wrn`` for larger ones,
    ``mlp`` for features, ``bag_of_words`` for texts.

    Example:
        >>> default_network("images", (1, 28, 28)), default_network("images", (3, 32, 32))
        ('small', 'wrn')
    """
    if kind != "images":
        return "bag_of_words" if kind == "text" else "mlp"
    return "small" if min(input_shape[1:]) <= SMALL_IMAGES else "wrn"


def build(
    name: "str | nn.Module | Callable[..., nn.Module]",
    *,
    num_classes: int,
    input_shape: Sequence[int],
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """A network with ``num_classes`` logits.

    Args:
        name: One of ``names()``, perhaps with options as in "wrn(units=2)"; "package.module:callable" (such as
            "torchvision.models:resnet18" or "timm:create_model"); or the callable itself. A callable is called with the
            options, and with ``num_classes``, ``input_shape`` and ``seed`` if its signature names them (``num_classes``
            also if it takes any keyword, unless an option such as ``num_labels`` sets it). An ``nn.Module`` is used as
            it is.
        num_classes: K, at least 2.
        input_shape: (channels, height, width) of images, or (D,) of features and word counts.
        seed: Seeds the initial weights without changing the default generator; None draws from the default generator.
        options: Options of the network.

    Returns:
        A module on the CPU, in training mode. Modules and networks from other packages are checked with one batch of
        zeros: their output must have ``num_classes`` columns. If the output has an attribute ``logits``, as in
        transformers, the module returns those logits.

    Example:
        >>> network = build("wrn", num_classes=100, input_shape=(3, 32, 32), seed=0, units=2)
        >>> sum(weights.numel() for weights in network.parameters())
        180916
    """
    num_classes = checks.count(num_classes, "num_classes", least=2)
    shape = _shape(input_shape)
    if seed is not None:
        seed = checks.count(seed, "seed", least=0)
    if isinstance(name, nn.Module):
        if options:
            raise TypeError(
                f"`options` must be left out with a network that is built already, got {', '.join(options)}."
            )
        return _checked(name, num_classes, shape, type(name).__name__)
    if not isinstance(name, str):
        if not callable(name):
            raise TypeError(f"`name` must be a network's name, an nn.Module or a callable, got {name!r}.")
        return _made(name, getattr(name, "__name__", repr(name)), num_classes, shape, seed, options)
    name, options = check(name, **options)
    if ":" in name:
        return _made(_find(name), name, num_classes, shape, seed, options)
    network = NETWORKS[name]
    _fits(name, network, shape)
    try:
        with seeded(seed):
            return network.make(num_classes, shape, **options)
    except (RuntimeError, MemoryError, OverflowError) as error:  # options that ask for more memory than there is
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise SoftkinError(f"{name} could not be built with {_in_words(options)}: {first}") from error


def build_for(
    name: str,
    num_classes: int,
    input_shape: Sequence[int],
    seed: int,
    options: Mapping[str, Any] | None = None,
    **wished: Any,
) -> nn.Module:
    """``build`` with all ``options`` and those of ``wished`` that the network has; ``options`` take precedence."""
    own = dict(options or {})
    written = {**_parse(name)[1], **own}
    known = {key: value for key, value in wished.items() if key not in written and has_option(name, key)}
    return build(name, num_classes=num_classes, input_shape=input_shape, seed=seed, **known, **own)


def check(name: str, **options: Any) -> tuple[str, dict[str, Any]]:
    """Refuse a name or options that ``build`` would refuse for any data; return the bare name and all options.

    Example:
        >>> check("wrn(units=2)", widen=2)
        ('wrn', {'units': 2, 'widen': 2})
    """
    name, written = _parse(name)
    options = {**written, **options}
    if ":" in name:
        return name, options
    spelling = name.lower().replace("-", "_")
    if spelling not in NETWORKS:
        raise ValueError(
            f"network {name!r} is not known; there are {', '.join(names())}, and package.module:callable"
            + did_you_mean(spelling, NETWORKS.spellings)
        )
    name = NETWORKS.canonical(spelling)
    _known_options(name, NETWORKS[name].make, options)
    return name, options


def require_package(name: str) -> None:
    """Refuse "package.module:callable" if the package is not installed, without importing it."""
    package = name.partition(":")[0].partition(".")[0]
    if ":" in name and importlib.util.find_spec(package) is None:
        raise SoftkinError(f"{name} could not be imported: there is no package {package!r}; is it installed?")


def has_option(name: str, option: str) -> bool:
    """Whether a network of softkin has an option; False for networks from other packages.

    Example:
        >>> has_option("mlp(hidden=8)", "dropout"), has_option("torchvision.models:resnet18", "dropout")
        (True, False)
    """
    bare, _ = _parse(name)
    if ":" in bare:
        return False
    return option in inspect.signature(NETWORKS[check(bare)[0]].make).parameters


def is_code(name: str) -> bool:
    """Whether a network's name is a "package.module:callable", which is imported and called when built."""
    return ":" in _parse(name)[0]


def require_trust(name: str, trust_model: str | Sequence[str], *, where: str) -> None:
    """Refuse a "package.module:callable" that comes from a file, unless the caller trusts that name explicitly.

    Args:
        name: A network's name as found in a file.
        trust_model: The names that the caller trusts.
        where: The file or folder named in the error.
    """
    trusted = [trust_model] if isinstance(trust_model, str) else list(trust_model)
    if is_code(name) and name not in trusted and _parse(name)[0] not in trusted:
        bare = _parse(name)[0]
        raise SoftkinError(
            f"{where} names the network {bare}, which is code that would be run here; "
            f"if you trust it, pass --trust-model {bare} (in Python trust_model={bare!r})."
        )


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(shape, Sequence) or len(shape) not in (1, 3):
        raise ValueError(f"`input_shape` must be (channels, height, width) or (D,), got {shape!r}.")
    return tuple(checks.count(side, "input_shape") for side in shape)


def _parse(name: str) -> tuple[str, dict[str, Any]]:
    """Split ``"wrn(units=2)"`` into name and options; the values are literals, and nothing is evaluated."""
    bare, bracket, _ = name.partition("(")
    if not bracket:
        return name.strip(), {}
    try:
        call = ast.parse(f"f{name[len(bare) :]}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError
        return bare.strip(), {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise ValueError(f"`name` must write its options as in wrn(units=2), got {name!r}.") from None


def _fits(name: str, network: Network, shape: tuple[int, ...]) -> None:
    """Refuse input shapes that this network cannot take."""
    if network.takes == "images" and len(shape) == 1:
        raise ValueError(
            f"{name} takes images, `input_shape` must be (channels, height, width), got {shape}; "
            "for features there is mlp, for word counts bag_of_words."
        )
    if network.takes == "vectors" and len(shape) == 3:
        raise ValueError(
            f"{name} takes word counts, `input_shape` must be (D,), got {shape}; for images there is small."
        )
    if len(shape) == 3 and min(shape[1:]) < network.pixels:
        raise ValueError(
            f"{name} needs images of at least {network.pixels} pixels per side, got {shape[1]}×{shape[2]}."
        )


def _known_options(name: str, make: Callable[..., nn.Module], options: dict[str, Any]) -> None:
    """Refuse options that the network does not have, and invalid counts."""
    parameters = inspect.signature(make).parameters
    known = [option for option in parameters if option not in ("num_classes", "input_shape")]
    for option, value in options.items():
        if option not in known:
            raise TypeError(
                f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}{did_you_mean(option, known)}"
            )
        if isinstance(parameters[option].default, float):
            if not 0 <= checks.number(value, option) < 1:
                raise ValueError(f"`{option}` must be at least 0 and below 1, got {value:g}.")
        elif not isinstance(parameters[option].default, bool):
            checks.count(value, option)
        elif not isinstance(value, bool):
            raise TypeError(f"`{option}` must be True or False, got {value!r}.")


def _find(name: str) -> Callable[..., nn.Module]:
    """The callable behind "package.module:callable", or ":Class.method"."""
    module_name, _, path = name.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise SoftkinError(f"{name} could not be imported: {error}; is the package installed?") from error
    for part in path.split("."):
        if not hasattr(target, part):
            raise SoftkinError(
                f"{name} could not be found: {module_name} has no {path!r}{did_you_mean(part, dir(target))}"
            )
        target = getattr(target, part)
    if not callable(target):
        raise TypeError(f"{name} must be a callable that returns a network, got {type(target).__name__}.")
    made: Callable[..., nn.Module] = target
    return made


def _made(
    make: Callable[..., nn.Module],
    name: str,
    num_classes: int,
    shape: tuple[int, ...],
    seed: int | None,
    options: dict[str, Any],
) -> nn.Module:
    """The network built by a callable from another package, after checks."""
    try:
        parameters = dict(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # some built-in callables have no signature
        parameters = {}
    offered = {"num_classes": num_classes, "input_shape": shape, "seed": seed}
    arguments = {key: value for key, value in offered.items() if key in parameters and key not in options}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if takes_any and not any(option in options or option in parameters for option in CLASS_OPTIONS):
        arguments["num_classes"] = num_classes
    try:
        with seeded(seed):
            network = make(**arguments, **options)
    except TypeError as error:  # usually one option too many or too few
        raise TypeError(f"{name} cannot be called with {_in_words({**arguments, **options})}: {error}") from error
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise SoftkinError(f"{name} could not be built: {type(error).__name__}: {first}") from error
    if not isinstance(network, nn.Module):
        raise TypeError(f"{name} must return an nn.Module, got {type(network).__name__}.")
    return _checked(network, num_classes, shape, name)


def _in_words(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "no options"


class Logits(nn.Module):
    """A network that returns the ``logits`` of another network's structured output, such as that of transformers."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x).logits
        return logits


def _checked(network: nn.Module, num_classes: int, shape: tuple[int, ...], name: str) -> nn.Module:
    """The network, refused unless a batch of zeros gives ``num_classes`` columns."""
    like = next((weights for weights in network.parameters() if weights.is_floating_point()), torch.zeros(0))
    zeros = torch.zeros((2, *shape), dtype=like.dtype, device=like.device)
    try:
        with torch.no_grad(), seeded(0), evaluating(network):  # which keeps BatchNorm's running statistics unchanged
            out = network(zeros)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{name} does not take inputs of shape {shape}: {first}") from error
    if not isinstance(out, Tensor) and isinstance(getattr(out, "logits", None), Tensor):
        network, out = Logits(network).train(network.training), out.logits
    if not isinstance(out, Tensor):
        raise TypeError(f"{name} must return a tensor of logits, got {type(out).__name__}.")
    if out.ndim != 2 or out.shape != (2, num_classes):
        raise ValueError(
            f"{name} must return logits of shape (N, {num_classes}), one column for each class, got (N"
            + "".join(f", {side}" for side in out.shape[1:])
            + "); was it made for another number of classes?"
        )
    return network
