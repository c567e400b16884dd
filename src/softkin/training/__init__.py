"""Training: images, features or word counts, a network, a method and a recipe → a network and its predictions.

    trained = training.fit(model, split.train, split.validation,
                           method=training.Method("uniform"), recipe=training.Recipe.named("small"), folder="run")
    test = training.predict(trained, split.test, name="test")

``fit`` is one plain loop (``loop.py``) over pieces named after what they decide: ``recipe.py`` the optimizer and its
learning rate, ``methods.py`` and ``objectives.py`` the target and the loss, ``batches.py`` which rows come when and
how they look, ``checkpoints.py`` what survives a crash, ``launch.py`` devices and processes, ``live.py`` what is shown.
"""

from softkin.training.batches import Standardisation
from softkin.training.class_distances import class_distances
from softkin.training.class_distances import measured as measured_distances
from softkin.training.loop import Trained, fit
from softkin.training.methods import Method
from softkin.training.prediction import predict
from softkin.training.recipe import Recipe

__all__ = ["Method", "Recipe", "Standardisation", "Trained", "class_distances", "fit", "measured_distances", "predict"]
