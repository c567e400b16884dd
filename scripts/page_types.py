"""Write src/softkin/report/types.d.ts, by which the page's script is checked, from the types in report/data.py.

python scripts/page_types.py
"""

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from softkin._io.files import Plain
from softkin.report.data import PAGES

FILE = Path(__file__).resolve().parents[1] / "src" / "softkin" / "report" / "types.d.ts"
HEAD = """\
// The form of the data that the page reads: the JSON file beside it. Written by scripts/page_types.py from
// report/data.py; docs/report.md says what each field means.

/** A number, null where there is none, "Infinity" or "-Infinity". */
type Plain = number | null | "Infinity" | "-Infinity";
"""
SIMPLE = {
    int: "number",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
    Any: "any",
    object: "unknown",
}


def written() -> str:
    """The whole file."""
    found: dict[str, type] = {}
    for page in PAGES:
        _collect(page, found)
    parts = [_interface(name, kind) for name, kind in found.items()]
    return "\n".join([HEAD, *parts, _any_page()])


def _collect(kind: Any, found: dict[str, type]) -> None:
    """Every mapping with named fields that a type holds."""
    if is_typeddict(kind):
        if kind.__name__ in found:
            return
        found[kind.__name__] = kind
        for field in get_type_hints(kind).values():
            _collect(field, found)
    for argument in get_args(kind):
        _collect(argument, found)


def _fields(kind: type) -> dict[str, tuple[str, bool]]:
    """The type of each field, and whether it may be absent."""
    hints = get_type_hints(kind)
    return {name: (_type(hints[name]), name in kind.__optional_keys__) for name in hints}  # type: ignore[attr-defined]


def _interface(name: str, kind: type) -> str:
    words = " ".join((kind.__doc__ or "").split())
    lines = [f"  {field}{'?' if optional else ''}: {text};" for field, (text, optional) in _fields(kind).items()]
    return "\n".join([f"/** {words} */", f"interface {name} {{", *lines, "}", ""])


def _any_page() -> str:
    """The data of whichever page the script runs on: the fields of all kinds of pages."""
    fields: dict[str, set[str]] = {}
    for page in PAGES:
        for name, (text, _) in _fields(page).items():
            fields.setdefault(name, set()).add(text)
    lines = [f"  {name}: {_merged(texts)};" for name, texts in fields.items()]
    words = "/** The fields of all pages; of a field that differs from page to page, nothing is known. */"
    return "\n".join([words, "interface PageData {", *lines, "  [added: string]: any;", "}", ""])


def _merged(texts: set[str]) -> str:
    if len(texts) == 1:
        return next(iter(texts))
    return " | ".join(sorted(texts)) if all(text.startswith('"') for text in texts) else "any"


def _type(kind: Any) -> str:
    """A Python type in TypeScript."""
    if kind == Plain:
        return "Plain"
    if kind in SIMPLE:
        return SIMPLE[kind]
    if is_typeddict(kind):
        return str(kind.__name__)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (Union, types.UnionType):
        rest = [part for part in arguments if part not in get_args(Plain)]
        if set(get_args(Plain)) <= set(arguments):
            return " | ".join(["Plain", *map(_type, rest)])
        return " | ".join(map(_type, arguments))
    if origin is list:
        inner = _type(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is tuple:
        return f"[{', '.join(map(_type, arguments))}]"
    if origin is dict:
        return f"Record<string, {_type(arguments[1])}>"
    raise TypeError(f"there is no TypeScript for {kind!r}.")


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
    print(f"Wrote {FILE}")
