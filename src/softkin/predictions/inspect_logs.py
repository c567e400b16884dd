"""Logs of Inspect, the framework of the UK AI Security Institute: ``.eval`` files, as pairs of confidence and outcome.

A sample's outcome is its score: C or I, or a number from 0 to 1. Its confidence is the ``confidence`` in the score's
metadata, else the probability of the token that is the answer, which the log holds if the model was asked for
``logprobs``. Samples without a score, such as those that failed, are left out and counted.
"""

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import torch

from softkin import SoftkinError
from softkin._core.names import did_you_mean
from softkin._io import files
from softkin.predictions import pairs
from softkin.predictions.blocks import Block, PredictionFile
from softkin.predictions.request import Reading

OUTCOMES = {"c": 1.0, "i": 0.0, "n": 0.0}
"""Correct, incorrect, no answer"""
ZSTANDARD = 93  # the compression that newer versions write, which zipfile learns in Python 3.14
Pair = tuple[float, int, str, str]
"""Confidence, outcome, id, text"""


def open_eval(file: IO[bytes], name: str, reading: Reading) -> PredictionFile:
    """The pairs of a log."""
    with files.reading(name, "a log of Inspect"):
        archive = files.open_zip(file, name)
        members = [info for info in archive.infolist() if info.filename.startswith("samples/")]
    if not members:
        raise SoftkinError(f"{name} holds no samples; was the evaluation finished?")
    found: list[Pair] = []
    left, scorer = 0, reading.outcome
    for info in sorted(members, key=lambda info: info.filename):
        sample = files.parse_json(_content(file, archive, info, name), name, "a log of Inspect")
        scores = sample.get("scores") if isinstance(sample, dict) else None
        if not isinstance(scores, Mapping) or not scores:
            left += 1
            continue
        scorer = scorer or next(iter(scores))
        if scorer not in scores:
            raise SoftkinError(
                f"{name} has no score `{scorer}` (--outcome); it has {', '.join(scores)}{did_you_mean(scorer, scores)}"
            )
        pair = _pair(sample, scores[scorer], f"{name}, sample {sample.get('id')}")
        if pair is None:
            left += 1
        else:
            found.append(pair)
    if not found:
        raise SoftkinError(f"{name} holds no sample with a score.")

    def blocks(count: int) -> Iterator[Block]:
        for start in range(0, len(found), count):
            confidence, outcome, ids, texts = zip(*found[start : start + count], strict=True)
            scores = pairs.two_columns(torch.tensor(confidence, dtype=torch.float64))
            yield Block(scores, torch.tensor(outcome), list(ids), list(texts))

    without = f"; {left:,} samples without one are left out" if left else ""
    return pairs.opened(name, len(found), blocks, (f"{name}: the outcome is the score `{scorer}`{without}.",))


def _content(file: IO[bytes], archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> bytes:
    """The unpacked bytes of a member."""
    files.unpacked_within(max(1, info.compress_size), info.file_size, f"{name}: {info.filename}")
    with files.reading(name, "a log of Inspect"):
        if info.compress_type != ZSTANDARD:
            with archive.open(info) as member:
                return member.read(info.file_size + 1)[: info.file_size]
        import pyarrow as pa

        file.seek(info.header_offset)
        header = file.read(30)
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        with pa.CompressedInputStream(pa.BufferReader(file.read(info.compress_size)), "zstd") as stream:
            unpacked = stream.read(info.file_size + 1)
        if len(unpacked) != info.file_size:
            raise SoftkinError(f"{name} is damaged: {info.filename} does not unpack to its declared size.")
        return bytes(unpacked)


def _pair(sample: Mapping[str, Any], score: Any, where: str) -> Pair | None:
    """The pair of a sample; None if its score is none."""
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, str):
        outcome = OUTCOMES.get(value.strip().lower())
    else:
        outcome = float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None
    if outcome is None:
        return None
    if outcome not in (0.0, 1.0):
        raise SoftkinError(f"{where}: the score must be right or wrong (C or I, 1 or 0), got {value!r:.40}.")
    confidence = _confidence(sample, score, where)
    text = sample.get("input")
    known_as = f"{sample.get('id')}" + (f" epoch {sample['epoch']}" if sample.get("epoch", 1) != 1 else "")
    return confidence, int(outcome), known_as, text if isinstance(text, str) else json.dumps(text)[:1000]


def _confidence(sample: Mapping[str, Any], score: Mapping[str, Any], where: str) -> float:
    for holder in (score.get("metadata"), sample.get("metadata")):
        stated = holder.get("confidence") if isinstance(holder, Mapping) else None
        if isinstance(stated, int | float) and not isinstance(stated, bool):
            value = stated / 100 if 1 < stated <= 100 else float(stated)
            if 0 <= value <= 1:
                return value
    answer = str(score.get("answer") or "").strip()
    tokens = _tokens(sample)
    own = [token["logprob"] for token in tokens if answer and str(token.get("token")).strip() == answer]
    if own and isinstance(own[-1], int | float) and own[-1] <= 1e-3 and math.isfinite(own[-1]):
        return math.exp(min(0.0, own[-1]))
    raise SoftkinError(
        f"{where} has no confidence: neither `confidence` in the metadata of its score, nor the log-probability of its "
        f"answer {answer!r:.30}; evaluate with logprobs=True, or let the scorer write one."
    )


def _tokens(sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tokens of the reply with their log-probabilities."""
    try:
        tokens = sample["output"]["choices"][0]["logprobs"]["content"]
    except (KeyError, IndexError, TypeError):
        return []
    return [token for token in tokens or [] if isinstance(token, Mapping) and "logprob" in token]
