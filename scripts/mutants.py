"""Small mutants of source files, to see which of them their tests do not notice.

``python scripts/mutants.py src/softkin/metrics/ranking.py --count 20 --seed 0`` changes one thing at a time (a sign, a
comparison, a number by one, a term dropped), runs the test file of the same name with each, then the golden numbers of
metrics, and prints the mutants that survive. Of a folder, mutants are drawn from all its modules that have such a test
file. Mutants are made in a copy of the sources: the work tree stays as it is. Each is tested in a child of this
process, which has the libraries loaded. With ``--log FILE`` a run that was stopped goes on where it stopped; mutants
are tried in the order of the draw, so that those tried until then are a random draw too.
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "project" / "test_golden.py"
OTHER: dict[type[ast.AST], list[Any]] = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.FloorDiv: [ast.Div],
    ast.Pow: [ast.Mult], ast.And: [ast.Or], ast.Or: [ast.And],
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq],
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "amin": "amax", "amax": "amin"}
NO_FORMULA = ("strict", "stacklevel", "progress", "seed")  # arguments that change no number, or no number that is right
NOT_CODE = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom, ast.Assert)


@dataclass(frozen=True)
class Mutant:
    """One change: the place of an expression in the source, and what stands there instead."""

    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + f"({self.after})".encode() + source[self.end :]


def changes(node: ast.AST) -> Iterator[ast.expr]:
    """What may stand in a node's place."""
    if isinstance(node, ast.BinOp):
        for kind in OTHER.get(type(node.op), []):
            yield ast.BinOp(node.left, kind(), node.right)
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
            yield node.left  # the second term or factor is dropped
        if isinstance(node.op, (ast.Add, ast.Mult)):
            yield node.right
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(OTHER[type(node.op)][0](), node.values)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind in OTHER.get(type(node.ops[0]), []):
            yield ast.Compare(node.left, [kind()], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield ast.Constant(node.value + 1)
            if node.value > 0:
                yield ast.Constant(node.value - 1)
        else:
            yield ast.Constant(node.value * 2 if node.value else 1.0)
            yield ast.Constant(node.value / 4 if node.value else -1.0)
    elif isinstance(node, ast.Call):
        called = copy.deepcopy(node.func)
        name = "attr" if isinstance(called, ast.Attribute) else "id"
        if getattr(called, name, None) in CALLS:
            setattr(called, name, CALLS[getattr(called, name)])
            yield ast.Call(called, node.args, node.keywords)


def is_overload(node: ast.AST) -> bool:
    """Whether a function only says which types go together."""
    return any(ast.unparse(part).endswith("overload") for part in getattr(node, "decorator_list", []))


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """All expressions that compute: no annotations, messages, decorators or signatures of overloads."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_left_out = isinstance(child, ast.keyword) and child.arg in NO_FORMULA
            if (
                isinstance(child, ast.AST)
                and not isinstance(child, NOT_CODE)
                and not (is_overload(child) or is_left_out)
            ):
                if isinstance(child, ast.expr):
                    yield child
                yield from expressions(child)


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a source, in the order of its lines."""
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    found = []
    for node in expressions(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        for changed in changes(node):
            after = ast.unparse(ast.fix_missing_locations(copy.deepcopy(changed)))
            found.append(Mutant(node.lineno, start, end, ast.unparse(node), after))
    return sorted(set(found), key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def mirrored(file: Path) -> Path:
    """The test file of a module: tests/metrics/test_ranking.py of src/softkin/metrics/ranking.py."""
    inner = file.relative_to(ROOT / "src" / "softkin")
    return ROOT / "tests" / inner.parent / f"test_{inner.name}"


class Bench:
    """A copy of the sources in which a file is changed and tested."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.timeout = timeout
        self.sound: set[tuple[str, str]] = set()  # tests that pass without a mutant
        self.sources = folder / "src"
        shutil.copytree(ROOT / "src", self.sources, ignore=shutil.ignore_patterns("__pycache__"))
        os.environ["PYTHONPATH"] = str(self.sources)  # of processes that tests start
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
        sys.path.insert(0, str(self.sources))

    def passes(self, file: Path, source: bytes, tests: list[str]) -> bool:
        """Whether the tests pass with this source of the file: the quick ones first, then the slow ones."""
        for chosen, test in product(("not slow", "slow"), tests):
            if not self._tested(file, source, chosen, test):
                if (test, chosen) not in self.sound:
                    if not self._tested(file, file.read_bytes(), chosen, test):
                        sys.exit(f"{test} ({chosen}) fails without any mutant.")
                    self.sound.add((test, chosen))
                return False
        return True

    def _tested(self, file: Path, source: bytes, chosen: str, test: str) -> bool:
        changed = self.sources / file.relative_to(ROOT / "src")
        for compiled in (changed.parent / "__pycache__").glob(f"{changed.stem}.*"):
            compiled.unlink()
        changed.write_bytes(source)
        child = os.fork()
        if child == 0:
            _test(chosen, test)
        try:
            return _ended(child, self.timeout) in (0, 5)  # 5: there are no such tests
        finally:
            changed.write_bytes(file.read_bytes())


def _test(chosen: str, test: str) -> NoReturn:
    """In a child: run the tests in silence, and end with their exit code."""
    try:
        os.setsid()  # so that what the tests start ends with them
        os.chdir(ROOT)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        import pytest

        code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", chosen, test]))
    except BaseException:
        code = 70
    os._exit(code)


def _ended(child: int, seconds: float) -> int | None:
    """The exit code of a child; it is killed if it takes longer than so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def modules(path: Path) -> list[Path]:
    """The file, or the modules of a folder whose formulas have a test file of the same name."""
    return [path] if path.is_file() else [file for file in sorted(path.rglob("*.py")) if mirrored(file).is_file()]


def main() -> int:
    """Test mutants of the files that are named; 1 if any survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="modules or folders below src/softkin")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="what to run (the test file of the same name)")
    parser.add_argument("--count", type=int, metavar="N", help="so many mutants, drawn at random (all)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the draw (0)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="where each verdict is kept, and not tried again")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for one mutant (300)")
    arguments = parser.parse_args()
    files: list[Path] = []
    for path in (path.resolve() for path in arguments.paths):
        if not path.is_relative_to(ROOT / "src" / "softkin") or not path.exists():
            parser.error(f"PATH must lie below src/softkin, got {path}.")
        files += modules(path)
    tests = {file: arguments.tests or [str(mirrored(file)), str(GOLDEN)] for file in files}
    for path in {path for paths in tests.values() for path in paths}:
        if not Path(path.split("::")[0]).exists():
            parser.error(f"there is no {path}; say with --tests what to run.")
    chosen = [(file, mutant) for file in files for mutant in mutants(file.read_text())]
    if arguments.count is not None and arguments.count < len(chosen):
        chosen = random.Random(arguments.seed).sample(chosen, arguments.count)
    tried: list[bool] = []
    known = dict(_verdicts(arguments.log))
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), arguments.timeout)
        import scipy.stats  # noqa: F401  each child would take seconds to load these
        import sklearn.linear_model
        import sklearn.metrics  # noqa: F401
        import torch
        import torch._dynamo

        torch.set_num_threads(1)
        for file, mutant in chosen:
            place = f"{file.relative_to(ROOT / 'src' / 'softkin')}:{mutant.line}: {mutant.before} → {mutant.after}"
            if place not in known:
                known[place] = not bench.passes(file, mutant.applied(file.read_bytes()), tests[file])
                if arguments.log:
                    with arguments.log.open("a") as kept:
                        kept.write(json.dumps([place, known[place]]) + "\n")
            tried.append(known[place])
            if not known[place]:
                print(f"survives: {place}", flush=True)
    print(f"{len(tried)} mutants, {sum(tried)} killed, {len(tried) - sum(tried)} survived")
    return int(not all(tried))


def _verdicts(log: Path | None) -> Iterator[tuple[str, bool]]:
    """What an earlier run found: (mutant, whether it was killed)."""
    for line in log.read_text().splitlines() if log and log.exists() else []:
        yield tuple(json.loads(line))


if __name__ == "__main__":
    sys.exit(main())
