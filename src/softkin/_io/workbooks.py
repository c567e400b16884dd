"""The first sheet of an Excel workbook: its cells are text inside a zip archive, read without formulas and formats.

What the cells mean is found out as for the file of separated values that a spreadsheet would export (``separated``).
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import IO, Any
from xml.etree import ElementTree

from softkin import SoftkinError
from softkin._io import files, separated
from softkin._io.numpy_files import size_of
from softkin._io.tables import Table

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
COLUMNS = 16_384  # that a sheet can have


def open_xlsx(file: IO[bytes], name: str) -> Table:
    """The table on the first sheet of a workbook, below a header."""
    size = size_of(file)
    with zipfile.ZipFile(file) as archive:
        files.unpacked_within(size, sum(part.file_size for part in archive.infolist()), name)
        files.within("bytes", 8 * sum(part.file_size for part in archive.infolist()), name)
        sheet, others = _first_sheet(archive, name)
        texts = _texts(archive)
        rows = [
            (number, row)
            for number, row in _rows(archive, sheet, texts, name)
            if any(cell not in (None, "") for cell in row)
        ]
    if len(rows) < 2:
        raise SoftkinError(f"{name} must hold a header and at least one row on its first sheet, it holds {len(rows)}.")
    table = separated.open_cells(rows, name)
    said = (f"{name}: the first of its {others + 1} sheets is read, {sheet[1]!r}.",) if others else ()
    return replace(table, assumed=(*table.assumed, *said))


def _first_sheet(archive: zipfile.ZipFile, name: str) -> tuple[tuple[str, str], int]:
    """((the part of the first sheet, its title), the number of other sheets)."""
    try:
        sheets = list(_parsed(archive, "xl/workbook.xml").iter(f"{MAIN}sheet"))
        targets = {
            link.get("Id"): link.get("Target", "") for link in _parsed(archive, "xl/_rels/workbook.xml.rels").iter()
        }
        target = targets[sheets[0].get(LINK)]
    except (KeyError, IndexError) as error:
        raise SoftkinError(f"{name} must be an Excel workbook with a sheet, it has none.") from error
    part = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
    return (part, sheets[0].get("name", "")), len(sheets) - 1


def _parsed(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    content = archive.read(part)
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise SoftkinError(f"{archive.filename or part} must not define entities.")
    return ElementTree.fromstring(content)


def _texts(archive: zipfile.ZipFile) -> list[str]:
    """The texts that cells refer to by number."""
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    return [_joined(entry) for entry in _parsed(archive, "xl/sharedStrings.xml").iter(f"{MAIN}si")]


def _joined(element: ElementTree.Element) -> str:
    return "".join(part.text or "" for part in element.iter(f"{MAIN}t"))


def _rows(
    archive: zipfile.ZipFile, sheet: tuple[str, str], texts: Sequence[str], name: str
) -> Iterator[tuple[int, list[Any]]]:
    """(number on the sheet, cells) of each row; a cell that the sheet leaves out is None."""
    number = 0
    for row in _parsed(archive, sheet[0]).iter(f"{MAIN}row"):
        stated = row.get("r", "")
        number = int(stated) if stated.isdecimal() and len(stated) < 8 else number + 1
        cells: list[Any] = []
        for cell in row.iter(f"{MAIN}c"):
            place = _column(cell.get("r") or "", len(cells))
            if not len(cells) <= place < COLUMNS:
                raise SoftkinError(f"{name} is damaged: its cell {cell.get('r')} is out of order.")
            cells += [None] * (place - len(cells))
            cells.append(_value(cell, texts, name))
        yield number, cells


def _column(reference: str, following: int) -> int:
    """The place of a cell such as "AB12" in its row; a cell without reference follows the one before."""
    letters = re.match(r"[A-Z]{1,3}", reference)
    if letters is None:
        return following
    place = 0
    for letter in letters[0]:
        place = 26 * place + ord(letter) - 64
    return place - 1


def _value(cell: ElementTree.Element, texts: Sequence[str], name: str) -> Any:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _joined(cell)
    text = cell.findtext(f"{MAIN}v")
    if text is None:
        return None
    try:
        if kind == "s":
            return texts[int(text)]
        if kind == "b":
            return text == "1"
        return (int(number) if (number := float(text)).is_integer() else number) if kind == "n" else text
    except (ValueError, OverflowError, IndexError) as error:
        raise SoftkinError(f"{name} is damaged: its cell {cell.get('r')} holds {text[:30]!r}.") from error
