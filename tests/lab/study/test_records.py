import json
import math
import multiprocessing
import os

import pytest

from softkin import SoftkinError
from softkin._io import bundles
from softkin.lab.study.records import Kept, Records, keep, kept_in, measured, read
from softkin.metrics.measurement import Measured
from study_parts import kept, run_record


@pytest.fixture
def done(tmp_path):
    records = Records(tmp_path)
    records.path("run").mkdir(parents=True)
    (records.path("run") / "test.bin").write_bytes(b"predictions")
    records.commit("run", run_record("training", metrics={"nll": {"value": 0.5}}), ["test.bin"])
    return records


def test_a_record_says_that_a_run_is_done(done, tmp_path):
    assert Records(tmp_path).find("run")["metrics"] == {"nll": {"value": 0.5}}
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
    with pytest.raises(SoftkinError):
        read(fresh.path("run"))
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
    with pytest.raises(SoftkinError, match="holds other files and no study"):
        keep(tmp_path, kept())
    with pytest.raises(SoftkinError, match="must be a folder, but it is a file"):
        keep(tmp_path / "thesis.tex", kept())
    with pytest.raises(SoftkinError, match="holds no study: there is no study.json"):
        kept_in(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "irreplaceable"


def sealed(**data):
    return json.dumps(bundles.sealed(data))


BAD_STUDIES = (
    ("{", "damaged"),
    (sealed(format=99), "format 99.*update softkin"),
    ("[]", "damaged"),
    ('{"format": 2}', "damaged: it lacks 'checksum'"),
    (sealed(format=2), "damaged: it lacks 'data'"),
    (sealed(format=2, data={}, spec={}), "it lacks 'source'"),
    (sealed(format=2, data=[1], spec=3), "damaged"),
    ("[" * 100_000, "nested too deeply"),
    ("\x00\xff", "damaged"),
)


@pytest.mark.parametrize(("content", "words"), BAD_STUDIES)
def test_damaged_or_foreign_study_files_are_named_and_never_replaced_unasked(tmp_path, content, words):
    path = tmp_path / "study.json"
    path.write_text(content)
    with pytest.raises(SoftkinError, match=words) as caught:
        kept_in(tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(SoftkinError, match=r"pass force=True \(--force\)"):
        keep(tmp_path, kept())
    assert path.read_text() == content
    keep(tmp_path, kept(), force=True)  # the runs name their own specs, so a lost study.json loses nothing
    assert kept_in(tmp_path) == kept()


def test_a_changed_digit_is_noticed(tmp_path):
    keep(tmp_path, kept())
    path = tmp_path / "study.json"
    whole = path.read_text()
    path.write_text(whole.replace('"alpha": [\n   0.1', '"alpha": [\n   0.2'))
    assert path.read_text() != whole
    with pytest.raises(SoftkinError, match="is not what was written: it is damaged, or was changed by hand"):
        kept_in(tmp_path)
    path.write_text(json.dumps({key: value for key, value in json.loads(whole).items() if key != "checksum"}))
    with pytest.raises(SoftkinError, match="it lacks 'checksum'"):
        kept_in(tmp_path)


def test_a_recipe_with_an_unknown_field_is_refused_with_its_file(tmp_path):
    """Found by fuzzing: it raised an error of arguments, which commands take for a fault of softkin's."""
    keep(tmp_path, kept())
    path = tmp_path / "study.json"
    content = {key: value for key, value in json.loads(path.read_text()).items() if key != "checksum"}
    content["spec"]["recipe"]["weight_dec!y"] = 0.1
    path.write_text(sealed(**content))
    with pytest.raises(SoftkinError, match=r"study.json .*no field 'weight_dec!y'; did you mean 'weight_decay'\?"):
        kept_in(tmp_path)


def _start(folder, others):
    others.wait()
    keep(folder, kept())
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "claims").mkdir(exist_ok=True)


@pytest.mark.slow
def test_four_processes_start_a_study_in_a_new_folder_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    for place in range(25):
        others = context.Barrier(4)
        started = [context.Process(target=_start, args=(tmp_path / str(place), others)) for _ in range(4)]
        for process in started:
            process.start()
        for process in started:
            process.join()
        assert [process.exitcode for process in started] == [0, 0, 0, 0]
        assert kept_in(tmp_path / str(place)) == kept()
        assert {path.name for path in (tmp_path / str(place)).iterdir()} == {"study.json", "runs", "claims"}


def _claim(folder, others, seeds):
    others.wait()
    try:
        keep(folder, kept(seeds=seeds))
    except SoftkinError:
        os._exit(7)


@pytest.mark.slow
def test_of_two_studies_that_start_at_once_in_one_folder_one_is_refused(tmp_path):
    context = multiprocessing.get_context("fork")
    for place in range(15):
        others = context.Barrier(2)
        arguments = [(tmp_path / str(place), others, seeds) for seeds in ((0, 1), (0, 1, 2))]
        started = [context.Process(target=_claim, args=item) for item in arguments]
        for process in started:
            process.start()
        for process in started:
            process.join()
        assert sorted(process.exitcode for process in started) == [0, 7]


def test_infinite_metrics_are_written_as_text_and_read_as_numbers(tmp_path):
    records = Records(tmp_path)
    records.path("run").mkdir(parents=True)
    chance = Measured(0.1, 0.05, 0.2, 0.95)
    metrics = {"nll": Measured(math.inf), "ece_hist": Measured(0.5, when_calibrated=chance, caveat="one bin")}
    written = {key: one.to_dict() for key, one in metrics.items()}
    records.commit("run", run_record("training", metrics=written), [])
    plain = json.loads((records.path("run") / "record.json").read_text(), parse_constant=pytest.fail)
    assert plain["metrics"]["nll"] == {"value": "Infinity"}
    assert measured(Records(tmp_path).find("run")) == metrics


@pytest.mark.parametrize("metrics", [{"nll": 0.5}, {"nll": {}}, {"nll": {"value": [1]}}, {"nll": None}])
def test_metrics_of_another_form_are_refused(tmp_path, metrics):
    records = Records(tmp_path)
    records.path("run").mkdir(parents=True)
    records.commit("run", run_record("training", metrics=metrics), [])
    assert Records(tmp_path).find("run") is None
