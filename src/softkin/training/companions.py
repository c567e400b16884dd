"""Training methods that need more than one network as it is: dropout in it, something beside it, or several of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from softkin.bayes import Companion, Ensemble, Laplace, McDropout, Prototypes, Swag
from softkin.training.batches import key
from softkin.training.loop import Trained, fit
from softkin.training.methods import Method
from softkin.training.recipe import Recipe

if TYPE_CHECKING:
    from softkin.data import Labelled

Build = Callable[..., nn.Module]
"""(seed, **options) → a network"""


def fit_method(
    build: Build,
    train: "Labelled",
    validation: "Labelled | None" = None,
    *,
    method: Method,
    recipe: Recipe,
    seed: int = 0,
    folder: str | Path | None = None,
    **options: Any,
) -> Trained:
    """Build what a method trains, and train it: ``fit`` for every method, also for those of several networks.

    The members of an ensemble differ in their initial weights and in the order of the rows; the first is the network
    that "one-hot" trains with the same seed. Each has checkpoints of its own, so a crash costs at most one of them.

    Args:
        build: ``build(seed)`` makes a network; where the method wants it, ``build(seed, dropout=0.2)``.
        train: What to train on.
        validation: As for ``fit``.
        method: Any.
        recipe: As for ``fit``.
        seed: Of the weights too.
        folder: Where checkpoints go.
        options: Others of ``fit``.
    """
    wanted = {} if method.labelling.network_options is None else method.labelling.network_options(method)
    members = int(method.values.get("members", 0))
    if not method.labelling.several:
        network = build(seed, **wanted)
        return fit(network, train, validation, method=method, recipe=recipe, seed=seed, folder=folder, **options)
    trained = []
    for place in range(max(1, members)):
        own = seed if place == 0 else key(seed, "member", place)
        where = None if folder is None else Path(folder) / f"member-{place}" if place else Path(folder)
        alone = Method("one-hot")
        trained.append(
            fit(build(own), train, validation, method=alone, recipe=recipe, seed=own, folder=where, **options)
        )
    first = trained[0]
    target = method.effective_target(len(first.class_names))
    return replace(
        first,
        model=Ensemble([member.model for member in trained]).eval(),
        seconds=sum(member.seconds for member in trained),
        resumed=any(member.resumed for member in trained),
        effective_target=target,
        record={**first.record, "method": method.to_dict(), "effective_target": target},
    )


def cost(model: nn.Module) -> dict[str, float] | None:
    """What a prediction takes beside one of the plain network: passes through it, and times its memory."""
    if not isinstance(model, Companion):
        return None
    plain = sum(tensor.numel() for tensor in model.network.state_dict().values())
    networks = model.count if isinstance(model, Ensemble) else 1
    return {"passes": model.passes, "memory": model.held / max(1, plain), "networks": networks}


# What stands beside the network, by the method's name for it


def mc_dropout(method: Method, network: nn.Module, num_classes: int, seed: int) -> nn.Module:
    return McDropout(network, passes=int(method.values["passes"]), seed=seed)


def swag(method: Method, network: nn.Module, num_classes: int, seed: int) -> nn.Module:
    values = method.values
    return Swag(
        network,
        rank=int(values["rank"]),
        samples=int(values["passes"]),
        seed=seed,
        start=1 - values["swa_share"],
        lr=values["swa_lr"],
    )


def laplace(method: Method, network: nn.Module, num_classes: int, seed: int) -> nn.Module:
    draws = int(method.values["passes"])
    if draws == 0:
        return Laplace(network, seed=seed)
    return Laplace(network, prediction="sampled", samples=draws, seed=seed)


def prototypes(method: Method, network: nn.Module, num_classes: int, seed: int) -> nn.Module:
    return Prototypes(network, num_classes, draws=int(method.values["passes"]), seed=seed)
