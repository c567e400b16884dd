"""docs/dependencies.md says what pyproject.toml asks for, and the licences that the packages declare."""

import importlib.metadata
import re
import tomllib

import pytest

from places import ROOT

# The family of each licence, as packages spell it.
FAMILIES = {
    "Apache": r"apache",
    "BSD": r"bsd",
    "MIT": r"\bmit\b",
    "PSF": r"python software foundation|psf|matplotlib",
    "MPL": r"mpl",
    "Apple": r"apple",
    "ISC": r"\bisc\b",
}
COPYLEFT = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.IGNORECASE)


def name_of(requirement):
    return re.split(r"[<>=!~\[; ]", requirement)[0].lower()


@pytest.fixture(scope="module")
def page():
    """Package → licence on the page, in lower case; and the headings that it stands below."""
    rows, heading = {}, ""
    for line in (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").splitlines():
        heading = line if line.startswith("## ") else heading
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "package" and not cells[0].startswith("---"):
            assert len(cells) == 3
            rows[cells[0].lower()] = (cells[1], heading)
    return rows


def test_the_page_names_each_dependency_where_it_belongs(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_users = set(extras) - {"dev", "peers"}

    def below(word):
        return {name for name, (_, heading) in page.items() if word in heading}

    assert below("Needed") == {name_of(line) for line in project["dependencies"]}
    assert below("Extras") == {name_of(line) for extra in of_users for line in extras[extra]} - below("Needed")
    assert below("development") == {name_of(line) for line in extras["dev"]} - below("Extras")
    assert below("Peers") == {name_of(line) for line in extras["peers"]} - below("Extras")


def declared_licence(name):
    about = importlib.metadata.metadata(name)
    classifiers = [line for line in about.get_all("Classifier") or [] if line.startswith("License")]
    return " ".join([about.get("License-Expression") or "", (about.get("License") or "")[:300], *classifiers])


def test_licences_are_what_the_packages_declare(page):
    for name, (licence, _) in page.items():
        try:
            declared = declared_licence(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        family = next(family for family in FAMILIES if licence.startswith(family))
        assert re.search(FAMILIES[family], declared, re.IGNORECASE), (name, licence, declared)


def test_what_softkin_installs_is_free_of_copyleft():
    seen, todo = set(), ["softkin"]
    while todo:
        name = todo.pop()
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        seen.add(name)
        todo += [name_of(line) for line in required if "extra ==" not in line and name_of(line) not in seen]
        assert name == "softkin" or not COPYLEFT.search(declared_licence(name)), name
    assert len(seen) > 10
