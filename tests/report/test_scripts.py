"""The page's script under eslint and TypeScript, and its pages under axe-core; all three come from npm."""

import subprocess

import numpy as np
import pytest
import torch

from places import ROOT
from softkin import report, similarity
from softkin.audition import inspection
from softkin.predictions import Predictions

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("tool", [["eslint", "src/softkin/report"], ["tsc", "--project", "tsconfig.json"]])
def test_the_script_passes_its_checkers(modules, tool):
    done = subprocess.run(
        [modules / ".bin" / tool[0], *tool[1:]], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_lock_file_names_no_registry():
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()


def made(name, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(8, (300,), generator=generator)
    logits = torch.randn(300, 8, generator=generator)
    logits[torch.arange(300), labels] += 1.2
    return Predictions(2.5 * logits, labels, class_names=[f"class {k}" for k in range(8)], name=name)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    points = np.random.default_rng(0).normal(size=(8, 3))
    d = np.linalg.norm(points[:, None] - points[None], axis=2)
    model = report.build(made("one"), distances=d, texts=["a text"] * 300, candidates=None, resamples=100)
    models = report.build_models([made(f"model {seed}", seed=0) for seed in range(6)], resamples=100)
    seen = inspection.inspect(
        similarity.from_distances(d, 2.0), made("one").class_names, alpha=0.1, source="a toy", others={"others": d.T**2}
    )
    shown = report.build_inspection(seen, torch.as_tensor(d), beta=2.0)
    return {
        "similarity": report.write(folder / "show.html", shown)[0],
        "model": report.write(folder / "model.html", model)[0],
        "models": report.write(folder / "models.html", models)[0],
    }


KINDS = [("model", "light"), ("model", "dark"), ("models", "light"), ("similarity", "light"), ("similarity", "dark")]


@pytest.mark.parametrize(("kind", "scheme"), KINDS)
def test_axe_finds_nothing_serious(modules, browser, pages, kind, scheme):
    browser.media(scheme=scheme)
    browser.resize(1280, 900)
    page = browser.open(pages[kind])
    if kind == "model":
        page.click("button.disclose")
    page.run("document.querySelectorAll('details').forEach((node) => (node.open = true))")
    assert page.violations(modules) == []
    if kind == "model":
        page.click("[data-key='class-answers']")
        assert page.violations(modules, "dialog") == []
