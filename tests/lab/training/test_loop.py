"""The training loop on real digits and real CIFAR images."""

import copy
import json
import math
import os
import re
import signal
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import nn

from softkin import SoftkinError, predictions, smoothing
from softkin._core import randomness
from softkin.lab import data, models, training
from softkin.lab.data import Labelled
from softkin.lab.training import Method, Recipe, checkpoints, events


@pytest.fixture(scope="module")
def split():
    return data.split("digits", max_per_class=10, test=300, validation=150)


def network(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))


def fit(split, model=None, *, method="one-hot", epochs=3, **options):
    changes = {name: options.pop(name) for name in list(options) if name in Recipe().to_dict()}
    return training.fit(
        model or network(),
        split.train,
        split.validation,
        method=method if isinstance(method, Method) else Method(method),
        recipe=Recipe.named("small", epochs=epochs, **changes),
        device="cpu",
        **{"checkpoint_every": 0} | options,
    )


def same(first, second):
    a, b = first.state_dict(), second.state_dict()
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one-hot", "uniform", "mixup", "cutmix", "focal", "margin", "learned", "ps-kd"])
def test_the_loss_falls_on_real_digits(split, name):
    trained = fit(split, models.build("small", num_classes=10, input_shape=(1, 8, 8), seed=0), method=name, epochs=15)
    losses = [entry["loss"] for entry in trained.history]
    assert np.mean(losses[-3:]) < losses[0] - 0.05
    assert trained.history[-1]["validation_accuracy"] > 0.2
    assert trained.effective_target == Method(name).effective_target(10)


@pytest.mark.slow
def test_the_loss_falls_on_real_images_of_cifar(cifar100):
    images, labels, names = cifar100
    train = Labelled(images[:64], labels[:64], names, "CIFAR-100", "images", np.arange(64), "64")
    model = models.build("wrn", num_classes=100, input_shape=(3, 32, 32), seed=0, units=1)
    recipe = Recipe.named("paper", epochs=3, batch_size=32)
    trained = training.fit(model, train, method=Method("uniform"), recipe=recipe, device="cpu")
    losses = [entry["loss"] for entry in trained.history]
    assert losses[-1] < losses[0]
    assert "validation_accuracy" not in trained.history[-1]


@pytest.mark.parametrize("name", ["one-hot", "uniform", "similarity"])
def test_one_step_moves_the_weights_as_the_formula_says(split, name):
    """Of a linear network the gradient is (softmax(z) − q)ᵀ x, by hand."""
    q = {
        "one-hot": torch.eye(10),
        "uniform": smoothing.uniform_labels(10, 0.1).float(),
        "similarity": Method.from_distances(training.class_distances(split.train, "l2")).soft_labels.float(),
    }[name]
    method = Method(name, soft_labels=q if name == "similarity" else None)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    before = copy.deepcopy(model)
    recipe = Recipe(epochs=1, batch_size=100, lr=0.5, momentum=0, weight_decay=0, warmup_epochs=0, augmentation="none")
    trained = training.fit(model, split.train, method=method, recipe=recipe, device="cpu")
    mean, std = trained.standardisation.mean[0], trained.standardisation.std[0]
    x = torch.from_numpy((split.train.values.reshape(100, 64).astype(np.float64) - mean) / std).float()
    labels = torch.from_numpy(split.train.labels)
    z = x @ before[1].weight.T + before[1].bias
    error = (z.softmax(1) - q[labels]).detach() / 100
    torch.testing.assert_close(model[1].weight, before[1].weight - 0.5 * error.T @ x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model[1].bias, before[1].bias - 0.5 * error.sum(0), rtol=1e-4, atol=1e-5)
    loss = -(q[labels] * z.log_softmax(1)).sum(1).mean()
    assert trained.history[0]["loss"] == pytest.approx(loss.item(), rel=1e-5)


def test_it_is_torchs_own_loop(split):
    """Twenty steps against the loop that tutorials write, schedule, momentum and all."""
    model, twin = network(), network()
    for first in (model, twin):
        first[3].p = 0.0
    recipe = Recipe(epochs=4, batch_size=20, lr=0.1, milestones=(2,), augmentation="none", nesterov=True)
    training.fit(model, split.train, method=Method("uniform"), recipe=recipe, seed=7, device="cpu")
    how = training.Standardisation.of(split.train)
    x = torch.from_numpy((split.train.values.astype(np.float32) - np.float32(how.mean)) / np.float32(how.std))
    y = torch.from_numpy(split.train.labels)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    for epoch in range(4):
        order = np.random.default_rng(randomness.key(7, "order", epoch)).permutation(100)
        for step in range(5):
            rows = order[20 * step : 20 * step + 20]
            optimizer.param_groups[0]["lr"] = 0.1 * (step + 1) / 5 if epoch == 0 else 0.1 * 0.2 ** (epoch >= 2)
            optimizer.zero_grad()
            nn.functional.cross_entropy(twin(x[rows]), y[rows], label_smoothing=0.1).backward()
            optimizer.step()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_learned_similarity_is_told_epoch_by_epoch(split):
    trained = fit(split, method="learned", epochs=3)
    assert [len(entry["similar"]) for entry in trained.history] == [20, 20, 20]
    (a, b, share), *_ = trained.history[-1]["similar"]
    assert trained.similarity[a, b] == pytest.approx(share)
    assert float(trained.similarity.max()) == pytest.approx(share)
    torch.testing.assert_close(trained.similarity.sum(1), torch.ones(10).double())
    plain = fit(split, epochs=1)
    assert plain.similarity is None
    assert "similar" not in plain.history[0]


@pytest.mark.parametrize("parts", [1, 2])
def test_ps_kd_is_the_loop_that_its_paper_describes(split, parts):
    """Targets (1−α_t)·one-hot + α_t·the row's own output one epoch before, α_t = 0.6·t/4, one-hot at first."""
    model, twin = (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    how = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0, "schedule": "constant", "warmup_epochs": 0}
    recipe = Recipe(epochs=4, batch_size=30, augmentation="none", gradient_accumulation=parts, **how)
    method = Method("ps-kd", alpha=0.6)
    trained = training.fit(model, split.train, method=method, recipe=recipe, seed=7, device="cpu")
    mean, std = np.float32(trained.standardisation.mean[0]), np.float32(trained.standardisation.std[0])
    x = torch.from_numpy((split.train.values.astype(np.float32) - mean) / std)
    y = torch.from_numpy(split.train.labels).long()
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    said = {}
    for epoch in range(1, 5):
        order = np.random.default_rng(randomness.key(7, "order", epoch - 1)).permutation(100)
        before, said = said, {}
        for rows in (order[25 * step : 25 * step + 25] for step in range(4)):
            logits = twin(x[rows])
            loss = torch.zeros(())
            for row, z in zip(rows, logits, strict=True):
                target = nn.functional.one_hot(y[row], 10).float()
                if before:
                    target = (1 - 0.6 * epoch / 4) * target + 0.6 * epoch / 4 * before[row]
                loss = loss - (target * z.log_softmax(0)).sum() / 25
                said[row] = z.detach().softmax(0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_parts_of_a_batch_add_up_to_the_batch(split):
    model, twin = network(), network()
    for first in (model, twin):
        first[3].p = 0.0
    fit(split, model, method="mixup")
    fit(split, twin, method="mixup", gradient_accumulation=4)
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_others(split):
    first, second, third = (fit(split, network(), seed=seed) for seed in (1, 1, 2))
    assert same(first.model, second.model)
    assert not same(first.model, third.model)


def test_the_callers_generators_and_settings_stay(split):
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    before = torch.backends.cudnn.deterministic
    fit(split, epochs=1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.backends.cudnn.deterministic == before
    assert float(torch.tensor([1e-310], dtype=torch.float64) * 1.0) > 0  # denormals are back


def test_the_callers_accelerator_stays(split):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState

    mine = Accelerator(cpu=True, mixed_precision="bf16")
    try:
        fit(split, epochs=1)
        fit(split, epochs=1, mixed_precision="bf16")
        assert mine.mixed_precision == "bf16"
        assert mine.device.type == "cpu"
    finally:
        for state in (AcceleratorState, PartialState, GradientState):
            state._shared_state.clear()


def test_a_launch_that_contradicts_the_recipe_is_noticed(split, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    plain = fit(split, epochs=1, mixed_precision="bf16")
    monkeypatch.delenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS")
    assert same(plain.model, fit(split, epochs=1, mixed_precision="bf16").model)
    with pytest.warns(UserWarning, match="accelerate was launched with mixed precision bf16, but the recipe says no"):
        fit(split, epochs=1)


# -- resuming ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["one-hot", "learned+cutmix", "ps-kd"])
def test_a_run_that_was_cut_off_ends_with_the_same_weights(split, tmp_path, method):
    whole = fit(split, method=method, epochs=6)

    class Cut(Exception):
        pass

    def cut(event):
        if event["event"] == "epoch" and event["epoch"] == 4:
            raise Cut

    with pytest.raises(Cut):
        fit(split, method=method, epochs=6, folder=tmp_path, progress=cut)
    resumed = fit(split, network(seed=9), method=method, epochs=6, folder=tmp_path)  # its own weights do not matter
    assert resumed.resumed
    assert not whole.resumed
    assert same(resumed.model, whole.model)
    kept = ("epoch", "loss", "validation_nll")
    assert [[entry.get(name) for name in kept] for entry in resumed.history] == [
        [entry.get(name) for name in kept] for entry in whole.history
    ]
    again = fit(split, method=method, epochs=6, folder=tmp_path)  # finished already
    assert again.resumed
    assert same(again.model, whole.model)
    assert again.history == resumed.history


def test_momentum_and_buffers_survive(split, tmp_path):
    model = models.build("wrn", num_classes=10, input_shape=(1, 8, 8), seed=0, units=1)
    fit(split, model, epochs=2, folder=tmp_path)
    loaded = checkpoints.latest(tmp_path)
    names = {name.split(".")[0] for name in loaded.tensors}
    assert names == {"model", "momentum"}
    assert any(name.endswith("running_var") for name in loaded.tensors)
    assert loaded.state["epoch"] == 2
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_only_the_two_newest_checkpoints_are_kept(split, tmp_path):
    fit(split, epochs=5, folder=tmp_path)
    kept = sorted(path.name for path in tmp_path.glob("step-*"))
    assert kept == ["step-00000016.safetensors", "step-00000020.safetensors"]


def test_checkpoints_are_no_more_often_than_asked(split, tmp_path):
    loop = []
    fit(split, epochs=5, folder=tmp_path, checkpoint_every=1e6, progress=loop.append)
    assert [event["step"] for event in loop if event["event"] == "checkpoint"] == [20]  # the last is always written


@pytest.mark.parametrize("damage", ["tensors", "cut", "state", "empty", "deep", "other"])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_used(split, tmp_path, damage):
    whole = fit(split, epochs=4)
    fit(split, epochs=4, folder=tmp_path)
    path = tmp_path / "step-00000016.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "tensors":
        content[-5] ^= 1  # one bit of one weight
    elif damage == "cut":
        content = content[:-20]
    elif damage == "state":
        assert content.count(b'"epoch\\": 4') > 0
        content = content.replace(b'"epoch\\": 4', b'"epoch\\": 3')
    elif damage == "deep":
        content = save({"x": torch.zeros(1)}, {"softkin": "[" * 100_000 + "]" * 100_000})
    elif damage == "other":
        content = save({"x": torch.zeros(1)}, {"softkin": '[{"crc32": 1}]'})
    else:
        content = b""
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"the checkpoint .*step-00000016.safetensors is damaged: .* It was set aside"):
        again = fit(split, epochs=4, folder=tmp_path)
    assert (tmp_path / "step-00000016.safetensors.damaged").exists()
    assert again.resumed
    assert same(again.model, whole.model)


def test_a_checkpoint_that_does_not_fit_is_one_sentence(split, tmp_path):
    fit(split, epochs=1, folder=tmp_path)
    whole = checkpoints.latest(tmp_path)
    tensors, state = whole.tensors, whole.state
    name = next(name for name in tensors if name.startswith("model."))
    shape = tuple(tensors[name].shape)
    for other_tensors, other_state, words in (
        (tensors, {key: value for key, value in state.items() if key != "history"}, "it lacks 'history'"),
        (tensors, {**state, "epoch": None}, "does not fit this run: "),
        (tensors, {**state, "history": [3]}, "does not fit this run: "),
        ({key: value for key, value in tensors.items() if key != name}, state, f"it lacks '{name}'"),
        ({**tensors, name: torch.zeros(3, 3)}, state, f"the shape (3, 3), and here it is {shape}"),
    ):
        checkpoints.save(tmp_path, 99, other_tensors, other_state)
        with pytest.raises(SoftkinError, match=re.escape(words)) as caught:
            fit(split, epochs=1, folder=tmp_path)
        assert "step-00000099.safetensors does not fit this run" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(SoftkinError, match=r"run.json could not be read as .*: it is nested too deeply"):
        fit(split, epochs=1, folder=tmp_path)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b", "a", *"cdefghi"], "must differ, but 'a' appears at indices 0 and 2"),
        (["a", " ", *"cdefghij"], "must not hold an empty name"),
        (["a", "\udcff", *"cdefghij"], "must be Unicode text"),
    ],
)
def test_class_names_that_no_file_can_hold_are_refused_before_the_training(split, names, words):
    train = replace(split.train, class_names=names)
    with pytest.raises(ValueError, match=words):
        training.fit(_never_called(), train, method=Method("one-hot"), recipe=Recipe(), device="cpu")


def _never_called():
    class Network(nn.Linear):
        def forward(self, x):
            raise AssertionError("nothing should be trained")

    return Network(64, 10)


def test_a_folder_of_another_run_is_refused_by_what_differs(split, tmp_path):
    fit(split, epochs=1, folder=tmp_path)
    with pytest.raises(SoftkinError, match=r"holds another run: its recipe.lr is 0.05, here it is 0.2; use another"):
        fit(split, epochs=1, lr=0.2, folder=tmp_path)
    with pytest.raises(
        SoftkinError, match=r"holds another run: its method.name is one-hot, here it is focal|method.gamma"
    ):
        fit(split, epochs=1, method="focal", folder=tmp_path)
    with pytest.raises(SoftkinError, match=r"holds another run: its seed is 0, here it is 1"):
        fit(split, epochs=1, seed=1, folder=tmp_path)
    with pytest.raises(SoftkinError, match=r"holds another run: its weights"):
        fit(split, nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), epochs=1, folder=tmp_path)


def test_half_written_files_of_a_killed_process_go(split, tmp_path):
    old, new = (f".step-00000001.safetensors.00000000-1-{letter * 12}.softkin" for letter in "ab")
    for name in (old, new):
        (tmp_path / name).write_text("half")
    os.utime(tmp_path / old, (0, 0))
    fit(split, epochs=1, folder=tmp_path)
    assert [path.name for path in tmp_path.glob(".step*")] == [new]


def test_a_signal_after_the_last_look_is_not_swallowed(split, tmp_path):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        end = lambda event: os.kill(os.getpid(), signal.SIGTERM) if event["event"] == "end" else None  # noqa: E731
        fit(split, epochs=1, folder=tmp_path, progress=end)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_waits_for_the_checkpoint(split, tmp_path):
    stop = lambda event: os.kill(os.getpid(), signal.SIGINT) if event.get("step") == 6 else None  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        fit(split, epochs=4, folder=tmp_path, progress=stop)
    assert (tmp_path / "step-00000007.safetensors").exists()  # the step after the signal, in the middle of an epoch
    assert same(fit(split, epochs=4, folder=tmp_path).model, fit(split, epochs=4).model)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


class Breaks(nn.Module):
    """A network whose logits stop being numbers at its n-th training batch."""

    def __init__(self, at):
        super().__init__()
        self.inner, self.at, self.seen = network(), at, 0

    def forward(self, x):
        self.seen += self.training
        out = self.inner(x)
        return out * math.nan if self.training and self.seen == self.at else out


def test_a_loss_that_is_no_number_stops_with_step_rate_and_checkpoint(split, tmp_path):
    words = (
        r"the loss became nan at step 7 \(epoch 2\) with learning rate 0.05; "
        r"the last good checkpoint is .*step-00000004.safetensors; try a lower lr or a longer warm-up."
    )
    with pytest.raises(SoftkinError, match=words):
        fit(split, Breaks(7), epochs=3, folder=tmp_path, schedule="constant")
    good = checkpoints.latest(tmp_path)
    assert all(bool(torch.isfinite(value).all()) for value in good.tensors.values())
    with pytest.raises(SoftkinError, match="at step 1 .* the last good checkpoint is none, as none was written"):
        fit(split, Breaks(1), epochs=3)


def test_a_rate_that_is_far_too_high_stops(split):
    with pytest.raises(SoftkinError, match="(loss|weights|logits) became .* at step"):
        fit(split, lr=1e20, warmup_epochs=0, epochs=5)


@pytest.mark.parametrize(("lr", "what"), [(1e30, "logits"), (1e38, "weights")])
def test_a_last_step_that_ruins_the_weights_leaves_no_checkpoint(split, tmp_path, lr, what):
    words = f"{what} became infinite or NaN at step 1 .epoch 1. .* checkpoint is none"
    with pytest.raises(SoftkinError, match=words):  # whose loss, before the step, was a number
        fit(split, lr=lr, warmup_epochs=0, epochs=1, batch_size=100, weight_decay=100.0, folder=tmp_path)
    assert checkpoints.latest(tmp_path) is None


def test_arguments_are_refused_in_a_sentence(split):
    with pytest.raises(
        ValueError, match=r"`model` must return logits \(n, 10\), one column for each class, got \(25, 3\)"
    ):
        fit(split, nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
    features = Labelled(
        np.zeros((20, 4), np.float32), np.zeros(20, np.int64), ["a", "b"], "", "features", np.arange(20), ""
    )
    with pytest.raises(ValueError, match="the method cutmix needs images, and `train` holds features."):
        training.fit(nn.Linear(4, 2), features, method=Method("cutmix"), recipe=Recipe(), device="cpu")
    with pytest.raises(ValueError, match="`validation` must have the classes of `train`, in the same order"):
        training.fit(nn.Linear(4, 2), features, split.validation, method=Method("mixup"), recipe=Recipe(), device="cpu")
    floats = replace(split.train, values=split.train.values / 16)
    with pytest.raises(TypeError, match="`train` must hold images of uint8, 0 to 255, got float64."):
        training.fit(network(), floats, method=Method("mixup"), recipe=Recipe(), device="cpu")
    with pytest.raises(SoftkinError, match="the device cuda:7 cannot be used: "):
        training.fit(network(), split.train, method=Method("one-hot"), recipe=Recipe(), device="cuda:7")
    with pytest.raises(
        ValueError, match="`trackers` must be among tensorboard, wandb, mlflow, got 'wandbb'; did you mean"
    ):
        fit(split, trackers=["wandbb"])
    with pytest.raises(SoftkinError, match="the tracker wandb is not installed: pip install wandb."):
        fit(split, trackers=["wandb"])


# -- precision, compilation, other kinds of data -----------------------------------------------------------------------


def test_mixed_precision_and_compilation_leave_the_network_as_it_came(split):
    plain = fit(split, epochs=2)
    half = fit(split, epochs=2, mixed_precision="bf16")
    assert half.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], rel=0.05)
    assert half.history[-1]["loss"] != plain.history[-1]["loss"]
    compiled = fit(split, epochs=2, compile="eager")
    assert compiled.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], rel=1e-4)
    for trained in (half, compiled):
        assert type(trained.model) is nn.Sequential
        assert "forward" not in vars(trained.model)
        assert training.predict(trained, split.test).logits.dtype == torch.float32
    again = fit(split, half.model, epochs=2)  # which can be trained again
    assert again.history[-1]["loss"] < half.history[-1]["loss"]


def test_text_and_features_train_too(shared_data):
    clinc = data.split(str(shared_data / "text" / "clinc150.parquet"), max_per_class=5)
    model = models.build("bag_of_words", num_classes=150, input_shape=clinc.train.values.shape[1:], seed=0)
    trained = training.fit(
        model,
        clinc.train,
        method=Method("mixup"),
        recipe=Recipe.named("small", epochs=2, augmentation="crop-flip"),  # of images only
        device="cpu",
    )
    assert trained.history[-1]["loss"] < trained.history[0]["loss"]
    assert trained.standardisation.mean == (0.0,)


# -- what is shown and written -----------------------------------------------------------------------------------------


def test_json_lines_tell_steps_epochs_and_checkpoints(split, tmp_path, capsys):
    log = tmp_path / "deep" / "log.jsonl"
    trained = fit(split, epochs=2, folder=tmp_path / "run", log_json=log, validate_every=1)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in lines] == (["start"] + (["step"] * 4 + ["epoch", "checkpoint"]) * 2 + ["end"])
    epochs = [line for line in lines if line["event"] == "epoch"]
    assert epochs[1]["loss"] == trained.history[1]["loss"]
    assert {"images_per_second", "validation_accuracy", "validation_ece", "seconds_left", "learning_rate"} <= set(
        epochs[0]
    )
    steps = [line for line in lines if line["event"] == "step"]
    assert [line["step"] for line in steps] == list(range(1, 9))
    assert np.mean([line["loss"] for line in steps[:4]]) == pytest.approx(trained.history[0]["loss"])
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""  # no terminal, no line


def test_json_lines_write_infinity_as_all_json_does(tmp_path):
    with events.live(False, tmp_path / "log.jsonl", description="", main=True) as told:
        told.tell("epoch", validation_nll=math.inf, loss=math.nan)
    line = json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=pytest.fail)
    assert (line["validation_nll"], line["loss"]) == ("Infinity", None)


def test_the_live_line_shows_the_numbers_on_a_terminal(split, monkeypatch):
    ours, theirs = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    pieces = []
    reader = threading.Thread(target=_read_all, args=(ours, pieces))  # a terminal that nobody reads is full at 4 KiB
    reader.start()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        fit(split, epochs=3, validate_every=1)
        monkeypatch.undo()
    reader.join()
    os.close(ours)
    shown = b"".join(pieces).decode()
    for words in ("one-hot", "epoch 3/3", "images/s", "loss", "validation", "ECE"):
        assert words in shown
    assert re.search(r"0:\d\d:\d\d", shown)


def _read_all(terminal, pieces):
    try:
        while piece := os.read(terminal, 2**16):
            pieces.append(piece)
    except OSError:  # how Linux says that the other end is closed
        pass


def test_validation_is_looked_at_as_often_as_it_can_afford(split):
    trained = fit(split, epochs=5)  # 150 rows beside 100: every second epoch, and the last
    assert ["validation_nll" in entry for entry in trained.history] == [False, True, False, True, True]


def test_tensorboard_gets_the_numbers(split, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tensorboard's own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        trained = fit(split, epochs=2, trackers=["tensorboard"], folder=tmp_path)
        loop = EventAccumulator(str(tmp_path / "softkin"))
        loop.Reload()
    values = [event.value for event in loop.Scalars("loss")]
    assert values == pytest.approx([entry["loss"] for entry in trained.history])
    assert [event.step for event in loop.Scalars("validation_accuracy")] == [2]


def test_predictions_carry_everything_and_survive_the_disk(split, tmp_path):
    trained = fit(split, epochs=5)
    test = training.predict(trained, split.test, split_digest=split.digest, name="test")
    assert test.logits.shape == (300, 10)
    assert test.class_names == split.test.class_names
    assert test.sample_ids.tolist() == split.test.ids.tolist()
    assert test.split_digest == split.digest
    assert not trained.model.training
    by_hand = (split.test.values.astype(np.float64) - trained.standardisation.mean) / trained.standardisation.std
    expected = trained.model(torch.from_numpy(by_hand).float().permute(0, 3, 1, 2))
    torch.testing.assert_close(test.logits, expected.detach(), rtol=1e-4, atol=1e-5)
    test.save(tmp_path / "test.safetensors")
    assert predictions.load(tmp_path / "test.safetensors").digest == test.digest
    noise = training.predict(trained, data.out_of_distribution("uniform", split.train, rows=50), name="noise")
    assert noise.labels is None
    assert len(noise) == 50
    bare = training.predict(trained.model, split.test, standardisation=trained.standardisation)
    assert torch.equal(bare.logits, test.logits)
    with pytest.raises(ValueError, match="`standardisation` must be given with a bare network"):
        training.predict(trained.model, split.test)


def test_validation_numbers_are_those_of_its_predictions(split):
    from softkin import metrics

    trained = fit(split, epochs=4)
    preds = training.predict(trained, split.validation)
    last = trained.history[-1]
    assert last["validation_ece"] == metrics.ece_hist(preds.probabilities, preds.known_labels)
    assert last["validation_nll"] == metrics.nll(preds.probabilities, preds.known_labels)


# α that moves


def test_alpha_moves_by_the_gap_of_each_validation_and_resumes_to_the_bit(split, tmp_path):
    method = Method("uniform", alpha="auto")
    whole = fit(split, method=method, epochs=6, lr=0.3)
    alphas = [entry["alpha"] for entry in whole.history]
    assert alphas[0] == pytest.approx(0.02)
    for entry, following in zip(whole.history, alphas[1:], strict=False):
        assert following == pytest.approx(min(0.5, max(0, entry["alpha"] + 0.5 * entry["validation_gap"])))
    assert len(set(alphas)) > 2
    assert whole.record["method"]["alpha"] == "auto"

    def listen(event):
        if event["event"] == "step" and event["epoch"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with pytest.raises(SoftkinError, match="training was stopped by signal"):
            fit(split, method=method, epochs=6, lr=0.3, folder=tmp_path / "run", progress=listen)
    finally:
        signal.signal(signal.SIGTERM, before)
    rest = fit(split, method=method, epochs=6, lr=0.3, folder=tmp_path / "run")
    assert rest.resumed
    assert [entry["alpha"] for entry in rest.history] == alphas
    assert same(rest.model, whole.model)
    with pytest.raises(SoftkinError, match="another run"):  # a fixed α does not go on from there
        fit(split, method="uniform", epochs=6, lr=0.3, folder=tmp_path / "run")


def test_an_alpha_that_moves_needs_validation_rows(split):
    with pytest.raises(ValueError, match="alpha='auto' is adjusted on validation rows, but there are none"):
        training.fit(network(), split.train, method=Method("uniform", alpha="auto"), recipe=Recipe(epochs=1))
