"""Networks and methods that train in a moment, which the tests of training share."""

from softkin.lab import models, training
from softkin.lab.training import Method, Recipe


def build(seed, **options):
    return models.build_for("small(width=2, hidden=8, norm=True)", 10, (1, 8, 8), seed, **options)


def fit(split, method, *, epochs=8, make=build, **options):
    changes = {name: options.pop(name) for name in ("stop_by",) if name in options}
    return training.fit_method(
        make,
        split.train,
        split.validation,
        method=method if isinstance(method, Method) else Method(method),
        recipe=Recipe.named("small", epochs=epochs, **changes),
        device="cpu",
        seed=1,
        **{"checkpoint_every": 0, "progress": False} | options,
    )


FEW = {
    "mc-dropout": Method("mc-dropout", passes=3),
    "swag": Method("swag", passes=3, swa_share=0.5, rank=3),
    "laplace": Method("laplace"),
    "laplace, sampled": Method("laplace", passes=4),
    "ensemble": Method("ensemble", members=2),
    "distilled": Method("distilled", members=2),
    "distance": Method("distance", passes=2),
    "class-adaptive": Method("class-adaptive"),
    "stop by ECE": Method("one-hot"),
}
