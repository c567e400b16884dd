"""Class matrices on disk keep their names."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from softkin import SoftkinError, distances, similarity, smoothing
from softkin._io import files, matrices

NAMES = ["ant", "bee", "cat"]
D = torch.tensor([[1.0, 2.0, 3.0], [2.0, 0.0, 4.0], [3.0, 4.0, 0.5]], dtype=torch.float64)


def test_what_is_saved_comes_back(tmp_path):
    path = tmp_path / "new" / "d.safetensors"
    distances.save(path, D, class_names=NAMES, source="pixels, L1")
    assert torch.equal(distances.load(path, class_names=NAMES), D)
    loaded = distances.read(path)
    assert (loaded.class_names, loaded.kind, loaded.source) == (NAMES, "distances", "pixels, L1")
    assert [entry.name for entry in path.parent.iterdir()] == ["d.safetensors"]  # no temporary file is left
    distances.save(tmp_path / "again.safetensors", D.numpy(), class_names=NAMES, source="pixels, L1")
    assert path.read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_another_order_is_reordered_by_name(tmp_path):
    path = tmp_path / "d.safetensors"
    distances.save(path, D, class_names=NAMES, source="toy")
    loaded = distances.load(path, class_names=["cat", "ant", "bee"])
    expected = torch.tensor([[0.5, 3.0, 4.0], [3.0, 1.0, 2.0], [4.0, 2.0, 0.0]], dtype=torch.float64)
    assert torch.equal(loaded, expected)


def test_other_classes_are_refused_by_name(tmp_path):
    path = tmp_path / "d.safetensors"
    distances.save(path, D, class_names=NAMES, source="toy")
    with pytest.raises(SoftkinError, match="other classes: it lacks 'dog'; it also has 'cat'"):
        distances.load(path, class_names=["ant", "bee", "dog"])
    with pytest.raises(SoftkinError, match="other classes: it also has 'cat'"):
        distances.load(path, class_names=["ant", "bee"])
    with pytest.raises(SoftkinError, match="it lacks 'e', 'f', 'g', 'h', 'i' and 1 more"):
        distances.load(path, class_names=[*NAMES, *"efghij"])
    with pytest.raises(ValueError, match="must differ"):
        distances.load(path, class_names=["ant", "ant", "bee"])


def test_the_kinds_do_not_mix(tmp_path):
    S = similarity.from_distances(D)
    Q = smoothing.similarity_labels(S, 0.1)
    similarity.save(tmp_path / "s.safetensors", S, class_names=NAMES, source="words")
    smoothing.save(tmp_path / "q.safetensors", Q, class_names=NAMES, source="toy")
    assert torch.equal(similarity.load(tmp_path / "s.safetensors", class_names=NAMES), S)
    assert torch.equal(smoothing.load(tmp_path / "q.safetensors", class_names=NAMES), Q)
    assert similarity.read(tmp_path / "s.safetensors").source == "words"
    assert smoothing.read(tmp_path / "q.safetensors").class_names == NAMES
    with pytest.raises(SoftkinError, match=r"holds labels, not distances; load it with softkin\.smoothing\.load"):
        distances.load(tmp_path / "q.safetensors", class_names=NAMES)


def test_csv(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(matrices.to_csv(D, ['a "b"', "c,d", "é"], kind="distances"), encoding="utf-8")
    assert torch.equal(distances.load(path, class_names=['a "b"', "c,d", "é"]), D)
    path.write_text("ant,bee,cat\n1,2,3\n2,0,4\n3,4,0.5\n")  # without a column of names
    assert torch.equal(distances.load(path, class_names=NAMES), D)
    for text, words in (
        ("0,1,2\n1,0,3\n2,3,0\n", "must begin with a header of class names, but its first line holds numbers"),
        ("labels,ant,bee\nant,0,1\nbee,1,0\n", "holds labels, not distances"),
        ("ant,bee\n1,2\n2\n", "line 3 must hold 2 numbers, one for each class, got 1"),
        ("ant,bee\n1,x\n2,0\n", "must hold numbers below its header: could not convert string to float: 'x'"),
        (",ant,bee\nant,1,2\ncat,2,0\n", "must name its rows and columns alike"),
        ("ant,bee\n", "a header of class names and a row for each class, got 1 lines"),
        ("ant,bee,cat,dog\n1,2,3,4\n2,0,4,4\n", "must be a square"),
        ("ant,ant\n1,2\n2,0\n", "must differ, but 'ant'"),
        ("ant,bee\n0,-2\n-2,0\n", "must not be negative, got -2"),
        ("ant,bee\n0,nan\nnan,0\n", "must be finite"),
    ):
        path.write_text(text)
        with pytest.raises(SoftkinError, match=words):
            distances.read(path)


def test_files_that_are_no_matrix(tmp_path):
    with pytest.raises(SoftkinError, match="there is no such file"):
        distances.read(tmp_path / "absent.safetensors")
    path = tmp_path / "d.safetensors"
    distances.save(path, D, class_names=NAMES, source="toy")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(SoftkinError, match="could not be read as a class matrix that softkin wrote, or it is damaged"):
        distances.read(path)
    save_file({"weights": torch.zeros(3)}, path)
    with pytest.raises(SoftkinError, match="could not be read as a class matrix that softkin wrote"):
        distances.read(path)
    path.write_bytes(b"\x80\x04cos\nsystem\n")  # the start of a pickle
    with pytest.raises(SoftkinError, match="could not be read as a class matrix that softkin wrote"):
        distances.read(path)


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.safetensors.*got 'd\.npy'"):
        distances.save(tmp_path / "d.npy", D, class_names=NAMES, source="toy")
    with pytest.raises(ValueError, match="2 names for 3 classes"):
        distances.save(tmp_path / "d.safetensors", D, class_names=NAMES[:2], source="toy")
    with pytest.raises(ValueError, match="square"):
        distances.save(tmp_path / "d.safetensors", np.zeros((2, 3)), class_names=NAMES, source="toy")
    with pytest.raises(ValueError, match="`source` must say what the matrix was made from"):
        distances.save(tmp_path / "d.safetensors", D, class_names=NAMES, source=" ")
    (tmp_path / "file").write_text("")
    with pytest.raises(SoftkinError, match="could not be written"):
        distances.save(tmp_path / "file" / "d.safetensors", D, class_names=NAMES, source="toy")
    assert not list(tmp_path.glob("*.safetensors"))


def contents(scale):
    S = similarity.from_distances(scale * D)
    return matrices.together(
        {
            "distances": matrices.ClassMatrix(scale * D, NAMES, "distances", "toy"),
            "similarity": matrices.ClassMatrix(S, NAMES, "similarity", "toy; beta=2"),
            "labels": matrices.ClassMatrix(smoothing.similarity_labels(S, scale / 10), NAMES, "labels", "toy"),
        }
    )


def put(folder, scale):
    files.write_together({folder / name: content for name, content in contents(scale).items()})


def test_a_folder_of_matrices_that_were_written_together_is_read_as_one(tmp_path):
    put(tmp_path / "m", 1.0)
    assert similarity.read_together(tmp_path / "m")["distances"].about == {}
    assert torch.equal(distances.load(tmp_path / "m", class_names=NAMES), D)
    assert torch.equal(
        smoothing.load(tmp_path / "m", class_names=NAMES),
        smoothing.load(tmp_path / "m" / "labels.safetensors", class_names=NAMES),
    )
    assert distances.read_file(tmp_path / "m", NAMES, NAMES).kind == "distances"
    assert contents(1.0) == {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}


def test_matrices_of_two_writers_are_refused_together_but_not_one_by_one(tmp_path):
    put(tmp_path / "m", 1.0)
    put(tmp_path / "other", 2.0)
    (tmp_path / "other" / "labels.safetensors").replace(tmp_path / "m" / "labels.safetensors")
    with pytest.raises(SoftkinError, match=r"m holds the files of two runs: labels\.safetensors was not written with"):
        similarity.load(tmp_path / "m", class_names=NAMES)
    assert similarity.read(tmp_path / "m" / "similarity.safetensors").class_names == NAMES
    with pytest.raises(SoftkinError, match=r"could not be read: there is no distances\.safetensors in it"):
        distances.load(tmp_path, class_names=NAMES)


def test_the_table_of_labels_is_read_with_its_folder_or_refused(tmp_path):
    put(tmp_path / "m", 1.0)
    put(tmp_path / "other", 2.0)
    table = matrices.read_any(tmp_path / "m" / "labels.csv")
    mark = smoothing.read(tmp_path / "m" / "labels.safetensors").together
    assert (table.kind, table.together) == ("labels", mark)
    assert torch.equal(table.values, smoothing.load(tmp_path / "m", class_names=NAMES))
    mine = (tmp_path / "m" / "labels.csv").read_text()
    (tmp_path / "other" / "labels.csv").replace(tmp_path / "m" / "labels.csv")
    with pytest.raises(SoftkinError, match=r"m holds the files of two runs: labels\.csv was not written with"):
        similarity.load(tmp_path / "m", class_names=NAMES)
    for unmarked in (mine.replace(f"labels {mark}", "labels"), mine.replace(f"labels {mark}", ""), "owl"):
        (tmp_path / "m" / "labels.csv").write_text(unmarked)  # somebody's own table
        assert similarity.load(tmp_path / "m", class_names=NAMES).shape == (3, 3)
    (tmp_path / "m" / "labels.csv").unlink()
    assert similarity.load(tmp_path / "m", class_names=NAMES).shape == (3, 3)


@pytest.mark.slow
def test_a_reader_of_a_folder_sees_one_writer_or_the_other(tmp_path):
    writer = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[3]); from test_matrices import put\n"
        "put(pathlib.Path(sys.argv[1]), 1.0); print(flush=True)\n"
        "for turn in range(10_000): put(pathlib.Path(sys.argv[1]), 1.0 + (turn + int(sys.argv[2])) % 2)"
    )
    folder = tmp_path / "m"
    tests = str(Path(__file__).parent)
    command = [sys.executable, "-c", writer, str(folder)]
    writers = [subprocess.Popen([*command, turn, tests], stdout=subprocess.PIPE) for turn in "01"]
    try:
        for process in writers:
            assert process.stdout.readline()
        seen = [similarity.read_together(folder) for _ in range(200)]
        assert all(process.poll() is None for process in writers)
    finally:
        for process in writers:
            process.kill()
            process.communicate()
    scales = [
        {float(read["distances"].values[0, 1]) / 2, 10 * (1 - read["labels"].values[0, 0].item())} for read in seen
    ]
    assert {round(min(pair)) for pair in scales} == {1, 2}, "the reader saw both"
    assert all(max(pair) - min(pair) < 1e-6 for pair in scales)


def test_rows_of_a_csv_in_another_order_are_matched_by_name(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(",cat,dog,owl\nowl,3,2,0\ncat,0,1,3\ndog,1,0,2\n")
    with pytest.warns(UserWarning, match="its rows are in another order than its columns; they are matched by name"):
        found = distances.read(path)
    assert found.class_names == ["cat", "dog", "owl"]
    assert found.values.tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    path.write_text(",cat,dog,owl\ncat,0,1,3\ncat,1,0,2\nowl,3,2,0\n")
    with pytest.raises(SoftkinError, match="must name its rows and columns alike, but they differ"):
        distances.read(path)


def test_classes_are_matched_in_any_spelling(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("cat,hot_dog,Owl\n0,1,3\n1,0,2\n3,2,0\n")
    with pytest.warns(UserWarning, match="classes are matched in any spelling"):
        found = distances.load(path, class_names=["owl", "Hot dog", "cat"])
    assert found.tolist() == [[0, 2, 3], [2, 0, 1], [3, 1, 0]]
    with pytest.raises(SoftkinError, match="it lacks 'owl', 'hot dogs'"):
        distances.load(path, class_names=["owl", "hot dogs", "cat"])
