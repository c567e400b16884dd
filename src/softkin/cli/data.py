"""``softkin data``: list data sets, download them, and show what a source holds."""

import argparse
from typing import Any

from softkin import SoftkinError
from softkin._io.escape import terminal
from softkin.cli import choices
from softkin.cli.inputs import add_actions
from softkin.cli.printing import json_text

SUMMARY = "list and download data sets, and show what a source holds"
DESCRIPTION = """\
List, download and inspect data sets.

  list          list the data sets that softkin knows by name, and where they are on disk
  get NAME      download a data set, check it and unpack it; an interrupted download resumes
  show SOURCE   show the parts, rows, shape and classes of a source

SOURCE is a path (class folders, parquet, CSV, JSONL, .npz, idx files, the official folders and archives of CIFAR and
Tiny-ImageNet), a name of the list, digits, or owner/name of the Hugging Face hub. An .npz holds features (N, d) or
images (N, H, W) or (N, H, W, C), labels (N,) from 0 on, and class_names, K texts, the first of class 0. Downloads are
kept in the cache: the folder that SOFTKIN_CACHE names, else the folder softkin in the user's cache folder."""
EXAMPLE = "softkin data show digits"
MORE_EXAMPLES = (
    "softkin data list",
    "softkin data show reviews.csv",
)
EXAMPLES = {
    "list": "softkin data list\nsoftkin data list --json",
    "get": "softkin data get cifar100\nsoftkin data get cifar100 --force",
    "show": "softkin data show digits\nsoftkin data show reviews.csv",
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the actions list, get and show."""
    action = add_actions(command, EXAMPLES)
    listing = action("list", "list the data sets that softkin knows by name")
    getting = action("get", "download, check and unpack a data set")
    choices.choose(
        getting.add_argument("name", metavar="NAME"), "name of the data set, such as cifar100", choices.downloads
    )
    getting.add_argument("--force", action="store_true", help="download it again even if it is already there")
    showing = action("show", "show what a source holds")
    choices.choose(
        showing.add_argument("source", metavar="SOURCE"), "path or name of the data", choices.data_sets, files=True
    )
    showing.add_argument("--split", help="part to show, such as test (default: train)")
    showing.add_argument("--size", type=int, help="resize images to this many pixels on each side")
    for parser in (listing, getting, showing):
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin._core import checks
    from softkin.lab.data import npz, published

    if arguments.action == "get" and arguments.name in npz.SHIPPED:
        raise ValueError(
            f"{arguments.name} comes with softkin, so there is nothing to download; use --data {arguments.name}."
        )
    if arguments.action == "get":
        published.entry(arguments.name)
    if arguments.action == "show" and arguments.size is not None:
        checks.count(arguments.size, "--size")


def run(arguments: argparse.Namespace) -> None:
    """Run the action and print its result."""
    {"list": _list, "get": _get, "show": _show}[arguments.action](arguments)


def _list(arguments: argparse.Namespace) -> None:
    from softkin._io import cache
    from softkin.lab.data import published

    rows = published.about()
    if arguments.json:
        print(json_text({"cache": str(cache.folder()), "datasets": rows}))
        return
    print(f"cache: {cache.folder()}")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        size = f", {row['bytes'] / 1e6:,.0f} MB to download" if row["bytes"] else ""
        where = f"at {row['path']}" if row["path"] else f"not here yet{size}: softkin data get {row['name']}"
        print(f"{row['name']:{width}}  {row['what']}\n{'':{width}}  {where}")


def _get(arguments: argparse.Namespace) -> None:
    from softkin.lab.data import published

    earlier = None if arguments.force else published.present(arguments.name)
    path = published.get(arguments.name, force=arguments.force)
    if arguments.json:
        print(json_text({"name": arguments.name, "path": str(path), "downloaded": earlier is None}))
    else:
        print(f"{arguments.name} was there already: {path}" if earlier else f"Wrote {terminal(str(path))}")


def _show(arguments: argparse.Namespace) -> None:
    about = _about(arguments)
    if arguments.json:
        print(json_text(about))
        return
    from softkin.cli.printing import shown as printable

    kind = about["kind"] if about["kind"] != "text" else "text as hashed word counts"
    print(f"{printable(about['source'])}: {about['rows']:,} rows of {kind}, {'×'.join(map(str, about['shape']))}")
    print(f"parts: {', '.join(map(printable, about['parts']))}; shown: {printable(about['part'])}")
    most = max(about["classes"].values())
    least = min(about["classes"].values())
    rows = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    print(f"{len(about['classes'])} classes of {rows} rows each:")
    print(", ".join(printable(name) for name in about["classes"]))
    print(f"digest: {about['digest']}")


def _about(arguments: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    from softkin.lab import data
    from softkin.lab.data import loading
    from softkin.lab.data.labelled import chosen, official

    recognised = loading.recognise(arguments.source)
    try:
        chosen(recognised, arguments.split)
    except SoftkinError as error:  # the option is wrong, not the file
        raise ValueError(str(error)) from error
    shown = data.load(arguments.source, split=arguments.split, size=arguments.size)
    roles = official(recognised.parts)
    own = arguments.split or ("train" if "train" in roles else next(iter(roles)))
    counts = np.bincount(shown.labels, minlength=len(shown.class_names)).tolist()
    return {
        "source": shown.source,
        "parts": list(roles),
        "part": own,
        "kind": shown.kind,
        "rows": len(shown),
        "shape": list(shown.values.shape[1:]),
        "classes": dict(zip(shown.class_names, counts, strict=True)),
        "digest": shown.digest,
    }
