"""Whether the audition's order of sources predicts the order of the NLL of networks trained with them.

python benchmarks/frozen_features.py --data ../shared/data --output features/   once
python benchmarks/audition_nll.py --features features/ --output results/ [--data cifar100,banking77] [--seeds 10]

Sources are judged against the outputs of one network with one-hot labels on half of the validation rows (and, for
CIFAR-100, against people's labels). With each source, at the β of that audition, perceptrons are trained on frozen
features, at α = 0.1 and with α = "auto"; the recipe is that of ``auto_alpha.py``. The outputs that serve as a source
are of the other half of the validation rows. Each source leaves a JSON file in the output folder, and is not repeated.
docs/choosing.md has what was measured with it.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from auto_alpha import Data, Setting, Training, load, scored, train
from softkin import audition, distances, similarity

NONE, RENAMED = "none", "minilm, renamed"
WORDNET = {"aquarium_fish": "goldfish", "maple_tree": "maple"}  # names that WordNet does not have
RULES: dict[str, tuple[str, dict[str, float]]] = {"α = 0.1": ("fixed", {"alpha": 0.1}), 'α = "auto"': ("auto", {})}


def baseline(data: Data) -> Tensor:
    """(n, K) outputs of a network with one-hot labels on the validation rows."""
    networks, _ = train(data, Setting("-"), [Training(1000, "fixed", {"alpha": 0.0})], None)
    with torch.no_grad():
        return networks(data.validation.x)[0].double().softmax(dim=1)


def sources(name: str, data: Data, outputs: Tensor, labels: Tensor, shared: Path) -> dict[str, Tensor]:
    """Distances by name: all that there are for these data."""
    matrices = {}
    for vectors in ("minilm", "glove"):
        try:
            matrices[vectors] = distances.from_words(data.names, vectors)
        except ValueError as error:  # a word without a vector
            print(f"{name}: {vectors} is left out: {error}")
    if data.name_vectors is not None:
        rows = data.name_vectors.double()
        matrices["encoder"] = torch.cdist(rows, rows)
    if name == "cifar100":
        matrices |= pixels(shared)
        names = [entry.replace(" ", "_") for entry in data.names]
        matrices["tree"] = distances.from_taxonomy(shared / "taxonomy" / "cifar100-parent-child.csv", names)
        matrices["WordNet, first senses"] = distances.from_taxonomy("wordnet", names, aliases=WORDNET)
    matrices["features"] = distances.from_class_means(data.train.x, data.train.y)
    matrices["outputs"] = distances.from_similarity(similarity.from_outputs(outputs, labels))
    order = torch.randperm(len(data.names), generator=torch.Generator().manual_seed(0))
    matrices[RENAMED] = matrices["minilm"][order][:, order]
    return matrices


def pixels(shared: Path) -> dict[str, Tensor]:
    """Distances of all training images of CIFAR-100, and for L2 of the first 100 a class."""
    from softkin.lab.data import load as load_images

    images = load_images(shared / "cifar100", split="train")
    few = np.concatenate([np.flatnonzero(images.labels == k)[:100] for k in range(100)])
    return {
        "pixels, L1": distances.from_images(images.values, images.labels, p=1),
        "pixels, L2": distances.from_images(images.values[few], images.labels[few], p=2),
    }


def trained(
    folder: Path, name: str, data: Data, source: str, values: Tensor, beta: float, seeds: int
) -> dict[str, Any]:
    """The scores of networks trained with one source, by rule; from the folder if they are there."""
    path = folder / f"{hashlib.sha256(f'{name} {source} {seeds}'.encode()).hexdigest()[:24]}.json"
    if path.exists():
        return json.loads(path.read_text())
    results: dict[str, Any] = {"data": name, "source": source, "beta": beta, "torch": torch.__version__}
    for title, (rule, settings) in RULES.items():
        trainings = [Training(seed, rule, settings) for seed in range(seeds)]
        networks, paths = train(data, Setting(name), trainings, values.float())
        results[title] = [
            {"alpha": line["alpha"][-1], "gap": line["gap"][-1], **scores}
            for line, scores in zip(paths, scored(data, trainings, networks), strict=True)
        ]
    path.write_text(json.dumps(results) + "\n")
    return results


def measure(name: str, arguments: argparse.Namespace) -> None:
    data = load(name, arguments.features)
    outputs, labels = baseline(data), data.validation.y
    half = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)) < len(labels) // 2
    matrices = sources(name, data, outputs[half], labels[half], arguments.shared)
    verdicts = {"outputs": audition.audition(matrices, audition.confusions_of_outputs(outputs[~half], labels[~half]))}
    if name == "cifar100":
        with np.load(arguments.shared / "human" / "cifar100n_human_labels.npz") as file:
            human = audition.confusions_of_labels(file["clean_label"], file["noisy_label"], num_classes=100)
        verdicts["people"] = audition.audition(matrices, human)
    chosen = {candidate.name: candidate for candidate in verdicts["outputs"].candidates}
    k = len(data.names)
    spreads = {NONE: (torch.ones(k, k).fill_diagonal_(0) / (k - 1), 0.0)}
    for source, candidate in chosen.items():
        weights = [candidate.weights.get(part, 0.0) for part in matrices]
        spreads[source] = similarity.mixture(list(matrices.values()), weights), candidate.beta
    results = {
        source: trained(arguments.output, name, data, source, values, beta, arguments.seeds)
        for source, (values, beta) in spreads.items()
    }
    nats = {
        by: {NONE: result.uniform} | {candidate.name: candidate.cross_entropy.value for candidate in result.candidates}
        for by, result in verdicts.items()
    }
    table(name, results, nats)


def table(name: str, results: dict[str, Any], nats: dict[str, dict[str, float]]) -> None:
    columns = [f"nats a row, by {by}" for by in nats]
    columns += [f"{what}, {title}" for title in RULES for what in ("NLL", "NLL then TS", "accuracy")]
    print(f"\n{name}: mean ± standard deviation over {len(next(iter(results.values()))['α = 0.1'])} seeds\n")
    print(f"| source | β | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 2)}")
    for source in sorted(results, key=lambda source: nats["outputs"][source]):
        cells = [f"{values[source]:.3f}" for values in nats.values()]
        for title in RULES:
            runs = results[source][title]
            for values, digits in (
                ([run["nll"] for run in runs], 4),
                ([run["after TS"]["nll"] for run in runs], 4),
                ([100 * run["accuracy"] for run in runs], 1),
            ):
                cells.append(f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}")
        print(f"| {source} | {results[source]['beta']:.2f} | {' | '.join(cells)} |")
    names = list(results)
    rng = np.random.default_rng(0)
    for by, values in nats.items():
        judged_order = [values[source] for source in names]
        for title in RULES:
            for what in ("nll", "after TS"):
                scores = np.array(
                    [
                        [run["nll"] if what == "nll" else run[what]["nll"] for run in results[source][title]]
                        for source in names
                    ]
                )
                draws = rng.integers(scores.shape[1], size=(2000, scores.shape[1]))
                spread = [spearmanr(judged_order, scores[:, draw].mean(axis=1)).statistic for draw in draws]
                low, high = np.quantile(spread, [0.025, 0.975])
                value = spearmanr(judged_order, scores.mean(axis=1)).statistic
                best = min(zip(judged_order, scores.mean(axis=1), names, strict=True), key=lambda entry: entry[0])
                lost = scores[names.index(best[2])] - scores[int(scores.mean(axis=1).argmin())]
                error = 1.96 * lost.std(ddof=1) / len(lost) ** 0.5
                print(
                    f"{name}, by {by}, {title}, {what}: Spearman {value:.2f} ({low:.2f} to {high:.2f} over seeds); the "
                    f"audition's first, {best[2]}, is {lost.mean():.4f} ± {error:.4f} above the lowest NLL"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True, help="what frozen_features.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="a folder of JSON files")
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", default="cifar100,banking77")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in arguments.data.split(","):
        measure(name, arguments)


if __name__ == "__main__":
    main()
