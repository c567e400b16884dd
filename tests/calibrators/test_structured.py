"""Structured scaling: scipy's minima of the written objective, the peer's, the search by hand, what similarity does."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from sklearn.base import clone

from calibration_data import drawn, plain_minimum
from softkin import calibrators, distances, metrics, similarity
from softkin.calibrators import StructuredMatrixScaling, StructuredVectorScaling, TemperatureScaling
from softkin.calibrators.held_out import folds_of
from softkin.calibrators.structured import KINSHIP, STRENGTHS, confusions


def skewed(seed=0, n=400, k=4):
    """Labels of a map that no temperature can be: some classes too likely, one taken for another."""
    z, _ = drawn(seed, n, k)
    generator = torch.Generator().manual_seed(seed + 1000)
    w = torch.eye(k, dtype=torch.float64)
    w[0, 1], w[1, 0] = 0.6, -0.4
    b = torch.linspace(-1, 1, k, dtype=torch.float64)
    return z, torch.multinomial(
        torch.softmax(torch.log_softmax(z / 2, dim=1) @ w.T + b, dim=1), 1, generator=generator
    )[:, 0]


def plain_x(z, temperature, n):
    """Ln of the temperature-scaled scores with one more sample's worth of the uniform distribution, row by row."""
    rows = []
    for row in z.double().numpy():
        e = np.exp((row - row.max()) / temperature)
        rows.append(np.log((n * e / e.sum() + 1 / len(row)) / (n + 1)))
    return torch.from_numpy(np.stack(rows))


def plain_penalty(k, n, strength, s=None, kinship=0.0):
    r = np.empty((k, k + 1))
    for j in range(k):
        for i in range(k + 1):
            r[j, i] = strength * k / n
            if i < k and i != j:
                alike = 1.0 if s is None else 1 - kinship + kinship * (k - 1) * float(s[j, i])
                r[j, i] *= (k - 1) / alike
    return r


def some_similarity(k, seed=0):
    d = torch.rand(k, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return similarity.from_distances(d + d.T)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.integers(3, 5), st.sampled_from([0.01, 0.3, 1.0, 30.0]), st.booleans())
def test_the_matrix_reaches_scipys_minimum_of_the_written_objective(seed, k, strength, alike):
    z, y = skewed(seed, n=120, k=k)
    s = some_similarity(k, seed) if alike else None
    cal = StructuredMatrixScaling(similarity=s, strength=strength).fit(z, y)
    assert cal.temperature_ == pytest.approx(TemperatureScaling().fit(z, y).temperature_, rel=1e-12)
    assert cal.kinship_ == (KINSHIP if alike else 0.0)
    x = plain_x(z, cal.temperature_, 120)
    r = plain_penalty(k, 120, strength, s, KINSHIP)
    value, a = plain_minimum(x, y, r, np.eye(k, k + 1))
    ours = np.concatenate([cal.weight_.numpy(), cal.bias_.numpy()[:, None]], axis=1)
    objective = cal.certificate_.nll_after + float((r * (ours - np.eye(k, k + 1)) ** 2).sum())
    assert objective <= value + 1e-9
    np.testing.assert_allclose(ours, a, atol=1e-4)
    torch.testing.assert_close(cal.predict_proba(z), torch.softmax(x @ cal.weight_.T + cal.bias_, dim=1))


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
def test_the_vector_reaches_scipys_minimum_of_the_written_objective(strength):
    z, y = skewed()
    cal = StructuredVectorScaling(strength=strength).fit(z, y)
    n, k = z.shape
    x = plain_x(z, cal.temperature_, n).numpy()

    def objective(flat):
        w, b = flat[:k], flat[k:]
        logits = x * w + b
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return -np.log(p[np.arange(n), y]).mean() + strength * k / n * (((w - 1) ** 2).sum() + (b**2).sum())

    start = np.concatenate([np.ones(k), np.zeros(k)])
    end = optimize.minimize(objective, start, method="BFGS", options={"gtol": 1e-8})
    ours = np.concatenate([cal.weight_.numpy(), cal.bias_.numpy()])
    assert objective(ours) <= end.fun + 1e-9
    np.testing.assert_allclose(ours, end.x, atol=1e-4)
    torch.testing.assert_close(
        cal.predict_proba(z).numpy(), torch.softmax(torch.tensor(x * ours[:k] + ours[k:]), 1).numpy()
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the peer's own
@pytest.mark.parametrize(("name", "n", "k"), [("resnet20-cifar10", 2000, 10), ("resnet32-cifar100", 1000, 100)])
def test_the_same_objective_as_the_peers(network_logits, name, n, k):
    """Theirs computes in float32 and stops a little earlier: the same to 1e-5, and never below."""
    peer = pytest.importorskip("probmetrics.calibrators")
    z, y = (part[:n] for part in network_logits[name])
    p = torch.softmax(z.double(), dim=1).numpy()
    for theirs, ours in (
        (peer.SVSCalibrator(), StructuredVectorScaling(strength=1.0)),
        (peer.SMSCalibrator(), StructuredMatrixScaling(strength=1.0)),
    ):
        theirs.fit(p, y.numpy().astype(np.int64))
        ours.fit(z, y)
        x = plain_x(z, ours.temperature_, n)
        if isinstance(ours, StructuredVectorScaling):
            maps = [(torch.from_numpy(theirs.v_).double().diag(), torch.from_numpy(theirs.b_).double())]
            maps.append((ours.weight_.diag(), ours.bias_))
        else:
            w = torch.from_numpy(theirs.W_).double()
            maps = [(w[:, :-1], w[:, -1]), (ours.weight_, ours.bias_)]
        r = torch.from_numpy(plain_penalty(k, n, 1.0))
        values = []
        for w, b in maps:
            nll = torch.nn.functional.cross_entropy(x @ w.T + b, y.long())
            a = torch.cat([w, b[:, None]], dim=1) - torch.eye(k, k + 1, dtype=torch.float64)
            values.append(float(nll + (r * a**2).sum()))
        assert values[1] <= values[0] + 1e-9
        assert values[1] == pytest.approx(values[0], abs=1e-5)


def test_the_certificate_bounds_the_distance_to_the_least_objective():
    from softkin.calibrators.newton import Affine, minimise

    z, y = skewed()
    eye = torch.eye(4, 5, dtype=torch.float64)
    problem = Affine(z, y, torch.full((4, 5), 0.01, dtype=torch.float64), eye)
    best = minimise(problem, eye, tolerance=1e-11)
    for limit in (1, 2, 3):
        end = minimise(problem, eye, limit=limit, tolerance=1e-11)
        now = minimise(problem, end.parameters, tolerance=1e9)  # looked at, not moved
        assert torch.equal(now.parameters, end.parameters)
        assert now.value - best.value <= now.gap + 1e-14
    assert minimise(problem, eye, limit=1, tolerance=1e9).gap < 1e3
    cal = StructuredMatrixScaling(strength=1.0).fit(z, y)
    assert "above the least objective" in str(cal.certificate_)
    assert cal.certificate_.gradient_norm <= 1e-6


def test_a_strong_prior_is_temperature_scaling_and_a_weak_one_a_plain_matrix():
    z, y = skewed()
    strong = StructuredMatrixScaling(strength=1e9).fit(z, y)
    p = TemperatureScaling().fit(z, y).predict_proba(z)
    torch.testing.assert_close(strong.predict_proba(z), (400 * p + 1 / 4) / 401, atol=1e-6, rtol=0)
    weak = StructuredMatrixScaling(strength=1e-6).fit(z, y)
    plain = calibrators.DirichletCalibration(lam=0.0, mu=0.0).fit(z, y)
    assert weak.certificate_.nll_after == pytest.approx(plain.certificate_.nll_after, abs=2e-3)
    vector = StructuredVectorScaling(strength=1.0).fit(z, y)
    matrix = StructuredMatrixScaling(strength=1.0).fit(z, y)
    assert weak.certificate_.nll_after < matrix.certificate_.nll_after < vector.certificate_.nll_after
    assert vector.certificate_.nll_after < strong.certificate_.nll_after


# The search


@pytest.mark.parametrize("alike", [None, "outputs", "matrix"])
def test_the_search_is_that_of_converged_fits(alike):
    z, y = skewed(n=200)
    s = some_similarity(4) if alike == "matrix" else alike
    cal = StructuredMatrixScaling(similarity=s, folds=3, seed=4).fit(z, y)
    rows = {(row.strength, row.kinship): row.nll for row in cal.sweep()}
    kinships = (0.0,) if alike is None else (0.0, KINSHIP)
    assert set(rows) == {(math.inf, 0.0), *((strength, kinship) for strength in STRENGTHS for kinship in kinships)}
    assert rows[cal.strength_, cal.kinship_] == min(rows.values())
    for place in [(math.inf, 0.0), (0.03, 0.0), (1.0, kinships[-1]), (10.0, kinships[-1])]:
        total = 0.0
        for held in folds_of(200, 3, 4):
            rest = torch.ones(200, dtype=torch.bool)
            rest[held] = False
            fold = StructuredMatrixScaling(similarity=s if place[1] else None, strength=place[0])
            p = fold.fit(z[rest], y[rest]).predict_proba(z[held])
            total += float(-p.gather(1, y[held][:, None]).log().mean()) / 3
        assert rows[place] == pytest.approx(total, abs=1e-6)
    by_hand = StructuredMatrixScaling(similarity=s if cal.kinship_ else None, strength=cal.strength_).fit(z, y)
    torch.testing.assert_close(cal.weight_, by_hand.weight_, atol=1e-5, rtol=0)
    assert by_hand.sweep() == []


@pytest.mark.parametrize("method", [StructuredVectorScaling, StructuredMatrixScaling])
def test_it_falls_back_to_temperature_scaling_where_nothing_else_helps(method):
    z, y = drawn(seed=0, n=60, k=8)  # drawn at one temperature, and too few to show anything else
    cal = method().fit(z, y)
    assert math.isinf(cal.strength_)
    assert "cross-validation chose temperature scaling: nothing more helps" in str(cal.certificate_)
    p = TemperatureScaling().fit(z, y).predict_proba(z)
    torch.testing.assert_close(cal.predict_proba(z), (60 * p + 1 / 8) / 61)
    assert cal.certificate_.argmax_changed == 0
    z, y = skewed(n=2000)
    assert math.isfinite(method().fit(z, y).strength_)


def test_the_infinite_strength_survives_the_file(tmp_path):
    z, y = drawn(seed=0, n=60, k=8)
    cal = StructuredMatrixScaling(similarity=some_similarity(8)).fit(z, y)
    cal.save(tmp_path)
    back = calibrators.load(tmp_path)
    assert math.isinf(back.strength_)
    assert repr(back) == repr(cal)
    assert torch.equal(back.similarity, cal.similarity)
    assert torch.equal(back.predict_proba(z), cal.predict_proba(z))
    assert "similarity=<8 × 8>" in repr(cal)
    assert clone(cal).similarity is not None


# Similarity


def test_equal_similarities_are_none():
    z, y = skewed()
    even = (1 - torch.eye(4, dtype=torch.float64)) / 3
    a = StructuredMatrixScaling(similarity=even, strength=1.0).fit(z, y)
    b = StructuredMatrixScaling(strength=1.0).fit(z, y)
    torch.testing.assert_close(a.weight_, b.weight_, atol=2e-5, rtol=0)


def test_alike_pairs_move_further():
    """Only classes 0 and 1 are confused: a similarity that says so lets their entries grow, and none of the others."""
    z, y = skewed(n=200)
    s = torch.tensor([[0, 0.9, 0.05, 0.05], [0.9, 0, 0.05, 0.05], [0.05, 0.05, 0, 0.9], [0.05, 0.05, 0.9, 0]])
    plain = StructuredMatrixScaling(strength=3.0).fit(z, y)
    kin = StructuredMatrixScaling(similarity=s.double(), strength=3.0).fit(z, y)
    assert float(kin.weight_[0, 1]) > float(plain.weight_[0, 1]) > 0
    far = [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert sum(abs(float(kin.weight_[pair])) for pair in far) < sum(abs(float(plain.weight_[pair])) for pair in far)


def test_the_right_similarity_helps_on_new_samples_and_a_wrong_one_harms():
    k = 6
    s = torch.full((k, k), 0.02, dtype=torch.float64).fill_diagonal_(0)
    s[0, 1] = s[1, 0] = 5.0  # the pair that is confused
    s = s / s.sum(dim=1, keepdim=True)
    order = torch.tensor([2, 3, 4, 5, 0, 1])
    totals = {"right": 0.0, "none": 0.0, "wrong": 0.0}
    for seed in range(4):
        z, y = skewed(seed, n=200, k=k)
        new_z, new_y = skewed(seed + 500, n=5000, k=k)
        for key, alike in (("right", s), ("none", None), ("wrong", s[order][:, order])):
            cal = StructuredMatrixScaling(similarity=alike, strength=3.0).fit(z, y)
            totals[key] += metrics.nll(cal.predict_proba(new_z), new_y)
    assert totals["right"] < totals["none"] < totals["wrong"]


def test_confusions_by_hand():
    p = torch.tensor([[0.6, 0.3, 0.1], [0.8, 0.1, 0.1], [0.2, 0.7, 0.1]], dtype=torch.float64)
    s = confusions(p, torch.tensor([0, 0, 1]))
    torch.testing.assert_close(s[0], torch.tensor([0, 0.4 / 0.6, 0.2 / 0.6], dtype=torch.float64))
    torch.testing.assert_close(s[1], torch.tensor([0.2 / 0.3, 0, 0.1 / 0.3], dtype=torch.float64))
    assert s[2].tolist() == [0.5, 0.5, 0]  # no rows: like all of them


def test_names_of_classes_make_a_similarity(network_logits):
    """On CIFAR-10 the names' similarity is no worse than the published prior, on samples that neither saw."""
    z, y = network_logits["resnet20-cifar10"]
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    s = similarity.from_distances(distances.from_words(names))
    nll = {}
    for key, cal in {
        "kin": StructuredMatrixScaling(similarity=s, strength=1.0),
        "plain": StructuredMatrixScaling(strength=1.0),
    }.items():
        nll[key] = metrics.nll(cal.fit(z[:2000], y[:2000]).predict_proba(z[5000:].double()), y[5000:])
    assert nll["kin"] < nll["plain"] + 1e-3


def test_options_are_checked():
    for options, message in [
        ({"strength": 0.0}, "`strength` must be 'cv' or above 0, got 0"),
        ({"strength": -1}, "`strength` must be 'cv' or above 0, got -1"),
        ({"folds": 1}, "`folds` must be at least 2, got 1"),
        ({"similarity": "words"}, "`similarity` must be 'outputs', got 'words'"),
        ({"similarity": torch.eye(3)}, "`similarity` must have no negative entries and a zero diagonal"),
        ({"similarity": torch.ones(3, 3)}, "`similarity`"),
    ]:
        with pytest.raises(ValueError, match=message):
            StructuredMatrixScaling(**options)
    with pytest.raises(TypeError, match="`strength` must be a number, got 'loo'"):
        StructuredVectorScaling(strength="loo")
    z, y = drawn(n=150)
    with pytest.raises(
        ValueError, match="`similarity` must cover the 4 classes of the logits, got 3; is it for another"
    ):
        StructuredMatrixScaling(similarity=some_similarity(3)).fit(z, y)


def test_the_models_own_confusions_are_a_similarity_like_any_other():
    """``similarity="outputs"`` is the matrix of shares of wrong mass, on the scale of a matrix that is given."""
    z, y = drawn(n=200)
    own = StructuredMatrixScaling(similarity="outputs", strength=1.0).fit(z, y)
    scaled = (z.double() / own.temperature_).softmax(dim=1)
    k = scaled.shape[1]
    p = (1 - own.mixing_) * scaled + own.mixing_ / k
    given = StructuredMatrixScaling(similarity=confusions(p, y), strength=1.0).fit(z, y)
    torch.testing.assert_close(own.weight_, given.weight_, atol=1e-4, rtol=0)
    unlike = torch.ones(k, k, dtype=torch.float64) / (k - 1)
    even = StructuredMatrixScaling(similarity=unlike.fill_diagonal_(0), strength=1.0).fit(z, y)
    assert not torch.allclose(own.weight_, even.weight_, atol=1e-3)
