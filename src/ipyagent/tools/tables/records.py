"""JSON files that hold tables: a list of objects, one object on each line, or columns by name."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice

from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.table import COLUMNS
from ipyagent.tools.tables.cells import infer_type
from ipyagent.tools.tables.delimited import Head, count_lines, read_head
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source

ENDINGS = {"json": "JSON file", "jsonl": "JSON Lines file", "ndjson": "JSON Lines file"}
_SPACE = re.compile(r"[\s,]*")
_LIST = re.compile(r'\s*(?:\{\s*"([^"\\]{1,80})"\s*:\s*)?\[')
_SHOWN = 100
_FEWEST = 2
"""Objects in a list that make a table."""

Keys = tuple[str, ...]


def read_records(source: Source) -> Sample:
    """Return the table in a JSON file; raises NotTableError for other content."""
    head = read_head(source)
    lines = source.ending != "json"
    keys, objects = ((), list(_parse_lines(head))) if lines else _parse_list(head)
    if len(objects) < (1 if lines else _FEWEST):
        raise NotTableError("it holds no list of objects")
    total, exact = _count(source, head, len(objects), lines)
    inner = "".join(f"[{key!r}]" for key in keys)
    whole = f"pd.read_json({source.path!r}, typ='series')"
    facts = [f"read with: pd.DataFrame({whole}{inner})"] if keys else []
    facts += [head.note] if head.note else []
    names = list(dict.fromkeys(name for each in objects for name in each))
    columns = [_describe_column(name, objects) for name in names[:COLUMNS]]
    kind = ENDINGS[source.ending]
    return Sample(kind, columns, len(names), total, len(objects), exact, tuple(facts))


def _parse_lines(head: Head) -> Iterator[JsonDict]:
    for line in head.text.splitlines():
        if line.strip():
            value = _parse(line)
            if not isinstance(value, dict):
                raise NotTableError("its lines are not objects")
            yield value


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except RecursionError:
        raise NotTableError("it is nested too deeply") from None
    except ValueError as error:
        raise NotTableError(f"it is not valid JSON: {error}") from None


def _parse_list(head: Head) -> tuple[Keys, list[JsonDict]]:
    """Return the keys behind which a list of objects is, from the outside, and its objects."""
    if head.whole:
        return _find_list(_parse(head.text))
    start = _LIST.match(head.text)
    if start is None:
        raise NotTableError("it does not begin with a list")
    objects = list(_parse_items(head.text, start.end()))
    return (start[1],) if start[1] else (), objects


def _find_list(value: object) -> tuple[Keys, list[JsonDict]]:
    if isinstance(value, list):
        return (), _only_objects(value)
    if not isinstance(value, dict):
        raise NotTableError("it holds no list of objects")
    if value and all(isinstance(each, list) for each in value.values()):
        lengths = {len(each) for each in value.values()}
        flat = not any(isinstance(cell, dict) for each in value.values() for cell in each[:_SHOWN])
        if len(lengths) == 1 and flat and len(value) > 1:
            rows = zip(*value.values(), strict=True)
            return (), [dict(zip(value, row, strict=True)) for row in rows]
    lists = list(_lists_in(value))
    if len(lists) != 1:
        raise NotTableError("it is an object, not a list of objects")
    return lists[0][0], _only_objects(lists[0][1])


def _lists_in(value: JsonDict, depth: int = 3) -> Iterator[tuple[Keys, list[object]]]:
    """Yield the lists that are not empty, in objects within objects, with their keys."""
    for key, each in value.items():
        if isinstance(each, list) and each:
            yield (key,), each
        elif isinstance(each, dict) and depth > 1:
            yield from (((key, *keys), found) for keys, found in _lists_in(each, depth - 1))


def _only_objects(values: Sequence[object]) -> list[JsonDict]:
    objects = [each for each in values if isinstance(each, dict)]
    if len(objects) != len(values):
        raise NotTableError("its list holds other things than objects")
    return objects


def _parse_items(text: str, at: int) -> Iterator[JsonDict]:
    decoder = json.JSONDecoder()
    while (space := _SPACE.match(text, at)) and space.end() < len(text):
        try:
            value, at = decoder.raw_decode(text, space.end())
        except (ValueError, RecursionError):  # the last one is cut
            return
        if not isinstance(value, dict):
            raise NotTableError("its list holds other things than objects")
        yield value


def _count(source: Source, head: Head, sampled: int, lines: bool) -> tuple[int | None, bool]:
    if head.whole:
        return sampled, True
    if lines and source.size <= source.effort.count_bytes:
        # A line of JSON has quotes, but no line end in them.
        counted = count_lines(source, head, quotes=False)
        if counted is not None:
            return counted, True
    return max(sampled, round(source.size / head.size * sampled)), False


def _describe_column(name: str, objects: Sequence[Mapping[str, object]]) -> SampleColumn:
    values = [each.get(name) for each in objects]
    present = [value for value in values if value is not None]
    scalars = {v for v in present if isinstance(v, Hashable)}
    unique = len(scalars) if len(present) == sum(isinstance(v, Hashable) for v in present) else None
    dtype = _name_type(name, present)
    nulls = len(values) - len(present)
    return SampleColumn(name, dtype, list(islice(values, _SHOWN)), nulls, unique)


def _name_type(name: str, present: Sequence[object]) -> str:
    kinds = {type(value) for value in present}
    if not kinds:
        return "empty"
    if kinds <= {int, float}:
        return "float" if float in kinds else "int"
    if kinds == {str}:
        found = infer_type([str(value) for value in present], name).dtype
        return found if found.startswith(("text", "date", "empty")) else f"text ({found})"
    names = {bool: "bool", str: "text", dict: "object", list: "list", int: "int", float: "float"}
    return " or ".join(sorted(names[kind] for kind in kinds))
