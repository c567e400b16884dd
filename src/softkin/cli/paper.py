"""``softkin paper``: repeat the tables and figures of the paper, and print our values beside the paper's."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softkin import SoftkinError
from softkin._core.names import counted, require
from softkin._io.escape import terminal
from softkin.cli import choices, running
from softkin.cli.printing import json_text, print_table, say

if TYPE_CHECKING:
    from softkin.lab.suites import PaperSpec, PaperTable, StudySuite

SUMMARY = "repeat the paper's tables and figures, and print our values beside the paper's"
DESCRIPTION = """\
Repeat the study of Liu and JaJa, Class-Similarity Based Label Smoothing for Confidence Calibration, 2021.

  list      list the tables and figures, with the recipe of each scale
  run       train the networks that NAME needs, or resume, and print its table
  table     print the paper's values beside those of the finished runs
  figure    draw a figure from the finished runs

NAME is table1 (CIFAR-100), table2 (Tiny-ImageNet), alpha, beta, ood, reliability, or a .toml file of the same form.
With run it may be all: each in turn.
Scale full trains the paper's networks for 200 epochs and needs GPUs; we have none, so how long it takes is not known.
Scale small takes about seven hours on two cores for each table. --dry-run counts the trainings.
Scale trial, which only table1 has, trains one seed at fixed values: 25 minutes per training on one core. What it gave
us is shown by `softkin paper table table1 --scale trial`, without training.
Finished runs are kept in the folder: the same command resumes after any interruption, and a run that several tables or
figures need is done once.

The paper's setting (α = 0.1, β chosen in [0.5, 6], GloVe vectors) on your own data is a comparison: the last
example."""
EXAMPLE = "softkin paper list"
MORE_EXAMPLES = (
    "softkin paper run table1 --output paper/",
    "softkin paper table table1 --scale trial",
    "softkin compare --data data.npz --methods one-hot,ts,uniform,mixup,dir-odir,ets,l1,l2,ae,we --alpha 0.1 "
    "--beta 0.5,1,2,4,6 --vectors glove --tune none",
)

ACTIONS = ("list", "run", "table", "figure")
DEFAULT_FOLDER = Path("softkin-paper")
FORMATS = ("svg", "png", "pdf")
ALL = "all"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Options, with the library's names."""
    command.add_argument("action", choices=ACTIONS, metavar="ACTION", help="list, run, table or figure, see above")
    choices.choose(
        command.add_argument("name", nargs="?", metavar="NAME"),
        "table or figure: one of {}, or a .toml file",
        choices.papers,
        files=True,
    )
    command.add_argument(
        "--scale", choices=["full", "small", "trial"], default="small", help="scale of the runs (default: small)"
    )
    command.add_argument(
        "--rows",
        type=_names,
        help="only these networks of the paper, such as WRN or DN,RN; for a suite, only these studies or groups",
    )
    command.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="path of a data set, such as cifar100=../cifar-100-python; may be repeated (default: fetched by name)",
    )
    vectors = command.add_argument("--vectors")
    words = "word vectors for WE: {} or a file (default: glove, the paper's kind)"
    choices.choose(vectors, words, choices.word_vectors, files=True)
    command.add_argument(
        "--seeds", type=running.seeds, help="number of seeds, or a list such as 3,4,5 (default: the spec's)"
    )
    command.add_argument(
        "--output",
        type=Path,
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        help=f"folder of the runs (default: {DEFAULT_FOLDER})",
    )
    command.add_argument("--format", choices=FORMATS, default="svg", help="file format of figures (default: svg)")
    command.add_argument("--dry-run", action="store_true", help="print what `run` would train, without training")
    running.add_options(command)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    from softkin.lab import suites

    if arguments.action == "list":
        if arguments.name is not None:
            require(arguments.name, suites.names(), "NAME")
        return
    if arguments.name is None:
        every = f", or {ALL} for each in turn" if arguments.action == "run" else ""
        raise ValueError(f"NAME must be given with {arguments.action}: one of {', '.join(suites.names())}{every}.")
    for pair in arguments.data:
        if not all(part.strip() for part in pair.partition("=")):
            raise ValueError(f"--data must be NAME=PATH, such as cifar100=../cifar-100-python, got {pair!r}.")
    running.check(arguments)
    for name in _chosen(arguments):
        _check_one(name, arguments)


def _chosen(arguments: argparse.Namespace) -> list[str]:
    """The tables and figures to run; those of the paper that have the scale, if all are meant."""
    from softkin.lab import suites

    if arguments.name != ALL or arguments.action != "run":
        return [arguments.name]
    return [name for name in suites.names() if arguments.scale in suites.load_paper(name).scales]


def _check_one(name: str, arguments: argparse.Namespace) -> None:
    from softkin.lab import suites

    spec = suites.load(name, trust_model=arguments.trust_model)
    if isinstance(spec, suites.StudySuite):
        if arguments.action != "run":
            raise ValueError(f"{spec.name} lists studies: `softkin paper run` runs them; each has its table and page.")
        for item in spec.chosen(arguments.rows):
            item.study(arguments.output, _options(arguments)["data"])
        return
    spec.parts(arguments.scale, **_options(arguments))
    if arguments.action == "figure" and spec.kind == "table":
        raise ValueError(f"{spec.name} is a table; `softkin paper table {spec.name}` prints it.")


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "data": dict(pair.split("=", 1) for pair in arguments.data),
        "rows": arguments.rows,
        "vectors": arguments.vectors,
        "seeds": arguments.seeds,
    }


def run(arguments: argparse.Namespace) -> None:
    """List, train, print, draw."""
    from softkin.lab.data.published import NotFetched

    try:
        _run(arguments)
    except NotFetched as error:
        raise SoftkinError(f"{error} If you have the data, name them, as in --data cifar100=PATH.") from error


def _run(arguments: argparse.Namespace) -> None:
    from softkin.lab import suites

    if arguments.action == "list":
        _list(arguments.json, suites.names() if arguments.name is None else [arguments.name])
        return
    for name in _chosen(arguments):
        _run_one(name, arguments)


def _run_one(name: str, arguments: argparse.Namespace) -> None:
    from softkin import report
    from softkin.lab import suites

    spec = suites.load(name, trust_model=arguments.trust_model)
    options = _options(arguments)
    if isinstance(spec, suites.StudySuite):
        _run_studies(spec, arguments, options)
        return
    if arguments.action == "figure":
        _figure(spec, arguments, options)
        return
    if arguments.action == "run" and arguments.dry_run:
        _plan(spec, arguments, options)
        return
    if arguments.action == "run":
        how = running.how(arguments) | {"write_page": report.write_comparison}
        table = suites.run(spec, arguments.output, scale=arguments.scale, options=options, **how)
    else:
        table = suites.table(spec, arguments.output, scale=arguments.scale, options=options)
    if arguments.json:
        print(json_text(table.to_dict()))
    else:
        _print(table)
    if arguments.action == "run" or arguments.output.is_dir():
        _write(table, arguments.output, quiet=arguments.json)


def _run_studies(suite: "StudySuite", arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Run the studies of a suite, or print them; each keeps its own table, figures and page."""
    from softkin import report

    if arguments.dry_run:
        for item in suite.chosen(arguments.rows):
            study = item.study(arguments.output, options["data"])
            print(f"{item.name}: {study.data}, {len(study.methods)} methods, {len(study.seeds)} seeds")
        return
    how = running.how(arguments) | {"write_page": report.write_comparison, "tell": print}
    chosen = {key: options[key] for key in ("data", "rows", "seeds")}
    suite.run(arguments.output, **chosen, **how)


def _list(as_json: bool, names: list[str]) -> None:
    """Print tables and figures, with what each scale trains and how."""
    from softkin.lab import suites
    from softkin.lab.suites.runs import recipe_in_words

    listed: list[dict[str, Any]] = []
    for name in names:
        spec = suites.load_paper(name)
        scales = {}
        for scale in spec.scales:
            parts = spec.parts(scale)
            scales[scale] = {
                "about": spec.about(scale),
                "networks": list(dict.fromkeys(str(part.study.model) for part in parts)),
                "data": sorted(spec.sources(scale)),
                "recipe": recipe_in_words(parts[0]),
                "studies": len(parts),
                "seeds": len(parts[0].study.seeds),
            }
        listed.append({"name": name, "title": spec.title, "reference": spec.reference, "scales": scales})
    if as_json:
        print(json_text(listed))
        return
    for entry in listed:
        print(f"{entry['name']}: {entry['title']}")
        for scale, about in entry["scales"].items():
            print(f"  {scale}: {about['about']}")
            print(
                f"    {', '.join(about['networks'])} on {', '.join(about['data'])}; {counted(about['seeds'], 'seed')}"
            )
            print(f"    {about['recipe']}")
    first = listed[0]
    scale, about = list(first["scales"].items())[-1]
    data = " ".join(f"--data {name}=FOLDER" for name in about["data"])
    say(
        f"To run one: softkin paper run {first['name']} --scale {scale} {data}; --dry-run shows what it would train, "
        "and without --data the files are downloaded."
    )


def _plan(spec: "PaperSpec", arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    from softkin.lab.suites.runs import recipe_in_words

    for part in spec.parts(arguments.scale, **options):
        study = part.study
        trainings = sum(len(study.candidates(base)) for base in study.bases())
        rest = trainings if study.tuning == "each seed" else len(study.bases())
        total = trainings + rest * (len(study.seeds) - 1)
        print(f"{arguments.output / part.folder}: {study.model} on {study.data}, {', '.join(study.methods)}")
        print(f"  {recipe_in_words(part)}; {counted(len(study.seeds), 'seed')}; {counted(total, 'training')} at most")


def _print(table: "PaperTable") -> None:
    print(f"{table.spec.title} (scale {table.scale})")
    for block in table.blocks:
        if block.row:
            print(f"\n{block.row}")
        print_table(block.headings, block.rows, range(len(block.headings) - 1, 2, -1), left=[0])
        if block.about:
            print(block.about)
    print()
    for note in table.notes:
        say(note)


def _write(table: "PaperTable", folder: Path, *, quiet: bool) -> None:
    from softkin._io.files import write

    stem = f"{table.spec.name}-{table.scale}"
    content = {
        f"{stem}.md": table.to_markdown(),
        f"{stem}.csv": table.to_csv(),
        f"{stem}.json": json_text(table.to_dict()) + "\n",
    }
    for name, text in content.items():
        write(folder / name, text.encode("utf-8"))
        if not quiet:
            print(f"Wrote {terminal(str(folder / name))}")


def _figure(spec: "PaperSpec", arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    from softkin._core.figures import rendered
    from softkin._io.files import write
    from softkin.lab import suites

    written = []
    drawn = suites.figure(spec, arguments.output, scale=arguments.scale, options=options)
    for name, figure in drawn.items():
        content = rendered(figure, arguments.format, bbox_inches="tight", dpi=200)
        path = arguments.output / "figures" / f"{name}-{arguments.scale}.{arguments.format}"
        write(path, content)
        written.append(str(path))
    print(json.dumps(written) if arguments.json else "\n".join(f"Wrote {terminal(str(path))}" for path in written))
