"""``softkin report``: serve the pages of a folder to a browser."""

import argparse
from pathlib import Path

from softkin.cli.arguments import examples, within

SUMMARY = "show the pages of a folder in a browser, and reload them when they change"
DESCRIPTION = """\
Serve the pages that `softkin evaluate --report` and `softkin compare` wrote, to browsers on this machine only. An open
page reloads when its file changes. With --update the page of a study that still runs is written again as its results
come in; without it nothing is written."""
EXAMPLE = "softkin report serve study/ --update"
MORE_EXAMPLES = ("softkin report serve .",)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the action serve."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    serve = actions.add_parser(
        "serve",
        help="serve a folder of pages on the loopback address",
        description="Serve a folder of pages on the loopback address until Ctrl-C.",
        epilog=examples(EXAMPLE, *MORE_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("folder", type=Path, metavar="FOLDER", help="folder of pages or studies")
    serve.add_argument("--port", type=int, default=0, help="port to serve on (default: any free one)")
    serve.add_argument("--update", action="store_true", help="write the pages of studies again as results come in")


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    within(arguments.port, "--port", 0, 65535)
    if arguments.folder.suffix == ".html" and arguments.folder.is_file():
        arguments.folder = arguments.folder.parent  # whose list has the page
    if not arguments.folder.is_dir():
        raise ValueError(f"FOLDER must be a folder of pages, but {arguments.folder} is not a folder.")


def run(arguments: argparse.Namespace) -> None:
    """Serve until interrupted."""
    import threading

    from softkin.report import serve

    server = serve.PageServer(arguments.folder, port=arguments.port)
    stop = threading.Event()

    def say(sentence: str) -> None:
        print(sentence, flush=True)

    if arguments.update:
        threading.Thread(target=serve.watch_studies, args=(arguments.folder, stop, say), daemon=True).start()
    say(f"Serving {arguments.folder} at {server.url} until Ctrl-C")
    try:
        server.serve_forever()
    finally:
        stop.set()
        server.server_close()
