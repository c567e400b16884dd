"""One array from a file, by its name or by its shape."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from softkin import SoftkinError
from softkin._io import numpy_files

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def read(path, names=("features",)):
    return numpy_files.read(path, "features (N, d)", names, lambda shape: len(shape) == 2)


def test_every_format_gives_the_same(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "named.npz", other=X + 1, features=X)
    np.savez(tmp_path / "only.npz", unnamed=X, labels=np.arange(3))
    save_file({"features": torch.from_numpy(X), "weight": torch.zeros(2, 2)}, tmp_path / "x.safetensors")
    for path in tmp_path.iterdir():
        assert torch.equal(read(path), torch.from_numpy(X)), path.name


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": X, "b": X}, "one array called features, and holds `a` \\(3, 2\\), `b` \\(3, 2\\)"),
        ({"features": np.arange(3), "a": X}, "must hold features"),  # of that name, but not of that shape
        ({"features": np.full((2, 2), "x")}, "must hold numbers"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(SoftkinError, match=words):
        read(tmp_path / "x.npz")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises(SoftkinError, match="no known format"):
        read(tmp_path / "x.csv")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(SoftkinError, match="never unpickled"):
        read(tmp_path / "x.npy")
