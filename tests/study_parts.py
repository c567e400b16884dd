"""Pieces that the tests of studies share: studies that train in a second, and hand-made results."""

import json
import zlib

import pytest
import torch

from softkin import report
from softkin.lab.study import Result, StudySpec, writing
from softkin.lab.study.records import Kept
from softkin.predictions import Predictions

RECIPE = {"epochs": 8, "batch_size": 32, "milestones": [], "warmup_epochs": 0}
DATA = {"source": "made up", "digest": "d0", "kind": "images", "classes": 10, "rows": "3 rows"}
CONTENTS = {"vectors": "v0"}


@pytest.fixture
def without_pictures(monkeypatch):
    """Figures and the report take seconds, and have tests of their own."""
    monkeypatch.setattr(writing, "draw", lambda _: None)
    monkeypatch.setattr(report, "write_comparison", lambda *_, **__: None)


def kept(**changes):
    """A study as ``study.json`` would hold it, made without data."""
    values = {
        "methods": ("one-hot", "ts", "uniform", "we", "l1"),
        "seeds": (0, 1),
        "alpha": (0.1,),
        "beta": (1.0, 2.0, 4.0),
        "model": "small",
        "recipe": RECIPE,
    }
    return Kept(StudySpec.from_dict({**values, **changes}), {**DATA, "contents": dict(CONTENTS)})


def run_record(kind, **changes):
    """The record of a run that was never made."""
    record = {"kind": kind, "title": "", "spec": {}, "softkin": "0", "versions": {}, "device": "cpu", "threads": 1}
    record |= {"host": "", "pid": 1, "seconds": 0.5, "split_digest": "0", "data_digest": "0"}
    if kind != "distances":
        record |= {"metrics": {}, "ood": [], "seed": 0, "effective_target": "one-hot labels"}
    if kind == "training":
        record |= {"training_seconds": 0.5, "history": []}
    if kind == "result":
        record |= {"method": "ts", "chosen": "0" * 16, "predictions": "0" * 16, "values": {}, "tried": [], "cost": None}
    return record | changes


def quick(**changes):
    """A study on real digits that takes a second or two."""
    values = {
        "methods": ["one-hot", "ts", "we"],
        "seeds": [0, 1],
        "alpha": [0.1],
        "beta": [1.0, 4.0],
        "max_per_class": 3,
        "validation": 60,
        "test": 80,
        "model": "mlp",
        "model_options": {"hidden": 32},
        "recipe": {"name": "small", "epochs": 12},
    }
    return StudySpec.from_dict({**values, **changes})


SWEEP = """
name = "own"
kind = "sweep"
title = "Uniform smoothing of digits"
reference = "none"
methods = ["uniform"]
parameter = "alpha"
"""
SCALE = """
[{scale}]
about = "a small network on digits"
values = [0.1]
[{scale}.networks]
RN = "{network}"
[{scale}.study]
data = "digits"
seeds = 1
recipe = {{ name = "small", epochs = 2 }}
"""


def sweep_of(network):
    """A spec of the paper's form, with both scales, that trains one network on digits."""
    return SWEEP + "".join(SCALE.format(scale=scale, network=network) for scale in ("full", "small"))


def made(folder, method, seed, shift, *, n=250, k=4, ids=None, noise=0.0, sample_seed=0):
    """A result whose predictions are too sure by ``shift``: the true class is drawn from the softer distribution."""
    from softkin.lab.study import perform

    generator = torch.Generator().manual_seed(sample_seed)
    logits = 2 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    own = torch.Generator().manual_seed(zlib.crc32(f"{method} {seed}".encode()))
    logits = shift * logits + noise * torch.randn(n, k, generator=own, dtype=torch.float64)
    preds = Predictions(logits, labels, sample_ids=list(range(n)) if ids is None else ids)
    name = f"{method}-{seed}"
    where = folder / "runs" / name
    where.mkdir(parents=True)
    preds.save(where / "test.safetensors")
    record = {
        "predictions": name,
        "chosen": name,
        "values": {},
        "effective_target": "made up",
        "metrics": json.loads(json.dumps(perform.on_test(preds))),
        "ood": [],
    }
    return Result(method, seed, record, folder)


def results(folder, methods, seeds, **options):
    """A result of each method with each seed; ``methods`` has (shift, noise) by name."""
    return [
        made(folder, name, seed, shift, sample_seed=seed, noise=noise, **options)
        for name, (shift, noise) in methods.items()
        for seed in seeds
    ]


SHARP = {"one-hot": (2.5, 0.0), "ts": (1.0, 0.0), "ets": (1.0, 0.05)}
