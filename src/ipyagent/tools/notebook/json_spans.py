"""Positions of a notebook's cells in its JSON text, so that one can change and the rest stays.

Parsing and writing a notebook changes indentation, escapes and numbers: a change of one cell would
change every line.
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
    """The start and end of a value in a text."""

    start: int
    end: int


@dataclass(frozen=True)
class CellList:
    """A list of cells in a notebook's text."""

    text: str
    span: Span
    items: list[Span]

    def replace_at(self, number: int, cell: JsonDict) -> str:
        """Return the text with one cell replaced."""
        span = self.items[number]
        return self._splice(span, self._dump_cell(cell))

    def insert_at(self, number: int, cell: JsonDict) -> str:
        """Return the text with a cell inserted before that number, or after the last."""
        written = self._dump_cell(cell)
        if not self.items:
            inside = f"{self._line_break(1)}{written}{self._line_break(0)}"
            return self._splice(self.span, f"[{inside}]")
        comma = (
            self._cell_separator
            if len(self.items) > 1
            else f",{self._space_before_first or self._inline_space}"
        )
        if number < len(self.items):
            at = self.items[number].start
            return self._splice(Span(at, at), f"{written}{comma}")
        at = self.items[-1].end
        return self._splice(Span(at, at), f"{comma}{written}")

    @property
    def _space_before_first(self) -> str:
        """The white space before the first cell."""
        return self.text[self.span.start + 1 : self.items[0].start] if self.items else ""

    @property
    def _cell_separator(self) -> str:
        """The comma and white space between two cells."""
        return self.text[self.items[0].end : self.items[1].start]

    @property
    def _newline(self) -> str:
        """The line ending if each value has its own line; "" for a text on one line."""
        found = re.match(r"\s*\{[ \t]*(\r?\n)", self.text)
        return found[1] if found else ""

    @property
    def _inline_space(self) -> str:
        """The space after commas and colons in one-line texts."""
        return " " if re.search(r'"nbformat"\s*:\s', self.text) else ""

    @property
    def _indent(self) -> str:
        """One step of indentation, as before the first key."""
        found = re.match(r"\s*\{\s*\n([ \t]*)", self.text)
        return found[1] if found else ""

    def _line_break(self, deeper: int) -> str:
        """Return a line break with the indentation of the list's line, or of its items."""
        if not self._newline:
            return ""
        line = self.text.rfind("\n", 0, self.span.start) + 1
        own = _leading_space(self.text[line:])
        return self._newline + own + self._indent * deeper

    def _dump_cell(self, cell: JsonDict) -> str:
        """Return the cell as JSON in the text's own style."""
        escapes = self.text.isascii() and "\\u" in self.text
        if not self._newline:
            separators = (f",{self._inline_space}", f":{self._inline_space}")
            return json.dumps(cell, ensure_ascii=escapes, separators=separators)
        indent = self._indent
        written = json.dumps(cell, ensure_ascii=escapes, indent=indent)
        lead = self._space_before_first if "\n" in self._space_before_first else self._line_break(1)
        return written.replace("\n", self._newline + lead.rpartition("\n")[2])

    def _splice(self, span: Span, new: str) -> str:
        return self.text[: span.start] + new + self.text[span.end :]


def find_cell_lists(text: str) -> list[CellList]:
    """Return the cell lists of a notebook's text: one, or one for each worksheet in format 3."""
    fields = dict(_field_spans(text, 0))
    if "cells" in fields:
        return [_parse_cell_list(text, fields["cells"])]
    found = []
    for sheet in _item_spans(text, fields["worksheets"].start):
        fields = dict(_field_spans(text, sheet.start))
        found += [_parse_cell_list(text, fields["cells"])] if "cells" in fields else []
    return found


def _parse_cell_list(text: str, span: Span) -> CellList:
    return CellList(text, span, list(_item_spans(text, span.start)))


def _field_spans(text: str, at: int) -> Iterator[tuple[str, Span]]:
    """Yield the keys of the object at a position, and the spans of their values."""
    at = _skip_space(text, _skip_space(text, at, "{"))
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip_space(text, _skip_space(text, at, ":"))
        _, at = _DECODER.raw_decode(text, start)
        yield key, Span(start, at)
        at = _skip_space(text, _skip_space(text, at, ","))


def _item_spans(text: str, at: int) -> Iterator[Span]:
    """Yield the spans of the items of the list at a position."""
    at = _skip_space(text, _skip_space(text, at, "["))
    while text[at] != "]":
        start = at
        _, at = _DECODER.raw_decode(text, start)
        yield Span(start, at)
        at = _skip_space(text, _skip_space(text, at, ","))


def _skip_space(text: str, at: int, sign: str = "") -> int:
    """Return the position after white space, and after `sign` if it comes next."""
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return at + len(sign) if sign and text.startswith(sign, at) else at


def _leading_space(text: str) -> str:
    return re.match(r"[ \t]*", text)[0]  # type: ignore[index]
