"""A conversation's graph as text, a node a line, with forks in lanes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipyagent.phrases import plural
from ipyagent.schema import Graph
from ipyagent.schema.graph import handle
from ipyagent.ui.formatting import shorten
from ipyagent.ui.graph_lanes import MAX_LANES, GraphRow, Layout, arrange_nodes
from ipyagent.ui.graph_nodes import HEAD, node_kind, node_text

_SIGNS = {
    "system": "▲",
    "tools": "▲",
    "user": "●",
    "note": "○",
    "summary": "◇",
    "assistant": "■",
    "call": "◆",
    "results": "○",
    "end": "▬",
    "unknown": "○",
}


def graph_text(graph: Graph, head: str | None) -> str:
    """Return the graph as text, oldest nodes first, without escapes or control characters."""
    layout = arrange_nodes(graph, head)
    return "\n".join(line for row in layout.rows for line in _lines(graph, layout, row, head))


def _lines(graph: Graph, layout: Layout, row: GraphRow, head: str | None) -> Iterator[str]:
    if len(row.ends) > 1:
        yield _draw_joint(row, row.ends, above=True)
    node = graph.nodes.get(row.id)
    if node is None:
        yield f"{_draw_row(row, '⋮')}  … {plural(layout.hidden[row.id], 'node')} …"
    else:
        kind = node_kind(node)
        mark = f"  {HEAD}" if node.id == head else ""
        name = f"{kind:9}  {shorten(handle(node.id)):8}"
        yield f"{_draw_row(row, _SIGNS[kind])}  {name}  {shorten(node_text(node))}{mark}"
    if len(row.begins) > 1:
        yield _draw_joint(row, row.begins, above=False)


def _draw_row(row: GraphRow, sign: str) -> str:
    own = min(row.lane, MAX_LANES)
    cells = ["│" if awaited else " " for awaited in row.beside]
    cells += " " * (own + 1 - len(cells))
    cells[own] = sign
    return " ".join(cells)


def _draw_joint(row: GraphRow, lanes: Sequence[int], *, above: bool) -> str:
    """Return the line in which lanes join above a node, or part below it."""
    ends = {min(lane, MAX_LANES) for lane in lanes}
    own, low, high = min(row.lane, MAX_LANES), min(ends), max(ends)
    parts = []
    for lane in range(max(high + 1, len(row.beside))):
        passes = lane < len(row.beside) and row.beside[lane] is not None
        up = passes or lane == own or (above and lane in ends)
        down = passes or lane == own or (not above and lane in ends)
        touched = lane in ends or not passes
        left, right = touched and low < lane <= high, touched and low <= lane < high
        parts.append(_BOX[up, down, left, right])
        parts.append("─" if low <= lane < high else " ")
    return "".join(parts).rstrip()


_BOX = {
    (False, False, False, False): " ",
    (False, False, True, True): "─",
    (True, True, False, False): "│",
    (True, True, False, True): "├",
    (True, True, True, False): "┤",
    (True, True, True, True): "┼",
    (False, True, True, False): "╮",
    (False, True, False, True): "╭",
    (False, True, True, True): "┬",
    (True, False, True, False): "╯",
    (True, False, False, True): "╰",
    (True, False, True, True): "┴",
}
"""The character with arms up, down, left and right."""
