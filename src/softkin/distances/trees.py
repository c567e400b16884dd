"""Hierarchies of names, and the tree of ever wider kinds of classes from which ``decisions.Climb`` answers."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import torch
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.checks import Array
from softkin._core.names import did_you_mean
from softkin.distances.words import tokens

TOP = "(top)"  # the node above all nodes that a file names
EVERYTHING = "everything"
MOST_NODES = 2**20  # WordNet has 82,115 nouns
LISTED = 5  # maximum number of names in a message
SHOWN = 3  # classes that describe a node without a name


class Hierarchy:
    """What lies below what, by name: a tree, or a graph in which a node may have several parents.

    This is what pairs or a file say before the classes are known. With the classes it gives distances
    (``from_taxonomy``) or, if each node has one parent, a ``Tree``.

    Args:
        edges: (parent, child) pairs.
        name: The origin of the pairs, for messages and provenance.

    Example:
        >>> kinds = Hierarchy([("animal", "cat"), ("animal", "dog"), ("thing", "animal"), ("thing", "car")])
        >>> kinds.leaves
        ['cat', 'dog', 'car']
    """

    def __init__(self, edges: Iterable[tuple[str, str]], *, name: str = "the taxonomy") -> None:
        self.name = name
        self.parents: dict[str, list[str]] = {}
        """The parents of each node; a root has none"""
        for place, edge in enumerate(edges):
            if isinstance(edge, str) or len(edge) != 2 or not all(isinstance(end, str) and end.strip() for end in edge):
                raise TypeError(f"`edges` must be (parent, child) pairs of names, got {edge!r} at index {place}.")
            parent, child = (end.strip() for end in edge)
            self.parents.setdefault(parent, [])
            above = self.parents.setdefault(child, [])
            if parent not in above:
                above.append(parent)
            if len(self.parents) > MOST_NODES:
                raise SoftkinError(f"{name} must have at most {MOST_NODES:,} nodes, and has more.")
        if not self.parents:
            raise SoftkinError(f"{name} must hold (parent, child) edges, and holds none.")
        _ = self.order  # refuses cycles

    @property
    def leaves(self) -> list[str]:
        """The nodes without children, in the order in which they were named."""
        inner = {parent for above in self.parents.values() for parent in above}
        return [node for node in self.parents if node not in inner]

    @cached_property
    def order(self) -> list[str]:
        """All nodes, each after its parents.

        Raises:
            SoftkinError: A node lies below itself.
        """
        try:
            return list(TopologicalSorter(self.parents).static_order())
        except CycleError as error:
            circle = error.args[1][:0:-1]  # each below the next
            first = min(range(len(circle)), key=lambda place: list(self.parents).index(circle[place]))
            shown = [*circle[first:], *circle[:first], circle[first]]
            raise SoftkinError(
                f"{self.name} must have no cycle, but {' is below '.join(map(repr, shown[:8]))}"
                f"{' …' if len(shown) > 8 else ''}."
            ) from None

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

    def chain(self, node: str) -> list[str]:
        """The ancestors of a node, the nearest first; each node must have one parent at most."""
        above = []
        while parents := self.parents[node]:
            if len(parents) > 1:
                raise SoftkinError(
                    f"{self.name} must give each node one parent, but {node!r} lies below {parents[0]!r} and "
                    f"{parents[1]!r}."
                )
            node = parents[0]
            above.append(node)
        return above

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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:LISTED]) + (
        f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    )


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree in which nodes 0 … K−1 are the classes and the others are kinds; the root holds all classes.

    No two nodes hold the same classes: only the lowest node of a chain is kept.

    Example:
        >>> tree = Tree.from_superclasses([0, 0, 1], class_names=["cat", "dog", "rose"], names=["animal", "flower"])
        >>> tree.names
        ('cat', 'dog', 'rose', 'animal', 'everything')
        >>> [tree.names[node] for node in tree.ancestors(0)]
        ['animal', 'everything']
    """

    parents: tuple[int, ...]
    """The parent of each node; −1 for the root"""
    names: tuple[str, ...]
    num_classes: int

    def __post_init__(self) -> None:
        k, parents = self.num_classes, self.parents
        if len(self.names) != len(parents) or k < 2 or len(parents) <= k:
            raise ValueError("a tree must have at least 2 classes, a root, and a name for each node.")
        if [place for place, parent in enumerate(parents) if parent == -1] != [len(parents) - 1]:
            raise ValueError("a tree must have one root, its last node.")
        if any(not k <= parent < len(parents) for parent in parents[:-1]):
            raise ValueError("the nodes of a tree must lie below kinds, and not below classes.")
        if any(parent <= place for place, parent in enumerate(parents[:-1])):
            raise ValueError("the nodes of a tree must come before those that they lie below.")

    def __len__(self) -> int:
        return len(self.parents)

    def __repr__(self) -> str:
        return f"Tree({self.num_classes} classes, {len(self) - self.num_classes} kinds)"

    def in_order(self, class_names: Sequence[str]) -> "Tree":
        """The same tree with its classes in the order of these names, which must be its own.

        Example:
            >>> Tree.from_superclasses([0, 0, 1], class_names=["cat", "dog", "rose"]).in_order(["rose", "dog", "cat"])
            Tree(3 classes, 2 kinds)
        """
        k = self.num_classes
        place = {name: number for number, name in enumerate(self.names[:k])}
        if len(place) < k or sorted(place) != sorted(class_names):
            raise ValueError("`class_names` must be the names of the tree's classes, in any order.")
        moved = [place[name] for name in class_names]
        parents = [self.parents[old] for old in moved]
        return Tree((*parents, *self.parents[k:]), (*class_names, *self.names[k:]), k)

    @property
    def root(self) -> int:
        """The root, which holds all classes."""
        return len(self.parents) - 1

    def ancestors(self, node: int) -> list[int]:
        """The nodes above ``node``, the nearest first, the root last."""
        above = []
        while (node := self.parents[node]) >= 0:
            above.append(node)
        return above

    @cached_property
    def leaves(self) -> Tensor:
        """(nodes,) number of classes of each node."""
        count = [1] * self.num_classes + [0] * (len(self) - self.num_classes)
        for node, parent in enumerate(self.parents[:-1]):
            count[parent] += count[node]
        return torch.tensor(count)

    @cached_property
    def heights(self) -> Tensor:
        """(nodes,) steps down to the furthest class; 0 for a class."""
        height = [0] * len(self)
        for node, parent in enumerate(self.parents[:-1]):
            height[parent] = max(height[parent], height[node] + 1)
        return torch.tensor(height)

    @cached_property
    def members(self) -> Tensor:
        """(nodes, K) whether each node holds each class."""
        inside = torch.zeros(len(self), self.num_classes, dtype=torch.bool)
        inside[: self.num_classes] = torch.eye(self.num_classes, dtype=torch.bool)
        for node, parent in enumerate(self.parents[:-1]):
            inside[parent] |= inside[node]
        return inside

    @cached_property
    def paths(self) -> Tensor:
        """(K, H) each class and its ancestors without the root, padded by repeating the last."""
        lines = [[k, *self.ancestors(k)[:-1]] for k in range(self.num_classes)]
        most = max(map(len, lines))
        return torch.tensor([line + [line[-1]] * (most - len(line)) for line in lines])

    @cached_property
    def spans(self) -> tuple[Tensor, Tensor, Tensor]:
        """(order (K,), first (nodes,), end (nodes,)): node v holds the classes ``order[first[v]:end[v]]``."""
        children: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents[:-1]):
            children[parent].append(node)
        order: list[int] = []
        first, end = [0] * len(self), [0] * len(self)
        stack = [(self.root, False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                end[node] = len(order)
                continue
            first[node] = len(order)
            if node < self.num_classes:
                order.append(node)
                end[node] = len(order)
            else:
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(children[node]))
        return torch.tensor(order), torch.tensor(first), torch.tensor(end)

    # Construction

    @classmethod
    def flat(cls, num_classes: int, *, class_names: Sequence[str] | None = None) -> "Tree":
        """A tree without kinds, with which ``Climb`` answers or abstains."""
        names = _class_names(class_names, checks.count(num_classes, "num_classes", least=2))
        return _assembled([[k] for k in range(len(names))], names, {})

    @classmethod
    def from_superclasses(
        cls,
        superclasses: Array | Sequence[int] | Mapping[str, str],
        *,
        class_names: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
    ) -> "Tree":
        """A tree with two levels: classes and super-classes.

        Args:
            superclasses: (K,) super-class 0 … G−1 of each class, or a mapping from class names to super-class names.
            class_names: The K names; required with a mapping.
            names: The G names of the super-classes.
        """
        if isinstance(superclasses, Mapping):
            if class_names is None:
                raise ValueError("`class_names` must be given with a mapping, in the order of the labels.")
            lost = [name for name in class_names if name not in superclasses]
            if lost:
                raise ValueError(f"`superclasses` must have every class, but {lost[0]!r} is not among them.")
            return cls.from_edges([(superclasses[name], name) for name in class_names], class_names)
        g = checks.as_tensor(superclasses, "superclasses")
        numbers = checks.group_numbers(g, len(g) if g.ndim == 1 else -1, "superclasses")
        known = _class_names(class_names, len(numbers))
        count = int(numbers.max()) + 1
        if names is not None and len(names) != count:
            raise ValueError(f"`names` must name each of the {count} super-classes, got {len(names)}.")
        groups = [(numbers == place).nonzero()[:, 0].tolist() for place in range(count)]
        titles = {frozenset(group): names[place] for place, group in enumerate(groups)} if names is not None else {}
        return _assembled([[k] for k in range(len(known))] + groups, known, titles)

    @classmethod
    def from_edges(
        cls,
        edges: Hierarchy | Iterable[tuple[str, str]],
        class_names: Sequence[str],
        *,
        nodes: Sequence[str | Sequence[str]] | None = None,
    ) -> "Tree":
        """A tree from (parent, child) pairs or a hierarchy; branches without a class are left out.

        A class with other classes below it stays a class, and a kind of the same name holds it and them.

        Args:
            edges: (parent, child) pairs of names, or what ``read_tree`` makes of a file.
            class_names: The classes, in the order of the labels; each must be in the tree.
            nodes: The name of each class in the tree, or its synonyms, if it is another one.
        """
        names = checks.class_names(class_names)
        if not isinstance(edges, Hierarchy):
            try:
                return cls.from_edges(Hierarchy(edges, name="`edges`"), names, nodes=nodes)
            except SoftkinError as error:
                raise ValueError(str(error)) from error
        held: dict[str, set[int]] = {}
        order: dict[str, int] = {}
        for k, node in enumerate(edges.places(names if nodes is None else nodes)):
            for steps, above in enumerate([node, *edges.chain(node)]):
                held.setdefault(above, set()).add(k)
                order[above] = max(order.get(above, 0), steps)
        titles: dict[frozenset[int], str] = {}
        for node in sorted(held, key=order.__getitem__):  # the lowest of equal sets gives its name
            if len(held[node]) > 1 and node != TOP:
                titles.setdefault(frozenset(held[node]), node)
        groups = [sorted(group) for group in titles]
        return _assembled([[k] for k in range(len(names))] + groups, names, titles)

    @classmethod
    def from_distances(
        cls, distances: Array, *, class_names: Sequence[str] | None = None, method: str = "average"
    ) -> "Tree":
        """The dendrogram of class distances, made by repeatedly joining the two nearest groups.

        With ``distances.from_words(class_names)`` the tree follows from the names alone.

        Args:
            distances: (K, K), symmetric.
            class_names: The K names.
            method: The distance of two groups in terms of their classes': "average", "complete" or "single".
        """
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

        checks.option(method, "method", ("average", "complete", "single"))
        d = checks.square(distances, "distances", without_diagonal=True)
        checks.symmetric(d, "distances")
        names = _class_names(class_names, len(d))
        groups = [[k] for k in range(len(d))]
        for a, b, *_ in linkage(squareform(((d + d.T) / 2).numpy(), checks=False), method).tolist():
            groups.append(sorted(groups[int(a)] + groups[int(b)]))
        return _assembled(groups, names, {})


def _class_names(names: Sequence[str] | None, num_classes: int) -> list[str]:
    return [str(k) for k in range(num_classes)] if names is None else checks.class_names(names, num_classes=num_classes)


def _assembled(groups: list[list[int]], names: list[str], titles: Mapping[frozenset[int], str]) -> Tree:
    """The tree of nested sets of classes; the first K sets are the classes themselves."""
    k = len(names)
    wider = {frozenset(group) for group in groups[k:] if 1 < len(group) < k}
    kinds = sorted(wider, key=lambda group: (len(group), min(group)))
    kinds.append(frozenset(range(k)))
    smallest = list(range(k))  # the topmost node so far that holds each class
    parents = [-1] * (k + len(kinds))
    for place, kind in enumerate(kinds, start=k):
        for below in {smallest[member] for member in kind}:
            parents[below] = place
        for member in kind:
            smallest[member] = place
    called = [titles.get(kind) or _name_of(kind, names) for kind in kinds[:-1]]
    called.append(titles.get(kinds[-1]) or EVERYTHING)
    return Tree(tuple(parents), (*names, *called), k)


def _name_of(kind: frozenset[int], names: Sequence[str]) -> str:
    shown = [names[member] for member in sorted(kind)]
    if len(shown) <= SHOWN:
        return ", ".join(shown[:-1]) + f" or {shown[-1]}"
    return f"{', '.join(shown[:SHOWN])} or {len(shown) - SHOWN} more"
