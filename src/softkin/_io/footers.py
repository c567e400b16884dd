"""The number of values that each column of a parquet file declares, from the file's footer.

pyarrow has these numbers too, but aborts the process where a column's part of the footer is damaged. The footer is in
Thrift's compact protocol, of which this reads what footers use.
"""

from collections import Counter
from typing import IO, Any

from softkin._io import files

_ROW_GROUPS, _COLUMNS, _ABOUT, _PATH, _VALUES = 4, 1, 3, 3, 5  # the numbers of fields in parquet.thrift
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def values_of(file: IO[bytes]) -> Counter[str]:
    """The number of values of each column, those inside its cells counted one by one; the file is rewound."""
    file.seek(-8, 2)
    size = int.from_bytes(file.read(4), "little")
    file.seek(-8 - size, 2)
    footer = _Compact(file.read(size)).struct()
    file.seek(0)
    values: Counter[str] = Counter()
    for group in footer[_ROW_GROUPS]:
        for chunk in group[_COLUMNS]:
            about = chunk[_ABOUT]
            values[about[_PATH][0].decode("utf-8", "replace")] += about[_VALUES]
    return values


class _Compact:
    """Values of Thrift's compact protocol: structs as dictionaries by field number, texts as bytes."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > files.DEPTH:
            raise RecursionError
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            length = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15, depth) for _ in range(length)]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _MAP or kind > _STRUCT or kind == 0:
            raise ValueError(f"its footer has a value of kind {kind}")
        return self._integer()

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _bytes(self, length: int) -> bytes:
        self.place += length
        if self.place > len(self.content):
            raise ValueError("its footer is cut off")
        return self.content[self.place - length : self.place]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
