"""Logs of Inspect, in the forms that versions 0.3 of it write: packed by deflate, or by Zstandard."""

import io
import json
import math
import zipfile

import pyarrow as pa
import pytest

from softkin import SoftkinError, predictions

pytestmark = pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")


def sample(number, value="C", answer="B", p=0.8, *, epoch=1, metadata=None, logprobs=True):
    """A sample as Inspect writes it, without its messages and events."""
    tokens = [
        {"token": "ANSWER", "logprob": -0.01},
        {"token": ":", "logprob": -0.001},
        {
            "token": f" {answer}",
            "logprob": math.log(p),
            "top_logprobs": [{"token": f" {answer}", "logprob": math.log(p)}],
        },
    ]
    choice = {"message": {"role": "assistant", "content": f"ANSWER: {answer}"}, "stop_reason": "stop"}
    score = {"value": value, "answer": answer, "explanation": f"ANSWER: {answer}"}
    return {
        "id": number, "epoch": epoch, "input": f"Q{number}?", "choices": ["a", "b"], "target": "A",
        "output": {"model": "m", "choices": [choice | ({"logprobs": {"content": tokens}} if logprobs else {})]},
        "scores": {"choice": score | ({"metadata": metadata} if metadata else {})}, "metadata": {},
    }  # fmt: skip


def write(path, samples, *, zstandard=False):
    """A log; zipfile cannot pack by Zstandard, so its fields are set by hand."""
    buffer = io.BytesIO()
    sizes = []
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED if zstandard else zipfile.ZIP_DEFLATED) as archive:
        for number, one in enumerate([{"version": 2}, *samples]):
            name = f"samples/{one['id']}_epoch_{one['epoch']}.json" if number else "header.json"
            content = json.dumps(one).encode()
            sizes.append(len(content))
            archive.writestr(name, pa.compress(content, "zstd", asbytes=True) if zstandard else content)
        infos = archive.infolist()
    data = bytearray(buffer.getvalue())
    if zstandard:
        central = data.index(b"PK\x01\x02")
        for info, size in zip(infos, sizes, strict=True):
            data[info.header_offset + 8 : info.header_offset + 10] = (93).to_bytes(2, "little")
            data[info.header_offset + 22 : info.header_offset + 26] = size.to_bytes(4, "little")
            data[central + 10 : central + 12] = (93).to_bytes(2, "little")
            data[central + 24 : central + 28] = size.to_bytes(4, "little")
            central = data.find(b"PK\x01\x02", central + 4)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("zstandard", [False, True])
def test_answers_with_log_probabilities_are_pairs(tmp_path, zstandard):
    samples = [sample(0, "C", p=0.9), sample(1, "I", "A", 0.6), sample(2, 1.0, p=0.7), sample(2, "N", p=0.5, epoch=2)]
    read = predictions.load(write(tmp_path / "log.eval", samples, zstandard=zstandard))
    assert read.are_pairs
    assert read.probabilities[:, 1].tolist() == pytest.approx([0.9, 0.6, 0.7, 0.5])
    assert read.labels.tolist() == [1, 0, 1, 0]
    assert read.sample_ids == ["0", "1", "2", "2 epoch 2"]
    assert read.texts[0] == "Q0?"


def test_a_stated_confidence_goes_before_log_probabilities(tmp_path):
    samples = [sample(0, metadata={"confidence": 0.3}), sample(1, metadata={"confidence": 85}, logprobs=False)]
    read = predictions.load(write(tmp_path / "log.eval", samples))
    assert read.probabilities[:, 1].tolist() == pytest.approx([0.3, 0.85])


def test_samples_without_a_score_are_left_out_and_counted(tmp_path):
    failed = sample(1) | {"scores": {}}
    path = write(tmp_path / "log.eval", [sample(0), failed])
    with pytest.warns(predictions.Assumption, match="1 samples without one are left out"):
        assert len(predictions.load(path)) == 1


@pytest.mark.parametrize(
    ("samples", "options", "words"),
    [
        ([], {}, "holds no samples"),
        ([sample(0) | {"scores": {}}], {}, "no sample with a score"),
        ([sample(0, logprobs=False)], {}, "evaluate with logprobs=True"),
        ([sample(0, 0.5)], {}, "right or wrong"),
        ([sample(0)], {"outcome": "choise"}, "did you mean 'choice'"),
    ],
)
def test_what_has_no_pairs_is_refused(tmp_path, samples, options, words):
    with pytest.raises(SoftkinError, match=words):
        predictions.load(write(tmp_path / "log.eval", samples), **options)


def test_damage_and_bombs_are_refused(tmp_path):
    path = write(tmp_path / "log.eval", [sample(0)], zstandard=True)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            predictions.load(path)
        except SoftkinError:
            continue
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SoftkinError):
        predictions.load(path)
