"""Structured scaling, with and without class similarity, on 20 random halves of each network in ../shared/data/logits.

    python benchmarks/structured.py --records structured.json --document docs/structured.md

Half of the samples are fitted on, half measured. The records are written after each split of each network: a run that
was stopped goes on where it ended. All single fits come first (about 10 seconds a split of CIFAR-100 on one core), then
the searches by cross-validation (about half a minute). The searches here have 3 folds and λ from .1 to 10; those of the
library have 5 folds and λ from .03.

The intervals are of the corrected resampled t-test (Nadeau and Bengio, Inference for the Generalization Error, 2003):
all splits share the same samples, so the variance of a mean over J splits is (1/J + n_test/n_fit) times that of a
split, not 1/J times.
"""

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from scipy.stats import t as student
from torch import Tensor

from softkin import calibrators, distances, metrics, similarity
from softkin._io import files
from softkin.calibrators import StructuredMatrixScaling, StructuredVectorScaling
from softkin.calibrators.ensemble import Members, nll_weights
from softkin.calibrators.structured import KINSHIP, STRENGTHS, Scaled, confusions, log_mixture
from softkin.calibrators.temperature import below_top

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NETWORKS = {
    "ResNet-20, CIFAR-10": "resnet20-cifar10-logits",
    "ResNet-32, CIFAR-100": "resnet32-cifar100-logits",
    "DenseNet-BC-100, CIFAR-100": "densenet-bc-100-cifar100-probs",
}
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DIRICHLET_SPLITS = 2  # its search takes as long as all the others together
FOLDS = 3
SEARCHED = (0.1, 0.3, 1.0, 3.0, 10.0)
SEARCHES = ("SVS-cv", "SMS-cv", "SMS-words", "SMS-outputs")
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


TABLES = "## Tables\n"  # where docs/structured.md ends and they begin
Row = dict[str, float]
Record = dict[str, Row]
"""The rows of one split of a network, by method"""


class AlwaysKin(StructuredMatrixScaling):
    """Without ω = 0."""

    def _kinships(self, num_classes: int) -> tuple[float, ...]:
        return (KINSHIP,)


class VectorSearch(StructuredVectorScaling):
    _strengths = SEARCHED


class MatrixSearch(StructuredMatrixScaling):
    _strengths = SEARCHED


class KinSearch(AlwaysKin):
    """The search without ω = 0: the places that another search has not tried yet."""

    _strengths = SEARCHED


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


@dataclass(frozen=True)
class Halves:
    """The samples to fit on and those to measure on, with the similarity of the class names."""

    z: Tensor
    y: Tensor
    new_z: Tensor
    new_y: Tensor
    words: Tensor

    @classmethod
    def of(cls, z: Tensor, y: Tensor, names: list[str], seed: int) -> "Halves":
        order = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))
        fit, test = order[: len(z) // 2], order[len(z) // 2 :]
        return cls(z[fit], y[fit], z[test], y[test], similarity.from_distances(distances.from_words(names)))

    def fitted(self, calibrator: calibrators.Calibrator) -> Row:
        return self.measured(lambda: calibrator.fit(self.z, self.y).predict_proba(self.new_z))

    def measured(self, call: Callable[[], Tensor]) -> Row:
        """NLL, Brier score, ECE and accuracy on the second half."""
        start = time.perf_counter()
        p = call()
        return {
            "nll": metrics.nll(p, self.new_y),
            "brier": metrics.brier(p, self.new_y),
            "ece": metrics.ece_hist(p, self.new_y),
            "accuracy": metrics.accuracy(p, self.new_y),
            "seconds": time.perf_counter() - start,
        }


def single_fits(halves: Halves) -> dict[str, Row]:
    """Everything that takes no search: a row for each method, and for each λ without and with similarity."""
    z, y, new, words = halves.z, halves.y, halves.new_z, halves.words
    outputs = confusions(torch.softmax(z, dim=1), y)
    results = {
        "uncalibrated": halves.measured(lambda: torch.softmax(new, dim=1)),
        "TS": halves.fitted(calibrators.TemperatureScaling()),
        "ETS-mse": halves.fitted(calibrators.EnsembleTemperatureScaling()),
        "ETS": halves.fitted(calibrators.EnsembleTemperatureScaling(objective="nll")),
        "ETS-kin-mse": halves.measured(lambda: kin_ensemble(z, y, new, words, "mse")),
        "ETS-kin": halves.measured(lambda: kin_ensemble(z, y, new, words, "nll")),
        "ETS-kin-outputs": halves.measured(lambda: kin_ensemble(z, y, new, outputs, "nll")),
        "vector": halves.fitted(calibrators.VectorScaling()),
        "SVS": halves.fitted(StructuredVectorScaling(strength=1.0)),
    }
    scaled = Scaled.of(z, y)
    x = log_mixture(new, scaled.temperature, scaled.mixing)
    for key, cal in (
        ("none", StructuredMatrixScaling()),
        ("words", AlwaysKin(similarity=words)),
        ("outputs", AlwaysKin(similarity="outputs")),
    ):
        for (strength, _), end in cal._path(scaled):
            p = torch.softmax(cal._logits(x, end.parameters), dim=1)
            results[f"{key} {strength:g}"] = halves.measured(lambda p=p: p)  # type: ignore[misc]
    results["SMS"] = results["none 1"]
    return results


def searches(halves: Halves, *, dirichlet: bool) -> dict[str, Row]:
    """What chooses its strength by cross-validation."""
    by_words = MatrixSearch(similarity=halves.words, folds=FOLDS)
    by_outputs = KinSearch(similarity="outputs", folds=FOLDS)
    results = {"SVS-cv": halves.fitted(VectorSearch(folds=FOLDS)), "SMS-words": halves.fitted(by_words)}
    if dirichlet:
        results["Dir-ODIR"] = halves.fitted(calibrators.DirichletCalibration())
    # The search without similarity is that with it at ω = 0; the one by outputs has those places too.
    without = min((row for row in by_words.sweep() if row.kinship == 0), key=lambda row: row.nll)
    results["SMS-cv"] = halves.fitted(StructuredMatrixScaling(strength=without.strength))
    always = halves.fitted(by_outputs)
    kin = min(by_outputs.sweep(), key=lambda row: row.nll)
    chosen = kin.nll < without.nll and math.isfinite(kin.strength)
    results["SMS-outputs"] = always if chosen else dict(results["SMS-cv"])
    for key, strength, kinship in (
        ("SMS-cv", without.strength, 0.0),
        ("SMS-words", by_words.strength_, by_words.kinship_),
        ("SMS-outputs", kin.strength if chosen else without.strength, KINSHIP if chosen else 0.0),
    ):
        results[key] |= {"strength": min(strength, 1e9), "kinship": kinship}  # JSON has no infinity
    return results


@dataclass(frozen=True)
class Paired:
    """a − b over the splits that have both."""

    mean: float
    low: float
    high: float
    less: int
    count: int

    @classmethod
    def of(cls, records: list[Record], a: str, b: str, metric: str) -> "Paired":
        d = np.array([record[a][metric] - record[b][metric] for record in records if a in record and b in record])
        if len(d) < 2:
            return cls(float(d.mean()) if len(d) else math.nan, math.nan, math.nan, int((d < 0).sum()), len(d))
        # The halves to fit and to measure on are equally large.
        half = float(student.ppf(0.975, len(d) - 1) * d.std(ddof=1) * (1 / len(d) + 1) ** 0.5)
        mean = float(d.mean())
        return cls(mean, mean - half, mean + half, int((d < 0).sum()), len(d))

    def text(self, digits: int = 5) -> str:
        ends = "" if math.isnan(self.low) else f" ({self.low:+.{digits}f} to {self.high:+.{digits}f})"
        return f"{self.mean:+.{digits}f}{ends} | {self.less} of {self.count}"


PAIRS = (
    ("SMS", "TS"), ("SMS-cv", "SMS"), ("SMS-words", "SMS-cv"), ("SMS-outputs", "SMS-cv"), ("SMS-outputs", "TS"),
    ("SVS-cv", "SVS"), ("ETS-kin", "ETS"), ("ETS-kin-outputs", "ETS"),
)  # fmt: skip


def table(name: str, records: list[Record]) -> list[str]:
    """The Markdown of a network."""
    lines = ["", f"### {name}", "", "| method | NLL | NLL − that of TS | Brier | ECE % | accuracy % | splits |"]
    lines.append("|" + " --- |" * 7)
    for key in ("uncalibrated", *METHODS):
        rows = [record[key] for record in records if key in record]
        if rows:
            mean = {m: float(np.mean([row[m] for row in rows])) for m in ("nll", "brier", "ece", "accuracy")}
            label = f"{key}: {METHODS[key]}" if key in METHODS else key
            paired = Paired.of(records, key, "TS", "nll").mean
            lines.append(
                f"| {label} | {mean['nll']:.4f} | {paired:+.4f} | {mean['brier']:.4f} "
                f"| {100 * mean['ece']:.2f} | {100 * mean['accuracy']:.2f} | {len(rows)} |"
            )
    lines += ["", "NLL of structured matrices at fixed λ:", ""]
    lines += ["| λ | no similarity | names − none | less in | outputs − none | less in |", "|" + " --- |" * 6]
    for strength in STRENGTHS:
        key = f"{strength:g}"
        rows = [record[f"none {key}"]["nll"] for record in records if f"none {key}" in record]
        cells = [f"{np.mean(rows):.4f}" if rows else "–"]
        cells += [Paired.of(records, f"{kind} {key}", f"none {key}", "nll").text() for kind in ("words", "outputs")]
        lines.append(f"| {key} | " + " | ".join(cells) + " |")
    lines += ["", "| NLL of … minus that of … | mean (95 % interval) | less in |", "| --- | --- | --- |"]
    lines += [f"| {a} − {b} | {Paired.of(records, a, b, 'nll').text()} |" for a, b in PAIRS]
    brier = Paired.of(records, "ETS-kin-mse", "ETS-mse", "brier").text(6)
    lines.append(f"| Brier: ETS-kin − ETS, both by squared error | {brier} |")
    for key in SEARCHES[1:]:
        rows = [record[key] for record in records if "strength" in record.get(key, {})]
        places = sorted({(row["strength"], row["kinship"]) for row in rows})
        counts = [sum((row["strength"], row["kinship"]) == place for row in rows) for place in places]
        words = (
            ("TS" if strength > 1e8 else f"λ = {strength:g}") + (f" with ω = {kinship:g}" if kinship else "")
            for strength, kinship in places
        )
        listed = ", ".join(f"{word} {count} times" for word, count in zip(words, counts, strict=True))
        lines += ["", f"{key} chose {listed}."] if rows else []
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True, help="JSON of the splits that are done")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--no-searches", action="store_true", help="only what takes a single fit")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no split after these")
    parser.add_argument("--document", type=Path, help="replace the tables at the end of this Markdown")
    parser.add_argument("--only-table", action="store_true", help="fit nothing, print the table of the records")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    done: dict[str, dict[str, Record]] = {name: {} for name in NETWORKS}
    if arguments.records.exists():
        done |= json.loads(arguments.records.read_text())
    stages: list[tuple[str, Callable[[Halves, int, Record], Record]]] = [
        ("SVS", lambda halves, *_: single_fits(halves))
    ]
    if not arguments.no_searches:
        stages.append(
            (
                "SMS-cv",
                lambda halves, seed, record: searches(
                    halves, dirichlet=seed < DIRICHLET_SPLITS and "Dir-ODIR" not in record
                ),
            )
        )
    data = {} if arguments.only_table else {name: network(file) for name, file in NETWORKS.items()}
    for last, stage in stages:  # all single fits first: they are quick
        for seed in range(arguments.splits):
            for name, content in data.items():
                record = done[name].setdefault(str(seed), {})
                if last in record or time.perf_counter() - began > arguments.seconds:
                    continue
                start = time.perf_counter()
                record |= stage(Halves.of(*content, seed), seed, record)
                files.write(arguments.records, json.dumps(done).encode())
                print(f"{name}, split {seed}, {last}: {time.perf_counter() - start:.0f} s", flush=True)
    text = "\n".join(line for name, records in done.items() for line in table(name, list(records.values())))
    print(text)
    if arguments.document:
        head, _, _ = arguments.document.read_text().partition(TABLES)
        arguments.document.write_text(f"{head}{TABLES}{text}\n")


if __name__ == "__main__":
    main()
