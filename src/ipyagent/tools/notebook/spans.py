"""The places of a notebook's cells in its own text, so that one can change and all else stays.

A notebook that is read and written anew gets another indentation, other escapes, other numbers:
a change of one cell would be a change of every line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ipyagent.json_types import JsonDict

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Span:
    """Where a value stands in a text."""

    start: int
    end: int


@dataclass(frozen=True)
class Cells:
    """A list of cells in a notebook's text."""

    text: str
    whole: Span
    items: list[Span]

    def replaced(self, number: int, cell: JsonDict) -> str:
        """The text with another cell in the place of one."""
        span = self.items[number]
        return self._spliced(span, self._written(cell))

    def inserted(self, number: int, cell: JsonDict) -> str:
        """The text with a cell before that of the number, or after the last."""
        written = self._written(cell)
        if not self.items:
            inside = f"{self._break(1)}{written}{self._break(0)}"
            return self._spliced(self.whole, f"[{inside}]")
        comma = self._between if len(self.items) > 1 else f",{self._lead or self._blank}"
        if number < len(self.items):
            at = self.items[number].start
            return self._spliced(Span(at, at), f"{written}{comma}")
        at = self.items[-1].end
        return self._spliced(Span(at, at), f"{comma}{written}")

    @property
    def _lead(self) -> str:
        """The white space before the first cell."""
        return self.text[self.whole.start + 1 : self.items[0].start] if self.items else ""

    @property
    def _between(self) -> str:
        """The comma and white space between two cells."""
        return self.text[self.items[0].end : self.items[1].start]

    @property
    def _newline(self) -> str:
        """How lines end where each value has its own; "" for a text on one line."""
        found = re.match(r"\s*\{[ \t]*(\r?\n)", self.text)
        return found[1] if found else ""

    @property
    def _blank(self) -> str:
        """The space that one-line texts have after commas and colons."""
        return " " if re.search(r'"nbformat"\s*:\s', self.text) else ""

    @property
    def _indent(self) -> str:
        """One step of indentation: what is before the first key."""
        found = re.match(r"\s*\{\s*\n([ \t]*)", self.text)
        return found[1] if found else ""

    def _break(self, deeper: int) -> str:
        """A line break with the indentation of the list's own line, or of what is in it."""
        if not self._newline:
            return ""
        line = self.text.rfind("\n", 0, self.whole.start) + 1
        own = _leading(self.text[line:])
        return self._newline + own + self._indent * deeper

    def _written(self, cell: JsonDict) -> str:
        """The cell in the text's own style."""
        escapes = self.text.isascii() and "\\u" in self.text
        if not self._newline:
            separators = (f",{self._blank}", f":{self._blank}")
            return json.dumps(cell, ensure_ascii=escapes, separators=separators)
        indent = self._indent
        written = json.dumps(cell, ensure_ascii=escapes, indent=indent)
        lead = self._lead if "\n" in self._lead else self._break(1)
        return written.replace("\n", self._newline + lead.rpartition("\n")[2])

    def _spliced(self, span: Span, new: str) -> str:
        return self.text[: span.start] + new + self.text[span.end :]


def lists_of_cells(text: str) -> list[Cells]:
    """Where the cells are in the text of a notebook: one list, or one a worksheet in format 3."""
    fields = dict(_fields(text, 0))
    if "cells" in fields:
        return [_cells(text, fields["cells"])]
    found = []
    for sheet in _items(text, fields["worksheets"].start):
        fields = dict(_fields(text, sheet.start))
        found += [_cells(text, fields["cells"])] if "cells" in fields else []
    return found


def _cells(text: str, span: Span) -> Cells:
    return Cells(text, span, list(_items(text, span.start)))


def _fields(text: str, at: int) -> Iterator[tuple[str, Span]]:
    """The keys of the object at a place, and where their values stand."""
    at = _past(text, _past(text, at, "{"))
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _past(text, _past(text, at, ":"))
        _, at = _DECODER.raw_decode(text, start)
        yield key, Span(start, at)
        at = _past(text, _past(text, at, ","))


def _items(text: str, at: int) -> Iterator[Span]:
    """Where the items of the list at a place stand."""
    at = _past(text, _past(text, at, "["))
    while text[at] != "]":
        start = at
        _, at = _DECODER.raw_decode(text, start)
        yield Span(start, at)
        at = _past(text, _past(text, at, ","))


def _past(text: str, at: int, sign: str = "") -> int:
    """The place after white space, and after the sign if it comes there."""
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return at + len(sign) if sign and text.startswith(sign, at) else at


def _leading(text: str) -> str:
    return re.match(r"[ \t]*", text)[0]  # type: ignore[index]
