"""The static view: runs, results and sessions as MIME bundles, readable without kernel.

text/html           plain tags, for GitHub, nbviewer, exports
text/plain          where HTML is not drawn: the answer, and a line for each call
…ipyagent.run+json  the run itself, for programs
…transcript+json    the run as the labextension draws it: as it was live

The transcript in a saved notebook leaves out what the run has already, and what says only that
there is nothing: 300 agent cells are a third smaller for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ipyagent import schema
from ipyagent.plaintext import plural, visible
from ipyagent.redaction import mask_arguments
from ipyagent.schema.events import RUN_MIME, refer_to_html
from ipyagent.schema.graph import COMPACTED, EDITED, handle
from ipyagent.ui import plain_text as words, transcript
from ipyagent.ui.plain_text import summarize
from ipyagent.ui.reveal import clean_output, clip_output, reveal, shorten
from ipyagent.ui.sanitize import escape, image_source, markdown_to_html, safe_html, says_something
from ipyagent.ui.transcribe.call import call_glyph
from ipyagent.ui.transcribe.call_texts import (
    mask_run,
    output_text,
    result_facts,
    summarize_arguments,
    transcribe_result,
    truncation_text,
)
from ipyagent.ui.transcribe.run import transcribe
from ipyagent.ui.transcribe.step import usage_text

TRANSCRIPT_MIME = "application/vnd.ipyagent.transcript+json"


# Dollars are dollars: MathJax would set what stands between two of them, and obey \href in it.
_NO_MATH = 'class="tex2jax_ignore mathjax_ignore"'


def saved_bundle(run: schema.Run) -> dict[str, object]:
    """Return the run in all formats that a notebook may keep."""
    drawn, data = transcribe(run), transcript.dump_run(mask_run(run))
    html, saved = run_html(drawn), transcript.dump_transcript(drawn, data)
    refer_to_html(data, html)
    return {
        "text/html": html,
        "text/plain": summarize(drawn),
        RUN_MIME: data,
        TRANSCRIPT_MIME: saved,
    }


def run_html(drawn: transcript.Transcript) -> str:
    """Return the run as HTML without scripts, styles and buttons, in the order of the card."""
    plan = drawn.plan
    parts = [
        _header(drawn.header),
        *map(_own_note, drawn.notes),
        _plan(plan, drawn.header.state) if plan else "",
        *_steps(drawn),
        _ending(drawn.ending) if drawn.ending else "",
        _footer(drawn.footer),
        *map(_user_text, drawn.unsent),
    ]
    state = drawn.header.state
    return f'<div data-ipyagent="run" data-state="{state}" {_NO_MATH}>\n{_join_html(parts)}\n</div>'


def result_html(result: schema.ToolResult) -> str:
    """Return a tool's result as HTML: text, tables, images, and the error if there is one."""
    drawn = transcribe_result(result, "a tool")
    failed = "" if result.success else "<p><strong>✗ failed</strong></p>"
    texts = (drawn.error, drawn.output, *map(_note, result_facts(result)))
    parts = [failed, *map(_pre, texts), *map(_media, drawn.media)]
    return f"<div {_NO_MATH}>\n{_join_html(parts)}\n</div>"


def _header(header: transcript.Header) -> str:
    parts = ["<strong>ipyagent</strong>", *map(escape, words.header_parts(header))]
    if header.badge:
        parts.append(f"<mark>{escape(header.badge)}</mark>")
    return f"<p>{' · '.join(parts)}</p>"


def _steps(drawn: transcript.Transcript) -> list[str]:
    blocks = [_step(step) for step in drawn.steps]
    blocks.insert(drawn.todos_at, _todos(drawn.todos))
    for fold in reversed(drawn.folds):
        first = fold.first + (fold.first >= drawn.todos_at)
        span = slice(first, first + fold.count)
        blocks[span] = [_details(fold.title, _join_html(blocks[span]))]
    return blocks


def _todos(todos: Iterable[transcript.Todo]) -> str:
    items = "".join(f"<li>{escape(reveal(f'{todo.glyph} {todo.text}'))}</li>" for todo in todos)
    return f'<ul data-ipyagent="todos">{items}</ul>' if items else ""


def _plan(plan: transcript.Plan, state: str) -> str:
    """Return the plan: in full while it waits, its progress afterwards."""
    goal, title = escape(plan.goal), escape(words.plan_title(plan))
    steps = "\n".join(map(_plan_step, plan.steps))
    parts = [
        f"<p><strong>{goal}</strong><br>{title}</p>",
        f'<ol data-ipyagent="plan" data-state="{state}">\n{steps}\n</ol>',
        _own_note(plan.hint),
    ]
    return _join_html(parts)


def _plan_step(step: transcript.PlanStep) -> str:
    note = "<br>".join(map(escape, step.notes))
    parts = [
        f"{step.glyph} <strong>{escape(reveal(step.name))}</strong>",
        f"<em>{step.verdict}</em>" if step.verdict else "",
        f"<small>{note}</small>" if note else "",
    ]
    effects = _pre(words.effects_text(step.effects)) if step.effects else ""
    request = [_pre(words.arguments_text(step.request)), _note(step.request.parse_error)]
    body = _join_html([*request, effects])
    card = _details(" ".join(part for part in parts if part), body, is_open=step.is_open)
    return f'<li data-ipyagent="plan-step" data-state="{step.status}">{card}</li>'


def _step(step: transcript.Step) -> str:
    text, thinking = markdown_to_html(step.text) if step.text else "", step.thinking
    public = ' data-ipyagent="answer"' if step.is_answer else ""
    rule = "<hr>" if step.is_answer and step.number > 1 else ""
    parts = [
        *map(_user_text, step.user_texts),
        *map(_own_note, step.notes),
        _thinking(thinking) if thinking else "",
        f"{rule}<div{public}>\n{text}</div>" if text else "",
        *map(_media, step.images),
        *map(_call, step.calls),
        _note(step.facts),
    ]
    return _join_html(parts)


def _user_text(text: transcript.UserText) -> str:
    lines = escape(words.user_text(text)).replace("\n", "<br>")
    return f'<blockquote data-ipyagent="user-text"><p>{lines}</p></blockquote>'


def _thinking(thinking: transcript.Fold) -> str:
    title, body = f"<em>{thinking.title}</em>", markdown_to_html(thinking.text)
    return _details(title, body, 'data-ipyagent="thinking"', is_open=thinking.is_open)


def _call(call: transcript.Call) -> str:
    """Return a collapsed call, with its figures and tables in sight below."""
    name = escape(reveal(call.name))
    public = f'data-ipyagent="tool" data-tool="{name}" data-state="{call.status}"'
    card = _details(_call_line(call, name), _call_body(call), public, is_open=call.is_open)
    return _join_html([card, *map(_media, call.result.media if call.result else ())])


def _call_line(call: transcript.Call, name: str) -> str:
    summary, outcome = escape(words.summary_line(call)), escape(words.outcome_line(call))
    parts = [
        f"{call.glyph} <strong>{name}</strong>",
        f"<mark>{call.badge}</mark>" if call.badge else "",
        f"<code>{summary}</code>" if summary else "",
        f"→ {outcome}" if outcome else "",
        f"<em>{escape(call.verdict)}</em>" if call.verdict else "",
        f"<small>{call.duration.replace(' ', '&nbsp;')}</small>" if call.duration else "",
    ]
    return " ".join(filter(None, parts))


def _call_body(call: transcript.Call) -> str:
    effects = [words.effects_text(call.effects)] if call.effects else []
    remarks = [call.concern, *call.remarks, reveal(call.request.parse_error)]
    parts = [
        *([] if words.request_is_in_line(call) else map(_pre, words.request_texts(call))),
        *map(_pre, effects),
        *(f"<p><em>{escape(text)}</em></p>" for text in remarks if text),
        *map(_pre, words.texts_beside_line(call)),
        *map(_note, call.facts),
    ]
    if call.result and (text := call.result.for_model):
        parts.append(_fold(text.title, _pre(text.text), text))
    return _join_html(parts)


def _media(media: transcript.Media) -> str:
    return _image(media) if isinstance(media, transcript.Image) else _display(media)


def _display(display: transcript.Display) -> str:
    mime = words.richest(display)
    content = display.data.get(mime, "")
    match mime:
        case "text/html":
            # Some objects are drawn by scripts alone: then there is nothing left to see.
            safe = safe_html(content)
            plain = clean_output(display.data.get("text/plain", ""))
            return safe if says_something(safe) else _pre(plain)
        case "text/markdown":
            return markdown_to_html(content)
        case "image/png" | "image/jpeg":
            return _image(transcript.Image(media_type=mime, data=content, label=display.label))
        case "text/plain":
            return _pre(clean_output(content))
    return _note(words.unknown_display_text(display))


def _image(image: transcript.Image) -> str:
    url = image_source(image)
    if url is None:
        return _note(words.refused_image_text(image))
    return f'<p><img src="{url}" alt="{escape(reveal(image.label))}"></p>'


def _ending(ending: transcript.Ending) -> str:
    lines = _with_inline_code(clean_output(ending.text)).replace("\n", "<br>")
    title = _with_inline_code(clean_output(ending.title))
    is_error = ending.tone == "error"
    title = f"<strong>✗ {title}</strong>" if is_error else f"<em>{title}</em>"
    return f"<blockquote><p>{title}{'<br>' if lines else ''}{lines}</p></blockquote>"


def _footer(footer: transcript.Footer) -> str:
    facts = words.join_facts([*footer.facts, words.trace_text(footer)])
    parts = [*(_fold(each.title, _pre(each.text), each) for each in footer.folds), _note(facts)]
    title = f"<small>{words.join_facts([footer.duration, 'details'])}</small>"
    return _details(title, _join_html(parts), is_open=any(each.is_open for each in footer.folds))


def _fold(title: str, body: str, fold: transcript.Fold) -> str:
    return _details(title, body, is_open=fold.is_open)


def _note(text: str) -> str:
    return f"<p><small>{escape(reveal(text))}</small></p>" if text else ""


def _own_note(text: str) -> str:
    return f"<p><small>{_with_inline_code(reveal(text))}</small></p>" if text else ""


def _with_inline_code(text: str) -> str:
    """Return our own text as HTML: backticks mark code in it."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


def _details(summary: str, body: str, attributes: str = "", *, is_open: bool = False) -> str:
    body = f"<blockquote>\n{body}\n</blockquote>\n" if body else ""
    attributes += " open" if is_open else ""
    return f"<details {attributes}><summary>{summary}</summary>\n{body}</details>"


def _pre(text: str) -> str:
    return f"<pre><code>{escape(reveal(text))}</code></pre>" if text.strip() else ""


def _join_html(parts: Iterable[str]) -> str:
    return "\n".join(filter(None, parts))


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
    call = execution.call
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
