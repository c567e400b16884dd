"""Bayesian networks and ensembles, whose ``Predictions`` average over plausible weights.

    mean = bayes.mc_dropout(model, test_loader, passes=30)                  # dropout stays on
    mean = bayes.Swag(model).collect() … .predict(test_loader, train_loader=train_loader)
    mean = bayes.Laplace(model).fit(train_loader).predict(test_loader)
    mean = bayes.Ensemble([first, second, third]).predict(test_loader)

Each class works with any network that returns logits. Each is an ``nn.Module`` around the network, so that its state is
saved and moved with the network. ``members=True`` keeps the probabilities of every member; ``mutual_information`` of
the predictions measures how much the members disagree about a sample. The training methods "mc-dropout", "swag",
"laplace", "ensemble" and "distance" of ``softkin train`` and ``softkin compare`` use these classes.
"""

from softkin.bayes.averages import Ensemble, McDropout, distilled_similarity, mc_dropout
from softkin.bayes.laplace import Laplace
from softkin.bayes.posterior import Averaged, Companion, Posterior
from softkin.bayes.prototypes import Prototypes
from softkin.bayes.swag import Swag

__all__ = [
    "Averaged",
    "Companion",
    "Ensemble",
    "Laplace",
    "McDropout",
    "Posterior",
    "Prototypes",
    "Swag",
    "distilled_similarity",
    "mc_dropout",
]
