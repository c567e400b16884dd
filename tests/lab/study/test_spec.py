import inspect

import pytest

from softkin import SoftkinError, similarity, smoothing
from softkin.lab.study import StudySpec
from softkin.lab.study.columns import PAPER
from softkin.lab.study.spec import digest_of
from softkin.lab.training.methods import METHODS, Method
from softkin.losses import ClassSimilarityLoss


def test_plain_data_and_back():
    spec = StudySpec(methods=PAPER, seeds=(3, 5), beta=(0.5, 6.0), recipe={"epochs": 4}, ood=("uniform",))
    assert StudySpec.from_dict(spec.to_dict()) == spec
    assert StudySpec.from_dict(spec.to_dict()).digest == spec.digest
    assert spec.digest != StudySpec(methods=PAPER).digest


def test_toml(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('data = "digits"\nmethods = ["one-hot", "we+ts"]\nseeds = 3\nbeta = 2.0\n[recipe]\nepochs = 7\n')
    spec = StudySpec.from_toml(path)
    assert spec.seeds == (0, 1, 2)
    assert spec.beta == (2.0,)
    assert spec.recipe == {"epochs": 7}
    path.write_text("data = ")
    with pytest.raises(SoftkinError, match="could not be read as a study"):
        StudySpec.from_toml(path)
    with pytest.raises(SoftkinError, match="there is no such file"):
        StudySpec.from_toml(tmp_path / "absent.toml")


def test_digest_ignores_the_order_of_keys():
    assert digest_of({"a": 1, "b": [1.5]}) == digest_of({"b": [1.5], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_every_tunable_method_gets_as_many_trials():
    for alpha, beta in (((0.1,), (1.0, 2.0, 4.0)), ((0.05, 0.1), (1.0, 2.0)), ((0.1,), (2.0,)), ((0.0, 0.1), (1.0,))):
        spec = StudySpec(methods=(*PAPER, "focal", "margin", "cutmix"), alpha=alpha, beta=beta)
        for base in spec.bases():
            values = [tuple(candidate.values()) for candidate in spec.candidates(base)]
            assert len(set(values)) == (1 if base == "one-hot" else len(alpha) * len(beta)), base
    spec = StudySpec(methods=PAPER, alpha=0.1, beta=(1.0, 2.0, 4.0))
    assert [candidate["mixing"] for candidate in spec.candidates("mixup")] == [0.1, 0.2, 0.4]
    assert [candidate["alpha"] for candidate in spec.candidates("uniform")] == [0.05, 0.1, 0.2]
    assert StudySpec(methods=PAPER, beta=(2.0,)).candidates("mixup") == [{"mixing": 0.2}]


def test_by_default_every_smoothing_method_tunes_itself_in_one_training():
    spec = StudySpec(methods=(*PAPER, "learned"))
    for base in spec.bases():
        (values,) = spec.candidates(base)
        smooth = {"l1", "l2", "ae", "we"}
        expected = {"alpha": "auto", "beta": "auto"} if base in smooth else {"uniform": {"alpha": "auto"}}.get(base)
        assert values == (expected or {"one-hot": {}, "mixup": {"mixing": 0.2}, "learned": {"alpha": 0.5}}[base])
    assert StudySpec.from_dict(spec.to_dict()) == spec
    # With more values of β there are more trials, but α of uniform smoothing has still nothing to try.
    spec = StudySpec(methods=PAPER, alpha="auto", beta=(1.0, 2.0), top_m=5)
    assert spec.candidates("we") == [{"alpha": "auto", "beta": beta, "top_m": 5} for beta in (1.0, 2.0)]
    assert spec.candidates("uniform") == [{"alpha": "auto"}]
    assert len(spec.candidates("mixup")) == 2
    mixed = StudySpec(methods=("uniform", "learned"), alpha=("auto", 0.05))
    assert mixed.candidates("uniform") == [{"alpha": "auto"}, {"alpha": 0.05}]
    fixed = StudySpec(methods=("uniform", "learned"), alpha=0.1)
    assert fixed.candidates("learned") == [{"alpha": 0.5}]  # as `softkin train` has it, and not the study's α
    assert [values["alpha"] for values in mixed.candidates("learned")] == [0.25, 0.9]


@pytest.mark.parametrize(
    ("alpha", "beta", "tried"),
    [
        (0.1, (1,), [0.1]),
        (0.1, (1, 2), [0.1, 0.2]),
        (0.1, (0.5, 1, 2, 4, 6), [0.05, 0.0707107, 0.1, 0.141421, 0.2]),
        ((0.02, 0.5), (1, 2, 4), [0.01, 0.02, 0.0447214, 0.1, 0.5, 0.9]),
        (("auto", 0.1), (1, 2), ["auto", 0.05, 0.1, 0.2]),
        ("auto", (1, 2), ["auto"]),
        (0.9, (1, 2, 4), [0.45, 0.636396, 0.9]),
        (0.0, (1, 2), [0.0, 0.02]),
    ],
)
def test_uniform_smoothing_tries_the_values_given_and_as_many_around_them_as_others_have_trials(alpha, beta, tried):
    spec = StudySpec(methods=("uniform", "we"), alpha=alpha, beta=beta)
    assert [values["alpha"] for values in spec.candidates("uniform")] == tried
    assert tried == ["auto"] or len(tried) == spec.trials


def test_small_values_are_tried_first_so_that_they_win_ties():
    spec = StudySpec(methods=("we", "uniform", "mixup"), alpha=(0.1, 0.02), beta=(4, 1), mixing=(0.4, 0.1, 0.2, 0.3))
    tried = [(values["alpha"], values["beta"]) for values in spec.candidates("we")]
    assert tried == [(0.02, 1), (0.02, 4), (0.1, 1), (0.1, 4)]
    assert [values["mixing"] for values in spec.candidates("mixup")] == [0.1, 0.2, 0.3, 0.4]
    alphas = [
        values["alpha"] for values in StudySpec(methods=("uniform",), alpha=(0.1, "auto", 0.02)).candidates("uniform")
    ]
    assert alphas == ["auto", 0.02, 0.1]


def test_defaults_that_are_declared_in_several_places_agree():
    """The functions that people call have their own signatures; what commands and studies take must be the same."""

    def default(function, name):
        return inspect.signature(function).parameters[name].default

    declared = {
        (name, parameter.name): parameter.default for name, method in METHODS.items() for parameter in method.parameters
    }
    for function in (
        ClassSimilarityLoss,
        ClassSimilarityLoss.from_names,
        Method.from_distances,
        smoothing.similarity_labels,
    ):
        assert default(function, "alpha") == declared["similarity", "alpha"]
    assert default(smoothing.uniform_labels, "alpha") == declared["uniform", "alpha"]
    for function in (
        ClassSimilarityLoss.from_names,
        Method.from_distances,
        similarity.from_distances,
        similarity.from_vectors,
    ):
        assert default(function, "beta") == declared["similarity", "beta"]
    for method in METHODS.values():  # one trial: the default of `softkin train`
        if method.tuned is not None and not method.from_distances:
            ((_, value),) = (
                StudySpec(methods=(method.title.lower(),), alpha=0.1).candidates(method.title.lower())[0].items()
            )
            assert value == declared[method.name, method.tuned]


def test_unequal_trials_are_refused():
    with pytest.raises(ValueError, match="same number of trials, but alpha × beta has 3, mixing has 2"):
        StudySpec(methods=PAPER, beta=(1, 2, 4), mixing=(0.1, 0.2))
    with pytest.raises(ValueError, match="same number of trials, but alpha has 2, mixing has 3"):
        StudySpec(methods=("uniform", "mixup"), alpha=(0.1, 0.2), mixing=(0.1, 0.2, 0.4))
    with pytest.raises(ValueError, match="alpha × beta has 3, uniform_alpha has 2"):
        StudySpec(methods=("we", "uniform"), beta=(1, 2, 4), uniform_alpha=(0.1, 0.2))
    StudySpec(methods=("uniform", "mixup"), mixing=(0.1, 0.2, 0.4))  # one α, of which as many are made
    StudySpec(methods=("one-hot", "ts"), mixing=(0.1, 0.2))  # no mixup: nothing to be unfair to


def test_calibrators_need_the_network_behind_them():
    assert StudySpec(methods=("ts", "we+ts", "we")).bases() == ["one-hot", "we"]
    assert StudySpec(methods=("we", "one-hot")).bases() == ["one-hot", "we"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"methods": ["one-hot", "unifrom"]},
            "`methods` must be one of one-hot, uniform, .*, ts, .*, got 'unifrom'; did you mean 'uniform'",
        ),
        ({"methods": ["we+platte"]}, "`methods` must be one of temperature.* did you mean 'platt'"),
        ({"methods": ["ts+ets"]}, "must be a training method"),
        ({"methods": 3}, "must be a list of names"),
        ({"sedes": 3}, "key 'sedes' is not known.*did you mean 'seeds'"),
        ({"seeds": 0}, "`seeds` must be at least 1"),
        ({"seeds": [1, 1]}, "none twice"),
        ({"seeds": 10**7}, "`seeds` must be at most 1,000, got 10,000,000"),
        ({"seeds": list(range(2000))}, "`seeds` must be at most 1,000, got 2,000"),
        ({"seeds": [10**30]}, "`seeds` must be at most"),
        ({"beta": list(range(2000))}, "`beta` must hold at most 1,000 numbers, got 2,000"),
        ({"alpha": [i / 200 for i in range(100)], "beta": list(range(100))}, "`alpha × beta` must be at most 1,000"),
        ({"ood_rows": 10**12}, "`ood_rows` must be at most 10,000,000"),
        ({"methods": ["similarity"]}, "must name class-similarity smoothing by its distance"),
        ({"alpha": 1.0}, "`alpha` must be at least 0 and below 1"),
        ({"beta": []}, "at least one number"),
        ({"beta": "2"}, "must be a number"),
        ({"select": "nlll"}, "select 'nlll' is not known.*did you mean 'nll'"),
        ({"methods": ["we"], "parameters": {"prior_rows": 3}}, "none of the methods has one; add learned-we"),
        (
            {"methods": ["learned-we"], "parameters": {"prior_rows": 0}},
            "must be above 0, got 0; the method learned has",
        ),
        ({"search": "halfing"}, "did you mean 'halving'"),
        ({"accuracy_budget": -1}, "`accuracy_budget` must be finite and at least 0"),
        ({"recipe": 3}, "`recipe` must be a table"),
        ({"max_per_class": 0}, "`max_per_class` must be at least 1"),
        ({"data": ""}, "`data` must be a text"),
        ({"model": 3}, "`model` must be a text, got 3"),
        ({"vectors": 3}, "`vectors` must be a text"),
        ({"aliases": {"one": 3}}, "`aliases` must hold words, got 3 for 'one'"),
    ],
)
def test_bad_studies(values, words):
    with pytest.raises((ValueError, TypeError), match=words):
        StudySpec.from_dict(values)


def test_what_is_said_twice_counts_once_and_a_text_is_a_list():
    spec = StudySpec.from_dict({"methods": "one-hot, we,WE", "beta": [1, 1, 2]})
    assert spec.methods == ("one-hot", "we")
    assert spec.beta == (1, 2)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.7, 0.9, 0.99])
def test_trials_that_are_made_up_all_differ(alpha):
    spec = StudySpec(methods=("uniform", "mixup", "we"), alpha=alpha, beta=[0.5, 1, 2, 4, 6])
    for base in ("uniform", "mixup", "we"):
        tried = [tuple(values.items()) for values in spec.candidates(base)]
        assert len(set(tried)) == 5
    assert all(values["alpha"] < 1 for values in spec.candidates("uniform"))
