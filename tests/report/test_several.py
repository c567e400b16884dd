"""Several models: differences, classes, agreement."""

import pytest
import torch
from scipy.stats import binomtest

from softkin import evaluation, metrics, report
from softkin.predictions import Predictions
from softkin.report import several as page_of_several


@pytest.fixture(scope="module")
def compared(several):
    return report.build_models(several, resamples=100)


def test_differences_are_those_of_the_library(several, compared):
    expected = evaluation.compare(several, resamples=100)
    names = {method["key"]: method["name"] for method in compared["methods"]}
    assert [(names[pair["a"]], names[pair["b"]], pair["metric"], pair["difference"]) for pair in compared["pairs"]] == [
        (line["a"], line["b"], line["metric"], line["difference"]) for line in expected
    ]
    values = [row["cells"]["nll"]["value"] for row in compared["table"]["rows"]]
    assert values == sorted(values)
    by_name = {model.name: model for model in several}
    for row in compared["table"]["rows"]:
        first = by_name[names[row["method"]]]
        assert row["cells"]["ece_hist"]["value"] == pytest.approx(
            metrics.ece_hist(first.probabilities, first.known_labels), abs=1e-12
        )
    best = next(row for row in compared["table"]["rows"] if row["cells"]["ece_hist"]["best"])
    assert names[best["method"]] == "three"
    for row in compared["table"]["rows"]:
        if row is not best:
            pair = next(
                p
                for p in compared["pairs"]
                if p["metric"] == "ece_hist" and {p["a"], p["b"]} == {row["method"], best["method"]}
            )
            assert row["cells"]["ece_hist"]["tie"] == (not pair["significant"])
            assert row["cells"]["ece_hist"]["p_value"] == pair["p_value"]


def test_classes_and_agreement_by_counting(several, compared):
    first, second, third = several
    place = {name: row for row, name in enumerate(second.sample_ids)}
    order = torch.tensor([place[name] for name in first.sample_ids])
    actual = [first.probabilities.argmax(1), second.probabilities.argmax(1)[order], third.probabilities.argmax(1)]
    y = first.known_labels
    for i, a in enumerate(actual):
        assert compared["classes"]["right"][f"m{i}"] == [int(((a == k) & (y == k)).sum()) for k in range(6)]
        for j, b in enumerate(actual):
            assert compared["agreement"]["same"][i][j] == pytest.approx(float((a == b).double().mean()))
            assert compared["agreement"]["same_mistake"][i][j] == pytest.approx(
                float(((a == b) & (a != y)).double().mean())
            )
    assert set(compared["classes"]["best"]) <= {None, 1}  # the third divides the first's logits: they are level
    assert not any(compared["classes"]["beyond_chance"])


def test_a_class_is_won_beyond_chance_by_mcnemars_test():
    y = torch.tensor([0] * 40 + [1] * 40)
    good, bad = y.clone(), y.clone()
    bad[:20] = 1  # twenty of class 0 lost
    bad[40:43] = 0  # three of class 1 lost: p = 0.25
    won = page_of_several._classes(torch.stack([good, bad]), y, 2, ["m0", "m1"], 0.05)
    assert won["best"] == [0, 0]
    assert won["beyond_chance"] == [True, False]
    assert binomtest(0, 20).pvalue < 0.05 / 2 < binomtest(0, 3).pvalue


def test_one_to_twenty_one_models(several):
    for count in (1, 21):
        with pytest.raises(ValueError, match=f"`models` must be 2 to 20 for one page, got {count}."):
            report.build_models([several[0]] * count)


def test_pairs_of_several_models_are_compared_by_confidence_and_outcome():
    generator = torch.Generator().manual_seed(0)
    right = (torch.rand(900, generator=generator) < 0.7).long()
    sure = torch.where(right == 1, 0.8, 0.6) + 0.15 * torch.rand(900, generator=generator)
    both = [
        Predictions.from_probabilities(torch.stack([1 - s, s], 1), right, are_pairs=True, name=name)
        for name, s in (("calm", sure), ("loud", sure.sqrt()))
    ]
    page = report.build_models(both, resamples=100)
    assert (page["classes"], page["agreement"], page["overview"]["words"]["rows"]) == (None, None, None)
    rows = {row["method"]: row for row in page["overview"]["groups"][0]["rows"]}
    for key, model in (("m0", both[0]), ("m1", both[1])):
        confidence = model.probabilities[:, 1]
        assert rows[key]["right"] == pytest.approx(float(right.double().mean()))
        assert rows[key]["sure"] == pytest.approx(float(confidence.mean()))
        error = metrics.ece_hist(confidence, right.bool())
        assert rows[key]["error"] == pytest.approx(error)
        assert page["curves"][key]["prediction"]["ece"]["15"] == [pytest.approx(error)]
    with pytest.raises(ValueError, match="not both"):
        report.build_models([both[0], Predictions(torch.randn(900, 2), right)], resamples=100)
