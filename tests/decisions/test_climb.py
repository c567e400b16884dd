"""Trees, climbing and abstaining: by hand, by brute force, and the properties that connect them."""

import csv
import math
from itertools import takewhile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import decisions, distances, metrics
from softkin.decisions import Tree, confidence
from softkin.decisions.rows import Rows, set_apart

NAMES = ["cat", "dog", "rose", "oak", "car"]
EDGES = [
    ("thing", "living"), ("living", "animal"), ("animal", "mammal"), ("mammal", "cat"), ("mammal", "dog"),
    ("living", "plant"), ("plant", "rose"), ("plant", "oak"), ("thing", "machine"), ("machine", "car"),
    ("animal", "fish"), ("root", "thing"),
]  # fmt: skip


def test_a_taxonomy_by_hand():
    tree = Tree.from_edges(EDGES, NAMES)
    assert tree.names == (
        *NAMES,
        "mammal",
        "plant",
        "living",
        "thing",
    )  # animal = mammal, root = thing: the lower names
    assert tree.parents == (5, 5, 6, 6, 8, 7, 7, 8, -1)
    assert [tree.names[node] for node in tree.ancestors(0)] == ["mammal", "living", "thing"]
    assert tree.leaves.tolist() == [1, 1, 1, 1, 1, 2, 2, 4, 5]
    assert tree.heights.tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 3]
    assert tree.paths.tolist() == [[0, 5, 7], [1, 5, 7], [2, 6, 7], [3, 6, 7], [4, 4, 4]]
    assert tree.members[7].tolist() == [True, True, True, True, False]


def test_a_class_that_others_lie_below_stays_a_class():
    tree = Tree.from_edges([("animal", "dog"), ("dog", "poodle"), ("animal", "cat")], ["dog", "poodle", "cat"])
    assert tree.names == ("dog", "poodle", "cat", "dog", "animal")
    assert tree.parents == (3, 3, 4, 4, -1)


def test_superclasses_by_number_and_by_name():
    by_number = Tree.from_superclasses([0, 0, 1, 1, 2], class_names=NAMES, names=["animal", "plant", "machine"])
    by_name = Tree.from_superclasses(
        {"cat": "animal", "dog": "animal", "rose": "plant", "oak": "plant", "car": "machine"}, class_names=NAMES
    )
    assert by_number.parents == by_name.parents == (5, 5, 6, 6, 7, 7, 7, -1)
    assert by_number.names == by_name.names == (*NAMES, "animal", "plant", "everything")
    assert Tree.from_superclasses([0, 0, 1]).names == ("0", "1", "2", "0 or 1", "everything")
    assert Tree.flat(3).parents == (3, 3, 3, -1)


def test_a_tree_from_names_alone():
    tree = Tree.from_distances(distances.from_words(NAMES), class_names=NAMES)
    assert len(tree) == 2 * 5 - 1
    assert "cat or dog" in tree.names
    assert "rose or oak" in tree.names
    d = torch.tensor([[0.0, 1, 5, 6], [1, 0, 5, 6], [5, 5, 0, 2], [6, 6, 2, 0]])
    assert Tree.from_distances(d).parents == (4, 4, 5, 5, 6, 6, -1)


def test_the_taxonomy_of_cifar_100(shared_data, cifar100):
    lines = list(csv.reader((shared_data / "taxonomy" / "cifar100-parent-child.csv").read_text().splitlines()))[1:]
    names = cifar100[2]
    tree = Tree.from_edges([(parent, child) for parent, child in lines], names)
    above = {child: parent for parent, child in lines}
    for k, name in enumerate(names):
        chain = []
        while name in above:
            name = above[name]
            chain.append(name)
        kept = [tree.names[node] for node in tree.ancestors(k)]
        assert [name for name in chain if name in kept] == kept
    for node in range(len(tree)):
        inside = {k for k in range(100) if node == k or node in tree.ancestors(k)}
        assert set(tree.members[node].nonzero()[:, 0].tolist()) == inside


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tree.from_edges(EDGES, [*NAMES, "whale"]), "`edges` must reach every class, but 'whale' is not in it"),
        (lambda: Tree.from_edges([*EDGES, ("plant", "cat")], NAMES), "must give each node one parent, but 'cat' lies below 'mammal' and 'plant'"),
        (lambda: Tree.from_edges([("a", "b"), ("b", "a")], ["a", "b"]), "`edges` must have no cycle, but 'a' is below 'b' is below 'a'"),
        (lambda: Tree.from_edges(["ab"], ["a", "b"]), "`edges` must be \\(parent, child\\) pairs of names, got 'ab' at index 0"),
        (lambda: Tree.from_superclasses({"cat": "animal"}, class_names=NAMES), "`superclasses` must have every class, but 'dog' is not among them"),
        (lambda: Tree.from_superclasses([0, 2]), "must use every number from 0 to 2, but group 0 has no class|must use every number"),
        (lambda: Tree.from_superclasses([0, 1], names=["a"]), "`names` must name each of the 2 super-classes, got 1"),
        (lambda: Tree.from_distances([[0.0, 1.0], [2.0, 0.0]]), "`distances` must be symmetric"),
        (lambda: Tree((2, 2), ("a", "b"), 2), "a tree must have at least 2 classes, a root"),
        (lambda: decisions.Climb("animals"), "`tree` must be a Tree, such as Tree.from_superclasses"),
    ],
)  # fmt: skip
def test_trees_that_cannot_be(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


# Climbing


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


def calibrated_rows(rng, n, k, sharpness=2.0):
    """Logits, and labels drawn from their own softmax."""
    z = torch.from_numpy(sharpness * rng.normal(size=(n, k)))
    return z, torch.distributions.Categorical(logits=z).sample()


def test_the_chosen_threshold_is_the_most_lenient_whose_limit_holds():
    from scipy.stats import beta

    rng = np.random.default_rng(0)
    tree = random_tree(rng, 6)
    z, y = calibrated_rows(rng, 500, 6)
    rule = decisions.Climb(tree, 0.2, candidates=20).fit(z, y)
    p = z.softmax(1)
    _, rest = set_apart(500, 50, seed=0)  # the others place the thresholds
    p, y_all, y = p[rest], y, y[rest]
    for tested in rule.selection_.candidates:
        answers = [twin_answer(tree, row, tested.threshold) for row in p.tolist()]
        wrong = sum(
            node >= 0 and not bool(tree.members[node, label]) for node, label in zip(answers, y.tolist(), strict=True)
        )
        answered = sum(node >= 0 for node in answers)
        assert (tested.answered, tested.wrong) == (answered, wrong)
        if wrong < answered:
            assert tested.bound == pytest.approx(beta.ppf(0.95, wrong + 1, answered - wrong))
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


# Abstaining


def test_confidence_scores_by_hand():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]], dtype=torch.float64)
    assert confidence.probability(p).tolist() == [0.7, 0.5]
    assert confidence.margin(p).tolist() == pytest.approx([0.5, 0.0])
    entropy = -(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1))
    assert confidence.entropy(p).tolist() == pytest.approx([-entropy, -math.log(2)])
    z = torch.tensor([[4.0, 1.0, 1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)  # centred: 2, −1, −1
    assert confidence.logit_norm(z, 2.0).tolist() == pytest.approx([2 / math.sqrt(6), 0])
    assert confidence.logit_norm(z, 3.0).tolist() == pytest.approx([2 / 10 ** (1 / 3), 0])
    torch.testing.assert_close(confidence.logit_norm(7 * z + 3, 3.0), confidence.logit_norm(z, 3.0))
    huge = torch.tensor([[1e200, 0.0, 0.0]], dtype=torch.float64)
    assert float(confidence.logit_norm(huge, 6.0)) == pytest.approx(float(confidence.logit_norm(huge / 1e200, 6.0)))


@given(seed=st.integers(0, 10**6), steps=st.sampled_from([3, 10, 10**6]))
def test_the_area_is_that_of_the_metric(seed, steps):
    rng = np.random.default_rng(seed)
    p = np.clip(np.ceil(rng.random(30) * steps) / steps, 0.5, 1)
    y = rng.integers(0, 2, 30)
    P = np.stack([p, 1 - p], 1)
    assert confidence.area(torch.from_numpy(p), torch.from_numpy(y == 1)) == pytest.approx(metrics.aurc(P, y))


@pytest.fixture(scope="module")
def smoothed_and_not(shared_data):
    """Logits of two small networks for CLINC150's intents, trained on one-hot and on smooth labels, and the labels."""
    import pyarrow.parquet as pq
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = pq.read_table(shared_data / "text" / "clinc150.parquet").to_pydict()
    split = np.array(table["split"])
    text, label = np.array(table["text"]), np.array(table["label"])
    training, test = np.nonzero(split == "train")[0][::3], np.nonzero(split == "test")[0]
    number = {name: place for place, name in enumerate(sorted(set(label[training].tolist())))}
    words = TfidfVectorizer(max_features=800).fit(text[training])
    x, inputs = (torch.from_numpy(words.transform(text[rows]).toarray()).float() for rows in (training, test))
    y, labels = (torch.tensor([number[name] for name in label[rows]]) for rows in (training, test))
    logits = {}
    for smoothing in (0.0, 0.3):
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(800, 128), torch.nn.ReLU(), torch.nn.Linear(128, 150))
        optimiser = torch.optim.Adam(network.parameters(), lr=6e-3)
        loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)
        for _ in range(12):
            for batch in torch.randperm(len(x)).split(512):
                optimiser.zero_grad()
                loss(network(x[batch]), y[batch]).backward()
                optimiser.step()
        with torch.no_grad():
            logits[smoothing] = network(inputs).double()
    return logits, labels


def test_normalised_logits_restore_what_smoothing_spoils(smoothed_and_not):
    """Areas under the risk–coverage curve, of nearly equal accuracies: smoothing costs, the norm gives half of it back."""
    logits, y = smoothed_and_not
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    fit, test = order[:2500], order[2500:]
    areas, norms = {}, {}
    for smoothing, z in logits.items():
        wrong = z[test].argmax(1) != y[test]
        for score in ("probability", "logit-norm"):
            rule = decisions.Abstain(0.1, score=score).fit(z[fit], y[fit])
            areas[smoothing, score] = confidence.area(rule._scored(Rows(z[test], False))[0], wrong)
            norms[smoothing, score] = rule.norm_
            assert rule.evaluate(z[test], y[test])["error"].low < 0.1
    assert areas[0.3, "probability"] > 1.15 * areas[0.0, "probability"]  # spoiled
    assert areas[0.3, "logit-norm"] < 0.93 * areas[0.3, "probability"]  # and restored
    assert norms[0.0, "logit-norm"] is None  # nothing to restore: the fallback
    assert norms[0.3, "logit-norm"] >= 2


@pytest.mark.parametrize("score", ["entropy", "logit-norm", "margin", "probability"])
def test_a_rule_that_may_answer_everything_answers_rows_of_any_score(score):
    """Its binomial limit is that of all rows, so it must not leave out those below the lowest score of the fit."""
    z = torch.eye(6, dtype=torch.float64).repeat(100, 1) * 9
    rule = decisions.Abstain(0.1, score=score, **({"norm": 3} if score == "logit-norm" else {}))
    rule.fit(z, z.argmax(1))
    doubtful = torch.zeros(3, 6).fill_diagonal_(1e-3)
    assert rule.predict(doubtful).tolist() == [0, 1, 2]


def test_normalised_logits_fall_back_where_they_do_not_help():
    rng = np.random.default_rng(3)
    z, y = calibrated_rows(rng, 4000, 10, 3.0)
    assert decisions.Abstain(0.1, score="logit-norm").fit(z, y).norm_ is None
    with pytest.raises(ValueError, match="this Abstain needs logits, but from_probabilities=True was given"):
        decisions.Abstain(0.1, score="logit-norm").fit(z.softmax(1), y, from_probabilities=True)
    assert decisions.Abstain(0.3, score="logit-norm", norm=4).fit(z, y).norm_ == 4


def test_what_the_rows_cannot_support_is_said_and_what_the_model_cannot_is_warned_of():
    z, y = calibrated_rows(np.random.default_rng(0), 20, 4)
    with pytest.raises(
        ValueError,
        match="`error` 0.01 with confidence 0.95 needs at least 299 calibration rows even if no answer is wrong, got 20",
    ):
        decisions.Abstain(0.01).fit(z, y)
    assert decisions.thresholds.fewest_rows(0.01, 0.05) == 299
    assert (1 - 0.01) ** 757 <= 0.05 / 100 < (1 - 0.01) ** 756
    z, y = calibrated_rows(np.random.default_rng(0), 2000, 4, 0.1)
    with pytest.warns(
        UserWarning,
        match="No threshold keeps an error rate of at most 5 % .*; so the rule answers nothing: allow more errors",
    ):
        rule = decisions.Abstain(0.05).fit(z, y)
    assert (rule.predict(z) == -1).all()
    assert math.isnan(rule.evaluate(z, y)["error"])
