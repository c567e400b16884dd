"""Prediction sets: by brute force, by hand, by MAPIE, and by what TorchCP and crepes gave."""

import csv
import math
import re

import numpy as np
import pytest
import torch

from decision_twins import drawn, softmax, twin_score
from softkin import decisions
from softkin.decisions.rule import Rows
from softkin.decisions.set_scores import SCORES, WEIGHTS


@pytest.mark.parametrize("name", list(SCORES))
@pytest.mark.parametrize("conditional", [None, "class", [0, 0, 1, 1, 2]])
def test_a_whole_rule_by_brute_force(name, conditional):
    if name == "ordinal" and conditional is not None:
        with pytest.raises(ValueError, match="sets without gaps need one limit"):
            decisions.PredictionSets(0.8, name, conditional=conditional)
        return
    (z, y), (t, ty) = drawn(300, 5, 0), drawn(80, 5, 1)
    u, v = np.random.default_rng(2).random(300), np.random.default_rng(3).random(80)
    rule = decisions.PredictionSets(0.8, name, conditional=conditional, penalty=0.05, k_reg=2)
    uniforms = {} if name == "lac" else {"uniforms": u}
    rule.fit(z, y, **uniforms)
    p, q = softmax(z), softmax(t)
    groups = (
        np.zeros(5, int) if conditional is None else np.arange(5) if conditional == "class" else np.array(conditional)
    )
    limits = np.empty(5)
    for group in set(groups.tolist()):
        inside = [i for i in range(300) if groups[y[i]] == group]
        scores = sorted(twin_score(name, p[i], y[i], u[i], 0.05, 2) for i in inside)
        limits[groups == group] = scores[math.ceil((len(inside) + 1) * 0.8 - 1e-9) - 1]
    np.testing.assert_allclose(rule.limits_, limits, atol=1e-12)
    expected = [[twin_score(name, q[i], k, v[i], 0.05, 2) <= limits[k] for k in range(5)] for i in range(80)]
    members = rule.predict(t, **({} if name == "lac" else {"uniforms": v}))
    assert isinstance(members, np.ndarray)
    assert members.dtype == bool
    assert (members == np.array(expected)).all()
    outcome = rule.evaluate(t, ty, superclasses=[0, 0, 1, 1, 1])
    again = rule.predict(t)
    covered = again[np.arange(80), ty]
    assert outcome["coverage"] == pytest.approx(covered.mean())
    assert outcome["size"] == pytest.approx(again.sum(1).mean())
    assert outcome["worst_class"] == pytest.approx(min(covered[ty == k].mean() for k in range(5)))
    assert outcome["superclasses"] == pytest.approx(
        np.mean([len({0 if k < 2 else 1 for k in np.nonzero(row)[0]}) for row in again])
    )
    assert sum(line["rows"] for line in outcome.details["by_size"]) == 80
    for line in outcome.details["by_size"]:
        assert line["coverage"] == pytest.approx(covered[again.sum(1) == line["size"]].mean())
    for value in outcome.values():
        assert value.low <= value <= value.high


@pytest.mark.parametrize("conditional", [None, "class"])
def test_float32_decides_as_float64_does(conditional):
    """Also where many classes lie within the rounding of the limit."""
    generator = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(4000, 8, generator=generator)
    z[::2] = z[1::2] + 3e-7 * torch.randn(2000, 8, generator=generator)  # near-copies: many scores near each other
    y = torch.distributions.Categorical(logits=z).sample()
    rough = decisions.PredictionSets(0.8, conditional=conditional).fit(z, y)
    exact = decisions.PredictionSets(0.8, conditional=conditional).fit(z.double(), y)
    assert (rough.limits_ == exact.limits_).all()
    t = z + 1e-7 * torch.randn(4000, 8, generator=generator)
    assert (rough.predict(t) == exact.predict(t.double())).all()


def test_no_empty_sets_on_request():
    (z, y), (t, _) = drawn(400, 4, 0), drawn(300, 4, 1)
    z[np.arange(400), y] += 4  # the limit becomes so low that doubtful rows have no class
    free = decisions.PredictionSets(0.7).fit(z, y).predict(t)
    full = decisions.PredictionSets(0.7, allow_empty=False).fit(z, y).predict(t)
    empty = ~free.any(1)
    assert empty.any()
    assert (full[~empty] == free[~empty]).all()
    assert (full[empty].sum(1) == 1).all()
    assert full[empty, t[empty].argmax(1)].all()


def test_randomised_sets_follow_from_the_seed():
    (z, y), (t, _) = drawn(400, 6, 0), drawn(200, 6, 1)
    rule = decisions.PredictionSets(0.8, "aps").fit(z, y)
    assert (rule.predict(t) == rule.predict(t)).all()
    assert (rule.predict(t) == decisions.PredictionSets(0.8, "aps").fit(z, y).predict(t)).all()
    assert (rule.predict(t) != decisions.PredictionSets(0.8, "aps", seed=1).fit(z, y).predict(t)).any()
    large = decisions.PredictionSets(0.8, "aps", randomised=False).fit(z, y).predict(t)
    assert large.sum() > rule.predict(t).sum()


def test_randomised_sets_hold_row_by_row():
    """A service asks for one row at a time: numbers drawn by position would all be the first, here 0.03 or 0.98."""
    (z, y), (t, ty) = drawn(1000, 6, 0), drawn(1000, 6, 1)
    for seed in (0, 1):
        rule = decisions.PredictionSets(0.9, "aps", seed=seed).fit(z, y)
        sets = np.concatenate([rule.predict(row[None]) for row in t])
        assert sets[np.arange(1000), ty].mean() == pytest.approx(0.9, abs=0.035)
        assert (sets == rule.predict(t)).all()


@pytest.mark.filterwarnings("ignore:sets hold all")
@pytest.mark.parametrize("scale", [1, 4, 10])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.98])
def test_float32_logits_have_the_sets_of_float64(scale, coverage):
    """LAC compares float32 probabilities except near a limit, which may be as small as 1e-12."""
    z, y = drawn(1500, 40, 0)
    z = torch.from_numpy(scale * z).float()
    rough, exact = (decisions.PredictionSets(coverage).fit(values, y) for values in (z, z.double()))
    assert rough.limits_.equal(exact.limits_)
    assert rough.predict(z).equal(exact.predict(z.double()))


def test_saturated_outputs_are_said_to_be():
    z, y = drawn(300, 5, 0)
    for name in SCORES:
        with pytest.warns(
            UserWarning, match="sets hold all 5 classes, because .* the outputs are saturated; calibrate"
        ):
            rule = decisions.PredictionSets(0.95, name).fit(1000 * z, y)
        assert rule.predict(1000 * z).mean() > 0.99


def test_sets_of_all_classes_without_randomisation_are_not_taken_for_saturated():
    """Of two classes the less probable one has all mass up to it, so with more than 10 % of such rows the limit is 1."""
    z, y = drawn(300, 2, 0)
    assert (z.argmax(1) != y).mean() > 0.1
    for name in ("aps", "raps"):
        with pytest.warns(
            UserWarning, match="sets hold all 2 classes, because .* the least probable .* randomised=True"
        ):
            rule = decisions.PredictionSets(0.9, name, randomised=False).fit(z, y)
        assert rule.predict(z).all()
        assert not decisions.PredictionSets(0.9, name).fit(z, y).predict(z).all()
        with pytest.warns(UserWarning, match="the outputs are saturated"):
            decisions.PredictionSets(0.9, name, randomised=False).fit(1000 * z, y)


def test_a_class_that_alone_is_saturated_is_named():
    z, y = drawn(300, 3, 0)
    z[y == 2] = [1000.0, 1.0, 0.0]
    with pytest.warns(UserWarning, match="^all sets hold class 2, because .* the outputs are saturated"):
        rule = decisions.PredictionSets(0.8, conditional="class").fit(z, y)
    assert rule.predict(z)[:, 2].all()
    assert not rule.predict(z).all()


class Given:
    """A scikit-learn classifier whose inputs are its own outputs."""

    classes_ = np.arange(6)
    fitted_ = True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mapie_has_the_same_sets():
    """LAC, and APS and RAPS with MAPIE's own uniform numbers, penalty and rows; its non-randomised APS differs."""
    pytest.importorskip("mapie")
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.model_selection import StratifiedShuffleSplit

    model = type("Model", (ClassifierMixin, Given, BaseEstimator), {})()
    (z, y), (t, _) = drawn(2400, 6, 0), drawn(600, 6, 1)
    P, T = softmax(z), softmax(t)
    for name in ("lac", "aps", "raps"):
        theirs = SplitConformalClassifier(
            model, confidence_level=0.9, conformity_score=name, prefit=True, random_state=7
        ).conformalize(P, y)
        options = {} if name == "lac" else {"conformity_score_params": {"include_last_label": "randomized"}}
        sets = theirs.predict_set(T, **options)[1][:, :, 0]
        rows, numbers, uniforms, more = np.arange(2400), {}, {}, {}
        if name == "raps":
            chosen = theirs._mapie_classifier.conformity_score_function_
            numbers = {"penalty": float(chosen.lambda_star), "k_reg": int(chosen.k_star[0])}
            rows, _ = next(StratifiedShuffleSplit(1, random_state=7).split(P, y))
        if name != "lac":
            uniforms = {"uniforms": np.random.RandomState(7).uniform(size=len(rows))}
            more = {"uniforms": np.random.RandomState(7).uniform(size=600)}
        rule = decisions.PredictionSets(0.9, name, **numbers).fit(P[rows], y[rows], from_probabilities=True, **uniforms)
        ours = rule.predict(T, from_probabilities=True, **more)
        assert (ours == sets).all(), name


TORCHCP = {  # what TorchCP 1.2.1 made of drawn(240, 6, 0) and drawn(60, 6, 1): limits, all members, the first 12 sets
    ("lac", 0.9, None): ([0.968169], 234, "3b1f3f0b0f242d3f3a2d3336"),
    ("lac", 0.9, "class"): ([0.977629, 0.961927, 0.987574, 0.993252, 0.969952, 0.935282], 245, "3b3f3f0f0f242d2f3e2c3f36"),
    ("lac", 0.75, None): ([0.877687], 136, "131d06030b240c2e32283212"),
    ("lac", 0.75, "class"): ([0.882726, 0.874763, 0.935616, 0.937855, 0.814503, 0.80407], 147, "1a1d04030f240c2e3a2c3216"),
    ("aps", 0.9, None): ([0.991496], 247, "331f1f1f0b252f2f3b2d3b36"),
    ("aps", 0.9, "class"): ([0.996958, 0.986808, 0.999981, 0.999638, 0.958148, 0.979692], 248, "3b1d1f1f0f2d2d2f3a2c3b36"),
    ("aps", 0.75, None): ([0.945354], 168, "331d170b0b242c2e32283216"),
    ("aps", 0.75, "class"): ([0.893681, 0.953178, 0.993984, 0.969213, 0.918388, 0.925733], 180, "331d1f0b0b242c2e3a2c3a16"),
    ("raps", 0.9, None): ([1.077331], 216, "331d171b0b252d2e3a2c3336"),
    ("raps", 0.9, "class"): ([1.146958, 1.067608, 1.149981, 1.149638, 1.04156, 1.041496], 240, "3b1d1f1f0f2d2c2e3a2c3a36"),
    ("raps", 0.75, None): ([0.968576], 147, "131916030b242c2632283216"),
    ("raps", 0.75, "class"): ([0.943681, 0.986808, 1.093984, 1.035917, 0.918388, 0.925733], 161, "131d160b0b242c2e3a2c3216"),
}  # fmt: skip


@pytest.mark.parametrize("case", TORCHCP, ids=str)
def test_torchcp_had_the_same_sets(case):
    """Its randomised scores draw another number for each class of a row, so only the others can be compared."""
    name, coverage, conditional = case
    limits, total, first = TORCHCP[case]
    (z, y), (t, _) = drawn(240, 6, 0), drawn(60, 6, 1)
    rule = decisions.PredictionSets(coverage, name, conditional=conditional, randomised=False, penalty=0.05, k_reg=2)
    sets = rule.fit(z, y).predict(t)
    np.testing.assert_allclose(rule.limits_, np.broadcast_to(limits, 6), atol=1e-6)
    assert sets.sum() == total
    assert "".join(f"{int(''.join(map(str, row.astype(int))), 2):02x}" for row in sets[:12]) == first


CREPES = {0.9: (235, "3b1f3f0b0f272d3f3a2c3337"), 0.75: (141, "3b11170303242c263a283216")}


@pytest.mark.parametrize("coverage", CREPES)
def test_crepes_had_the_same_sets_for_groups_of_rows(coverage):
    """What the Mondrian classifier of crepes 0.9.1 made of 1 − p without smoothing: all members, the first 12 sets."""
    (z, y), (t, _) = drawn(240, 6, 0), drawn(60, 6, 1)
    rule = decisions.PredictionSets(coverage).fit(z, y, groups=[str(row % 3) for row in range(240)])
    sets = rule.predict(t, groups=[str(row % 3) for row in range(60)])
    first = "".join(f"{int(''.join(map(str, row.astype(int))), 2):02x}" for row in sets[:12])
    assert (sets.sum(), first) == CREPES[coverage]


@pytest.mark.slow
@pytest.mark.parametrize("per_class", [5, 10])
def test_the_interval_of_the_worst_class_holds_although_the_data_chose_it(per_class):
    """20 classes of which 90 % are covered; Wilson's interval at 1 − 0.05/20 missed that in 17 % and 21 % of samples."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), per_class)
    rule = decisions.PredictionSets(0.5).fit(9 * np.eye(20)[y], y)  # its sets are the winners
    missed = 0
    for _ in range(200):
        winners = np.where(rng.random(len(y)) < 0.9, y, (y + 1) % 20)
        worst = rule.evaluate(9 * np.eye(20)[winners], y)["worst_class"]
        missed += not worst.low <= 0.9 <= worst.high
    assert missed <= 18


def test_what_the_rows_cannot_support():
    z, y = drawn(20, 4, 0)
    with pytest.raises(
        ValueError, match="`coverage` 0.99 needs at least 99 calibration rows, got 20; lower the coverage"
    ):
        decisions.PredictionSets(0.99).fit(z, y)
    with pytest.raises(
        ValueError, match="needs at least 9 calibration rows for each limit, but class . has .*kin_groups"
    ):
        decisions.PredictionSets(0.9, conditional="class").fit(z, y % 3)
    with pytest.raises(ValueError, match="for each limit, but group 1 has none"):
        decisions.PredictionSets(0.9, conditional=[0, 0, 0, 1]).fit(z, y % 3)
    with pytest.raises(ValueError, match="must use every number from 0 to 2, but group 1 has no class"):
        decisions.PredictionSets(0.9, conditional=[0, 0, 0, 2]).fit(z, y)
    with pytest.raises(ValueError, match="got 12 of 16 after those that choose the weight"):
        decisions.PredictionSets(0.93, similarity=np.ones((4, 4)) / 3).fit(z[:16], y[:16])
    with pytest.raises(ValueError, match="`similarity` covers 5 classes but the logits have 4"):
        decisions.PredictionSets(0.5, similarity=np.ones((5, 5))).fit(z, y)


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("conditional", [None, "class"])
def test_update_follows_the_recursion_and_keeps_its_promise_on_changing_rows(score, conditional):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(1500, 3, generator=generator)
    labels = (logits + torch.randn(1500, 3, generator=generator)).argmax(1)
    labels[700:] = torch.randint(0, 3, (800,), generator=generator)  # from here on the network knows nothing
    step, coverage = 0.05, 0.9
    rule = decisions.PredictionSets(coverage, score, conditional=conditional, randomised=False).fit(
        logits[:200], labels[:200]
    )
    limits, sets = rule.limits_.clone(), rule.update(logits[200:], labels[200:], step=step)
    errors = []
    for row, label, members in zip(logits[200:].double().softmax(1), labels[200:].tolist(), sets, strict=True):
        ordered = sorted(range(3), key=lambda k: -row[k])
        scores = [
            1 - row[k] if score == "lac" else sum(row[j] for j in ordered[: ordered.index(k) + 1]) for k in range(3)
        ]
        assert members.tolist() == [bool(scores[k] <= limits[k] + 1e-12) for k in range(3)]
        errors.append(not members[label])
        moved = [label] if conditional else [0, 1, 2]
        limits[moved] += step * (errors[-1] - (1 - coverage))
    assert torch.allclose(rule.limits_, limits)
    errors, truth = torch.tensor(errors).double(), labels[200:]
    for rows in [torch.ones(1300, dtype=torch.bool)] if conditional is None else [truth == k for k in range(3)]:
        assert abs(errors[rows].mean() - 0.1) <= (1 + step) / (step * rows.sum())
    assert rule.updates_ == 1300
    assert "whatever the rows were" in rule.guarantee()


def test_update_takes_one_row_and_is_kept_in_files(tmp_path):
    logits = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    labels = logits.argmax(1)
    many, single = (decisions.PredictionSets(0.8).fit(logits[:50], labels[:50]) for _ in range(2))
    sets = many.update(logits[50:], labels[50:])
    alone = torch.stack([single.update(row, label) for row, label in zip(logits[50:], labels[50:], strict=True)])
    assert torch.equal(sets, alone)
    assert isinstance(single.update(logits[0].numpy(), 1), np.ndarray)
    many.save(tmp_path / "rule")
    loaded = decisions.load(tmp_path / "rule")
    assert torch.equal(loaded.limits_, many.limits_)
    assert loaded.updates_ == 50
    with pytest.raises(ValueError, match="`step`"):
        many.update(logits, labels, step=0)


def test_ordinal_sets_have_no_gaps_cover_and_export():
    rng = np.random.default_rng(0)
    level = rng.normal(size=(3000, 1))
    z = -((level - np.linspace(-2, 2, 6)) ** 2) + 0.7 * rng.normal(size=(3000, 6))
    y = np.clip(np.round((level[:, 0] + 0.7 * rng.normal(size=3000) + 2) / 0.8), 0, 5).astype(int)
    for randomised in (True, False):
        rule = decisions.PredictionSets(0.9, "ordinal", randomised=randomised).fit(z[:1500], y[:1500])
        sets = rule.predict(z[1500:])
        edges = np.abs(np.diff(sets.astype(int), axis=1, prepend=0, append=0)).sum(1)
        assert set(edges) <= {0, 2}
        assert sets[np.arange(1500), y[1500:]].mean() > 0.87
    exported = rule.as_module()(torch.from_numpy(z[1500:]))
    assert np.array_equal(exported.numpy(), sets)


@pytest.mark.parametrize("name", list(SCORES))
@pytest.mark.parametrize("conditional", [None, [0, 0, 1, 1, 1]])
def test_limits_for_each_group_of_rows_by_brute_force(name, conditional):
    if name == "ordinal" and conditional is not None:
        return
    (z, y), (t, ty) = drawn(400, 5, 0), drawn(80, 5, 1)
    rng = np.random.default_rng(2)
    u, v = rng.random(400), rng.random(80)
    groups, new = rng.choice(["a", "b", "c"], 400), rng.choice(["a", "b", "c"], 80)
    z[groups == "b"] *= 3  # more confident, and no better
    rule = decisions.PredictionSets(0.8, name, conditional=conditional, penalty=0.05, k_reg=2)
    given, own = ({}, {}) if name == "lac" else ({"uniforms": u}, {"uniforms": v})
    rule.fit(z, y, groups=groups, **given)
    p, q, of_class = softmax(z), softmax(t), np.array(conditional or [0] * 5)

    def limit(group, k):
        inside = [i for i in range(400) if groups[i] == group and of_class[y[i]] == of_class[k]]
        scores = sorted(twin_score(name, p[i], y[i], u[i], 0.05, 2) for i in inside)
        return scores[math.ceil((len(inside) + 1) * 0.8 - 1e-9) - 1]

    limits = np.array([[limit(group, k) for k in range(5)] for group in "abc"])
    np.testing.assert_allclose(rule.limits_, limits, atol=1e-12)
    expected = [
        [twin_score(name, q[i], k, v[i], 0.05, 2) <= limits["abc".index(new[i]), k] + 1e-12 for k in range(5)]
        for i in range(80)
    ]
    assert (rule.predict(t, groups=new, **own) == np.array(expected)).all()
    covered = rule.predict(t, groups=new)[np.arange(80), ty]
    outcome = rule.evaluate(t, ty, groups=new)
    assert outcome["worst_group"] == pytest.approx(min(covered[new == group].mean() for group in "abc"))
    assert "of each group of rows" in rule.guarantee() or "in each group of rows" in rule.guarantee()


def test_groups_and_weights_survive_files(tmp_path):
    (z, y), (t, _) = drawn(300, 5, 0), drawn(80, 5, 1)
    for beside in ({"groups": np.arange(300) % 3}, {"weights": np.arange(1, 301)}):
        rule = decisions.PredictionSets(0.8, "aps").fit(z, y, **beside)
        new = {name: values[:80] for name, values in beside.items()}
        rule.save(tmp_path)
        assert (decisions.load(tmp_path).predict(t, **new) == rule.predict(t, **new)).all()


def test_what_groups_and_weights_cannot_be():
    z, y = drawn(300, 5, 0)
    groups, weights = np.arange(300) % 3, np.ones(300)
    rule = decisions.PredictionSets(0.8).fit(z, y, groups=groups)
    for call, words in {
        lambda: rule.predict(z): "`groups` must be given: the rule was fitted with them",
        lambda: rule.predict(z[:2], groups=["0", "9"]): "`groups` must be those of the fit, 0, 1, 2, got '9'",
        lambda: rule.predict(z[:2], groups=["0"]): "`groups` must be as many as the rows: got 1 for 2",
        lambda: rule.as_module(): "`as_module` takes no groups of rows",
        lambda: rule.update(z, y): "`update` takes no groups of rows",
        lambda: decisions.PredictionSets(0.8).fit(z, y, groups=groups, weights=weights): "they need one limit",
        lambda: decisions.PredictionSets(0.8).fit(z, y, weights=-weights): "`weights` must not be negative",
        lambda: decisions.PredictionSets(0.8).fit(z, y).predict(z, weights=weights): "`weights` must be left out",
        lambda: decisions.PredictionSets(0.999).fit(z, y, groups=groups): "the group of rows '0' has 100",
        lambda: decisions.Abstain().fit(z, y, weights=weights): "the guarantee of Abstain knows no weights of rows",
        lambda: decisions.Abstain().fit(z, y, groups=groups): "the guarantee of Abstain knows no groups of rows",
    }.items():
        with pytest.raises(ValueError, match=re.escape(words)):
            call()


@pytest.mark.parametrize("name", list(SCORES))
def test_weighted_limits_by_brute_force(name):
    (z, y), (t, _) = drawn(300, 5, 0), drawn(80, 5, 1)
    rng = np.random.default_rng(2)
    u, v, w, new = rng.random(300), rng.random(80), rng.gamma(0.5, size=300), 20 * rng.gamma(0.5, size=80)
    rule = decisions.PredictionSets(0.8, name, penalty=0.05, k_reg=2)
    given, own = ({}, {}) if name == "lac" else ({"uniforms": u}, {"uniforms": v})
    rule.fit(z, y, weights=w, **given)
    p, q = softmax(z), softmax(t)
    scores = [twin_score(name, p[i], y[i], u[i], 0.05, 2) for i in range(300)]

    def limit(weight):
        """The smallest score with enough weight at or below it, where the new row's own weight lies at infinity."""
        enough = [
            s for s in sorted(scores) if sum(w[i] for i in range(300) if scores[i] <= s) >= 0.8 * (sum(w) + weight)
        ]
        return enough[0] if enough else math.inf

    expected = [
        [twin_score(name, q[i], k, v[i], 0.05, 2) <= limit(new[i]) + 1e-12 for k in range(5)] for i in range(80)
    ]
    members = rule.predict(t, weights=new, **own)
    assert (members == np.array(expected)).all()
    assert members[new.argmax()].all()
    same = decisions.PredictionSets(0.8, name).fit(z, y, weights=np.full(300, 3.0), **given)
    plain = decisions.PredictionSets(0.8, name).fit(z, y, **given)
    assert (same.predict(t, weights=np.full(80, 3.0), **own) == plain.predict(t, **own)).all()


@pytest.mark.slow
def test_weights_keep_the_promise_under_covariate_shift():
    """Labels depend on x alone; new rows have larger x, where the model is worse. Ratios are known: exp(x − ½)."""
    rng = np.random.default_rng(0)

    def rows(n, mean):
        x = rng.normal(mean, 1, n)
        z = 2 * rng.normal(size=(n, 4))
        truth = z / (1 + np.exp(2 * x))[:, None] + rng.gumbel(size=(n, 4))
        return z, truth.argmax(1), np.exp(x - 0.5)

    covered = {"weighted": [], "plain": []}
    for _ in range(300):
        (z, y, w), (t, ty, v) = rows(300, 0.0), rows(100, 1.0)
        weighted = decisions.PredictionSets(0.8, "aps").fit(z, y, weights=w).predict(t, weights=v)
        plain = decisions.PredictionSets(0.8, "aps").fit(z, y).predict(t)
        for name, members in {"weighted": weighted, "plain": plain}.items():
            covered[name].append(members[np.arange(100), ty].mean())
    error = np.std(covered["weighted"]) / 300**0.5
    assert np.mean(covered["weighted"]) > 0.8 - 3 * error
    assert np.mean(covered["weighted"]) < 0.84
    assert np.mean(covered["plain"]) < 0.77


@pytest.mark.slow
def test_sets_cover_every_group_of_people(shared_data):
    """Two-year recidivism from the decile that COMPAS gave: 100 splits into rates, calibration and test rows."""
    with open(shared_data / "groups" / "compas.csv", newline="") as file:
        people = list(csv.DictReader(file))
    decile, y = (np.array([int(one[key]) for one in people]) for key in ("decile_score", "two_year_recid"))
    race = np.array([one["race"] for one in people])
    groups = np.where(np.isin(race, ["African-American", "Caucasian", "Hispanic"]), race, "Other")
    rng = np.random.default_rng(0)
    covered = {(kind, group): [] for kind in ("one limit", "by group") for group in set(groups.tolist())}
    for _ in range(100):
        first, second, third = np.array_split(rng.permutation(len(y)), 3)
        rates = np.array([y[first][decile[first] == k].mean() for k in range(1, 11)])[decile - 1]
        p, u = np.stack([1 - rates, rates], 1), rng.random(len(y))
        for kind in ("one limit", "by group"):
            fitted, new = ({} if kind == "one limit" else {"groups": groups[rows]} for rows in (second, third))
            rule = decisions.PredictionSets(0.8, "aps")
            rule.fit(p[second], y[second], from_probabilities=True, uniforms=u[second], **fitted)
            members = rule.predict(p[third], from_probabilities=True, uniforms=u[third], **new)
            hit = members[np.arange(len(third)), y[third]]
            for group in set(groups.tolist()):
                covered[kind, group].append(hit[groups[third] == group].mean())
    for (kind, group), shares in covered.items():
        error = np.std(shares) / len(shares) ** 0.5
        if kind == "by group":
            assert 0.8 - 3 * error < np.mean(shares) < 0.8 + 1 / 120 + 3 * error, group
    assert min(np.mean(covered["one limit", group]) for group in set(groups.tolist())) < 0.79


def test_the_weight_of_similarity_is_the_best_that_is_significant():
    """By brute force: sets of each half with the other half's limit, and two standard errors of what they save."""
    chosen = set()
    for seed in range(12):
        z, y = drawn(60, 5, seed)
        p, unlike = softmax(z), np.random.default_rng(seed).random((5, 5))
        half, sizes = np.arange(60) % 2, {}
        for weight in WEIGHTS:
            scores = 1 - p + weight * p @ unlike
            own = scores[np.arange(60), y]
            limits = [np.sort(own[half != side])[math.ceil(31 * 0.8 - 1e-9) - 1] for side in (0, 1)]
            sizes[weight] = np.array([(row <= limits[side]).sum() for row, side in zip(scores, half, strict=True)])
        saved = {weight: sizes[0.0] - size for weight, size in sizes.items()}
        good = [w for w in WEIGHTS if w == 0 or saved[w].mean() > 2 * saved[w].std(ddof=1) / math.sqrt(60)]
        rule = decisions.PredictionSets(0.8, "lac")
        found = rule._best_weight(Rows.of(z, False), torch.from_numpy(np.asarray(y)), torch.from_numpy(unlike))
        assert found == min(good, key=lambda w: (sizes[w].mean(), w))
        chosen.add(found)
    assert len(chosen) > 2
