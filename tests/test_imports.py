"""What must not be loaded: torch by the command line's help, anything at all by ``import softkin``."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "pyarrow", "PIL", "sklearn", "rich", "matplotlib", "safetensors")


def loaded(code):
    """Which heavy packages a fresh interpreter has loaded after running ``code``."""
    script = f"import sys\n{code}\nprint([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_import_softkin_loads_nothing():
    assert loaded("import softkin; softkin.__version__; softkin.SoftkinError; dir(softkin)") == "[]"


def test_help_loads_nothing():
    for command in ("--help", "--version", "similarity --help"):
        code = f"from softkin.cli import main\ntry:\n    main({command.split()})\nexcept SystemExit:\n    pass"
        assert loaded(code) == "[]"


def test_this_test_can_fail():
    assert "torch" in loaded("import softkin; softkin.losses")


def test_the_core_needs_no_extras():
    assert "matplotlib" not in loaded(
        "import softkin; softkin.losses; softkin.distances; softkin.data; softkin.metrics"
    )


def test_modules_are_attributes():
    import softkin

    for name in (
        "distances",
        "similarity",
        "smoothing",
        "losses",
        "calibrators",
        "metrics",
        "diagrams",
        "data",
        "word_vectors",
    ):
        assert getattr(softkin, name).__name__ == f"softkin.{name}"
        assert name in dir(softkin)
    with pytest.raises(AttributeError, match="module 'softkin' has no attribute 'nonsense'"):
        softkin.nonsense  # noqa: B018
