"""Files in the official formats, written from real images: what tests of the readers read."""

import io
import struct
import tarfile
import zipfile
from xml.sax.saxutils import escape

import numpy as np
from PIL import Image


def python2_pickle(value):
    """The bytes that Python 2 wrote for plain data and arrays of bytes, as in CIFAR's own files: protocol 2."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value):
    if value is None:
        return b"N"
    if isinstance(value, int):
        return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, str):
        value = value.encode("latin1")
    if isinstance(value, bytes):
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_opcodes, value)) + b"t"
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items()) + b"u"
    dtype = b"cnumpy\ndtype\n" + _opcodes(("u1", 0, 1)) + b"R" + _opcodes((3, "|", None, None, None, -1, -1, 0)) + b"b"
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + _opcodes((0,)) + _opcodes("b") + b"tR"
    return made + b"(" + _opcodes(1) + _opcodes(value.shape) + dtype + b"\x89" + _opcodes(value.tobytes()) + b"tb"


def rows(images):
    """(N, 32, 32, 3) → (N, 3072), red, green, blue: how CIFAR lies in its files."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


def cifar100_folder(folder, images, labels, names, test=50):
    """cifar-100-python with the last ``test`` images as its test set."""
    folder.mkdir(parents=True)
    cuts = {"train": slice(0, len(images) - test), "test": slice(len(images) - test, None)}
    for name, cut in cuts.items():
        content = {
            "filenames": [f"{name}_{row}.png" for row in range(len(labels[cut]))],
            "batch_label": f"{name}ing batch 1 of 1",
            "fine_labels": [int(label) for label in labels[cut]],
            "coarse_labels": [0 for _ in labels[cut]],
            "data": rows(images[cut]),
        }
        (folder / name).write_bytes(python2_pickle(content))
    (folder / "meta").write_bytes(python2_pickle({"fine_label_names": list(names), "coarse_label_names": ["all"]}))
    return folder


def tar_of(folder, path):
    """Folder as .tar.gz, as the authors pack it: one folder that holds all."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    return path


def png(image):
    """One image as the bytes of a PNG file."""
    content = io.BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return content.getvalue()


def tiny_imagenet_tree(folder, table, words, max_per_class=2, classes=4):
    """tiny-imagenet-200 with real images of a parquet table's first classes, the test folder without labels."""
    import json

    numbers = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["label"]["names"][:classes]
    labels = table["label"].to_numpy()
    folder.mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(numbers) + "\n")
    lines = [line for line in words.read_text().splitlines() if line.partition("\t")[0] in numbers]
    (folder / "words.txt").write_text("\n".join([*lines, "n00000000\tentity"]) + "\n")
    annotations = []
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "test" / "images").mkdir(parents=True)
    for k, number in enumerate(numbers):
        actual = [table["image"][int(row)].as_py()["bytes"] for row in np.flatnonzero(labels == k)[: max_per_class + 2]]
        (folder / "train" / number / "images").mkdir(parents=True)
        (folder / "train" / number / f"{number}_boxes.txt").write_text("0\t0\t0\t62\t62\n")
        for row in range(max_per_class):
            (folder / "train" / number / "images" / f"{number}_{row}.JPEG").write_bytes(actual[row])
        (folder / "val" / "images" / f"val_{classes - k}.JPEG").write_bytes(actual[max_per_class])
        annotations.append(f"val_{classes - k}.JPEG\t{number}\t0\t0\t62\t62")
        (folder / "test" / "images" / f"test_{k}.JPEG").write_bytes(actual[max_per_class + 1])
    (folder / "val" / "val_annotations.txt").write_text("\n".join(annotations) + "\n")
    return numbers


def xlsx(columns, shared=True):
    """A workbook of one sheet, with texts in a shared list, as spreadsheets write them, or inline."""
    return sheet([list(columns), *zip(*columns.values(), strict=True)], shared)


def sheet(lines, shared=True):
    """A workbook whose only sheet has these rows of cells."""
    texts, rows = [], []
    for number, row in enumerate(lines, start=1):
        cells = []
        for place, cell in enumerate(row):
            where = f"{chr(65 + place)}{number}"
            if cell is None:
                continue
            if isinstance(cell, bool):
                cells.append(f'<c r="{where}" t="b"><v>{int(cell)}</v></c>')
            elif not isinstance(cell, str):
                cells.append(f'<c r="{where}"><v>{cell!r}</v></c>')
            elif shared:
                texts.append(escape(cell))
                cells.append(f'<c r="{where}" t="s"><v>{len(texts) - 1}</v></c>')
            else:
                cells.append(f'<c r="{where}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>')
        rows.append(f'<row r="{number}">{"".join(cells)}</row>')
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    links = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{links}"><sheets><sheet name="Scores" sheetId="1" '
        'r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}"><Relationship Id="rId1" '
        f'Type="{links}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{"".join(rows)}</sheetData></worksheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{"".join(f"<si><t>{t}</t></si>" for t in texts)}</sst>',
    }

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()
