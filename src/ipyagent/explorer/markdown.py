"""Parse printed output, and format answers in Markdown."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile

from ipyagent.phrases import ellipsize, join_words

Rows = list[list[str]]

MAX_ROWS = 60  # of a table in an answer


class UnreadableError(Exception):
    """A tool's output lacks the lines that its call should have printed."""


def block(output: str, heading: Sequence[str]) -> Rows:
    """Return the rows of the CSV block with this heading; raises UnreadableError if missing."""
    lines = output.splitlines(keepends=True)
    for start in range(len(lines)):
        reader = csv.reader(lines[start:])
        with suppress(csv.Error):
            if next(reader, []) == list(heading):
                return list(takewhile(lambda row: len(row) == len(heading), reader))
    raise UnreadableError(f"no block {', '.join(heading)}")


def figures(output: str, pattern: str) -> tuple[str, ...]:
    """Return the groups of the first matching line; raises UnreadableError."""
    if found := re.search(rf"^{pattern}$", output, re.MULTILINE):
        return tuple(found.groups())
    raise UnreadableError(f"no line {pattern}")


def number(text: str, digits: int | None = None) -> str:
    """Format a printed number; other text stays unchanged, nothing becomes a dash."""
    if text in ("", "nan", "NaN", "None", "null"):
        return "n/a"
    if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", text, re.IGNORECASE):
        return cell(text)
    value = float(text)
    if digits is not None:
        return f"{value:,.{digits}f}" if abs(value) >= 10_000 else f"{value:.{digits}f}"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    if abs(value) >= 10_000:
        return f"{value:,.2f}"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.4g}"


def format_count(text: str | int) -> str:
    """Format a number of things, which is no year."""
    return f"{int(text):,}"


def numbers(rows: Sequence[Sequence[str]], digits: int | None = None) -> Rows:
    """Format printed numbers, those of one column with as many decimals."""
    columns = [_alike(column, digits) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _alike(cells: Sequence[str], digits: int | None) -> list[str]:
    values = [float(c) for c in cells if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", c)]
    if not any("." in cell for cell in cells) or len(values) < len(cells) - cells.count(""):
        return [number(each) for each in cells]
    if digits is None and any(value != int(value) for value in values):
        digits = 2 if max(map(abs, values)) >= 10 else 3
    return [number(each, digits) for each in cells]


def percent(part: str | float, whole: str | float = 1) -> str:
    """Format a share in percent."""
    return f"{100 * float(part) / float(whole):.1f} %" if float(whole) else "n/a"


def code(text: str) -> str:
    """Return text as a code span, whatever it contains."""
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def label(name: str) -> str:
    """Return a column's name for a cell of a table."""
    return code(name).replace("|", "\\|")


def codes(names: Iterable[str]) -> str:
    """Return names as code spans: `a`, `b` and `c`."""
    return join_words(map(code, names))


def cell(text: str) -> str:
    """Return a value as plain text that Markdown leaves alone; nothing is `(missing)`."""
    if text in ("", "nan", "NaN", "null"):
        return "(missing)"
    flat = ellipsize(" ".join(text.split()), 80)
    return re.sub(r"([\\`*_\[\]<>|#~&!$])", r"\\\1", flat)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first `left` columns are left-aligned, the others right."""
    marks = ["---" if i < left else "---:" for i in range(len(heading))]
    lines = [heading, marks, *rows[:MAX_ROWS]]
    more = f"\n\n… and {len(rows) - MAX_ROWS} more." if len(rows) > MAX_ROWS else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def fence(text: str, language: str = "text", lines: int = 30) -> str:
    """Return text as a code block that it cannot close, cut after so many lines."""
    shown = text.rstrip().splitlines()
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    more = [f"… ({len(shown) - lines} more lines)"] * (len(shown) > lines)
    return "\n".join([f"{ticks}{language}", *shown[:lines], *more, ticks])
