"""Where the project and the real data beside it lie."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
EXAMPLES = ROOT / "examples"
SHARED = ROOT.parent / "shared" / "data"
