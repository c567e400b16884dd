"""The second head: its discriminant by hand, leave-one-out by leaving one out, its blend, its fallback, its file."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from softkin import SoftkinError, distances, metrics, similarity
from softkin.calibrators import KinHead, TemperatureScaling, fold_into_linear, kin_head, load
from softkin.calibrators.held_out import folds_of
from softkin.predictions import Predictions

K, D = 5, 4
S = similarity.from_distances(distances.from_order(K))


def drawn(n, seed, noise=1.0):
    """Features around centres on a line, the logits of a network that sees half of them, and labels."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(K, D, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    y = torch.cat([torch.arange(K), torch.randint(0, K, (n - K,), generator=generator)])
    x = 1.5 * centres[y] + noise * torch.randn(n, D, generator=generator, dtype=torch.float64)
    z = 3 * (x[:, :2] @ centres[:, :2].T)
    return x, z, y


@pytest.mark.parametrize("s", [None, S])
def test_the_discriminant_is_its_formula(s):
    x, _, y = drawn(60, 0)
    projection, bias = kin_head.discriminant(x, y, K, s, 0.3, 0.4)
    means = np.stack([x[y == k].mean(0) for k in range(K)])
    residual = x.numpy() - means[y]
    covariance = residual.T @ residual / (60 - K)
    shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / D * np.eye(D)
    leaning = means if s is None else 0.6 * means + 0.4 * s.numpy() @ means
    inverse = np.linalg.inv(shrunk)
    for row in x.numpy()[:5]:
        expected = [m @ inverse @ row - 0.5 * m @ inverse @ m for m in leaning]
        np.testing.assert_allclose(row @ projection.numpy() + bias.numpy(), expected, rtol=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99), ridge=st.sampled_from([0.1, 0.5, 1.0]), lean=st.sampled_from([0.0, 0.3]))
def test_leave_one_out_is_leaving_one_out(seed, ridge, lean):
    """With the variance of all rows, as the closed form has it."""
    x, _, y = drawn(25, seed)
    x, y = torch.cat([x, x[:1] + 9]), torch.cat([y, y[:1]])
    scores, labels = kin_head.left_out(x, y, K, S, ridge, lean)
    counts = torch.bincount(y)
    rows = [i for i in range(len(x)) if counts[y[i]] > 1]
    assert labels.tolist() == y[rows].tolist()
    *_, variance = kin_head._moments(x, y, K)
    for place, i in enumerate(rows):
        rest = torch.arange(len(x)) != i
        means = torch.stack([x[rest][y[rest] == k].mean(0) for k in range(K)])
        residual = x[rest] - means[y[rest]]
        covariance = (1 - ridge) * residual.T @ residual / (len(x) - 1 - K) + ridge * variance * torch.eye(D).double()
        leaning = (1 - lean) * means + lean * S @ means
        solved = torch.linalg.solve(covariance, leaning.T)
        expected = x[i] @ solved - 0.5 * (leaning * solved.T).sum(1)
        torch.testing.assert_close(scores[place], expected, rtol=1e-7, atol=1e-7)


def test_few_rows_gain_and_probabilities_are_the_formula():
    train, validation, test = (drawn(n, seed) for n, seed in ((100, 0), (300, 1), (2000, 2)))
    head = KinHead(S).fit(
        validation[1], validation[2], features=validation[0], train_features=train[0], train_labels=train[2]
    )
    assert not head.is_temperature
    assert head.gain_ > 0.05
    p = head.predict_proba(test[1], features=test[0])
    d = test[0] @ head.projection_ + head.bias_
    q = torch.softmax(head.sharpness_ * d, 1)
    mixed = 0.9 * q + 0.1 * q @ S + 0.001 / K
    torch.testing.assert_close(p, torch.softmax(head.own_ * test[1] + head.weight_ * mixed.log(), 1))
    scaled = TemperatureScaling().fit(validation[1], validation[2]).predict_proba(test[1])
    assert metrics.nll(p, test[2]) < metrics.nll(scaled, test[2]) - 0.05
    assert "ρ = " in repr(head)


def test_without_gain_it_is_a_temperature():
    _, z, y = drawn(300, 1)
    nothing = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % K
    noise = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    head = KinHead().fit(z, y, features=nothing, train_features=noise, train_labels=labels)
    if not head.is_temperature:
        assert head.gain_ < 0.01
        head = KinHead().fit(
            z[:8], y[:8], features=nothing[:8], train_features=noise, train_labels=labels
        )  # too few to show a gain
    assert head.is_temperature
    rows = slice(None) if head.own_ == 1 / TemperatureScaling().fit(z, y).temperature_ else slice(0, 8)
    expected = TemperatureScaling().fit(z[rows], y[rows]).predict_proba(z)
    torch.testing.assert_close(head.predict_proba(z, features=nothing), expected)
    assert "no gain" in repr(head)


def test_numpy_and_files(tmp_path):
    train, validation = drawn(60, 0), drawn(100, 1)
    names = list("abcde")
    head = KinHead(S).fit(
        validation[1],
        validation[2],
        features=validation[0],
        train_features=train[0],
        train_labels=train[2],
        class_names=names,
    )
    head.save(tmp_path)
    loaded = KinHead.load(tmp_path)
    expected = head.predict_proba(validation[1].numpy(), features=validation[0].numpy())
    assert isinstance(expected, np.ndarray)
    again = loaded.predict_proba(validation[1].numpy(), features=validation[0])
    np.testing.assert_allclose(again, expected, rtol=1e-12)
    assert loaded.class_names_ == names
    assert repr(loaded) == repr(head)
    file = KinHead.file_in(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(SoftkinError):
        KinHead.load(tmp_path)


def fitted(s=S, n=150):
    train, held_out = drawn(60, 0), drawn(n, 1)
    return KinHead(s).fit(
        held_out[1], held_out[2], features=held_out[0], train_features=train[0], train_labels=train[2]
    )


def test_the_certificate_says_how_the_fit_ended_and_what_cross_validation_found():
    head = fitted()
    _, z, y = drawn(150, 1)
    certificate = head.certificate_
    assert certificate.method == "KinHead"
    assert certificate.converged
    assert certificate.gradient_norm < 1e-5
    assert certificate.iterations > 3
    assert certificate.nll_before == pytest.approx(metrics.nll(z.softmax(1), y))
    # The same folds by hand: each is predicted by a blend, and by a temperature, fitted to the others.
    x = drawn(150, 1)[0]
    d = (x @ head.projection_ + head.bias_).numpy()

    def log_p(values, rows):
        q = softmax(np.exp(values[0]) * d[rows], 1)
        mixed = 0.9 * q + 0.1 * q @ S.numpy() + 0.001 / K
        return log_softmax(np.exp(values[1]) * z.numpy()[rows] + values[2] * np.log(mixed), 1)

    def loss(values, rows):
        return -log_p(values, rows)[np.arange(len(rows)), y.numpy()[rows]].mean()

    alone, blended = torch.zeros_like(z), torch.zeros_like(z)
    for held in folds_of(150, 5, 0):
        rest = np.setdiff1d(np.arange(150), held)
        found = minimize(loss, [0.0, -1.0, 0.5], args=(rest,), method="Nelder-Mead", options={"xatol": 1e-7}).x
        blended[held] = torch.from_numpy(np.exp(log_p(found, held.numpy())))
        alone[held] = TemperatureScaling().fit(z[rest], y[rest]).predict_proba(z[held])
    assert head.gain_ == pytest.approx(metrics.nll(alone, y) - metrics.nll(blended, y), abs=1e-4)
    held_out = certificate.held_out
    assert held_out.folds == 5
    assert held_out.nll_after == pytest.approx(metrics.nll(blended, y), abs=1e-4)
    assert held_out.ece_after == pytest.approx(metrics.ece_hist(blended, y), abs=1e-3)
    assert head.certify() == certificate


@pytest.mark.parametrize("s", [None, S])
def test_cross_validated_scores_alone_are_blended_with_leave_one_out_scores(s):
    x, z, y = drawn(80, 3)
    others = (y > 0) | (torch.arange(80) == 0)
    x, z, y = x[others], z[others], y[others]
    head = KinHead(s, ridge=0.5, lean=None if s is None else 0.3).fit(z, y, features=x)
    kept = torch.arange(len(y)) != 0  # the first row is alone in its class, and cannot be left out
    d, labels = kin_head.left_out(x, y, K, s, head.ridge_, head.lean_)
    assert labels.tolist() == y[kept].tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KinHead, "_solve", lambda self, *_: None)
        twin = KinHead(s)
        twin.projection_, twin.bias_, twin.ridge_, twin.lean_ = head.projection_, head.bias_, head.ridge_, head.lean_
        solution = twin._blend(z[kept], d, y[kept])
    assert solution.converged
    assert [twin.sharpness_, twin.own_, twin.weight_] == pytest.approx([head.sharpness_, head.own_, head.weight_])


@pytest.mark.parametrize("s", [None, S])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.filterwarnings("default")  # of the exporter itself
def test_modules_and_onnx_answer_as_predict_does(s, together, tmp_path):
    head, (x, _, _) = fitted(s), drawn(500, 5)
    layer = torch.nn.Linear(D, K)
    x, z = x.float(), layer(x.float()).detach()
    module = head.as_module(layer=layer if together else None).eval()
    inputs = (x,) if together else (z, x)
    expected = head.predict_proba(z.double(), features=x)
    torch.testing.assert_close(module(*inputs).double(), expected, rtol=0, atol=1e-5)
    if together:
        assert [tuple(part.weight.shape) for part in module if isinstance(part, torch.nn.Linear)] == [(2 * K, D)]
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    import onnxruntime

    path, rows = tmp_path / "head.onnx", torch.export.Dim("rows")
    torch.onnx.export(
        module,
        tuple(part[:7] for part in inputs),
        str(path),
        dynamo=True,
        verbose=False,
        dynamic_shapes=tuple({0: rows} for _ in inputs) if together else {"logits": {0: rows}, "features": {0: rows}},
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {place.name: part.numpy() for place, part in zip(session.get_inputs(), inputs, strict=True)}
    (answers,) = session.run(None, feeds)
    np.testing.assert_allclose(answers, expected.numpy(), atol=1e-5)


def test_a_temperature_alone_folds_into_the_last_layer():
    head, (x, _, _) = fitted(None, n=8), drawn(50, 5)  # too few rows to show a gain
    assert head.is_temperature
    layer = torch.nn.Linear(D, K, bias=False, dtype=torch.float64)
    z = layer(x).detach()
    expected = head.predict_proba(z, features=x)
    torch.testing.assert_close(torch.softmax(fold_into_linear(head, layer)(x), 1), expected)
    module = head.as_module(layer=layer)
    torch.testing.assert_close(module(x), expected)
    assert module[0].out_features == K
    with pytest.raises(TypeError, match="blend is not linear"):
        fold_into_linear(fitted(), layer)


def test_it_is_a_calibrator_to_files_predictions_and_scikit_learn(tmp_path):
    head, (x, z, y) = fitted(), drawn(40, 7)
    head.save(tmp_path)
    loaded = load(tmp_path)
    assert isinstance(loaded, KinHead)
    given = Predictions(z, y, features=x)
    expected = head.predict_proba(z, features=x)
    torch.testing.assert_close(given.calibrated(loaded).probabilities, expected)
    few = given.take(torch.arange(5))
    torch.testing.assert_close(few.calibrated(loaded).probabilities, expected[:5])
    with pytest.raises(SoftkinError, match="`features` must be given"):
        Predictions(z, y).calibrated(loaded)
    again = clone(head)
    assert again.similarity is not None
    assert not again.is_fitted
    assert head.score(z, y, features=x) == pytest.approx(float((expected.argmax(1) == y).double().mean()))
    assert repr(KinHead(similarity.from_distances(distances.from_order(9), top_m=2))).startswith("KinHead(similarity=")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, z, y: KinHead(torch.eye(3) * 2), "rows that sum to 1"),
        (lambda x, z, y: KinHead(lean=0.3), "needs a `similarity`"),
        (lambda x, z, y: KinHead(ridge=2), "`ridge` must be from 0 to 1"),
        (lambda x, z, y: KinHead().predict_proba(z, features=x), "not fitted yet"),
        (lambda x, z, y: KinHead().fit(z, y), "`features` must be given"),
        (lambda x, z, y: KinHead().fit(z, y, features=x, train_features=x), "must be given together"),
        (lambda x, z, y: KinHead().fit(z, y, features=x, sample_weight=y), "takes neither"),
        (lambda x, z, y: fitted().predict_proba(z, features=x[:, :2]), "takes 4 features in a row, got 2"),
        (lambda x, z, y: fitted().as_module(layer=torch.nn.Linear(3, K)), "must take 4 features"),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x[:3], train_features=x, train_labels=y),
            "`features` must have shape",
        ),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x, train_features=x[:, :2], train_labels=y),
            "2 numbers in a row",
        ),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x, train_features=x[y > 0], train_labels=y[y > 0]),
            "class 0 has no row",
        ),
        (
            lambda x, z, y: KinHead().fit(z, y, features=x, train_features=0 * x, train_labels=y),
            "must vary within classes",
        ),
        (
            lambda x, z, y: KinHead(S[:3, :3] / S[:3, :3].sum(1, True)).fit(
                z, y, features=x, train_features=x, train_labels=y
            ),
            "covers 3",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(*drawn(30, 0))


def test_a_flat_second_opinion_is_fitted_in_few_steps():
    """Labels drawn from the sum of both scores: weight and sharpness matter by their product, a curved valley."""
    draws = torch.Generator().manual_seed(0)
    z, d = (2 * torch.randn(4000, 5, generator=draws, dtype=torch.float64) for _ in range(2))
    y = torch.multinomial((z + d).softmax(dim=1), 1, generator=draws)[:, 0]
    head = KinHead()
    head._kin = None
    (t, a, c), end = head._fitted(z, d, y, 1.0)
    assert end.converged
    assert end.iterations < 60
    assert float(c * t) == pytest.approx(1, abs=0.05)
    assert float(a) == pytest.approx(1, abs=0.05)
