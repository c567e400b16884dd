"""Bundles: one file, equal bytes for equal content, every change noticed, and never parts of two."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save

from softkin import SoftkinError, calibrators
from softkin._io import bundles

ABOUT = {"name": "café", "numbers": [1, 2.5, None, True], "nested": {"a": "b"}}
TENSORS = {
    "float": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "none": torch.zeros(0, 4),
    "one": torch.tensor(3, dtype=torch.int64),
    "bits": torch.tensor([True, False]),
}


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "b.safetensors"
    bundles.write(path, ABOUT, TENSORS)
    about, tensors = bundles.read(path, "a bundle")
    assert about == ABOUT
    assert tensors.keys() == TENSORS.keys()
    for key, tensor in TENSORS.items():
        assert torch.equal(tensors[key], tensor)
        assert tensors[key].dtype == tensor.dtype
    assert path.read_bytes() == bundles.encoded(ABOUT, TENSORS)
    opened = bundles.Bundle(path, "a bundle")
    assert opened.about == ABOUT
    assert torch.equal(torch.cat(list(opened.rows("float", 1))), TENSORS["float"])
    bundles.write(path, ABOUT, {})
    assert bundles.read(path, "a bundle") == (ABOUT, {})


def whole(path):
    """All tensors, one by one."""
    opened = bundles.Bundle(path, "a bundle")
    return {key: opened.whole(key) for key in opened.shapes}


def test_every_bit_counts(tmp_path):
    """Of 2,000 flipped bits each is refused in one line, by both ways to read."""
    content = bundles.encoded(ABOUT, TENSORS)
    path = tmp_path / "b.safetensors"
    generator = torch.Generator().manual_seed(0)
    for place, bit in zip(
        torch.randint(len(content), (2000,), generator=generator).tolist(),
        torch.randint(8, (2000,), generator=generator).tolist(),
        strict=True,
    ):
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        with pytest.raises(SoftkinError) as said:
            bundles.decoded(bytes(changed), "b", "a bundle")
        assert "\n" not in str(said.value)
        path.write_bytes(changed)
        with pytest.raises(SoftkinError):
            whole(path)


def test_files_of_others(tmp_path):
    path = tmp_path / "b.safetensors"
    path.write_bytes(save(TENSORS, {"format": "pt"}))
    with pytest.raises(SoftkinError, match="could not be read as a bundle: it has no description by softkin"):
        bundles.read(path, "a bundle")
    assert torch.equal(bundles.Bundle(path, "numbers").whole("one"), TENSORS["one"])
    path.write_bytes(bundles.encoded(ABOUT, TENSORS).replace(b'"softkin"', b'"softkim"'))
    with pytest.raises(SoftkinError, match="is damaged: its description must be called 'softkin'"):
        bundles.Bundle(path, "a bundle")


def test_no_more_is_read_than_allowed(tmp_path, monkeypatch):
    bundles.write(tmp_path / "b", ABOUT, TENSORS)
    monkeypatch.setenv("SOFTKIN_MAX_BYTES", "100")
    with pytest.raises(SoftkinError, match="more than the 100 allowed"):
        bundles.read(tmp_path / "b", "a bundle")


def test_sealed_json(tmp_path):
    from softkin._io import files

    path = tmp_path / "s.json"
    files.write_json(path, bundles.sealed(ABOUT))
    assert bundles.read_sealed(path, "plain data") == ABOUT
    path.write_text(path.read_text().replace("2.5", "2.6"))
    with pytest.raises(SoftkinError, match="is not what was written: it is damaged, or was changed by hand"):
        bundles.read_sealed(path, "plain data")
    path.write_text("{}")
    with pytest.raises(SoftkinError, match="it lacks 'checksum'"):
        bundles.read_sealed(path, "plain data")


SAVES = """
import sys, torch
from softkin import calibrators

folder, number = sys.argv[1], int(sys.argv[2])
z = torch.randn(50, 4, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
made = calibrators.VectorScaling() if number else calibrators.TemperatureScaling() | calibrators.BetaCalibration()
made.fit(z, torch.arange(50) % 4, class_names=[f"{number} {k}" for k in range(4)])
expected = {repr(made)}
print(repr(made), flush=True)
expected.add(sys.stdin.readline().rstrip("\\n"))
for _ in range(40):
    made.save(folder)
    loaded = calibrators.load(folder)
    assert repr(loaded) in expected, repr(loaded)
    assert loaded.class_names_[0][0] == ("1" if "Vector" in repr(loaded) else "0")
    assert bool(torch.isfinite(loaded.predict_proba(z)).all())
"""


@pytest.mark.slow
def test_two_processes_that_save_at_once_leave_one_of_both(tmp_path):
    command = [sys.executable, "-c", SAVES, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, str(number)], **pipes) for number in (0, 1)]
    made = [process.stdout.readline() for process in processes]
    for process, other in zip(processes, reversed(made), strict=True):
        process.stdin.write(other)
        process.stdin.flush()
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert f"{calibrators.load(tmp_path)!r}\n" in made
    assert [path.name for path in tmp_path.iterdir()] == ["calibrator.safetensors"]
