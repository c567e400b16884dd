"""The documentation builds strictly, asks nothing from elsewhere, and draws its formulas."""

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys

import pytest

import softkin
from places import ROOT
from report_browser import chromium, missing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def site(folder):
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}


def test_every_page_is_there_and_nothing_comes_from_elsewhere(site):
    for page in (
        "index",
        "gallery",
        "mathematics",
        "reading",
        "which_ece",
        "when",
        "commands",
        "tools",
        "cite",
        "notebooks/own_loop",
    ):
        assert f"{page}.html" in site
    for name, text in site.items():
        assert not re.search(r"<(link|script|img)[^>]+(src|href)=\"(https?:)?//", text), name
        assert "@import" not in text


READ = (
    "index", "five_minutes", "kinds", "results", "when", "glossary", "faq", "compare", "migrate", "commands",
    "notebooks/own_loop", "measurements/first_edition",
)  # fmt: skip


@pytest.mark.skipif(missing() is not None, reason=f"needs {missing()}")
def test_pages_fit_a_screen_and_a_phone_and_search_works_from_disk(folder):
    with chromium() as browser:
        for width, height in ((1366, 768), (390, 844)):
            browser.resize(width, height, mobile=width < 500)
            for name in READ:
                browser.driver.get((folder / f"{name}.html").as_uri())
                assert browser.run("return document.documentElement.scrollWidth") <= width, (name, width)
                cut = browser.run(  # what sticks out scrolls inside a box of its own
                    "return Array.from(document.querySelectorAll('article *')).filter((node) => "
                    "node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.md-typeset__scrollwrap, pre, "
                    ".arithmatex, math, svg')).map((node) => node.outerHTML.slice(0, 100))"
                )
                assert cut == [], (name, width)
        browser.resize(1366, 768)
        browser.driver.get((folder / "index.html").as_uri())
        query = "document.querySelector('[data-md-component=search-query]')"
        browser.run(f"{query}.focus(); {query}.value = 'temperature'; {query}.dispatchEvent(new Event('keyup'))")
        browser.wait("document.querySelectorAll('.md-search-result__item').length > 2")


def test_formulas_are_drawn(site):
    assert site["api/metrics.html"].count("<math") > 5
    assert site["api/labels.html"].count("<math") > 5
    assert site["mathematics.html"].count("<math") > 40
    for name, text in site.items():
        assert "math::" not in text, name
        assert ":math:" not in text, name
        assert 'class="arithmatex"' not in text, name
        assert "$$" not in text, name


def public(module):
    """The classes and functions that a module exports, by name: those of ``__all__``, else its own."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    names = getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]
    values = [(name, getattr(module, name)) for name in names]
    return [(name, value) for name, value in values if inspect.isclass(value) or inspect.isfunction(value)]


def test_every_public_name_is_on_a_page(site):
    anchors = {anchor for text in site.values() for anchor in re.findall(r'id="(softkin\.[\w.]*)"', text)}
    rooms = (
        "lab.data",
        "lab.models",
        "lab.training",
        "lab.study",
        "lab.suites",
        "audition.inspection",
    )
    listed = {*re.findall(r"``softkin\.(\w+)``", softkin.__doc__), *rooms}
    modules = [f"softkin.{name}" for name in sorted(listed)]
    assert len(modules) >= 24
    names = [
        (f"{module}.{name}", f"{value.__module__}.{value.__qualname__}")  # `study.run` is a module, too
        for module in modules
        for name, value in public(importlib.import_module(module))
    ]
    assert [name for name, origin in names if not {name, origin} & anchors] == []
    # What the pages speak of by its module, too, and nothing that is no name for users.
    spoken_of = {word for page in (ROOT / "docs").glob("*.md") for word in re.findall(r"`(predictions\.from_\w+)", page.read_text(encoding="utf-8"))}  # fmt: skip
    assert spoken_of == {"predictions.from_trainer", "predictions.from_dataframe"}
    assert {f"softkin.{word}" for word in spoken_of} <= anchors
    assert not [anchor for anchor in anchors if anchor.endswith("__getattr__")]


def test_every_page_can_be_reached(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(site)
    links = {target.partition("#")[0] for target in re.findall(r'href="([^"]+)"', site["index.html"])}
    assert pages - {"index.html"} <= links  # the navigation stands on every page
    assert ">More<" not in site["index.html"]  # a page that nobody put into an order


def test_the_gallery_is_on_its_page(site):
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    headings = re.findall(r"<h2[^>]*>(.*?)<", site["gallery.html"])
    assert headings == [title for title, _ in module.GALLERY]
    assert site["gallery.html"].count("<img") == len(headings)
    for _, name in module.GALLERY:
        assert (ROOT / "docs" / "figures" / "gallery" / f"{name}.png").is_file()
        assert f"examples/{name}.py" in site["gallery.html"], "run scripts/docs_site.py"
        assert "in the repository" not in site["gallery.html"]  # the scripts themselves are shown
