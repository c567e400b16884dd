"""Blocks with fewer threads: nested, in several threads at once, and put back also after an error."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from torch.overrides import TorchFunctionMode

from softkin import calibrators, metrics
from softkin._core import threads
from softkin.sklearn import CalibratedClassifier


@pytest.fixture(autouse=True)
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_the_least_of_open_blocks_counts_and_the_setting_comes_back():
    with threads.at_most(3):
        assert torch.get_num_threads() == 3
        with threads.at_most(1):
            assert torch.get_num_threads() == 1
            with threads.at_most(2):
                assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 4
    with threads.at_most(9):
        assert torch.get_num_threads() == 4
    with threads.halved(), threads.halved():
        assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), threads.at_most(1):
        raise KeyError
    assert torch.get_num_threads() == 4


def test_blocks_of_several_threads_overlap_and_each_gets_its_setting_back():
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    left = {}

    def first():
        with threads.at_most(1):
            first_in.set()
            second_in.wait()
            left["first, inside"] = torch.get_num_threads()
        left["first"] = torch.get_num_threads()
        first_out.set()

    def second():
        assert torch.get_num_threads() == 4  # asked before the first block opens, so that nothing is inherited
        ready.set()
        first_in.wait()
        with threads.at_most(1):
            second_in.set()
            first_out.wait()
            left["second, inside"] = torch.get_num_threads()
        left["second"] = torch.get_num_threads()

    ready = threading.Event()
    workers = [threading.Thread(target=second), threading.Thread(target=first)]
    workers[0].start()
    ready.wait()
    workers[1].start()
    for worker in workers:
        worker.join()
    assert left == {"first, inside": 1, "first": 4, "second, inside": 1, "second": 4}
    assert torch.get_num_threads() == 4


def test_evaluations_at_once_halve_the_threads_once():
    def inside(_):
        with threads.halved():
            return torch.get_num_threads()

    with threads.halved(), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(inside, range(2))) == [2, 2]
    assert torch.get_num_threads() == 4


def test_small_work_runs_on_one_thread_and_large_work_on_all(monkeypatch):
    seen = []
    monkeypatch.setattr(metrics.catalogue, "answer", lambda *_: seen.append(torch.get_num_threads()) or 0.0)
    p, y = torch.full((1000, 4), 0.25), torch.zeros(1000, dtype=torch.int64)
    metrics.accuracy(p, y)
    monkeypatch.setattr(threads, "SMALL", 100)
    metrics.accuracy(p, y)
    assert seen == [1, 4]
    fit = calibrators.TemperatureScaling.fit_rows
    monkeypatch.setattr(
        calibrators.TemperatureScaling, "fit_rows", lambda *a: seen.append(torch.get_num_threads()) or fit(*a)
    )
    calibrators.TemperatureScaling().fit(torch.randn(10, 4), y[:10])
    assert seen[2:] == [1]
    assert torch.get_num_threads() == 4


class Watched(TorchFunctionMode):
    """Remembers with how many threads each operation of torch runs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ not in ("__get__", "_set_grad_enabled"):  # these compute nothing
            self.seen.append(torch.get_num_threads())
        return func(*args, **(kwargs or {}))


Z = torch.randn(60, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3
X, LABELS = Z.numpy(), Y.numpy()
T = calibrators.TemperatureScaling().fit(Z, Y)


@pytest.mark.parametrize(
    "work",
    [
        lambda: metrics.interval(Z.softmax(1), Y, "ece_hist"),
        lambda: metrics.when_calibrated(Z.softmax(1), "ece_hist"),
        lambda: metrics.compare(Z.softmax(1), (2 * Z).softmax(1), Y, "nll"),
        lambda: T.predict_proba(Z),
        lambda: calibrators.TemperatureScaling().fit(Z, Y).certify(Z, Y),
        lambda: calibrators.fit_best(Z, Y, ["temperature", "vector"]),
        lambda: calibrators.floor_of(Z.softmax(1)),
        lambda: CalibratedClassifier(GaussianNB()).fit(X, LABELS).predict_proba(X),
    ],
    ids=["interval", "when_calibrated", "compare", "predict_proba", "certify", "fit_best", "floor_of", "sklearn"],
)
def test_no_operation_on_few_numbers_runs_on_several_threads(work):
    with Watched() as watched:
        work()
    given = 3  # softmax and the like, which the test itself asks for
    assert len(watched.seen) > given
    assert watched.seen[given:].count(4) == 0, f"{watched.seen.count(4)} of {len(watched.seen)}"
    assert torch.get_num_threads() == 4
