"""JSON files that hold tables: a list of objects, one object on each line, or columns by name."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice

from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe.table import COLUMNS
from ipyagent.phrases import plural
from ipyagent.tools.tables.cells import Reading, find_sentinels, in_columns, infer_type
from ipyagent.tools.tables.delimited import Head, count_lines, read_head
from ipyagent.tools.tables.row_kinds import find_totals
from ipyagent.tools.tables.sample import NotTableError, Sample, SampleColumn, Source

ENDINGS = {"json": "JSON file", "jsonl": "JSON Lines file", "ndjson": "JSON Lines file"}
_SPACE = re.compile(r"[\s,]*")
_LIST = re.compile(r'\s*(?:\{\s*"([^"\\]{1,80})"\s*:\s*)?\[')
_LINES = re.compile(r"\s*\{[^\n]*\}\s*\n\s*\{")
"""Two objects on lines of their own."""
_SHOWN = 100
_MOST_LISTS = 2
"""Lists of objects between which the user may choose."""
_FEWEST = 2
"""Objects in a list that make a table."""

Keys = tuple[str, ...]
_TOO_LARGE = 2**64
_DATE_NAME = re.compile(r".*(?:_at|_time)|timestamp.*|modified|date", re.I)
"""Names of columns whose numbers pandas takes for dates."""
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")


def read_records(source: Source) -> Sample:
    """Return the table in a JSON file; raises NotTableError for other content."""
    head = read_head(source)
    lines = _LINES.match(head.text) is not None or source.ending != "json"
    lines = lines and not head.text.lstrip().startswith("[")
    ways, objects = ([()], list(_parse_lines(head))) if lines else _parse_list(head)
    if len(objects) < (1 if lines else _FEWEST):
        raise NotTableError("it holds no list of objects")
    if any(type(v) is int and abs(v) >= _TOO_LARGE for each in objects for v in each.values()):
        raise NotTableError("it holds integers that are too large for pandas; read it with json")
    total, exact = _count(source, head, len(objects), lines)
    facts = [*_write_readings(source, head, lines, ways, objects)]
    facts += [head.note] if head.note else []
    names = list(dict.fromkeys(name for each in objects for name in each))
    columns = [_describe_column(name, objects) for name in names[:COLUMNS]]
    kind = ENDINGS["jsonl" if lines else source.ending]
    return Sample(kind, columns, len(names), total, len(objects), exact, tuple(facts))


def _write_readings(
    source: Source, head: Head, lines: bool, ways: Sequence[Keys | str], objects: Sequence[JsonDict]
) -> Iterator[str]:
    """Yield the line that says how to read the file, if it needs one; two ways if in doubt."""
    codec = _name_codec(source, head)
    options: dict[str, object] = {"encoding": codec} if codec else {}
    columns: dict[str, list[object]] = {}
    for each in objects:
        for name, value in each.items():
            columns.setdefault(name, []).append(value)
    is_changed = any(_would_change(name, values) for name, values in columns.items())
    calls = []
    for way in ways:
        given = {**options, **({"dtype": False} if is_changed else {})}
        if lines and (given or source.ending == "json" or source.is_packed):
            given["lines"] = True
        if isinstance(way, str):
            given["orient"] = way
        inner = "".join(f"[{key!r}]" for key in way) if not isinstance(way, str) else ""
        if inner:
            given = {**options, "typ": "series"}
        call = Reading(given, "read_json").write(source.path)
        calls.append(f"pd.DataFrame({call}{inner})" if inner else call)
    reasons, after = [], ""
    for name, values in columns.items():
        cells = [str(value) for value in values if type(value) in (int, float)]
        if marks := find_sentinels([cell for cell in cells if cell[-1].isdigit()]):
            reasons.append(in_columns(f"{str(marks)[1:-1]} may mean missing", [name]))
            after += f".replace({{{name!r}: {marks}}}, float('nan'))"
    texts = [[cell for cell in each.values() if isinstance(cell, str)] for each in objects]
    if totals := find_totals(texts) if head.whole else []:
        reasons.append(f"{plural(len(totals), 'row')} may be totals")
        after = f".drop({totals})" + after
    if len(calls) > 1:
        why = "its keys may name rows or columns" if "index" in ways else "it holds several tables"
        yield f"in doubt: {why}: {calls[0]} or {calls[1]}"
    elif reasons:
        yield f"in doubt: {'; '.join(reasons)}: {calls[0]} or {calls[0]}{after}"
    elif given or source.is_packed or (source.ending != "json" and not lines):
        yield f"read with: {calls[0]}"


def _name_codec(source: Source, head: Head) -> str:
    """Return the encoding as the library needs it where a mark comes first; "" for plain UTF-8."""
    start = source.read_at(0, 4)
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    is_marked = head.is_wide and start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return head.encoding[:6] if is_marked else head.encoding.removeprefix("utf-8")


def _would_change(name: str, values: Sequence[object]) -> bool:
    """Return whether pandas would make numbers of text, or dates of numbers."""
    present = [value for value in values if value is not None]
    texts = [value for value in present if isinstance(value, str)]
    if texts:
        return len(texts) == len(present) and all(map(_NUMBER.fullmatch, texts))
    return _DATE_NAME.fullmatch(name) is not None and all(type(v) in (int, float) for v in present)


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


def _parse_list(head: Head) -> tuple[Sequence[Keys | str], list[JsonDict]]:
    """Return the ways to a list of objects: keys from the outside, or an orientation; and them."""
    if head.whole:
        return _find_list(_parse(head.text))
    start = _LIST.match(head.text)
    if start is None:
        raise NotTableError("it does not begin with a list")
    objects = list(_parse_items(head.text, start.end()))
    return [(start[1],) if start[1] else ()], objects


def _find_list(value: object) -> tuple[Sequence[Keys | str], list[JsonDict]]:
    if isinstance(value, list):
        return [()], _only_objects(value)
    if not isinstance(value, dict):
        raise NotTableError("it holds no list of objects")
    if {"columns", "data"} <= set(value) <= {"columns", "index", "data"}:
        return ["split"], [dict(zip(value["columns"], row, strict=True)) for row in value["data"]]
    if "data" in value and "schema" in value:
        return [("data",)], _only_objects(value["data"])
    inner = [each for each in value.values() if isinstance(each, dict)]
    if len(inner) == len(value) > 1 and len({tuple(each) for each in inner}) == 1 and inner[0]:
        return _orient(value, inner)
    if value and all(isinstance(each, list) for each in value.values()):
        lengths = {len(each) for each in value.values()}
        flat = not any(isinstance(cell, dict) for each in value.values() for cell in each[:_SHOWN])
        if len(lengths) == 1 and flat and len(value) > 1:
            rows = zip(*value.values(), strict=True)
            return [()], [dict(zip(value, row, strict=True)) for row in rows]
    lists = [(keys, each) for keys, each in _lists_in(value) if isinstance(each[0], dict)]
    if not 0 < len(lists) <= _MOST_LISTS:
        raise NotTableError("it is an object, not a list of objects")
    return [keys for keys, _ in lists], _only_objects(lists[0][1])


def _orient(value: JsonDict, inner: list[JsonDict]) -> tuple[Sequence[str | Keys], list[JsonDict]]:
    """Return objects by row or by column; both ways if neither keys nor types tell them apart."""
    if any(isinstance(cell, dict | list) for each in inner for cell in each.values()):
        raise NotTableError("it is an object, not a list of objects")
    by_column = [{name: value[name][key] for name in value} for key in inner[0]]
    if all(key.isdecimal() for key in inner[0]):
        return [()], by_column
    kinds = [{type(cell) for cell in each.values() if cell is not None} for each in inner]
    is_row = all(key.isdecimal() for key in value) or any(len(each) > 1 for each in kinds)
    return (["index"], inner) if is_row else ([(), "index"], by_column)


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
    if source.is_packed:
        return None, False
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
