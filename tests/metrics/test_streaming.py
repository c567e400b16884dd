"""Batches, merges and processes give what the whole data give."""

import socket

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import metrics_twins as twins
from softkin import metrics
from softkin.metrics import density
from softkin.metrics.catalogue import METRICS
from softkin.metrics.scopes import Claims
from softkin.metrics.statistics import Dealt
from softkin.metrics.streaming import Running

REQUESTS = {
    "ece": "ece_hist",
    "ece output": ("ece_hist", {"scope": "output"}),
    "ece output score": ("ece_hist", {"scope": "output", "per": "score", "norm": 2, "n_bins": 10}),
    "netcal": ("ece_hist", {"convention": "netcal"}),
    "torchmetrics": ("ece_hist", {"convention": "torchmetrics", "norm": 2}),
    "mce": "mce",
    "debiased": ("debiased_ece", {"n_bins": 20}),
    "over": ("signed_gap", {"part": "over"}),
    "net": "signed_gap",
    "classwise": ("classwise_ece", {"reduction": "sum"}),
    "kull": ("classwise_ece", {"convention": "kull2019"}),
    "smooth": "smooth_ece",
    "smooth output": ("smooth_ece", {"scope": "output", "per": "score"}),
    "super": ("superclass_ece", {"groups": np.array([0, 0, 1, 1, 2])}),
    "severity": ("mistake_severity", {"distances": np.abs(np.arange(5)[:, None] - np.arange(5))}),
    "nll": "nll",
    "brier": "brier",
    "brier score": ("brier", {"per": "score"}),
    "accuracy": "accuracy",
    "top": ("top_k_accuracy", {"k": 2}),
}
KERNELS = {
    "kde": "ece_kde",
    "kde output": ("ece_kde", {"scope": "output"}),
    "kde none": ("ece_kde", {"scope": "output", "boundary": "none", "per": "score"}),
    "kde mnm": ("ece_kde", {"bandwidth": "mix-n-match"}),
    "kde fixed": ("ece_kde", {"bandwidth": 0.05}),
    "kde convention": ("ece_kde", {"convention": "mix-n-match"}),
}


def whole(request, p, y):
    name, options = (request, {}) if isinstance(request, str) else request
    return getattr(metrics, name)(p, y, **options)


def data(n=2000):
    p, y = twins.random_case(0, n=n)
    p[:20] = np.eye(5)[np.arange(20) % 5]  # scores of exactly 0 and 1
    p[20:40] = [0.2, 0.2, 0.2, 0.2, 0.2]
    return p, y


# Softer than the data's own labels allow: a true class with probability 0 would make the NLL infinite.
def finite_data():
    p, y = data()
    y[:20] = p[:20].argmax(1)
    return p, y


def fed(requests, p, y, step):
    total = metrics.Accumulator(requests, kde_cells=2**14)
    for start in range(0, len(p), step):
        total.update(p[start : start + step], y[start : start + step])
    return total


@pytest.mark.parametrize("step", [7, 500, 2000])
def test_batches_equal_the_whole(step):
    p, y = finite_data()
    values = fed(REQUESTS, p, y, step).compute()
    for name, request in REQUESTS.items():
        assert values[name] == pytest.approx(whole(request, p, y), abs=1e-12), name


def test_kernels_equal_the_whole():
    p, y = finite_data()
    values = fed(KERNELS, p, y, 300).compute()
    for name, request in KERNELS.items():
        assert values[name] == pytest.approx(whole(request, p, y), abs=1e-6), name


def test_two_classes_are_binned_as_the_convention_does():
    """Netcal and mix-n-match look at the score of class 1 where there are two classes, also in a stream."""
    p, y = finite_data()
    p, y = np.stack([p[:, 0], 1 - p[:, 0]], axis=1), (y > 0).astype(int)
    two = {"netcal": ("ece_hist", {"convention": "netcal"}), "kde": ("ece_kde", {"convention": "mix-n-match"})}
    two["mce"] = ("mce", {"convention": "netcal"})
    for name, value in fed(two, p, y, 300).compute().items():
        assert value == pytest.approx(whole(two[name], p, y), abs=1e-6 if name == "kde" else 1e-12), name


def test_kernels_of_equal_scores():
    p, y = np.tile([0.7, 0.3], (10, 1)), np.array([0] * 5 + [1] * 5)
    assert fed(["ece_kde"], p, y, 3).compute()["ece_kde"] == pytest.approx(0.2, abs=1e-12)


def test_merge_equals_the_whole():
    p, y = finite_data()
    a, b = fed(REQUESTS, p[:700], y[:700], 100), fed(REQUESTS, p[700:], y[700:], 100)
    empty = metrics.Accumulator(REQUESTS, kde_cells=2**14)
    empty.merge(a)
    empty.merge(b)
    empty.merge(metrics.Accumulator(REQUESTS, kde_cells=2**14))
    for name, value in fed(REQUESTS, p, y, 2000).compute().items():
        assert empty.compute()[name] == pytest.approx(value, abs=1e-12)
    assert a.num_samples == 700  # merging took nothing from it


def test_state_does_not_grow():
    p, y = finite_data()
    total = fed({**REQUESTS, **KERNELS}, p, y, 500)
    before = {name: part.totals.shape for name, part in total._parts.items()}
    total.update(p, y)
    assert {name: part.totals.shape for name, part in total._parts.items()} == before
    sizes = {name: part.totals.numel() for name, part in total._parts.items()}
    assert sizes["ece output"] == 45
    assert sizes["classwise"] == 3 * 5 * 15


def test_a_refused_batch_leaves_nothing_behind():
    p, y = finite_data()
    total = fed(REQUESTS, p, y, 500)
    before = total.compute()
    with pytest.raises(ValueError, match="must not be negative"):
        total.update(-p, y)
    with pytest.raises(ValueError, match="the same classes, got 4 after 5"):
        total.update(np.full((1, 4), 0.25), np.array([0]))
    assert total.compute() == before
    total.update(np.ones((0, 5)), np.zeros(0, int))
    assert total.compute() == before
    total.reset()
    with pytest.raises(ValueError, match="`update` has seen no samples"):
        total.compute()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("aurc", "`aurc` cannot stream: it ranks all samples by confidence"),
        ("auroc", "`auroc` compares two sets of scores"),
        ("fpr_at_95", "`fpr_at_95` compares two sets of scores"),
        (("ece_hist", {"binning": "mass"}), "`ece_hist` cannot stream: the edges of equal-mass bins need all scores"),
        (("classwise_ece", {"binning": "mass"}), "`classwise_ece` cannot stream: the edges of equal-mass bins"),
        (("ece_hist", {"convention": "mix-n-match"}), "the edges of equal-mass bins need all scores"),
        ("smooth_eec", "got 'smooth_eec'; did you mean 'smooth_ece'?"),
        (("ece_hist", {"scope": "all"}), "`scope` must be"),
        (("ece_kde", {"bandwidth": 0.7}), "at most 0.5"),
    ],
)
def test_what_cannot_stream_is_refused_by_name(request_, words):
    with pytest.raises(ValueError, match=words):
        metrics.Accumulator({"x": request_})


def test_unknown_options_and_unlike_accumulators_are_refused():
    with pytest.raises(TypeError, match="`nll` takes no option `scope`"):
        metrics.Accumulator({"x": ("nll", {"scope": "output"})})
    for metric in ("mce", "debiased_ece", "signed_gap"):
        with pytest.raises(TypeError, match=f"`{metric}` takes no option `norm`; its options: .*scope, n_bins"):
            metrics.Accumulator({"x": (metric, {"norm": 2})})
    with pytest.raises(TypeError, match="`mce` takes no option `per`"):
        metrics.Accumulator({"x": ("mce", {"per": "score"})})
    with pytest.raises(ValueError, match="only accumulators of the same metrics merge"):
        metrics.Accumulator(["nll"]).merge(metrics.Accumulator(["brier"]))
    with pytest.raises(ValueError, match="`k` must be at most the number of classes, 2, got 5"):
        metrics.Accumulator("top_k_accuracy").update(np.array([[0.5, 0.5]]), np.array([0]))


def test_too_few_cells_are_said_so():
    p, y = finite_data()
    total = metrics.Accumulator(["ece_kde"], kde_cells=1024)
    total.update(p, y)
    with pytest.raises(ValueError, match="`kde_cells` must be at least 8192 for the bandwidth"):
        total.compute()


def _rank(rank, port, results):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    try:
        p, y = finite_data()
        mine = slice(0, 1300) if rank == 0 else slice(1300, None)  # unequal shares
        total = fed({**REQUESTS, **KERNELS}, p[mine], y[mine], 250)
        first, second = total.compute(), total.compute()  # the state stays each rank's own
        idle = metrics.Accumulator(["ece_hist", "classwise_ece"])
        if rank == 0:
            idle.update(p, y)
        results[rank] = (first, second, idle.compute(), total.num_samples)
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
def test_two_real_processes_reduce_exactly():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with mp.Manager() as manager:
        results = manager.dict()
        mp.spawn(_rank, args=(port, results), nprocs=2, join=True)
        (first, again, idle, count), (other, *_, other_count) = results[0], results[1]
    p, y = finite_data()
    expected = fed({**REQUESTS, **KERNELS}, p, y, 2000).compute()
    for name, value in expected.items():
        assert first[name] == pytest.approx(value, abs=1e-12), name
    assert first == again == other
    assert idle["ece_hist"] == pytest.approx(metrics.ece_hist(p, y), abs=1e-12)
    assert (count, other_count) == (1300, 700)


def test_tensors_of_any_type():
    p, y = finite_data()
    total = metrics.Accumulator("ece_hist")
    total.update(torch.from_numpy(p).float(), torch.from_numpy(y))
    assert total.compute()["ece_hist"] == pytest.approx(metrics.ece_hist(p.astype(np.float32), y), abs=1e-12)


@pytest.mark.parametrize("name", ["ece_hist_output", "classwise_ece"])
def test_sums_of_groups_are_those_of_their_rows(name):
    """Each group's sums, and those with the drawn labels, add up to the metric of the group's rows alone."""
    p, y = (torch.from_numpy(array) for array in finite_data())
    generator = np.random.default_rng(1)
    dealt = Dealt(
        torch.from_numpy(generator.integers(0, 3, len(y))), 3, torch.from_numpy(generator.integers(0, 5, 2000))
    )
    running = Running(METRICS[name], {"n_bins": 7}, cells=0)
    for rows in (slice(0, 700), slice(700, None)):
        part = Dealt(dealt.group[rows], 3, dealt.drawn[rows])
        running.feed(running.of(Claims(p[rows], y[rows])), part)
    seen, difference = running.totals
    reader = running.reader(5)
    for group in range(3):
        own = dealt.group == group
        for sums, labels in ((seen, y), (seen + difference, dealt.drawn)):
            expected = METRICS[name].statistic(Claims(p[own], labels[own]), n_bins=7).value()
            assert float(reader.of(sums[group][None])) / int(own.sum()) == pytest.approx(expected, abs=1e-12)


def test_the_floor_of_a_kernel_comes_from_the_same_cells_as_its_value():
    p, _ = finite_data()
    sums = density.Sums.zeros(2**14)
    scores = torch.from_numpy(p).reshape(-1)
    sums.add(scores, torch.arange(5))
    for boundary in ("reflect", "none"):
        exact = density.calibration_error(scores, scores[:0], 256 / 2**14, boundary, shares=scores)
        assert sums.floor(256 / 2**14, boundary, 1.0) == pytest.approx(exact, rel=1e-6)
