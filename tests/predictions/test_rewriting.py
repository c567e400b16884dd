"""A calibrated table keeps every column of the one that it was made from, and is read again without options."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from command_line import run
from data_files import xlsx
from softkin import calibrators, predictions

N = 120
G = torch.Generator().manual_seed(5)
P = torch.softmax(2 * torch.randn(N, 3, generator=G), dim=1).double()
Y = torch.multinomial((P.log() / 2).softmax(dim=1), 1, generator=G)[:, 0]
NAMES = ["cat", "dog (big)", "owl"]
SCORES = {name: [f"{value:.6f}" for value in P[:, k].tolist()] for k, name in enumerate(NAMES)}
CALLED = [NAMES[k] for k in Y.tolist()]
ID, AGE = [f"00{n}" for n in range(N)], [f"{20 + n % 50}.50" for n in range(N)]


def text(columns, delimiter=","):
    buffer = io.StringIO()
    rows = csv.writer(buffer, delimiter=delimiter)
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue().encode()


def parquet(columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table({name: _numbers(cells) for name, cells in columns.items()}), buffer)
    return buffer.getvalue()


def _numbers(cells):
    return [float(cell) if cell[:2] in ("0.", "1.") else cell for cell in cells]


def lines(columns):
    return "\n".join(
        json.dumps({name: _numbers([cell])[0] for name, cell in zip(columns, row, strict=True)})
        for row in zip(*columns.values(), strict=True)
    ).encode()


TABLE = {"customer_id": ID, "age": AGE} | SCORES | {"label": CALLED, "remark": ["=1+1, or\nmore"] * N}
BINARY = {"id": ID, "y_prob": SCORES["cat"], "y_true": [str(int(k == 0)) for k in Y.tolist()], "age": AGE}
COMMAS = {name: [cell.replace(".", ",") for cell in cells] for name, cells in TABLE.items()}
CASES = {
    "classes beside ids and ages": ("a.csv", text(TABLE), []),
    "semicolons and decimal commas": ("a.csv", text(COMMAS, ";"), []),
    "tabs": ("a.tsv", text(TABLE, "\t"), []),
    "parquet": ("a.parquet", parquet(TABLE), []),
    "JSON lines": ("a.jsonl", lines(TABLE), []),
    "Excel": ("a.xlsx", xlsx({name: _numbers(cells) for name, cells in TABLE.items()}), []),
    "one score": ("a.csv", text(BINARY), []),
    "one score of the other class": ("a.csv", text(BINARY), ["--positive-class", "0"]),
    "labels under a name that only an option tells": (
        "a.csv", text({"v9": [str(k) for k in Y.tolist()]} | SCORES), ["--label-column", "v9"],
    ),
    "labels that are not the usual ones": (
        "a.csv", text(SCORES | {"label": CALLED[::-1], "v9": CALLED}), ["--label-column", "v9"],
    ),
    "labels from 1": ("a.csv", text({f"p{k}": SCORES[name] for k, name in enumerate(NAMES)}
                                    | {"label": [str(k + 1) for k in Y.tolist()]}), []),
    "pairs": ("a.csv", text({"id": ID, "confidence": SCORES["cat"], "correct": BINARY["y_true"], "age": AGE}), []),
    "truth in a column for each class": (
        "a.csv", text({f"prob_{name}": SCORES[name] for name in NAMES}
                      | {f"true_{name}": [str(int(k == j)) for k in Y.tolist()] for j, name in enumerate(NAMES)}), [],
    ),
    "logits beside their probabilities": (
        "a.csv", text({f"logit_{name}": [repr(v) for v in P.log()[:, k].tolist()] for k, name in enumerate(NAMES)}
                      | {f"prob_{name}": SCORES[name] for name in NAMES} | {"label": CALLED}), [],
    ),
    "lists in a column": ("a.jsonl", "\n".join(
        json.dumps({"id": n, "probs": p, "label": int(y)}) for n, (p, y) in enumerate(zip(P.tolist(), Y, strict=True))
    ).encode(), []),
}  # fmt: skip


def plainly(content, delimiter=","):
    return list(csv.reader(io.StringIO(content.decode("utf-8")), delimiter=delimiter))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_every_column_is_kept_and_the_table_is_read_again(case, tmp_path, capsys):
    """What is written is read without options, as the same probabilities and labels that Python computes."""
    name, content, options = CASES[case]
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "out.csv"
    asked = {"positive_class": options[1]} if "--positive-class" in options else {}
    asked |= {"label_column": options[1]} if "--label-column" in options else {}
    raw = predictions.load(tmp_path / name, **asked)
    scores, labels, _ = raw.arrays()
    calibrator = calibrators.TemperatureScaling().fit(
        scores, labels, class_names=raw.class_names, from_probabilities=raw.are_probabilities
    )
    calibrator.save(tmp_path / "cal")
    code, printed, _ = run(capsys, "calibrate", "apply", tmp_path / "cal", tmp_path / name, "--output", out, *options)
    assert code == 0
    assert "replace" in printed
    again = predictions.load(out)
    assert torch.equal(again.probabilities, raw.calibrated(calibrator).probabilities)
    assert torch.equal(again.known_labels, raw.known_labels)
    if name.endswith(".csv"):
        mark = ";" if "semicolons" in case else ","
        before, after = plainly(content, mark), plainly(out.read_bytes(), mark)
        kept = [column for column in before[0] if column in after[0]]
        assert [column for column in after[0] if column in kept] == kept
        for column in kept:
            rows = ([row[head.index(column)] for row in table[1:]] for head, table in
                    ((before[0], before), (after[0], after)))  # fmt: skip
            assert next(rows) == next(rows), column
        assert "calibration_note" not in after[0]  # the fit knows no row of this file


@pytest.mark.filterwarnings("ignore")
def test_what_was_kept_is_said_and_a_second_calibration_replaces_the_first(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(text(TABLE))
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    assert run(capsys, "calibrate", "fit", tmp_path / "a.csv", "--output", tmp_path / "cal")[0] == 0
    _, printed, _ = run(capsys, "calibrate", "apply", tmp_path / "cal", tmp_path / "a.csv", "--output", first)
    assert (
        "calibrated_cat, calibrated_dog (big), calibrated_owl replace cat, dog (big), owl; kept as they are: "
        in printed
    )
    assert "customer_id, age, label, remark." in printed.replace("\n", " ")
    assert "calibration_note" in first.read_text().partition("\n")[0]  # fitted on these very rows
    _, printed, _ = run(capsys, "calibrate", "apply", tmp_path / "cal", first, "--output", second)
    head = plainly(second.read_bytes())[0]
    assert head.count("calibrated_cat") == 1
    assert "age" in head
