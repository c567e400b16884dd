"""Structured scaling, with and without class similarity, on 20 random halves of each network in ../shared/data/logits.

    python benchmarks/structured.py --records structured.jsonl --output docs/structured.md

Half of the samples are fitted on, half measured. Each (network, split) is one line of the records, written when it is
done: a run that was stopped goes on where it ended. With two threads about a minute a split of CIFAR-100.
"""

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from softkin import calibrators, distances, files, metrics, similarity
from softkin.calibrators import StructuredMatrixScaling, StructuredVectorScaling
from softkin.calibrators.ensemble import Members, nll_weights
from softkin.calibrators.structured import KINSHIP, confusions
from softkin.calibrators.temperature import below_top

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NETWORKS = {
    "ResNet-20, CIFAR-10": "resnet20-cifar10-logits",
    "ResNet-32, CIFAR-100": "resnet32-cifar100-logits",
    "DenseNet-BC-100, CIFAR-100": "densenet-bc-100-cifar100-probs",
}
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DIRICHLET_SPLITS = 2  # its search takes as long as all the others together
METHODS = {
    "TS": "temperature scaling",
    "ETS": "ensemble temperature scaling (NLL)",
    "ETS-kin": "ETS with kin-smoothed scores in place of the uniform ones",
    "vector": "vector scaling",
    "Dir-ODIR": "Dirichlet, λ = μ by cross-validation",
    "SVS": "structured vector, published prior (λ = 1)",
    "SVS-cv": "structured vector, λ by cross-validation",
    "SMS": "structured matrix, published prior (λ = 1)",
    "SMS-cv": "structured matrix, λ by cross-validation",
    "SMS-words": "structured matrix, similarity of the class names",
    "SMS-outputs": "structured matrix, similarity by the model's own confusions",
}


class AlwaysKin(StructuredMatrixScaling):
    """The search without ω = 0: the places that another search has not tried yet."""

    def _kinships(self, num_classes: int) -> tuple[float, ...]:
        return (KINSHIP,)


def network(file: str) -> tuple[Tensor, Tensor, list[str]]:
    """Logits in float64, labels, and the names of the classes."""
    with np.load(DATA / "logits" / f"{file}.npz", allow_pickle=False) as content:
        y = torch.from_numpy(content["labels"].astype(np.int64))
        if "logits" in content:
            z = torch.from_numpy(content["logits"].astype(np.float64))
        else:
            z = torch.from_numpy(content["probs"].astype(np.float64)).clamp(min=1e-12).log()
    if z.shape[1] == len(CIFAR10):
        return z, y, list(CIFAR10)
    schema = pq.read_schema(DATA / "cifar100" / "test-00000-of-00001.parquet")
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    return z, y, list(features["fine_label"]["names"])


def kin_ensemble(z: Tensor, y: Tensor, new: Tensor, s: Tensor, objective: str) -> Tensor:
    """ETS whose third member is the scaled scores with each class's mass moved to its kin: softmax(z/T)·S."""
    t = calibrators.TemperatureScaling(objective=objective).fit(z, y).temperature_  # type: ignore[arg-type]
    scaled, raw = torch.softmax(z / t, dim=1), torch.softmax(z, dim=1)
    members = torch.stack([scaled, raw, scaled @ s])
    own = members.gather(2, y[None, :, None].expand(3, -1, -1))[:, :, 0].T.contiguous()
    if objective == "nll":
        base = Members.of(*below_top(z, y), y, 1 / t)
        w = nll_weights(Members(own, base.products, base.nll, base.slopes, base.num_classes))[0]
    else:
        from softkin.calibrators.ensemble import quadratic_minimum

        flat = members.reshape(3, -1)
        w = torch.from_numpy(quadratic_minimum((flat @ flat.T / len(z)).numpy(), own.mean(dim=0).numpy()))
    new_scaled = torch.softmax(new / t, dim=1)
    return w[0] * new_scaled + w[1] * torch.softmax(new, dim=1) + w[2] * (new_scaled @ s)


def split(z: Tensor, y: Tensor, names: list[str], seed: int) -> dict[str, dict[str, float]]:
    """Each method's NLL, Brier score, ECE and accuracy on the half that it was not fitted on."""
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
    fit, test = order[: len(z) // 2], order[len(z) // 2 :]
    zf, yf, zt, yt = z[fit], y[fit], z[test], y[test]
    words = similarity.from_distances(distances.from_words(names))
    outputs = confusions(torch.softmax(zf, dim=1), yf)

    def fitted(cal: calibrators.Calibrator) -> Tensor:
        p: Tensor = cal.fit(zf, yf).predict_proba(zt)
        return p

    by_words = StructuredMatrixScaling(similarity=words)
    by_outputs = AlwaysKin(similarity="outputs")
    plain: dict[str, Callable[[], Tensor]] = {
        "uncalibrated": lambda: torch.softmax(zt, dim=1),
        "TS": lambda: fitted(calibrators.TemperatureScaling()),
        "ETS-mse": lambda: fitted(calibrators.EnsembleTemperatureScaling()),
        "ETS": lambda: fitted(calibrators.EnsembleTemperatureScaling(objective="nll")),
        "ETS-kin-mse": lambda: kin_ensemble(zf, yf, zt, words, "mse"),
        "ETS-kin": lambda: kin_ensemble(zf, yf, zt, words, "nll"),
        "ETS-kin-outputs": lambda: kin_ensemble(zf, yf, zt, outputs, "nll"),
        "vector": lambda: fitted(calibrators.VectorScaling()),
        **({"Dir-ODIR": lambda: fitted(calibrators.DirichletCalibration())} if seed < DIRICHLET_SPLITS else {}),
        "SVS": lambda: fitted(StructuredVectorScaling(strength=1.0)),
        "SVS-cv": lambda: fitted(StructuredVectorScaling()),
        "SMS": lambda: fitted(StructuredMatrixScaling(strength=1.0)),
        "SMS-words": lambda: fitted(by_words),
        "SMS-outputs-always": lambda: fitted(by_outputs),
    }
    results: dict[str, dict[str, float]] = {}

    def measure(key: str, call: Callable[[], Tensor]) -> None:
        start = time.perf_counter()
        p = call()
        results[key] = {
            "nll": metrics.nll(p, yt),
            "brier": metrics.brier(p, yt),
            "ece": metrics.ece_hist(p, yt),
            "accuracy": metrics.accuracy(p, yt),
            "seconds": time.perf_counter() - start,
        }

    for key, call in plain.items():
        measure(key, call)
    # The search without similarity is that with it at ω = 0; the one by outputs has those places too.
    rows = [row for row in by_words.sweep() if row.kinship == 0]
    without = min(rows, key=lambda row: row.nll)
    measure("SMS-cv", lambda: fitted(StructuredMatrixScaling(strength=without.strength)))
    kin = min((row for row in by_outputs.sweep()), key=lambda row: row.nll)
    if kin.nll < without.nll and math.isfinite(kin.strength):
        results["SMS-outputs"] = results["SMS-outputs-always"]
    else:
        results["SMS-outputs"] = results["SMS-cv"]
    for key, strength, kinship in (
        ("SMS-cv", without.strength, 0.0),
        ("SMS-words", by_words.strength_, by_words.kinship_),
        ("SMS-outputs-always", by_outputs.strength_, by_outputs.kinship_),
    ):
        results[key] = results[key] | {"strength": min(strength, 1e9), "kinship": kinship}
    return results


def differences(records: list[dict], a: str, b: str, metric: str) -> tuple[float, float, int]:
    """Mean and standard deviation over splits of a − b, and in how many splits a is less."""
    d = np.array([record["results"][a][metric] - record["results"][b][metric] for record in records])
    return float(d.mean()), float(d.std(ddof=1)) if len(d) > 1 else math.nan, int((d < 0).sum())


def table(records: list[dict]) -> list[str]:
    """The Markdown of all networks."""
    lines: list[str] = []
    for name in NETWORKS:
        mine = [record for record in records if record["network"] == name]
        if not mine:
            continue
        lines += ["", f"### {name} ({len(mine)} splits)", "", "| method | NLL | Brier | ECE % | accuracy % |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for key in ("uncalibrated", *METHODS):
            rows = [record["results"][key] for record in mine if key in record["results"]]
            mean = {metric: float(np.mean([row[metric] for row in rows])) for metric in rows[0]}
            label = f"{key}: {METHODS[key]}" if key in METHODS else key
            label += f" ({len(rows)} splits only)" if len(rows) < len(mine) else ""
            lines.append(
                f"| {label} | {mean['nll']:.4f} | {mean['brier']:.4f} | {100 * mean['ece']:.2f} "
                f"| {100 * mean['accuracy']:.2f} |"
            )
        lines += [
            "",
            "| NLL of … minus that of … | mean | deviation over splits | less in |",
            "| --- | --- | --- | --- |",
        ]
        pairs = [
            ("SMS", "TS"), ("SMS-cv", "SMS"), ("SMS-words", "SMS-cv"), ("SMS-outputs", "SMS-cv"), ("SMS-outputs", "TS"),
            ("SVS-cv", "SVS"), ("ETS-kin", "ETS"), ("ETS-kin-outputs", "ETS"),
        ]  # fmt: skip
        for a, b in pairs:
            d, spread, less = differences(mine, a, b, "nll")
            lines.append(f"| {a} − {b} | {d:+.5f} | {spread:.5f} | {less} of {len(mine)} |")
        d, spread, less = differences(mine, "ETS-kin-mse", "ETS-mse", "brier")
        lines.append(
            f"| Brier: ETS-kin − ETS, both by squared error | {d:+.6f} | {spread:.6f} | {less} of {len(mine)} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True, help="one JSON line for each split that is done")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only-table", action="store_true", help="fit nothing, print the table of the records")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    text = arguments.records.read_text() if arguments.records.exists() else ""
    records = [json.loads(line) for line in text.splitlines()]
    done = {(record["network"], record["seed"]) for record in records}
    data = {} if arguments.only_table else {name: network(file) for name, file in NETWORKS.items()}
    for seed in range(arguments.splits):  # all networks of a split, so that a part of the run is a fair part
        for name, (z, y, names) in data.items():
            if (name, seed) in done:
                continue
            start = time.perf_counter()
            record = {"network": name, "seed": seed, "results": split(z, y, names, seed)}
            records.append(record)
            files.write(arguments.records, "".join(json.dumps(r) + "\n" for r in records).encode())
            print(f"{name}, split {seed}: {time.perf_counter() - start:.0f} s", flush=True)
    print("\n".join(table(records)))


if __name__ == "__main__":
    main()
