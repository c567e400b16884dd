"""What is kept of a fit: damaged files are refused."""

import numpy as np
import pytest
import torch
from safetensors.torch import save

from softkin import SoftkinError, calibrators
from softkin._io import bundles
from softkin.calibrators import (
    BetaCalibration,
    IsotonicCalibration,
    TemperatureScaling,
    VectorScaling,
)


def drawn(n=200, k=4, factor=2.0, seed=0, dtype=torch.float64):
    """Over-confident logits: labels are drawn from softmax(z / factor)."""
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    y = torch.multinomial(torch.softmax(z / factor, dim=1), 1, generator=generator)[:, 0]
    return z.to(dtype), y


def test_damaged_files(tmp_path):
    z, y = drawn()
    with pytest.raises(SoftkinError, match="holds no calibrator: there is no calibrator.safetensors"):
        calibrators.load(tmp_path)
    VectorScaling().fit(z, y).save(tmp_path)
    path = tmp_path / "calibrator.safetensors"
    content = path.read_bytes()
    good, tensors = bundles.read(path, "a calibrator")
    fitted = good["calibrator"]["fitted"]

    def refused(match, changes=None, **whole):
        """Whoever changes a file on purpose can write checksums that fit."""
        bundles.write(path, {**good, "calibrator": {"fitted": {**fitted, **(changes or {})}}, **whole}, tensors)
        with pytest.raises(SoftkinError, match=match) as said:
            calibrators.load(tmp_path)
        assert "\n" not in str(said.value)

    def attributes(**changes):
        return {"attributes": {**fitted["attributes"], **changes}}

    refused("has format 9, and this softkin reads 1", format=9)
    refused("`name` must be one of temperature, .* got 'os.system'", {"name": "os.system"})
    refused("its numbers do not fit|could not be read as a calibrator", {"name": "matrix"})
    refused("it lacks 'elsewhere'", attributes(weight_={"a tensor": "elsewhere"}))
    refused("damaged", attributes(num_classes_=7))
    refused("more than the 131,072 allowed", attributes(num_classes_=10**12))
    refused("damaged", attributes(class_names_=["cat"]))
    refused("damaged", attributes(fitted_from_="nothing"))
    refused("damaged", attributes(sample_digests_="abc"))
    refused("damaged", attributes(certificate_={**fitted["attributes"]["certificate_"], "nll_before": "low"}))
    refused("damaged", {"options": {"l2": -1}})
    refused("damaged", {"options": {"nonsense": 1}})
    refused("damaged", {"name": "Composed", "options": {"steps": []}})
    refused("damaged", calibrator=[1, 2])
    for field in fitted:
        refused("damaged", calibrator={"fitted": {key: value for key, value in fitted.items() if key != field}})
    for field in fitted["attributes"]:
        rest = {key: value for key, value in fitted["attributes"].items() if key != field}
        refused(f"it lacks '{field}'", {"attributes": rest})
    path.write_bytes(content.replace(b'\\"l2\\": 1e-06', b'\\"l2\\": 1e-07'))
    assert path.read_bytes() != content
    with pytest.raises(SoftkinError, match="is damaged: the checksum of its description does not fit"):
        calibrators.load(tmp_path)
    for nonsense in ("{", "[]", "3", "null", "[" * 100_000, '{"a":' * 100_000):
        for whole in (nonsense.encode(), save(tensors, {"softkin": nonsense})):
            path.write_bytes(whole)
            with pytest.raises(SoftkinError, match="could not be read as a calibrator"):
                calibrators.load(tmp_path)
    path.write_bytes(save(tensors))
    with pytest.raises(SoftkinError, match="could not be read as a calibrator: it has no description by softkin"):
        calibrators.load(tmp_path)
    path.write_bytes(content)
    assert calibrators.load(tmp_path).weight_.shape == (4,)
    with pytest.raises(SoftkinError, match="holds a VectorScaling, not a TemperatureScaling"):
        TemperatureScaling.load(tmp_path)


@pytest.mark.parametrize("shape", [(3,), (4, 4), (0,), ()])
def test_tensors_that_do_not_fit(tmp_path, shape):
    z, y = drawn()
    cal = VectorScaling().fit(z, y)
    cal.weight_ = torch.zeros(shape, dtype=torch.float64)
    cal.save(tmp_path)  # digests and checksum fit
    if shape == ():
        return  # a factor for all classes is a map too
    with pytest.raises(SoftkinError, match="damaged|could not be read"):
        calibrators.load(tmp_path)


def test_hundreds_of_damaged_folders(tmp_path):
    """Flipped, cut, emptied, repeated: refused in one line, or the very same numbers."""
    generator = np.random.default_rng(0)
    z, y = drawn(n=60)
    messages = []
    for make in (
        TemperatureScaling,
        VectorScaling,
        IsotonicCalibration,
        lambda: TemperatureScaling() | BetaCalibration(),
    ):
        cal = make().fit(z, y, sample_ids=list(range(60)))
        cal.save(tmp_path)
        expected = cal.predict_proba(z)
        contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
        for _ in range(150):
            path = list(contents)[generator.integers(len(contents))]
            content = bytearray(contents[path])
            place = int(generator.integers(len(content)))
            match generator.integers(4):
                case 0:
                    content[place] ^= 1 << int(generator.integers(8))
                case 1:
                    del content[place:]
                case 2:
                    content[place : place + 8] = bytes(generator.integers(0, 256, 8, dtype=np.uint8))
                case 3:
                    content[place:place] = content[: int(generator.integers(1, 50))]
            path.write_bytes(content)
            try:
                back = calibrators.load(tmp_path)
                assert torch.equal(back.predict_proba(z), expected)
                assert repr(back) == repr(cal)
            except SoftkinError as error:
                messages.append(str(error))
            finally:
                path.write_bytes(contents[path])
        for path in contents:
            path.unlink()
    assert len(messages) > 560
    assert all(str(tmp_path) in message and "\n" not in message for message in messages)


def test_unfitted_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="is not fitted yet"):
        TemperatureScaling().save(tmp_path)


def test_a_notebook_shows_many_numbers_by_their_shape():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    assert "tensor of shape (3,)" in calibrators.VectorScaling().fit(z, y)._repr_html_()
