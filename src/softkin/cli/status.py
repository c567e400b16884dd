"""``softkin status``: which runs of a study are done, running, failed or waiting."""

import argparse
from pathlib import Path
from typing import Any

from softkin.cli.printing import json_text

SUMMARY = "list which runs of a study are done, running, failed or left"
DESCRIPTION = """\
List which runs of the study in FOLDER are done, running (and where), failed (and why), damaged or left to do. In a
folder of `softkin paper`, list each of its studies. Nothing is changed, and the study may be running."""
EXAMPLE = "softkin status study/"
MORE_EXAMPLES = ("softkin status study/ --json",)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument(
        "folder", type=Path, metavar="FOLDER", help="output folder of softkin compare or softkin paper"
    )
    command.add_argument("--all", action="store_true", help="also list the runs that are done or left")
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def check(arguments: argparse.Namespace) -> None:
    """Nothing to refuse before the folder is read."""


def run(arguments: argparse.Namespace) -> None:
    """Print the state of the folder's study or studies."""
    from softkin.lab.study.records import STUDY

    inside = sorted(path.parent for path in arguments.folder.glob(f"*/{STUDY}"))
    several = inside and not (arguments.folder / STUDY).exists()  # as `softkin paper` leaves them
    studies = [_look(folder) for folder in (inside if several else [arguments.folder])]
    if arguments.json:
        print(json_text(studies if several else studies[0]))
        return
    for about in studies:
        _print(about, everything=arguments.all)


def _look(folder: Path) -> dict[str, Any]:
    from softkin.lab import study

    standing, kept = study.standing(folder), study.kept_in(folder)
    return {
        "folder": str(folder),
        "study": kept.spec.name,
        "data": kept.data["source"],
        "total": standing.total,
        "done": [job.title for job in standing.done],
        "running": [{"run": job.title, "where": who} for job, who in standing.running],
        "failed": [{"run": job.title, "reason": reason} for job, reason in standing.failed],
        "damaged": [job.title for job in standing.damaged],
        "left": [job.title for job in standing.left],
    }


def _print(about: dict[str, Any], *, everything: bool) -> None:
    print(f"{about['folder']}: {about['study']} on {about['data']}")
    counts = [f"{len(about[key])} {key}" for key in ("done", "running", "failed", "damaged", "left")]
    print(f"{', '.join(counts)}, of {about['total']} runs known so far")
    for job in about["running"]:
        print(f"running: {job['run']} ({job['where']})")
    for job in about["failed"]:
        print(f"failed: {job['run']}: {job['reason']}")
    for title in about["damaged"]:
        print(f"damaged: {title}, will be done again")
    for key in ("done", "left") if everything else ():
        for title in about[key]:
            print(f"{key}: {title}")
