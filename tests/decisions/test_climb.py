"""Trees, climbing and abstaining: by hand, by brute force, and the properties that connect them."""

import math
from itertools import takewhile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decision_twins import calibrated_rows
from softkin import decisions
from softkin._core.assumption import Assumption
from softkin.decisions import Tree
from softkin.decisions.rule import set_apart


def twin_answer(tree, p, threshold):
    """The lowest node over the winning class that is sure enough, by sums over its classes."""
    winner = max(range(len(p)), key=lambda k: (p[k], -k))
    for node in [winner, *tree.ancestors(winner)[:-1]]:
        if math.fsum(p[k] for k in range(len(p)) if tree.members[node, k]) > threshold + 1e-12:
            return node
    return -1


def random_tree(rng, k):
    gaps = rng.random((k, k))
    return Tree.from_distances(gaps + gaps.T)


@given(seed=st.integers(0, 10**6), threshold=st.floats(0.05, 0.99))
def test_climbing_by_brute_force(seed, threshold):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 8)
    p = torch.softmax(2 * torch.from_numpy(rng.normal(size=(20, 8))), 1)
    rule = decisions.Climb(tree, 0.9, of="rows").fit(p, torch.zeros(20, dtype=torch.int64), from_probabilities=True)
    rule.threshold_ = threshold
    assert rule.predict(p, from_probabilities=True).tolist() == [
        twin_answer(tree, row.tolist(), threshold) for row in p
    ]


def test_the_chosen_threshold_is_the_most_lenient_whose_limit_holds():
    from scipy.stats import beta

    rng = np.random.default_rng(0)
    tree = random_tree(rng, 6)
    z, y = calibrated_rows(rng, 500, 6)
    rule = decisions.Climb(tree, 0.2, candidates=20).fit(z, y)
    p = z.softmax(1)
    _, rest = set_apart(500, 50, seed=0)  # the others place the thresholds
    p, y_all, y = p[rest], y, y[rest]
    levels = []
    for tested in rule.selection_.candidates:
        answers = [twin_answer(tree, row, tested.threshold) for row in p.tolist()]
        wrong = sum(
            node >= 0 and not bool(tree.members[node, label]) for node, label in zip(answers, y.tolist(), strict=True)
        )
        answered = sum(node >= 0 for node in answers)
        assert (tested.answered, tested.wrong) == (answered, wrong)
        if wrong < answered:
            at = [
                beta.ppf(level, wrong + 1, answered - wrong) for level in (0.975, 0.95)
            ]  # before the second beginning
            levels.append(at.index(pytest.approx(tested.bound)))
    assert levels == sorted(levels)
    assert set(levels) == {0, 1}
    passed = list(takewhile(lambda tested: tested.bound <= 0.2, rule.selection_.candidates))
    assert rule.threshold_ == passed[-1].threshold
    y = y_all
    outcome = rule.evaluate(z, y, costs=1 - torch.eye(6))
    answers = rule.predict(z)
    answered = answers >= 0
    assert outcome["answered"] == pytest.approx(float(answered.double().mean()))
    bits = [
        math.log2(6 / int(tree.leaves[a])) if a >= 0 and bool(tree.members[a, t]) else 0.0
        for a, t in zip(answers.tolist(), y.tolist(), strict=True)
    ]
    assert outcome["information"] == pytest.approx(np.mean(bits))
    assert sum(line["rows"] for line in outcome.details["by_height"]) == int(answered.sum())
    assert sum(line["rows"] for line in outcome.details["by_node"]) == int(answered.sum())
    leaf = [
        float(tree.members[a].sum() - tree.members[a, t].double()) / int(tree.leaves[a])
        for a, t in zip(answers.tolist(), y.tolist(), strict=True)
        if a >= 0
    ]
    assert outcome["cost"] == pytest.approx(np.mean(leaf))


def test_risk_control_by_its_definition():
    rng = np.random.default_rng(1)
    tree = random_tree(rng, 6)
    z, y = calibrated_rows(rng, 400, 6)
    p = z.softmax(1)

    def loss(threshold):
        answers = [twin_answer(tree, row, threshold) for row in p.tolist()]
        return sum(a >= 0 and not bool(tree.members[a, t]) for a, t in zip(answers, y.tolist(), strict=True))

    for error in (0.02, 0.1, 0.2):
        rule = decisions.Climb(tree, error, of="rows").fit(z, y)
        assert (loss(rule.threshold_) + 1) / 401 <= error
        assert (loss(rule.threshold_ - 1e-9) + 1) / 401 > error  # and no lower threshold does
    assert decisions.Climb(tree, 0.9, of="rows").fit(z, y).threshold_ == -math.inf
    with pytest.raises(ValueError, match="`error` 0.002 needs at least 499 calibration rows, got 400"):
        decisions.Climb(tree, 0.002, of="rows").fit(z, y)


def test_climbing_without_kinds_equals_abstaining(network_logits):
    logits, labels = network_logits["resnet20-cifar10"]
    for of in ("answers", "rows"):
        flat = decisions.Climb(Tree.flat(10), 0.02, of=of).fit(logits[:5000], labels[:5000])
        plain = decisions.Abstain(0.02, of=of).fit(logits[:5000], labels[:5000])
        assert flat.threshold_ == plain.threshold_
        assert (flat.predict(logits[5000:]) == plain.predict(logits[5000:])).all()
        ours, theirs = (rule.evaluate(logits[5000:], labels[5000:]) for rule in (flat, plain))
        assert dict(ours) == dict(theirs)


def test_climbing_answers_more_images_than_abstaining(network_logits, shared_data):
    """The trial that the rule came from, now with its guarantee: CIFAR-100's super-classes, ResNet-32."""
    import pyarrow.parquet as pq

    from softkin.calibrators import TemperatureScaling

    logits, labels = network_logits["resnet32-cifar100"]
    table = pq.read_table(
        shared_data / "cifar100" / "test-00000-of-00001.parquet", columns=["fine_label", "coarse_label"]
    )
    groups = torch.empty(100, dtype=torch.int64)
    groups[torch.tensor(table["fine_label"].to_pylist())] = torch.tensor(table["coarse_label"].to_pylist())
    order = torch.randperm(10_000, generator=torch.Generator().manual_seed(0))
    fit, test = order[:5000], order[5000:]
    p = TemperatureScaling().fit(logits[fit], labels[fit]).predict_proba(logits.double())
    for error, more in ((0.1, 0.12), (0.05, 0.13)):
        rules = decisions.Climb(Tree.from_superclasses(groups), error), decisions.Abstain(error)
        climbed, abstained = (
            rule.fit(p[fit], labels[fit], from_probabilities=True).evaluate(
                p[test], labels[test], from_probabilities=True
            )
            for rule in rules
        )
        assert climbed["answered"] > abstained["answered"] + more
        assert max(climbed["error"], abstained["error"]) < error


def test_a_tree_in_another_order_is_matched_by_name_and_a_list_is_a_tree():
    names = ["cat", "dog", "rose", "tulip"]
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(400, 4, generator=generator)
    y = (z + torch.randn(400, 4, generator=generator)).argmax(dim=1)
    tree = Tree.from_superclasses([0, 0, 1, 1], class_names=names)
    other = Tree.from_superclasses([0, 1, 0, 1], class_names=["cat", "rose", "dog", "tulip"])
    expected = decisions.Climb(tree, 0.3).fit(z, y, class_names=names).predict(z)
    with pytest.warns(Assumption, match="matched to the labels by name"):
        actual = decisions.Climb(other, 0.3).fit(z, y, class_names=names).predict(z)
    assert torch.equal(actual, expected)
    assert torch.equal(decisions.Climb([0, 0, 1, 1], 0.3).fit(z, y).predict(z), expected)
    with pytest.raises(ValueError, match="in any order"):
        tree.in_order(["cat", "dog", "rose", "oak"])


def test_a_mass_equal_to_the_threshold_is_not_above_it():
    """Scores in eighths: many nodes have exactly the mass of a candidate, and count as in the answers."""
    rng = np.random.default_rng(4)
    tree = random_tree(rng, 5)
    p = torch.from_numpy(rng.multinomial(8, [0.4, 0.3, 0.1, 0.1, 0.1], size=300) / 8)
    y = torch.multinomial(p, 1, generator=torch.Generator().manual_seed(0))[:, 0]
    rule = decisions.Climb(tree, 0.5, candidates=20).fit(p, y, from_probabilities=True)
    _, rest = set_apart(300, 30, seed=0)
    ties = 0
    for tested in rule.selection_.candidates:
        answers = [twin_answer(tree, row, tested.threshold) for row in p[rest].tolist()]
        wrong = sum(n >= 0 and not bool(tree.members[n, t]) for n, t in zip(answers, y[rest].tolist(), strict=True))
        assert tested.wrong == wrong
        ties += int((p[rest] == tested.threshold).any())
    assert ties > 1
