"""Methods that average over networks, as a training makes them."""

import numpy as np
import pytest
import torch

from softkin import bayes, smoothing
from softkin.lab import data, training
from softkin.lab.training import Method, Recipe
from softkin.lab.training.training_run import cost
from training_parts import FEW, build, fit


@pytest.fixture(scope="module")
def split():
    return data.split("digits", max_per_class=6, test=120, validation=80)


def test_swag_collects_at_a_constant_rate_after_its_start(split):
    rates = []
    trained = fit(split, Method("swag", passes=2, swa_share=0.5, swa_lr=0.02),
                  progress=lambda event: rates.append(event["learning_rate"]) if event["event"] == "step" else None)  # fmt: skip
    usual = Recipe.named("small", epochs=8)
    assert rates[:8] == [usual.learning_rate(step, 2) for step in range(8)]
    assert rates[8:] == [0.02] * 8
    assert int(trained.model.collected) == 4


def test_the_first_member_is_the_network_of_one_hot(split):
    ensemble, alone = fit(split, FEW["ensemble"]), fit(split, "one-hot")
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            ensemble.model.networks[0].state_dict().values(), alone.model.state_dict().values(), strict=True
        )
    )
    members = [
        training.predict(net, split.test, standardisation=alone.standardisation) for net in ensemble.model.networks
    ]
    mean = sum(member.probabilities for member in members) / 2
    torch.testing.assert_close(training.predict(ensemble, split.test).probabilities, mean)
    assert not torch.equal(members[0].logits, members[1].logits)


def test_a_distilled_network_learns_what_the_ensemble_takes_classes_for(split):
    ensemble, distilled = fit(split, FEW["ensemble"]), fit(split, FEW["distilled"])
    s = bayes.distilled_similarity(training.predict(ensemble, split.validation))
    method = Method("similarity", soft_labels=smoothing.similarity_labels(s, 0.1), distance="ensemble")
    twin = training.fit(build(1), split.train, split.validation, method=method, recipe=Recipe.named("small", epochs=8),
                        device="cpu", seed=1, progress=False)  # fmt: skip
    first, second = (training.predict(trained, split.test) for trained in (twin, distilled))
    assert torch.equal(first.logits, second.logits)
    assert cost(distilled) == {"passes": 1, "memory": 1.0, "networks": 3}
    assert distilled.effective_target.startswith("class-similarity smoothing, α = 0.1: 0.9 on the true class")


def test_laplace_of_a_training_is_that_of_its_network(split):
    trained = fit(split, "laplace")
    plain = fit(split, "one-hot")
    inputs = torch.from_numpy(split.train.values).permute(0, 3, 1, 2).float()
    mean, std = (
        torch.tensor(part).view(-1, 1, 1) for part in (trained.standardisation.mean, trained.standardisation.std)
    )
    loader = [((inputs - mean) / std, torch.from_numpy(split.train.labels.astype(np.int64)))]
    twin = bayes.Laplace(plain.model).fit(loader)
    assert float(trained.model.precision) == pytest.approx(float(twin.precision), rel=1e-4)
