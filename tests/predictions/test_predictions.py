import contextlib

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from softkin import SoftkinError, predictions
from softkin.predictions import Predictions, reading

NAMES = ["cat", "dog", "rose"]


def some(n=20, seed=0, **about):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, 3, generator=draw)
    return Predictions(logits, torch.randint(3, (n,), generator=draw), class_names=NAMES, **about)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("ids", [None, list(range(100, 120)), [f"image {i}" for i in range(20)]])
def test_a_file_gives_back_all_that_was_saved(tmp_path, suffix, ids):
    preds = some(sample_ids=ids, split_digest="abc", name="test")
    preds.save(tmp_path / f"p{suffix}")
    loaded = predictions.load(tmp_path / f"p{suffix}")
    assert torch.equal(loaded.logits, preds.logits)
    assert torch.equal(loaded.labels, preds.labels)
    assert loaded.class_names == NAMES
    assert (loaded.split_digest, loaded.name) == ("abc", "test")
    assert loaded.digest == preds.digest
    if ids is None:
        assert loaded.sample_ids is None
    else:
        assert list(loaded.sample_ids) == ids


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_given_probabilities_stay_the_very_same(tmp_path, suffix):
    P = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    preds = Predictions.from_probabilities(P, [0, 2])
    assert torch.equal(preds.probabilities, P.double())
    assert float(preds.logits[0, 1]) == pytest.approx(-708.396, abs=1e-3)
    preds.save(tmp_path / f"p{suffix}")
    loaded = predictions.load(tmp_path / f"p{suffix}")
    assert torch.equal(loaded.probabilities, P.double())


def test_equal_predictions_are_equal_files(tmp_path):
    for suffix in (".npz", ".safetensors"):
        some().save(tmp_path / f"a{suffix}")
        some().save(tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_the_digest_sees_every_number_and_label():
    first = some()
    assert some().digest == first.digest
    other = first.logits.clone()
    other[3, 1] += 1e-6
    assert Predictions(other, first.labels).digest != first.digest
    changed = first.labels.clone()
    changed[0] = (changed[0] + 1) % 3
    assert Predictions(first.logits, changed).digest != first.digest
    assert Predictions(first.logits).digest != first.digest


def test_what_was_there_is_not_overwritten(tmp_path):
    some().save(tmp_path / "p.npz")
    with pytest.raises(SoftkinError, match="exists already; pass force=True"):
        some(seed=1).save(tmp_path / "p.npz")
    some(seed=1).save(tmp_path / "p.npz", force=True)
    assert predictions.load(tmp_path / "p.npz").digest == some(seed=1).digest


def test_files_that_others_wrote(tmp_path):
    logits = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16)
    np.savez(tmp_path / "a.npz", logits=logits, labels=np.arange(5, dtype=np.int32) % 3)
    loaded = predictions.load(tmp_path / "a.npz")
    assert loaded.logits.dtype == torch.float32
    assert loaded.labels.tolist() == [0, 1, 2, 0, 1]
    save_file({"probs": torch.tensor([[0.5, 0.5]])}, tmp_path / "b.safetensors")
    assert predictions.load(tmp_path / "b.safetensors").labels is None


def test_bad_files_get_one_sentence(tmp_path):
    with pytest.raises(SoftkinError, match="there is no such file"):
        predictions.load(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", labels=np.zeros(3, np.int64))
    with pytest.raises(SoftkinError, match="must hold `logits` or `probs`, it holds labels"):
        predictions.load(tmp_path / "other.npz")
    np.savez(tmp_path / "both.npz", logits=np.zeros((1, 2)), probs=np.full((1, 2), 0.5))
    with pytest.raises(SoftkinError, match="holds `logits` and `probs`; type --logits or --probs"):
        predictions.load(tmp_path / "both.npz")
    np.savez(tmp_path / "high.npz", logits=np.zeros((2, 2)), labels=np.array([0, 2]))
    with pytest.raises(SoftkinError, match="high.npz: `labels` must be below the number of classes"):
        predictions.load(tmp_path / "high.npz")
    np.savez(tmp_path / "objects.npz", logits=np.array([object()]))
    with pytest.raises(SoftkinError, match="never unpickled"):
        predictions.load(tmp_path / "objects.npz")
    for suffix in (".npz", ".safetensors"):
        path = tmp_path / f"cut{suffix}"
        some().save(path)
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(SoftkinError, match="could not be read|cut off"):
            predictions.load(path)


def test_bad_arguments_get_one_sentence():
    with pytest.raises(ValueError, match="`sample_ids` must be as many as the samples: got 2 for 20"):
        some(sample_ids=[1, 2])
    with pytest.raises(TypeError, match="whole numbers or texts, all of one kind"):
        Predictions(torch.zeros(2, 2), sample_ids=[1, "a"])
    with pytest.raises(ValueError, match="must have labels for this, but have none"):
        _ = Predictions(torch.zeros(2, 2)).known_labels
    with pytest.raises(ValueError, match="`path` must end in .npz, .safetensors, .csv or .tsv, got 'p.pkl'"):
        some().save("p.pkl")


def test_taking_rows_takes_everything_along():
    preds = Predictions.from_probabilities(
        torch.tensor([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]]), [1, 0, 0], sample_ids=["a", "b", "c"]
    )
    part = preds.take(torch.tensor([True, False, True]))
    assert part.probabilities.tolist() == preds.probabilities[[0, 2]].tolist()
    assert part.labels.tolist() == [1, 0]
    assert part.sample_ids == ["a", "c"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
        self.layers[1].eval()  # frozen by its owner

    def forward(self, x):
        return self.layers(x)


def test_collect_predicts_in_evaluation_mode_and_leaves_the_model_as_it_was():
    model = Net().train()
    model.layers[1].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    x, y = torch.randn(10, 4), torch.randint(3, (10,))
    preds = predictions.collect(model, DataLoader(TensorDataset(x, y), batch_size=4), class_names=NAMES)
    assert torch.equal(preds.labels, y)
    modes = model.training, model.layers[1].training, model.layers[2].training
    assert modes == (True, False, True)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    torch.testing.assert_close(preds.logits, model.eval()(x).detach())


def test_collect_takes_what_hugging_face_gives():
    class Output:
        def __init__(self, logits):
            self.logits = logits

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 3)

        def forward(self, pixel_values):
            return Output(self.net(pixel_values))

    model = Wrapped()
    x, y = torch.randn(6, 4), torch.randint(3, (6,))
    batches = [{"pixel_values": x[i : i + 3], "labels": y[i : i + 3]} for i in (0, 3)]
    preds = predictions.collect(model, batches)
    torch.testing.assert_close(preds.logits, model.net(x).detach())
    assert torch.equal(preds.labels, y)
    with pytest.raises(ValueError, match="must give `labels` with each batch, got pixel_values"):
        predictions.collect(model, [{"pixel_values": x}])


def test_collect_keeps_sample_ids_and_refuses_nonsense():
    model = nn.Linear(4, 3)
    x, y = torch.randn(6, 4), torch.randint(3, (6,))
    batches = [(x[:3], y[:3], torch.tensor([7, 8, 9])), (x[3:], y[3:], torch.tensor([1, 2, 3]))]
    assert predictions.collect(model, batches).sample_ids.tolist() == [7, 8, 9, 1, 2, 3]
    with pytest.raises(ValueError, match="at least one batch"):
        predictions.collect(model, [])
    with pytest.raises(TypeError, match=r"must give \(inputs, labels\)"):
        predictions.collect(model, [x])


def test_notes_are_written_with_the_numbers(tmp_path):
    for suffix in (".npz", ".safetensors", ".csv"):
        notes = {"calibrated_by": "temperature calibrator", "calibration": "temperature calibrator [0123abcd]"}
        some().save(tmp_path / f"p{suffix}", notes=notes)
        assert reading.open_file(tmp_path / f"p{suffix}").notes == notes


@pytest.mark.parametrize("given", [False, True])
def test_scores_are_the_numbers_as_given(given):
    P = torch.tensor([[0.2, 0.8]])
    preds = Predictions.from_probabilities(P) if given else Predictions(P)
    assert preds.are_probabilities is given
    assert torch.equal(preds.scores, P)


def test_one_changed_bit_of_a_safetensors_file_is_noticed(tmp_path):
    some(sample_ids=list(range(20)), name="test").save(tmp_path / "p.safetensors")
    content = (tmp_path / "p.safetensors").read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        (tmp_path / "d.safetensors").write_bytes(damaged)
        with contextlib.suppress(SoftkinError):
            loaded = predictions.load(tmp_path / "d.safetensors")
            # what passes changed white space in the header
            assert (loaded.digest, loaded.class_names) == (some().digest, NAMES)


def test_safetensors_without_checksums_are_those_of_others(tmp_path):
    tensors, path = {"logits": some().logits, "labels": some().labels}, tmp_path / "p.safetensors"
    save_file(tensors, path, {"format": "pt"})
    loaded = predictions.load(path)
    assert (loaded.digest, loaded.class_names) == (some().digest, None)
    save_file(tensors, path, {"softkin": '{"class_names": ["cat", "dog", "rose"]}'})
    with pytest.raises(SoftkinError, match="p.safetensors could not be read as safetensors.* it lacks 'crc32'"):
        predictions.load(path)


def test_masked_entries_are_refused():
    logits = np.ma.masked_greater(np.array([[1.0, 2.0], [0.5, 0.1]]), 1.5)
    with pytest.raises(ValueError, match="`logits` must hold a number everywhere, but 1 entries are masked"):
        Predictions(logits)
    labels = np.ma.masked_array([0, 1], [False, True])
    with pytest.raises(ValueError, match=r"1 of 2 rows has no label in `labels` \(NaN, None or masked\): row 1"):
        Predictions(np.eye(2), labels)
    assert len(Predictions(np.ma.masked_array(np.eye(2)), np.ma.masked_array([0, 1]))) == 2


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_data_frames_are_read_as_files_are(tmp_path, library):
    columns = {
        "customer": ["u1", "u2", "u3"],
        "probs_cat": [0.7, 0.2, 0.1],
        "probs_dog": [0.2, 0.7, 0.1],
        "probs_cow": [0.1, 0.1, 0.8],
        "truth": ["cat", "cow", "cow"],
    }
    module = pytest.importorskip(library)
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    if library == "pandas":
        frame = frame.set_index(module.Index([7, 8, 9]))
    (tmp_path / "a.csv").write_text(
        "\n".join(",".join(map(str, row)) for row in [columns, *zip(*columns.values(), strict=True)])
    )
    read, expected = predictions.from_dataframe(frame), predictions.load(tmp_path / "a.csv")
    assert read.class_names == expected.class_names == ["cat", "dog", "cow"]
    assert torch.equal(read.labels, expected.labels)
    assert torch.allclose(read.probabilities, expected.probabilities)
    bare = frame.drop_columns(["truth"]) if library == "pyarrow" else frame.drop(columns="truth") if library == "pandas" else frame.drop("truth")  # fmt: skip
    assert torch.equal(predictions.from_dataframe(bare, labels=["cat", "cow", "cow"]).labels, expected.labels)
    assert torch.equal(predictions.from_dataframe(bare, labels=frame["truth"]).labels, expected.labels)
    with pytest.raises(SoftkinError, match="no `nothing`"):
        predictions.from_dataframe(frame, label_column="nothing")


@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_a_data_frame_of_a_binary_model():
    pandas = pytest.importorskip("pandas")
    read = predictions.from_dataframe(pandas.DataFrame({"y_true": [0, 1, 1], "y_prob": [0.1, 0.8, 0.4]}))
    assert read.labels.tolist() == [0, 1, 1]
    assert read.probabilities[:, 1].tolist() == [0.1, 0.8, 0.4]
    with pytest.raises(SoftkinError, match="at least one row"):
        predictions.from_dataframe(pandas.DataFrame({"y_true": [], "y_prob": []}))


def test_features_of_a_layer_are_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    x, y = torch.randn(7, 3), torch.arange(7) % 2
    loader = DataLoader(TensorDataset(x, y), batch_size=4)
    collected = predictions.collect(model, loader, features="1")
    torch.testing.assert_close(collected.features, model[:2](x))
    torch.testing.assert_close(collected.logits, model(x))
    assert not model[1]._forward_hooks
    with pytest.raises(ValueError, match="must name a layer of the model, got '7'"):
        predictions.collect(model, loader, features="7")
    with pytest.raises(ValueError, match="`features` must have 7 rows"):
        Predictions(model(x).detach(), y, features=x[:3])
