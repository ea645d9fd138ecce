"""A conversation's graph as text, a node a line, and the words of its nodes."""

from __future__ import annotations

from collections.abc import Iterator

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
from ipyagent.ui.formatting import shorten
from ipyagent.ui.transcribe.arguments import summarize_arguments
from ipyagent.ui.transcribe.call import call_glyph
from ipyagent.ui.transcribe.step import usage_text

HEAD = "◀ head"
"""Marks the node that the conversation goes on from."""

FIRST, LAST = 8, 200
"""The number of nodes shown of either end of a long graph."""

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
    name = f"{_SIGNS[kind]}  {kind:9}  {shorten(handle(node.id)):8}"
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
