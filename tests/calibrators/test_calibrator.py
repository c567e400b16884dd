"""One list, one contract: what holds for every calibrator, whatever its method."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone

from calibration_data import BY_FOLDS, FORMULAS, MAKERS, SLOW_AT_1000
from softkin import SoftkinError, calibrators
from softkin.calibrators import (
    Composed,
    DirichletCalibration,
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
)
from softkin.predictions import Predictions


@pytest.fixture(params=MAKERS, name="make")
def _make(request):
    return MAKERS[request.param]


def drawn(n=200, k=4, factor=2.0, seed=0, dtype=torch.float64):
    """Over-confident logits: labels are drawn from softmax(z / factor)."""
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    y = torch.multinomial(torch.softmax(z / factor, dim=1), 1, generator=generator)[:, 0]
    return z.to(dtype), y


def assert_distributions(p, like):
    p = torch.as_tensor(p)
    assert p.shape == like.shape
    assert bool((p >= 0).all())
    torch.testing.assert_close(p.double().sum(dim=1), torch.ones(len(p), dtype=torch.float64), atol=2e-6, rtol=0)


def test_every_method_is_in_the_list():
    assert {type(make()) for make in MAKERS.values()} >= set(calibrators.REGISTRY.values())


def test_fit_returns_self_and_rows_sum_to_one(make):
    z, y = drawn()
    cal = make()
    assert cal.fit(z, y) is cal
    p = cal.predict_proba(drawn(seed=1)[0])
    assert p.dtype == torch.float64
    torch.testing.assert_close(p.sum(dim=1), torch.ones(200, dtype=torch.float64), atol=1e-12, rtol=0)
    assert bool((p >= 0).all())
    assert cal.predict_proba(z[:0]).shape == (0, 4)


def test_certificate(make):
    z, y = drawn()
    cal = make().fit(z, y)
    c = cal.certificate_
    assert c.converged
    assert c.gradient_norm is None or c.gradient_norm <= 1e-6
    assert (c.num_samples, c.num_classes) == (200, 4)
    nll = -torch.log_softmax(z, dim=1).gather(1, y[:, None]).mean()
    assert c.nll_before == pytest.approx(float(nll), abs=1e-12)
    p = cal.predict_proba(z)
    assert c.nll_after == pytest.approx(float(-p.gather(1, y[:, None]).log().mean()), abs=1e-12)
    assert c.argmax_changed == pytest.approx(float((p.argmax(dim=1) != z.argmax(dim=1)).double().mean()), abs=0.025)
    assert "200 samples of 4 classes" in str(c)


def test_numpy_and_torch_agree_and_keep_their_kind(make):
    z, y = drawn()
    by_torch, by_numpy = make().fit(z, y), make().fit(z.numpy(), y.numpy().astype(np.uint8))
    assert isinstance(by_torch.predict_proba(z), torch.Tensor)
    assert isinstance(by_numpy.predict_proba(z.numpy()), np.ndarray)
    np.testing.assert_array_equal(by_torch.predict_proba(z).numpy(), by_numpy.predict_proba(z.numpy()))


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_types(make, given, returned):
    z, y = drawn(dtype=given)
    cal = make().fit(z, y)
    p = cal.predict_proba(z)
    assert p.dtype == returned
    assert_distributions(p, z)
    assert float((p.double() - cal.predict_proba(z.double())).abs().max()) < 1e-6


def test_from_probabilities(make):
    z, y = drawn()
    p = torch.softmax(z, dim=1)
    from_p = make().fit(p, y, from_probabilities=True)
    from_log = make().fit(p.log(), y)
    torch.testing.assert_close(
        from_p.predict_proba(p, from_probabilities=True), from_log.predict_proba(p.log()), atol=1e-6, rtol=0
    )


def test_logits_and_probabilities_are_not_mixed_up():
    z, y = drawn()
    p = torch.softmax(z, dim=1)
    for cal in (VectorScaling(), VectorScaling() | TemperatureScaling()):
        cal.fit(z, y)
        with pytest.raises(ValueError, match="was fitted on logits and needs the same, got probabilities"):
            cal.predict_proba(p, from_probabilities=True)
    for cal in (TemperatureScaling(), MatrixScaling(lam=1.0)):  # to which a constant in a row does not matter
        cal.fit(z, y)
        torch.testing.assert_close(cal.predict_proba(p, from_probabilities=True), cal.predict_proba(z))


def test_clone_and_parameters(make):
    cal = make()
    copy = clone(cal)
    assert type(copy) is type(cal)
    assert repr(copy) == repr(cal)
    z, y = drawn()
    cal.fit(z, y)
    assert not hasattr(clone(cal), "certificate_")
    with pytest.raises(ValueError, match="no option 'nonsense'"):
        cal.set_params(nonsense=1)


def test_refit_forgets(make):
    z, y = drawn()
    other = drawn(n=150, k=3, seed=5)
    cal = make().fit(*other).fit(z, y)
    torch.testing.assert_close(cal.predict_proba(z), make().fit(z, y).predict_proba(z), atol=0, rtol=0)


def test_fit_leaves_its_input_alone(make):
    z, y = drawn()
    before = z.clone(), y.clone()
    make().fit(z, y).predict_proba(z)
    assert torch.equal(z, before[0])
    assert torch.equal(y, before[1])


def test_memory_layout_does_not_matter(make):
    z, y = drawn()
    expected = make().fit(z, y).predict_proba(z)
    turned = z.T.contiguous().T
    assert not turned.is_contiguous()
    assert torch.equal(make().fit(turned, y).predict_proba(turned), expected)
    columns = np.asfortranarray(z.numpy())[::-1]
    np.testing.assert_allclose(make().fit(columns[::-1], y).predict_proba(columns)[::-1], expected, atol=1e-12)


def test_no_rows_in_no_rows_out(make):
    z, y = drawn()
    assert make().fit(z, y).predict_proba(z[:0]).shape == (0, 4)


def test_order_of_samples_does_not_matter(make):
    if make in [MAKERS[name] for name in BY_FOLDS]:
        return  # the folds are by place
    z, y = drawn()
    order = torch.randperm(len(z))
    a, b = make().fit(z, y).predict_proba(z), make().fit(z[order], y[order]).predict_proba(z)
    torch.testing.assert_close(a, b, atol=2e-6, rtol=0)


def test_save_and_load(make, tmp_path):
    z, y = drawn()
    cal = make().fit(z, y, sample_ids=[f"image {i}" for i in range(200)])
    cal.save(tmp_path / "cal")
    back = calibrators.load(tmp_path / "cal")
    assert type(back) is type(cal)
    assert repr(back) == repr(cal)
    assert back.certificate_ == cal.certificate_
    assert torch.equal(back.predict_proba(z), cal.predict_proba(z))
    with pytest.warns(UserWarning, match="2 of 3 samples are among those"):
        back.predict_proba(z[:3], sample_ids=["image 7", "image 8", "new"])
    cal.fit(*drawn(seed=3)).save(tmp_path / "cal")  # over the old one
    assert [path.name for path in (tmp_path / "cal").iterdir()] == ["calibrator.safetensors"]
    assert torch.equal(calibrators.load(tmp_path / "cal").predict_proba(z), cal.predict_proba(z))


def test_absent_class(make):
    z, y = drawn()
    keep = y != 2
    cal = make().fit(z[keep], y[keep])
    assert cal.certificate_.converged
    assert_distributions(cal.predict_proba(z), z)


@pytest.mark.parametrize("label", [0, 1])
def test_one_sample(make, label):
    z = torch.tensor([[2.0, 1.0, -1.0]], dtype=torch.float64)
    cal = make().fit(z, torch.tensor([label]))
    assert cal.certificate_.converged
    assert_distributions(cal.predict_proba(z), z)
    assert_distributions(cal.predict_proba(-z), z)


def test_two_classes(make):
    z, y = drawn(k=2)
    cal = make().fit(z, y)
    assert_distributions(cal.predict_proba(z), z)


def test_all_right(make):
    z, _ = drawn(n=50)
    cal = make().fit(z, z.argmax(dim=1))
    assert cal.certificate_.converged
    assert cal.certificate_.nll_after < 0.3
    assert_distributions(cal.predict_proba(z), z)


def test_constant_logits(make):
    z, y = torch.zeros(30, 3), torch.arange(30) % 3
    cal = make().fit(z, y)
    assert cal.certificate_.converged
    torch.testing.assert_close(cal.predict_proba(z), torch.full((30, 3), 1 / 3), atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MAKERS if name not in SLOW_AT_1000])
def test_a_thousand_classes(name):
    if name == "matrix-search":
        return
    options = {"matrix": lambda: MatrixScaling(lam=100.0), "dirichlet": lambda: DirichletCalibration(lam=100.0)}
    z, y = drawn(n=20, k=1000, factor=1.5)
    cal = options.get(name, MAKERS[name])().fit(z, y)
    assert cal.certificate_.converged
    assert_distributions(cal.predict_proba(z), z)


def test_huge_logits(make):
    z, y = drawn()
    for huge in (1e4 * z, 1e4 * z.sign()):
        cal = make().fit(huge, y)
        assert cal.certificate_.converged
        assert_distributions(cal.predict_proba(huge), z)
        assert_distributions(cal.predict_proba(-huge), z)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-100, 1e30, 1e300])
def test_logits_of_any_size(make, scale):
    """Fits may say that they did not converge; predictions are distributions all the same."""
    z, y = drawn(n=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cal = make().fit(scale * z, y)
    assert_distributions(cal.predict_proba(scale * z), z)


def test_saturated_probabilities(make):
    z, y = drawn()
    p = torch.nn.functional.one_hot(z.argmax(dim=1), 4).float()
    with pytest.warns(UserWarning, match="600 of 800 probabilities are exactly 0, and are taken as"):
        cal = make().fit(p, y, from_probabilities=True)
    assert cal.certificate_.converged
    assert_distributions(cal.predict_proba(p, from_probabilities=True), z)


def test_certify(make):
    z, y = drawn(n=120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 96 samples a fold are few: some methods do get worse, and say so
        certificate = make().certify(z, y, folds=3)
    assert certificate.held_out.folds == 3
    assert certificate.held_out.nll_before == pytest.approx(certificate.nll_before)
    assert "held-out NLL" in str(certificate)


def test_bad_input(make):
    z, y = drawn(n=20)
    cal = make()
    with pytest.raises(ValueError, match="is not fitted yet: call fit"):
        cal.predict_proba(z)
    with pytest.raises(ValueError, match=r"`labels` must have shape \(1, 4\) for logits of shape \(1, 20, 4\)"):
        cal.fit(z[None], y)
    with pytest.raises(ValueError, match="`labels` must be below the number of classes, 2, got 3"):
        cal.fit(z[:, 0], y)
    with pytest.raises(ValueError, match="must be below the number of classes, 4, got 4; do the labels start at 1"):
        cal.fit(z, y * 0 + 4)
    with pytest.raises(ValueError, match="`labels` must be as many as the samples: got 19 for 20"):
        cal.fit(z, y[:-1])
    with pytest.raises(ValueError, match="`logits` must hold at least 1 sample, got 0"):
        cal.fit(z[:0], y[:0])
    bad = z.clone()
    bad[3, 1] = float("nan")
    with pytest.raises(
        ValueError, match="`logits` must be finite, but 1 rows hold NaN or infinity, the first is row 3"
    ):
        cal.fit(bad, y)
    with pytest.raises(
        ValueError, match=r"`logits` must lie between ±1e\+304: differences of larger ones are infinite"
    ):
        cal.fit(1e306 * z, y)
    with pytest.raises(ValueError, match="must not be negative.*if these are logits, apply softmax first"):
        cal.fit(z, y, from_probabilities=True)
    cal.fit(*drawn(n=60))
    for wrong in (float("nan"), float("inf"), -float("inf")):
        for rows in (1, 20):
            bad = z[:rows].clone()
            bad[rows - 1, 3] = wrong
            with pytest.raises(ValueError, match="`logits` must be finite"):
                make().fit(bad, y[:rows])
            with pytest.raises(ValueError, match="`logits` must be finite"):
                cal.predict_proba(bad)
            with pytest.raises(ValueError, match="`logits` must be finite|not be negative"):
                cal.predict_proba(bad, from_probabilities=True)
    with pytest.raises(ValueError, match="`logits` must have the 4 classes that the calibrator was fitted on, got 3"):
        cal.predict_proba(z[:, :3])


def test_repr_is_readable(make):
    z, y = drawn()
    cal = make()
    assert "fit" not in repr(cal)
    assert "NLL" in repr(cal.fit(z, y))
    assert len(repr(cal)) < 500


def test_leak_guard():
    z, y = drawn(n=10)
    cal = TemperatureScaling().fit(z, y, sample_ids=list(range(10)))
    with pytest.warns(UserWarning, match="4 of 10 samples are among those that the TemperatureScaling was fitted on"):
        cal.predict_proba(z, sample_ids=torch.arange(6, 16))
    cal.predict_proba(z, sample_ids=[str(i) for i in range(10)])  # "3" is not 3
    cal.predict_proba(z, sample_ids=[f"#{i}" for i in range(10)])
    cal.predict_proba(z)
    TemperatureScaling().fit(z, y).predict_proba(z, sample_ids=list(range(10)))
    cal.fit(z, y)  # a new fit without ids remembers none
    cal.predict_proba(z, sample_ids=list(range(10)))
    with pytest.raises(ValueError, match="`sample_ids` must be as many as the samples: got 3 for 10"):
        cal.fit(z, y, sample_ids=[1, 2, 3])
    with pytest.raises(TypeError, match="`sample_ids` must be texts or whole numbers, got 0.5 at index 0"):
        cal.fit(z, y, sample_ids=[0.5] * 10)


def test_worse_is_said_and_the_identity_only_on_request():
    z, y = drawn(n=60, k=10, factor=1.0)
    cal = HistogramBinning(binning="mass")
    with pytest.warns(UserWarning, match="HistogramBinning makes the held-out NLL.* worse: held-out NLL"):
        cal.certify(z, y)
    assert not torch.allclose(cal.predict_proba(z), torch.softmax(z, dim=1))
    with pytest.warns(UserWarning, match="It now returns the uncalibrated probabilities"):
        cal.certify(z, y, fallback="identity")
    torch.testing.assert_close(cal.predict_proba(z), torch.softmax(z, dim=1))
    assert "fell back to the identity" in repr(cal)
    torch.testing.assert_close(cal.as_module()(z), torch.softmax(z, dim=1))
    cal.fit(z, y)
    assert "fell back" not in repr(cal)
    with pytest.raises(ValueError, match="`fallback` must be 'identity', got 'zero'"):
        cal.certify(z, y, fallback="zero")


def test_composition():
    z, y = drawn()
    first = TemperatureScaling()
    fallen = (first | PlattScaling()).fit(z, y)
    first.fell_back_ = True  # as certify(fallback="identity") leaves it
    torch.testing.assert_close(fallen.as_module()(z), fallen.predict_proba(z))
    torch.testing.assert_close(fallen.predict_proba(z), fallen.steps[1].predict_proba(torch.log_softmax(z, dim=1)))
    both = TemperatureScaling() | IsotonicCalibration()
    both.fit(z, y)
    scaled = TemperatureScaling().fit(z, y).predict_proba(z)
    by_hand = IsotonicCalibration().fit(scaled, y, from_probabilities=True)
    torch.testing.assert_close(both.predict_proba(z), by_hand.predict_proba(scaled, from_probabilities=True))
    assert len((TemperatureScaling() | (PlattScaling() | IsotonicCalibration())).steps) == 3
    both.set_params(**{"0__objective": "mse"})
    assert both.get_params()["0__objective"] == "mse"
    with pytest.raises(TypeError, match="`steps` must be one calibrator or more"):
        Composed([])
    with pytest.raises(TypeError, match="unsupported operand"):
        TemperatureScaling() | 3


@pytest.mark.parametrize("name", FORMULAS)
def test_as_module(name):
    z, y = drawn()
    cal = MAKERS[name]().fit(z, y)
    module = cal.as_module()
    torch.testing.assert_close(module(z), cal.predict_proba(z))
    low = module.to(torch.float32)(z.float())
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.double(), cal.predict_proba(z), atol=1e-5, rtol=0)
    assert not list(module.parameters())
    again = MAKERS[name]().fit(*drawn(seed=9)).as_module()
    again.load_state_dict(module.state_dict())
    torch.testing.assert_close(again(z), module(z.double()).double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("fell_back", [False, True])
def test_a_module_works_along_its_classes_alone(name, fell_back):
    z, y = drawn()
    k = z.shape[1]
    cal = MAKERS[name]().fit(z, y)
    cal.fell_back_ = fell_back
    pixels = torch.randn(2, k, k, k, dtype=torch.float64)  # as many columns as classes: nothing can be guessed
    rows = pixels.movedim(1, -1).reshape(-1, k)
    expected = cal.as_module()(rows).reshape(2, k, k, k)
    torch.testing.assert_close(cal.as_module()(pixels), expected.movedim(-1, 1))
    torch.testing.assert_close(cal.as_module(class_dim=-1)(pixels.movedim(1, -1)), expected)
    torch.testing.assert_close(cal.as_module(class_dim=-1)(rows), cal.as_module()(rows))
    for shape, dim in (((4, k + 1, k), 1), ((k,), 1), ((k,), -1), ((4, k, 2), -1), ((k, k + 1), 1)):
        with pytest.raises(ValueError, match=r"logits must have .*classes from the last dimension.$"):
            cal.as_module(class_dim=dim)(torch.zeros(shape))
    with pytest.raises(ValueError, match="`class_dim` must not be 0"):
        cal.as_module(class_dim=0)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_module_takes_logits_also_where_the_fit_had_probabilities(name):
    z, y = drawn()
    p = torch.softmax(z, dim=1)
    cal = MAKERS[name]().fit(p, y, from_probabilities=True)
    module = cal.as_module()
    torch.testing.assert_close(module(z + 3), cal.predict_proba(p, from_probabilities=True))


def test_what_cannot_be_a_module():
    z, y = drawn()
    with pytest.raises(TypeError, match="IsotonicCalibration has no fixed number of parameters"):
        (TemperatureScaling() | IsotonicCalibration()).fit(z, y).as_module()


@pytest.mark.parametrize("make", [TemperatureScaling, VectorScaling, lambda: MatrixScaling(lam=0.1)])
@pytest.mark.parametrize("bias", [True, False])
def test_folding_into_the_last_layer(make, bias):
    layer = torch.nn.Linear(6, 4, bias=bias, dtype=torch.float64)
    x = torch.randn(300, 6, dtype=torch.float64)
    with torch.no_grad():
        z = 4 * layer(x)
        layer.weight.mul_(4)
        if bias:
            layer.bias.mul_(4)
    y = torch.multinomial(torch.softmax(z / 2, dim=1), 1)[:, 0]
    cal = make().fit(z, y)
    folded = calibrators.fold_into_linear(cal, layer)
    torch.testing.assert_close(torch.softmax(folded(x), dim=1).detach(), cal.predict_proba(z))
    assert folded is not layer


def test_what_cannot_be_folded():
    z, y = drawn()
    layer = torch.nn.Linear(3, 4)
    with pytest.raises(TypeError, match="DirichletCalibration cannot be folded into a linear layer exactly"):
        calibrators.fold_into_linear(DirichletCalibration(lam=1.0).fit(z, y), layer)
    with pytest.raises(ValueError, match="`linear` must have 4 outputs.*got 5"):
        calibrators.fold_into_linear(TemperatureScaling().fit(z, y), torch.nn.Linear(3, 5))
    on_probabilities = VectorScaling().fit(torch.softmax(z, dim=1), y, from_probabilities=True)
    with pytest.raises(ValueError, match="fitted on probabilities, and a layer returns logits"):
        calibrators.fold_into_linear(on_probabilities, layer)


@pytest.mark.slow
def test_the_module_loads_no_other_library():
    import subprocess
    import sys

    heavy = ("sklearn", "scipy", "matplotlib", "onnx", "pyarrow", "safetensors")
    code = f"import sys, softkin.calibrators; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_class_names_are_kept_and_matched(make, tmp_path):
    """A file with the same classes in another order gets the probabilities of the file in the fitted order."""
    z, y = drawn()
    cal = make().fit(z, y, class_names=["ant", "bee", "cat", "dog"])
    cal.save(tmp_path)
    cal = calibrators.load(tmp_path)
    assert cal.class_names_ == ["ant", "bee", "cat", "dog"]
    assert cal.aligned(["ant", "bee", "cat", "dog"]) is cal.aligned(None) is None
    assert cal.aligned(["0", "1", "2", "3"]) is None  # what columns without names are called
    new = drawn(seed=1)[0]
    order = torch.tensor([2, 0, 3, 1])
    names = [cal.class_names_[k] for k in order.tolist()]
    assert torch.equal(new[:, order][:, cal.aligned(names)], new)
    turned = Predictions(new[:, order], order.argsort()[y], class_names=names)
    expected = Predictions(new, y, class_names=cal.class_names_).calibrated(cal).probabilities
    calibrated = turned.calibrated(cal)
    assert calibrated.class_names == names
    assert torch.equal(calibrated.probabilities, expected[:, order])
    back = turned.in_order(cal.class_names_, "the calibrator")
    assert torch.equal(back.logits, new)
    assert torch.equal(back.labels, y)
    with pytest.raises(ValueError, match="in any order, but it lacks 'dog'; it also has 'eel'."):
        cal.aligned(["ant", "bee", "cat", "eel"])
    with pytest.raises(SoftkinError, match="the predictions must have the classes of the calibrator, .* lacks 'dog'"):
        Predictions(new, y, class_names=["ant", "bee", "cat", "eel"]).calibrated(cal)
    with pytest.raises(ValueError, match="`class_names` must name each class, got 3 names for 4 classes"):
        make().fit(z, y, class_names=["ant", "bee", "cat"])
    assert make().fit(z, y).aligned(names) is None
