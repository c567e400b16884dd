"""Paired comparisons of models."""

import json
from dataclasses import replace

import pytest
import torch

from command_line import run
from places import EXAMPLES
from softkin import SoftkinError, evaluation, metrics, predictions
from softkin.calibrators import TemperatureScaling
from softkin.calibrators.held_out import cross_fit
from softkin.evaluation import from_files
from softkin.evaluation.comparison import after_temperature, resamples_for
from softkin.metrics.measurement import Settings
from softkin.predictions import Predictions


@pytest.fixture
def two(tmp_path, over_confident):
    """Two models on the same samples, the second better calibrated; with ids."""
    ids = [f"s{i}" for i in range(400)]
    first = Predictions(over_confident.logits, over_confident.labels, sample_ids=ids)
    second = Predictions(over_confident.logits / 2.5, over_confident.labels, sample_ids=ids)
    first.save(tmp_path / "a.npz")
    second.save(tmp_path / "b.npz")
    return first, second


def test_paired_comparisons(tmp_path, two, capsys):
    first, second = two
    code, output, errors = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--json", "--resamples", 200)
    assert (code, errors) == (0, "")
    lines = {line["metric"]: line for line in json.loads(output)["comparisons"]}
    assert list(lines) == ["accuracy", "nll", "brier", "ece_hist", "ece_hist_output"]
    expected = metrics.compare(first.probabilities, second.probabilities, first.known_labels, "ece_hist", resamples=200)
    actual = lines["ece_hist"]
    assert (actual["a"], actual["b"]) == ("a.npz", "b.npz")
    assert actual["difference"] == pytest.approx(expected.difference)
    assert (actual["low"], actual["high"], actual["p_value"]) == (expected.low, expected.high, expected.p_value)
    assert actual["significant"] is True
    assert lines["accuracy"]["difference"] == 0
    assert lines["accuracy"]["significant"] is False
    _, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--resamples", 200)
    compared = output[output.index("a.npz minus b.npz") :].splitlines()
    assert next(line for line in compared if line.startswith("ECE of the prediction")).endswith("b.npz")
    assert next(line for line in compared if line.startswith("accuracy")).endswith("not significant")


@pytest.mark.parametrize(
    ("p_values", "significant"),
    [
        ([0.03, 0.04, 0.2], [False, False, False]),  # 3 · 0.03 is more than 0.05
        ([0.02, 0.5, 0.01], [True, False, True]),  # 3 · 0.01 and 2 · 0.02 are not
        ([0.02, 0.001, 0.03], [True, True, True]),
    ],
)
def test_many_comparisons_ask_for_more(monkeypatch, two, p_values, significant):
    answers = iter(p_values * 5)
    pairs = [(0, 1), (0, 2), (1, 2)]
    monkeypatch.setattr(
        "softkin.metrics.resampling.all_compared",
        lambda *_: {pair: metrics.Comparison(1.0, 0.5, 1.5, next(answers)) for pair in pairs},
    )
    lines = evaluation.compare([*two, two[0]], resamples=100)
    assert [line["significant"] for line in lines] == significant * 5


def test_a_clear_difference_among_many_models_is_significant(two):
    """Holm's rule over 45 pairs asks for p ≤ 0.0011, less than 1,000 resamples can show."""
    first, second = two
    models = [first, *(Predictions(second.logits * (1 + i / 100), second.labels) for i in range(9))]
    lines = [line for line in evaluation.compare(models) if line["metric"] == "nll"]
    assert len(lines) == 45
    assert all(line["significant"] for line in lines[:9])  # the first is far more over-confident
    settings = Settings(resamples=1000)
    assert [resamples_for(count, settings) for count in (2, 5, 10, 20)] == [1000, 1000, 3600, 15_200]
    assert resamples_for(20, Settings(confidence=0.9999)) == 100_000
    assert resamples_for(20, Settings(resamples=200_000)) == 200_000


def test_comparing_all_at_once_equals_comparing_two(two, monkeypatch):
    models = [*two, Predictions(two[0].logits * 0.8, two[0].labels)]
    settings = {"resamples": 300, "seed": 3}
    lines = evaluation.compare(models, **settings)
    monkeypatch.setattr("softkin.metrics.resampling.MOST_NOISE", 0)  # as for very many bins: two at a time
    assert lines == evaluation.compare(models, **settings)
    pairs = [(0, 1), (0, 2), (1, 2)] * 5
    for line, (a, b) in zip(lines, pairs, strict=True):
        p, q = models[a].probabilities, models[b].probabilities
        expected = metrics.compare(p, q, models[0].known_labels, line["metric"], **settings)
        assert [line[part] for part in ("difference", "low", "high", "p_value")] == [
            expected.difference, expected.low, expected.high, expected.p_value,
        ]  # fmt: skip


@pytest.mark.slow
def test_samples_are_brought_into_one_order_or_refused(tmp_path, two, capsys, monkeypatch):
    first, second = two
    straight = evaluation.compare([first, second], resamples=100)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    assert evaluation.compare([first, second.take(order)], resamples=100) == straight
    nameless = Predictions(second.logits[order], second.known_labels[order])
    with pytest.raises(SoftkinError, match=r"must be of the same samples in the same order, but \d+ labels differ"):
        evaluation.compare([first, nameless])
    other = Predictions(second.logits, second.labels, sample_ids=[f"t{i}" for i in range(400)])
    with pytest.raises(SoftkinError, match="must be of the same samples: 400 and 400 sample_ids, 's0' is not in"):
        evaluation.compare([first, other])
    twice = Predictions(second.logits, second.labels, sample_ids=["s1", *(f"s{i}" for i in range(1, 400))])
    with pytest.raises(SoftkinError, match="must name each sample once"):
        evaluation.compare([first, twice])
    with pytest.raises(SoftkinError, match="400 and 399 sample_ids, 's399' is not in"):
        evaluation.compare([first, second.take(torch.arange(399))])
    with pytest.raises(SoftkinError, match="has 7 classes and .* has 3"):
        evaluation.compare([first, Predictions(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))])
    wrong = second.known_labels.clone()
    wrong[17] = (wrong[17] + 1) % 7
    Predictions(second.logits, wrong, sample_ids=second.sample_ids).save(tmp_path / "w.npz")
    second.take(order).save(tmp_path / "shuffled.npz")
    for limit in (10**6, 100):  # in memory, and as a stream
        monkeypatch.setattr(from_files, "ROWS", limit)
        code, _, errors = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "w.npz", "--resamples", 100)
        assert code == 1
        assert (
            "a.npz and w.npz must be of the same samples in the same order, but 1 labels differ, the first at row 17"
            in errors
        )
    code, _, errors = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "shuffled.npz", "--resamples", 100)
    assert code == 1
    assert "must have the same sample_ids in the same order" in errors
    code, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--resamples", 200, "--json")
    streamed = {line["metric"]: line for line in json.loads(output)["comparisons"]}
    for line in straight:
        assert streamed[line["metric"]]["difference"] == pytest.approx(line["difference"], abs=1e-9)
        assert streamed[line["metric"]]["significant"] == line["significant"]


@pytest.mark.filterwarnings("default")
def test_models_whose_classes_are_in_another_order_are_matched_by_name(tmp_path, capsys):
    first = predictions.load(EXAMPLES / "digits-test.npz")
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    names = [first.class_names[k] for k in order.tolist()]
    turned = Predictions(
        1.5 * first.logits[:, order], order.argsort()[first.labels], class_names=names, sample_ids=first.sample_ids
    )
    turned.save(tmp_path / "turned.npz")
    plain = Predictions(1.5 * first.logits, first.labels, class_names=first.class_names, sample_ids=first.sample_ids)
    plain.save(tmp_path / "plain.npz")
    shown = {}
    for name in ("plain", "turned"):
        files_of = (EXAMPLES / "digits-test.npz", tmp_path / f"{name}.npz")
        page = ("--report", tmp_path / f"{name}.html")
        code, output, errors = run(capsys, "evaluate", *files_of, "--resamples", 100, "--json", *page)
        assert code == 0, errors
        said = errors.count("has the classes of digits-test.npz in another order: matched by name")
        assert said == (name == "turned")  # once, though table and page compare
        shown[name] = {**json.loads(output)["comparisons"][0], "b": None}
    assert shown["turned"] == shown["plain"]
    other = Predictions(first.logits, first.labels, class_names=[f"x{k}" for k in range(10)])
    with pytest.raises(SoftkinError, match="must have the classes of digits, test, in any order, but it lacks .zero."):
        evaluation.compare([first, other], resamples=100)


def test_a_temperature_on_each_takes_away_what_only_the_temperature_made(tmp_path, two, capsys):
    """Two models that differ by a temperature alone are equal once each has its own."""
    code, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--json", "--resamples", 200)
    (line,) = json.loads(output)["after_temperature"]
    given = next(line for line in json.loads(output)["comparisons"] if line["metric"] == "nll")
    assert (code, given["significant"], line["metric"], line["significant"]) == (0, True, "nll", False)
    assert given["difference"] > 0.1
    assert line["difference"] == pytest.approx(0, abs=1e-6)
    _, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--resamples", 200)
    assert "NLL (nats) after temperatures" in output


def test_differences_after_a_temperature_are_those_of_the_cross_fitted_rows(two):
    first, _ = two
    generator = torch.Generator().manual_seed(0)
    noisy = Predictions(first.logits + torch.randn(first.logits.shape, generator=generator), first.known_labels)
    (line,) = after_temperature([first, noisy], resamples=200, seed=3).pairs
    p, q = (
        cross_fit(TemperatureScaling(), model.logits, model.known_labels, folds=2, from_probabilities=False, seed=3)
        for model in (first, noisy)
    )
    expected = metrics.compare(p, q, first.known_labels, "nll", resamples=200, seed=3)
    assert line["difference"] == pytest.approx(expected.difference)
    assert (line["low"], line["high"]) == pytest.approx((expected.low, expected.high))


def test_nothing_is_compared_after_a_temperature_where_none_can_be_fitted(two):
    first, second = two
    few = [Predictions(model.logits[:40], model.known_labels[:40]) for model in two]
    assert after_temperature(few).pairs == []
    votes = Predictions(first.logits, torch.softmax(second.logits, dim=1).to(torch.float64))
    assert after_temperature([votes, votes]).pairs == []


def test_pairs_of_confidence_and_outcome_are_compared_after_a_temperature_too():
    p = torch.rand(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = (torch.rand(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64) < p).long()
    judges = [
        Predictions.from_probabilities(torch.stack([1 - q, q], 1), y, are_pairs=True, name=name)
        for name, q in (("a", p), ("b", (3 * torch.logit(p)).sigmoid()))
    ]
    (line,) = after_temperature(judges, resamples=200).pairs
    assert line["difference"] == pytest.approx(0, abs=1e-3)  # they differ by a temperature alone
    assert not line["significant"]


def test_comparisons_fit_80_columns_where_one_loss_is_infinite(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    p = torch.full((60, 2), 0.5, dtype=torch.float64)
    labels = torch.arange(60) % 2
    wrong = p.clone()
    wrong[0] = torch.tensor([0.0, 1.0])
    files_of = [tmp_path / f"fraud-{name}-model.npz" for name in ("naive-bayes", "logistic")]
    for path, scores in zip(files_of, (wrong, p), strict=True):
        Predictions.from_probabilities(scores, labels).save(path)
    _, output, _ = run(capsys, "evaluate", *files_of, "--resamples", 100)
    table = output.partition("On the same samples")[2]
    assert "NLL (nats) after temperatures" in table
    assert max(map(len, table.splitlines())) <= 80
    assert " second: finite" in table
    assert "the second: finite" not in table  # four columns that 80 do not have where p-values are dropped


def test_an_infinite_difference_has_no_p_value_in_the_terminal(tmp_path, capsys):
    """One model gives a true class the probability 0."""
    p = torch.full((60, 3), 1 / 3, dtype=torch.float64)
    labels = torch.arange(60) % 3
    wrong = p.clone()
    wrong[0] = torch.tensor([0.0, 0.5, 0.5])
    Predictions.from_probabilities(p, labels).save(tmp_path / "a.npz")
    Predictions.from_probabilities(wrong, labels).save(tmp_path / "b.npz")
    _, output, _ = run(capsys, "evaluate", tmp_path / "a.npz", tmp_path / "b.npz", "--resamples", 100)
    (line,) = [line for line in output.splitlines() if line.startswith("NLL (nats)") and "finite" in line]
    assert "undefined" not in output
    assert line.split()[-4:] == ["–", "–", "a.npz:", "finite"]
    assert output.count("NLL is infinite because a true class has the probability 0, as rounding leaves it") == 1


def test_ids_that_name_a_sample_twice_do_no_harm_where_both_files_have_the_same_list(two):
    """Such as the questions of a test that was asked several times."""
    first, other = (replace(one, sample_ids=[str(k // 2) for k in range(len(one))]) for one in two)
    plain = evaluation.compare(list(two), resamples=100)
    assert evaluation.compare([first, other], resamples=100) == plain
