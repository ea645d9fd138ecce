"""A conversation's graph as text, a node a line, and as a Mermaid flowchart for JupyterLab.

Nodes may hold text from anywhere. Each ASCII character that may mean something to Mermaid, HTML or
Markdown is written as its number, so that a node's text stays text. The syntax:
https://mermaid.js.org/syntax/flowchart.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ipyagent.phrases import plural
from ipyagent.redaction import mask_arguments
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
from ipyagent.ui.reveal import shorten
from ipyagent.ui.transcribe.arguments import summarize_arguments
from ipyagent.ui.transcribe.call import call_glyph
from ipyagent.ui.transcribe.step import usage_text

HEAD = "◀ head"
"""Marks the node that the conversation goes on from."""

FIRST, LAST = 8, 200
"""The number of nodes shown of either end of a long graph."""


class _Look(NamedTuple):
    """The sign of a kind of node in text; its color and its brackets in Mermaid."""

    sign: str
    color: str
    begin: str = "("
    end: str = ")"


# Strokes that can be seen on white and on black; the theme chooses the ground and the text.
_LOOKS = {
    "system": _Look("▲", "#9a62d8", "[/", "/]"),
    "tools": _Look("▲", "#9a62d8", "[/", "/]"),
    "user": _Look("●", "#3b7dd8", "([", "])"),
    "note": _Look("○", "#7d858f"),
    "summary": _Look("◇", "#7d858f"),
    "assistant": _Look("■", "#2c9160", "[", "]"),
    "call": _Look("◆", "#c4741a", "{{", "}}"),
    "results": _Look("○", "#c4741a"),
    "end": _Look("▬", "#d9463c", "[[", "]]"),
    "unknown": _Look("○", "#7d858f"),
}


def graph_text(graph: Graph, head: str | None) -> str:
    """Return the graph as text, oldest nodes first, without escapes or control characters.

    A line names what its node follows, unless that is the line above.
    """
    return "\n".join(_lines([*graph], head))


def _lines(nodes: list[Node], head: str | None) -> Iterator[str]:
    above, hidden = "", 0
    for number, node in enumerate(nodes):
        if FIRST <= number < len(nodes) - LAST and node.id != head:
            hidden += 1
        else:
            if hidden:
                yield f"⋮  … {plural(hidden, 'node')} …"
            hidden = 0
            yield _line(node, above, head)
        above = node.id


def _line(node: Node, above: str, head: str | None) -> str:
    kind = node_kind(node)
    parents = [shorten(handle(each)) for each in node.parent_ids if each != above]
    origin = f"  ← {', '.join(parents)}" if parents else ""
    mark = f"  {HEAD}" if node.id == head else ""
    name = f"{_LOOKS[kind].sign}  {kind:9}  {shorten(handle(node.id)):8}"
    return f"{name}  {shorten(node_text(node))}{origin}{mark}"


def node_kind(node: Node) -> str:
    """Return the kind of a node in one word: `user`, `call`, `end` …"""
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
            return _message_kind(message, node)
    return "unknown"


def _message_kind(message: Message, node: Node) -> str:
    if COMPACTED in node.metadata:
        return "summary"
    if message.tool_results:
        return "results"
    return "note" if message.synthetic else str(message.role)


def node_text(node: Node) -> str:
    """Return the content of a node as plain text; it may be long, and it may come from anywhere."""
    match node.data:
        case SystemPrompt(content=content):
            return content
        case ToolDefinitions(tools=tools):
            return ", ".join(tool.name for tool in tools)
        case ToolExecution() as execution:
            return _execution_text(execution)
        case Stop() as stop:
            reason = stop.reason or stop.finish_reason or ""
            return " · ".join(part for part in (reason, usage_text(stop.usage)) if part)
        case Message() as message:
            return _message_text(message)
    return "made by a newer version of ipyagent"


def _execution_text(execution: ToolExecution) -> str:
    call = execution.call
    call = call.model_copy(update={"arguments": mask_arguments(call.arguments)})
    glyph, _ = call_glyph(execution)
    return f"{glyph} {call.name} {summarize_arguments(call)}"


def _message_text(message: Message) -> str:
    results = (result.text for result in message.tool_results)
    calls = ", ".join(call.name for call in message.tool_calls)
    return message.text or "\n".join(results) or calls or message.thinking


MAX_LENGTH, MAX_ARROWS = 90_000, 450
"""JupyterLab draws no Mermaid text of more than 100,000 characters, or more than 500 arrows."""

_SPECIAL = re.compile(r"[^\w\s]", re.ASCII)
# Mermaid looks for icons (`fa:fa-car`) and formulas (`$$`) after it has read the numbers.
_ICON_OR_FORMULA = re.compile(r"\bfa[bklrs]?:(?=fa-)|\$(?=\$)")
_WORD_JOINER = "\u2060"


def graph_mermaid(graph: Graph, head: str | None) -> str | None:
    """Return the graph as a Mermaid flowchart, or None where JupyterLab would not draw it."""
    arrows = [(parent, node.id) for node in graph for parent in dict.fromkeys(node.parent_ids)]
    if len(arrows) > MAX_ARROWS:
        return None
    text = "\n".join(_mermaid_lines(graph, arrows, head))
    return text if len(text) <= MAX_LENGTH else None


def _mermaid_lines(graph: Graph, arrows: list[tuple[str, str]], head: str | None) -> Iterator[str]:
    yield "flowchart TD"
    yield f"accTitle: Conversation of {plural(len(graph), 'node')}"
    names = {node.id: f"n{number}" for number, node in enumerate(graph)}
    for node in graph:
        yield names[node.id] + _node(node, head)
    for parent, child in arrows:
        yield f"{names[parent]} --> {names[child]}"
    for kind, look in _LOOKS.items():
        yield f"classDef {kind}_ stroke:{look.color},stroke-width:2px"
    if head in names:
        yield f"style {names[head]} stroke-width:5px"


def _node(node: Node, head: str | None) -> str:
    kind = node_kind(node)
    look = _LOOKS[kind]
    facts = [kind, shorten(handle(node.id)), HEAD if node.id == head else ""]
    title = " · ".join(filter(None, facts))
    text = f"{_escape(title)}<br/>{_escape(shorten(node_text(node)))}"
    return f'{look.begin}"{text}"{look.end}:::{kind}_'


def _escape(text: str) -> str:
    text = _ICON_OR_FORMULA.sub(lambda match: match[0] + _WORD_JOINER, text)
    return _SPECIAL.sub(_as_number, text)


def _as_number(match: re.Match[str]) -> str:
    char = match[0]
    return f"#{ord(char)};" if char.isascii() else char
