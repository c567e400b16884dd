"""Trees from files: pairs of parent and child, classes with their superclasses, or nested names."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from softkin import SoftkinError
from softkin._core import checks
from softkin._io import files, roles, tables
from softkin.distances.trees import MOST_NODES, TOP, Hierarchy, Tree
from softkin.distances.wordnet import WordNet

NESTED = (".json", ".yaml", ".yml")
CLASS = ("class", "class_name")  # as the first of two columns, with the superclass in the second

Names: TypeAlias = Sequence[str | Sequence[str]]
"""Names of classes, or their synonyms"""
Edges: TypeAlias = Hierarchy | Tree | Iterable[tuple[str, str]] | str | Path
"""What lies below what, pairs of parent and child, or the name of their file"""


def open_tree(edges: Edges, class_names: Names) -> tuple[Hierarchy, Names]:
    """The hierarchy that ``edges`` stands for, and the names of the classes in it."""
    if isinstance(edges, Hierarchy):
        return edges, class_names
    if isinstance(edges, Tree):
        place = {name: str(k) for k, name in enumerate(edges.names[: edges.num_classes])}
        pairs = [(str(parent), str(node)) for node, parent in enumerate(edges.parents) if parent >= 0]
        synonyms = ([name] if isinstance(name, str) else list(name) for name in class_names)
        nodes = [next((place[name] for name in names if name in place), names[0]) for names in synonyms]
        return Hierarchy(pairs, name="the tree"), nodes
    if not isinstance(edges, str | Path):
        return Hierarchy(edges), class_names
    name, _, folder = str(edges).partition(":")
    if name == "wordnet":
        pairs, nodes = WordNet(folder or None).above(class_names)
        return Hierarchy(pairs, name="WordNet"), nodes
    return read_tree(edges), class_names


def read_tree(path: str | Path) -> Hierarchy:
    """What lies below what, from a file.

    - a table (.csv, .tsv, .parquet …, or a .txt) of parent and child, with or without the header ``parent,child``
    - a table of class and superclass, with the header ``class,superclass`` or the like
    - "FILE:COLUMN": a column of superclasses beside the labels of a data set
    - nested .json or .yaml: keys are nodes, and lists and tables hold their children; {"name": …, "children": […]} is
      understood too. A flat table gives the superclass of each class. The file itself is the root.
    """
    stem, colon, column = str(path).rpartition(":")
    if colon and tables.form_of(stem) is not None:
        return _superclass_column(Path(stem), column)
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in NESTED:
        content = files.read_json(path, "a taxonomy") if suffix == ".json" else _read_yaml(path)
        return Hierarchy(_nested(content, path), name=str(path))
    if suffix != ".txt" and tables.form_of(path) is None:
        raise SoftkinError(
            f"{path} has no known format for a taxonomy: a table ({', '.join(tables.FORMATS)}, txt) of parent,child or "
            "class,superclass lines, nested .json or .yaml, or FILE.parquet:COLUMN with superclasses."
        )
    return Hierarchy(_pairs(path), name=str(path))


def holds_tree(path: str | Path) -> bool:
    """Whether a file holds a tree rather than a matrix, by its name or, for separated values, by its first lines."""
    if str(path).partition(":")[0] == "wordnet" or tables.form_of(str(path).rpartition(":")[0]) is not None:
        return True
    form = tables.form_of(path)
    if form not in ("csv", "tsv"):
        return form is not None or Path(path).suffix.lower() in (".txt", *NESTED)
    with files.reading(path, "CSV"), files.open_file(path) as file:
        start = file.read(2**16)
        lines = [line for line in start.decode(tables.encoding_of(start), "replace").splitlines() if line.strip()]
    cells = tables.split_lines(lines[:20])
    if len(cells) < 2 or any(len(line) != 2 for line in cells[:-1]):  # the last line may be cut off
        return False
    is_header = {cell.strip().lower() for cell in cells[0]} == {"parent", "child"}
    return is_header or not any(checks.is_number(cell) for line in cells[1:] for cell in line)


def _pairs(path: Path) -> list[tuple[str, str]]:
    """(parent, child) pairs of a table, whose header says which column is which, if it has one."""
    lines = tables.read_cells(path, "a taxonomy")
    if not lines:
        raise SoftkinError(f"{path} must hold a parent and a child per line, and is empty.")
    head = [cell.strip() for cell in lines[0][1]]
    parent, child = roles.find(head, "parent"), roles.find(head, "child")
    label, group = roles.find(head, "label"), roles.find(head, "superclass")
    order = (0, 1)
    by_class = not (parent and child) and ((label and group) or (len(head) == 2 and roles.plain(head[0]) in CLASS))
    if parent and child:
        order = head.index(parent), head.index(child)
    elif by_class:
        order = (head.index(group), head.index(label)) if label and group else (1, 0)
    has_header = bool(parent and child) or bool(by_class)
    pairs = []
    for number, row in lines[has_header:]:
        if len(row) <= max(order) or (not has_header and len(row) != 2):
            raise SoftkinError(f"{path}, line {number} must hold a parent and a child, got {','.join(row)[:60]!r}.")
        above, below = row[order[0]].strip(), row[order[1]].strip()
        if not below:
            raise SoftkinError(f"{path}, line {number}: the child has no name.")
        if above:  # a root may have no parent
            pairs.append((above, below))
    return _below_top(pairs) if by_class else pairs


def _below_top(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of superclass and class, and a root above all superclasses."""
    return [(TOP, group) for group in dict.fromkeys(group for group, _ in pairs)] + list(pairs)


def _superclasses(groups: Mapping[str, str], path: Path) -> list[tuple[str, str]]:
    return _below_top([_edge(group, name, path) for name, group in groups.items()])


def _nested(content: Any, path: Path) -> list[tuple[str, str]]:
    """Edges of nested tables and lists, without recursion because files may be hostile.

    A flat table in which values repeat gives the superclass of each class.
    """
    if isinstance(content, dict) and content and all(isinstance(value, str | int) for value in content.values()):
        above = [str(value) for value in content.values()]
        if len(set(above)) < len(above):
            return _superclasses({str(name): value for name, value in zip(content, above, strict=True)}, path)
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

        class Loader(yaml.SafeLoader):  # type: ignore[misc]  # a class of pyyaml, which has no types
            def flatten_mapping(self, node: Any) -> None:
                for key, _ in node.value:
                    if key.tag == "tag:yaml.org,2002:merge":  # they multiply: nine lines would take all memory
                        raise ValueError(f"line {key.start_mark.line + 1}: merge keys (<<) have no meaning in a tree")

        return yaml.load(content, Loader)


def _superclass_column(path: Path, column: str) -> Hierarchy:
    """Classes and superclasses in two columns of a table, with the class names that it keeps for them."""
    table = tables.open_table(path)
    labels = roles.find((name for name in table.columns if name != column), "label")
    if column not in table.columns or labels is None:
        raise SoftkinError(
            f"{path} must have the column {column!r} and one of labels beside it, and has "
            f"{', '.join(table.columns)[:200]}."
        )
    above: dict[Any, Any] = {}
    for label, group in dict.fromkeys(table.cells(labels, column)):
        if above.setdefault(label, group) != group:
            raise SoftkinError(
                f"{path}: rows of class {label!r} have two superclasses, {above[label]!r} and {group!r}."
            )

    def called(feature: str, value: Any) -> str:
        known = table.class_names.get(feature)
        return known[value] if known and isinstance(value, int) and 0 <= value < len(known) else str(value)

    named = {called(labels, label): f"{column}: {called(column, above[label])}" for label in sorted(above, key=str)}
    return Hierarchy(_superclasses(named, path), name=f"{path}:{column}")
