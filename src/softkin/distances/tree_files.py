"""Trees from files: pairs of parent and child, classes with their superclasses, nested names, or WordNet's nouns in its
own files (Debian's wordnet-base, or nltk's download).
"""

import functools
import mmap
import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.assumption import Assumption
from softkin._core.names import near
from softkin._io import files, roles, tables
from softkin.distances.trees import LISTED, MOST_NODES, TOP, Hierarchy, Tree
from softkin.distances.words import ICD, ICD_PACKAGES, PLURALS, SENSE, WNID, tokens
from softkin.word_vectors import IMAGENET, WordVectors

FOLDERS = ("/usr/share/wordnet", "/usr/local/share/wordnet", "~/nltk_data/corpora/wordnet")


class WordNet:
    """Nouns and their hypernyms. A synset is identified by its wnid, "n" and eight digits, as in ImageNet.

    Args:
        folder: The folder of ``index.noun`` and ``data.noun``; None uses SOFTKIN_WORDNET, or Debian's or nltk's folder.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        named = folder or os.environ.get("SOFTKIN_WORDNET")
        candidates = [files.expanded(path) for path in ([named] if named else FOLDERS)]
        present = [path for path in candidates if (path / "data.noun").is_file() and (path / "index.noun").is_file()]
        if not present:
            raise SoftkinError(
                f"WordNet was not found in {', '.join(map(str, candidates))}: install wordnet-base (Debian), or set "
                "SOFTKIN_WORDNET to a folder with index.noun and data.noun."
            )
        self.folder = present[0]
        self._data = self._mapped("data.noun")

    def _mapped(self, name: str) -> mmap.mmap:
        with files.open_file(self.folder / name) as file, files.reading(self.folder / name, "WordNet"):
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @cached_property
    def _senses(self) -> dict[str, str]:
        """Each lemma with its line of the index."""
        path = self.folder / "index.noun"
        with files.reading(path, "WordNet"):
            lines = files.read_bytes(path, "WordNet").decode("utf-8").splitlines()
        return {line.partition(" ")[0]: line for line in lines if not line.startswith(" ")}

    def senses(self, lemma: str) -> list[str]:
        """The wnids of a lemma, the most frequent first; empty if there is no such noun."""
        line = self._senses.get(lemma.strip().lower().replace(" ", "_").replace("-", "_")) or self._senses.get(
            lemma.strip().lower().replace(" ", "_")
        )
        return (
            [] if line is None else [f"n{offset}" for offset in line.split() if len(offset) == 8 and offset.isdigit()]
        )

    def synset(self, name: str) -> str | None:
        """The wnid for a wnid, a sense ("crane.n.05") or a lemma; None if there is none.

        For a lemma this is the first sense that is a kind of thing, not a single person or place (for "crane", not the
        poet). A plural is looked up as its singular.
        """
        if WNID.fullmatch(name):
            return name if self._line(name) is not None else None
        sense = SENSE.fullmatch(name)
        if sense is not None:
            wnids = self.senses(sense[1])
            place = int(sense[2])
            return wnids[place - 1] if 1 <= place <= len(wnids) else None
        for lemma in _singulars(name):
            wnids = self.senses(lemma)
            kinds = [wnid for wnid in wnids if not self._is_instance(wnid)]
            if wnids:
                return (kinds or wnids)[0]
        return None

    def lemmas(self, wnid: str) -> list[str]:
        """The words of a synset."""
        fields = self._fields(wnid)
        return [fields[4 + 2 * word] for word in range(int(fields[3], 16))]

    def parents(self, wnid: str) -> list[str]:
        """The synsets that this one is a kind or an instance of."""
        return [target for _, target in self._pointers(wnid)]

    def above(self, class_names: Sequence[str | Sequence[str]]) -> tuple[list[tuple[str, str]], list[str]]:
        """(parent, child) pairs of everything above the given classes, and the wnids of the classes."""
        nodes: list[str] = []
        missing: list[str] = []
        for entry in class_names:
            names = [entry] if isinstance(entry, str) else list(entry)
            wnid = next((known for name in names if (known := self.synset(name)) is not None), None)
            if wnid is None:
                missing.append(names[0])
            else:
                nodes.append(wnid)
        if missing:
            head = missing[0].lower().replace(" ", "_")
            close = [lemma for lemma in self._senses if lemma[:2] == head[:2] and abs(len(lemma) - len(head)) <= 2]
            last = head.rpartition("_")[2]
            guesses = ([last] if last != head and last in self._senses else []) or near(head, close)
            guess = f"{missing[0]}={guesses[0]}" if guesses else f"{missing[0]}=WORD"
            listed = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            raise SoftkinError(
                f"WordNet has no noun {listed}: say what to look up with `aliases` (--alias {guess!r}): a word, a "
                'sense such as "crane.n.05", or a wnid.'
            )
        return list(self.edges(nodes)), nodes

    def edges(self, wnids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(parent, child) pairs for everything above the given synsets."""
        seen, queue = set(wnids), deque(wnids)
        while queue:
            wnid = queue.popleft()
            for parent in self.parents(wnid):
                yield parent, wnid
                if parent not in seen:
                    seen.add(parent)
                    queue.append(parent)

    def nouns(self) -> Iterator[str]:
        """All wnids, in the order of the file."""
        start = 0
        while (end := self._data.find(b"\n", start)) >= 0:
            if self._data[start : start + 1] != b" ":  # the licence is indented
                yield f"n{self._data[start : start + 8].decode('ascii')}"
            start = end + 1

    def _line(self, wnid: str) -> str | None:
        """The synset's line; the number of a synset is the offset of its line."""
        offset = int(wnid[1:])
        end = self._data.find(b"\n", offset)
        line = self._data[offset : end if end >= 0 else len(self._data)].decode("utf-8", "replace")
        return line if line.startswith(f"{wnid[1:]} ") else None

    def _fields(self, wnid: str) -> list[str]:
        line = self._line(wnid)
        if line is None:
            raise SoftkinError(
                f"{self.folder / 'data.noun'} has no synset {wnid}: is it of another version of WordNet?"
            )
        return line.partition(" | ")[0].split(" ")

    def _pointers(self, wnid: str) -> list[tuple[str, str]]:
        with files.reading(self.folder / "data.noun", "WordNet"):
            fields = self._fields(wnid)
            start = 4 + 2 * int(fields[3], 16)
            quads = [fields[start + 1 + 4 * place : start + 5 + 4 * place] for place in range(int(fields[start]))]
            return [(symbol, f"n{target}") for symbol, target, pos, _ in quads if symbol in ("@", "@i") and pos == "n"]

    def _is_instance(self, wnid: str) -> bool:
        return any(symbol == "@i" for symbol, _ in self._pointers(wnid))


def in_words(class_names: Sequence[Any]) -> list[Any]:
    """Class names, where codes of a list that is at hand become what they stand for.

    The lists are ImageNet's 1,000 classes, which come with softkin, all of WordNet's identifiers if it is installed,
    and ICD-10 (``words.ICD_PACKAGES``) if all names are its codes, since "F16" may be an aeroplane.
    """
    names = list(class_names)
    single = [name if isinstance(name, str) else name[0] if len(name) == 1 else "" for name in names]
    found = _synsets({name for name in single if WNID.fullmatch(name)})
    if found:
        return [found.get(name, names[place]) for place, name in enumerate(single)]
    if names and all(map(ICD.fullmatch, single)):
        return _diagnoses(single) or names
    return names


def _synsets(wnids: set[str]) -> dict[str, list[str]]:
    """The lemmas of the identifiers that softkin knows, or WordNet if it is installed."""
    found = {wnid: list(imagenet()[wnid]) for wnid in wnids if wnid in imagenet()}
    rest = wnids - set(found)
    try:
        net = WordNet() if rest else None
    except SoftkinError:
        return found
    for wnid in rest:
        if net and (lemmas := net.lemmas(wnid)):
            found[wnid] = [lemma.replace("_", " ") for lemma in lemmas]
    return found


@functools.cache
def imagenet() -> dict[str, list[str]]:
    """The lemmas of ImageNet's 1,000 classes by their identifiers in WordNet (``word_vectors/imagenet.txt``).

    Example:
        >>> imagenet()["n02123045"]
        ['tabby', 'tabby cat']
    """
    lines = IMAGENET.read_text(encoding="utf-8").splitlines()
    return {wnid: lemmas for wnid, *lemmas in (line.split("\t") for line in lines)}


def _diagnoses(codes: Sequence[str]) -> list[list[str]]:
    """What ICD-10 codes stand for, also without the words that our vectors lack; empty without a list of all codes."""
    known_words = WordVectors.shipped()
    for package in ICD_PACKAGES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of theirs
                known = import_module(package.replace("-", "_"))
        except ImportError:
            continue
        if all(known.is_valid_item(code) for code in codes):
            found = [str(known.get_description(code)) for code in codes]
            if len(set(found)) == len(found):
                warnings.warn(
                    f"the class names are read as ICD-10 codes: {codes[0]} is {found[0]!r}.", Assumption, stacklevel=4
                )
                return [[text, " ".join(w for w in tokens(text) if w in known_words) or text] for text in found]
    return []


def _singulars(name: str) -> Iterator[str]:
    """The name itself, and the singulars that it may be the plural of."""
    yield name
    lower = name.lower()
    for ending, other in PLURALS:
        if lower.endswith(ending) and len(lower) > len(ending) + 2:
            yield lower[: -len(ending)] + other


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
    return _rooted(_turned(read_tree(edges), class_names), class_names), class_names


def _rooted(hierarchy: Hierarchy, class_names: Names) -> Hierarchy:
    """The hierarchy; several roots get one above them if they are kinds: none is a class, and one is above two."""
    roots = {node: 0 for node, above in hierarchy.parents.items() if not above}
    for name in (name if isinstance(name, str) else name[0] for name in class_names):
        for node in hierarchy.ancestors(name) if name in hierarchy.parents else ():
            if node == name and node in roots:
                return hierarchy
            if node in roots:
                roots[node] += 1
    if len(roots) < 2 or max(roots.values()) < 2 or any(len(above) > 1 for above in hierarchy.parents.values()):
        return hierarchy
    named = ", ".join(list(roots)[:LISTED]) + (" …" if len(roots) > LISTED else "")
    warnings.warn(
        f"{hierarchy.name} has {len(roots)} roots ({named}): they are taken as kinds below one.",
        Assumption,
        stacklevel=4,
    )
    pairs = [(parent, child) for child, above in hierarchy.parents.items() for parent in above]
    return Hierarchy([(TOP, root) for root in roots] + pairs, name=hierarchy.name)


def _turned(hierarchy: Hierarchy, class_names: Names) -> Hierarchy:
    """The hierarchy; upside down if all classes are its roots and every node has one child: then the child came first.

    Several of what is then on top get a root above them.
    """
    below: dict[str, list[str]] = {}
    for child, above in hierarchy.parents.items():
        for parent in above:
            below.setdefault(parent, []).append(child)
    classes = [name if isinstance(name, str) else name[0] for name in class_names]
    is_root = (name in below and not hierarchy.parents[name] for name in classes)
    if not all(is_root) or any(len(children) > 1 for children in below.values()):
        return hierarchy
    first = classes[0]
    warnings.warn(
        f"{hierarchy.name} is read with the child first: {first!r} is below {below[first][0]!r}.",
        Assumption,
        stacklevel=4,
    )
    tops = [node for node in hierarchy.parents if node not in below]
    pairs = [(children[0], child) for child, children in below.items()]
    return Hierarchy([(TOP, top) for top in tops if len(tops) > 1] + pairs, name=hierarchy.name)


def classes_in(hierarchy: Hierarchy) -> list[str]:
    """The classes of a tree that nobody named: its leaves, or its roots if plainly the child came first in each line.

    It did if no node has two children and some have several parents, which no tree has; see ``_turned``.
    """
    above = [parent for parents in hierarchy.parents.values() for parent in parents]
    if len(set(above)) < len(above) or max(map(len, hierarchy.parents.values())) < 2:
        return hierarchy.leaves
    return [node for node, parents in hierarchy.parents.items() if not parents]


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
    cells = _first_lines(path)
    if len(cells) < 2 or any(len(line) != 2 for line in cells[:-1]):  # the last line may be cut off
        return False
    is_header = {cell.strip().lower() for cell in cells[0]} == {"parent", "child"}
    return is_header or not any(checks.is_number(cell) for line in cells[1:] for cell in line)


def holds_samples(path: str | Path) -> bool:
    """Whether separated values hold labelled texts or images, by their header: neither a tree nor a matrix."""
    head = _first_lines(path)[:1] if tables.form_of(path) in ("csv", "tsv") else []
    return any(roles.find(row, "label") and (roles.find(row, "text") or roles.find(row, "image")) for row in head)


def _first_lines(path: str | Path) -> list[list[str]]:
    """The cells of the first twenty lines of separated values."""
    with files.reading(path, "CSV"), files.open_file(path) as file:
        start = file.read(2**16)
    lines = [line for line in start.decode(tables.encoding_of(start), "replace").splitlines() if line.strip()]
    return tables.split_lines(lines[:20])


def _headed(lines: Sequence[tuple[int, list[str]]], path: Path) -> tuple[int, int] | None:
    """Where parent and child are, if the first line, of two cells, is a header that no role knows: both words are
    found nowhere else, and are words for a kind and for what is of that kind. Other words get a note: they may be one.
    """
    head = [roles.plain(cell) for cell in lines[0][1]]
    if len(head) != 2 or len(lines) < 3:
        return None
    if any(roles.plain(cell) in head for _, row in lines[1:] for cell in row):
        return None
    for order in ((0, 1), (1, 0)):
        if head[order[0]] in roles.ABOVE and head[order[1]] in roles.BELOW:
            return order
    above, below = lines[0][1]
    warnings.warn(
        f"{path}: its first line is read as an edge ({below.strip()!r} is below {above.strip()!r}); call its columns "
        "parent and child if it is a header.",
        Assumption,
        stacklevel=6,
    )
    return None


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
    if not has_header and (found := _headed(lines, path)) is not None:
        order, has_header = found, True
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
