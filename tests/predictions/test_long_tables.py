"""Tables with a row for each sample and class; the corpus has whole files of them."""

import warnings

import numpy as np
import pytest

from softkin import SoftkinError, predictions

NAMES = ["cat", "dog", "owl"]
P = np.random.default_rng(1).dirichlet([1, 1, 1], size=60).round(4)


def table(score="prob", values=P, truth=None, order=lambda row: [0, 1, 2]):
    """The rows of a table; ``truth`` is a function from (sample, class) to a cell."""
    head = ["id", "class", score, *([] if truth is None else ["label"])]
    lines = [",".join(head)]
    for row in range(len(values)):
        for k in order(row):
            cells = [f"s{row}", NAMES[k], values[row, k], *([] if truth is None else [truth(row, k)])]
            lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def read(path, content, **options):
    path.write_text(content)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        return predictions.load(path, **options), " ".join(str(one.message) for one in said)


def test_classes_may_come_in_any_order(tmp_path):
    shuffled = table(truth=lambda row, k: NAMES[row % 3], order=lambda row: np.random.default_rng(row).permutation(3))
    found, said = read(tmp_path / "a.csv", shuffled)
    places = [NAMES.index(name) for name in found.class_names]
    np.testing.assert_allclose(found.probabilities.numpy(), P[:, places], atol=1e-3)
    assert [found.class_names[k] for k in found.labels] == [NAMES[row % 3] for row in range(60)]
    assert found.sample_ids[:2] == ["s0", "s1"]
    assert "the 3 rows of each `id` are joined" in said


def test_without_truth_there_are_no_labels(tmp_path):
    found, said = read(tmp_path / "a.csv", table())
    assert (len(found), found.labels) == (60, None)
    assert "none of its columns is read as the labels" in said
    (tmp_path / "y.txt").write_text("\n".join(NAMES[row % 3] for row in range(60)))
    found, _ = read(tmp_path / "a.csv", table(), labels=tmp_path / "y.txt")
    assert found.labels.tolist() == [row % 3 for row in range(60)]


def test_a_score_of_several_columns_says_what_it_is(tmp_path):
    found, _ = read(tmp_path / "a.csv", table("logit", np.log(P + 1e-3), lambda row, k: int(k == row % 3)))
    assert found.num_classes == 3
    assert not found.are_probabilities
    assert found.labels.tolist() == [row % 3 for row in range(60)]


def test_distances_are_not_taken_for_scores(tmp_path):
    with pytest.raises(SoftkinError):
        read(tmp_path / "a.csv", table("distance", 3 * P + 0.5, lambda row, k: int(k == row % 3)))


def test_a_sample_that_lacks_a_class_is_named(tmp_path):
    lines = table(truth=lambda row, k: int(k == row % 3)).splitlines()
    del lines[150]
    with pytest.raises(SoftkinError, match="line 149 begins a sample, s49, that does not have each of the 3 classes"):
        read(tmp_path / "a.csv", "\n".join(lines) + "\n")
