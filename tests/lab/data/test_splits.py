"""Splits, out-of-distribution sets and augmentation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softkin.lab import data
from softkin.lab.data import splits


def parts(split):
    return split.train, split.validation, split.test


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 10_000), st.data())
def test_stratified_rows(counts, seed, drawn):
    labels = np.random.Generator(np.random.PCG64(seed)).permutation(np.repeat(np.arange(len(counts)), counts))
    most = sum(counts) - len(counts)
    rows = drawn.draw(st.integers(0, most))
    chosen = splits.stratified(labels, rows, np.random.Generator(np.random.PCG64(seed)), "test")
    assert len(set(chosen.tolist())) == len(chosen) == rows
    assert (np.diff(chosen) > 0).all()
    got = np.bincount(labels[chosen], minlength=len(counts))
    assert (got <= np.array(counts) - 1).all()  # each class keeps one
    share = np.array(counts) * rows / len(labels)
    if (np.ceil(share) <= np.array(counts) - 1).all():
        assert (np.abs(got - share) < 1).all()


def test_stratified_is_uniform_within_a_class():
    labels = np.repeat([0, 1], [8, 4])
    hits = np.zeros(12)
    for seed in range(3000):
        hits[splits.stratified(labels, 6, np.random.Generator(np.random.PCG64(seed)), "test")] += 1
    assert np.allclose(hits / 3000, 0.5, atol=0.04)  # 4 of 8 and 2 of 4; four standard errors


def test_the_digits_study():
    split = data.split("digits", max_per_class=10, test=1000, validation=697)
    assert [len(part) for part in parts(split)] == [100, 697, 1000]
    assert np.bincount(split.train.labels).tolist() == [10] * 10
    ids = np.concatenate([part.ids for part in parts(split)])
    assert len(np.unique(ids)) == 1797
    whole = data.load("digits")
    for part in parts(split):
        assert np.array_equal(part.values, whole.values[part.ids])
        assert part.labels.tolist() == whole.labels[part.ids].tolist()
    share = np.bincount(whole.labels) / 1797
    assert np.abs(np.bincount(split.test.labels) - 1000 * share).max() < 1


def test_defaults_and_seeds():
    split = data.split("digits")
    assert [len(part) for part in parts(split)] == [1258, 180, 359]
    again, other = data.split("digits"), data.split("digits", seed=1)
    assert split.digest == again.digest != other.digest
    assert split.seed == 0
    assert [part.digest for part in parts(split)] == [part.digest for part in parts(again)]
    assert split.test.ids.tolist() == again.test.ids.tolist() != other.test.ids.tolist()


def test_the_digest_knows_every_row():
    """No two different splits share a digest: not by one row, not by a relabelled sample."""
    base = {"test": 300, "validation": 200, "max_per_class": 50}
    digests = {data.split("digits", **base).digest}
    for change in ({"test": 301}, {"validation": 201}, {"max_per_class": 49}, {"seed": 3}):
        digests.add(data.split("digits", **{**base, **change}).digest)
    digits = data.load("digits")
    assert data.split(digits, **base).digest in digests
    digests.add(data.split(replace(digits, digest="0"), **base).digest)
    assert len(digests) == 6


@pytest.mark.slow
def test_cifar100_keeps_5000_and_its_official_test_set(shared_data):
    split = data.split(shared_data / "cifar100", progress=False)
    assert [len(part) for part in parts(split)] == [45_000, 5_000, 10_000]
    assert np.bincount(split.validation.labels).tolist() == [50] * 100
    assert np.bincount(split.test.labels).tolist() == [100] * 100
    assert split.test.ids.tolist() == list(range(50_000, 60_000))  # no sample of the test set shares an id
    assert not set(split.train.ids) & set(split.validation.ids)
    small = data.split(shared_data / "cifar100", max_per_class=5, test=200, validation=300)
    assert [len(part) for part in parts(small)] == [500, 300, 200]
    assert np.bincount(small.test.labels).tolist() == [2] * 100
    assert split.train.source.endswith(", train")


def test_official_parts_of_text(shared_data):
    split = data.split(shared_data / "text" / "banking77.parquet")
    assert [len(part) for part in parts(split)] == [9003, 1000, 3080]
    assert (
        split.validation.texts[0]
        == data.load(shared_data / "text" / "banking77.parquet").texts[split.validation.ids[0]]
    )


def test_twins_across_the_sets_are_counted(tmp_path, monkeypatch):
    rng = np.random.Generator(np.random.PCG64(0))
    images = rng.integers(0, 256, size=(60, 4, 4, 3), dtype=np.uint8)
    images[40:] = images[:20]  # twenty twins
    np.savez(tmp_path / "d.npz", images=images, labels=np.tile([0, 1], 30))
    split = data.split(tmp_path / "d.npz")
    train = {image.tobytes() for image in split.train.values}
    others = [image.tobytes() for part in (split.validation, split.test) for image in part.values]
    assert split.overlap == sum(image in train for image in others) > 0
    monkeypatch.setattr(splits, "SMALL", 0)
    assert data.split(tmp_path / "d.npz").overlap == split.overlap
    monkeypatch.setattr(splits, "_twins", None)  # from here on it is remembered
    assert data.split(tmp_path / "d.npz").overlap == split.overlap
    monkeypatch.undo()
    # Other texts with the same words are no twins.
    (tmp_path / "train.csv").write_text("text,label\none two,0\na,0\nb,0\nc,1\nd,1\ne,1\nf,0\ng,1\nh,0\ni,1\n")
    (tmp_path / "test.csv").write_text("text,label\ntwo one,0\none two,0\n")
    (tmp_path / "d.npz").unlink()
    split = data.split(tmp_path)
    assert split.overlap == ("one two" in split.train.texts)


def test_splits_that_cannot_be():
    for options, words in (
        ({"test": 1788}, "`test` must be at most 1787 rows, got 1788; each class keeps one row for training"),
        ({"test": 1700, "validation": 88}, "`validation` must be at most 87 rows, got 88"),
        ({"test": 0}, "`test` must be at least 1, got 0"),
        ({"max_per_class": 0}, "`max_per_class` must be at least 1"),
        ({"seed": -1}, "`seed` must be at least 0"),
    ):
        with pytest.raises(ValueError, match=words):
            data.split("digits", **options)
    noise = data.out_of_distribution("uniform", data.load("digits"), rows=5)
    with pytest.raises(ValueError, match="`source` must have labels, but uniform noise like .* belongs to no class"):
        data.split(noise)
