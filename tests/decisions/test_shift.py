"""Other class frequencies, and accuracy without labels: by hand, by scipy, and on resampled real data."""

import numpy as np
import pytest
import torch

from softkin import decisions, metrics
from softkin._core.assumption import Assumption
from softkin.calibrators import TemperatureScaling


def test_adjusting_by_hand():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    new, old = np.array([0.2, 0.2, 0.6]), np.array([0.5, 0.25, 0.25])
    expected = p * new / old
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(decisions.adjust_priors(p, new=new, old=old), expected)
    np.testing.assert_allclose(decisions.adjust_priors(p, new=old, old=old), p)
    back = decisions.adjust_priors(decisions.adjust_priors(p, new=new, old=old), new=old, old=new)
    np.testing.assert_allclose(back, p)
    np.testing.assert_allclose(decisions.adjust_priors(p, new=[1 / 3] * 3), p)
    assert decisions.adjust_priors(p, new=[1, 0, 0]).tolist() == [[1, 0, 0], [1, 0, 0]]


def test_estimated_priors_maximise_the_likelihood():
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5, 0.5, 0.5], 400)
    old = np.array([0.4, 0.3, 0.2, 0.1])

    def negative(logs):
        q = np.exp(logs - logs.max())
        return -np.log((p / old) @ (q / q.sum())).mean()

    best = minimize(negative, np.zeros(4), tol=1e-12)
    q = np.exp(best.x - best.x.max())
    estimate = decisions.estimate_priors(p, old=old)
    np.testing.assert_allclose(estimate, q / q.sum(), atol=2e-3)
    assert -np.log((p / old) @ estimate).mean() <= best.fun + 1e-6
    assert estimate.sum() == pytest.approx(1)


@pytest.mark.slow
def test_intervals_of_priors_hold_a_rare_class():
    """Normal inputs with the exact posterior; of 200 rows one is of the rare class. Resampling alone held it in 75 %."""
    rng = np.random.default_rng(1)
    truth, means = np.array([0.6, 0.3, 0.095, 0.005]), 2 * np.eye(4)
    held = np.zeros(4)
    for _ in range(24):
        y = rng.choice(4, 200, p=truth)
        z = (rng.normal(size=(200, 4)) + means[y]) @ means.T - 2
        p = np.exp(z - z.max(1, keepdims=True))
        _, low, high = decisions.estimate_priors(p / p.sum(1, keepdims=True), confidence=0.95)
        held += (low <= truth) & (truth <= high)
    assert held[3] >= 22
    assert (held >= 19).all()


@pytest.fixture(scope="module")
def network(network_logits):
    """Calibrated probabilities of a ResNet-20 on 8,000 rows of CIFAR-10, the raw ones, and the labels."""
    logits, labels = network_logits["resnet20-cifar10"]
    fitted = TemperatureScaling().fit(logits[:2000], labels[:2000])
    return fitted.predict_proba(logits[2000:].double()), torch.softmax(logits[2000:].double(), 1), labels[2000:]


def shifted(y, priors, n, generator):
    """Rows drawn so that the classes are as frequent as ``priors``."""
    wanted = torch.multinomial(priors, n, replacement=True, generator=generator)
    rows = [(y == k).nonzero()[:, 0] for k in range(10)]
    return torch.stack([rows[k][torch.randint(len(rows[k]), (), generator=generator)] for k in wanted.tolist()])


def test_priors_of_resampled_real_data(network):
    """The estimate is near the truth, its intervals hold it, and adjusting by it makes the outputs better."""
    p, raw, y = network
    priors = torch.tensor([0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, 0.01], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    rows = shifted(y, priors, 3000, generator)
    truth = torch.bincount(y[rows], minlength=10).double() / 3000
    shares, low, high = decisions.estimate_priors(p[rows], confidence=0.95)
    assert float((shares - truth).abs().max()) < 0.012
    assert int(((low <= truth + 0.004) & (truth - 0.004 <= high)).sum()) >= 9
    counted = torch.bincount(p[rows].argmax(1), minlength=10).double() / 3000
    assert float((shares - truth).abs().sum()) < float((counted - truth).abs().sum())  # better than counting answers
    adjusted = decisions.adjust_priors(p[rows], new=shares)
    assert metrics.nll(adjusted, y[rows]) < metrics.nll(p[rows], y[rows]) - 0.03
    assert metrics.accuracy(adjusted, y[rows]) > metrics.accuracy(p[rows], y[rows])
    uncalibrated = decisions.estimate_priors(raw[rows])
    assert float((shares - truth).abs().sum()) < float((uncalibrated - truth).abs().sum())


def test_expected_accuracy_on_resampled_real_data(network):
    """Over 300 resamples with other shares of hard rows the intervals hold; those of over-confident outputs do not."""
    p, raw, y = network
    generator = torch.Generator().manual_seed(1)
    held = {"calibrated": 0, "raw": 0}
    for _ in range(300):
        order = torch.randperm(len(p), generator=generator)
        known, rest = order[:1500], order[1500:]
        hard = (p[rest].amax(1) < 0.9).double() * float(torch.rand((), generator=generator)) * 2 + 0.3
        rows = rest[torch.multinomial(hard, 1000, replacement=False, generator=generator)]  # covariate shift
        accuracy = float((p[rows].argmax(1) == y[rows]).double().mean())
        ours = decisions.expected_accuracy(p[rows], held_out=(p[known], y[known]))
        held["calibrated"] += ours.low <= accuracy <= ours.high
        naive = decisions.expected_accuracy(raw[rows])
        held["raw"] += naive.low <= accuracy <= naive.high
    assert held["calibrated"] >= 300 * 0.9
    assert held["raw"] < 300 * 0.1


@pytest.mark.slow
def test_expected_accuracy_covers_in_simulation():
    """Labels drawn from the probabilities themselves, where the assumption holds exactly."""
    generator = torch.Generator().manual_seed(0)
    p = torch.softmax(2 * torch.randn(400, 5, generator=generator, dtype=torch.float64), 1)
    interval = decisions.expected_accuracy(p)
    top = p.amax(1)
    hits = (torch.rand(2000, 400, generator=generator, dtype=torch.float64) < top).double().mean(1)
    share = float(((interval.low <= hits) & (hits <= interval.high)).double().mean())
    assert share == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("confidence", "accuracy", "known"), [(1.0, 0.99, 50), (0.999, 0.995, 200)])
def test_expected_accuracy_of_sure_outputs_with_few_mistakes(confidence, accuracy, known):
    """Often no held-out row is wrong; the spread of their gaps alone held the accuracy in 33 % and 62 % of samples."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        y, seen = ((rng.random(n) > accuracy).astype(int) for n in (2000, known))
        p, q = (np.tile([confidence, 1 - confidence], (n, 1)) for n in (2000, known))
        interval = decisions.expected_accuracy(p, held_out=(q, seen))
        held += interval.low <= (y == 0).mean() <= interval.high
    assert held >= 300 * 0.88


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: decisions.adjust_priors(p, new=[0.5, 0.5]), "`new` must have shape \\(3,\\), a share for each class, got \\(2,\\)"),
        (lambda p: decisions.adjust_priors(p, new=[0.5, 0.5, 0.5]), "`new` must be shares that sum to 1, got a sum of 1.5"),
        (lambda p: decisions.adjust_priors(p, new=[0.5, 0.5, 0], old=[1, 0, 0]), "`old` must be above 0 where `new` is, but class 1 was never seen"),
        (lambda p: decisions.adjust_priors(np.eye(3), new=[0.5, 0.5, 0]), "but row 2 has probability only where `new` is 0"),
        (lambda p: decisions.estimate_priors(p * 2), "must have rows that sum to 1"),
        (lambda p: decisions.expected_accuracy(p, confidence=1), "`confidence` must be between 0 and 1"),
        (lambda p: decisions.expected_accuracy(p, held_out=(np.eye(2), [0, 1])), "`held_out` must have the 3 classes of the rows, got 2"),
    ],
)  # fmt: skip
def test_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))


@pytest.mark.parametrize(("given", "what"), [([30, 50, 10], "counts"), ([33.4, 55.5, 11.1], "percent")])
def test_counts_and_percent_are_shares(given, what):
    p = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    expected = decisions.adjust_priors(p, new=[value / sum(given) for value in given])
    with pytest.warns(Assumption, match=f"`new` is read as {what}"):
        torch.testing.assert_close(decisions.adjust_priors(p, new=given), expected)


def test_resamples_in_blocks_are_those_of_one_block(monkeypatch):
    from softkin.decisions import shift

    p = torch.rand(30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1)
    whole = decisions.estimate_priors(p, confidence=0.9)
    monkeypatch.setattr(shift, "BLOCK", 30 * 7)  # 7 resamples at a time: no divisor of their number
    torch.testing.assert_close(decisions.estimate_priors(p, confidence=0.9), whole, atol=1e-4, rtol=0)
