"""Rule files: numbers as safetensors and the rest as readable JSON; nothing in them is ever executed.

A folder holds ``rule.json``, which names a safetensors file by the digest of its content and ends with its own
checksum. Both files are synced before either gets its name, the JSON last, so that a crash at any moment leaves the old
rule or the new one.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softkin import SoftkinError, __version__
from softkin._io import files, tensor_files
from softkin.decisions.base import REGISTRY, Rule
from softkin.decisions.rows import Rows
from softkin.distances.trees import Tree

FORMAT = 1
NAME = "rule.json"
WHAT = "a rule"


def save(rule: Rule, folder: Path) -> None:
    """Write a fitted rule."""
    tensors: dict[str, Tensor] = {}

    def plain(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
        """The values as JSON data; tensors are collected separately under their names."""
        kept = {}
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{prefix}.{name}"] = value.contiguous()
            elif isinstance(value, Tree):
                kept[name] = {"parents": list(value.parents), "names": list(value.names), "classes": value.num_classes}
            else:
                kept[name] = files.plain(value)
        return kept

    about: dict[str, Any] = {
        "format": FORMAT,
        "softkin": __version__,
        "rule": {
            "name": rule.name,
            "options": plain("option", rule.get_params()),
            "values": plain("value", {name: getattr(rule, name) for name in rule._fitted}),
            "num_classes": rule.num_classes_,
            "num_samples": rule.num_samples_,
            "fitted_from": rule.fitted_from_,
            "class_names": rule.class_names_,
            "guarantee": rule.guarantee(),
        },
    }
    if rule.sample_digests_ is not None:
        tensors["sample_digests"] = rule.sample_digests_
    tensor_files.write_described(folder / NAME, about, tensors)


def load(folder: str | Path) -> Rule:
    """Read a rule that ``save`` wrote.

    Raises:
        SoftkinError: There is no rule in the folder, or it is damaged.
    """
    folder = Path(folder)
    path = folder / NAME
    if not path.exists():
        raise SoftkinError(f"{folder} holds no rule: there is no {NAME}.")
    about = files.read_json(path, WHAT)
    with files.reading(path, WHAT):
        if about["format"] != FORMAT:
            raise SoftkinError(f"{path} has format {about['format']}, and this softkin reads {FORMAT}; update softkin.")
        if about.pop("checksum") != files.sha256_of_json(about):
            raise SoftkinError(f"{path} is damaged: its checksum does not fit.")
        return _built(about["rule"], tensor_files.described(path, about, WHAT), path)


def _built(about: dict[str, Any], tensors: dict[str, Tensor], path: Path) -> Rule:
    """The rule, refused unless it can answer a few rows, which shows that its parts fit together."""
    kind = REGISTRY[REGISTRY.canonical(about["name"], "rule")]
    files.within("classes", int(about["num_classes"]), f"{path}: a rule")
    rule = kind(**_values("option", kind.option_names(), about["options"], tensors))
    for name, value in _values("value", kind._fitted, about["values"], tensors).items():
        setattr(rule, name, value)
    rule.num_classes_, rule.num_samples_ = int(about["num_classes"]), int(about["num_samples"])
    rule.fitted_from_, rule.class_names_ = str(about["fitted_from"]), about["class_names"]
    rule.sample_digests_ = tensors.get("sample_digests")
    with torch.no_grad():
        rule._answers(Rows(torch.eye(3, rule.num_classes_, dtype=torch.float64), False))
    return rule


def _values(prefix: str, names: Any, plain: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in names:
        if f"{prefix}.{name}" in tensors:
            values[name] = tensors[f"{prefix}.{name}"]
            continue
        value = plain[name]
        if isinstance(value, dict):
            value = Tree(tuple(value["parents"]), tuple(value["names"]), int(value["classes"]))
        elif value in ("Infinity", "-Infinity"):
            value = files.from_number(value)
        values[name] = value
    return values
