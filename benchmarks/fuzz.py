"""Fuzz every parser of files: how many executions, how many inputs got past the parser, and every failure found.

    python benchmarks/fuzz.py                          all parsers, 100,000 executions each
    python benchmarks/fuzz.py npz tar-gz --runs 5000   some of them
    python benchmarks/fuzz.py --runs 12 --together     few of each, quickly: in one process, at random
    python benchmarks/fuzz.py --list

With atheris installed (pip install atheris) inputs are grown by the coverage of softkin, zipfile, tarfile, json, csv
and pickle; otherwise good files are mutated at random. A failure is any exception but SoftkinError, a crash of the
process, or an execution that takes longer than ten seconds; the input is kept in --output. Images are limited to
65,536 pixels unless SOFTKIN_MAX_PIXELS says otherwise: a few bytes of WebP make a large image that is slow to decode.
"""

import argparse
import collections
import importlib.util
import multiprocessing
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
SLOW = 10.0  # seconds
SEEN = ("softkin", "zipfile", "tarfile", "json", "csv", "pickle", "gzip", "lzma")


def main() -> int:
    """Each parser in a process of its own, since a crash of C code ends it."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("parsers", nargs="*", help="default: all")
    command.add_argument("--runs", type=int, default=100_000)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--engine", choices=["atheris", "random"], help="default: atheris where it is installed")
    command.add_argument("--output", type=Path, default=Path("fuzz-findings"))
    command.add_argument("--together", action="store_true", help="all in one process, which a crash would end")
    command.add_argument("--list", action="store_true")
    arguments = command.parse_args()
    sys.path[:0] = [str(TESTS), str(TESTS / "faults")]
    engine = arguments.engine or ("atheris" if importlib.util.find_spec("atheris") else "random")
    if arguments.list or not arguments.parsers:
        import parsers

        names = list(parsers.PARSERS)
        if arguments.list:
            print("\n".join(names))
            return 0
        arguments.parsers = names
    failed = 0
    for name in arguments.parsers:
        if arguments.together:
            failed += _fuzz(name, arguments.runs, arguments.seed, "random", arguments.output)
            continue
        process = multiprocessing.get_context("spawn").Process(
            target=_alone, args=(name, arguments.runs, arguments.seed, engine, arguments.output)
        )
        process.start()
        process.join()
        if process.exitcode != 0:
            print(
                f"{name:16} ended with {process.exitcode}; the input is {arguments.output / name / 'last'}", flush=True
            )
            failed += 1
    return int(failed > 0)


def _alone(*arguments: Any) -> None:
    """The only work of a process, whose exit code says whether it failed."""
    sys.exit(_fuzz(*arguments))


def _fuzz(name: str, runs: int, seed: int, engine: str, output: Path) -> bool:
    """Whether any input makes the parser fail."""
    sys.path[:0] = [str(TESTS), str(TESTS / "faults")]
    os.environ.setdefault("SOFTKIN_MAX_PIXELS", "65536")
    os.fsync = lambda handle: None  # type: ignore[assignment]
    os.sync = lambda: None  # type: ignore[assignment]
    if engine == "atheris":
        import atheris

        with atheris.instrument_imports(include=list(SEEN)):
            import softkin.lab.data
            import softkin.predictions.reading  # noqa: F401
    import damage
    import numpy as np
    import parsers

    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    last = folder / "last"
    counts: collections.Counter[str] = collections.Counter()
    failures: dict[str, str] = {}
    slowest, started = 0.0, time.monotonic()

    def report() -> None:
        seconds = time.monotonic() - started
        words = "".join(f"\n    {count} × {what}" for what, count in counts.items() if what in failures)
        print(
            f"{name:16} {engine}: {counts['executions']:,} executions, {counts['accepted']:,} accepted, "
            f"{len(failures)} failures, slowest {slowest:.2f} s, {seconds:.0f} s{words}",
            flush=True,
        )

    def once(content: bytes) -> None:
        nonlocal slowest
        counts["executions"] += 1
        last.write_bytes(content)  # a crash of C code leaves it there
        before = time.monotonic()
        try:
            counts["accepted"] += parsers.accepts(name, content)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            _note(f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"[:200], content)
        took = time.monotonic() - before
        slowest = max(slowest, took)
        if took > SLOW:
            _note("slow", content)
        if counts["executions"] == runs:
            report()
            if engine == "atheris":
                os._exit(len(failures) > 0)  # libFuzzer would end the process with its own words

    def _note(what: str, content: bytes) -> None:
        counts[what] += 1
        if what not in failures:
            failures[what] = f"failure-{len(failures)}"
            (folder / failures[what]).write_bytes(content)

    good = parsers.PARSERS[name][1]
    if engine == "atheris":
        corpus = folder / "corpus"
        corpus.mkdir(exist_ok=True)
        (corpus / "good").write_bytes(good)
        options = [f"-seed={seed + 1}", f"-max_len={max(4096, 2 * len(good))}", "-verbosity=0", "-rss_limit_mb=0"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], once)
        atheris.Fuzz()
        return False
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        content = good
        for _ in range(int(rng.integers(1, 5))):
            content = damage.damaged(content, rng) or good
        once(content)
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
