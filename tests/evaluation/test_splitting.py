"""Parts of a file: who goes where, and that nothing of the rows is lost or changed."""

import csv
import io
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softkin import SoftkinError, calibrators, predictions
from softkin.evaluation import from_files, splitting

N = 101
G = torch.Generator().manual_seed(3)
P = torch.softmax(2 * torch.randn(N, 3, generator=G), dim=1).double()
Y = torch.multinomial(P, 1, generator=G)[:, 0].tolist()
NAMES = ["cat", "dog", "owl"]
COLUMNS = (
    {"ticket": [f"T{n}" for n in range(N)], "day": [f"{1 + n % 28}.{1 + n % 12}.2026" for n in range(N)]}
    | {f"prob_{name}": [f"{p:.6f}" for p in P[:, k].tolist()] for k, name in enumerate(NAMES)}
    | {"owner": [f"o{n % 9}" for n in range(N)], "remark": ['=1+1; "so"'] * N}
    | {"label": [NAMES[k] for k in Y]}
)
PERCENT = {"fit": 0.6, "test": 0.4}


def write(path, columns=COLUMNS, delimiter=",", encoding="utf-8"):
    buffer = io.StringIO()
    rows = csv.writer(buffer, delimiter=delimiter)
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    path.write_bytes(buffer.getvalue().encode(encoding))
    return path


def cells(text, delimiter=","):
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter))


def dealt_twin(sizes, shares):
    """Each item in turn: what every part would have of the rows so far, and who lacks most."""
    found = []
    for n in range(len(sizes)):
        so_far = sum(sizes[: n + 1])
        lack = [
            share * so_far - sum(size for size, part in zip(sizes, found, strict=False) if part == place)
            for place, share in enumerate(shares)
        ]
        found.append(lack.index(max(lack)))
    return found


SHARES = st.lists(st.integers(1, 9), min_size=2, max_size=4).map(lambda own: [size / sum(own) for size in own])


@given(st.lists(st.integers(1, 7), min_size=1, max_size=40), SHARES)
def test_items_are_dealt_to_the_part_that_lacks_most(sizes, shares):
    assert splitting.dealt(sizes, shares) == dealt_twin(sizes, shares)


@given(st.integers(1, 300), SHARES)
def test_each_part_has_its_share_to_one_row(count, shares):
    parts = splitting.dealt([1] * count, shares)
    for place, share in enumerate(shares):
        assert abs(parts.count(place) - share * count) < len(shares)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=40), SHARES)
def test_an_order_is_cut_where_the_middle_of_an_item_falls(sizes, shares):
    parts, total, before = splitting.cut(sizes, shares), sum(sizes), 0
    assert parts == sorted(parts)
    for size, part in zip(sizes, parts, strict=True):
        middle = (before + size / 2) / total
        low = sum(shares[:part])
        assert low - 1e-9 <= middle <= low + shares[part] + 1e-9
        before += size


FORMS = {
    "comma": (",", "utf-8", "a.csv"),
    "semicolon in UTF-16": (";", "utf-16", "a.csv"),
    "tabs": ("\t", "utf-8", "a.tsv"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore")
def test_a_table_keeps_every_cell_of_its_rows(form, tmp_path):
    delimiter, encoding, name = FORMS[form]
    path = write(tmp_path / name, delimiter=delimiter, encoding=encoding)
    parts = splitting.split(path, PERCENT)
    assert [part.suffix for part in parts] == [path.suffix] * 2
    rows = [cells(part.content, delimiter) for part in parts]
    assert all(head == list(COLUMNS) for head, *_ in rows)
    whole = [list(row) for row in zip(*COLUMNS.values(), strict=True)]
    assert sorted(row for _, *own in rows for row in own) == sorted(whole)
    for part, (_, *own) in zip(parts, rows, strict=True):
        assert part.num_samples == len(own)
        assert [whole.index(row) for row in own] == sorted(whole.index(row) for row in own)  # in the file's order
        again = predictions.load(part.save(tmp_path / "parts"))
        assert again.sample_ids is None or len(set(again.sample_ids)) == len(own)
        expected = P[[whole.index(row) for row in own]]
        assert torch.allclose(again.probabilities, expected, atol=2e-6)


@pytest.mark.filterwarnings("ignore")
def test_each_class_has_its_share_of_each_part(tmp_path):
    parts = splitting.split(write(tmp_path / "a.csv"), PERCENT)
    counts = [[row[-1] for row in cells(part.content)[1:]] for part in parts]
    for k, name in enumerate(NAMES):
        assert abs(counts[0].count(name) - 0.6 * Y.count(k)) < 2
    others = splitting.split(write(tmp_path / "a.csv"), PERCENT, seed=1)
    assert others[0].content != parts[0].content


@pytest.mark.filterwarnings("ignore")
def test_rows_of_a_group_stay_together(tmp_path):
    parts = splitting.split(write(tmp_path / "a.csv"), together="owner")
    owners = [{row[5] for row in cells(part.content)[1:]} for part in parts]
    assert not owners[0] & owners[1]
    assert owners[0] | owners[1] == set(COLUMNS["owner"])


@pytest.mark.filterwarnings("ignore")
def test_the_earliest_rows_come_first_and_a_day_is_not_divided(tmp_path):
    parts = splitting.split(write(tmp_path / "a.csv"), PERCENT, by="day")
    days = [[tuple(map(int, row[1].split(".")))[::-1] for row in cells(part.content)[1:]] for part in parts]
    assert max(days[0]) < min(days[1])
    assert abs(len(days[0]) - 0.6 * N) < 4
    numbers = splitting.split(write(tmp_path / "b.csv", COLUMNS | {"day": [str(n) for n in range(N)]}), by="day")
    assert [row[1] for row in cells(numbers[0].content)[1:]] == [
        str(n) for n in range(len(cells(numbers[0].content)) - 1)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by", [None, "day"])
def test_rows_without_a_label_are_a_part_of_their_own(by, tmp_path):
    labels = ["" if n % 7 == 0 else label for n, label in enumerate(COLUMNS["label"])]
    parts = splitting.split(write(tmp_path / "a.csv", COLUMNS | {"label": labels}), by=by)
    assert [part.name for part in parts] == ["fit", "test", "unlabelled"]
    rows = [cells(part.content)[1:] for part in parts]
    assert all(row[-1] for own in rows[:2] for row in own)
    assert [row[0] for row in rows[2]] == [f"T{n}" for n in range(0, N, 7)]
    assert sum(map(len, rows)) == N


@pytest.mark.filterwarnings("ignore")
def test_arrays_stay_arrays(tmp_path):
    whole = predictions.Predictions(P.log(), torch.tensor(Y), class_names=NAMES, sample_ids=list(range(100, 100 + N)))
    for name in ("a.npz", "a.safetensors"):
        whole.save(tmp_path / name)
        parts = splitting.split(tmp_path / name)
        read = [predictions.load(part.save(tmp_path / "parts")) for part in parts]
        assert [part.suffix for part in parts] == [(tmp_path / name).suffix] * 2
        for own in read:
            places = own.sample_ids - 100
            assert torch.equal(own.logits, whole.logits[places])
            assert torch.equal(own.known_labels, whole.known_labels[places])
        assert sorted(torch.cat([own.sample_ids for own in read]).tolist()) == list(range(100, 100 + N))


@pytest.mark.filterwarnings("ignore")
def test_parts_of_a_calibrated_table_say_so(tmp_path):
    from softkin.predictions import reading, rewriting

    path = write(tmp_path / "a.csv")
    raw = predictions.load(path)
    calibrator = calibrators.TemperatureScaling().fit(raw.probabilities, raw.known_labels, from_probabilities=True)
    table = rewriting.rewritten(reading.open_file(path), raw.calibrated(calibrator), "temperature: 101 of 101 rows")
    (tmp_path / "calibrated.csv").write_text(table.text)
    for part in splitting.split(tmp_path / "calibrated.csv"):
        opened = reading.open_file(part.save(tmp_path / "parts"))
        assert opened.notes == {"calibration": "temperature: 101 of 101 rows", "calibrated_by": "temperature"}


REFUSED = {
    "no labels": ({name: own for name, own in COLUMNS.items() if name != "label"}, {}, "must have labels for this"),
    "no such column": (COLUMNS, {"by": "date"}, "has no `date`"),
    "texts that are no times": (COLUMNS, {"by": "owner"}, "must name a column of times or numbers"),
    "a part without rows": (COLUMNS, {"shares": {"a": 0.999, "b": 0.001}}, "the part `b` would have none of its 101"),
    "days before months": (COLUMNS | {"day": ["1/2/2026"] * N}, {"by": "day"}, "whether the day or the month"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case, tmp_path):
    columns, options, words = REFUSED[case]
    with pytest.raises(SoftkinError, match=words):
        splitting.split(write(tmp_path / "a.csv", columns), **options)


def test_arguments_that_cannot_be_right(tmp_path):
    path = write(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="together 1"):
        splitting.split(path, {"a": 0.5, "b": 0.6})
    with pytest.raises(ValueError, match="must not both be given"):
        splitting.split(path, by="day", together="owner")
    with pytest.raises(ValueError, match="without a label"):
        splitting.split(path, {"fit": 0.5, "unlabelled": 0.5})


@pytest.mark.filterwarnings("ignore:.*:softkin.predictions.Assumption")
def test_a_class_that_a_part_lacks_is_named(tmp_path):
    labels = ["owl" if n < 3 else "cat" if n % 2 else "dog" for n in range(N)]
    path = write(tmp_path / "a.csv", COLUMNS | {"label": labels, "day": [str(n) for n in range(N)]})
    with pytest.warns(UserWarning, match="the part `test` has no row of owl"):
        splitting.split(path, by="day")


def said_by(function, path, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        function(path, **options)
    return " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("words", [("train", "test"), ("Training", "validation")])
def test_parts_that_a_file_has_already_are_told(words, tmp_path):
    path = write(tmp_path / "a.csv", COLUMNS | {"split": [words[0] if n % 3 else words[1] for n in range(N)]})
    there = f"`split` says {words[0]} in 67 rows, {words[1]} in 34 rows"
    assert f"{there}; they are dealt alike" in said_by(splitting.split, path)
    assert f"{there}; all are measured together, and rows that the" in said_by(from_files.evaluate_file, path)
    assert there not in said_by(from_files.evaluate_file, path, group="split")


@pytest.mark.parametrize("cells", [[n % 5 for n in range(N)], ["test"] * N])
def test_folds_and_test_rows_alone_are_no_parts_to_tell_of(cells, tmp_path):
    path = write(tmp_path / "a.csv", COLUMNS | {"split": cells})
    said = said_by(from_files.evaluate_file, path) + said_by(splitting.split, path)
    assert "`split` says" not in said
