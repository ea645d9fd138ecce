"""Parquet files: columns, types, rows and missing values stand in the footer.

The footer is read here, without a library: that takes a millisecond, where importing one takes up
to two seconds, and no native decoder runs on a file that nobody has vouched for.
Source of the format: https://github.com/apache/parquet-format (parquet.thrift), and Thrift's
compact protocol.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ipyagent.kernel.describe.table import COLUMNS
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source

MAGIC = b"PAR1"
ENDINGS = ("parquet", "pq")
_MOST_FOOTER = 16_000_000
_MOST_COUNTED = 300_000
"""Bytes of the longest footer of which more than the columns is read."""
_DEPTH = 30
_Fields = dict[int, object]
_PHYSICAL = {0: "bool", 1: "int32", 2: "int64", 3: "int96", 4: "float32", 5: "float64"}
_CONVERTED = {
    0: "text", 4: "text (categories)", 5: "decimal", 6: "date", 7: "time", 8: "time",
    9: "datetime", 10: "datetime", 11: "uint8", 12: "uint16", 13: "uint32", 14: "uint64",
    15: "int8", 16: "int16", 17: "int32", 18: "int64", 19: "json", 20: "bson", 21: "interval",
}  # fmt: skip
_LOGICAL = {
    1: "text", 2: "map", 3: "list", 4: "text (categories)", 5: "decimal", 6: "date", 7: "time",
    8: "datetime", 11: "empty", 12: "json", 13: "bson", 14: "uuid", 15: "float16",
}  # fmt: skip


def read_parquet(source: Source) -> Sample:
    """Return the columns of a Parquet file; raises NotTableError."""
    footer = _read_footer(source)
    counted = len(footer) <= _MOST_COUNTED
    try:
        fields = _CompactReader(footer).read_struct(() if counted else (4,))
        return _describe(fields, counted)
    except (IndexError, ValueError, struct.error, RecursionError, KeyError, TypeError):
        raise NotTableError("its footer is damaged") from None


def _read_footer(source: Source) -> bytes:
    tail = source.read_at(max(0, source.size - 8), 8)
    if len(tail) < 8 or tail[4:] != MAGIC:
        encrypted = tail[4:] == b"PARE"
        raise NotTableError("its footer is encrypted" if encrypted else "it is no Parquet file")
    (length,) = struct.unpack("<I", tail[:4])
    if length > min(source.size - 8, _MOST_FOOTER):
        raise NotTableError("its footer is damaged, or longer than is read here")
    return source.read_at(source.size - 8 - length, length)


@dataclass(frozen=True)
class _Leaf:
    """A column at the top level: the element that describes it, and its leaves."""

    element: _Fields
    leaves: int


def _describe(fields: _Fields, counted: bool) -> Sample:
    schema = _structs(fields.get(2))
    total = _number(fields.get(3))
    columns = list(_top_columns(schema))
    groups = _structs(fields.get(4))
    facts = []
    summed = sum(_number(group.get(3)) for group in groups)
    if counted and summed != total:
        facts.append(f"damaged: its footer says {total:,} rows in all, and {summed:,} in its parts")
    statistics = _collect_statistics(groups)
    described = []
    at = 0
    for column in columns[:COLUMNS]:
        own = statistics[at : at + 1] if column.leaves == 1 else []
        described.append(_describe_column(column, own[0] if own else []))
        at += column.leaves
    facts.append("from the file's own metadata; examples are smallest values")
    return Sample(
        "Parquet file", described, len(columns), total, 0, facts=tuple(facts), declared=True
    )


def _structs(value: object) -> list[_Fields]:
    """Return a list of structures; raises ValueError for anything else."""
    items = [] if value is None else value
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise ValueError("not a list of structures")
    return items


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


def _top_columns(schema: Sequence[_Fields]) -> Iterator[_Leaf]:
    """Yield the columns below the root: a flat list holds the tree in depth-first order."""
    at = 1

    def skip_tree(depth: int) -> int:
        nonlocal at
        if depth > _DEPTH:
            raise ValueError("nested too deeply")
        children = schema[at].get(5)
        at += 1
        if not children:
            return 1
        return sum(skip_tree(depth + 1) for _ in range(_number(children)))

    while at < len(schema):
        element = schema[at]
        yield _Leaf(element, skip_tree(0))


def _collect_statistics(groups: Sequence[_Fields]) -> list[list[_Fields]]:
    """Return the statistics of each leaf, one for each row group; empty if one has none."""
    found: list[list[_Fields]] = []
    for n, group in enumerate(groups):
        for leaf, chunk in enumerate(_structs(group.get(1))):
            if n == 0:
                found.append([])
            metadata = chunk.get(3)
            given = metadata.get(12) if isinstance(metadata, dict) else None
            if leaf < len(found) and isinstance(given, dict):
                found[leaf].append(given)
    return [each if len(each) == len(groups) else [] for each in found]


def _describe_column(column: _Leaf, statistics: Sequence[_Fields]) -> SampleColumn:
    element = column.element
    raw = element.get(4)
    label = raw.decode(errors="replace") if isinstance(raw, bytes) else ""
    counts = [each.get(3) for each in statistics]
    known = [count for count in counts if type(count) is int]
    nulls = sum(known) if known and len(known) == len(counts) else None
    dtype = _name_type(element)
    smallest = next((each[6] for each in statistics if isinstance(each.get(6), bytes)), None)
    return SampleColumn(label, dtype, [_decode(smallest, element, dtype)], nulls)


def _name_type(element: _Fields) -> str:
    logical = element.get(10)
    if isinstance(logical, dict) and logical:
        name = _LOGICAL.get(next(iter(logical)))
        if name:
            return name
    if element.get(6) in _CONVERTED:
        return _CONVERTED[_number(element.get(6))]
    if element.get(5):
        return "nested"
    return _PHYSICAL.get(_number(element.get(1)), "bytes")


def _decode(value: object, element: _Fields, dtype: str) -> object:
    """Return a value of the statistics; None if its type is not decoded here."""
    if not isinstance(value, bytes):
        return None
    if dtype == "text":
        return value.decode(errors="replace")
    physical = element.get(1)
    form = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}.get(physical) if type(physical) is int else None
    if form is None or struct.calcsize(form) != len(value):
        return None
    (number,) = struct.unpack(form, value)
    if dtype == "date":
        try:
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=number)
        except OverflowError:
            return None
    return number if dtype.startswith(("int", "uint", "float")) else None


class _CompactReader:
    """A reader of Thrift's compact protocol; it raises IndexError at the end of the data.

    What it builds is bounded by the data's length: each value takes at least one byte of it.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._depth = data, 0, 0

    def read_struct(self, stop_at: Sequence[int] = ()) -> _Fields:
        """Return the fields by number, those before the first of `stop_at`."""
        self._depth += 1
        if self._depth > _DEPTH:
            raise ValueError("nested too deeply")
        fields: _Fields = {}
        number = 0
        while header := self._byte():
            kind, step = header & 15, header >> 4
            number = number + step if step else self._zigzag()
            if number in stop_at:
                break
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> object:
        match kind:
            case 1 | 2:  # in a list each has a byte of its own
                return self._byte() == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                return struct.unpack("<d", self._bytes(8))[0]
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                return self._list()
            case 12:
                return self.read_struct()
        raise ValueError("unknown type")

    def _list(self) -> list[object]:
        header = self._byte()
        kind, size = header & 15, header >> 4
        size = self._varint() if size == 15 else size
        if size > len(self._data) - self._at:
            raise ValueError("a list is longer than the data")
        return [self._value(kind) for _ in range(size)]

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise ValueError("a text is longer than the data")
        self._at += count
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result
            if shift > 63:
                raise ValueError("a number is too long")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
