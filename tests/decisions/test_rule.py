"""What every rule does alike: kinds of arrays, files, modules, warnings and refusals; and least costs. Numbers that rows draw for themselves."""

import numpy as np
import pytest
import torch

from decision_twins import rows_of_softmax as drawn
from softkin import SoftkinError, calibrators, decisions, similarity
from softkin._io import bundles
from softkin.decisions import REGISTRY, Abstain, Climb, Costs, PredictionSets, Tree
from softkin.decisions.rule import pseudo_uniforms

GROUPS = torch.tensor([0, 0, 1, 1, 2, 2])
ALIKE = similarity.from_distances((GROUPS[:, None] != GROUPS).double() + torch.arange(6).sub(2.5).abs().outer(torch.ones(6).double()) * 0.01, asymmetric=True)  # fmt: skip
TREE = Tree.from_superclasses(GROUPS, class_names=["cat", "dog", "rose", "oak", "car", "bus"], names=["animal", "plant", "machine"])  # fmt: skip


RULES = {
    "lac": lambda: PredictionSets(0.9),
    "aps": lambda: PredictionSets(0.9, "aps", randomised=False),
    "aps, randomised": lambda: PredictionSets(0.9, "aps"),
    "raps of kin, never empty": lambda: PredictionSets(0.8, "raps", similarity=ALIKE, weight=0.3, randomised=False, allow_empty=False, k_reg=1),
    "lac per class": lambda: PredictionSets(0.8, conditional="class"),
    "lac per group": lambda: PredictionSets(0.8, conditional=GROUPS),
    "abstain": lambda: Abstain(0.2),
    "abstain by margin": lambda: Abstain(0.2, score="margin"),
    "abstain by entropy": lambda: Abstain(0.2, score="entropy", of="rows"),
    "abstain by norm": lambda: Abstain(0.3, score="logit-norm", norm=4.0),
    "abstain always": lambda: Abstain(0.2, of="rows"),
    "climb": lambda: Climb(TREE, 0.25),
    "climb, of rows": lambda: Climb(TREE, 0.1, of="rows"),
    "costs": lambda: Costs.from_distances(1 - torch.eye(6) + (GROUPS[:, None] != GROUPS), ask=0.4),
}  # fmt: skip


@pytest.fixture(params=RULES)
def rule(request):
    return RULES[request.param]().fit(*drawn())


def test_every_kind_of_rule_is_among_these():
    assert {make().name for make in RULES.values()} == set(REGISTRY) == {"sets", "abstain", "climb", "costs"}
    assert REGISTRY["predictionsets"] is PredictionSets
    with pytest.raises(ValueError, match="did you mean 'climb'"):
        REGISTRY.canonical("climbb", "rule")


def test_numpy_and_torch_float32_and_one_row_at_a_time(rule):
    z, _ = drawn(300, seed=1)
    answers = rule.predict(z)
    assert isinstance(answers, torch.Tensor)
    other = rule.predict(z.numpy())
    assert isinstance(other, np.ndarray)
    assert (answers.numpy() == other).all()
    assert (rule.predict(z.float().double()) == rule.predict(z.float())).all()
    assert (torch.cat([rule.predict(z[i : i + 1]) for i in range(40)]) == answers[:40]).all()
    assert len(rule.predict(z[:0])) == 0
    assert rule.guarantee().endswith(".")
    assert rule.name in rule.unfitted().name


def test_blocks_do_not_matter(rule, monkeypatch):
    z, _ = drawn(300, seed=1)
    answers = rule.predict(z)
    monkeypatch.setattr("softkin.decisions.rule.BLOCK", 50)
    assert (rule.predict(z) == answers).all()
    again = rule.unfitted().fit(*drawn())
    assert (again.predict(z) == answers).all()


def test_permuting_samples_changes_nothing(rule):
    z, y = drawn()
    if isinstance(rule, Climb):  # which rows place its thresholds goes by their places
        assert (rule.predict(z.flip(0)) == rule.predict(z).flip(0)).all()
        return
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(5))
    t, _ = drawn(200, seed=1)
    assert (rule.unfitted().fit(z[order], y[order]).predict(t) == rule.predict(t)).all()
    assert (rule.predict(z[order]) == rule.predict(z)[order]).all()


def test_files(rule, tmp_path):
    z, y = drawn(300, seed=1)
    rule.class_names_ = ["cat", "dog", "rose", "oak", "car", "bus"]
    rule.save(tmp_path / "rule")
    again = decisions.load(tmp_path / "rule")
    assert type(again) is type(rule)
    assert repr(again) == repr(rule)
    assert again.guarantee() == rule.guarantee()
    assert again.class_names_ == rule.class_names_
    assert (again.predict(z) == rule.predict(z)).all()
    assert again.evaluate(z, y).to_dict() == rule.evaluate(z, y).to_dict()
    rule.save(tmp_path / "rule")  # over the old
    assert [path.name for path in (tmp_path / "rule").iterdir()] == ["rule.safetensors"]


def test_damaged_files_are_noticed(tmp_path):
    rule = Climb(TREE, 0.25).fit(*drawn(), sample_ids=range(600))
    rule.save(tmp_path)
    path = tmp_path / "rule.safetensors"
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(content)
        changed[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(SoftkinError, match="rule.safetensors"):
            decisions.load(tmp_path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(SoftkinError, match="rule.safetensors could not be read as a rule"):
        decisions.load(tmp_path)
    path.write_bytes(content[:-8] + bytes(8))
    with pytest.raises(SoftkinError, match="is damaged: the checksum of its `sample_digests_` does not fit"):
        decisions.load(tmp_path)
    with pytest.raises(SoftkinError, match="holds no rule: there is no rule.safetensors"):
        decisions.load(tmp_path / "nowhere")


def test_files_that_somebody_made_up(tmp_path):
    Climb(TREE, 0.25).fit(*drawn()).save(tmp_path)
    path = tmp_path / "rule.safetensors"
    about, tensors = bundles.read(path, "a rule")
    rule = about["rule"]["fitted"]
    options, attributes = rule["options"], rule["attributes"]
    for change in (
        {"name": "os.system"}, {"options": {}}, {"name": "Composed"},
        {"attributes": attributes | {"num_classes_": 10**9}}, {"attributes": attributes | {"num_classes_": 7}},
        {"attributes": attributes | {"threshold_": "x"}}, {"attributes": attributes | {"class_names_": "abcdef"}},
        {"options": options | {"tree": {"parents": [0, 1, 2], "names": ["a"], "num_classes": 3}}},
        {"options": options | {"error": 7}},
    ):  # fmt: skip
        bundles.write(path, about | {"rule": {"fitted": rule | change}}, tensors)
        with pytest.raises(SoftkinError, match="rule.safetensors"):
            decisions.load(tmp_path)
    bundles.write(path, about | {"format": 99}, tensors)
    with pytest.raises(SoftkinError, match="has format 99, and this softkin reads 1; update softkin"):
        decisions.load(tmp_path)


def module_inputs(rule, logits):
    """What the rule's module takes."""
    if getattr(rule, "is_random", False):
        return logits, torch.rand(len(logits), generator=torch.Generator().manual_seed(9))
    return (logits,)


def test_the_module_answers_as_predict_does(rule):
    z, _ = drawn(2000, seed=1)
    inputs = module_inputs(rule, z.float())
    options = {"uniforms": inputs[1]} if len(inputs) > 1 else {}
    assert (rule.as_module()(*inputs) == rule.predict(z.float(), **options)).all()
    coarse = z.float().round()  # equal probabilities
    assert (rule.as_module()(coarse, *inputs[1:]) == rule.predict(coarse, **options)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings(  # from the exporter itself
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:# The axis name"
)
@pytest.mark.parametrize(
    ("name", "calibrated"),
    [
        ("abstain by norm", False),
        ("aps, randomised", True),
        ("raps of kin, never empty", True),
        ("climb", True),
        ("costs", True),
    ],
)
def test_onnx_runtime_answers_10000_rows_as_predict_does(name, calibrated, tmp_path):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    import onnxruntime

    z, y = drawn()
    rule, calibrator = RULES[name](), None
    rows, _ = drawn(10_000, seed=1)
    rows = rows.float()
    rows[:500] = rows[:500].round()  # equal probabilities
    scores, options = rows, {}
    if calibrated:
        calibrator = calibrators.VectorScaling().fit(*drawn(400, seed=3))
        rule.fit(calibrator.predict_proba(z), y, from_probabilities=True)
        scores, options = (
            torch.from_numpy(calibrator.predict_proba(rows.double().numpy())),
            {"from_probabilities": True},
        )
    else:
        rule.fit(z, y)
    inputs = module_inputs(rule, rows)
    path = tmp_path / "rule.onnx"
    dimension = torch.export.Dim("rows")
    network = rule.as_module(calibrator)
    torch.onnx.export(
        network.eval(),
        tuple(part[:7] for part in inputs),
        str(path),
        dynamo=True,
        verbose=False,
        dynamic_shapes=tuple({0: dimension} for _ in inputs),
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {place.name: part.numpy() for place, part in zip(session.get_inputs(), inputs, strict=True)}
    (answers,) = session.run(None, feeds)
    if len(inputs) > 1:
        options["uniforms"] = inputs[1]
    expected = rule.predict(scores, **options)
    assert answers.shape == tuple(expected.shape)
    assert (answers == expected.numpy()).all()


def test_modules_that_cannot_be():
    z, y = drawn()
    calibrator = calibrators.TemperatureScaling().fit(z, y)
    with pytest.raises(ValueError, match="the rule was fitted on logits, and a calibrator returns probabilities"):
        Abstain(0.2).fit(z, y).as_module(calibrator)
    with pytest.raises(TypeError, match="`calibrator` must be a fitted calibrator, got str"):
        Abstain(0.2).fit(z, y).as_module("temperature")
    other = calibrators.TemperatureScaling().fit(*drawn(k=4))
    with pytest.raises(ValueError, match="`calibrator` must have the 6 classes of the rule, got 4"):
        Abstain(0.2).fit(z.softmax(1), y, from_probabilities=True).as_module(other)


def test_samples_of_the_fit_are_noticed(rule):
    z, y = drawn()
    rule = rule.unfitted().fit(z, y, sample_ids=[f"image {i}" for i in range(600)])
    with pytest.warns(
        UserWarning, match=f"3 of 5 samples are among those that the {type(rule).__name__} was fitted on; its guarantee"
    ):
        rule.predict(z[:5], sample_ids=["image 3", "image 4", "image 5", "new", "newer"])
    rule.predict(z[:2], sample_ids=["new", "newer"])


def test_refusals_that_all_rules_share(rule):
    z, y = drawn()
    with pytest.raises(ValueError, match="is not fitted yet: call fit"):
        rule.unfitted().predict(z)
    with pytest.raises(ValueError, match="`logits` must have the 6 classes that the rule was fitted on, got 5"):
        rule.predict(z[:, :5])
    with pytest.raises(ValueError, match="`logits` must be finite"):
        rule.unfitted().fit(torch.full_like(z, torch.nan), y)
    with pytest.raises(ValueError, match="`labels` must be below the number of classes, 6, got 9"):
        rule.unfitted().fit(z, y + 4)
    with pytest.raises(ValueError, match="`class_names` must name each class, got 2 names for 6"):
        rule.unfitted().fit(z, y, class_names=["a", "b"])
    with pytest.raises(ValueError, match="`costs` must cover the 6 classes of the rule, got 2"):
        rule.evaluate(z, y, costs=np.eye(2))


def test_a_tree_of_other_classes_is_refused():
    z, y = drawn()
    names = ["dog", "cow", "rose", "oak", "car", "bus"]
    with pytest.raises(ValueError, match="class 0 is 'cat' in it and 'dog' in the data"):
        Climb(TREE, 0.2).fit(z, y, class_names=names)
    with pytest.raises(ValueError, match="`tree` has 6 classes but the logits have 4"):
        Climb(TREE, 0.2).fit(*drawn(k=4))


@pytest.mark.parametrize("rounded", [None, 0.1, 1.0])
def test_numbers_of_rows_are_uniform_and_unrelated(rounded):
    from scipy.stats import kstest

    values = torch.randn(20_000, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4
    if rounded is not None:
        values = (values / rounded).round() * rounded
    values = values.unique(dim=0)
    u = pseudo_uniforms(values, 3)
    assert kstest(u.numpy(), "uniform").pvalue > 1e-3
    for other in (values[:, 0], values.amax(1), pseudo_uniforms(values, 4), pseudo_uniforms(values + 1, 3), u.roll(1)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 4 / len(u) ** 0.5
    assert u.equal(pseudo_uniforms(values.float(), 3))
    assert u[5:6].equal(pseudo_uniforms(values[5:6], 3))
