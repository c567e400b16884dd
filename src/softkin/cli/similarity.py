"""``softkin similarity``: measure how alike classes are, rank the sources of that, and inspect the result."""

import argparse

from softkin.cli import similarity_audition, similarity_measure, similarity_show
from softkin.cli.arguments import examples

SUMMARY = "measure how alike classes are, rank sources of similarity, and show the smooth labels"
DESCRIPTION = """\
Measure how alike classes are (measure, the default action), rank sources of similarity by how well they predict actual
confusions (audition), or inspect a similarity and correct it (show)."""
EXAMPLE = similarity_measure.EXAMPLE
MORE_EXAMPLES = (
    *similarity_measure.MORE_EXAMPLES,
    "softkin similarity show examples/cifar100.txt fox tank",
)
ACTIONS = {"measure": similarity_measure, "audition": similarity_audition, "show": similarity_show}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the actions; measure is the default."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.usual = "measure"  # type: ignore[attr-defined]
    for name, module in ACTIONS.items():
        parser = actions.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=examples(module.EXAMPLE, *getattr(module, "MORE_EXAMPLES", ())),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)


def check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before any work is done."""
    ACTIONS[arguments.action].check(arguments)


def run(arguments: argparse.Namespace) -> None:
    """Run the action."""
    ACTIONS[arguments.action].run(arguments)
