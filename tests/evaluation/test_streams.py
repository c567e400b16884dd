"""Files that do not fit in memory show the same numbers."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from command_line import run
from softkin import SoftkinError, evaluation
from softkin.evaluation import from_files, streams
from softkin.metrics.measurement import Settings


def test_streams_show_the_same(tmp_path, network_logits, monkeypatch):
    logits, labels = network_logits["resnet20-cifar10"]
    np.savez(tmp_path / "p.npz", logits=logits.numpy(), labels=labels.numpy())
    whole = evaluation.evaluate_file(tmp_path / "p.npz", resamples=400)
    assert whole.predictions is not None
    monkeypatch.setattr(from_files, "ROWS", 3000)
    monkeypatch.setattr("softkin.predictions.blocks.BLOCK", 10 * 1300)
    streamed = evaluation.evaluate_file(tmp_path / "p.npz", resamples=400)
    assert streamed.predictions is None
    assert streamed.data["settings"]["resampled"] == "1000 groups of rows"
    assert streamed.data["verdict"] == whole.data["verdict"]
    assert streamed.data["reliability"] == whole.data["reliability"]
    for key, measured in whole.data["metrics"].items():
        other = streamed.data["metrics"][key]
        assert other["value"] == pytest.approx(measured["value"], rel=1e-6), key
        if key in ("accuracy", "signed_gap"):  # by formula from the winning scores, which a stream keeps
            assert (other["low"], other["high"]) == pytest.approx((measured["low"], measured["high"]), abs=1e-12), key
        if "low" in measured and key != "mce":
            width, other_width = measured["high"] - measured["low"], other["high"] - other["low"]
            assert other_width == pytest.approx(width, rel=0.35), key
            assert abs(other["low"] - measured["low"]) < 0.3 * width, key
            assert abs(other["high"] - measured["high"]) < 0.3 * width, key
        if "when_calibrated" in measured and key not in ("mce", "debiased_ece"):
            assert other["when_calibrated"]["value"] == pytest.approx(measured["when_calibrated"]["value"], rel=0.15), (
                key
            )
        if "floor" in measured:
            assert other["floor"] == pytest.approx(measured["floor"], rel=1e-5)
    assert torch.equal(streamed.answers[0], whole.answers[0])


def test_more_rows_than_can_be_held_are_refused_before_they_are_read(tmp_path, capsys):
    """10 million rows of 10 classes are meant to work; a hundred million leave more than 2 GiB."""
    streams.require_room(10_000_000, streams.readers(10, Settings()).values())
    with open(tmp_path / "logits.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (100_000_000, 10)}
        np.lib.format.write_array_header_2_0(file, header)
        file.truncate(file.tell() + 4 * 10**9)  # zeros, which take no room
    with open(tmp_path / "labels.npy", "wb") as file:
        np.lib.format.write_array_header_2_0(file, {**header, "descr": "|u1", "shape": (100_000_000,)})
        file.truncate(file.tell() + 10**8)
    code, output, errors = run(capsys, "evaluate", tmp_path / "logits.npy")
    assert (code, output) == (1, "")
    kept = 100_000_000 * streams.bytes_of_a_row(streams.readers(10, Settings()).values())
    assert f"the data kept of 100,000,000 rows would have {kept:,} bytes, more than the 2,147,483,648" in errors
    assert "set SOFTKIN_MAX_BYTES=" in errors
    stream = streams.Stream(2, Settings(), start=10**8)
    with pytest.raises(SoftkinError, match="the data kept of 100,000,003 rows"):
        stream.add(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), "logits")


@pytest.mark.slow
def test_a_million_scores_need_little_memory(tmp_path):
    """120,000 × 100 in a process of its own: what stays is a small part of the file."""
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((120_000, 100), dtype=np.float32)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", logits.argmax(1))
    code = (
        "import sys\nfrom pathlib import Path\nfrom softkin.cli import main\nimport softkin.evaluation, softkin.report\n"
        "def peak():  # of this program alone, in kB; getrusage begins with the peak of the process that started it\n"
        "    return int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "before = peak()\n"
        f"main(['evaluate', {str(tmp_path / 'logits.npy')!r}, '--json', '--resamples', '100'])\n"
        "print(peak() - before, peak(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["models"][0]["num_samples"] == 120_000
    grown, whole = (int(text) for text in done.stderr.split())
    assert grown < 700 * 1024  # kB; all of it in float64, twice, would be 200 MB more than this
    assert whole < 1.5 * 2**20
