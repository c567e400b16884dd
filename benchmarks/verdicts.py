"""How often a study calls equal methods different, and how often it sees a difference that is there.

python benchmarks/verdicts.py [--studies 400]           hours; with noise of samples that seeds share
python benchmarks/verdicts.py --training [--studies 3000]   a minute; training noise alone, many studies at once

Every study is a set of numbers of M methods on S seeds, with training noise of one of several patterns and, in half of
them, noise of test samples that all seeds share. "Wrong" is the share of studies of equal methods that call any two
different, for the worst of the patterns: an estimate that is the largest of many, and so too high. "Seen" is the share
of studies in which a method that is worse by 2, 3, 4 and 6 standard deviations of training is called worse.

Then calibrated methods, whose errors over 15 bins differ only by their number of distinct scores; and the records of
the digits in results/records, with the methods of each seed in random order.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from softkin.lab.study import significance
from softkin.lab.study.significance import LEVEL, Sampled, compared

Floats = NDArray[np.float64]
RECORDS = Path(__file__).parent.parent / "results" / "records"
RESAMPLES = 200


def scales(methods: int) -> dict[str, Floats]:
    """The deviations of training of each method; the first method is the control."""
    equal = np.ones(methods)
    return {
        "equal": equal,
        "control × 5": np.r_[5.0, equal[1:]],
        "control ÷ 5": np.r_[0.2, equal[1:]],
        "half × 4": np.where(np.arange(methods) < methods / 2, 1.0, 4.0),
        "one × 10": np.r_[1.0, 10.0, equal[2:]][:methods],
        "one × 30": np.r_[1.0, 30.0, equal[2:]][:methods],
        "three × 10": np.where(np.arange(methods) < methods - 3, 1.0, 10.0),
        "rising": np.geomspace(0.3, 3, methods),
    }


def noises() -> dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]]:
    """Training noise of mean 0 and deviation 1."""

    def pairs(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        z = rng.normal(size=shape)
        partner = z[: 2 * (shape[0] // 2)]
        partner[1::2] = 0.9 * partner[::2] + 0.19**0.5 * partner[1::2]
        return z

    return {
        "normal": lambda rng, shape: rng.normal(size=shape),
        "t₄": lambda rng, shape: rng.standard_t(4, size=shape) / 2**0.5,
        "skewed": lambda rng, shape: rng.gamma(4, size=shape) / 2 - 2,
        "in pairs": pairs,
    }


def study(rng: np.random.Generator, training: Floats, samples: float) -> dict[str, Sampled]:
    """Methods with this training noise (M, S), and as many times the noise of samples that all seeds share."""
    m = len(training)
    own = samples * rng.normal(size=m)
    drawn = samples * rng.normal(size=(m, RESAMPLES))
    seen = training + own[:, None]
    return {str(i): Sampled(seen[i], drawn[i][:, None] + seen[i] if samples else None) for i in range(m)}


def against(methods: dict[str, Sampled], *, best: bool) -> dict[str, significance.Difference]:
    """All methods against the best of them, or against the first."""
    one = min(methods, key=lambda name: float(methods[name].seen.mean())) if best else "0"
    return compared({name: (mine, methods[one]) for name, mine in methods.items() if name != one}, all_pairs=best)


def wrong(methods: int, seeds: int, studies: int, *, best: bool) -> tuple[float, str]:
    """The worst pattern's share of studies of equal methods that tell any two apart, and the pattern."""
    shares = []
    for name, noise in noises().items():
        for pattern, scale in scales(methods).items():
            rng = np.random.default_rng([methods, seeds, len(shares)])
            samples = float(len(shares) % 2)
            called = 0
            for _ in range(studies):
                training = noise(rng, (methods, seeds)) * scale[:, None]
                found = against(study(rng, training, samples), best=best)
                called += min(one.p_value for one in found.values()) <= LEVEL
            shares.append((called / studies, f"{name}, {pattern}{', shared samples' if samples else ''}"))
    return max(shares)


def seen(methods: int, seeds: int, studies: int, *, best: bool) -> list[float]:
    """The share of studies that call a method worse by 2, 3, 4, 6 deviations worse than the best or the control."""
    shares = []
    for worse in (2, 3, 4, 6):
        rng = np.random.default_rng([methods, seeds, worse])
        called = 0
        for _ in range(studies):
            training = rng.normal(size=(methods, seeds))
            training[-1] += worse
            found = against(study(rng, training, 0.0), best=best)
            called += str(methods - 1) in found and found[str(methods - 1)].p_value <= LEVEL
        shares.append(called / studies)
    return shares


def at_once(values: Floats, *, best: bool) -> Floats:
    """P-values before the adjustment, (n, M - 1), of n studies (n, M, S) without samples: a twin of ``compared``."""
    n, methods, seeds = values.shape
    one = values.mean(axis=2).argmin(axis=1) if best else np.zeros(n, dtype=np.int64)
    others = np.arange(methods) != one[:, None]
    differences = (values - values[np.arange(n), one][:, None])[others].reshape(n, methods - 1, seeds)
    m, means = methods - 1, differences.mean(axis=2)
    own = np.maximum(differences.var(axis=2, ddof=1), (significance.LEAST_SPREAD * means) ** 2)
    larger = {2: (3 * m) // 4, 3: m // 2}.get(seeds, 0)
    tame = np.minimum(own, significance.WILD * np.median(own, axis=1, keepdims=True)) if seeds > 3 else own
    pooled = np.sort(tame, axis=1)[:, larger:].mean(axis=1, keepdims=True)
    most, falls = significance.ALL_PAIRS if best else significance.CONTROL
    borrowed = np.full((n, 1), min(max(0.0, m / 2 - 1), most))
    if seeds == 2:
        noise = differences - means[..., None]
        common = noise.mean(axis=1)
        apart = np.square(noise - common[:, None]).sum(axis=(1, 2)) / (max(1, m - 1) * (seeds - 1))
        shared = np.maximum(0, np.square(common).sum(axis=1) / (seeds - 1) - apart / m)
        borrowed *= np.minimum(1, 2 * apart / (apart + shared))[:, None]
    freedom = (seeds - 1) * (1 + borrowed * np.minimum(1, pooled / own) ** falls)
    return 2 * stdtr(freedom, -np.abs(means) / np.sqrt(np.maximum(own, pooled) / seeds))


def training_alone(methods: int, seeds: int, studies: int, *, best: bool) -> tuple[float, str, float]:
    """The worst share of wrong studies, its pattern, and the share over all patterns."""
    tests = methods * (methods - 1) / 2 if best else methods - 1
    shares = []
    for name, noise in noises().items():
        for pattern, scale in scales(methods).items():
            rng = np.random.default_rng([methods, seeds, len(shares)])
            values = np.stack([noise(rng, (methods, seeds)) * scale[:, None] for _ in range(studies)])
            p_values = at_once(values, best=best).min(axis=1) * tests
            found = against(study(rng, values[0], 0.0), best=best)
            assert np.isclose(min(one.p_value for one in found.values()), min(1.0, p_values[0]), rtol=1e-6)
            shares.append((float((p_values <= LEVEL).mean()), f"{name}, {pattern}"))
    return (*max(shares), float(np.mean([share for share, _ in shares])))


def calibrated(methods: int, seeds: int, studies: int, rows: int = 1000) -> float:
    """The share of studies of calibrated methods, with 2 to 60 distinct scores, that tell any two apart by Hist P."""
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(studies):
        made = {}
        for i in range(methods):
            scores = np.linspace(0.35, 0.98, int(np.geomspace(2, 60, methods)[i]))
            picked = rng.choice(scores, size=(seeds, rows))
            hits = rng.random((seeds, rows)) < picked
            drawn = np.stack([[_ece(p[w], h[w]) for p, h in zip(picked, hits, strict=True)] for w in _draws(rng, rows)])
            chance = np.mean([_ece(p, rng.random(rows) < p) for p in picked for _ in range(10)])
            values = np.array([_ece(p, h) for p, h in zip(picked, hits, strict=True)])
            made[str(i)] = Sampled(values, drawn, float(chance))
        called += min(one.p_value for one in against(made, best=True).values()) <= LEVEL
    return called / studies


def _draws(rng: np.random.Generator, rows: int, times: int = 40) -> Iterator[NDArray[np.int64]]:
    for _ in range(times):
        yield rng.integers(0, rows, rows)


def _ece(scores: Floats, hits: NDArray[np.bool_]) -> float:
    place = np.ceil(scores * 15 - 1e-9).astype(int)
    return float(np.abs(np.bincount(place, scores - hits, minlength=16)).sum() / len(scores))


def permuted(key: str, studies: int) -> float:
    """The share of studies that tell any two methods apart, if each seed's numbers belong to methods at random."""
    rows = json.loads((RECORDS / "digits" / "table.json").read_text())["rows"]
    values = np.array([row["cells"][key]["values"] for row in rows], dtype=float)
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(studies):
        mixed = rng.permuted(values, axis=0)
        found = against({str(i): Sampled(line) for i, line in enumerate(mixed)}, best=True)
        called += min(one.p_value for one in found.values()) <= LEVEL
    return called / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400, help="studies of each pattern")
    parser.add_argument("--training", action="store_true", help="training noise alone, many studies at once")
    arguments = parser.parse_args()
    studies = arguments.studies
    if arguments.training:
        print("| question | methods | seeds | wrong, all patterns, % | wrong, worst, % | in the pattern |")
        print("| --- | ---: | ---: | ---: | ---: | --- |")
        for best, methods, seeds in itertools.product((False, True), (4, 16, 30), (2, 3, 5, 10)):
            worst, pattern, usual = training_alone(methods, seeds, studies, best=best)
            question = "best" if best else "control"
            print(
                f"| {question} | {methods} | {seeds} | {100 * usual:.1f} | {100 * worst:.1f} | {pattern} |", flush=True
            )
        return
    for best, question in ((False, "against a control"), (True, "against the best")):
        print(f"\n| {question}: methods | seeds | wrong, % | in the pattern | seen at 2, 3, 4, 6 deviations, % |")
        print("| ---: | ---: | ---: | --- | --- |")
        for methods in (4, 16, 30):
            for seeds in (2, 3, 5, 10):
                share, pattern = wrong(methods, seeds, studies, best=best)
                power = ", ".join(f"{100 * one:.0f}" for one in seen(methods, seeds, studies, best=best))
                print(f"| {methods} | {seeds} | {100 * share:.1f} | {pattern} | {power} |", flush=True)
    few = max(20, studies // 4)
    print(f"\nEight calibrated methods, 10 seeds: told apart in {100 * calibrated(8, 10, few):.1f} % of {few} studies")
    for key in ("accuracy", "nll", "ece_hist"):
        print(f"digits, {key}, methods at random: {100 * permuted(key, 5 * studies):.1f} % of {5 * studies} studies")


if __name__ == "__main__":
    main()
