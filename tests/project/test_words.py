"""The words in the left column of docs/style.md occur neither in the documents nor in what the code says."""

import ast
import re

import pytest

from places import ROOT

STYLE = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "style.md"]
MEASURED = sorted((ROOT / "docs" / "measurements").glob("*.md"))
SOURCES = sorted((ROOT / "src" / "softkin").rglob("*.py"))

# A cell of the left column → what to look for, and where: "all", "pages", or "commands" (messages of the command line).
WORDS = {
    "a temperature *behind* it": (r"\b(temperature|scaling|calibrat\w+)\b[^.]{0,30}\bbehind\b", "all"),
    "labels *by* names": (r"\blabels by (class )?names\b", "all"),
    "*mend*": (r"\bmend(s|ed|ing)?\b", "all"),
    "*but for*": (r"\bbut for\b", "all"),
    "images *a class*, rows *a class*": (
        r"\b(images|rows|samples|labels|scores|claims|votes|numbers|nats|(one|two) (?!of |to )\w+)"
        r" an? (class|row|sample|image|line|epoch|seed)\b",
        "all",
    ),
    "*level with*": (r"\blevel with\b", "all"),
    "*does harm*": (r"\bdo(es)? harm\b", "all"),
    "pass `force=True` (in a message of the command line)": (r"\bpass force=True\b", "commands"),
    "*overconfident*, *underconfident*": (r"\b(over|under)confiden(t|ce)\b", "all"),
    "*chance* for everything": (r"\b(within|beyond|may be|more than) chance\b|\bchance of training\b", "pages"),
    "Hist P, Hist O in prose": (r"\bHist [PO]\b(?! is the)(?! that of)", "pages"),
}
OPEN: set[tuple[str, str]] = set()


def prose(page):
    """Paragraphs of a page without code, tables, and quotations of what a command printed."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = ["" if line.startswith(("|", ">")) else line for line in text.splitlines()]
    return [" ".join(paragraph.split()) for paragraph in "\n".join(lines).split("\n\n")]


def cells(page):
    """Rows of tables, in which only the short heads of studies are allowed."""
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line.startswith("|")]


def strings(source):
    """Every text in a module: messages, help and docstrings."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [" ".join(text.split()) for text in texts]


def found(pattern, texts):
    return [
        text[max(0, match.start() - 40) : match.end() + 40] for text in texts for match in re.finditer(pattern, text)
    ]


def test_every_word_of_the_table_is_looked_for():
    rows = re.findall(r"^\| (.+?) \| .+ \|$", STYLE, re.MULTILINE)
    assert rows[2:] == list(WORDS)


@pytest.mark.parametrize("page", [*PAGES, *MEASURED], ids=lambda page: f"{page.parent.name}/{page.name}")
def test_pages_use_the_words_on_the_right(page):
    texts = prose(page)
    for cell, (pattern, where) in WORDS.items():
        if where == "commands" or (page.name, cell) in OPEN:
            continue
        if page in MEASURED and cell.startswith("Hist P"):  # pages of tables keep the short heads
            continue
        more = cells(page) if where == "all" and page.name != "glossary.md" else []  # which lists other names
        assert not found(pattern, texts + more), cell


def test_the_code_uses_the_words_on_the_right():
    wrong = {}
    for source in SOURCES:
        texts = strings(source)
        places = {"all", "commands"} if source.parent.name == "cli" and source.stem != "arguments" else {"all"}
        for cell, (pattern, where) in WORDS.items():
            if where in places and (hits := found(pattern, texts)):
                wrong[f"{source.relative_to(ROOT)}: {cell}"] = hits
    assert not wrong
