"""Names: one registry, one "did you mean"."""

import pytest

from softkin import calibrators, distances
from softkin._core import names
from softkin.lab.training.methods import METHODS


@pytest.fixture
def registry():
    fruits = names.Registry("fruit")
    fruits.add("apple", 1)
    fruits.add("pear", 2, aliases=("abate", "conference"))
    return fruits


def test_alias_gives_the_thing_and_its_canonical_name(registry):
    assert registry["abate"] == registry["pear"] == 2
    assert registry.canonical("conference") == "pear"
    assert registry.canonical("APPLE") == "apple"


def test_iteration_gives_canonical_names_in_order(registry):
    assert list(registry) == ["apple", "pear"]
    assert registry.spellings == ["apple", "pear", "abate", "conference"]
    assert len(registry) == 2


def test_unknown_name_is_refused_with_the_nearest(registry):
    with pytest.raises(ValueError, match="^`fruit` must be one of apple, pear, got 'aple'; did you mean 'apple'\\?$"):
        registry.canonical("aple", "fruit")
    with pytest.raises(ValueError, match="^a fruit must be one of apple, pear, got 'xyz'.$"):
        registry.canonical("xyz")
    with pytest.raises(TypeError, match="got 3.$"):
        registry.canonical(3)


def test_names_are_taken_once(registry):
    with pytest.raises(ValueError, match="already a fruit called 'abate'"):
        registry.add("abate", 3)
    with pytest.raises(ValueError, match="already a fruit called 'apple'"):
        registry.add("quince", 3, aliases=("apple",))
    assert "quince" not in registry


def test_the_same_declaration_again_replaces_the_first(registry):
    def quince():
        pass

    def fig():
        pass

    registry.add("quince", 3, aliases=("q",), origin=quince)
    registry.add("quince", 4, aliases=("q",), origin=quince)  # a notebook cell that is run again
    assert registry["q"] == 4
    with pytest.raises(ValueError, match="already a fruit called .quince."):
        registry.add("quince", 5, origin=fig)
    registry.remove("quince")
    assert registry.add("quince", 5, origin=fig) == 5


def test_removing_takes_the_aliases_along(registry):
    registry.remove("pear")
    assert "abate" not in registry
    assert list(registry) == ["apple"]


def test_near_ignores_case_and_long_words_cost_little():
    assert names.near("ACCURACY", ["accuracy", "nll"]) == ["accuracy"]
    assert names.near("x" * 10**6, ["accuracy", "nll"]) == []


def test_titles_of_tables_are_accepted_where_names_are():
    """Tables and studies show titles, so that whoever reads "Enc" there may type it as a distance."""
    for registry in (calibrators.REGISTRY, distances.SOURCES, METHODS):
        for name, declared in registry.items():
            assert registry.canonical(declared.title) == name


def test_long_names_stay_apart():
    long = [f"a-rather-long-model-name-{place:02d}-of-one-family.npz" for place in range(20)]
    short = names.short_names(long)
    assert len(set(short)) == 20
    assert all(len(name) <= names.SHORT for name in short)
    assert short[7] == "name-07"
    families = ["lenet-5", "wideresnet-16-4", "densenet-bc-100-12"]
    assert names.short_names([f"probs_netcal_{name}-cifar-100.npz" for name in families]) == families
    assert names.short_names(["one", "another"]) == ["one", "another"]
    for hostile in (
        ["x" * 90],
        ["x" * 90, "x" * 89 + "y" + "x" * 90],
        ["", "a" * 90],
        ["-" * 90, "-" * 91],
        ["same" * 9] * 3,
    ):
        short = names.short_names(hostile)
        assert len(set(short)) == len(hostile)
        assert max(map(len, short)) <= names.SHORT


def test_words_that_most_names_share_go_before_letters_are_cut():
    """One name of another make must not bring back what the others share, nor cut what differs."""
    given = [
        "probs_net_lenet-5-cifar-100.npz",
        "probs_net_resnet32-hot-cifar-100.npz",
        "densenet-bc-100-cifar100-probs.npz",
    ]
    assert names.short_names(given) == ["net_lenet-5-cifar", "net_resnet32-hot-cifar", "densenet-bc-cifar100"]


def test_case_and_hyphens_do_not_count_where_one_thing_can_be_meant(registry):
    registry.add("blood-orange", 6, aliases=("moro",))
    assert registry.canonical("BloodOrange") == registry.canonical("blood_orange") == "blood-orange"
    registry.add("bloodorange ", 7)  # two things: neither is guessed
    with pytest.raises(ValueError, match="got 'blood_orange'; did you mean"):
        registry.canonical("blood_orange")


def test_the_names_that_people_have_for_plain_training_and_uniform_smoothing_are_known():
    assert METHODS.canonical("onehot") == METHODS.canonical("cross_entropy") == "one-hot"
    assert METHODS.canonical("LS") == METHODS.canonical("label smoothing") == "uniform"
