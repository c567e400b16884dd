"""What sources of similarity cost: loading word vectors, neighbours of many classes, the audition.

python benchmarks/similarity.py [--small] [--only load,neighbours,audition,wordnet,nll] [--data ../shared/data]

Peers run in the same process and on the same data: gensim's `load_word2vec_format` for word vectors, scikit-learn's
brute force and faiss-cpu's `IndexFlatL2` for neighbours. A peer that is not installed leaves its cell empty. `nll` asks
whether the audition's order predicts the order of trained networks' NLL, on frozen features
(`benchmarks/frozen_features.py` makes them: --features FOLDER).
"""

import argparse
import gzip
import importlib.util
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{count} 100\n")
            file.writelines(f"{line}\n" for line in lines)
            for number in range(len(lines), count):
                values = " ".join(f"{x:.5f}" for x in rng.normal(size=100))
                file.write(f"noise{number} {values}\n")
        os.environ["SOFTKIN_CACHE"] = str(Path(folder) / "cache")
        time.sleep(2.5)  # a file that has just changed is not trusted to stay
        names = [line.partition(" ")[0] for line in lines[:1000]]
        first, _ = seconds(lambda: WordVectors.load(path).rows(names))
        later, rows = seconds(lambda: WordVectors.load(path).rows(names))
        peer = None
        if importlib.util.find_spec("gensim"):
            from gensim.models import KeyedVectors

            peer, keyed = seconds(lambda: KeyedVectors.load_word2vec_format(str(path)))
            assert np.allclose(keyed[names], rows, atol=1e-6)
        row(f"first load of {count:,} × 100 as text", first, {"gensim": peer}, "reach ≥ 4×")
        row("later load and look-up of 1,000 names", later, {"gensim": peer}, "reach ≥ 100×, ≤ 50 ms")


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
    sparse, _ = seconds(lambda: similarity.from_vectors(x, 2.0, top_m=32))
    row(f"similarity with top_m=32 of {count:,} × 128", sparse, {}, f"{peak():.2f} GiB at most so far")


def wordnet(arguments: argparse.Namespace) -> None:
    from softkin import distances, similarity
    from softkin.distances.wordnet import WordNet

    nouns = list(WordNet().nouns())
    step = 40 if arguments.small else max(1, len(nouns) // 21_841)
    wnids = nouns[::step][:21_841]

    def whole() -> Any:
        taxonomy, names = WordNet().above(wnids)
        return similarity.from_blocks(len(wnids), taxonomy.rows(names, "lca"), 1.0, top_m=32)

    assert distances.SOURCES
    time_taken, _ = seconds(whole)
    row(f"{len(wnids):,} WordNet synsets, lca, top_m=32", time_taken, {}, f"{peak():.2f} GiB at most so far")


def audition(arguments: argparse.Namespace) -> None:
    from softkin import audition as module
    from softkin import similarity

    k = 100 if arguments.small else 1000
    generator = torch.Generator().manual_seed(0)
    sources = {str(n): torch.rand(k, k, generator=generator, dtype=torch.float64) for n in range(6)}
    confusions = module.Confusions(similarity.mixture(list(sources.values())[:3], [0.5, 0.3, 0.2]), "three of them")
    taken, _ = seconds(lambda: module.audition(sources, confusions, resamples=1000))
    row(f"audition of 6 sources, K = {k}, 1,000 resamples", taken, {}, f"reach ≤ 10 s, ≤ 1 GiB; {peak():.2f} GiB")


def nll(arguments: argparse.Namespace) -> None:
    """The NLL of networks trained with each source at its β, beside the audition's cross-entropy."""
    from softkin import audition as module
    from softkin import distances, losses, similarity

    if arguments.features is None:
        print("nll needs --features FOLDER with cifar100.npz")
        return
    with np.load(arguments.features / "cifar100.npz") as file:
        print(f"{arguments.features / 'cifar100.npz'} holds {', '.join(file.files)}")
        x, y = torch.from_numpy(file["X"]).float(), torch.from_numpy(file["y"]).long()
        names = [str(name) for name in file["names"]]
    with np.load(arguments.data / "human" / "cifar100n_human_labels.npz") as file:
        human = module.confusions_of_labels(file["clean_label"], file["noisy_label"], num_classes=100)
    matrices = {
        "minilm": distances.from_words(names),
        "glove": distances.from_words(names, "glove"),
        "tree": distances.from_taxonomy(arguments.data / "taxonomy" / "cifar100-parent-child.csv", names),
    }
    judged = {candidate.name: candidate for candidate in module.audition(matrices, human, mixture=False).candidates}
    x = (x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-6)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    half = len(x) // 2
    train, test = order[:half], order[half:]
    for name, matrix in matrices.items():
        values = []
        for seed in range(1 if arguments.small else 5):
            torch.manual_seed(seed)
            model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, 100))
            loss_fn = losses.ClassSimilarityLoss(similarity.from_distances(matrix, judged[name].beta), alpha=0.1)
            optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
            for _ in range(2 if arguments.small else 30):
                for batch in train[torch.randperm(half)].split(128):
                    optimiser.zero_grad()
                    loss_fn(model(x[batch]), y[batch]).backward()
                    optimiser.step()
            with torch.no_grad():
                values.append(float(torch.nn.functional.cross_entropy(model(x[test]), y[test])))
        mean, deviation = np.mean(values), np.std(values)
        print(f"| {name} | audition {judged[name].cross_entropy.value:.3f} | NLL {mean:.4f} ± {deviation:.4f} |")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--only", default="load,neighbours,audition,wordnet")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--features", type=Path)
    arguments = parser.parse_args()
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads\n\n"
        "| what | softkin | peers | |\n| --- | --- | --- | --- |"
    )
    parts = {"load": load, "neighbours": neighbours, "audition": audition, "wordnet": wordnet, "nll": nll}
    for name in arguments.only.split(","):
        parts[name](arguments)


if __name__ == "__main__":
    main()
