"""Pictures of pages for README and docs: ``python scripts/page_pictures.py [STUDY]``; needs Chromium.

docs/figures/page.png is the first screen of the page that README's own command writes; page_binary.png and
page_models.png are those of a binary model and of two models, page_study.png that of the study in the folder STUDY.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIGURES, EXAMPLES = ROOT / "docs" / "figures", ROOT / "examples"
WIDTH = 1280
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=4000",
)  # fmt: skip


def picture(page: Path, target: Path, height: int) -> None:
    """The first screen of a page, as a browser shows it in light colours."""
    with tempfile.TemporaryDirectory() as profile:
        browser = shutil.which("chromium") or "chromium-browser"
        size = (f"--window-size={WIDTH},{height}", f"--user-data-dir={profile}", f"--screenshot={target}")
        subprocess.run([browser, *FLAGS, *size, page.as_uri()], check=True, capture_output=True, timeout=120)


def main() -> None:
    """Write the pages into a folder of their own, and draw them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calibrator, after = folder / "cal", folder / "after.npz"
        digits = [EXAMPLES / f"digits-{part}.npz" for part in ("validation", "test")]
        commands = (
            ("evaluate", EXAMPLES / "tickets.csv", "--report", folder / "page.html"),
            ("evaluate", EXAMPLES / "churn.csv", "--report", folder / "page_binary.html"),
            ("calibrate", "fit", digits[0], "--output", calibrator),
            ("calibrate", "apply", calibrator, digits[1], "--output", after),
            ("evaluate", digits[1], after, "--report", folder / "page_models.html"),
        )
        for command in commands:
            words = [sys.executable, "-m", "softkin", *map(str, command)]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, timeout=600)
        for stem in ("page", "page_binary", "page_models"):
            picture(folder / f"{stem}.html", FIGURES / f"{stem}.png", 760)
        if len(sys.argv) > 1:
            picture(Path(sys.argv[1]).resolve() / "report.html", FIGURES / "page_study.png", 900)


if __name__ == "__main__":
    main()
