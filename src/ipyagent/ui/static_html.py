"""The static view: runs, results and sessions as MIME bundles, readable without kernel.

text/html           plain tags, for GitHub, nbviewer, exports
text/plain          where HTML is not drawn: the answer, and a line for each call
…ipyagent.run+json  the run itself, for programs
…transcript+json    the run as the labextension draws it: as it was live

The transcript in a saved notebook leaves out what the run has already, and what says only that
there is nothing: 300 agent cells are a third smaller for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.phrases import plural
from ipyagent.plaintext import visible
from ipyagent.schema import Run, ToolResult
from ipyagent.schema.events import RUN_MIME, refer_to_html
from ipyagent.ui import transcript_text as words
from ipyagent.ui.graph_text import graph_mermaid, graph_text
from ipyagent.ui.plain_text import summarize
from ipyagent.ui.reveal import clean_output, clip_output, reveal, shorten
from ipyagent.ui.sanitize import escape, image_source, markdown_to_html, safe_html, says_something
from ipyagent.ui.transcribe.arguments import mask_run
from ipyagent.ui.transcribe.result import (
    output_text,
    result_facts,
    transcribe_result,
    truncation_text,
)
from ipyagent.ui.transcribe.run import transcribe
from ipyagent.ui.transcript import (
    Call,
    Display,
    Ending,
    Fold,
    Footer,
    Header,
    Image,
    Media,
    Plan,
    PlanStep,
    Step,
    Todo,
    Transcript,
    UserText,
)

TRANSCRIPT_MIME = "application/vnd.ipyagent.transcript+json"

_LONG = 60
"""Texts with more characters than this are not repeated: a reference has about as many."""

_ARGUMENTS = "arguments"
"""The arguments of a call are kept whole: they may look like a reference."""

_OUTPUT = "data"
"""The formats of an output: a format without text is a format."""

_ALWAYS = {
    *("type", "role", "number", "content", "text", "thinking", "name", "arguments"),
    *("executions", "call", "result", "status", "sensitive", "success", "output"),
    *("error", "images", "truncated"),
}
"""Fields of a run's steps and calls that are kept whatever they hold, for programs that read it."""

Path = tuple[str | int, ...]
Key = tuple[str, str]
"""A value that is kept once: a text, or arguments, which may have the same JSON as a text."""


def dump_run(run: Run) -> JsonDict:
    """Return the run as JSON; below its own fields those that have their default are left out."""
    whole, changed = run.to_dict(), run.model_dump(mode="json", exclude_defaults=True)
    return {name: _without_defaults(each, changed.get(name, each)) for name, each in whole.items()}


def dump_transcript(transcript: Transcript, run: JsonDict) -> str:
    """Return the transcript as JSON in which {"at": path} refers to a value in `run`.

    These are long texts, images among them, and the arguments of calls. Empty texts and lists,
    nulls and falsehoods are left out: `labextension/src/saved.ts` has the schema. It is text, as
    notebooks indent other JSON, which would double it.
    """
    places = _index(run)
    return json.dumps(_refer(transcript.to_dict(), "", places), separators=(",", ":"))


def _without_defaults(whole: object, changed: object) -> object:
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


def _index(run: JsonDict) -> dict[Key, Path]:
    """Return the paths of values that need not be repeated, by the value."""
    places: dict[Key, Path] = {}
    rest: list[tuple[object, Path]] = [(run, ())]
    while rest:
        value, path = rest.pop()
        if path and path[-1] == _ARGUMENTS:
            places[_key(value)] = path
        elif isinstance(value, str):
            if len(value) > _LONG:
                places["", value] = path
        elif isinstance(value, dict):
            rest += [(each, (*path, name)) for name, each in reversed(value.items())]
        elif isinstance(value, list):
            rest += [(each, (*path, at)) for at, each in reversed([*enumerate(value)])]
    return places


def _refer(value: object, name: str, places: dict[Key, Path]) -> object:
    if name == _ARGUMENTS:
        return {"at": list(places[_key(value)])}
    if isinstance(value, str):
        place = places.get(("", value))
        return value if place is None else {"at": list(place)}
    if isinstance(value, dict):
        return {
            key: _refer(each, key, places) if isinstance(each, str | list | dict) else each
            for key, each in value.items()
            if name == _OUTPUT
            or key == _ARGUMENTS
            or not (each is None or each is False or each in ("", []))
        }
    if isinstance(value, list):
        return [_refer(each, "", places) for each in value]
    return value


def _key(arguments: object) -> Key:
    return _ARGUMENTS, json.dumps(arguments, sort_keys=True)


# Dollars are dollars: MathJax would set what stands between two of them, and obey \href in it.
_NO_MATH = 'class="tex2jax_ignore mathjax_ignore"'


def saved_bundle(run: Run) -> dict[str, object]:
    """Return the run in all formats that a notebook may keep."""
    transcript, data = transcribe(run), dump_run(mask_run(run))
    html, drawn = run_html(transcript), dump_transcript(transcript, data)
    refer_to_html(data, html)
    return {
        "text/html": html,
        "text/plain": summarize(transcript),
        RUN_MIME: data,
        TRANSCRIPT_MIME: drawn,
    }


def run_html(transcript: Transcript) -> str:
    """Return the run as HTML without scripts, styles and buttons, in the order of the card."""
    plan = transcript.plan
    parts = [
        _header(transcript.header),
        *map(_own_note, transcript.notes),
        _plan(plan, transcript.header.state) if plan else "",
        *_steps(transcript),
        _ending(transcript.ending) if transcript.ending else "",
        _footer(transcript.footer),
        *map(_user_text, transcript.unsent),
    ]
    state = transcript.header.state
    return f'<div data-ipyagent="run" data-state="{state}" {_NO_MATH}>\n{_join_html(parts)}\n</div>'


def result_html(result: ToolResult) -> str:
    """Return a tool's result as HTML: text, tables, images, and the error if there is one."""
    transcript = transcribe_result(result, "a tool")
    failed = "" if result.success else "<p><strong>✗ failed</strong></p>"
    texts = (transcript.error, transcript.output, *map(_note, result_facts(result)))
    parts = [failed, *map(_pre, texts), *map(_media, transcript.media)]
    return f"<div {_NO_MATH}>\n{_join_html(parts)}\n</div>"


def _header(header: Header) -> str:
    parts = ["<strong>ipyagent</strong>", *map(escape, words.header_parts(header))]
    if header.badge:
        parts.append(f"<mark>{escape(header.badge)}</mark>")
    return f"<p>{' · '.join(parts)}</p>"


def _steps(transcript: Transcript) -> list[str]:
    blocks = [_step(step) for step in transcript.steps]
    blocks.insert(transcript.todos_at, _todos(transcript.todos))
    for fold in reversed(transcript.folds):
        first = fold.first + (fold.first >= transcript.todos_at)
        span = slice(first, first + fold.count)
        blocks[span] = [_details(fold.title, _join_html(blocks[span]))]
    return blocks


def _todos(todos: Iterable[Todo]) -> str:
    items = "".join(f"<li>{escape(reveal(f'{todo.glyph} {todo.text}'))}</li>" for todo in todos)
    return f'<ul data-ipyagent="todos">{items}</ul>' if items else ""


def _plan(plan: Plan, state: str) -> str:
    """Return the plan: in full while it waits, its progress afterwards."""
    goal, title = escape(plan.goal), escape(words.plan_title(plan))
    steps = "\n".join(map(_plan_step, plan.steps))
    parts = [
        f"<p><strong>{goal}</strong><br>{title}</p>",
        f'<ol data-ipyagent="plan" data-state="{state}">\n{steps}\n</ol>',
        _own_note(plan.hint),
    ]
    return _join_html(parts)


def _plan_step(step: PlanStep) -> str:
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


def _step(step: Step) -> str:
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


def _user_text(text: UserText) -> str:
    lines = escape(words.user_text(text)).replace("\n", "<br>")
    return f'<blockquote data-ipyagent="user-text"><p>{lines}</p></blockquote>'


def _thinking(thinking: Fold) -> str:
    title, body = f"<em>{thinking.title}</em>", markdown_to_html(thinking.text)
    return _details(title, body, 'data-ipyagent="thinking"', is_open=thinking.is_open)


def _call(call: Call) -> str:
    """Return a collapsed call, with its figures and tables in sight below."""
    name = escape(reveal(call.name))
    public = f'data-ipyagent="tool" data-tool="{name}" data-state="{call.status}"'
    card = _details(_call_line(call, name), _call_body(call), public, is_open=call.is_open)
    return _join_html([card, *map(_media, call.result.media if call.result else ())])


def _call_line(call: Call, name: str) -> str:
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


def _call_body(call: Call) -> str:
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


def _media(media: Media) -> str:
    return _image(media) if isinstance(media, Image) else _display(media)


def _display(display: Display) -> str:
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
            return _image(Image(media_type=mime, data=content, label=display.label))
        case "text/plain":
            return _pre(clean_output(content))
    return _note(words.unknown_display_text(display))


def _image(image: Image) -> str:
    url = image_source(image)
    if url is None:
        return _note(words.refused_image_text(image))
    return f'<p><img src="{url}" alt="{escape(reveal(image.label))}"></p>'


def _ending(ending: Ending) -> str:
    lines = _with_inline_code(clean_output(ending.text)).replace("\n", "<br>")
    title = _with_inline_code(clean_output(ending.title))
    is_error = ending.tone == "error"
    title = f"<strong>✗ {title}</strong>" if is_error else f"<em>{title}</em>"
    return f"<blockquote><p>{title}{'<br>' if lines else ''}{lines}</p></blockquote>"


def _footer(footer: Footer) -> str:
    facts = words.join_facts([*footer.facts, words.trace_text(footer)])
    parts = [*(_fold(each.title, _pre(each.text), each) for each in footer.folds), _note(facts)]
    title = f"<small>{words.join_facts([footer.duration, 'details'])}</small>"
    return _details(title, _join_html(parts), is_open=any(each.is_open for each in footer.folds))


def _fold(title: str, body: str, fold: Fold) -> str:
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


def tool_result_bundle(result: ToolResult) -> dict[str, str]:
    """Return a tool result's bundle for a notebook."""
    return {"text/html": result_html(result), "text/plain": result_text(result)}


def result_text(result: ToolResult) -> str:
    """Return a result as text: outcome, output, and what else it holds."""
    holds = [
        plural(len(result.images), "image") if result.images else "",
        plural(len(result.displays), "display") if result.displays else "",
        truncation_text(result.truncated) if result.truncated else "",
    ]
    head = " · ".join(["✓" if result.success else "✗", *(each for each in holds if each)])
    text = clip_output(visible(output_text(result)), "in its .output")
    return f"{head}{chr(10) if chr(10) in text else ' '}{text}".rstrip()
