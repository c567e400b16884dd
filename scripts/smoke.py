"""Build wheel and sdist, install the wheel into an empty environment without extras, and try it.

    python scripts/smoke.py                    newest versions
    python scripts/smoke.py --constraints F    versions of a constraints file, such as scripts/oldest.txt
    python scripts/smoke.py --build-only       wheel and sdist, and what is in them

The environment is made in a temporary folder; its packages come from wherever pip is configured to take them.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRY = """
import importlib.util, torch
from softkin import calibrators, losses, metrics, predictions
for name in ("lightning", "transformers", "torchmetrics", "ray"):
    assert importlib.util.find_spec(name) is None, f"{name} was installed without its extra"
loss_fn = losses.ClassSimilarityLoss.from_names(["dolphin", "seal", "rose", "tulip", "truck", "bus"], alpha=0.1)
logits, labels = torch.randn(60, 6, requires_grad=True), torch.arange(60) % 6
loss_fn(logits, labels).backward()
fitted = calibrators.TemperatureScaling().fit(logits.detach(), labels)
p = fitted.predict_proba(logits.detach())
print("torch", torch.__version__, "ECE", round(metrics.ece_hist(p, labels), 4))
predictions.save("smoke.npz", predictions.Predictions(logits.detach(), labels))
"""


def run(*command: object, cwd: Path | None = None) -> None:
    """A command that must succeed."""
    print("+", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


def main() -> None:
    """Build, look inside, install, try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--constraints", type=Path, help="versions to install")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--no-isolation", action="store_true", help="build with the hatchling that is installed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        isolation = ["--no-isolation"] if arguments.no_isolation else []
        run(sys.executable, "-m", "build", *isolation, "--outdir", work / "dist", ROOT)
        (wheel,), (sdist,) = (list((work / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
        inside = zipfile.ZipFile(wheel).namelist()
        for needed in ("softkin/py.typed", "softkin/report/template.html", "softkin/cli/choices.json"):
            assert needed in inside, f"the wheel lacks {needed}"
        assert any(name.endswith("minilm-128d.safetensors") for name in inside), "the wheel lacks the word vectors"
        assert not any(name.startswith("tests") for name in inside), "the wheel holds the tests"
        with tarfile.open(sdist) as archive:
            names = [name.partition("/")[2] for name in archive.getnames()]
        for needed in (
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "tests/conftest.py",
            "constraints.txt",
            "CHANGELOG.md",
        ):
            assert needed in names, f"the sdist lacks {needed}"
        print(f"{wheel.name}: {len(inside)} files, {wheel.stat().st_size / 2**20:.1f} MiB")
        if arguments.build_only:
            return
        venv.create(work / "env", with_pip=True)
        python = work / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        limits = [] if arguments.constraints is None else ["-c", arguments.constraints.resolve()]
        run(python, "-m", "pip", "install", "--quiet", *limits, wheel)
        run(python, "-c", TRY, cwd=work)
        softkin = (python, "-m", "softkin")
        run(*softkin, "evaluate", "smoke.npz", "--resamples", "100", "--report", "page.html", cwd=work)
        run(*softkin, "calibrate", "fit", "smoke.npz", "--method", "temperature", "--output", "cal", cwd=work)
        run(*softkin, "calibrate", "apply", "cal", "smoke.npz", "--output", "calibrated.npz", cwd=work)
        run(
            *softkin,
            "compare",
            "--methods",
            "one-hot,ts,we",
            "--seeds",
            "1",
            "--epochs",
            "2",
            "--output",
            "study",
            cwd=work,
        )
        run(*softkin, "--version", cwd=work)
        run(python, "-m", "pip", "check", cwd=work)


if __name__ == "__main__":
    main()
