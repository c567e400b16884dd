"""The documentation builds strictly, asks nothing from elsewhere, and draws its formulas."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def test_every_page_is_there_and_nothing_comes_from_elsewhere(site):
    for page in ("index", "gallery", "mathematics", "reading", "which_ece", "when", "commands", "tools", "cite"):
        assert f"{page}.html" in site
    for name, text in site.items():
        assert not re.search(r"<(link|script|img)[^>]+(src|href)=\"(https?:)?//", text), name
        assert "@import" not in text


def test_formulas_are_drawn(site):
    assert site["api/metrics.html"].count("<math") > 5
    assert site["api/labels.html"].count("<math") > 5
    for name, text in site.items():
        assert "math::" not in text, name
        assert ":math:" not in text, name
        assert 'class="arithmatex"' not in text, name


def test_public_names_and_the_gallery_are_on_their_pages(site):
    for name in ("ece_hist", "ece_kde", "smooth_ece", "compare"):
        assert f"softkin.metrics.{name}" in site["api/metrics.html"] or name in site["api/metrics.html"]
    assert "CalibratedClassifier" in site["api/frameworks.html"]
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for title, name in module.GALLERY:
        assert title in site["gallery.html"]
        assert (ROOT / "docs" / "figures" / "gallery" / f"{name}.png").is_file()
        code = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").partition('"""\n\n')[2].strip()
        shown = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
        assert code.splitlines()[-1] in shown, "run scripts/docs_site.py"
