"""Training methods that need more than one plain network: added dropout, a companion module, or several networks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from softkin import smoothing
from softkin._core.randomness import key
from softkin.bayes import Companion, Ensemble, distilled_similarity
from softkin.lab.training.loop import Trained, fit
from softkin.lab.training.methods import SIMILARITY, Method
from softkin.lab.training.prediction import predict
from softkin.lab.training.recipe import Recipe

if TYPE_CHECKING:
    from softkin.lab.data import Labelled

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
    """Build and train what a method needs: like ``fit``, but also for methods that train several networks.

    The members of an ensemble differ in their initial weights and in the order of the rows; the first is the network
    that "one-hot" trains with the same seed. Each has checkpoints of its own, so a crash costs at most one of them.

    Args:
        build: ``build(seed)`` makes a network; for "mc-dropout" ``build(seed, dropout=0.2)`` is called.
        train: The training rows.
        validation: The validation rows, as for ``fit``.
        method: Any.
        recipe: The recipe, as for ``fit``.
        seed: The seed of ``fit``, and of the initial weights.
        folder: The folder for checkpoints.
        options: Other options of ``fit``.
    """
    wanted = {} if method.labelling.options is None else method.labelling.options(method)
    path = None if folder is None else Path(folder)

    def trained(member: Method, own: int, part: str | None = None) -> Trained:
        subfolder = path if path is None or part is None else path / part
        return fit(
            build(own, **wanted), train, validation, method=member, recipe=recipe, seed=own, folder=subfolder, **options
        )

    if not method.labelling.several:
        return trained(method, seed)
    seeds = [seed, *(key(seed, "member", place) for place in range(1, int(method.values["members"])))]
    members = [trained(Method("one-hot"), own, f"member-{place}" if place else None) for place, own in enumerate(seeds)]
    ensemble = replace(members[0], model=Ensemble([member.model for member in members]).eval())
    networks = members
    if method.labelling.distils:
        networks = [*members, trained(_taught(method, ensemble, validation), seed, "student")]
    target = method.effective_target(len(ensemble.class_names))
    about = {"method": method.to_dict(), "effective_target": target, "networks": len(networks)}
    return replace(
        networks[-1] if method.labelling.distils else ensemble,
        seconds=sum(member.seconds for member in networks),
        resumed=any(member.resumed for member in networks),
        effective_target=target,
        record={**networks[-1].record, **about, "seed": seed},
    )


def _taught(method: Method, ensemble: Trained, validation: "Labelled | None") -> Method:
    """Class-similarity smoothing with the similarity that the ensemble shows on the validation rows."""
    if validation is None or len(validation.labels) == 0:
        raise ValueError(f"the method {method.label} needs validation rows, but there are none.")
    s = distilled_similarity(predict(ensemble, validation))
    return Method(
        SIMILARITY.name, soft_labels=smoothing.similarity_labels(s, method.values["alpha"]), distance="ensemble"
    )


def cost(trained: Trained) -> dict[str, float] | None:
    """The cost of a method relative to the plain network: passes per prediction, memory factor, networks trained."""
    model, networks = trained.model, trained.record.get("networks", 1)
    if not isinstance(model, Companion):
        return None if networks == 1 else {"passes": 1, "memory": 1.0, "networks": networks}
    plain = sum(tensor.numel() for tensor in model.network.state_dict().values())
    return {"passes": model.passes, "memory": model.held / max(1, plain), "networks": networks}
