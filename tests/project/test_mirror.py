"""The test of a formula is found in one hop: src/softkin/metrics/ranking.py has tests/metrics/test_ranking.py."""

from places import ROOT, TESTS

SOURCES = ROOT / "src" / "softkin"
# Modules without a formula of their own, by the reason why another file tests them.
ELSEWHERE = {
    "a package's front; the formulas lie in its modules": ["**/__init__.py", "**/__main__.py"],
    "a command: it parses and prints; tests/cli has what people type": ["cli/*.py"],
    "plumbing that everything uses, and that fails with everything": [
        "_core/assumption.py", "_core/figures.py", "_core/modes.py", "_core/options.py", "_core/progress.py", "_core/randomness.py", "_core/workers.py",
    ],
    "a format of files; _io/test_files, test_tables and tests/faults read and damage all of them": [
        "_io/arrow.py", "_io/objects.py", "_io/roles.py",
        "_io/separated.py", "_io/workbooks.py", "word_vectors/vector_files.py",
    ],
    "a format of data sets; lab/data/test_data, test_formats and test_safety read all of them alike": [
        "lab/data/npz.py", "lab/data/published.py", "lab/data/cifar.py",
        "lab/data/folders.py", "lab/data/idx.py", "lab/data/decoding.py", "lab/data/labelled.py",
        "lab/data/loading.py", "lab/data/given.py", ],
    "a format of predictions; predictions/test_formats, test_corpus and test_predictions read all of them alike": [
        "predictions/arrays.py", "predictions/blocks.py", "predictions/collecting.py", "predictions/container.py",
        "predictions/request.py", "predictions/reading.py", "predictions/score_tables.py", "predictions/columns.py", "predictions/label_columns.py", "predictions/class_columns.py", "predictions/one_score.py", "predictions/file_sets.py",
        "predictions/torch_files.py", "predictions/two_classes.py",
    ],
    "the form of a result, without arithmetic": [
        "lab/training/declaration.py",
        "lab/training/objectives/objective.py",
    ],
    "a part of the training loop; lab/training/test_loop and test_processes run it": [
        "lab/training/checkpoints.py", "lab/training/events.py", "lab/training/launch.py",
        "lab/training/session.py", "lab/training/signals.py",
        ],
    "a part of running studies; lab/study/test_run runs it": [
        "lab/study/folder.py", "lab/study/writing.py",
        "lab/study/perform.py", "lab/study/worker.py",
    ],
    "a part of running suites; lab/suites/test_suites runs it": ["lab/suites/figures.py", "lab/suites/runs.py", "lab/suites/printed.py"],
    "files in, numbers of other modules out; evaluation/test_evaluation and test_shards": ["evaluation/from_files.py"],
    "the form of a page; report/test_page, test_studies and test_model": [
        "report/side_by_side.py", "report/inspector.py", "report/render.py", "report/markup.py", "report/drawing.py",
    ],
}  # fmt: skip


def elsewhere():
    return {path for patterns in ELSEWHERE.values() for pattern in patterns for path in SOURCES.glob(pattern)}


def test_every_module_with_a_formula_has_its_test_file():
    for module in sorted(set(SOURCES.rglob("*.py")) - elsewhere()):
        place = module.relative_to(SOURCES)
        test = TESTS / place.parent / f"test_{place.name}"
        assert test.is_file(), f"{place} has no {test.relative_to(ROOT)}; write one, or say in ELSEWHERE why not"


def test_no_exception_is_left_over():
    for pattern in (pattern for patterns in ELSEWHERE.values() for pattern in patterns):
        found = list(SOURCES.glob(pattern))
        assert found, f"no module is called {pattern}"
        if "*" not in pattern:
            place = found[0].relative_to(SOURCES)
            assert not (TESTS / place.parent / f"test_{place.name}").exists(), f"{pattern} has its test file now"
