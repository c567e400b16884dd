"""``softkin similarity``: how alike classes are. Measure it, see which source to trust, look at what came of it."""

import argparse

from softkin.cli import similarity_audition, similarity_measure, similarity_show

SUMMARY = "how alike the classes are, which source of that to trust, and the smooth label of each"
DESCRIPTION = """\
Measure how alike classes are (measure, which may be left out), rank sources by how well they predict what is really
confused (audition), or look at a similarity and mend it (show)."""
EXAMPLE = similarity_measure.EXAMPLE
ACTIONS = {"measure": similarity_measure, "audition": similarity_audition, "show": similarity_show}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Three commands below this one, of which the first is meant where none is named."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.usual = "measure"  # type: ignore[attr-defined]
    for name, module in ACTIONS.items():
        parser = actions.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    ACTIONS[arguments.action].check(arguments)


def run(arguments: argparse.Namespace) -> None:
    """One of the three."""
    ACTIONS[arguments.action].run(arguments)
