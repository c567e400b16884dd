"""How large the report is and when it can be used, in real Chromium, by the browser's own clock.

    python benchmarks/report.py                      # K = 100 and K = 1,000, each with distances
    python benchmarks/report.py --images             # and with thumbnails
    python benchmarks/report.py --classes 100 --loads 9

For each K: seconds to build the data and the page, megabytes, and of several loads the median of what Chromium's
``performance`` says, in seconds since the navigation started: ``usable``, when the first screen is drawn and listens;
``parsed``, its ``domInteractive``; ``quiet``, the end of the last task of more than 50 ms that came with the load,
after which nothing holds up the reader; ``interactive``, the latest of these three, to which the aim applies; ``all``,
when the last section below is drawn; ``slider``, from a new β to all that it changes. Needs chromium, chromedriver and
selenium.

    python benchmarks/report.py --pages folder       # keep the pages there, and use those that are there already
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch

import report_browser
from softkin import report
from softkin.predictions import Predictions

torch.set_num_threads(1)

GOALS = {100: (0.3, 2.0), 1000: (1.0, 10.0)}  # seconds, megabytes without images
TIMES = """
  const navigation = performance.getEntriesByType("navigation")[0];
  return new Promise((done) => {
    const tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries())).observe({ type: "longtask", buffered: true });
    setTimeout(() => {
      const end = Math.max(0, ...tasks.map((task) => task.startTime + task.duration));
      const mark = (name) => performance.getEntriesByName(name)[0].startTime;
      done([mark("softkin-interactive"), navigation.domInteractive, end, mark("softkin-complete")]);
    }, 800);
  });
"""
SLIDER = """
  const slider = document.querySelector("[data-key='beta']");
  document.getElementById("similarity").scrollIntoView({ behavior: "instant" });
  return new Promise((done) => setTimeout(() => {
    slider.value = 5;
    const start = performance.now();
    slider.dispatchEvent(new Event("input"));
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start), 0));
  }, 600));
"""


def data(num_samples: int, num_classes: int, *, pictures: bool) -> dict[str, object]:
    """Over-confident predictions of many samples, with distances and names, perhaps with images."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    logits = torch.randn(num_samples, num_classes, generator=generator)
    logits[torch.arange(num_samples), labels] += 3.0
    points = np.random.default_rng(0).normal(size=(num_classes, 20))
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    images = None
    if pictures:
        images = np.random.default_rng(1).integers(0, 256, (num_samples, 32, 32, 3), dtype=np.uint8)
    names = [f"class number {k}" for k in range(num_classes)]
    predictions = Predictions(2 * logits, labels, class_names=names, name=f"{num_classes} classes")
    return report.build(predictions, distances=distances, images=images)


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--images", action="store_true")
    parser.add_argument("--pages", type=Path)
    options = parser.parse_args()
    beside = "distances and thumbnails" if options.images else "distances"
    print(f"N={options.samples:,}, {beside} included; medians of {options.loads} loads\n")
    heads = f"{'usable':>8} {'parsed':>8} {'quiet':>8} {'interactive':>11} {'all':>8} {'slider':>8}"
    print(f"{'K':>6} {'build':>8} {'write':>8} {'size':>9}  {heads}")
    with tempfile.TemporaryDirectory() as temporary, report_browser.chromium() as browser:
        folder = options.pages or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for k in options.classes:
            path = folder / f"{k}{'-images' * options.images}.html"
            start = built = written = time.perf_counter()
            if not path.exists():
                content = data(options.samples, k, pictures=options.images)
                built = time.perf_counter()
                report.write(path, content)
                written = time.perf_counter()
            times = []
            for _ in range(options.loads):
                browser.open(path)
                times.append([item / 1000 for item in browser.run(TIMES)])
            usable, parsed, quiet, complete = (statistics.median(column) for column in zip(*times, strict=True))
            interactive = statistics.median(max(load[:3]) for load in times)
            slider = browser.run(SLIDER) / 1000
            size = path.stat().st_size / 1e6
            print(
                f"{k:>6,} {built - start:>6.1f} s {written - built:>6.2f} s {size:>6.2f} MB  {usable:>6.2f} s"
                f" {parsed:>6.2f} s {quiet:>6.2f} s {interactive:>9.2f} s {complete:>6.2f} s {slider:>6.3f} s",
                end="",
            )
            if k in GOALS:
                seconds, megabytes = GOALS[k]
                print(f"  (reach {seconds:g} s, {megabytes:g} MB)", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
