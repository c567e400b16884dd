"""Distance sources by name, for training rows."""

from dataclasses import replace

import pytest
import torch

from softkin import distances
from softkin.lab import data
from softkin.lab.training import class_distances


@pytest.fixture(scope="module")
def digits():
    return data.split("digits", max_per_class=10).train


def test_names_are_the_functions_of_distances(digits):
    images = torch.from_numpy(digits.values)
    for name, p in (("l1", 1), ("l2", 2)):
        expected = distances.from_images(images, digits.labels, p=p)
        torch.testing.assert_close(class_distances(digits, name), expected)
    for name in ("words", "we"):
        torch.testing.assert_close(class_distances(digits, name), distances.from_words(digits.class_names))


def test_a_file_is_put_in_the_order_of_the_data(digits, tmp_path):
    whole = class_distances(digits, "l2")
    order = torch.randperm(10)
    names = [digits.class_names[k] for k in order.tolist()]
    distances.save(tmp_path / "d.safetensors", whole[order][:, order], class_names=names, source="a test")
    torch.testing.assert_close(class_distances(digits, tmp_path / "d.safetensors"), whole)
    torch.testing.assert_close(class_distances(digits, whole), whole.clone().fill_diagonal_(0))


def test_synonyms_count_as_one_name(digits):
    names = ["tabby, tabby cat", "dog", "qqqzz, car"]
    named = replace(digits, class_names=names)
    expected = distances.from_words(["tabby", "dog", "car"])
    torch.testing.assert_close(class_distances(named, "words"), expected)


def test_unknown_distances_are_refused(digits):
    with pytest.raises(
        ValueError,
        match="`distance` must be one of l1, l2, autoencoder, words, .*, file, or a .safetensors, .csv, .tsv, .json, .yaml or .yml file, got 'word'; did you mean 'words'?",
    ):
        class_distances(digits, "word")
    with pytest.raises(ValueError, match="`distance` covers 3 classes but the data have 10"):
        class_distances(digits, torch.zeros(3, 3))
    with pytest.raises(
        TypeError, match="`latent_dim` must be left out for the distance 'l1': it is an option of autoencoder."
    ):
        class_distances(digits, "l1", latent_dim=3)
