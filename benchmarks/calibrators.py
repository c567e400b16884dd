"""Cost of the calibrators beside their peers, in one run (about 20 minutes; ``--quick`` a minute, on smaller data).

    python benchmarks/calibrators.py --output benchmarks/calibrators.md
    python benchmarks/calibrators.py --only search isotonic

Both sides of a row run with the same threads, interleaved, and the medians are compared; of what takes minutes, once.
Peers that are not installed are left out, by name. Needs ../shared/data/logits. Rows are printed as they come, and
with ``--output`` written as Markdown after each section.
"""

import argparse
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from scipy import optimize

from softkin import calibrators
from softkin.calibrators import (
    Calibrator,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    IsotonicCalibration,
    KinMatrixScaling,
    MatrixScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
)
from softkin.calibrators.held_out import folds_of
from softkin.calibrators.linear import KULL_LAMBDAS, KULL_MUS
from softkin.calibrators.structured import log_mixture
from timing import medians

LOGITS = Path(__file__).resolve().parents[2] / "shared" / "data" / "logits"
MOST = 20_000  # evaluations that L-BFGS-B gets for one fit
MOST_IN_SEARCH = 2_000  # the same for each fit of the search: where it needs more, the ratio is a lower bound
SINGLE_FIT: dict[type[Calibrator], dict[str, float]] = {
    MatrixScaling: {"lam": 1.0},
    DirichletCalibration: {"lam": 1.0},
    StructuredVectorScaling: {"strength": 1.0},
    StructuredMatrixScaling: {"strength": 1.0},
    KinMatrixScaling: {"strength": 1.0},
}  # options without which a fit is a search
AGAIN = 5  # places of the search that are fitted once more, to the end
Row = tuple[str, str, str, str, str]
Data = tuple[np.ndarray, np.ndarray]


def timed(call: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def network(name: str, n: int) -> Data:
    with np.load(LOGITS / f"{name}-logits.npz", allow_pickle=False) as file:
        return file["logits"][:n].astype(np.float64), file["labels"][:n].astype(np.int64)


def drawn(n: int, k: int) -> Data:
    """Logits of which labels are drawn at temperature 2."""
    generator = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(n, k, generator=generator, dtype=torch.float64)
    y = torch.multinomial(torch.softmax(z / 2, dim=1), 1, generator=generator)[:, 0]
    return z.numpy(), y.numpy()


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def temperature(data: Data, repeats: int) -> list[Row]:
    z, y = data
    p = softmax(z)
    calls: dict[str, Callable[[], object]] = {"ours": lambda: TemperatureScaling().fit(z, y)}
    try:
        from sklearn.calibration import _TemperatureScaling

        calls["scikit-learn"] = lambda: _TemperatureScaling().fit(z, y)
    except ImportError:
        print("Left out: scikit-learn's temperature scaling.", file=sys.stderr)
    try:
        from probmetrics.calibrators import TemperatureScalingCalibrator

        calls["probmetrics"] = lambda: TemperatureScalingCalibrator().fit(p, y)
    except ImportError:
        print("Left out: probmetrics.", file=sys.stderr)
    try:
        from netcal.scaling import TemperatureScaling as Netcal

        calls["netcal, float64"] = lambda: Netcal().fit(p, y)
    except ImportError:
        print("Left out: netcal.", file=sys.stderr)
    took = medians(calls, repeats)
    exact = optimize.brentq(
        lambda b: float(((softmax(b * z) * z).sum(axis=1) - z[np.arange(len(y)), y]).mean()), 1e-3, 10, xtol=1e-14
    )
    error = abs(TemperatureScaling().fit(z, y).temperature_ - 1 / exact)
    fastest = min((name for name in took if name != "ours"), key=lambda name: took[name])
    others = ", ".join(f"{name} {ms(seconds)}" for name, seconds in took.items() if name != "ours")
    return [
        (
            f"temperature, n={len(y):,}, K={z.shape[1]}",
            others,
            ms(took["ours"]),
            f"{took[fastest] / took['ours']:.1f}× faster than {fastest}; T off by {error:.0e}",
            "≥ 2×, 1e-6",
        )
    ]


def plain_ensemble(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Squared error, T by L-BFGS-B and weights by SLSQP, both with numerical gradients."""
    k = z.shape[1]
    onehot, raw = np.eye(k)[y], softmax(z)
    t = optimize.minimize(
        lambda t: np.mean((softmax(z / t) - onehot) ** 2), 1.0, method="L-BFGS-B", bounds=[(0.05, 5)], tol=1e-12
    ).x[0]
    scaled = softmax(z / t)
    end = optimize.minimize(
        lambda w: np.mean((w[0] * scaled + w[1] * raw + w[2] / k - onehot) ** 2),
        (1.0, 0.0, 0.0),
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: np.sum(w) - 1},
        tol=1e-12,
    )
    return np.array([t, *end.x])


def ensemble(data: Data, repeats: int) -> list[Row]:
    z, y = data
    p = softmax(z)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: EnsembleTemperatureScaling().fit(z, y),
        "SLSQP": lambda: plain_ensemble(z, y),
    }
    try:
        from probmetrics.calibrators import ETSCalibrator

        calls["probmetrics"] = lambda: ETSCalibrator().fit(p, y)
    except ImportError:
        print("Left out: probmetrics.", file=sys.stderr)
    took = medians(calls, repeats)
    return [
        (
            f"ensemble of temperatures, n={len(y):,}, K={z.shape[1]}",
            f"{name}, {ms(seconds)}",
            ms(took["ours"]),
            f"{seconds / took['ours']:.1f}× faster",
            "≥ 10×",
        )
        for name, seconds in took.items()
        if name != "ours"
    ]


def plain_dirichlet(x: np.ndarray, y: np.ndarray, lam: float, mu: float, most: int = MOST) -> tuple[float, float, int]:
    """The ODIR objective by scipy's L-BFGS-B with the analytic gradient: value, largest gradient entry, evaluations."""
    n, k = x.shape
    penalty = np.full((k, k + 1), lam)
    np.fill_diagonal(penalty, 0)
    penalty[:, -1] = mu
    centre, onehot, rows = np.eye(k, k + 1), np.eye(k)[y], np.arange(n)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        a = flat.reshape(k, k + 1)
        logits = x @ a[:, :-1].T + a[:, -1]
        logits -= logits.max(axis=1, keepdims=True)
        e = np.exp(logits)
        total = e.sum(axis=1, keepdims=True)
        value = np.mean(np.log(total[:, 0]) - logits[rows, y]) + (penalty * (a - centre) ** 2).sum()
        error = (e / total - onehot) / n
        gradient = np.concatenate([error.T @ x, error.sum(axis=0)[:, None]], axis=1) + 2 * penalty * (a - centre)
        return float(value), gradient.reshape(-1)

    options = {"gtol": 1e-7, "ftol": 0, "maxiter": most, "maxfun": most}
    end = optimize.minimize(objective, centre.reshape(-1), jac=True, method="L-BFGS-B", options=options)
    return float(end.fun), float(np.abs(end.jac).max()), int(end.nfev)


def objective_of(cal: DirichletCalibration) -> float:
    w, b = cal.weight_, cal.bias_
    off = float(w.square().sum() - w.diagonal().square().sum())
    return cal.certificate_.nll_after + cal.lam_ * off + cal.mu_ * float(b.square().sum())


def dirichlet(data: Data, repeats: int) -> list[Row]:
    z, y = data
    x = np.log(softmax(z))
    rows: list[Row] = []
    for strength in (0.01, 1.0, 100.0):
        ours = statistics.median(
            timed(lambda s=strength: DirichletCalibration(lam=s).fit(z, y))[0] for _ in range(repeats)
        )
        cal = DirichletCalibration(lam=strength).fit(z, y)
        plain, (value, norm, calls) = timed(lambda s=strength: plain_dirichlet(x, y, s, s))  # type: ignore[misc]
        rows.append(
            (
                f"Dirichlet, λ=μ={strength:g}, n={len(y):,}, K={z.shape[1]}",
                f"L-BFGS-B, {ms(plain)} ({calls} evaluations, gradient {norm:.0e})",
                f"{ms(ours)} ({cal.certificate_.iterations} passes, gradient {cal.certificate_.gradient_norm:.0e})",
                f"{plain / ours:.1f}× faster; objective minus theirs {objective_of(cal) - value:+.0e}",
                "≥ 3×, 1e-8",
            )
        )
    return rows


def search(data: Data, plain_fits: int) -> list[Row]:
    """The whole published search, against plain fits of places spread over the grid, scaled to 1,215."""
    z, y = data
    x = np.log(softmax(z))
    parts = folds_of(len(y), 5, 0)
    inside = np.ones(len(y), dtype=bool)
    inside[parts[0].numpy()] = False
    places = [(lam, mu) for lam in KULL_LAMBDAS for mu in KULL_MUS]
    chosen = [places[int(i)] for i in np.linspace(0, len(places) - 1, plain_fits)]
    fits_of = [timed(lambda p=p: plain_dirichlet(x[inside], y[inside], *p, most=MOST_IN_SEARCH)) for p in chosen]
    plain = statistics.mean(seconds for seconds, _ in fits_of)
    cut_short = sum(norm > 1e-7 for _, (_, norm, _) in fits_of)  # type: ignore[misc]
    ours, cal = timed(lambda: DirichletCalibration(search="kull2019").fit(z, y))
    assert isinstance(cal, DirichletCalibration)
    sweep = sorted(cal.sweep(), key=lambda row: row.nll)
    # The best places again, each fold from scratch and to a gradient of 1e-7.
    again = {}
    for row in sweep[:AGAIN]:
        total = 0.0
        for held in parts:
            rest = np.ones(len(y), dtype=bool)
            rest[held.numpy()] = False
            p = DirichletCalibration(lam=row.lam, mu=row.mu).fit(z[rest], y[rest]).predict_proba(z[~rest])
            total += float(-np.log(p[np.arange(len(p)), y[~rest]]).mean()) / len(parts)
        again[row.lam, row.mu] = total
    gap = max(abs(row.nll - again[row.lam, row.mu]) for row in sweep[:AGAIN])
    same = min(again, key=lambda place: again[place]) == (cal.lam_, cal.mu_)
    fits = 5 * len(places)
    return [
        (
            f"search of {fits:,} fits, n={len(y):,}, K={z.shape[1]}",
            f"L-BFGS-B, {plain_fits} places of one fold, {cut_short} of them cut short at {MOST_IN_SEARCH:,} "
            f"evaluations, {ms(plain)} a fit, scaled to {plain * fits:,.0f} s",
            f"{ours:,.0f} s ({ms(ours / fits)} a fit)",
            f"{plain * fits / ours:.0f}× faster; λ={cal.lam_:g}, μ={cal.mu_:g}, "
            f"{'the same' if same else 'another'} as by converged fits; fold NLL off by {gap:.0e}",
            "≥ 20×, 1e-6",
        )
    ]


def structured_objective(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> float:
    """Mean NLL of softmax(W x + b) and the published prior."""
    n, k = x.shape
    change = w - torch.eye(k, dtype=torch.float64)
    own = change.diagonal().square().sum()
    penalty = k / n * (own + b.square().sum() + (k - 1) * (change.square().sum() - own))
    return float(torch.nn.functional.cross_entropy(x @ w.T + b, y) + penalty)


def structured(data: Data, repeats: int) -> list[Row]:
    """Structured scaling with the published prior, beside its authors' implementation."""
    try:
        from probmetrics.calibrators import SMSCalibrator, SVSCalibrator
    except ImportError:
        print("Left out: probmetrics.", file=sys.stderr)
        return []
    z, y = data
    p = softmax(z)
    labels = torch.from_numpy(y)
    rows: list[Row] = []
    for name, peer, method in (
        ("vector", SVSCalibrator, StructuredVectorScaling),
        ("matrix", SMSCalibrator, StructuredMatrixScaling),
    ):
        took = medians(
            {"ours": lambda m=method: m(strength=1.0).fit(z, y), "theirs": lambda c=peer: c().fit(p, y)}, repeats
        )
        ours, theirs = method(strength=1.0).fit(z, y), peer().fit(p, y)
        x = log_mixture(torch.from_numpy(z), ours.temperature_, ours.mixing_)
        if name == "vector":
            pairs = [(ours.weight_.diag(), ours.bias_)]
            pairs.append((torch.from_numpy(theirs.v_).double().diag(), torch.from_numpy(theirs.b_).double()))
        else:
            a = torch.from_numpy(theirs.W_).double()
            pairs = [(ours.weight_, ours.bias_), (a[:, :-1], a[:, -1])]
        mine, other = (structured_objective(x, labels, *pair) for pair in pairs)
        rows.append(
            (
                f"structured {name}, n={len(y):,}, K={z.shape[1]}",
                f"probmetrics, {ms(took['theirs'])}",
                f"{ms(took['ours'])} ({ours.certificate_.iterations} passes)",
                f"{took['theirs'] / took['ours']:.1f}× faster; objective minus theirs {mine - other:+.0e}",
                "≥ 5×, 1e-5",
            )
        )
    return rows


def isotonic(n: int, k: int, repeats: int) -> list[Row]:
    from sklearn.isotonic import IsotonicRegression

    z, y = drawn(n, k)
    p = softmax(z)

    def loop() -> None:
        maps = [IsotonicRegression(out_of_bounds="clip").fit(p[:, j], y == j) for j in range(k)]
        np.stack([regression.predict(p[:, j]) for j, regression in enumerate(maps)])

    took = medians({"ours": lambda: IsotonicCalibration().fit(z, y).predict_proba(z), "loop": loop}, repeats, warm_up=1)
    return [
        (
            f"isotonic one-vs-rest, fit and predict, n={n:,}, K={k:,}",
            f"scikit-learn in a loop, {ms(took['loop'])}",
            ms(took["ours"]),
            f"{took['loop'] / took['ours']:.1f}× faster",
            "≥ 1×",
        )
    ]


def growth(sizes: list[tuple[int, int]]) -> list[str]:
    """Seconds of one fit of every method, by n and K."""

    def made(method: type[Calibrator]) -> Calibrator:
        return method(**SINGLE_FIT.get(method, {}))

    head = "| method | " + " | ".join(f"n={n:,} K={k:,}" for n, k in sizes) + " |"
    lines = [head, "| --- |" + " --- |" * len(sizes)]
    data = {size: drawn(*size) for size in sizes}
    for method in calibrators.REGISTRY.values():
        cells = []
        for size in sizes:
            seconds, cal = timed(lambda m=method, s=size: made(m).fit(*data[s]))
            assert isinstance(cal, Calibrator)
            cells.append(ms(seconds) + ("" if cal.certificate_.converged else " (not converged)"))
        name = f"{method.__name__}{' (λ=1)' if method in SINGLE_FIT else ''}"
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"


def main() -> None:
    sections = ("temperature", "ensemble", "dirichlet", "structured", "isotonic", "search", "growth")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="also write the tables there, as Markdown")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections, metavar="SECTION", help="some of them")
    parser.add_argument("--quick", action="store_true", help="small data, for a look")
    arguments = parser.parse_args()
    if not LOGITS.is_dir():
        parser.error(f"needs the trained networks' logits in {LOGITS}")
    torch.manual_seed(0)
    warnings.simplefilter("ignore")  # of the peers' own
    quick = arguments.quick
    name = "resnet20-cifar10" if quick else "resnet32-cifar100"
    data = network(name, 1000 if quick else 5000)
    repeats = 3 if quick else 15
    sizes = [(500, 10), (1000, 10), (500, 50)]
    if not quick:
        sizes = [(1250, 100), (5000, 100), (20000, 100), (5000, 10), (2000, 1000)]
    rows: dict[str, Callable[[], list[Row]]] = {
        "temperature": lambda: temperature(data, repeats),
        "ensemble": lambda: ensemble(data, max(3, repeats // 2)),
        "dirichlet": lambda: dirichlet(data, 3),
        "structured": lambda: [
            row for size in {name, "resnet20-cifar10"} for row in structured(network(size, len(data[1])), repeats)
        ],
        "isotonic": lambda: isotonic(*((1000, 100) if quick else (5000, 1000)), 3),
        "search": lambda: search(data, 2 if quick else 3),
    }
    packages = ("torch", "numpy", "scipy", "scikit-learn", "probmetrics", "netcal")
    lines: list[str] = []

    def say(*more: str) -> None:
        print("\n".join(more), flush=True)
        lines.extend(more)
        if arguments.output:
            arguments.output.write_text(
                "# Calibrators: measured\n\nBy `benchmarks/calibrators.py`; " + "\n".join(lines) + "\n"
            )

    began = time.perf_counter()
    say(
        ", ".join(version(package) for package in packages)
        + f", Python {platform.python_version()}, {torch.get_num_threads()} threads "
        f"(OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}), {platform.machine()}; "
        f"{name}, medians of one interleaved run.",
        "",
        "| what | against | ours | ratio | to reach |",
        "| --- | --- | --- | --- | --- |",
    )
    for section in sections[:-1]:
        if section in arguments.only:
            say(*("| " + " | ".join(row) + " |" for row in rows[section]()))
    if "growth" in arguments.only:
        say("", "One fit of each method, on drawn logits:", "", *growth(sizes))
    say("", f"The whole run took {time.perf_counter() - began:,.0f} s.")


if __name__ == "__main__":
    main()
