"""Trees in files of all forms."""

import json

import pytest
import torch

from softkin import SoftkinError, distances
from softkin.distances.tree_files import read_tree

TREE = [
    ("thing", "animal"),
    ("thing", "vehicle"),
    ("animal", "cat"),
    ("animal", "dog"),
    ("vehicle", "car"),
    ("vehicle", "van"),
]


def test_files_of_all_forms_say_the_same(tmp_path):
    names = ["cat", "dog", "car", "van"]
    D = distances.from_taxonomy(TREE, names)
    lines = [("parent", "child"), *TREE]
    texts = {
        "t.csv": "\n".join(",".join(line) for line in lines),
        "turned.csv": "\n".join(",".join(line[::-1]) for line in lines),
        "root.csv": "\n".join(",".join(line) for line in [*lines, ("", "thing")]),
        "t.tsv": "\n".join("\t".join(line) for line in TREE),
        "t.txt": "\n".join(" ".join(line) for line in TREE),
        "t.json": json.dumps({"animal": ["cat", {"dog": None}], "vehicle": {"car": {}, "van": []}}),
        "d3.json": json.dumps(
            {
                "name": "thing",
                "children": [
                    {"name": "animal", "children": [{"name": "cat"}, {"name": "dog"}]},
                    {"name": "vehicle", "children": [{"name": "car"}, {"name": "van"}]},
                ],
            }
        ),
        "t.yaml": "animal: [cat, dog]\nvehicle:\n  - car\n  - van\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        torch.testing.assert_close(distances.from_taxonomy(path, names), D, msg=name)
    assert sorted(read_tree(tmp_path / "t.yaml").leaves) == sorted(names)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "a,b\nc\n", "t.csv, line 2 must hold a parent and a child, got 'c'."),
        ("t.csv", "parent,child\na,\n", "t.csv, line 2: the child has no name."),
        ("t.csv", "", "t.csv must hold a parent and a child per line, and is empty."),
        ("t.json", '{"a": [true, ["b"', "t.json could not be read as a taxonomy"),
        ("t.json", "[" * 90 + "]" * 90, "must hold (parent, child) edges"),
        (
            "t.yaml",
            "a: &x [1, 2]\nb: [*x, !!python/object/apply:os.system ['true']]",
            "t.yaml could not be read as YAML",
        ),
        (
            "t.yaml",
            "a: &a [x, x]\n"
            + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)),
            "nested too deeply, or too large",
        ),
        ("t.xml", "<a/>", "t.xml has no known format for a taxonomy"),
    ],
)
def test_bad_files_are_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(SoftkinError) as error:
        distances.from_taxonomy(tmp_path / name, ["a", "b"])
    assert words in str(error.value)


def test_superclasses_from_a_column_of_the_data(shared_data):
    names = json.loads(
        (
            __import__("pyarrow.parquet")
            .parquet.read_schema(shared_data / "cifar100" / "test-00000-of-00001.parquet")
            .metadata
        )[b"huggingface"]
    )["info"]["features"]["fine_label"]["names"]
    path = f"{shared_data / 'cifar100' / 'test-00000-of-00001.parquet'}:coarse_label"
    D = distances.from_taxonomy(path, names)
    apple = names.index("apple")
    near = {names[j] for j in range(100) if j != apple and D[apple, j] < 1}
    assert near == {"mushroom", "orange", "pear", "sweet_pepper"}
    with pytest.raises(SoftkinError, match="must have the column 'coarse'"):
        distances.from_taxonomy(path.replace("coarse_label", "coarse"), names)


def test_superclasses_by_class():
    tree = distances.Tree.from_superclasses([0, 0, 1, 1], class_names=["cat", "dog", "rose", "oak"])
    assert distances.from_taxonomy(tree, ["cat", "dog", "rose"])[0].tolist() == [0, 0.5, 1]
    assert distances.from_taxonomy(tree, ["oak", "cat", "dog", "rose"])[1].tolist() == [1, 0, 0.5, 1]
    with pytest.raises(SoftkinError, match="the tree must reach every class, but 'car' is not in it"):
        distances.from_taxonomy(tree, ["cat", "car"])
