"""Taxonomies from files: pairs of parent and child, nested tables, or columns of superclasses."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, parquet
from softkin.distances.taxonomy import MOST_NODES, TOP, Taxonomy

LABELS = ("fine_label", "label", "labels", "class", "target")  # columns that may hold the class of a row


def read_taxonomy(path: str | Path) -> Taxonomy:
    """A taxonomy from a file: CSV or text with one pair per line, nested JSON or YAML, or a column of superclasses.

    In nested files, keys are nodes, and lists and tables hold their children; {"name": …, "children": […]} is
    understood too. The file itself is the root.
    """
    text = str(path)
    stem, colon, column = text.rpartition(":")
    if colon and Path(stem).suffix.lower() == ".parquet":
        return _superclass_column(Path(stem), column)
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        return Taxonomy(_nested(files.read_json(path, "a taxonomy"), path), name=str(path))
    if suffix in (".yaml", ".yml"):
        return Taxonomy(_nested(_read_yaml(path), path), name=str(path))
    if suffix not in (".csv", ".tsv", ".txt"):
        raise SoftkinError(
            f"{path} has no known format for a taxonomy: .csv, .tsv or .txt of parent,child lines, nested .json "
            "or .yaml, or FILE.parquet:COLUMN with superclasses."
        )
    with files.reading(path, "a taxonomy"):
        content = files.read_bytes(path, "a taxonomy").decode("utf-8-sig")
    return Taxonomy(_pairs(content, path), name=str(path))


def is_taxonomy(content: str) -> bool:
    """Whether the text of a CSV file is a list of pairs rather than a matrix."""
    lines = [line for line in content.splitlines()[:20] if line.strip()]
    cells = [next(csv.reader([line])) for line in lines]
    if len(cells) < 2 or any(len(line) != 2 for line in cells[:-1]):  # the last line may be cut off
        return False
    named = {cell.strip().lower() for cell in cells[0]} == {"parent", "child"}
    return named or not any(checks.is_number(cell) for line in cells[1:] for cell in line)


def _pairs(content: str, path: Path) -> list[tuple[str, str]]:
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise SoftkinError(f"{path} must hold a parent and a child per line, and is empty.")
    delimiter = next((letter for letter in ("\t", ",", ";") if letter in lines[0]), " ")
    rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter))
    head = [cell.strip().lower() for cell in rows[0]]
    order = (0, 1)
    if "parent" in head and "child" in head:
        order = head.index("parent"), head.index("child")
        rows = rows[1:]
    pairs = []
    for number, row in enumerate(rows, start=1 + len(lines) - len(rows)):
        if len(row) <= max(order) or (order == (0, 1) and len(row) != 2 and "parent" not in head):
            raise SoftkinError(
                f"{path}, line {number} must hold a parent and a child, got {delimiter.join(row)[:60]!r}."
            )
        parent, child = row[order[0]].strip(), row[order[1]].strip()
        if not child:
            raise SoftkinError(f"{path}, line {number}: the child has no name.")
        if parent:  # a root may have no parent
            pairs.append((parent, child))
    return pairs


def _nested(content: Any, path: Path) -> list[tuple[str, str]]:
    """Edges of nested tables and lists, without recursion because files may be hostile."""
    edges: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any, int]] = [(TOP, content, 0)]
    visited = 0
    while waiting:
        parent, inner, depth = waiting.pop()
        visited += 1  # aliases in YAML repeat a part without a byte
        if depth > files.DEPTH or visited + len(waiting) > 4 * MOST_NODES or len(edges) > MOST_NODES:
            raise SoftkinError(f"{path} could not be read as a taxonomy: it is nested too deeply, or too large.")
        if inner is None or inner in ({}, [], ""):
            continue
        if isinstance(inner, str | int | float):
            edges.append(_edge(parent, inner, path))
        elif isinstance(inner, list):
            waiting += [(parent, part, depth + 1) for part in inner]
        elif isinstance(inner, dict) and isinstance(inner.get("name"), str) and set(inner) <= {"name", "children"}:
            edges.append(_edge(parent, inner["name"], path))
            waiting.append((inner["name"], inner.get("children"), depth + 1))
        elif isinstance(inner, dict):
            for name, children in inner.items():
                edges.append(_edge(parent, name, path))
                waiting.append((str(name), children, depth + 1))
        else:
            raise SoftkinError(
                f"{path} must hold names, lists and tables, got {type(inner).__name__} below {parent!r}."
            )
    if sum(parent == TOP for parent, _ in edges) == 1:  # the file names its own root
        edges = [edge for edge in edges if edge[0] != TOP] or edges
    return edges


def _edge(parent: str, child: Any, path: str | Path) -> tuple[str, str]:
    if not str(child).strip():
        raise SoftkinError(f"{path}: a node below {parent!r} has no name.")
    return parent, str(child)


def _read_yaml(path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError("a taxonomy in YAML needs pyyaml: pip install pyyaml") from error
    content = files.read_bytes(path, "a taxonomy")
    with files.reading(path, "YAML"):
        files.within("bytes", len(content), str(path), share=2**9)  # slow to parse, and no hand-written file has 4 MiB
        return yaml.safe_load(content)


def _superclass_column(path: Path, column: str) -> Taxonomy:
    """The taxonomy of classes and superclasses in two columns of a parquet file."""
    size = files.require_regular(path)
    with files.reading(path, "parquet"):
        table = parquet.opened(path, size, str(path))
        schema = table.schema_arrow
        labels = next((name for name in LABELS if name in schema.names and name != column), None)
        if column not in schema.names or labels is None:
            raise SoftkinError(
                f"{path} must have the column {column!r} and one of {', '.join(LABELS)} beside it, and has "
                f"{', '.join(schema.names)[:200]}."
            )
        names = _class_names(schema.metadata or {}, path)
        columns = (parquet.column(table, size, name, f"{path}: `{name}`") for name in (labels, column))
        pairs = dict.fromkeys(zip(*columns, strict=True))
    above: dict[Any, Any] = {}
    for label, group in pairs:
        if above.setdefault(label, group) != group:
            raise SoftkinError(
                f"{path}: rows of class {label!r} have two superclasses, {above[label]!r} and {group!r}."
            )

    def called(feature: str, value: Any) -> str:
        known = names.get(feature)
        return known[value] if known and isinstance(value, int) and 0 <= value < len(known) else str(value)

    groups = {label: f"{column}: {called(column, group)}" for label, group in above.items()}
    edges = [(TOP, group) for group in dict.fromkeys(groups.values())]
    edges += [_edge(groups[label], called(labels, label), path) for label in sorted(groups, key=str)]
    return Taxonomy(edges, name=f"{path}:{column}")


def _class_names(metadata: Mapping[bytes, bytes], path: Path) -> dict[str, list[str]]:
    """The class names of each column, from the metadata of a Hugging Face data set."""
    if b"huggingface" not in metadata:
        return {}
    about = files.parse_json(metadata[b"huggingface"], path, "the metadata of a data set")
    features = about.get("info", {}).get("features", {})
    listed = {name: feature.get("names") for name, feature in features.items() if isinstance(feature, dict)}
    return {
        name: names
        for name, names in listed.items()
        if isinstance(names, list) and all(isinstance(known, str) for known in names)
    }
