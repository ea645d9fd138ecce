"""A conversation's graph as a Mermaid flowchart, which JupyterLab draws.

Nodes may hold text from anywhere. Each ASCII character that may mean something to Mermaid, HTML or
Markdown is written as its number, so that a node's text stays text. The syntax:
https://mermaid.js.org/syntax/flowchart.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipyagent.phrases import plural
from ipyagent.schema import Graph, Node
from ipyagent.schema.graph import handle
from ipyagent.ui.formatting import shorten
from ipyagent.ui.graph_text import HEAD, node_kind, node_text

MAX_LENGTH, MAX_ARROWS = 90_000, 450
"""JupyterLab draws no Mermaid text of more than 100,000 characters, or more than 500 arrows."""

_SHAPES = {
    "system": ("[/", "/]"),
    "tools": ("[/", "/]"),
    "user": ("([", "])"),
    "assistant": ("[", "]"),
    "call": ("{{", "}}"),
    "end": ("[[", "]]"),
}
_ROUNDED = ("(", ")")

# Strokes that can be seen on white and on black; the theme chooses the ground and the text.
_COLORS = {
    "system": "#9a62d8",
    "tools": "#9a62d8",
    "user": "#3b7dd8",
    "note": "#7d858f",
    "summary": "#7d858f",
    "assistant": "#2c9160",
    "call": "#c4741a",
    "results": "#c4741a",
    "end": "#d9463c",
    "unknown": "#7d858f",
}

_SPECIAL = re.compile(r"[^\w\s]", re.ASCII)
# Mermaid looks for icons (`fa:fa-car`) and formulas (`$$`) after it has read the numbers.
_ICON_OR_FORMULA = re.compile(r"\bfa[bklrs]?:(?=fa-)|\$(?=\$)")
_WORD_JOINER = "\u2060"


def graph_mermaid(graph: Graph, head: str | None) -> str | None:
    """Return the graph as a Mermaid flowchart, or None where JupyterLab would not draw it."""
    arrows = [(parent, node.id) for node in graph for parent in dict.fromkeys(node.parent_ids)]
    if len(arrows) > MAX_ARROWS:
        return None
    text = "\n".join(_lines(graph, arrows, head))
    return text if len(text) <= MAX_LENGTH else None


def _lines(graph: Graph, arrows: list[tuple[str, str]], head: str | None) -> Iterator[str]:
    yield "flowchart TD"
    yield f"accTitle: Conversation of {plural(len(graph), 'node')}"
    names = {node.id: f"n{number}" for number, node in enumerate(graph)}
    for node in graph:
        yield names[node.id] + _node(node, head)
    for parent, child in arrows:
        yield f"{names[parent]} --> {names[child]}"
    for kind, color in _COLORS.items():
        yield f"classDef {kind}_ stroke:{color},stroke-width:2px"
    if head in names:
        yield f"style {names[head]} stroke-width:5px"


def _node(node: Node, head: str | None) -> str:
    kind = node_kind(node)
    begin, end = _SHAPES.get(kind, _ROUNDED)
    facts = [kind, shorten(handle(node.id)), HEAD if node.id == head else ""]
    title = " · ".join(filter(None, facts))
    return f'{begin}"{_escape(title)}<br/>{_escape(shorten(node_text(node)))}"{end}:::{kind}_'


def _escape(text: str) -> str:
    text = _ICON_OR_FORMULA.sub(lambda match: match[0] + _WORD_JOINER, text)
    return _SPECIAL.sub(_as_number, text)


def _as_number(match: re.Match[str]) -> str:
    char = match[0]
    return f"#{ord(char)};" if char.isascii() else char
