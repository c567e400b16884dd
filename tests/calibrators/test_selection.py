"""Cross-fitting, ``fit_best``, and the exported model."""

import warnings

import numpy as np
import pytest
import torch

from calibration_data import drawn
from softkin import calibrators, metrics
from softkin.calibrators import (
    DirichletCalibration,
    HistogramBinning,
    IsotonicCalibration,
    KinMatrixScaling,
    MatrixScaling,
    PlattScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
    selection,
)
from softkin.calibrators.held_out import cross_fit


def test_certify_by_hand():
    z, y = drawn()
    held_out = TemperatureScaling().certify(z, y, folds=4, seed=2).held_out
    after = cross_fit(TemperatureScaling(), z, y, folds=4, from_probabilities=False, seed=2)
    assert held_out.nll_after == pytest.approx(metrics.nll(after, y))
    assert held_out.ece_after == pytest.approx(metrics.ece_hist(after, y))
    assert held_out.ece_before == pytest.approx(metrics.ece_hist(torch.softmax(z, dim=1), y))
    assert held_out.worse == ()


def test_certify_from_probabilities():
    z, y = drawn()
    a = TemperatureScaling().certify(z, y).held_out
    b = TemperatureScaling().certify(torch.softmax(z, dim=1), y, from_probabilities=True).held_out
    assert a.nll_after == pytest.approx(b.nll_after, abs=1e-9)


def test_fit_best_chooses_and_says_how_sure_it_is():
    z, y = drawn(k=8)
    best = calibrators.fit_best(
        z, y, [HistogramBinning(binning="mass", n_bins=3), TemperatureScaling()], metric="brier"
    )
    assert isinstance(best.calibrator, TemperatureScaling)
    assert best.calibrator.temperature_ == pytest.approx(TemperatureScaling().fit(z, y).temperature_)
    assert [type(candidate.calibrator) for candidate in best.candidates] == [TemperatureScaling, HistogramBinning]
    assert best.candidates[0].score < best.candidates[1].score
    assert best.comparison.difference == pytest.approx(best.candidates[0].score - best.candidates[1].score)
    assert best.comparison.low <= best.comparison.difference <= best.comparison.high
    assert best.is_significant
    assert "better than the runner-up" in str(best)
    assert not hasattr(best.candidates[0].calibrator, "certificate_")  # what was given stays unfitted


def test_fit_best_tells_no_winner_where_there_is_none():
    z, y = drawn()
    best = calibrators.fit_best(z, y, [TemperatureScaling(), TemperatureScaling()])
    assert not best.is_significant
    assert "not significantly better" in str(best)


def test_fit_best_by_default_and_by_other_metrics():
    z, y = drawn(n=120)
    best = calibrators.fit_best(z, y, resamples=200, folds=2)
    assert len(best.candidates) == len(calibrators.default_candidates(searches=True))
    assert {MatrixScaling, DirichletCalibration, StructuredVectorScaling, StructuredMatrixScaling, KinMatrixScaling} < {
        type(candidate.calibrator) for candidate in best.candidates
    }
    assert best.uncalibrated > best.candidates[0].score
    assert all(candidate.seconds > 0 for candidate in best.candidates)
    assert f"{best.candidates[0].calibrator!r}, {best.candidates[0].seconds:.1f} s" in str(best)

    def worst(p, labels):
        return float(-p.gather(1, labels[:, None]).min())

    assert (
        calibrators.fit_best(z, y, [TemperatureScaling(), PlattScaling()], metric=worst, resamples=100).metric
        == "worst"
    )
    best = calibrators.fit_best(z, y, [TemperatureScaling(), IsotonicCalibration()], metric="accuracy", resamples=200)
    assert best.candidates[0].score >= best.candidates[1].score


def test_searches_are_left_out_where_they_would_take_too_long(monkeypatch):
    """n·K² decides: the boundary itself, and what then is tried."""
    assert calibrators.affordable(50_000, 100)
    assert not calibrators.affordable(50_001, 100)
    assert calibrators.affordable(10_000, 100, folds=5)
    assert not calibrators.affordable(10_001, 100, folds=5)
    monkeypatch.setattr(selection, "MOST_WORK", 0)
    z, y = drawn(n=60, k=3)
    best = calibrators.fit_best(z, y, resamples=100, folds=2)
    tried = {type(candidate.calibrator) for candidate in best.candidates}
    assert {TemperatureScaling, VectorScaling, StructuredVectorScaling} < tried
    assert not tried & {MatrixScaling, DirichletCalibration, KinMatrixScaling}
    assert all(c.calibrator.strength == 1.0 for c in best.candidates if type(c.calibrator) is StructuredMatrixScaling)


def test_the_best_signed_gap_is_the_one_nearest_0():
    z, y = drawn(n=300, factor=0.2)
    z = z / 3  # far under-confident, and held there by the ridge
    best = calibrators.fit_best(z, y, [VectorScaling(l2=1e6), TemperatureScaling()], metric="signed_gap", resamples=100)
    assert isinstance(best.calibrator, TemperatureScaling)
    assert best.candidates[1].score < -0.1 < best.candidates[0].score


def test_fit_best_warns_if_nothing_helps():
    z, y = drawn(n=60, k=10, factor=1.0)
    with pytest.warns(UserWarning, match="even the best of 1 calibrators makes nll worse on held-out samples"):
        calibrators.fit_best(z, y, [HistogramBinning(binning="mass")])


def test_fit_best_refuses():
    z, y = drawn()
    with pytest.raises(ValueError, match="`candidates` must hold at least 1 calibrator, got none"):
        calibrators.fit_best(z, y, [])
    with pytest.raises(ValueError, match="`metric` must be one of accuracy, .*nll, .* or a function, got 'nonsense'"):
        calibrators.fit_best(z, y, metric="nonsense")
    with pytest.raises(ValueError, match="`logits` must hold at least 2 samples, got 1"):
        calibrators.fit_best(z[:1], y[:1])
    with pytest.raises(ValueError, match="`folds` must be at least 2, got 1"):
        TemperatureScaling().certify(z, y, folds=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # from the exporter itself
@pytest.mark.parametrize(
    "cal",
    [
        TemperatureScaling(),
        calibrators.EnsembleTemperatureScaling(),
        VectorScaling(),
        MatrixScaling(lam=0.1),
        DirichletCalibration(lam=0.1),
        DirichletCalibration(lam=0.1, combine="average"),
        StructuredVectorScaling(strength=1.0),
        StructuredMatrixScaling(strength=1.0),
        PlattScaling(),
        calibrators.BetaCalibration(),
        TemperatureScaling() | PlattScaling(),
    ],
    ids=repr,
)
def test_onnx(cal, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    import onnxruntime

    z, y = drawn()
    module = cal.fit(z, y).as_module().eval()
    path = tmp_path / "calibrator.onnx"
    rows = torch.export.Dim("rows")
    torch.onnx.export(
        module,
        (z[:5].float(),),
        str(path),
        input_names=["logits"],
        dynamo=True,
        dynamic_shapes=({0: rows},),
        verbose=False,
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {session.get_inputs()[0].name: z.float().numpy()})
    np.testing.assert_allclose(actual, cal.predict_proba(z.float()).numpy(), atol=2e-6)


def test_candidates_by_name():
    z, y = drawn()
    best = calibrators.fit_best(z, y, candidates=["ts", calibrators.VectorScaling()], folds=2, progress=False)
    assert {type(candidate.calibrator).name for candidate in best.candidates} == {"temperature", "vector"}
    with pytest.raises(ValueError, match=r"`candidates` must be .*temprature.*; did you mean 'temperature'\?"):
        calibrators.fit_best(z, y, candidates=["temprature"])


def test_infinite_scores_show_no_winner():
    z, y = drawn(n=120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = calibrators.fit_best(
            z, y, candidates=[calibrators.HistogramBinning(), calibrators.IsotonicCalibration()], progress=False
        )
    assert best.candidates[0].score == float("inf")  # else this were no trial
    assert not best.is_significant
