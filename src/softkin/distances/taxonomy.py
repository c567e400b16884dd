"""Distances between classes in a taxonomy, by the lowest common ancestor or by the path between them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softkin import SoftkinError
from softkin._core import checks
from softkin._core.named_labels import in_order
from softkin.distances.tree_files import Edges, open_tree
from softkin.distances.trees import LISTED, Hierarchy

TaxonomyMeasure: TypeAlias = Literal["lca", "path", "wu-palmer"]
MEASURES: tuple[str, ...] = get_args(TaxonomyMeasure)


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
        edges: (parent, child) pairs, a ``Tree``, or the path of a file that ``read_tree`` reads. "wordnet" stands for
            WordNet, which looks up names as wnid ("n02124075"), sense ("crane.n.05") or lemma (the first sense that is
            not a proper name); "wordnet:FOLDER" reads its files from another folder.
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
    return rows(edges, class_names, measure, aliases=aliases)(torch.arange(len(class_names)))


def rows(
    edges: Edges,
    class_names: Sequence[str | Sequence[str]],
    measure: TaxonomyMeasure = "lca",
    *,
    aliases: Mapping[str, str] | None = None,
) -> Callable[[Tensor], Tensor]:
    """``from_taxonomy`` as a function from class numbers (r,) to distances (r, K) for ``similarity.from_blocks``."""
    checks.option(measure, "measure", MEASURES)
    hierarchy, nodes = open_tree(edges, _aliased(in_order(class_names), aliases))
    lines = _Lines(hierarchy, hierarchy.places(nodes))
    line = {"lca": lines.lca, "path": lines.path, "wu-palmer": lines.wu_palmer}[measure]
    return lambda own: torch.from_numpy(np.stack([line(k) for k in own.tolist()]))


def _aliased(
    class_names: Sequence[str | Sequence[str]], aliases: Mapping[str, str] | None
) -> list[str | Sequence[str]]:
    """The class names after replacing those that have an alias."""
    lower = {key.lower(): value for key, value in (aliases or {}).items()}

    def looked_up(entry: str | Sequence[str]) -> str | Sequence[str]:
        names = [entry] if isinstance(entry, str) else list(entry)
        return next((lower[name.lower()] for name in names if name.lower() in lower), entry)

    return [looked_up(entry) for entry in class_names]


class _Lines:
    """The part of a taxonomy above the given classes, by number, prepared for rows of distances."""

    def __init__(self, taxonomy: Hierarchy, nodes: list[str]) -> None:
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
        order = [node for node in taxonomy.order if node in kept]
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
    def _refuse_roots(taxonomy: Hierarchy, nodes: list[str], above: list[dict[str, int]]) -> None:
        roots: dict[str, str] = {}
        for node, steps in zip(nodes, above, strict=True):
            for root in (name for name in steps if not taxonomy.parents[name]):
                roots.setdefault(root, node)
        listed = ", ".join(f"{root!r} above {node!r}" for root, node in list(roots.items())[:LISTED])
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
