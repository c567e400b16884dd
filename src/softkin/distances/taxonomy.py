"""Distances between classes in a taxonomy, by the lowest common ancestor or by the path between them."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.names import did_you_mean
from softkin.distances.words import tokens

TaxonomyMeasure: TypeAlias = Literal["lca", "path", "wu-palmer"]
MEASURES: tuple[str, ...] = get_args(TaxonomyMeasure)

TOP = "(top)"  # the node above all nodes that a nested file names
MOST_NODES = 2**20  # WordNet has 82,115 nouns
SHOWN = 5  # maximum number of names in a message


class Taxonomy:
    """A tree of classes, or a graph in which a node may have several parents but is never its own ancestor.

    Args:
        edges: (parent, child) pairs.
        name: The origin of the pairs, for messages and provenance.

    Example:
        >>> tree = Taxonomy([("animal", "cat"), ("animal", "dog"), ("thing", "animal"), ("thing", "car")])
        >>> tree.leaves
        ['cat', 'dog', 'car']
    """

    def __init__(self, edges: Iterable[tuple[str, str]], *, name: str = "the taxonomy") -> None:
        self.name = name
        self.parents: dict[str, list[str]] = {}
        """The parents of each node; a root has none"""
        for place, edge in enumerate(edges):
            if isinstance(edge, str) or len(edge) != 2 or not all(isinstance(end, str) and end.strip() for end in edge):
                raise ValueError(f"`edges` must be pairs of texts (parent, child), got {edge!r} at index {place}.")
            parent, child = (end.strip() for end in edge)
            self.parents.setdefault(parent, [])
            above = self.parents.setdefault(child, [])
            if parent not in above:
                above.append(parent)
            if len(self.parents) > MOST_NODES:
                raise SoftkinError(f"{name} must have at most {MOST_NODES:,} nodes, and has more.")
        if not self.parents:
            raise SoftkinError(f"{name} must hold (parent, child) edges, and holds none.")
        self._refuse_cycles()

    @property
    def leaves(self) -> list[str]:
        """The nodes without children, in the order in which they were named."""
        inner = {parent for above in self.parents.values() for parent in above}
        return [node for node in self.parents if node not in inner]

    def _refuse_cycles(self) -> None:
        done: set[str] = set()
        for start in self.parents:
            path: list[str] = []  # from a node to its ancestors
            on_path: set[str] = set()
            stack: list[tuple[str, int]] = [(start, 0)] if start not in done else []
            while stack:
                node, place = stack.pop()
                if place == 0:
                    path.append(node)
                    on_path.add(node)
                if place < len(self.parents[node]):
                    stack.append((node, place + 1))
                    parent = self.parents[node][place]
                    if parent in on_path:
                        cycle = [*path[path.index(parent) :], parent]
                        raise SoftkinError(
                            f"{self.name} must have no cycle, but {' is below '.join(map(repr, cycle[:8]))}"
                            f"{' …' if len(cycle) > 8 else ''}."
                        )
                    if parent not in done:
                        stack.append((parent, 0))
                else:
                    on_path.discard(path.pop())
                    done.add(node)

    def ancestors(self, node: str) -> dict[str, int]:
        """The node and all its ancestors, each with the fewest steps up to it."""
        steps = {node: 0}
        queue = deque([node])
        while queue:
            current = queue.popleft()
            for parent in self.parents[current]:
                if parent not in steps:
                    steps[parent] = steps[current] + 1
                    queue.append(parent)
        return steps

    def places(self, class_names: Sequence[str | Sequence[str]]) -> list[str]:
        """The node of each class: one of the same name, or else of the same words ("sweet pepper", "sweet_pepper")."""
        by_words: dict[str, list[str]] = {}
        for node in self.parents:
            by_words.setdefault(" ".join(tokens(node)), []).append(node)
        nodes: list[str] = []
        missing: list[str] = []
        for entry in class_names:
            synonyms = [entry] if isinstance(entry, str) else list(entry)
            known = [name for name in synonyms if name in self.parents]
            known += [alike[0] for name in synonyms if len(alike := by_words.get(" ".join(tokens(name)), [])) == 1]
            if known:
                nodes.append(known[0])
            else:
                missing.append(synonyms[0])
        if missing:
            raise SoftkinError(
                f"{self.name} must reach every class, but {_listed(missing)} "
                f"{'are' if len(missing) > 1 else 'is'} not in it"
                + did_you_mean(missing[0], self.parents, otherwise=": are these its class names?")
            )
        twice = next((node for node in nodes if nodes.count(node) > 1), None) if len(set(nodes)) < len(nodes) else None
        if twice is not None:
            names = [str(class_names[k]) for k in range(len(nodes)) if nodes[k] == twice]
            raise SoftkinError(f"{self.name} must have a node for each class, but {_listed(names)} share {twice!r}.")
        return nodes

    def rows(
        self, class_names: Sequence[str | Sequence[str]], measure: TaxonomyMeasure = "lca"
    ) -> Callable[[Tensor], Tensor]:
        """A function from class numbers (r,) to distances (r, K) for ``similarity.from_blocks``; K×K is not built."""
        if measure not in MEASURES:
            checks.option(measure, "measure", MEASURES)
        lines = _Lines(self, self.places(class_names))
        line = {"lca": lines.lca, "path": lines.path, "wu-palmer": lines.wu_palmer}[measure]
        return lambda own: torch.from_numpy(np.stack([line(k) for k in own.tolist()]))


class _Lines:
    """The part of a taxonomy above the given classes, by number, prepared for rows of distances."""

    def __init__(self, taxonomy: Taxonomy, nodes: list[str]) -> None:
        if len(nodes) < 2:
            raise ValueError(f"`class_names` must name at least 2 classes, got {len(nodes)}.")
        above = [taxonomy.ancestors(node) for node in nodes]
        common = set(above[0]).intersection(*above[1:])
        if not common:
            self._refuse_roots(taxonomy, nodes, above)
        kept = {node for steps in above for node in steps}
        self.number = len(nodes)
        self.steps = above
        below: dict[str, list[int]] = {}
        distance: dict[str, list[int]] = {}
        for k, steps in enumerate(above):
            for node, count in steps.items():
                below.setdefault(node, []).append(k)
                distance.setdefault(node, []).append(count)
        self.below = {node: np.array(classes) for node, classes in below.items()}
        self.down = {node: np.array(counts) for node, counts in distance.items()}
        order = _downwards(taxonomy, kept)
        self.least_depth: dict[str, int] = {}
        self.most_depth: dict[str, int] = {}
        for node in order:
            parents = taxonomy.parents[node]
            self.least_depth[node] = 1 + min((self.least_depth[parent] for parent in parents), default=0)
            self.most_depth[node] = 1 + max((self.most_depth[parent] for parent in parents), default=0)
        self.height = dict.fromkeys(order, 0)
        for node in reversed(order):
            for parent in taxonomy.parents[node]:
                self.height[parent] = max(self.height[parent], self.height[node] + 1)
        self.highest = max(self.height.values())

    @staticmethod
    def _refuse_roots(taxonomy: Taxonomy, nodes: list[str], above: list[dict[str, int]]) -> None:
        roots: dict[str, str] = {}
        for node, steps in zip(nodes, above, strict=True):
            for root in (name for name in steps if not taxonomy.parents[name]):
                roots.setdefault(root, node)
        listed = ", ".join(f"{root!r} above {node!r}" for root, node in list(roots.items())[:SHOWN])
        raise SoftkinError(
            f"{taxonomy.name} must have one root above all classes, but has {len(roots)}: {listed}; "
            "add edges from a common node to them."
        )

    def lca(self, own: int) -> NDArray[np.float64]:
        line = np.zeros(self.number)
        for node in sorted(self.steps[own], key=lambda name: -self.height[name]):  # lower nodes overwrite higher ones
            line[self.below[node]] = self.height[node] / self.highest
        line[own] = 0
        return line

    def path(self, own: int) -> NDArray[np.float64]:
        line = np.full(self.number, np.inf)
        for node, steps in self.steps[own].items():
            classes = self.below[node]
            line[classes] = np.minimum(line[classes], steps + self.down[node])
        return line

    def wu_palmer(self, own: int) -> NDArray[np.float64]:
        line, deepest = np.zeros(self.number), np.zeros(self.number)
        for node, steps in self.steps[own].items():
            classes, depth = self.below[node], self.most_depth[node]
            alike = 2 * depth / (steps + self.down[node] + 2 * depth)
            least = self.least_depth[node]
            better = (least > deepest[classes]) | ((least == deepest[classes]) & (alike > line[classes]))
            line[classes[better]], deepest[classes[better]] = alike[better], least
        line = 1 - line
        line[own] = 0
        return line


def _downwards(taxonomy: Taxonomy, kept: set[str]) -> list[str]:
    """The nodes in topological order, each after its parents."""
    waiting = {node: len(taxonomy.parents[node]) for node in kept}
    children: dict[str, list[str]] = {}
    for node in kept:
        for parent in taxonomy.parents[node]:
            children.setdefault(parent, []).append(node)
    order = [node for node, count in waiting.items() if count == 0]
    for node in order:  # the list grows during the loop
        for child in children.get(node, ()):
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order


Edges: TypeAlias = Taxonomy | Iterable[tuple[str, str]] | str | Path
"""A taxonomy, pairs of parent and child, or the name of their file"""


def from_taxonomy(
    edges: Edges,
    class_names: Sequence[str | Sequence[str]],
    measure: TaxonomyMeasure = "lca",
    *,
    aliases: Mapping[str, str] | None = None,
) -> Tensor:
    r"""Distances between classes in a taxonomy.

    - "lca": the height of the lowest node above both, as a share of the root's. The height of a node is the longest
      path down to a class.
    - "path": the fewest edges from one class to the other, up and down again.
    - "wu-palmer": :math:`1 - 2 t_c / (t_c + a + t_c + b)`, with c the deepest node above both, :math:`t_c` its depth
      (the root has 1) and a, b the steps from the two classes up to it.

    Only nodes above the classes count. A node may have several parents, as in WordNet.

    Args:
        edges: (parent, child) pairs, a ``Taxonomy``, or the path of a file: a CSV or text of such pairs, nested JSON or
            YAML, or "FILE.parquet:COLUMN" for a column of superclasses beside the labels. "wordnet" stands for WordNet,
            which looks up names as wnid ("n02124075"), sense ("crane.n.05") or lemma (the first sense that is not a
            proper name); "wordnet:FOLDER" reads its files from another folder.
        class_names: K names; each is a text, or a list of synonyms; the first one in the taxonomy is used.
        measure: "lca", "path" or "wu-palmer".
        aliases: Replacements for names in look-ups, such as {"crane": "crane.n.05"}.

    Returns:
        D, symmetric with zeros on the diagonal.

    Raises:
        SoftkinError: A class is not in the taxonomy, or the taxonomy has two roots or a cycle.

    Example:
        >>> tree = [("animal", "cat"), ("animal", "dog"), ("thing", "animal"), ("thing", "car")]
        >>> from_taxonomy(tree, ["cat", "dog", "car"])
        tensor([[0.0000, 0.5000, 1.0000],
                [0.5000, 0.0000, 1.0000],
                [1.0000, 1.0000, 0.0000]], dtype=torch.float64)

    References:
        Bertinetto et al., Making Better Mistakes, 2020 (lca); Wu and Palmer, Verb Semantics and Selection, 1994.
    """
    checks.option(measure, "measure", MEASURES)
    checks.in_order(class_names)
    names = aliased(class_names, aliases)
    taxonomy = opened_taxonomy(edges, names)
    if isinstance(taxonomy, tuple):  # WordNet already knows the nodes of the names
        taxonomy, names = taxonomy
    return taxonomy.rows(names, measure)(torch.arange(len(names)))


def aliased(class_names: Sequence[str | Sequence[str]], aliases: Mapping[str, str] | None) -> list[str | Sequence[str]]:
    """The class names after replacing those that have an alias."""
    lower = {key.lower(): value for key, value in (aliases or {}).items()}

    def looked_up(entry: str | Sequence[str]) -> str | Sequence[str]:
        names = [entry] if isinstance(entry, str) else list(entry)
        return next((lower[name.lower()] for name in names if name.lower() in lower), entry)

    return [looked_up(entry) for entry in class_names]


def opened_taxonomy(
    edges: Edges, class_names: Sequence[str | Sequence[str]]
) -> "Taxonomy | tuple[Taxonomy, list[str | Sequence[str]]]":
    """The taxonomy that ``edges`` stands for; for WordNet, the part above the classes and their nodes."""
    if isinstance(edges, Taxonomy):
        return edges
    if not isinstance(edges, str | Path):
        return Taxonomy(edges)
    name, _, folder = str(edges).partition(":")
    if name == "wordnet":
        from softkin.distances.wordnet import WordNet

        return WordNet(folder or None).above(class_names)
    from softkin.distances.taxonomy_files import read_taxonomy

    return read_taxonomy(edges)


def from_superclasses(superclasses: Sequence[str | int], *, name: str = "the superclasses") -> Taxonomy:
    """The two-level taxonomy of classes "0" … "K−1" below their superclasses.

    Args:
        superclasses: K names or numbers, one for each class.
        name: The origin of the superclasses, for messages.
    """
    return Taxonomy(
        [
            edge
            for k, group in enumerate(superclasses)
            for edge in ((TOP, f"superclass {group}"), (f"superclass {group}", str(k)))
        ],
        name=name,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:SHOWN]) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )
