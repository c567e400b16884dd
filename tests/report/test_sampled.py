"""Pages of files that are too large: drawn from random rows, said before the evaluation and on the page."""

import json

import numpy as np
import pytest

from command_line import run
from softkin import SoftkinError, predictions
from softkin.evaluation import from_files
from softkin.report import sampled


@pytest.fixture
def small_limits(monkeypatch):
    """What counts as large, small enough for a test."""
    for module in (sampled, from_files):
        monkeypatch.setattr(module, "ROWS", 1500)
    monkeypatch.setattr(sampled, "MOST_ROWS", 600)


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=4000)
    z = rng.normal(size=(4000, 4)).astype(np.float32)
    z[np.arange(4000), y] += 1.5
    ids = np.array([f"s{row}" for row in range(4000)])
    np.savez(tmp_path / "large.npz", logits=2 * z, labels=y, sample_ids=ids)
    return tmp_path / "large.npz"


@pytest.mark.parametrize(
    ("rows", "classes", "size"), [(50_000, 10, None), (50_000, 1000, 6000), (60_000, 10, 20_000), (16_000, 1000, None)]
)
def test_how_many_rows_a_page_takes(rows, classes, size):
    assert sampled.size_for(rows, classes) == size


def test_rows_are_drawn_at_random_in_their_order(path, small_limits):
    whole, some = predictions.load(path), sampled.drawn(str(path), 4000)
    assert len(some) == 600
    places = [int(known[1:]) for known in some.sample_ids]
    assert places == sorted(set(places))
    assert max(places) > 3900
    assert (some.logits == whole.logits[places]).all()
    assert (some.known_labels == whole.known_labels[places]).all()
    assert sampled.drawn(str(path), 4000, seed=1).sample_ids != some.sample_ids
    with np.load(path) as held:
        np.savez(path.with_name("bare.npz"), logits=held["logits"], labels=held["labels"])
    assert sampled.drawn(str(path.with_name("bare.npz")), 4000).known_as.tolist() == places
    with pytest.raises(SoftkinError, match="standard input can be read only once"):
        sampled.drawn("-", 4000)


@pytest.mark.filterwarnings("default")
def test_it_is_said_before_and_on_the_page(path, small_limits, tmp_path, capsys):
    page = tmp_path / "page.html"
    code, output, errors = run(capsys, "evaluate", path, "--json", "--resamples", 100, "--report", page)
    assert code == 0
    assert "made from 600 of the 4,000 rows, drawn at random" in errors
    shown = json.loads(page.with_suffix(".json").read_text())
    assert (shown["num_samples"], shown["sampled"]) == (600, {"rows": 600, "of": 4000})
    printed = json.loads(output)["models"][0]["metrics"]["ece_hist"]
    assert shown["variants"][0]["metrics"]["ece_hist"]["value"] == printed["value"]  # the cards are of all rows
    assert "600 of the 4,000 samples, drawn at random" in page.read_text()
    code, _, _ = run(capsys, "evaluate", path, path, "--resamples", 100, "--report", tmp_path / "two.html")
    assert code == 0
    assert json.loads((tmp_path / "two.json").read_text())["sampled"] == {"rows": 600, "of": 4000}
