"""The static view: runs, results and sessions as MIME bundles, readable without kernel.

text/html           the card; the labextension adds buttons to it, by the run
text/plain          where HTML is not drawn: the answer, and a line for each call
…ipyagent.run+json  the run itself, for programs and the labextension
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from ipyagent import schema
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import plural, visible
from ipyagent.redaction import mask_arguments
from ipyagent.schema.graph import COMPACTED, EDITED, handle
from ipyagent.schema.run_states import RUN_MIME, refer_to_html
from ipyagent.ui import messages, transcript
from ipyagent.ui.blocks import run_html
from ipyagent.ui.parts import NO_MATH, media_html, note_html, pre
from ipyagent.ui.plain_text import summarize
from ipyagent.ui.reveal import clip_output, shorten
from ipyagent.ui.transcribe import transcribe, way_on
from ipyagent.ui.transcribe.call import call_glyph, source_of
from ipyagent.ui.transcribe.call_texts import (
    mask_run,
    name_cell,
    output_text,
    result_facts,
    summarize_arguments,
    transcribe_result,
    truncation_text,
)
from ipyagent.ui.transcribe.step import usage_text


def saved_bundle(run: schema.Run) -> dict[str, object]:
    """Return the run in all formats that a notebook may keep."""
    drawn, data = transcribe(run), dump_run(mask_run(_add_children(run)))
    html = run_html(drawn)
    refer_to_html(data, html)
    data["offers"] = _offers(run, drawn).to_dict()
    return {"text/html": html, "text/plain": summarize(drawn), RUN_MIME: data}


def _offers(run: schema.Run, drawn: transcript.Transcript) -> messages.Offers:
    """Return the buttons of a run that has ended; of another, only its code."""
    sources = tuple([source_of(call) for step in drawn.steps for call in step.calls])
    if not run.is_finished:
        return messages.Offers(sources=sources)
    is_undone = bool(run.taken_back)
    can_undo = any(each.has_changes for each in run.executions)
    cells = () if is_undone else tuple(each.cell for each in run.results if each.cell)
    undo: Literal["undo", "redo"] | None = "redo" if is_undone else "undo" if can_undo else None
    return messages.Offers(sources=sources, cells=cells, go_on=way_on(run), undo=undo)


def _add_children(run: schema.Run) -> schema.Run:
    """Return the run with the runs that its calls began, as far as a replay needs them."""
    begun = [each.value for each in run.results if each.child and each.value is not None]
    return run.model_copy(update={"children": tuple(map(_shorten_child, begun)) or run.children})


def _shorten_child(run: schema.Run) -> schema.Run:
    """Return a run that a call began without what only its card would show."""
    less = {"preview": None, "rehearsal": None}
    calls = [tuple(e.model_copy(update=less) for e in step.executions) for step in run.steps]
    pairs = zip(run.steps, calls, strict=True)
    steps = tuple(step.model_copy(update={"executions": each}) for step, each in pairs)
    return _add_children(run).model_copy(update={"steps": steps, "context": "", "numbers": ()})


_ALWAYS = {
    *("type", "role", "number", "content", "text", "thinking", "name", "arguments"),
    *("executions", "call", "result", "status", "sensitive", "success", "output"),
    *("error", "images", "truncated"),
}
"""Fields of a run's steps and calls that are kept whatever they hold, for programs that read it."""


def dump_run(run: schema.Run) -> JsonDict:
    """Return the run as JSON; below its own fields those that have their default are left out."""
    whole, changed = run.to_dict(), run.model_dump(mode="json", exclude_defaults=True)
    return {name: _without_defaults(each, changed.get(name, each)) for name, each in whole.items()}


def _without_defaults(whole: object, changed: object) -> object:
    if whole == changed:
        return whole
    if isinstance(whole, dict) and isinstance(changed, dict):
        return {
            name: _without_defaults(each, changed.get(name, each))
            if each and isinstance(each, dict | list)
            else each
            for name, each in whole.items()
            if name in changed or name in _ALWAYS
        }
    if isinstance(whole, list) and isinstance(changed, list):
        return [_without_defaults(*each) for each in zip(whole, changed, strict=True)]
    return whole


def result_html(result: schema.ToolResult) -> str:
    """Return a tool's result as HTML: text, tables, images, and the error if there is one."""
    drawn = transcribe_result(result, "a tool")
    failed = "" if result.success else "<p><strong>✗ failed</strong></p>"
    texts = (drawn.error, drawn.output, *map(note_html, result_facts(result)))
    parts = [failed, *map(pre, texts), *map(media_html, drawn.media)]
    return f'<div class="{NO_MATH}">\n{"".join(parts)}\n</div>'


def session_bundle(session: Any) -> dict[str, str]:
    """Return a session's graph, which JupyterLab draws; it has a `name`, `graph` and `head`."""
    graph, head = session.graph, session.head
    title = f"Session {shorten(session.name)}".strip() + f" · {plural(len(graph), 'node')}"
    text = "\n".join(line for line in (title, graph_text(graph, head)) if line)
    mermaid = graph_mermaid(graph, head)
    return {"text/plain": text} | ({"text/vnd.mermaid": mermaid} if mermaid else {})


def tool_result_bundle(result: schema.ToolResult) -> dict[str, str]:
    """Return a tool result's bundle for a notebook."""
    return {"text/html": result_html(result), "text/plain": result_text(result)}


def result_text(result: schema.ToolResult) -> str:
    """Return a result as text: outcome, output, and what else it holds."""
    holds = [
        plural(len(result.images), "image") if result.images else "",
        plural(len(result.displays), "display") if result.displays else "",
        truncation_text(result.truncated) if result.truncated else "",
    ]
    head = " · ".join(["✓" if result.success else "✗", *(each for each in holds if each)])
    text = clip_output(visible(output_text(result)), "in its .output")
    return f"{head}{chr(10) if chr(10) in text else ' '}{text}".rstrip()


HEAD = "◀ head"
"""Marks the node that the conversation goes on from."""

FIRST, LAST = 8, 200
"""The number of nodes shown of either end of a long graph."""


class _NodeStyle(NamedTuple):
    """The sign of a kind of node in text; its color and its brackets in Mermaid."""

    sign: str
    color: str
    begin: str = "("
    end: str = ")"


# Strokes that can be seen on white and on black; the theme chooses the ground and the text.
_NODE_STYLES = {
    "system": _NodeStyle("▲", "#9a62d8", "[/", "/]"),
    "tools": _NodeStyle("▲", "#9a62d8", "[/", "/]"),
    "user": _NodeStyle("●", "#3b7dd8", "([", "])"),
    "note": _NodeStyle("○", "#7d858f"),
    "summary": _NodeStyle("◇", "#7d858f"),
    "assistant": _NodeStyle("■", "#2c9160", "[", "]"),
    "call": _NodeStyle("◆", "#c4741a", "{{", "}}"),
    "results": _NodeStyle("○", "#c4741a"),
    "end": _NodeStyle("▬", "#d9463c", "[[", "]]"),
    "unknown": _NodeStyle("○", "#7d858f"),
}


def graph_text(graph: schema.Graph, head: str | None) -> str:
    """Return the graph as text, oldest nodes first, without escapes or control characters.

    A line names what its node follows, unless that is the line above.
    """
    return "\n".join(_lines([*graph], head))


def _lines(nodes: list[schema.Node], head: str | None) -> Iterator[str]:
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


def _line(node: schema.Node, above: str, head: str | None) -> str:
    kind = node_kind(node)
    parents = [shorten(handle(each)) for each in node.parent_ids if each != above]
    origin = f"  ← {', '.join(parents)}" if parents else ""
    mark = f"  {HEAD}" if node.id == head else ""
    if EDITED in node.metadata:
        mark = f"  (edited from {shorten(handle(str(node.metadata[EDITED])))}){mark}"
    name = f"{_NODE_STYLES[kind].sign}  {kind:9}  {shorten(handle(node.id)):8}"
    return f"{name}  {shorten(node_text(node))}{origin}{mark}"


def node_kind(node: schema.Node) -> str:
    """Return the kind of a node in one word: `user`, `call`, `end` …"""
    match node.data:
        case schema.SystemPrompt():
            return "system"
        case schema.ToolDefinitions():
            return "tools"
        case schema.ToolExecution():
            return "call"
        case schema.Stop():
            return "end"
        case schema.Message() as message:
            return _message_kind(message, node)
    return "unknown"


def _message_kind(message: schema.Message, node: schema.Node) -> str:
    if COMPACTED in node.metadata:
        return "summary"
    if message.tool_results:
        return "results"
    return "note" if message.synthetic else str(message.role)


def node_text(node: schema.Node) -> str:
    """Return the content of a node as plain text; it may be long, and it may come from anywhere."""
    match node.data:
        case schema.SystemPrompt(content=content):
            return content
        case schema.ToolDefinitions(tools=tools):
            return ", ".join(tool.name for tool in tools)
        case schema.ToolExecution() as execution:
            return _execution_text(execution)
        case schema.Stop() as stop:
            reason = stop.reason or stop.finish_reason or ""
            return " · ".join(part for part in (reason, usage_text(stop.usage)) if part)
        case schema.Message() as message:
            return _message_text(message)
    return "made by a newer version of ipyagent"


def _execution_text(execution: schema.ToolExecution) -> str:
    call = name_cell(execution, execution.call)
    call = call.model_copy(update={"arguments": mask_arguments(call.arguments)})
    glyph, _ = call_glyph(execution)
    return f"{glyph} {call.name} {summarize_arguments(call)}"


def _message_text(message: schema.Message) -> str:
    results = (result.text for result in message.tool_results)
    calls = ", ".join(call.name for call in message.tool_calls)
    return message.text or "\n".join(results) or calls or message.thinking


MAX_LENGTH, MAX_ARROWS = 90_000, 450
"""JupyterLab draws no Mermaid text of more than 100,000 characters, or more than 500 arrows."""

# Nodes may hold text from anywhere. Each ASCII character that may mean something to Mermaid, HTML
# or Markdown is written as its number, so that a node's text stays text. The syntax:
# https://mermaid.js.org/syntax/flowchart.html
_SPECIAL = re.compile(r"[^\w\s]", re.ASCII)
# Mermaid looks for icons (`fa:fa-car`) and formulas (`$$`) after it has read the numbers.
_ICON_OR_FORMULA = re.compile(r"\bfa[bklrs]?:(?=fa-)|\$(?=\$)")
_WORD_JOINER = "\u2060"


def graph_mermaid(graph: schema.Graph, head: str | None) -> str | None:
    """Return the graph as a Mermaid flowchart, or None where JupyterLab would not draw it."""
    arrows = [(parent, node.id) for node in graph for parent in dict.fromkeys(node.parent_ids)]
    if len(arrows) > MAX_ARROWS:
        return None
    text = "\n".join(_mermaid_lines(graph, arrows, head))
    return text if len(text) <= MAX_LENGTH else None


def _mermaid_lines(
    graph: schema.Graph, arrows: list[tuple[str, str]], head: str | None
) -> Iterator[str]:
    yield "flowchart TD"
    yield f"accTitle: Conversation of {plural(len(graph), 'node')}"
    names = {node.id: f"n{number}" for number, node in enumerate(graph)}
    for node in graph:
        yield names[node.id] + _node(node, head)
    for parent, child in arrows:
        yield f"{names[parent]} --> {names[child]}"
    for kind, style in _NODE_STYLES.items():
        yield f"classDef {kind}_ stroke:{style.color},stroke-width:2px"
    if head in names:
        yield f"style {names[head]} stroke-width:5px"


def _node(node: schema.Node, head: str | None) -> str:
    kind = node_kind(node)
    style = _NODE_STYLES[kind]
    facts = [kind, shorten(handle(node.id)), HEAD if node.id == head else ""]
    title = " · ".join(filter(None, facts))
    text = f"{_escape(title)}<br/>{_escape(shorten(node_text(node)))}"
    return f'{style.begin}"{text}"{style.end}:::{kind}_'


def _escape(text: str) -> str:
    text = _ICON_OR_FORMULA.sub(lambda match: match[0] + _WORD_JOINER, text)
    return _SPECIAL.sub(_as_number, text)


def _as_number(match: re.Match[str]) -> str:
    char = match[0]
    return f"#{ord(char)};" if char.isascii() else char
