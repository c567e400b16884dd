"""The notebooks of the documentation run as they stand, and are saved with their output."""

import json
import re

import pytest

from places import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
pytestmark = pytest.mark.slow


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == [
        "choosing_a_similarity",
        "decisions",
        "evaluate_repair_send",
        "own_loop",
    ]


def texts(output):
    """What an output shows, pictures aside."""
    shown = [output.get("text", ""), *(value for kind, value in output.get("data", {}).items() if "image" not in kind)]
    return ["".join(value) for value in shown]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_is_saved_with_what_it_prints(path):
    import nbformat
    from nbclient import NotebookClient

    saved = json.loads(path.read_text(encoding="utf-8"))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": path.parent}})
    client.execute()
    codes = [cell for cell in saved["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in codes)
    pictures = [output for cell in codes for output in cell["outputs"] if "image/png" in output.get("data", {})]
    assert pictures or path.stem == "decisions"
    for before, after in zip(codes, (cell for cell in notebook.cells if cell.cell_type == "code"), strict=True):
        kinds = [output["output_type"] for output in before["outputs"]]
        assert "error" not in kinds
        assert bool(kinds) == bool(after.outputs), before["source"]
        printed = [text for output in before["outputs"] for text in texts(output)]
        assert not [text for text in printed if re.search(r"(^|[^\w.<])/[\w.-]+/", text)]  # a path of one machine
