"""``python -m softkin``."""

from softkin.cli import main

raise SystemExit(main())
