"""What the documentation's build needs besides MkDocs: formulas as MathML, the pages in their order, the gallery.

MkDocs loads this file as a hook (``mkdocs.yml``), and mkdocstrings the class ``RestMath``. Formulas become MathML while
the pages are built: browsers draw it themselves, so that a page needs no script and no font from elsewhere.

    python scripts/docs_site.py            runs every example of the gallery, and writes docs/gallery.md and its figures
    python scripts/docs_site.py NAME …     runs these examples only; "none" writes the page alone
"""

import ast
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
SHIM = re.compile(r"https://[^\"]*iframe-worker[^\"]*")
MEASUREMENTS = {
    "second_edition": "Studies, second edition",
    "first_edition": "Studies, first edition",
    "auto_alpha": "α that tunes itself: measured",
    "structured": "Structured calibrators: measured",
    "coverage": "Intervals: how often they hold",
    "choosing": "Choosing a similarity: measured",
    "decisions": "What decisions are worth: measured",
    "sklearn": "Beside CalibratedClassifierCV: measured",
    "paper_trial": "The trial of the paper's table 1",
    "demo": "How the network of the demo was chosen",
    "kin": "Kin: measured",
    "others": "Language models, other networks, climbing",
    "faults": "Longer tests: damage, kills and fuzzing",
}
NAV: list[tuple[str, list[tuple[str, str]]]] = [
    (
        "Start",
        [
            ("Ten minutes with softkin", "index.md"),
            ("Calibration in five minutes", "five_minutes.md"),
            ("What do you have?", "kinds.md"),
            ("Install", "install.md"),
            ("Questions and answers", "faq.md"),
            ("Glossary", "glossary.md"),
        ],
    ),
    (
        "Guides",
        [
            ("Evaluating a file of predictions", "evaluation.md"),
            ("Files", "files.md"),
            ("The report", "report.md"),
            ("Labels: how similar classes are", "labels.md"),
            ("Choosing a similarity", "choosing.md"),
            ("α that tunes itself", "auto_alpha.md"),
            ("Methods side by side", "compare.md"),
            ("Which guarantee means what", "guarantees.md"),
            ("Frameworks", "frameworks.md"),
            ("From other libraries, call by call", "migrate.md"),
        ],
    ),
    (
        "Examples",
        [
            ("Gallery", "gallery.md"),
            ("Evaluate, repair, send", "notebooks/evaluate_repair_send.md"),
            ("Your own training loop", "notebooks/own_loop.md"),
            ("Choosing a similarity, step by step", "notebooks/choosing_a_similarity.md"),
            ("Decisions with guarantees", "notebooks/decisions.md"),
        ],
    ),
    (
        "Evidence",
        [
            ("Results", "results.md"),
            ("When smoothing helps, and when not", "when.md"),
            ("Kin where rows are few", "kin.md"),
            ("How to read a reliability diagram", "reading.md"),
            ("Which ECE to quote", "which_ece.md"),
            ("How much of a calibration error is chance", "bias.md"),
            ("The mathematics", "mathematics.md"),
            ("The paper's study, as run here", "paper.md"),
            ("Measurements", "measurements/index.md"),
            *((title, f"measurements/{name}.md") for name, title in MEASUREMENTS.items()),
        ],
    ),
    (
        "API",
        [
            ("Metrics and diagrams", "api/metrics.md"),
            ("Predictions and calibrators", "api/calibration.md"),
            ("Labels and losses", "api/labels.md"),
            ("Decisions", "api/decisions.md"),
            ("Evaluating and reporting", "api/evaluation.md"),
            ("Frameworks in the API", "api/frameworks.md"),
            ("Data, networks, training", "api/training.md"),
            ("Studies and the paper", "api/studies.md"),
            ("The page's data", "api/page_data.md"),
            ("Every command", "commands.md"),
            ("Environment variables and exit codes", "environment.md"),
        ],
    ),
    (
        "About",
        [
            ("Beside other tools", "tools.md"),
            ("What it costs", "cost.md"),
            ("Limits: how large things may be", "limits.md"),
            ("Architecture", "architecture.md"),
            ("Dependencies", "dependencies.md"),
            ("How to cite", "cite.md"),
            ("Words we use", "style.md"),
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
    """Pages in the order above; those that are not there are left out. Other pages are reached by links."""
    notebooks = {f"notebooks/{path.stem}.md" for path in NOTEBOOKS}
    config["nav"] = [
        {section: [{title: path} for title, path in pages if (DOCS / path).is_file() or path in notebooks]}
        for section, pages in NAV
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Notebooks become pages, with the output that they were saved with."""
    for path in NOTEBOOKS:
        name = f"notebooks/{path.stem}.md"
        if (DOCS / "notebooks" / path.name).is_file() and files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=page_of(json.loads(path.read_text(encoding="utf-8")))))
    return files


def page_of(notebook: dict[str, Any]) -> str:
    """A saved notebook as Markdown: text, code, and what the code printed or drew."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![What the code draws](data:image/png;base64,{''.join(data['image/png']).strip()})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files of the repository that are no pages become plain words; text is as GitHub shows it."""
    markdown = re.sub(r"^\[(examples/\w+\.py)\]\(\.\./\1\)$", _folded, markdown, flags=re.MULTILINE)
    outside = "../" * (1 + page.file.src_uri.count("/"))
    return re.sub(rf"\[([^\]]+)\]\({outside}([^)#]+)(#[^)]*)?\)", r"\1 (`\2` in the repository)", markdown)


def _folded(match: re.Match[str]) -> str:
    """A script that stands alone on a line is shown, folded."""
    code = (ROOT / match[1]).read_text(encoding="utf-8").partition('"""\n\n')[2].strip()
    shown = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
    return f'??? note "{match[1]}"\n\n    ```python\n{shown}\n    ```'


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Search from a disk needs a script that the theme would load from elsewhere: ours instead."""
    return SHIM.sub("../" * page.url.count("/") + "search_from_disk.js", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """The same on the page that is shown for a wrong address."""
    return SHIM.sub("/search_from_disk.js", output_content)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML."""

    def drawn(match: re.Match[str]) -> str:
        latex = html.unescape(re.sub(r"</?[a-z]+[^>]*>", "", match[2]))
        return str(convert(latex.strip(), display="block" if match[1] == "div" else "inline"))

    return re.sub(r'<(div|span) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', drawn, content, flags=re.DOTALL)


class RestMath(griffe.Extension):  # type: ignore[misc]
    """``.. math::`` and ``:math:`` of docstrings in the notation that Markdown knows, and their examples as code."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change an object's docstring."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)  # the section's name
            obj.docstring.value = as_markdown(text)


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
        lines += [f"## {title}", "", about, "", f"![{title}](figures/gallery/{name}.png)", ""]
        lines += [f"[examples/{name}.py](../examples/{name}.py)", ""]
    for path in sorted(figures.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        elif path.suffix != ".png":
            path.unlink()
    (DOCS / "gallery.md").write_text("\n".join(lines), encoding="utf-8")
    print(f"Wrote {DOCS / 'gallery.md'} and {len(GALLERY)} figures")


if __name__ == "__main__":
    gallery(sys.argv[1:])
