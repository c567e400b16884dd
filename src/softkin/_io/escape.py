"""Untrusted text (class names, file names, titles), escaped for each medium that shows it.

HTML is not here: the report's page gets its data as JSON and sets text, never markup (``report/render.py``).
"""

import re

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "‡": r"$^\ddagger$",
    }
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~$])|([<>&])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # a formula to a spreadsheet, after any number of quotes


def terminal(text: str) -> str:
    r"""Text that is safe on a terminal: control, formatting and direction characters become "�".

    Example:
        >>> terminal("cat\x1b[31m")
        'cat�[31m'
    """
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def latex(text: str) -> str:
    r"""Text for LaTeX outside of mathematics.

    Example:
        >>> latex(r"\input{x} 50 %")
        '\\textbackslash{}input\\{x\\} 50 \\%'
    """
    return terminal(text).translate(_LATEX)


def markdown(text: str) -> str:
    r"""Text for Markdown, also inside the cell of a table.

    Example:
        >>> print(markdown("a|b <i>"))
        a\|b &lt;i&gt;
    """
    return _MARKDOWN.sub(lambda hit: f"\\{hit[1]}" if hit[1] else _ENTITIES[hit[2]], terminal(text))


def mathtext(text: str) -> str:
    r"""Text for matplotlib, which parses text between two dollar signs as mathematics.

    Example:
        >>> mathtext("$\\frac{1}{0}$")
        '\\$\\frac{1}{0}\\$'
    """
    return terminal(text).replace("$", r"\$")


def csv_cell(text: str) -> str:
    """Text for a cell of a CSV file; a text that spreadsheets would take for a formula gets a leading quote.

    Example:
        >>> csv_cell("=HYPERLINK(1)"), csv_cell("cat")
        ("'=HYPERLINK(1)", 'cat')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_csv_cell(text: str) -> str:
    """The text that ``csv_cell`` wrote.

    Example:
        >>> from_csv_cell("'=HYPERLINK(1)"), from_csv_cell("'cat'")
        ('=HYPERLINK(1)', "'cat'")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
