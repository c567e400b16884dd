"""A command, run in this process as a shell would run it."""

from softkin import cli


def run(capsys, *arguments):
    """(exit code, stdout, stderr) of ``softkin …``."""
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err
