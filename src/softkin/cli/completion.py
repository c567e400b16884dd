"""``softkin completion``: what a shell needs to complete commands, options and files."""

import argparse

SUMMARY = "print the completion script of a shell"
DESCRIPTION = """\
Print a script that lets a shell complete softkin's commands, options and files. For bash, once:
  softkin completion bash > ~/.local/share/bash-completion/completions/softkin
For zsh, into a folder of $fpath:
  softkin completion zsh > ~/.zfunc/_softkin"""
EXAMPLE = "softkin completion bash"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The shell."""
    command.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="which shell")


def check(arguments: argparse.Namespace) -> None:
    """Nothing can be wrong that the parser has not refused."""


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    import shtab

    from softkin.cli import parser

    print(shtab.complete(parser(), shell=arguments.shell))
