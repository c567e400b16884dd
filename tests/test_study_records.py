import json

import pytest

from softkin import SoftkinError
from softkin.study.records import Kept, Records, damage, keep, kept_in
from study_parts import kept


@pytest.fixture
def done(tmp_path):
    records = Records(tmp_path)
    records.path("run").mkdir(parents=True)
    (records.path("run") / "test.bin").write_bytes(b"predictions")
    records.commit("run", {"metrics": {"nll": 0.5}}, ["test.bin"])
    return records


def test_a_record_says_that_a_run_is_done(done, tmp_path):
    assert Records(tmp_path).find("run")["metrics"] == {"nll": 0.5}
    assert done.state("run") == "done"
    assert done.state("other") == "absent"


@pytest.mark.parametrize("file", ["record.json", "test.bin"])
@pytest.mark.parametrize("how", ["flip", "cut", "empty", "missing"])
def test_damage_is_found_set_aside_and_the_run_is_free_again(done, tmp_path, file, how):
    path = done.path("run") / file
    content = path.read_bytes()
    if how == "flip":
        middle = content.index(b"0.5") if file == "record.json" else 3
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif how == "missing":
        path.unlink()
    else:
        path.write_bytes(content[: 20 if how == "cut" and file == "record.json" else 5 if how == "cut" else 0])
    fresh = Records(tmp_path)
    assert fresh.find("run") is None
    if (how, file) == ("missing", "record.json"):
        assert fresh.state("run") == "absent"
        return
    assert fresh.state("run") == "damaged"
    assert damage(fresh.path("run")) is not None
    assert fresh.set_aside("run") == tmp_path / "damaged" / "run-1"
    assert fresh.state("run") == "absent"
    fresh.path("run").mkdir()
    assert fresh.set_aside("run") == tmp_path / "damaged" / "run-2"


def test_failures_are_one_line(tmp_path):
    Records(tmp_path).fail("d", "a run", "RuntimeError: one\n  two\n")
    assert Records(tmp_path).failure("d") == "RuntimeError: one two"


def test_failures(tmp_path):
    records = Records(tmp_path)
    assert records.failure("run") is None
    records.fail("run", "one-hot, seed 0", "the loss became nan")
    assert records.failure("run") == "the loss became nan"
    records.forgive("run")
    assert records.failure("run") is None


def test_a_folder_holds_one_study(tmp_path):
    folder = tmp_path / "study"
    keep(folder, kept())
    keep(folder, kept())
    assert kept_in(folder) == kept()
    with pytest.raises(
        SoftkinError, match="holds another study \\(seeds 0, 1 there, 0, 1, 2 here\\); choose another folder"
    ):
        keep(folder, kept(seeds=(0, 1, 2)))
    assert kept_in(folder) == kept()
    keep(folder, kept(seeds=(0, 1, 2)), force=True)
    assert kept_in(folder).spec.seeds == (0, 1, 2)
    with pytest.raises(SoftkinError, match="this study for other data: made up has changed"):
        keep(folder, Kept(kept(seeds=(0, 1, 2)).spec, {**kept().data, "digest": "new"}))
    with pytest.raises(SoftkinError, match="this study for other data: some.npz has changed"):
        keep(folder, Kept(kept(seeds=(0, 1, 2)).spec, {**kept().data, "contents": {"ood some.npz": "new"}}))


def test_a_folder_of_other_things(tmp_path):
    (tmp_path / "thesis.tex").write_text("irreplaceable")
    with pytest.raises(SoftkinError, match="holds other things and no study"):
        keep(tmp_path, kept())
    with pytest.raises(SoftkinError, match="must be a folder, but it is a file"):
        keep(tmp_path / "thesis.tex", kept())
    with pytest.raises(SoftkinError, match="holds no study: there is no study.json"):
        kept_in(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "irreplaceable"


def test_damaged_or_foreign_study_files(tmp_path):
    path = tmp_path / "study.json"
    for content, words in (("{", "damaged"), ('{"format": 99}', "format 99.*update softkin"), ("[]", "damaged")):
        path.write_text(content)
        with pytest.raises(SoftkinError, match=words):
            kept_in(tmp_path)
    path.write_text("{")
    keep(tmp_path, kept())  # the runs name their own specs, so a lost study.json loses nothing
    assert json.loads(path.read_text())["digest"] == kept().spec.digest
