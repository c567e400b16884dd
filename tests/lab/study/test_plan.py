import math
from dataclasses import replace

import pytest

from softkin import SoftkinError
from softkin.lab.study.plan import Plan, shortened
from softkin.lab.study.records import keep, kept_in
from study_parts import kept


def plan_of(**changes):
    return Plan(kept(**changes))


class Done(dict):
    """Records by digest, as if runs had finished."""

    def finish(self, plan, base, values, seed, *, epochs=None, nll=1.0, accuracy=0.9, output=0.1, refined=None):
        recipe = None if epochs is None else shortened(plan.recipe, epochs)
        job = plan.training(base, values, seed, recipe=recipe)
        measured = {"nll": nll, "accuracy": accuracy, "ece_hist_output": output}
        self[job.digest] = {"metrics": {key: {"value": value} for key, value in measured.items()}}
        if refined is not None:
            self[job.digest]["refined_nll"] = refined
        return job


def test_runs_and_what_they_share():
    plan = plan_of()
    jobs = list(plan.jobs(lambda _: None))
    kinds = [job.kind for job in jobs]
    # A seed: one-hot, 3 uniform, 3 WE, 3 L1; L1's distances; five results. WE's distances once.
    assert kinds.count("training") == 2 * 10
    assert kinds.count("distances") == 2 + 1
    assert kinds.count("result") == 2 * 5
    assert len({job.digest for job in jobs}) == len(jobs)
    results = {job.run.method: job for job in jobs if job.kind == "result" and job.run.seed == 0}
    assert results["ts"].needs == results["one-hot"].needs
    assert [job.title for job in jobs[:2]] == ["one-hot, seed 0", "one-hot, seed 1"]
    before = set()
    for job in jobs:  # what a run needs comes before it
        assert set(job.needs) <= before
        before.add(job.digest)


def test_methods_have_several_spellings():
    with pytest.raises(ValueError, match="did you mean 'one-hot'"):
        plan_of(methods=("one_hit",))
    spelled = ("one_hot", "temperature", "L1", "autoencoder", "words", "words+TemperatureScaling", "Dirichlet")
    assert plan_of(methods=spelled).spec.methods == ("one-hot", "ts", "l1", "ae", "we", "we+ts", "dir-odir")


def test_same_split_weights_and_order_within_a_seed():
    trainings = [job for job in plan_of().jobs(lambda _: None) if job.kind == "training" and job.run.seed == 1]
    shared = [{key: job.run.spec()[key] for key in ("rows", "seed", "recipe", "model", "ood")} for job in trainings]
    assert all(item == shared[0] for item in shared)
    assert shared[0]["rows"]["seed"] == 1


def test_changed_specs_never_collide():
    base = plan_of()
    own = {job.digest for job in base.jobs(lambda _: None) if job.kind == "training"}
    for change in (
        {"recipe": {**kept().spec.recipe, "epochs": 9}},
        {"model": "mlp"},
        {"model_options": {"width": 3}},
        {"max_per_class": 7},
        {"validation": 7},
        {"test": 7},
        {"size": 7},
        {"data": "other"},
        {"ood": ["uniform"]},
        {"vectors": "v.txt", "methods": ("we",)},
    ):
        other = {job.digest for job in plan_of(**change).jobs(lambda _: None) if job.kind == "training"}
        assert not own & other, change
    new_data = Plan(replace(kept(), data={**kept().data, "digest": "changed"}))
    assert not own & {job.digest for job in new_data.jobs(lambda _: None)}
    # So do other files that are read, under the same names: word vectors, out-of-distribution sets.
    for content in ("vectors", "ood some.npz"):
        digests = set()
        for actual in ("one", "other"):
            first = kept(methods=("we",), vectors="v.txt", ood=["uniform", "some.npz"])
            plan = Plan(replace(first, data={**first.data, "contents": {content: actual}}))
            digests |= {job.digest for job in plan.jobs(lambda _: None) if job.kind == "training"}
        assert len(digests) == 2 * 2 * 3, content
    more = {job.digest for job in plan_of(seeds=(0, 1, 2), methods=("one-hot", "we")).jobs(lambda _: None)}
    assert {job.digest for job in plan_of(methods=("one-hot", "we")).jobs(lambda _: None)} <= more  # and work is reused


def test_word_vectors_are_part_of_a_runs_identity(tmp_path):
    ours, glove = (plan_of(vectors=vectors).distances("we", 0) for vectors in (None, "glove"))
    assert ours.digest != glove.digest
    assert (ours.run.options["vectors"], ours.run.digests["vectors"]) == ("minilm", "v0")
    assert ours.digest == plan_of(vectors="minilm").distances("we", 0).digest


def test_changed_word_vectors_stop_a_study(tmp_path):
    new = kept(methods=("one-hot", "we"))
    keep(tmp_path / "new", new)
    assert kept_in(tmp_path / "new").spec == new.spec
    with pytest.raises(SoftkinError, match="the file of word vectors that softkin ships has changed since"):
        keep(tmp_path / "new", replace(new, data={**new.data, "contents": {"vectors": "v1"}}))


def test_choice_by_validation_nll():
    plan, done = plan_of(methods=("we",)), Done()
    for beta, nll in ((1.0, 0.5), (2.0, 0.3), (4.0, 0.4)):
        assert plan.search("we", 0, done.get).chosen is None
        done.finish(plan, "we", {"alpha": 0.1, "beta": beta}, 0, nll=nll)
    search = plan.search("we", 0, done.get)
    assert search.chosen.values == {"alpha": 0.1, "beta": 2.0}
    assert [trial.to_dict()["validation"]["nll"]["value"] for trial in search.trials] == [0.5, 0.3, 0.4]
    job = plan.result("we", 0, done.get)
    assert job.run.choice.run == search.chosen.job.digest
    assert [trial["values"]["beta"] for trial in job.run.choice.tried] == [1.0, 2.0, 4.0]
    assert job.digest == plan.result("we", 0, {}.get).digest  # the name does not depend on what came out


@pytest.mark.parametrize(("select", "beta"), [("nll", 1.0), ("accuracy", 2.0), ("ece_hist_output", 4.0)])
def test_choice_by_other_numbers(select, beta):
    plan, done = plan_of(methods=("we",), select=select), Done()
    done.finish(plan, "we", {"alpha": 0.1, "beta": 1.0}, 0, nll=0.3, accuracy=0.8, output=0.2)
    done.finish(plan, "we", {"alpha": 0.1, "beta": 2.0}, 0, nll=0.4, accuracy=0.9, output=0.3)
    done.finish(plan, "we", {"alpha": 0.1, "beta": 4.0}, 0, nll=0.5, accuracy=0.7, output=0.1)
    assert plan.search("we", 0, done.get).chosen.values["beta"] == beta


def test_a_calibrator_that_follows_chooses_by_what_it_cannot_repair():
    methods = ("we", "we+ts", "we+ets")
    plan, done = plan_of(methods=methods), Done()
    for beta, nll, refined in ((1.0, 0.5, 0.2), (2.0, 0.3, 0.3), (4.0, 0.4, "nan")):
        done.finish(plan, "we", {"alpha": 0.1, "beta": beta}, 0, nll=nll, refined=refined)
    chosen = {name: plan.result(name, 0, done.get).run.choice.values["beta"] for name in methods}
    assert chosen == {"we": 2.0, "we+ts": 1.0, "we+ets": 1.0}
    assert plan.result("we+ts", 0, done.get).run.chosen_by["select"] == "refined-nll"
    for select, beta in (("nll", 2.0), ("refined-nll", 1.0)):  # named, it is for all
        same = plan_of(methods=methods, select=select)
        assert {same.result(name, 0, done.get).run.choice.values["beta"] for name in methods} == {beta}


def test_values_that_only_a_calibrated_column_chose_are_trained_on_other_seeds():
    plan, done = plan_of(methods=("we", "we+ts"), tuning="first seed"), Done()
    for beta, nll, refined in ((1.0, 0.5, 0.2), (2.0, 0.3, 0.3), (4.0, 0.4, 0.4)):
        done.finish(plan, "we", {"alpha": 0.1, "beta": beta}, 0, nll=nll, refined=refined)
    trained = [job.run for job in plan.jobs(done.get) if job.kind == "training" and job.run.seed == 1]
    assert [run.values["beta"] for run in trained] == [2.0, 1.0]


def test_learned_labels_with_and_without_a_prior_stand_side_by_side():
    methods = ("one-hot", "we", "learned", "learned-words", "learned-we+ts", "learned-nn")
    plan = plan_of(methods=methods, alpha=0.1, beta=2.0)
    assert plan.spec.methods == ("one-hot", "we", "learned", "learned-we", "learned-we+ts", "learned-nn")
    jobs = [job for job in plan.jobs(lambda _: None) if job.kind != "result" and job.run.digest]
    values = {job.run.method: dict(job.run.values) for job in jobs if job.kind == "training" and job.run.seed == 0}
    assert values == {
        "one-hot": {},
        "we": {"alpha": 0.1, "beta": 2.0},
        "learned": {"alpha": 0.5},
        "learned-we": {"alpha": 0.5, "beta": 2.0, "prior_rows": 1.0},
        "learned-nn": {"alpha": 0.5, "beta": 2.0, "prior_rows": 1.0},
    }
    assert sum(job.kind == "distances" and job.run.source == "words" for job in jobs) == 1  # shared
    weights = plan_of(methods=methods, alpha=0.1, beta=[1.0, 2.0, 4.0], parameters={"prior_rows": [30, 3, 10]})
    assert [values["prior_rows"] for values in weights.spec.candidates("learned-we")] == [3, 10, 30]
    assert {values["beta"] for values in weights.spec.candidates("learned-we")} == {"auto"}
    alphas = plan_of(methods=methods, alpha=0.1, beta=[1.0, 2.0, 4.0])
    assert [values["alpha"] for values in alphas.spec.candidates("learned-we")] == [
        values["alpha"] for values in alphas.spec.candidates("learned")
    ]


def test_accuracy_budget():
    plan, done = plan_of(methods=("one-hot", "we"), accuracy_budget=0.3), Done()
    for beta, accuracy, output in ((1.0, 0.9, 0.3), (2.0, 0.898, 0.2), (4.0, 0.896, 0.1)):
        done.finish(plan, "we", {"alpha": 0.1, "beta": beta}, 0, accuracy=accuracy, output=output)
    assert plan.search("we", 0, done.get).chosen is None  # one-hot, which it is measured against, is not there yet
    done.finish(plan, "one-hot", {}, 0, accuracy=0.9)
    assert plan.search("we", 0, done.get).chosen.values["beta"] == 2.0  # β = 4 loses 0.4 points
    done.finish(plan, "one-hot", {}, 0, accuracy=0.95)
    assert plan.search("we", 0, done.get).chosen.values["beta"] == 1.0  # none within the budget: what loses least


def test_the_budget_names_what_it_is_measured_against():
    """Alone the method is held to its own best trial, beside one-hot to that: two choices, two results."""
    alone, beside = (plan_of(methods=methods, accuracy_budget=0.3) for methods in (("we",), ("one-hot", "we")))
    nothing = {}.get
    assert alone.result("we", 0, nothing).digest != beside.result("we", 0, nothing).digest


def test_halving():
    plan, done = plan_of(methods=("we",), search="halving", beta=(0.5, 1.0, 2.0, 4.0)), Done()
    epochs_of = {0.5: 0.4, 1.0: 0.3, 2.0: 0.2, 4.0: 0.1}  # larger β, lower NLL
    seen = []
    while (search := plan.search("we", 0, done.get)).chosen is None:
        for trial in search.trials:
            if trial.record is None:
                seen.append((trial.epochs, trial.values["beta"]))
                epochs = None if trial.epochs == 8 else trial.epochs
                done.finish(plan, "we", trial.values, 0, epochs=epochs, nll=epochs_of[trial.values["beta"]])
    assert seen == [(2, 0.5), (2, 1.0), (2, 2.0), (2, 4.0), (4, 4.0), (4, 2.0), (8, 4.0)]
    assert search.chosen.values["beta"] == 4.0
    assert search.chosen.epochs == 8
    assert len(plan.result("we", 0, done.get).run.choice.tried) == 7


def test_halving_does_not_depend_on_whether_one_hot_is_done():
    """With one epoch the short trials are as long as the whole, and must still be compared to each other alone."""
    recipe = {**kept().spec.recipe, "epochs": 1}
    plan, done = plan_of(methods=("one-hot", "we"), search="halving", accuracy_budget=0.3, recipe=recipe), Done()
    for beta, accuracy, output in ((1.0, 0.8, 0.3), (2.0, 0.799, 0.2), (4.0, 0.7, 0.1)):
        done.finish(plan, "we", {"alpha": 0.1, "beta": beta}, 0, accuracy=accuracy, output=output)
    before = plan.search("we", 0, done.get).chosen.values
    done.finish(plan, "one-hot", {}, 0, accuracy=0.9)
    assert plan.search("we", 0, done.get).chosen.values == before == {"alpha": 0.1, "beta": 2.0}


def test_tuning_on_the_first_seed():
    plan, done = plan_of(methods=("we",), tuning="first seed"), Done()
    assert [job.run.seed for job in plan.jobs(done.get) if job.kind == "training"] == [0, 0, 0]
    for beta in (1.0, 2.0, 4.0):
        done.finish(plan, "we", {"alpha": 0.1, "beta": beta}, 0, nll=beta)
    later = [job for job in plan.jobs(done.get) if job.kind == "training" and job.run.seed == 1]
    assert [job.run.values["beta"] for job in later] == [1.0]


def test_a_shorter_recipe_keeps_its_shape():
    assert shortened({"epochs": 200, "milestones": [60, 120, 160], "warmup_epochs": 1}, 20) == {
        "epochs": 20,
        "milestones": [6, 12, 16],
        "warmup_epochs": 0,
    }


def test_a_beta_by_itself_waits_for_what_one_hot_training_confuses():
    plan = plan_of(methods=("one-hot", "we"), alpha="auto", beta="auto", seeds=(0, 1))
    for seed in (0, 1):
        job = plan.training("we", {"alpha": "auto", "beta": "auto"}, seed)
        assert job.run.outputs == plan.training("one-hot", {}, seed).digest
        assert job.needs == (plan.distances("we", seed).digest, job.run.outputs)
    alone = plan_of(methods=("we",), alpha="auto", beta="auto").training("we", {"alpha": "auto", "beta": "auto"}, 0)
    assert alone.run.outputs is None  # nobody trains it: β is what names alone have
    fixed = plan.training("we", {"alpha": "auto", "beta": 2.0}, 0)
    assert fixed.run.outputs is None


def tuned_by(plan, loss, most=40):
    """The plan with every ready trial done; ``loss`` gives the refined NLL of a training run."""
    done, trained = {}, []
    for _ in range(most):
        due = [job for job in plan.jobs(done.get) if job.kind == "training" and job.digest not in done]
        if not due:
            return done, trained
        for job in due:
            done[job.digest] = {"metrics": {"nll": {"value": 1.0}}, "refined_nll": loss(job.run)}
            trained.append(job.run)
    raise AssertionError("the search does not end")


RECIPE = {"epochs": 8, "milestones": [4], "warmup_epochs": 0, "weight_decay": 5e-4, "lr": 0.05}


def test_every_trained_method_searches_the_recipe_alike():
    plan = plan_of(methods=("one-hot", "ts", "uniform", "l1"), beta=2.0, recipe=RECIPE, tune=["weight-decay"])
    done, trained = tuned_by(plan, lambda run: abs(run.recipe.weight_decay - 5e-4))
    for base in ("one-hot", "uniform", "l1"):
        first = [run.recipe.weight_decay for run in trained if run.method == base and run.seed == 0]
        assert sorted(first) == pytest.approx([5e-4 / 3, 5e-4, 1.5e-3], rel=1e-4)
        assert [run.recipe.weight_decay for run in trained if run.method == base and run.seed == 1] == [5e-4]
        assert plan.tuning(base, done.get).recipe["weight_decay"] == 5e-4
    assert plan.result("ts", 1, done.get).run.choice.tuning is plan.tuning("one-hot", done.get)


def test_a_best_value_at_the_end_of_the_grid_extends_it():
    plan = plan_of(methods=("one-hot", "uniform"), recipe=RECIPE, tune=["weight-decay"])
    wanted = {"one-hot": 5e-4 * 27, "uniform": 5e-4}
    done, trained = tuned_by(plan, lambda run: abs(run.recipe.weight_decay - wanted[run.method]))
    assert plan.tuning("one-hot", done.get).recipe["weight_decay"] == pytest.approx(5e-4 * 27)
    assert len(plan.tuning("one-hot", done.get).trials) == 6  # until 81 times is worse than 27 times
    assert len(plan.tuning("uniform", done.get).trials) == 3
    assert sorted(run.recipe.weight_decay for run in trained if run.seed == 1 and run.method == "one-hot") == [0.0135]
    _, trained = tuned_by(
        plan_of(methods=("one-hot",), recipe=RECIPE, tune=["weight-decay"]), lambda run: -run.recipe.weight_decay
    )
    assert max(run.recipe.weight_decay for run in trained) == pytest.approx(5e-4 * 3**5)  # an end has an end


@pytest.mark.parametrize(("half_steps", "found"), [(False, 5e-4 * 3), (True, 5e-4 * 3**0.5)])
def test_half_steps_find_a_best_value_between_two_of_the_grid(half_steps, found):
    plan = plan_of(methods=("one-hot",), recipe=RECIPE, tune=["weight-decay"], half_steps=half_steps)
    done, trained = tuned_by(plan, lambda run: abs(math.log(run.recipe.weight_decay / 9e-4)))
    assert plan.tuning("one-hot", done.get).recipe["weight_decay"] == pytest.approx(found, rel=1e-4)
    assert len([run for run in trained if run.seed == 0]) == (6 if half_steps else 4)


def least_pair(run):
    """A loss whose best decay depends on α: with the middle α it lies elsewhere than with the best one."""
    decay = math.log(run.recipe.weight_decay / 5e-4, 3)
    alpha = run.values.get("alpha", 0.0)
    return 1.0 + abs(decay - (2 - 4 * alpha)) + 2 * alpha


def test_each_value_has_a_recipe_of_its_own_if_asked():
    few = {"methods": ("one-hot", "uniform"), "uniform_alpha": (0.1, 0.5, 0.9), "recipe": RECIPE, "seeds": (0, 1)}
    few |= {"tuning": "first seed", "select": "refined-nll", "tune": ["weight-decay"]}
    found = {}
    for each in (False, True):
        plan = plan_of(**few, tune_each=each)
        done, trained = tuned_by(plan, least_pair)
        chosen = plan.search("uniform", 1, done.get, "refined-nll").chosen
        run = plan.result("uniform", 1, done.get).run
        assert run.choice.run == chosen.job.digest
        assert run.choice.tuning.recipe == plan.recipe_of("uniform", done.get, chosen.values)
        found[each] = chosen.values["alpha"], round(chosen.job.run.recipe.weight_decay, 6)
        assert len([one for one in trained if one.method == "uniform" and one.seed == 1]) == 1
    # Brute force over the grid. With the decay that is best for the middle α, the middle α is best.
    grid = [(alpha, step) for alpha in (0.1, 0.5, 0.9) for step in range(-5, 6)]
    best = min(grid, key=lambda pair: 1 + abs(pair[1] - (2 - 4 * pair[0])) + 2 * pair[0])
    assert found[True] == pytest.approx((best[0], 5e-4 * 3 ** best[1]))
    assert found[False] == pytest.approx((0.5, 5e-4))


def test_a_search_for_each_value_is_another_one():
    few = {"methods": ("one-hot", "uniform"), "uniform_alpha": (0.1, 0.5), "recipe": RECIPE, "tune": ["weight-decay"]}
    plans = [plan_of(**few, tune_each=on) for on in (False, True)]
    assert len({plan.result("uniform", 1, {}.get).digest for plan in plans}) == 2
    assert len({plan.result("one-hot", 1, {}.get).digest for plan in plans}) == 1  # it has one value


def test_results_of_a_coarse_search_are_not_those_of_a_fine_one():
    plans = [plan_of(methods=("one-hot",), recipe=RECIPE, tune=["weight-decay"], half_steps=on) for on in (False, True)]
    coarse, fine = (plan.result("one-hot", 1, {}.get).digest for plan in plans)
    assert coarse != fine


def test_a_weight_decay_of_zero_has_larger_neighbours_only():
    plan = plan_of(methods=("one-hot",), recipe=RECIPE | {"weight_decay": 0.0}, tune=["weight-decay"], half_steps=True)
    _, trained = tuned_by(plan, lambda run: run.recipe.weight_decay)
    tried = sorted(run.recipe.weight_decay for run in trained if run.seed == 0)
    assert tried == pytest.approx([0, 1e-4 / 3**0.5, 1e-4], rel=1e-4)


def test_several_fields_are_searched_one_after_the_other():
    plan = plan_of(methods=("one-hot",), recipe=RECIPE, tune=["weight-decay", "lr", "epochs"])
    done, trained = tuned_by(
        plan, lambda run: run.recipe.weight_decay + abs(run.recipe.lr - 0.15) + 0.1 / run.recipe.epochs
    )
    chosen = plan.tuning("one-hot", done.get).to_dict(plan.spec.tune)
    assert chosen["chosen"]["lr"] == pytest.approx(0.15)
    assert chosen["chosen"]["weight_decay"] == pytest.approx(5e-4 / 3**5, rel=1e-4)
    assert chosen["chosen"]["epochs"] == 8 * 3**5
    assert chosen["gain"] > 0
    assert any(run.recipe.epochs == 24 and run.recipe.milestones == (12,) for run in trained)


def test_a_weight_decay_of_zero_and_trainings_that_failed():
    plan = plan_of(methods=("one-hot",), recipe={**RECIPE, "weight_decay": 0.0}, tune=["weight_decay"])
    done, trained = tuned_by(plan, lambda run: "NaN" if run.recipe.weight_decay == 0 else run.recipe.weight_decay)
    assert plan.tuning("one-hot", done.get).recipe["weight_decay"] == 1e-4
    assert {run.recipe.weight_decay for run in trained} == {0.0, 1e-4, 3e-4}


def test_similarities_wait_for_the_tuned_one_hot_network():
    plan = plan_of(methods=("one-hot", "l1"), beta="auto", alpha="auto", recipe=RECIPE, tune=["weight-decay"])
    before = [job for job in plan.jobs({}.get) if job.kind == "training"]
    assert {job.run.method for job in before} == {"one-hot"}
    done, trained = tuned_by(
        plan, lambda run: -run.recipe.weight_decay if run.method == "one-hot" else run.recipe.weight_decay
    )
    one_hot = plan.one_hot(1, done.get)
    assert one_hot.run.recipe.weight_decay == pytest.approx(5e-4 * 3**5)
    last = next(run for run in trained if run.method == "l1" and run.seed == 1)
    assert last.outputs == one_hot.digest
    assert last.recipe.weight_decay == pytest.approx(5e-4 / 3**5, rel=1e-4)


def test_the_name_of_a_tuned_result_does_not_depend_on_what_came_out():
    options = {"methods": ("one-hot", "l1"), "beta": "auto", "recipe": RECIPE}
    plan, other = plan_of(**options, tune=["weight-decay"]), plan_of(**options)
    names = [plan.result("l1", 1, {}.get).digest]
    done, _ = tuned_by(plan, lambda run: -run.recipe.weight_decay)
    names.append(plan.result("l1", 1, done.get).digest)
    assert names[0] == names[1] != other.result("l1", 1, {}.get).digest


def test_what_can_be_tuned():
    assert plan_of(recipe=RECIPE, tune=["none"]).spec.tune == ()
    with pytest.raises(ValueError, match="weight_decay"):
        plan_of(tune=["weight-decai"])
    assert plan_of(recipe=RECIPE, tune=["lr", "lr"]).spec.tune == ("lr",)


def test_outputs_come_from_the_studys_own_one_hot_network():
    plan = plan_of(methods=("one-hot", "out"), beta=2.0, recipe=RECIPE, tune=["weight-decay"])
    assert not any(job.kind == "distances" for job in plan.jobs({}.get))  # before the one-hot recipe is known
    done, trained = tuned_by(plan, lambda run: abs(run.recipe.weight_decay - 1.5e-3))
    one_hot = plan.one_hot(1, done.get)
    (distances,) = (
        job for job in plan.jobs(done.get) if job.kind == "distances" and job.title == "Out distances, seed 1"
    )
    assert distances.needs == (one_hot.digest,)
    assert next(run for run in trained if run.method == "out" and run.seed == 1).distances == distances.digest
    file = plan_of(methods=("one-hot", "out"), beta=2.0, recipe=RECIPE, sources={"outputs": "p.npz"}).distances(
        "out", 0
    )
    assert file.needs == ()
    assert file.title == "Out distances"
