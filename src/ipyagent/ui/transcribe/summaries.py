"""A call in one line: the task, as short as it can be told, and its result."""

from __future__ import annotations

import ast
import re

from ipyagent.phrases import plural
from ipyagent.schema import Preview, ToolExecution, ToolResult
from ipyagent.ui.reveal import LINE, first_line, shorten
from ipyagent.ui.transcribe.arguments import SUMMARY, in_order, summarize_arguments
from ipyagent.ui.transcribe.result import text_above_remark

_MAX_PARSED = 20_000
"""Characters of code whose statements are looked at."""
_SIZE = re.compile(r"([\d,]+) rows × ([\d,]+) columns|shape: \(([\d_]+), ([\d_]+)\)")  # noqa: RUF001
_TABLE = re.compile(r'<table [^>]{0,80}(?:class="dataframe"|id="T_)')
"""The tag of a table, or of a styled one."""
_SERIES = re.compile(r"(?:^|\n)(?:Name: [^\n]*, )?(?:Length: (\d+), )?dtype: [^\n]+$")
_SHOWING = {"print", "show", "close", "tight_layout"}
"""Functions whose calls say less than the statement before them."""


def summarize_call(execution: ToolExecution) -> str:
    """Return the arguments of a call: a file with its changed lines, the gist of code, or all."""
    call, preview = execution.call, execution.preview
    first = next(iter(in_order(call)), ("", None))[1]
    if preview is not None and preview.kind == "diff":
        return shorten(f"{first} {_count_changes(preview)}", SUMMARY)
    if [*call.arguments] == ["code"] and isinstance(first, str):
        return shorten(_find_gist(first), SUMMARY)
    return summarize_arguments(call)


def summarize_result(result: ToolResult) -> str:
    """Return a result: the size of a table, a short text, or its number of lines.

    "" if a picture says more, which is drawn below.
    """
    if not result.success:
        return first_line(result.error or "", SUMMARY)
    text = text_above_remark(result)
    drawn = (each.data.get("text/html", "") for each in result.displays)
    if series := _SERIES.search(text):
        above = [line for line in text[: series.start()].split("\n") if "  " in line.strip()]
        return plural(int(series[1] or len(above)), "value")  # its index's name stands alone
    head = text.partition("\n")[0] if "\n\n" in text else ""  # a list's first is one of several
    if found := [*filter(None, map(_table_size, (head, *drawn)))]:
        return found[-1]
    if result.images:
        return ""
    if result.truncated:  # what is left of it has fewer
        return plural(result.truncated.original_lines, "line")
    lines = [line for line in text.split("\n") if line.strip()]
    joined = " · ".join(map(str.strip, lines))
    if len(lines) < 2 or len(joined) <= LINE:
        return shorten(joined, SUMMARY)
    return plural(len(lines), "line")


def _count_changes(preview: Preview) -> str:
    """Return how many lines a diff adds and removes."""
    lines = preview.text.partition("\n@@")[2].split("\n")
    counts = [(sign, sum(line.startswith(mark) for line in lines)) for sign, mark in _MARKS]
    return " ".join(f"{sign}{count}" for sign, count in counts if count)


_MARKS = ("+", "+"), ("−", "-")  # noqa: RUF001


def _find_gist(code: str) -> str:
    """Return the comment that code begins with, else its last statement that does something.

    Showing and deleting are not meant.
    """
    begin = code.lstrip()
    if begin.startswith("#"):
        return begin.partition("\n")[0]
    if len(code) > _MAX_PARSED or "\\" in code:  # an escape may make Python warn
        return code
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    telling = [each for each in statements if not _only_shows(each)] or statements
    return ast.get_source_segment(code, telling[-1]) or code if telling else code


def _only_shows(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Name()) | ast.Delete():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in _SHOWING
    return False


def _table_size(shown: str) -> str:
    """Return the size of a table, from its HTML or the line that describes it, or ""."""
    if found := _SIZE.search(shown):
        rows, columns = (int(each.replace(",", "")) for each in found.groups() if each)
        return f"{rows:,} rows × {columns:,}"  # noqa: RUF001
    if not _TABLE.search(shown):
        return ""
    body = shown.partition("<tbody>")[2]
    rows, columns = body.count("<tr"), body.partition("</tr>")[0].count("<td")
    return f"{plural(rows, 'row')} × {columns}"  # noqa: RUF001
