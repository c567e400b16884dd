"""Recipes: schedules against torch's own, names, and what is refused."""

import json
import re

import pytest
import torch

from softkin.lab.training import Recipe


def torchs(make, steps):
    """The learning rates that a scheduler of torch gives."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def ours(recipe, steps_per_epoch):
    return [recipe.learning_rate(step, steps_per_epoch) for step in range(recipe.epochs * steps_per_epoch)]


def test_the_step_schedule_is_torchs_multi_step():
    recipe = Recipe(epochs=10, milestones=(3, 6, 8), warmup_epochs=0)
    expected = torchs(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [12, 24, 32], 0.2), 40)
    assert ours(recipe, 4) == pytest.approx(expected, rel=1e-12)


def test_the_cosine_schedule_is_torchs():
    recipe = Recipe(epochs=10, schedule="cosine", warmup_epochs=0)
    expected = torchs(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 40), 40)
    assert ours(recipe, 4) == pytest.approx(expected, rel=1e-9)


def test_the_one_cycle_schedule_is_torchs():
    recipe = Recipe(epochs=10, schedule="one-cycle")
    expected = torchs(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=40, cycle_momentum=False), 40)
    assert ours(recipe, 4) == pytest.approx(expected, rel=1e-9)
    assert ours(Recipe(epochs=1, schedule="one-cycle"), 1) == [pytest.approx(0.1)]


def test_the_warm_up_rises_evenly_to_the_full_rate():
    recipe = Recipe(epochs=3, schedule="constant", warmup_epochs=1)
    assert ours(recipe, 4) == pytest.approx([0.025, 0.05, 0.075] + [0.1] * 9)


def test_the_paper_recipe():
    recipe = Recipe.named("paper")
    assert (recipe.epochs, recipe.batch_size, recipe.lr, recipe.momentum) == (200, 128, 0.1, 0.9)
    assert (recipe.weight_decay, recipe.milestones, recipe.gamma, recipe.nesterov) == (5e-4, (60, 120, 160), 0.2, False)
    assert (recipe.warmup_epochs, recipe.augmentation, recipe.schedule) == (1, "crop-flip", "step")
    assert Recipe.named("paper", epochs=20).milestones == (6, 12, 16)
    assert Recipe.named("paper", epochs=20, milestones=(5,)).milestones == (5,)


def test_a_recipe_survives_json():
    recipe = Recipe.named("paper", epochs=7, lr=0.05)
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"epochs": 0}, "`epochs` must be at least 1, got 0."),
        ({"lr": 0}, "`lr` must be above 0, got 0."),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1, got 1."),
        ({"momentum": 0, "nesterov": True}, "`nesterov` needs a momentum above 0, got 0."),
        ({"schedule": "linear"}, "`schedule` must be 'step', 'cosine', 'one-cycle' or 'constant', got 'linear'."),
        (
            {"augmentation": "crop"},
            "`augmentation` must be 'none', 'flip' or 'crop-flip', got 'crop'; did you mean 'crop-flip'?",
        ),
        (
            {"mixed_precision": "fp8"},
            "`mixed_precision` must be 'no', 'bf16' or 'fp16', got 'fp8'; did you mean 'fp16'?",
        ),
        ({"milestones": (0,)}, "`milestones` must be at least 1, got 0."),
    ],
)
def test_what_cannot_be_is_refused(fields, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Recipe(**fields)


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="`recipe` must be one of paper, small, got 'papre'; did you mean 'paper'?"):
        Recipe.named("papre")
    with pytest.raises(ValueError, match="a recipe has no field 'batchsize'; did you mean 'batch_size'?"):
        Recipe.named("paper", batchsize=3)
    with pytest.raises(ValueError, match="a recipe has no field 'colour'."):
        Recipe.from_dict({"colour": 3})
