"""A calibrated table keeps every column of the one that it was made from, and is read again without options."""

import csv
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from command_line import run
from data_files import xlsx
from softkin import calibrators, metrics, predictions
from softkin.predictions import rewriting
from softkin.predictions.reading import open_file

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
    assert re.search("(was|were) added behind", printed)
    again = predictions.load(out)
    assert torch.equal(again.probabilities, raw.calibrated(calibrator).probabilities)
    assert torch.equal(again.known_labels, raw.known_labels)
    if name.endswith(".csv"):
        mark = ";" if "semicolons" in case else ","
        before, after = plainly(content, mark), plainly(out.read_bytes(), mark)
        kept = before[0]
        assert [column for column in after[0] if column in kept] == kept
        for column in kept:
            rows = ([row[head.index(column)] for row in table[1:]] for head, table in
                    ((before[0], before), (after[0], after)))  # fmt: skip
            assert next(rows) == next(rows), column
        note = after[1][after[0].index("calibration_note")]  # the fit knows no row of this file
        assert note == f"temperature calibrator [{calibrator.fingerprint}]"


@pytest.mark.filterwarnings("ignore")
def test_what_was_kept_is_said_and_a_second_calibration_replaces_the_first(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(text(TABLE))
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    assert run(capsys, "calibrate", "fit", tmp_path / "a.csv", "--output", tmp_path / "cal")[0] == 0
    _, printed, _ = run(capsys, "calibrate", "apply", tmp_path / "cal", tmp_path / "a.csv", "--output", first)
    assert (
        "calibrated_cat, calibrated_dog (big), calibrated_owl were added behind cat, dog (big), owl; "
        "all other columns are as they were."
    ) in printed.replace("\n", " ")
    assert "calibration_note" in first.read_text().partition("\n")[0]  # fitted on these very rows
    _, printed, _ = run(capsys, "calibrate", "apply", tmp_path / "cal", first, "--output", second)
    assert "replace those of an earlier calibration" in printed
    head = plainly(second.read_bytes())[0]
    assert head == plainly(first.read_bytes())[0]
    assert head.count("calibrated_cat") == 1
    assert "age" in head


def _percent(cells, sign):
    return [f"{100 * float(cell):.1f}{sign}".replace(".", ",") for cell in cells]


FORMS = {
    "percent with decimal commas": (
        b"\xef\xbb\xbf" + text({"name": ["Ümit"] * N} | {c: _percent(p, " %") for c, p in SCORES.items()}
                               | {"label": CALLED}, ";"),
        r"\d{1,3},\d{4,} %", b"\xef\xbb\xbf",
    ),
    "numbers up to 100": (text({c: _percent(p, "") for c, p in SCORES.items()} | {"label": CALLED}, ";"),
                          r"\d{1,3},\d{4,}", b"cat"),
    "shares of three digits": (
        text({c: [f"{float(cell):.3f}" for cell in p] for c, p in SCORES.items()} | {"label": CALLED}),
        r"[01]\.\d{6,}", b"cat",
    ),
    "a confidence in percent": (
        b"sep=;\n" + text({"confidence": _percent(SCORES["cat"], "%"), "correct": BINARY["y_true"]}, ";"),
        r"\d{1,3},\d{4,}%", b"sep=;\n",
    ),
    "UTF-16": (
        text({c: _percent(p, "%") for c, p in SCORES.items()} | {"label": CALLED}, "\t").decode().encode("utf-16"),
        r"\d{1,3},\d{4,}%", b"\xef\xbb\xbf",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_scores_are_written_as_people_wrote_them(case, tmp_path, capsys):
    """Percent stay percent, with the decimal mark; no more digits than metrics need; a spreadsheet's marks are kept."""
    content, cell, begins = FORMS[case]
    (tmp_path / "a.csv").write_bytes(content)
    run(capsys, "calibrate", "fit", tmp_path / "a.csv", "--output", tmp_path / "cal", "--method", "temperature")
    out = tmp_path / "out.csv"
    assert run(capsys, "calibrate", "apply", tmp_path / "cal", tmp_path / "a.csv", "--output", out)[0] == 0
    assert out.read_bytes().startswith(begins)
    header, *rows = plainly(
        out.read_bytes().removeprefix(begins[: -3 if begins == b"cat" else None]),
        ";" if b";" in out.read_bytes() else ",",
    )
    scores = [n for n, column in enumerate(header) if column.startswith("calibrated_")]
    for row in rows:
        assert all(re.fullmatch(cell, row[n]) for n in scores), row
    raw, again = predictions.load(tmp_path / "a.csv"), predictions.load(out)
    exact = raw.calibrated(calibrators.load(tmp_path / "cal")).probabilities
    torch.testing.assert_close(again.probabilities, exact, rtol=6e-6, atol=0)
    assert f"{metrics.nll(again.probabilities, raw.known_labels):.4f}" == f"{metrics.nll(exact, raw.known_labels):.4f}"
    notes = [row[header.index("calibration_note")] for row in rows]
    assert notes[0].endswith("samples are of its fit")
    assert not any(notes[1:])


def test_small_and_large_probabilities_keep_their_digits():
    form = rewriting.NumberForm(sign=" %", times=100, is_exact=False, point=",")
    numbers = [0.5, 1e-9, 1 - 2e-9, 0.0, 1.0, 0.05123456789, None]
    assert form.cells(numbers) == [
        "50,0000 %", "0,000000100000 %", "99,999999800000 %", "0,0000 %", "100,0000 %", "5,12346 %", "",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_the_note_of_a_calibrated_table_is_found_wherever_sorting_has_put_it(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(text(TABLE))
    run(capsys, "calibrate", "fit", tmp_path / "a.csv", "--output", tmp_path / "cal")
    out = tmp_path / "out.csv"
    run(capsys, "calibrate", "apply", tmp_path / "cal", tmp_path / "a.csv", "--output", out)
    header, *rows = plainly(out.read_bytes())
    with out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows[::-1]])
    assert "samples are of its fit" in open_file(out).notes["calibration"]
