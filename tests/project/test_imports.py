"""What must not be loaded: torch by the command line's help, anything at all by ``import softkin``, a higher layer."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from places import ROOT

HEAVY = ("torch", "numpy", "pyarrow", "PIL", "sklearn", "rich", "matplotlib", "safetensors", "scipy.stats")


def loaded(code):
    """Which heavy packages a fresh interpreter has loaded after running ``code``."""
    script = f"import sys\n{code}\nprint([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_import_softkin_loads_nothing():
    assert loaded("import softkin; softkin.__version__; softkin.SoftkinError; dir(softkin)") == "[]"


@pytest.mark.slow
def test_help_loads_nothing():
    for command in ("--help", "--version", "similarity --help"):
        code = f"from softkin.cli import main\ntry:\n    main({command.split()})\nexcept SystemExit:\n    pass"
        assert loaded(code) == "[]"


OURS = "print(sum(name.split('.')[0] == 'softkin' for name in sys.modules))"


@pytest.mark.slow
@pytest.mark.parametrize(("module", "most"), [("losses", 25), ("similarity", 22), ("distances", 44)])
def test_a_loss_loads_few_of_our_modules(module, most):
    script = f"import sys, softkin.{module}\n{OURS}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= most


@pytest.mark.slow
def test_this_test_can_fail():
    assert "torch" in loaded("import softkin; softkin.losses")


@pytest.mark.slow
def test_evaluating_loads_no_scipy_stats():
    """It takes most of a second to import, for quantiles that scipy.special has too."""
    file = ROOT / "examples" / "digits-test.npz"
    script = f"from softkin.cli import main; main(['evaluate', {str(file)!r}, '--json'])"
    assert "scipy.stats" not in loaded(script)


@pytest.mark.slow
def test_the_core_needs_no_extras():
    assert "matplotlib" not in loaded(
        "import softkin; softkin.losses; softkin.distances; softkin.lab.data; softkin.metrics"
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
        "lab",
        "word_vectors",
    ):
        assert getattr(softkin, name).__name__ == f"softkin.{name}"
        assert name in dir(softkin)
    with pytest.raises(AttributeError, match="module 'softkin' has no attribute 'nonsense'"):
        softkin.nonsense  # noqa: B018


@pytest.mark.slow
def test_nothing_imports_upwards():
    pytest.importorskip("importlinter")
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def borrowed_private_names(path):
    """Private names of other modules of ours that a file uses, as "module: name"."""
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {}  # what a name in this file stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "softkin":
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    targets = [target for name, target in imported.items() if target.rpartition(".")[2].startswith("_")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr.startswith("_"):
            target = imported.get(node.value.id)
            if target is not None and (ROOT / "src" / target.replace(".", "/")).with_suffix(".py").exists():
                targets.append(f"{target}.{node.attr}")
    return {f"{module}: {target}" for target in targets if not target.endswith("__")}


def test_no_private_name_crosses_modules():
    borrowed = set().union(*(borrowed_private_names(path) for path in (ROOT / "src").rglob("*.py")))
    assert not borrowed


def test_a_borrowed_private_name_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    package = tmp_path / "src" / "softkin"
    package.mkdir(parents=True)
    (package / "a.py").write_text("_secret = 1\n")
    (package / "b.py").write_text("from softkin import a\nfrom softkin.a import _secret\na._other\na.open\n")
    expected = {"softkin.b: softkin.a._secret", "softkin.b: softkin.a._other"}
    assert borrowed_private_names(package / "b.py") == expected


# Cycles


def imports_of(path):
    """Modules of ours that a file imports, also inside functions, but not for type checkers."""
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for rest in node.orelse:
                visit(rest)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def cycles(source):
    """The sets of modules that import each other in a circle; a package's ``__init__`` counts as no one's member."""
    files = {".".join(path.relative_to(source).with_suffix("").parts): path for path in source.rglob("*.py")}
    graph = {name: imports_of(path) & files.keys() for name, path in files.items() if not name.endswith("__init__")}
    reach = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for name in graph.get(waiting.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        reach[start] = seen
    return {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}


def test_no_modules_import_each_other_in_a_circle():
    assert cycles(ROOT / "src") == set()


def test_a_circle_of_modules_is_noticed(tmp_path):
    package = tmp_path / "softkin" / "p"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from softkin.p.a import x\n")
    (package / "a.py").write_text("from softkin.p.b import y\nfrom softkin.p import d\n")
    (package / "b.py").write_text("def late():\n    from softkin.p import c\n")
    (package / "c.py").write_text("import softkin.p.a\n")
    (package / "d.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from softkin.p import a\n")
    assert cycles(tmp_path) == {frozenset({"softkin.p.a", "softkin.p.b", "softkin.p.c"})}
