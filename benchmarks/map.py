"""How large the code is, how its modules hang together, and how far a reader walks: python benchmarks/map.py [SOURCE].

SOURCE is a folder that holds the package ``softkin``; by default this clone's ``src``. Code is every line that holds a
token other than a comment, outside docstrings. A walk is traced by ``sys.setprofile``: the functions of softkin that
one command calls, the files that they are in, how often the next function called for the first time is in another
file, and how often that is a file seen before. Imports and the building of the parser are not traced.
"""

import argparse
import ast
import io
import json
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WALKS = {
    "from_names, α auto": "from softkin import losses; losses.ClassSimilarityLoss.from_names(NAMES, alpha='auto')",
    "evaluate --report": "main(['evaluate', TEST, '--report', WORK + '/page.html'])",
    "compare, one method": "main('compare --methods one-hot --seeds 1 --workers 1 --output'.split() + [WORK])",
    "calibrate fit": "main(['calibrate', 'fit', VALIDATION, '--method', 'temperature', '--output', WORK + '/c'])",
    "decide fit": "main(['decide', 'fit', VALIDATION, '--rule', 'sets', '--output', WORK + '/r'])",
}

TRACER = """
import io, contextlib, json, sys, warnings
warnings.simplefilter("ignore")
NAMES = ["cat", "dog", "car", "truck", "rose", "tulip"]
TEST, VALIDATION, WORK = sys.argv[1:4]
from softkin.cli import main, parser
parser()
exec_this, home = sys.argv[4], sys.argv[5]
seen, order, parsing = set(), [], []
def trace(frame, event, _):
    code = frame.f_code
    if code.co_name == "parser" and code.co_filename.endswith("cli/__init__.py"):
        parsing.append(1) if event == "call" else parsing.clear() if event == "return" else None
    if event == "call" and not parsing:
        if code.co_filename.startswith(home) and code.co_name not in ("<module>", "<lambda>") and code not in seen:
            if not code.co_name.startswith("<"):
                seen.add(code); order.append(code.co_filename)
first, second = WORK + "/first", WORK + "/second"
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for WORK in (first, second):  # the first time imports what it needs, and is not traced
        if WORK == second:
            sys.setprofile(trace)
        exec(exec_this)
    sys.setprofile(None)
changes = back = 0
visited = set(order[:1])
for last, this in zip(order, order[1:]):
    if this != last:
        changes += 1
        back += this in visited
    visited.add(this)
print(json.dumps([len(order), len(set(order)), changes, back]))
"""


def code_lines(text: str) -> int:
    """The number of lines with code, without docstrings and comments."""
    doc: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                doc |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    idle = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in idle:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - doc)


def modules(package: Path) -> dict[str, ast.Module]:
    """The modules of the package by their dotted names."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The modules that a module imports, inside functions too, but not for types alone."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        stack += ast.iter_child_nodes(node)


def cycles(package: Path) -> list[list[str]]:
    """Groups of modules that import each other; a package's ``__init__`` gathers its modules and does not count."""
    trees = modules(package)
    known = set(trees)
    packages = {name for name in known if any(other.startswith(f"{name}.") for other in known)}
    graph = {
        name: {to for to in imports(tree, known) if to in known and to not in packages} for name, tree in trees.items()
    }
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for to in graph[todo.pop()] - seen:
                seen.add(to)
                todo.append(to)
        reach[start] = seen
    groups = {
        frozenset({name} | {to for to in reach[name] if name in reach[to]}) for name in graph if name in reach[name]
    }
    return sorted(sorted(group) for group in groups)


def numbers(source: Path) -> dict[str, object]:
    """The size of the package in ``source``."""
    package = source / "softkin"
    files = sorted(package.rglob("*.py"))
    trees = modules(package)
    public = exported = 0
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                public += 1
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if names == ["__all__"]:
                    exported += len(ast.literal_eval(node.value))
    homes = Counter(path.name for path in files)
    groups = cycles(package)
    return {
        "files": len(files),
        "lines of code": sum(code_lines(path.read_text(encoding="utf-8")) for path in files),
        "entries of the top folder": sum(1 for entry in package.iterdir() if entry.name != "__pycache__"),
        "file names in several packages": sum(
            1 for name, count in homes.items() if count > 1 and not name.startswith("__")
        ),
        "functions and classes without an underscore": public,
        "names in __all__": exported,
        "cycles (modules in them)": f"{len(groups)} ({sum(map(len, groups))})",
    }


def walk(source: Path, statement: str) -> list[int]:
    """Functions, files, changes of file and returns to a file of one walk."""
    examples = [str(ROOT / "examples" / f"digits-{name}.npz") for name in ("test", "validation")]
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-c", TRACER, *examples, work, statement, str(source / "softkin")]
        environment = {"PYTHONPATH": str(source), "PATH": "/usr/bin:/bin", "HOME": work, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=work, check=True)
    counted: list[int] = json.loads(done.stdout.splitlines()[-1])
    return counted


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=Path, default=ROOT / "src")
    parser.add_argument("--cycles", action="store_true", help="also print which modules import each other")
    arguments = parser.parse_args()
    source = arguments.source.resolve()
    for name, value in numbers(source).items():
        print(f"{name}: {value}")
    if arguments.cycles:
        for group in cycles(source / "softkin"):
            print("  " + " ↔ ".join(name.removeprefix("softkin.") for name in group))
    print("\nwalk: functions, files, changes of file, of which back")
    for name, statement in WALKS.items():
        print(f"{name}: {', '.join(map(str, walk(source, statement)))}")


if __name__ == "__main__":
    main()
