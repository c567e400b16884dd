"""The command line, in this process and as a real one."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from command_line import run
from places import ROOT
from softkin import __version__, calibrators, cli, distances, predictions, similarity, smoothing
from softkin.cli import listing
from softkin.cli.arguments import fitted, in_shell, subcommands


@pytest.fixture
def names(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("dolphin\nwhale\nrose\ntulip\nbicycle\nmotorcycle\nseal\n", encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::softkin.predictions.Assumption")
def test_every_command_has_help_and_an_example_that_works(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("softkin.report.serve.PageServer.serve_forever", lambda self: None)  # it would serve for ever
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, module in cli.COMMANDS.items():
        code, output, _ = run(capsys, name, "--help")
        assert code == 0
        assert module.EXAMPLE in output.replace(" \\\n     ", "")
        assert 2 <= output.partition("examples:\n")[2].count("\n  softkin") + 1 <= 4
        program, *arguments = shlex.split(module.EXAMPLE)
        assert program == "softkin"
        code, _, errors = run(capsys, *arguments)
        assert code == 0, (name, errors)


def test_similarity_prints_neighbours_and_labels_and_writes_matrices(capsys, tmp_path, names):
    folder = tmp_path / "m"
    code, output, _ = run(capsys, "similarity", names, "--beta", 2, "--alpha", 0.1, "--output", folder)
    assert code == 0
    line = next(line for line in output.splitlines() if line.startswith("dolphin"))
    assert line.split()[1:3] == ["0.900", "whale"]
    assert line.count(",") == 4  # five neighbours
    assert f"Wrote {folder / 'labels.safetensors'}" in output
    words = names.read_text().split()
    D = distances.load(folder / "distances.safetensors", class_names=words)
    torch.testing.assert_close(D, distances.from_words(words))
    S = similarity.load(folder / "similarity.safetensors", class_names=words)
    Q = smoothing.load(folder / "labels.safetensors", class_names=words)
    torch.testing.assert_close(Q, smoothing.similarity_labels(S, 0.1))
    source = smoothing.read(folder / "labels.safetensors").source
    assert "all-MiniLM-L6-v2" in source
    assert "beta=2; alpha=0.1" in source


def test_json(capsys, names):
    code, output, _ = run(capsys, "similarity", names, "--json", "--top", 2, "--alpha", 0.2)
    report = json.loads(output)
    assert code == 0
    assert report["alpha"] == 0.2
    first = report["classes"][0]
    assert first["name"] == "dolphin"
    assert [other["name"] for other in first["nearest"]][0] == "whale"
    assert first["label"] == pytest.approx(0.8)
    assert sum(other["label"] for other in first["nearest"]) + first["rest"] == pytest.approx(0.2)


def test_a_baseline_says_whether_smoothing_will_help_and_chooses_beta(capsys, tmp_path, names):
    words = names.read_text().split()
    D = distances.from_words(words)
    S = similarity.from_distances(D, 3.0)
    p = torch.cat([0.9 * torch.eye(7) + 0.1 * S] * 60)
    labels = torch.cat([torch.arange(7).roll(shift) for shift in [0] * 45 + [1] * 15])  # sure to 90 %, right in 75 %
    predictions.Predictions.from_probabilities(p, labels, class_names=words).save(tmp_path / "baseline.npz")
    code, output, errors = run(capsys, "similarity", names, "--baseline", tmp_path / "baseline.npz")
    assert (code, errors) == (0, "")
    assert (
        "The baseline, on 420 rows, is over-confident by 15.0 points: fit a temperature, or smooth with --alpha auto "
        "(or from α ≈ 0.09)" in output
    )
    assert "beta = 2" in output
    for rows, said in (
        (420, "under-confident by 10.0 points: smoothing will make it worse"),
        (7, "perhaps under-confident (gap -10.0 ± 35.4 points): too few seeds or rows to tell"),
    ):
        right = predictions.Predictions.from_probabilities(p[:rows], torch.arange(rows) % 7, class_names=words)
        right.save(tmp_path / f"right-{rows}.npz")
        options = ("--baseline", tmp_path / f"right-{rows}.npz", "--beta", "auto", "--json")
        code, output, _ = run(capsys, "similarity", names, *options)
        report = json.loads(output)
        assert report["beta"] == report["baseline"]["beta"] == pytest.approx(3, abs=1e-3)
        assert report["baseline"]["words"].startswith(said)
    assert json.loads(run(capsys, "similarity", names, "--beta", "auto", "--json")[1])["beta"] == 2
    other = predictions.Predictions.from_probabilities(p[:7], torch.arange(7), class_names=words[::-1])
    other.save(tmp_path / "other.npz")
    code, _, errors = run(capsys, "similarity", names, "--baseline", tmp_path / "other.npz")
    assert code == 0, errors  # the same classes in another order
    other = predictions.Predictions.from_probabilities(p[:7], torch.arange(7), class_names=[*words[1:], "else"])
    other.save(tmp_path / "else.npz")
    code, _, errors = run(capsys, "similarity", names, "--baseline", tmp_path / "else.npz")
    assert code == 1
    assert "must have the classes of" in errors


def test_matrices_are_not_overwritten_unless_told(capsys, tmp_path, names):
    folder = tmp_path / "m"
    assert run(capsys, "similarity", names, "--output", folder)[0] == 0
    before = (folder / "labels.safetensors").read_bytes()
    code, _, errors = run(capsys, "similarity", names, "--beta", 5, "--output", folder)
    assert code == 2
    assert (
        "distances.safetensors exists already, from another command or other files; add --force to overwrite it."
        in errors
    )
    assert (folder / "labels.safetensors").read_bytes() == before
    assert run(capsys, "similarity", names, "--beta", 5, "--output", folder, "--force")[0] == 0
    assert (folder / "labels.safetensors").read_bytes() != before
    # and what was written can be read again, with another β
    code, output, _ = run(capsys, "similarity", folder / "distances.safetensors", "--beta", 1)
    assert code == 0
    assert "beta = 1" in output


@pytest.mark.slow
def test_a_full_disk_leaves_no_matrix_behind(tmp_path):
    """Files may grow to 120,000 bytes: enough for the first matrix of 100 classes, not for the table of labels."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))\n"
        "from softkin.cli import main\nsys.exit(main())"
    )
    arguments = ["similarity", str(ROOT / "examples" / "cifar100.txt"), "--output", str(tmp_path / "m")]
    done = subprocess.run([sys.executable, "-c", limited, *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert " ".join(done.stderr.split()).endswith("labels.csv could not be written: File too large.")
    assert list((tmp_path / "m").iterdir()) == []
    assert cli.main(arguments) == 0  # and the next try needs no --force
    assert len(list((tmp_path / "m").iterdir())) == 4


def test_from_images_features_and_text(capsys, tmp_path, shared_data):
    for colour in ("red", "green", "blue"):
        for i in range(2):
            path = tmp_path / "images" / colour / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4 + i, 4), colour).save(path)
    code, output, _ = run(capsys, "similarity", tmp_path / "images", "--size", 4, "--beta", 1)
    assert code == 0
    assert "mean L1, all pairs" in output
    np.savez(tmp_path / "f.npz", features=np.eye(4), labels=np.arange(4))
    code, output, _ = run(capsys, "similarity", tmp_path / "f.npz")
    assert "mean L2" in output
    code, output, _ = run(capsys, "similarity", "digits", "--distance", "l2", "--max-per-class", 20)
    assert "mean L2, at most 20 per class" in output
    code, output, _ = run(capsys, "similarity", "digits", "--distance", "words")
    assert "word vectors" in output
    code, output, _ = run(capsys, "similarity", shared_data / "text" / "banking77.parquet")
    assert code == 0
    assert "card_arrival" in output


def test_synonyms_aliases_and_other_vectors(capsys, tmp_path, shared_data):
    code, output, _ = run(capsys, "similarity", shared_data / "tiny-imagenet" / "words.txt")
    assert code == 0
    assert "n02124075" in output
    path = tmp_path / "names.txt"
    path.write_text("gasmask\ncat\ndog\n")
    code, _, errors = run(capsys, "similarity", path, "--vectors", "glove")
    assert code == 2
    assert "pass --alias 'gasmask=gas mask' to look up" in errors
    assert run(capsys, "similarity", path, "--vectors", "glove", "--alias", "gasmask=gas mask", "--beta", 1)[0] == 0
    vectors = tmp_path / "v.txt"
    vectors.write_text("gasmask 0 1\ncat 1 0\ndog 1 1\n")
    code, output, _ = run(capsys, "similarity", path, "--vectors", vectors, "--beta", 1)
    assert code == 0
    assert "from v.txt" in output


def test_similarity_of_the_most_similar_classes(capsys, tmp_path):
    path, folder = tmp_path / "names.txt", tmp_path / "m"
    names = ["rose", "tulip", "dolphin", "seal", "bus", "truck"]
    path.write_text("\n".join(names))
    code, output, _ = run(capsys, "similarity", path, "--top-m", 2, "--output", folder)
    assert code == 0
    assert "alpha = 0.1, beta = 2, top-m = 2\n" in output
    expected = similarity.from_distances(distances.from_words(names), 2.0, top_m=2).dense()
    assert torch.equal(similarity.load(folder / "similarity.safetensors", class_names=names), expected)
    code, _, errors = run(capsys, "similarity", folder / "similarity.safetensors", "--top-m", 2)
    assert code == 2
    assert "--top-m must be left out: " in errors


@pytest.mark.filterwarnings("default")
def test_doubts_about_names(capsys, tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("rose\ntulip\ndolphin\nseal\n")
    code, _, errors = run(capsys, "similarity", path)
    assert code == 0
    assert errors.startswith("softkin: warning: with 4 classes normalised distances are always extreme: at beta=2")
    assert run(capsys, "similarity", path, "--beta", 1)[2] == ""
    code, output, errors = run(capsys, "similarity", path, "--beta", 1, "--check")
    assert (code, errors) == (0, "")
    assert "Check: no class that takes more than half of alpha is far in the kinds of things of WordNet" in output
    assert "Check:" not in run(capsys, "similarity", path, "--beta", 1, "--check", "--vectors", "glove")[1]
    code, output, errors = run(capsys, "similarity", path, "--beta", 1, "--check", "--vectors", "glove", "--json")
    assert "is near neither in WordNet nor in other word vectors: 'seal' for 'rose'" in errors
    assert "'seal' for 'rose'" in json.loads(output)["warnings"][0]
    path.write_text("class_0\nclass_1\nclass_2\nclass_3\nclass_4\n")
    code, _, errors = run(capsys, "similarity", path)
    assert code == 0
    assert errors.count("softkin: warning: the class names differ only by numbers or letters") == 1
    code, _, errors = run(capsys, "similarity", path, "--vectors", "glov")
    assert code == 1
    assert "there is no such file; did you mean 'glove'?" in errors


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["similarity", "NAMES", "--alpha", "1"], 2, "--alpha must be at least 0 and below 1, got 1"),
        (["similarity", "NAMES", "--beta", "-1"], 2, "--beta must be finite and at least 0, got -1"),
        (["similarity", "NAMES", "--alias", "x"], 2, "--alias must be WORD=OTHER, got 'x'"),
        (["similarity", "NAMES", "--top", "0"], 2, "--top"),
        (["similarity", "NAMES", "--max-per-class", "1"], 2, "at least 2, got 1"),
        (
            ["similarity", "NAMES", "--distance", "l3"],
            2,
            "`--distance` must be one of l1, l2, autoencoder, words, class-means, taxonomy, order, encoder, neighbours, outputs, confusion, weights, file, got 'l3'.",
        ),
        (
            ["similarity", "NAMES", "--distance", "l1"],
            2,
            "the distance 'l1' needs images, features or text, and the data hold names; use words, taxonomy, order, encoder,",
        ),
        (["similarity", "absent.txt"], 1, "could not be read"),
        (["similarity", "absent"], 1, "no such file or folder"),
        (["similarity", "NAMES", "--vectors", "absent.txt"], 1, "there is no such file"),
        (["similarity", "TWICE"], 1, "must differ, but 'cat' appears at indices 0 and 1"),
        (["similarity"], 2, "the following arguments are required: SOURCE"),
        (["similarty"], 2, "softkin: unknown command 'similarty'; did you mean 'similarity'?"),
    ],
)
def test_errors_are_one_sentence(capsys, tmp_path, names, arguments, code, words):
    (tmp_path / "twice.txt").write_text("cat\ncat\n")
    replaced = {"NAMES": str(names), "TWICE": str(tmp_path / "twice.txt")}
    status, output, errors = run(capsys, *(replaced.get(argument, argument) for argument in arguments))
    assert status == code
    assert words in errors
    assert "Traceback" not in errors
    assert output == ""


def test_options_that_do_not_fit_are_refused(capsys, tmp_path, names):
    (tmp_path / "img" / "train").mkdir(parents=True)
    (tmp_path / "img" / "test").mkdir()
    (tmp_path / "latin.txt").write_text("cat\ncafé\n", encoding="latin-1")
    (tmp_path / "names.md").write_text("cat\ndog\n")
    for arguments, code, words in (
        ([names, "--size", 8], 2, "--size must be left out: distances of names need no samples"),
        ([names, "--max-per-class", 8], 2, "--max-per-class must be left out"),
        (["digits", "--device", "cuda"], 2, "the device cuda cannot be used"),
        (["digits", "--device", "nonsense"], 2, "the device nonsense cannot be used"),
        ([names, "--output", names], 2, "--output must be a folder"),
        ([tmp_path / "img"], 1, "must hold one folder of images for each class, but no image was found"),
        ([tmp_path / "latin.txt"], 1, "; save it in that encoding"),
        ([tmp_path / "names.md"], 1, "class names come in a .txt file"),
    ):
        status, _, errors = run(capsys, "similarity", *arguments)
        assert (status, words in errors) == (code, True), errors
        assert "Traceback" not in errors


def test_nearest_are_nearest_at_any_beta(capsys, names):
    for beta in (0, 2, 1e9):
        _, output, _ = run(capsys, "similarity", names, "--beta", beta, "--json", "--top", 6)
        for row in json.loads(output)["classes"]:
            neighbour = [other["distance"] for other in row["nearest"]]
            assert neighbour == sorted(neighbour)


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(capsys, names):
    code, _, errors = run(capsys, "similarity", names, "--prefer", "entity")
    assert code == 0
    assert errors.startswith("softkin: warning: entity vectors are used only if every class has one")
    assert errors.count("\n") == 1


@pytest.mark.slow
def test_an_old_terminal_gets_question_marks(names):
    import os

    done = subprocess.run(
        [sys.executable, "-m", "softkin", "similarity", "--help"],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0


def test_hostile_names_stay_text(capsys, tmp_path):
    path = tmp_path / "n.txt"
    path.write_text("[bold]cat[/bold]\n[link=x]dog\ncar \x1b[31m\n", encoding="utf-8")
    code, output, _ = run(
        capsys, "similarity", path, "--alias", "bold=cat", "--alias", "link=dog", "--alias", "31m=car", "--beta", 1
    )
    assert code == 0
    assert "[bold]cat[/bold]" in output
    assert "\x1b" not in output


@pytest.mark.slow
def test_as_a_process(tmp_path, names):
    def softkin(*arguments, **options):
        return subprocess.run([sys.executable, "-m", "softkin", *arguments], capture_output=True, text=True, **options)

    assert softkin("--version").stdout.strip() == f"softkin {__version__}"
    done = softkin("similarity", str(names))
    assert done.returncode == 0
    assert "dolphin" in done.stdout
    assert done.stderr == ""
    script = Path(sys.executable).with_name("softkin")
    assert (
        subprocess.run([script, "--version"], capture_output=True, text=True).stdout.strip() == f"softkin {__version__}"
    )
    piped = subprocess.run(
        f"{shlex.quote(sys.executable)} -m softkin similarity {shlex.quote(str(ROOT / 'examples' / 'cifar100.txt'))} | head -1",
        shell=True, capture_output=True, text=True,
    )  # fmt: skip
    assert piped.stderr == ""


@pytest.mark.slow
def test_an_interrupt_while_modules_load_is_no_traceback():
    script = """
import sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "softkin.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
from softkin.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "softkin: interrupted\n")


@pytest.mark.slow
def test_closed_output_is_no_error():
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m softkin data list >&- 2>&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


SWALLOWS = """
import contextlib, os, signal, sys, time
from softkin import cli

def breaks(arguments):
    with contextlib.suppress(KeyboardInterrupt):  # as an import that is interrupted may
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    raise RecursionError

signal.signal(signal.SIGINT, signal.default_int_handler)
cli.status.run = breaks
code = cli.main(["status", "folder"])
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
sys.exit(code)
"""


def test_an_interrupt_while_help_is_printed_is_no_traceback(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as inside:  # pytest asks for the size too
        inside.setattr("shutil.get_terminal_size", interrupted)
        assert cli.main(["train", "--help"]) == 130
    assert capsys.readouterr().err == "softkin: interrupted\n"


@pytest.mark.slow
def test_an_interrupt_that_a_library_swallows_is_still_an_interrupt():
    done = subprocess.run([sys.executable, "-c", SWALLOWS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "softkin status: interrupted\n")


@pytest.mark.parametrize("words", [[], ["evaluate"], ["calibrate", "fit"]])
def test_help_is_a_word_too(capsys, words):
    printed = []
    for typed in (["help", *words], [*words, "--help"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(typed)
        assert stop.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.slow
def test_a_reader_that_goes_leaves_the_files_to_be_written(tmp_path):
    """As in ``softkin evaluate … --report page.html | head -1``, and the same command again."""
    page, source = tmp_path / "page.html", ROOT / "examples" / "digits-test.npz"
    command = [sys.executable, "-m", "softkin", "evaluate", str(source), "--report", str(page)]
    reading = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reading.stdout.close()
    assert (reading.wait(timeout=120), reading.stderr.read()) == (0, "")
    reading.stderr.close()
    assert page.is_file()
    again = subprocess.run(command, capture_output=True, text=True)
    assert (again.returncode, again.stderr) == (0, "")


def test_softkin_alone_prints_help_with_the_commands_in_groups(capsys):
    code, output, _ = run(capsys)
    assert code == 0
    assert output.startswith("usage: softkin [OPTIONS] COMMAND ...")
    assert output.index("start here") < output.index("  evaluate") < output.index("  train ")
    assert all(f"\n  {name}" in output for name in cli.COMMANDS)
    modules = {name for name, module in vars(cli).items() if hasattr(module, "SUMMARY") and "_" not in name}
    assert set(cli.COMMANDS) == modules


def test_every_example_of_every_command_can_be_parsed(capsys):
    parser = cli.parser()
    typed = [
        line
        for command in every_command(parser)
        for line in (command.epilog or "").replace(" \\\n     ", "").splitlines()
        if line.startswith("  softkin ") and "--list-methods" not in line
    ]
    assert len(typed) > 30
    assert sum(".csv" in line for line in typed) > 8
    for line in typed:
        parser.parse_args(shlex.split(line)[1:])


def every_command(parser):
    for action in subcommands(parser):
        for command in action.choices.values():
            yield command
            yield from every_command(command)


def test_a_line_for_each_method(capsys):
    for words, names in (
        (["compare"], listing.study_methods),
        (["train"], listing.training_methods),
        (["calibrate", "fit"], listing.calibrators),
        (["decide", "fit"], listing.rules),
    ):
        code, output, _ = run(capsys, *words, "--list-methods")
        assert code == 0
        lines = [line for line in output.splitlines() if not line.startswith(" ")]
        assert [line.split()[0] for line in lines] == [name for name, _ in names()]
        assert all(len(line.split()) > 2 for line in lines), output
        assert all(len(line) <= 120 for line in output.splitlines())
        assert len({" ".join(line.split()[1:]) for line in lines}) == len(lines)  # no two methods read the same


def test_usage_is_short(capsys):
    _, output, _ = run(capsys, "evaluate", "--help")
    assert output.startswith("usage: softkin evaluate [OPTIONS] FILE...\n")
    _, output, _ = run(capsys, "calibrate", "fit", "--help")
    assert output.startswith("usage: softkin calibrate fit [OPTIONS] FILE --output FOLDER\n")


@pytest.mark.filterwarnings("default")
def test_the_same_command_twice_goes_on_and_another_result_is_refused(capsys, tmp_path):
    source = ROOT / "examples" / "churn.csv"
    fit = ("calibrate", "fit", source, "--method", "temperature", "--output", tmp_path / "cal")
    apply = ("calibrate", "apply", tmp_path / "cal", source, "--output", tmp_path / "o.npz")
    page = ("evaluate", source, "--resamples", 100, "--report", tmp_path / "p.html", "--output", tmp_path / "e.json")
    for command in (fit, apply, page):
        assert "Wrote" in run(capsys, *command)[1]
        kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        code, output, _ = run(capsys, *command)
        assert code == 0
        assert "was there already, with the same content" in output
        assert "Wrote" not in output
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == kept
    code, _, errors = run(capsys, *fit[:3], "--method", "platt", "--output", tmp_path / "cal")
    assert code == 2
    assert "exists already, from another command or other files; add --force to overwrite it" in errors
    assert run(capsys, *fit[:3], "--method", "platt", "--output", tmp_path / "cal", "--force")[0] == 0


@pytest.mark.filterwarnings("default")
def test_calibrate_fit_takes_the_best_by_cross_validation(capsys, tmp_path):
    code, output, _ = run(capsys, "calibrate", "fit", ROOT / "examples" / "churn.csv", "--output", tmp_path / "cal")
    assert code == 0
    held = predictions.load(ROOT / "examples" / "churn.csv", positive_class="1")
    best = calibrators.fit_best(held.scores, held.known_labels, from_probabilities=True, patient=False)
    assert type(calibrators.load(tmp_path / "cal")) is type(best.calibrator)
    first, rival = (one.calibrator.in_words() for one in best.candidates[:2])
    found = best.comparison
    assert output.startswith(
        f"Use {first}: NLL {best.uncalibrated:.4f} → {best.candidates[0].score:.4f} by cross-validation; not clearly "
        f"better than {rival}, ahead by {-found.difference:.4f} (95 % interval −{found.high:.4f} to {-found.low:.4f}).\n"
    )
    table = [line.split("  ")[0] for line in output.split("\n\n")[0].splitlines()[2:]]
    assert set(table) == {"uncalibrated", *(one.calibrator.in_words() for one in best.candidates)}


@pytest.mark.filterwarnings("default")
def test_where_no_calibrator_helps_the_one_that_is_written_changes_nothing(capsys, tmp_path):
    generator = np.random.default_rng(0)
    p = generator.uniform(size=40)
    lines = [f"{y:d},{share:.3f}" for y, share in zip(generator.random(40) < p, p, strict=True)]
    source = tmp_path / "few.csv"
    source.write_text("\n".join(["y_true,y_prob", *lines]))
    code, output, _ = run(capsys, "calibrate", "fit", source, "--output", tmp_path / "cal")
    assert code == 0
    assert output.startswith(
        "No calibrator helps, so the one that is written changes nothing: by cross-validation the best, temperature, "
        "takes the NLL from 0.5492"
    )
    assert "confident" not in output
    assert "Fitted on" not in output
    written = calibrators.load(tmp_path / "cal")
    given = torch.tensor([[0.3, 0.7], [0.0, 1.0]], dtype=torch.float64)
    assert torch.equal(torch.as_tensor(written.predict_proba(given, from_probabilities=True)), given)


@pytest.mark.filterwarnings("default")
def test_no_python_spelling_and_at_most_80_columns(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    held, test = (ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test"))
    churn = ROOT / "examples" / "churn.csv"
    for number, command in enumerate(
        (
            ("calibrate", "fit", held, "--output", tmp_path / "cal"),
            ("calibrate", "fit", held, "--method", "temperature", "--certify", "--output", tmp_path / "t"),
            ("calibrate", "apply", tmp_path / "cal", test, "--output", tmp_path / "a.npz"),
            ("decide", "fit", held, "--rule", "sets", "--coverage", 0.8, "--output", tmp_path / "r"),
            ("decide", "fit", churn, "--rule", "abstain", "--error", 0.3, "--output", tmp_path / "s"),
            ("decide", "apply", tmp_path / "s", churn, "--output", tmp_path / "a.csv"),
            ("monitor", churn, "--tolerance", "10%"),
            ("check", churn, "--max", "ece=20%"),
        )
    ):
        code, output, errors = run(capsys, *command)
        assert code == 0, errors
        said = output.replace(str(tmp_path), "")
        assert not re.search(r"\w\(\)|\w=[\w'\"]|[A-Z][a-z]+[A-Z]|(?<![\w-])-\d|<\w", said), (number, said)
        assert max(len(line) for line in said.splitlines()) <= 80, said


@pytest.mark.filterwarnings("default")
def test_tables_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    files = [ROOT / "examples" / f"digits-{name}.npz" for name in ("validation", "test")]
    for command in (
        ["evaluate", files[1], "--resamples", 100, "--abstain", 0.05],
        ["evaluate", files[1], files[1], "--resamples", 100],
        ["evaluate", files[1], files[1], files[1], "--resamples", 100, "--pairs", "--details"],
        ["calibrate", "compare", *files, "--methods", "temperature,platt", "--resamples", 100],
        ["decide", "compare", *files],
    ):
        code, output, _ = run(capsys, *command)
        assert code == 0
        rows = output.splitlines()
        assert any("  " in line.strip() for line in rows)
        assert max(map(len, rows)) <= 80, max(rows, key=len)


def test_messages_of_the_library_name_options_in_the_shell():
    options = {"--alpha", "--force", "--n-bins"}
    for said, shown in (
        ("a exists already; pass force=True to overwrite it.", "a exists already; add --force to overwrite it."),
        ("`alpha` must be below 1", "--alpha must be below 1"),
        ("`n_bins` must be", "--n-bins must be"),
        ("pass floor= to say otherwise", "pass floor= to say otherwise"),
        ("`logits` must hold numbers", "`logits` must hold numbers"),
        ("raise `error` (--error), or wait", "raise `error`, or wait"),
        ("take `distances.from_encoder` (--encoder)", "take `distances.from_encoder`"),
        ("negative; if these are logits, apply softmax first.", "negative; if these are logits, apply softmax first."),
    ):
        assert in_shell(said, options) == shown
    options = {"--error", "--encoder", "--logits"}
    assert in_shell("raise `error` (--error), or wait", options) == "raise --error, or wait"
    assert in_shell("take `distances.from_encoder` (--encoder)", options) == "take --encoder"
    assert in_shell("if these are logits, apply softmax first.", options) == "if these are logits, add --logits."


@pytest.mark.filterwarnings("default")
def test_help_and_refusals_fit_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in every_command(cli.parser()):
        lines = command.format_help().splitlines()
        assert max(map(len, lines)) <= 80, max(lines, key=len)
    for command in (["decide", "fit"], ["split"], ["similarity", "audition"], ["evaluate", "--confidance"]):
        code, _, errors = run(capsys, *command)
        assert code == 2
        assert max(map(len, errors.splitlines())) <= 80, errors


@pytest.mark.filterwarnings("default")
def test_shares_may_be_percent(capsys, tmp_path):
    held = ROOT / "examples" / "digits-validation.npz"
    said = {}
    for text in ("0.8", "80%", "80"):
        fit = ("decide", "fit", held, "--rule", "sets", "--coverage", text, "--output", tmp_path / "rule", "--force")
        code, output, errors = run(capsys, *fit)
        assert code == 0, errors
        said[text] = output
        assert ("--coverage 80 is read as 80 %" in errors) == (text == "80")
    assert len(set(said.values())) == 1
    assert "at least 80 % of new rows" in said["80"]
    for command in ("evaluate", "check --max ece=90%", "monitor --tolerance 10%"):
        name, *more = command.split()
        code, _, errors = run(capsys, name, ROOT / "examples" / "churn.csv", *more, "--confidence", "90%")
        assert code == 0, errors
        code, _, errors = run(capsys, name, ROOT / "examples" / "churn.csv", *more, "--confidence", "1.5")
        assert code == 2
        assert "--confidence must be between 0 and 1, or between 0% and 100%, got 1.5" in errors
        code, _, errors = run(capsys, name, ROOT / "examples" / "churn.csv", *more, "--confidence", "much")
        assert code == 2
        assert "--confidence must be a share such as 0.05 or 5%, got 'much'" in errors


@pytest.mark.filterwarnings("default")
def test_the_file_of_a_calibrator_may_be_named_instead_of_its_folder(capsys, tmp_path):
    held = ROOT / "examples" / "digits-validation.npz"
    run(capsys, "calibrate", "fit", held, "--method", "temperature", "--output", tmp_path / "cal")
    file = tmp_path / "cal" / "calibrator.safetensors"
    assert run(capsys, "calibrate", "apply", file, held, "--output", tmp_path / "a.npz")[0] == 0


def test_a_folder_of_matrices_is_a_source_again(capsys, tmp_path, names):
    assert run(capsys, "similarity", names, "--beta", 1.5, "--output", tmp_path / "m")[0] == 0
    code, output, _ = run(capsys, "similarity", "show", tmp_path / "m")
    assert code == 0
    assert output.startswith("similarity.safetensors: class names")
    assert "beta=1.5" in output.splitlines()[0]
    code, output, _ = run(capsys, "similarity", tmp_path / "m", "--beta", 1)
    assert (code, output.splitlines()[0].startswith("distances.safetensors")) == (0, True)
    assert run(capsys, "similarity", names, "--output", tmp_path / "n")[0] == 0
    (tmp_path / "n" / "labels.safetensors").replace(tmp_path / "m" / "labels.safetensors")
    code, _, errors = run(capsys, "similarity", "show", tmp_path / "m")
    assert code == 1
    assert "m holds the files of two runs: labels.safetensors was not written with distances.safetensors" in errors


def parsers(parser, words=()):
    """Every command and action with its words."""
    for action in subcommands(parser):
        for name, inner in action.choices.items():
            yield (*words, name), inner
            yield from parsers(inner, (*words, name))


def test_help_fits_a_narrow_terminal(monkeypatch):
    """All but the examples, which are to be copied, and words that cannot be broken."""
    monkeypatch.setenv("COLUMNS", "80")
    for words, parser in [((), cli.parser()), *parsers(cli.parser())]:
        text = parser.format_help().partition("\nexample")[0]
        wide = [line for line in text.splitlines() if len(line) > 80 and " " in line.strip()]
        assert not wide, (words, wide)


def test_wrapping_keeps_every_word():
    for words, parser in parsers(cli.parser()):
        if parser.description:
            for width in (40, 78, 118):
                assert fitted(parser.description, width).split() == parser.description.split(), words
    table = "KINDS are\n  a, b     one thing\n           and more\n  c        another\nThe end\nof it.\n\nAnd"
    assert fitted(table, 20).splitlines() == [
        "KINDS are", "  a, b     one thing", "           and more", "  c        another", "The end of it.", "", "And",
    ]  # fmt: skip


def test_each_help_has_two_to_four_examples():
    """A file of a table is among them where a command takes one."""
    tables = {"evaluate", "calibrate", "decide", "compare", "train", "similarity", "check", "monitor"}
    for words, parser in parsers(cli.parser()):
        typed = [line for line in (parser.epilog or "").splitlines() if line.startswith("  softkin")]
        assert 2 <= len(typed) <= 4, words
        if words[0] in tables:
            assert any(".csv" in line or ".tsv" in line for line in typed), words


@pytest.mark.filterwarnings("ignore")
def test_an_output_never_replaces_what_a_command_reads(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("cat,dog,label\n" + "0.9,0.1,cat\n0.2,0.8,dog\n" * 5)
    before = path.read_bytes()
    for more in ([], ["--force"]):
        code, _, errors = run(capsys, "evaluate", str(path), "--output", str(path), *more)
        assert (code, path.read_bytes()) == (2, before)
        assert "a.csv is read by this command, so its output must be another file." in errors.replace("\n", " ")
    calibrators.TemperatureScaling().fit([[2.0, 0.0], [0.0, 1.0], [1.0, 0.5]], [0, 1, 1]).save(tmp_path / "cal")
    apply = ("calibrate", "apply", str(tmp_path / "cal"), str(path), "--output", str(path))
    assert run(capsys, *apply)[0] == 2
    assert run(capsys, *apply, "--force")[0] == 0  # which keeps every column of the table
    assert "calibrated_cat" in path.read_text()
