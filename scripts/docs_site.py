"""What the documentation's build needs besides MkDocs: formulas as MathML, the pages in their order, the gallery.

MkDocs loads this file as a hook (``mkdocs.yml``), and mkdocstrings the class ``RestMath``. Formulas become MathML while
the pages are built: browsers draw it themselves, so that a page needs no script and no font from elsewhere.

    python scripts/docs_site.py            runs every example of the gallery, and writes docs/gallery.md and its figures
    python scripts/docs_site.py NAME …     runs these examples only; "none" writes the page alone
"""

import ast
import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
NAV: list[tuple[str, list[tuple[str, str]]]] = [
    ("Start", [("Ten minutes", "index.md"), ("Install", "install.md"), ("Gallery", "gallery.md")]),
    (
        "Understand",
        [
            ("The mathematics", "mathematics.md"),
            ("How to read a reliability diagram", "reading.md"),
            ("Which ECE to quote", "which_ece.md"),
            ("When smoothing helps, and when not", "when.md"),
            ("Results", "results.md"),
            ("Choosing a similarity", "choosing.md"),
            ("Distances, similarities, labels", "labels.md"),
            ("α that tunes itself", "auto_alpha.md"),
            ("Structured calibrators", "structured.md"),
            ("Guarantees of decisions", "guarantees.md"),
            ("The bias of every ECE", "bias.md"),
        ],
    ),
    (
        "Use",
        [
            ("What do you have?", "kinds.md"),
            ("Frameworks", "frameworks.md"),
            ("Files", "files.md"),
            ("Evaluating", "evaluation.md"),
            ("The page", "report.md"),
            ("Methods side by side", "compare.md"),
            ("Every command", "commands.md"),
            ("What it costs", "cost.md"),
            ("Scaling and limits", "limits.md"),
        ],
    ),
    (
        "Names",
        [
            ("Labels and losses", "api/labels.md"),
            ("Predictions and calibrators", "api/calibration.md"),
            ("Metrics and diagrams", "api/metrics.md"),
            ("Evaluating and reporting", "api/evaluation.md"),
            ("Decisions", "api/decisions.md"),
            ("Data, networks, training", "api/training.md"),
            ("Studies and the paper", "api/studies.md"),
            ("Frameworks", "api/frameworks.md"),
        ],
    ),
    (
        "About",
        [
            ("The paper's study", "paper.md"),
            ("Beside other tools", "tools.md"),
            ("Dependencies", "dependencies.md"),
            ("How to cite", "cite.md"),
        ],
    ),
]
GALLERY = (
    ("My own training loop", "own_loop"),
    ("My Lightning module", "my_lightning"),
    ("My Hugging Face Trainer", "my_transformers"),
    ("My scikit-learn model", "my_sklearn"),
    ("A file of logits", "logits_file"),
    ("A CSV from elsewhere", "csv_from_elsewhere"),
    ("Class names are phrases", "phrases"),
    ("Class names in German", "german"),
    ("Classes form a tree", "tree"),
    ("Twenty thousand classes", "many_classes"),
    ("Two GPUs, or two processes", "two_gpus"),
    ("A cluster", "cluster"),
    ("Monitoring without labels", "monitoring"),
    ("Serving one graph", "export_for_serving"),
)


def on_config(config: Any) -> Any:
    """Pages in the order above; those that are not there are left out, and others that are come last."""
    listed = [path for _, pages in NAV for _, path in pages]
    nav: list[Any] = [
        {section: [{title: path} for title, path in pages if (DOCS / path).is_file()]} for section, pages in NAV
    ]
    more = sorted(path.name for path in DOCS.glob("*.md") if path.name not in listed)
    config["nav"] = nav + ([{"More": more}] if more else [])
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to files of the repository that are no pages become plain words; text is as GitHub shows it."""
    return re.sub(r"\[([^\]]+)\]\(\.\./([^)#]+)(#[^)]*)?\)", r"\1 (`\2` in the repository)", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML."""

    def drawn(match: re.Match[str]) -> str:
        latex = html.unescape(re.sub(r"</?[a-z]+[^>]*>", "", match[2]))
        return str(convert(latex.strip(), display="block" if match[1] == "div" else "inline"))

    return re.sub(r'<(div|span) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', drawn, content, flags=re.DOTALL)


class RestMath(griffe.Extension):  # type: ignore[misc]
    """``.. math::`` and ``:math:`` of docstrings in the notation that Markdown knows."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change an object's docstring."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    r"""A docstring whose formulas stand between dollar signs.

    Example:
        >>> print(as_markdown("With :math:`x` the\n\n.. math:: y = x^2 +\n          1\n\nend"))
        With $x$ the
        <BLANKLINE>
        $$
        y = x^2 + 1
        $$
        <BLANKLINE>
        end
    """
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)

    def block(match: re.Match[str]) -> str:
        lines = [line.strip() for line in match[2].splitlines() if line.strip()]
        return f"{match[1]}$$\n{match[1]}" + " ".join(lines) + f"\n{match[1]}$$"

    return re.sub(r"^([ ]*)\.\. math::[ ]*(.*(?:\n\1[ ]+\S.*|\n(?=\n\1[ ]+\S))*)", block, text, flags=re.MULTILINE)


def gallery(chosen: list[str]) -> None:
    """Run the examples, or those that are ``chosen``, keep their figures, and write the page that shows them all."""
    figures = DOCS / "figures" / "gallery"
    figures.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    lines = ["# Gallery", "", "One script for each question; `make test` runs all of them on small data.", ""]
    for title, name in GALLERY:
        script = EXAMPLES / f"{name}.py"
        if not chosen or name in chosen:
            subprocess.run([sys.executable, str(script), str(figures)], check=True, env=environment, cwd=figures)
        about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        if about.startswith(f"{title}: "):  # the heading says it
            about = about.removeprefix(f"{title}: ")
            about = about[0].upper() + about[1:]
        code = script.read_text(encoding="utf-8").partition('"""\n\n')[2]
        lines += [f"## {title}", "", about, "", f"![{title}](figures/gallery/{name}.png)", ""]
        lines += [f'??? note "examples/{name}.py"', "", "    ```python"]
        lines += [f"    {line}".rstrip() for line in code.strip().splitlines()] + ["    ```", ""]
    for path in sorted(figures.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.suffix != ".png":
            path.unlink()
    (DOCS / "gallery.md").write_text("\n".join(lines), encoding="utf-8")
    print(f"Wrote {DOCS / 'gallery.md'} and {len(GALLERY)} figures")


if __name__ == "__main__":
    gallery(sys.argv[1:])
