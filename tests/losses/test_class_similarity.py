"""The ways to make a loss with class-similarity labels, each against its parts."""

from types import SimpleNamespace

import pytest
import torch

from softkin import distances, losses, similarity, smoothing
from softkin.distances import tree_files
from softkin.losses import ClassSimilarityLoss


def test_from_names_is_its_parts():
    names = ["cat", "dog", "car", "sea_lion", "truck", "lion"]
    S = similarity.from_distances(distances.from_words(names), beta=3.0)
    loss_fn = ClassSimilarityLoss.from_names(names, alpha=0.2, beta=3.0)
    torch.testing.assert_close(loss_fn.soft_labels, smoothing.similarity_labels(S, 0.2), rtol=1e-12, atol=0)
    sparse = ClassSimilarityLoss.from_names(names, alpha=0.2, beta=3.0, top_m=5)
    logits, targets = torch.randn(9, 6), torch.arange(9) % 6
    torch.testing.assert_close(sparse(logits, targets), loss_fn(logits, targets))


def test_from_distances_is_its_parts():
    D = distances.from_order(5)
    S = similarity.from_distances(D, beta=1.5)
    loss_fn = ClassSimilarityLoss.from_distances(D, alpha=0.3, beta=1.5)
    torch.testing.assert_close(loss_fn.soft_labels, smoothing.similarity_labels(S, 0.3), rtol=1e-12, atol=0)


def test_learned_is_the_loss_of_its_module():
    S = similarity.from_distances(distances.from_order(5))
    made = ClassSimilarityLoss.learned(5, 0.4, prior=S, prior_rows=3, steps=7, ignore_index=-1)
    assert isinstance(made, losses.LearnedSimilarityLoss)
    assert (made.alpha, made.steps, made.ignore_index) == (0.4, 7, -1)
    assert repr(made) == ("LearnedSimilarityLoss(alpha=0.4, learned, prior_rows=3, num_classes=5, reduction='mean')")


def test_a_class_without_a_vector_is_smoothed_uniformly():
    names = ["cat", "dog", "car", "sea_lion", "qzx", "truck", "lion"]
    with pytest.warns(UserWarning, match=r"1 of 7 classes has a name without a vector \('qzx'\) and is smoothed"):
        loss_fn = ClassSimilarityLoss.from_names(names, alpha=0.3, beta=3.0)
    Q = loss_fn.soft_labels
    expected = torch.full((7,), 0.05, dtype=torch.float64)
    expected[4] = 0.7
    torch.testing.assert_close(Q[4], expected)
    torch.testing.assert_close(Q.sum(dim=1), torch.ones(7, dtype=torch.float64))
    rest = [0, 1, 2, 3, 5, 6]
    D = distances.from_words([names[k] for k in rest])
    for row, k in enumerate(rest):  # the class without a vector is at the mean distance
        d = D[row][torch.arange(6) != row]
        d = torch.cat([d, d.mean()[None]])
        expected = torch.softmax(-3.0 * (d - d.mean()) / d.std(correction=0), dim=0)
        others = [j for j in rest if j != k] + [4]
        torch.testing.assert_close(Q[k, others], 0.3 * expected)
    with pytest.raises(ValueError, match="1 word has no vector: 'qzx'"):
        ClassSimilarityLoss.from_names(names, strict=True)
    with pytest.raises(ValueError, match="are these names in another language"):
        ClassSimilarityLoss.from_names(["Hund", "Katze", "Vogel", "car"], strict=True)


def test_identifiers_of_wordnet_are_looked_up(monkeypatch):
    lemmas = {"n00000001": ["dog", "domestic_dog"], "n00000002": ["cat"], "n00000003": ["sports_car"]}
    fake = SimpleNamespace(lemmas=lemmas.__getitem__)
    monkeypatch.setattr(tree_files, "WordNet", lambda: fake)
    found = ClassSimilarityLoss.from_names(list(lemmas), beta=1.0).soft_labels
    plain = ClassSimilarityLoss.from_names(["dog", "cat", "sports car"], beta=1.0).soft_labels
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["Hündin", "Krankenwagen", "Schmetterling"], "None of the 3 class names has a vector"),
        (["狗", "猫", "dog", "马"], "Only 1 of the 4 class names has a vector \\('狗', '猫', '马' have none\\)"),
        (
            ["dog", "cat", "Eichhörnchen", "车"],
            "Only 2 of the 4 class names have vectors \\('Eichhörnchen', '车' have none\\)",
        ),
        (["n00000001", "n00000002", "n00000003"], "WordNet's others if WordNet is installed"),
        (["E11.9", "J45.909", "C34"], "ICD-10 codes are looked up"),
    ],
)
def test_names_of_which_few_have_a_vector_are_smoothed_uniformly(monkeypatch, tmp_path, names, words):
    monkeypatch.setenv("SOFTKIN_WORDNET", str(tmp_path))
    monkeypatch.setattr("softkin.distances.tree_files.ICD_PACKAGES", ())
    with pytest.warns(UserWarning, match=words):
        loss_fn = ClassSimilarityLoss.from_names(names, alpha=0.3)
    expected = torch.full((len(names),) * 2, 0.3 / (len(names) - 1), dtype=torch.float64).fill_diagonal_(0.7)
    torch.testing.assert_close(loss_fn.soft_labels, expected)
    with pytest.raises(ValueError, match="no vector"):
        ClassSimilarityLoss.from_names(names, alpha=0.3, strict=True)


def test_codes_of_diagnoses_are_looked_up(monkeypatch, tmp_path):
    """A module as the packages of ICD-10 have it; both were tried themselves with these codes."""
    (tmp_path / "some_icd_10.py").write_text(
        "KNOWN = {'I10': 'hypertension', 'J45': 'asthma', 'J44': 'bronchitis', 'S52': 'fracture of the arm'}\n"
        "is_valid_item = KNOWN.__contains__\nget_description = KNOWN.__getitem__\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("softkin.distances.tree_files.ICD_PACKAGES", ("no-such-list", "some-icd-10"))
    with pytest.warns(UserWarning, match="read as ICD-10 codes: I10 is 'hypertension'"):
        loss_fn = ClassSimilarityLoss.from_names(["I10", "J45", "J44", "S52"], alpha=0.1, beta=1.0)
    assert int(loss_fn.soft_labels[1].topk(2).indices[1]) == 2  # asthma, bronchitis
