"""Bring paper/records/ from the records of format 1 to those of format 2, in which every metric has one form.

python scripts/migrate_records.py   can be run twice: records of format 2 stay as they are
"""

import gzip
import json
from pathlib import Path
from typing import Any

from softkin._io import files

RECORDS = Path(__file__).resolve().parents[1] / "paper" / "records"
LEVEL = 0.95  # of all intervals in format 1


def metrics(old: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a record: each with its own value under calibration, floor and caveat."""
    chance, caveats = old.get("when_calibrated", {}), old.get("caveats", {})
    beside = ("when_calibrated", "caveats", "kde_output_floor")
    new: dict[str, Any] = {key: {"value": value} for key, value in old.items() if key not in beside}
    for key, drawn in chance.items():
        new[key]["when_calibrated"] = {
            "value": drawn["mean"],
            "low": drawn["low"],
            "high": drawn["high"],
            "level": LEVEL,
        }
    for key, words in caveats.items():
        new[key]["caveat"] = words
    if "kde_output_floor" in old:
        new["ece_kde_output"]["floor"] = old["kde_output_floor"]
    return new


def record(old: dict[str, Any]) -> dict[str, Any]:
    """A record."""
    if old["format"] != 1:
        return old
    new = {**old, "format": 2}
    if "metrics" in old:
        new["metrics"] = metrics(old["metrics"])
    if "tried" in old:
        new["tried"] = [{**trial, "validation": metrics(trial["validation"])} for trial in old["tried"]]
    body = {key: value for key, value in new.items() if key != "checksum"}
    return {**body, "checksum": files.sha256_of_json(body)}


def cell(old: dict[str, Any], caveat: str | None) -> dict[str, Any]:
    """A cell of a table."""
    if "mean" not in old:
        return old
    new: dict[str, Any] = {"value": old["mean"]}
    if old["low"] is not None:
        new |= {"low": old["low"], "high": old["high"], "level": LEVEL}
    if old["floor"] is not None:
        new["floor"] = old["floor"]
    if old["calibrated"] is not None:
        new["when_calibrated"] = {"value": old["calibrated"]}
    if old["one_bin"]:
        assert caveat is not None
        new["caveat"] = caveat
    return new | {name: old[name] for name in ("std", "n", "values", "best", "tie", "p_value")}


def study(folder: Path) -> None:
    """The files of one study."""
    path = folder / "records.jsonl.gz"
    records = [record(json.loads(line)) for line in gzip.decompress(path.read_bytes()).splitlines()]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in records)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    caveats = {
        (line["method"], key): measured["caveat"]
        for line in records
        if line["kind"] == "result"
        for key, measured in line["metrics"].items()
        if "caveat" in measured
    }
    table = json.loads((folder / "table.json").read_text())
    for row in table["rows"]:
        row["cells"] = {key: cell(own, caveats.get((row["method"], key))) for key, own in row["cells"].items()}
    (folder / "table.json").write_bytes(files.json_bytes(table))
    about = json.loads((folder / "study.json").read_text())
    if about["format"] == 1:
        body = {**{key: value for key, value in about.items() if key != "checksum"}, "format": 2}
        (folder / "study.json").write_bytes(files.json_bytes({**body, "checksum": files.sha256_of_json(body)}))


if __name__ == "__main__":
    for folder in sorted(path.parent for path in RECORDS.glob("*/records.jsonl.gz")):
        study(folder)
        print(folder.name)
