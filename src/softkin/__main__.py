"""The entry point of ``python -m softkin`` and of the command ``softkin``; Ctrl-C works from the first import on."""

import sys


def main() -> int:
    """Run the command line."""
    try:
        from softkin.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("softkin: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
