import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from places import ROOT, SHARED

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # one process a core: two threads in each would wait for each other
    os.environ["OMP_NUM_THREADS"] = "1"  # the same for the processes that tests start

settings.register_profile("softkin", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("softkin")


@pytest.fixture(autouse=True)
def _seeds():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  for code under test that draws from numpy's global state


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    """Tables are as wide as they are without a terminal, whatever an earlier test or a library left behind."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """A cache of this test run alone: no test reads what another run left, none fills the user's own."""
    before = os.environ.get("SOFTKIN_CACHE")
    os.environ["SOFTKIN_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("SOFTKIN_CACHE")
    if before is not None:
        os.environ["SOFTKIN_CACHE"] = before


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data that lies beside the project, where it does."""
    if not SHARED.is_dir():
        if os.environ.get("SOFTKIN_REQUIRE_DATA"):
            pytest.fail(f"{SHARED} is missing, and SOFTKIN_REQUIRE_DATA says that it must be there")
        pytest.skip(f"needs the real data in {SHARED}, which is not there")
    return SHARED


@pytest.fixture(scope="session")
def cifar100(shared_data):
    """CIFAR-100's first 4,000 training images, labels and class names."""
    import pyarrow.parquet as pq

    from softkin.lab.data import decoding as decoding

    file = pq.ParquetFile(shared_data / "cifar100" / "train-00000-of-00001.parquet")
    table = next(file.iter_batches(4000, columns=["img", "fine_label"]))
    encoded = ((f"image {row}", cell["bytes"]) for row, cell in enumerate(table["img"].to_pylist()))
    images = np.concatenate(list(decoding.decoded(encoded, total=4000, size=None, progress=False)))
    names = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]["fine_label"]["names"]
    return images, table["fine_label"].to_numpy(), names


@pytest.fixture(scope="session")
def network_logits(shared_data):
    """Logits and labels of trained networks on their test sets, by name."""

    def read(name):
        with np.load(shared_data / "logits" / f"{name}-logits.npz", allow_pickle=False) as file:
            return torch.from_numpy(file["logits"]), torch.from_numpy(file["labels"]).long()

    return {name: read(name) for name in ("resnet32-cifar100", "resnet20-cifar10")}


@pytest.fixture(scope="module")
def browser():
    """A real Chromium, one for a file of tests."""
    import report_browser

    missing = report_browser.missing()
    if missing:
        if os.environ.get("SOFTKIN_REQUIRE_DATA"):
            pytest.fail(f"{missing} is missing, and SOFTKIN_REQUIRE_DATA says that nothing may be skipped")
        pytest.skip(f"needs {missing}, which is not installed")
    with report_browser.chromium() as driver:
        yield driver


@pytest.fixture(scope="session")
def modules():
    """The folder of what package-lock.json names, installed where it is not, by one process at a time."""
    from filelock import FileLock

    if shutil.which("npm") is None:
        if os.environ.get("SOFTKIN_REQUIRE_DATA"):
            pytest.fail("npm is missing, and SOFTKIN_REQUIRE_DATA says that nothing may be skipped")
        pytest.skip("needs npm, which is not installed")
    root = ROOT
    folder = root / "node_modules"
    with FileLock(Path(tempfile.gettempdir()) / "softkin-npm.lock"):
        if not (folder / ".bin" / "eslint").exists():
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=root, check=True, timeout=240)
    return folder
