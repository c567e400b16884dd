"""What sources of similarity cost: loading word vectors, neighbours of many classes, the audition.

python benchmarks/similarity.py [--small] [--only load,neighbours,vectors,audition,wordnet] [--data ../shared/data]

Each part runs in a process of its own, so that its peak memory is its own. Peers run in that process and on the same
data: gensim's `load_word2vec_format` for word vectors, scikit-learn's brute force and faiss-cpu's `IndexFlatL2` for
neighbours. A peer that is not installed leaves its cell empty.
"""

import argparse
import gzip
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def row(what: str, ours: float, peers: dict[str, float | None], note: str = "") -> None:
    ratios = ", ".join(f"{name} {t:.3g} s = {t / ours:.1f}×" for name, t in peers.items() if t is not None)
    print(f"| {what} | {ours:.3g} s | {ratios or '–'} | {note} |", flush=True)


def load(arguments: argparse.Namespace) -> None:
    """Real vectors plus noise as a word2vec text file: first load, then later loads with 1,000 look-ups."""
    from softkin.word_vectors import WordVectors

    count = 5_000 if arguments.small else 400_000
    rng = np.random.default_rng(0)
    with gzip.open(arguments.data / "vectors" / "glove-6b-100d-20k.txt.gz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file][:count]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.txt"
        with open(path, "wb") as file:
            file.write(f"{count} 100\n".encode())
            file.writelines(f"{line}\n".encode() for line in lines)
            write_noise(file, len(lines), count, rng)
        os.environ["SOFTKIN_CACHE"] = str(Path(folder) / "cache")
        time.sleep(2.5)  # a file that has just changed is not trusted to stay
        names = [line.partition(" ")[0] for line in lines[:1000]]
        first, _ = seconds(lambda: WordVectors.load(path).rows(names))
        later, rows = min(
            (seconds(lambda: WordVectors.load(path).rows(names)) for _ in range(5)), key=lambda run: run[0]
        )
        peer = None
        if importlib.util.find_spec("gensim"):
            from gensim.models import KeyedVectors

            peer, keyed = seconds(lambda: KeyedVectors.load_word2vec_format(str(path)))
            assert np.allclose(keyed[names], rows, atol=1e-6)
        row(f"first load of {count:,} × 100 as text", first, {"gensim": peer}, "reach ≥ 4×")
        row("later load and look-up of 1,000 names, best of 5", later, {"gensim": peer}, "reach ≥ 100×, ≤ 50 ms")


def write_noise(file: IO[bytes], start: int, stop: int, rng: np.random.Generator) -> None:
    """Lines of a word and 100 numbers with five digits."""
    import pyarrow as pa
    from pyarrow import csv

    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    for first in range(start, stop, 20_000):
        numbers = np.arange(first, min(first + 20_000, stop))
        values = np.round(rng.normal(size=(len(numbers), 100)), 5)
        columns = [pa.array([f"noise{number}" for number in numbers]), *map(pa.array, values.T)]
        csv.write_csv(pa.table(columns, names=[str(place) for place in range(101)]), file, options)


def neighbours(arguments: argparse.Namespace) -> None:
    from sklearn.neighbors import NearestNeighbors

    from softkin import similarity

    count = 3_000 if arguments.small else 100_000
    x = np.random.default_rng(0).normal(size=(count, 128)).astype(np.float32)
    ours, (indices, _) = seconds(lambda: similarity.nearest(x, 32))
    brute, actual = seconds(
        lambda: NearestNeighbors(n_neighbors=33, algorithm="brute").fit(x).kneighbors(x, return_distance=False)
    )
    same = (indices.numpy() == actual[:, 1:]).mean()
    faiss_seconds = None
    if importlib.util.find_spec("faiss"):
        import faiss

        index = faiss.IndexFlatL2(128)
        index.add(x)
        faiss_seconds, _ = seconds(lambda: index.search(x, 33))
    peers = {"scikit-learn": brute, "faiss": faiss_seconds}
    row(f"top-32 of {count:,} × 128", ours, peers, f"reach ≥ 1.5× scikit-learn; {100 * same:.3f} % the same")


def vectors(arguments: argparse.Namespace) -> None:
    from softkin import similarity

    for count in (2_000, 3_000) if arguments.small else (21_841, 100_000):
        x = np.random.default_rng(0).normal(size=(count, 128)).astype(np.float32)
        before = peak()
        taken, _ = seconds(lambda x=x: similarity.from_vectors(x, 2.0, top_m=32))  # type: ignore[misc]
        row(f"similarity with top_m=32 of {count:,} × 128", taken, {}, f"{peak():.2f} GiB; {before:.2f} before")


def wordnet(arguments: argparse.Namespace) -> None:
    from softkin import similarity
    from softkin.distances.tree_files import WordNet

    nouns = list(WordNet().nouns())
    step = 40 if arguments.small else max(1, len(nouns) // 21_841)
    wnids = nouns[::step][:21_841]

    def whole() -> Any:
        taxonomy, names = WordNet().above(wnids)
        return similarity.from_blocks(len(wnids), taxonomy.rows(names, "lca"), 1.0, top_m=32)

    taken, _ = seconds(whole)
    row(f"{len(wnids):,} WordNet synsets, lca, top_m=32", taken, {}, f"{peak():.2f} GiB")


def audition(arguments: argparse.Namespace) -> None:
    from softkin import audition as module
    from softkin import similarity

    k = 100 if arguments.small else 1000
    generator = torch.Generator().manual_seed(0)
    sources = {str(n): torch.rand(k, k, generator=generator, dtype=torch.float64) for n in range(6)}
    confusions = module.Confusions(similarity.mixture(list(sources.values())[:3], [0.5, 0.3, 0.2]), "three of them")
    taken, _ = seconds(lambda: module.audition(sources, confusions, resamples=1000))
    row(f"audition of 6 sources, K = {k}, 1,000 resamples", taken, {}, f"reach ≤ 10 s, ≤ 1 GiB; {peak():.2f} GiB")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


PARTS = {"load": load, "neighbours": neighbours, "vectors": vectors, "audition": audition, "wordnet": wordnet}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if len(parts) == 1:
        PARTS[parts[0]](arguments)
        return
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads\n\n"
        "| what | softkin | peers | |\n| --- | --- | --- | --- |",
        flush=True,
    )
    for part in parts:
        command = [sys.executable, __file__, "--only", part, "--data", str(arguments.data)]
        subprocess.run([*command, *(["--small"] if arguments.small else [])], check=True)


if __name__ == "__main__":
    main()
