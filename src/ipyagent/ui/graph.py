"""The conversation's graph, drawn: as an SVG for notebooks and as text for terminals.

What nodes hold may come from anywhere. It is only ever text here: no markup, no escapes.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from ipyagent.redaction import masked
from ipyagent.schema import (
    Graph,
    Message,
    Node,
    Stop,
    SystemPrompt,
    ToolDefinitions,
    ToolExecution,
)
from ipyagent.schema.graph import COMPACTED, handle
from ipyagent.ui import facts, wording
from ipyagent.ui.format import cell_width, plural, shorten
from ipyagent.ui.lanes import WIDE, Layout, Place, laid_out
from ipyagent.ui.reveal import reveal

HEAD = "◀ head"
_TIP = 400  # characters of a node that are shown while a pointer rests on it

_CIRCLE = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z"
_SQUARE = "M-5-5h10v10h-10z"
_DIAMOND = "M0-6.5 6.5 0 0 6.5-6.5 0z"
_TRIANGLE = "M0-6 6 5h-12z"
_BAR = "M-6-2.5h12v5h-12z"

# Readable on white and on black alike.
KINDS = {
    "system": ("▲", _TRIANGLE, "#9a62d8"),
    "tools": ("▲", _TRIANGLE, "#9a62d8"),
    "user": ("●", _CIRCLE, "#3b7dd8"),
    "note": ("○", _CIRCLE, "#7d858f"),
    "summary": ("◇", _DIAMOND, "#7d858f"),
    "assistant": ("■", _SQUARE, "#2c9160"),
    "call": ("◆", _DIAMOND, "#c4741a"),
    "results": ("○", _CIRCLE, "#c4741a"),
    "end": ("▬", _BAR, "#d9463c"),
    "unknown": ("○", _CIRCLE, "#7d858f"),
}
"""For each kind of node its sign in text, its shape and its colour."""


def graph_text(graph: Graph, head: str | None) -> str:
    """The graph as text, a node a line; first things first, forks in lanes."""
    layout = laid_out(graph, head)
    return "\n".join(line for place in layout.places for line in _lines(graph, layout, place, head))


def kind_of(node: Node) -> str:
    """What a node is, as a key of KINDS."""
    match node.data:
        case SystemPrompt():
            return "system"
        case ToolDefinitions():
            return "tools"
        case ToolExecution():
            return "call"
        case Stop():
            return "end"
        case Message() as message:
            return _kind_of_message(message, node)
    return "unknown"


def _kind_of_message(message: Message, node: Node) -> str:
    if COMPACTED in node.metadata:
        return "summary"
    if message.tool_results:
        return "results"
    return "note" if message.synthetic else str(message.role)


def text_of(node: Node) -> str:
    """What a node says."""
    match node.data:
        case SystemPrompt(content=content):
            return content
        case ToolDefinitions(tools=tools):
            return ", ".join(tool.name for tool in tools)
        case ToolExecution() as execution:
            call = execution.call
            call = call.model_copy(update={"arguments": masked(call.arguments)})
            glyph = wording.glyph(execution)
            return f"{glyph} {call.name} {wording.argument_summary(call)}"
        case Stop() as stop:
            reason = stop.reason or stop.finish_reason or ""
            return " · ".join(part for part in (reason, facts.usage_text(stop.usage)) if part)
        case Message() as message:
            return _text_of_message(message)
    return "made by a newer version of ipyagent"


def _text_of_message(message: Message) -> str:
    results = (result.text for result in message.tool_results)
    calls = ", ".join(call.name for call in message.tool_calls)
    return message.text or "\n".join(results) or calls or message.thinking


# Text


def _lines(graph: Graph, layout: Layout, place: Place, head: str | None) -> Iterator[str]:
    if len(place.ends) > 1:
        yield _joint(place, place.ends, above=True)
    node = graph.nodes.get(place.id)
    if node is None:
        yield f"{_row(place, '⋮')}  … {plural(layout.hidden[place.id], 'node')} …"
    else:
        kind = kind_of(node)
        mark = f"  {HEAD}" if node.id == head else ""
        name = f"{kind:9}  {reveal(handle(node.id)):8}"
        yield f"{_row(place, KINDS[kind][0])}  {name}  {shorten(text_of(node))}{mark}"
    if len(place.begins) > 1:
        yield _joint(place, place.begins, above=False)


def _row(place: Place, sign: str) -> str:
    own = min(place.lane, WIDE)
    cells = ["│" if awaited else " " for awaited in place.beside]
    cells += " " * (own + 1 - len(cells))
    cells[own] = sign
    return " ".join(cells)


def _joint(place: Place, lanes: Sequence[int], *, above: bool) -> str:
    """The line in which lanes come together above a node, or part below it."""
    ends = {min(lane, WIDE) for lane in lanes}
    own, low, high = min(place.lane, WIDE), min(ends), max(ends)
    parts = []
    for lane in range(max(high + 1, len(place.beside))):
        passes = lane < len(place.beside) and place.beside[lane] is not None
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
"""The sign with arms up, down, left and right."""


# SVG

_ROW, _LANE, _PAD, _CHAR = 24, 18, 16, 7.3  # pixels


def graph_svg(graph: Graph, head: str | None) -> str:
    """The graph as an SVG that stands for itself: it loads, runs and styles nothing.

    Colours are JupyterLab's where it is drawn inline there; elsewhere it brings its own ground.
    """
    layout = laid_out(graph, head)
    lanes = 1 + max((min(place.lane, WIDE) for place in layout.places), default=0)
    left = 2 * _PAD + (lanes - 1) * _LANE
    rows = [_drawn(graph, layout, row, left, head) for row in range(len(layout.places))]
    width = left + _PAD + _CHAR * max((cells for _, cells in rows), default=0)
    height = 2 * _PAD + _ROW * max(0, len(rows) - 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            f'viewBox="0 0 {width:.0f} {height}" role="img" '
            f'aria-label="Conversation of {plural(len(graph), "node")}">',
            f'<rect width="100%" height="100%" rx="6" fill="#ffffff" {_style("fill", _GROUND)}/>',
            f'<path d="{_edges(layout.places)}" fill="none" stroke="#8b949e" stroke-width="1.5"/>',
            '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" '
            f'fill="#1f2328" {_style("fill", _TEXT)}>',
            *(drawn for drawn, _ in rows),
            "</g>",
            "</svg>",
        ]
    )


_GROUND, _TEXT = "--jp-layout-color1, #ffffff", "--jp-content-font-color1, #1f2328"


def _style(name: str, variable: str) -> str:
    """Beside the plain attribute: not everything that draws SVG knows variables."""
    return f'style="{name}: var({variable})"'


def _drawn(
    graph: Graph, layout: Layout, row: int, left: float, head: str | None
) -> tuple[str, int]:
    """One row, and how many characters wide its text is."""
    place = layout.places[row]
    x, y, node = _x(place.lane), _y(row), graph.nodes.get(place.id)
    if node is None:
        text = f"… {plural(layout.hidden[place.id], 'node')} …"
        return f'<text x="{left}" y="{y + 4}" fill-opacity="0.7">{text}</text>', len(text)
    kind, text = kind_of(node), shorten(text_of(node))
    _, shape, colour = KINDS[kind]
    is_head = node.id == head
    ring = f'<circle cx="{x}" cy="{y}" r="9.5" fill="none" stroke="{colour}" stroke-width="2"/>'
    mark = f'<tspan font-weight="bold">  {HEAD}</tspan>' if is_head else ""
    name = reveal(handle(node.id))
    label = (
        f'<tspan fill="{colour}" font-weight="bold">{kind}</tspan>  {html.escape(text)}{mark}'
        f'  <tspan fill-opacity="0.6">{html.escape(name)}</tspan>'
    )
    drawn = (
        f"<g><title>{html.escape(_tip(node))}</title>{ring if is_head else ''}"
        f'<path transform="translate({x} {y})" d="{shape}" fill="{colour}"/>'
        f'<text x="{left}" y="{y + 4}" xml:space="preserve">{label}</text></g>'
    )
    beside = len(kind) + len(name) + 4 + (len(HEAD) + 2 if is_head else 0)
    return drawn, beside + cell_width(text)


def _tip(node: Node) -> str:
    text = text_of(node)
    text = reveal(text[:_TIP]) + ("…" if len(text) > _TIP else "")
    return f"{node.timestamp:%Y-%m-%d %H:%M:%S} · {reveal(node.id)}\n{text}"


def _edges(places: Sequence[Place]) -> str:
    """All lines from nodes to those that follow them, as one path."""
    origins: dict[int, tuple[int, int]] = {}
    paths = []
    for row, place in enumerate(places):
        paths += [_edge(origins.pop(lane), lane, (row, place.lane)) for lane in place.ends]
        origins |= dict.fromkeys(place.begins, (row, place.lane))
    return "".join(paths)


def _edge(start: tuple[int, int], lane: int, end: tuple[int, int]) -> str:
    """A line that goes down in `lane`, from the node in row and lane `start` to that at `end`."""
    between = dict.fromkeys(row for row in (start[0] + 1, end[0] - 1) if start[0] < row < end[0])
    x, y = _x(start[1]), _y(start[0])
    path = f"M{x} {y}"
    for row, at in [*((row, lane) for row in between), end]:
        to_x, to_y = _x(at), _y(row)
        middle = (y + to_y) // 2
        bent = f"C{x} {middle} {to_x} {middle} {to_x} {to_y}"
        path += f"V{to_y}" if to_x == x else bent
        x, y = to_x, to_y
    return path


def _x(lane: int) -> int:
    return _PAD + min(lane, WIDE) * _LANE


def _y(row: int) -> int:
    return _PAD + row * _ROW
