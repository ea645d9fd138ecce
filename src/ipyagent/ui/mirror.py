"""The static mirror: a finished run as MIME bundle, readable without a kernel and without us.

text/html                           plain tags, for GitHub, nbviewer, exports, untrusted pages
text/markdown                       where HTML is not drawn
text/plain                          where nothing is drawn
application/vnd.ipyagent.run+json   the run itself, drawn by the labextension as it was live
"""

from __future__ import annotations

from collections.abc import Iterable

from ipyagent.schema import (
    Display,
    ImageContent,
    Run,
    RunStatus,
    Step,
    ToolExecution,
    ToolResult,
    ToolStatus,
)
from ipyagent.schema.progress import progress
from ipyagent.ui import checklist, decisions, facts, plans, wording
from ipyagent.ui.addresses import image_source
from ipyagent.ui.format import clean_output, seconds
from ipyagent.ui.mirror_markdown import run_markdown
from ipyagent.ui.plain import render
from ipyagent.ui.reveal import reveal
from ipyagent.ui.sanitize import escape, markdown_to_html, safe_html, says_something
from ipyagent.ui.secrets import without_secrets
from ipyagent.ui.wording import state_of

RUN_MIME = "application/vnd.ipyagent.run+json"

# Dollars are dollars: MathJax would set what stands between two of them, and obey \href in it.
_NO_MATH = 'class="tex2jax_ignore mathjax_ignore"'


def bundle(run: Run) -> dict[str, object]:
    """The run in all formats that a notebook may keep."""
    run = without_secrets(run)
    return {
        "text/html": run_html(run),
        "text/markdown": run_markdown(run),
        "text/plain": render(run),
        RUN_MIME: run.to_dict(),
    }


def run_html(run: Run) -> str:
    """The run as HTML without scripts, styles and buttons, in the order of the live view."""
    parts = [
        _header(run),
        _context(run),
        *map(_note, run.notes),
        _plan(run) if run.plan else "",
        *_steps(run),
        _ending(run),
        _footer(run),
    ]
    state = state_of(run)
    return f'<div data-ipyagent="run" data-state="{state}" {_NO_MATH}>\n{_joined(parts)}\n</div>'


def result_html(result: ToolResult) -> str:
    """A tool's result as HTML: text, tables, images, and the error if there is one."""
    failed = "" if result.success else "<p><strong>✗ failed</strong></p>"
    return f"<div {_NO_MATH}>\n{_joined([failed, _said(result), *_media(result)])}\n</div>"


def _header(run: Run) -> str:
    parts = ["<strong>ipyagent</strong>", *map(escape, wording.header(run))]
    if badge := wording.badge(run):
        parts.append(f"<mark>{badge}</mark>")
    return f"<p>{' · '.join(parts)}</p>"


def _context(run: Run) -> str:
    title, text = plans.context(run)
    return _details(title, _pre(text), is_open=run.verbose >= facts.COUNTED) if text else ""


def _steps(run: Run) -> list[str]:
    """The steps; the checklist stands before the answer, or at the end while there is none."""
    answer = wording.answering(run)
    drawn = [_step(run, i, is_answer=step is answer) for i, step in enumerate(run.steps)]
    place = run.steps.index(answer) if answer else len(drawn)
    return [*drawn[:place], _todos(run), *drawn[place:]]


def _todos(run: Run) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in checklist.lines(run.todos))
    return f'<ul data-ipyagent="todos">{items}</ul>' if items else ""


def _plan(run: Run) -> str:
    """The plan: all of it while it waits, its progress afterwards."""
    goal, title = escape(plans.goal(run)), escape(plans.title(run))
    states = progress(run)
    steps = "\n".join(_plan_step(run, i, state) for i, state in enumerate(states))
    parts = [
        f"<p><strong>{goal}</strong><br>{title}</p>",
        f'<ol data-ipyagent="plan" data-state="{state_of(run)}">\n{steps}\n</ol>',
        _note(plans.waits(run)),
    ]
    return _joined(parts)


def _plan_step(run: Run, index: int, state: ToolStatus) -> str:
    step = run.plan[index]
    note = "<br>".join(map(escape, plans.note_lines(step)))
    parts = [
        f"{wording.GLYPHS[state]} <strong>{escape(reveal(step.call.name))}</strong>",
        f"<em>{left_out}</em>" if (left_out := plans.left_out(run, state)) else "",
        f"<small>{note}</small>" if note else "",
    ]
    body = _joined([_pre(wording.arguments_text(step.call)), _note(step.call.parse_error or "")])
    is_open = run.status is RunStatus.DRAFT
    card = _details(" ".join(part for part in parts if part), body, is_open=is_open)
    return f'<li data-ipyagent="plan-step" data-state="{state}">{card}</li>'


def _step(run: Run, index: int, *, is_answer: bool) -> str:
    step = run.steps[index]
    message = step.message
    said = markdown_to_html(message.text) if message else ""
    public = ' data-ipyagent="answer"' if is_answer else ""
    rule = "<hr>" if is_answer and step.number > 1 else ""
    blocks = message.content if message else ()
    parts = [
        _note(wording.lead_in(run, index)),
        *map(_note, step.notes),
        _thinking(step, message.thinking, run) if message and message.thinking.strip() else "",
        f"{rule}<div{public}>\n{said}</div>" if said else "",
        *(_image(block, "the model") for block in blocks if isinstance(block, ImageContent)),
        *(_tool(execution, run) for execution in step.executions),
        _note(facts.step_facts(step, run.verbose)),
    ]
    return _joined(parts)


def _thinking(step: Step, text: str, run: Run) -> str:
    title = f"<em>{wording.thinking_title(step.thinking_seconds)}</em>"
    public, is_open = 'data-ipyagent="thinking"', run.verbose >= facts.OPEN
    return _details(title, markdown_to_html(text), public, is_open=is_open)


def _tool(execution: ToolExecution, run: Run) -> str:
    """A card to unfold; its figures and tables are below, in sight."""
    name = escape(reveal(execution.call.name))
    public = f'data-ipyagent="tool" data-tool="{name}" data-state="{execution.status}"'
    # To be seen is all that a dry run is for.
    is_open = run.verbose >= facts.OPEN or decisions.mark(execution, run) == decisions.DRY_RUN
    body = _tool_body(execution, run)
    card = _details(_tool_summary(execution, name, run), body, public, is_open=is_open)
    return _joined([card, *(_media(execution.result, name) if execution.result else ())])


def _tool_summary(execution: ToolExecution, name: str, run: Run) -> str:
    arguments, mark = escape(wording.summary(execution)), decisions.mark(execution, run)
    line, verdict = escape(wording.outcome_line(execution)), escape(decisions.verdict(execution))
    duration = "" if execution.duration is None else seconds(execution.duration)
    parts = [
        f"{wording.glyph(execution)} <strong>{name}</strong>",
        f"<mark>{mark}</mark>" if mark else "",
        f"<code>{arguments}</code>" if arguments else "",
        f"→ {line}" if line else "",
        f"<em>{verdict}</em>" if verdict else "",
        f"<small>{duration.replace(' ', '&nbsp;')}</small>" if duration else "",
    ]
    return " ".join(part for part in parts if part)


def _tool_body(execution: ToolExecution, run: Run) -> str:
    result = wording.new_result(execution)
    told = result is None or wording.says_only(result, wording.outcome_line(execution))
    parts = [
        *([] if wording.in_summary(execution) else map(_pre, wording.call_texts(execution))),
        *(f"<p><em>{escape(text)}</em></p>" for text in decisions.remarks(execution, run)),
        "" if result is None or told else _said(result),
    ]
    return _joined(parts)


def _said(result: ToolResult) -> str:
    """What a result says in words."""
    output, _ = wording.text_and_displays(result)
    cut = _note(wording.truncation_text(result.truncated)) if result.truncated else ""
    touched = _note(wording.variables_text(result)) if result.variables else ""
    return _joined([_pre(output), _pre(wording.more_output(result)), cut, touched])


def _media(result: ToolResult, name: str = "a tool") -> list[str]:
    """What a result shows."""
    return [
        _image(item, name) if isinstance(item, ImageContent) else _display(item)
        for item in wording.media(result)
    ]


def _display(display: Display) -> str:
    mime = wording.richest(display)
    content = display.data.get(mime, "")
    match mime:
        case "text/html":
            # Some objects are drawn by scripts alone: then there is nothing left to see.
            drawn = safe_html(content)
            return (
                drawn
                if says_something(drawn)
                else _pre(clean_output(display.data.get("text/plain", "")))
            )
        case "text/markdown":
            return markdown_to_html(content)
        case "image/png" | "image/jpeg":
            return _image(ImageContent(media_type=mime, data=content), "a display")
        case "text/plain":
            return _pre(clean_output(content))
    return _note(wording.unshown(display))


def _image(image: ImageContent, origin: str) -> str:
    """An image; `origin` is HTML."""
    url = image_source(image)
    if url is None:
        return _note(wording.not_drawn(image))
    return f'<p><img src="{url}" alt="Figure from {origin}"></p>'


def _ending(run: Run) -> str:
    what, _, more = wording.ending(run).strip().partition("\n")
    if not what:
        return ""
    lines = escape(clean_output(more.strip())).replace("\n", "<br>")
    title = escape(clean_output(what))
    title = f"<strong>✗ {title}</strong>" if run.error else f"<em>{title}</em>"
    return f"<blockquote><p>{title}{'<br>' if lines else ''}{lines}</p></blockquote>"


def _footer(run: Run) -> str:
    return _note(" · ".join(facts.footer(run)))


def _note(text: str) -> str:
    return f"<p><small>{escape(reveal(text))}</small></p>" if text else ""


def _details(summary: str, body: str, attributes: str = "", *, is_open: bool = False) -> str:
    body = f"<blockquote>\n{body}\n</blockquote>\n" if body else ""
    attributes += " open" if is_open else ""
    return f"<details {attributes}><summary>{summary}</summary>\n{body}</details>"


def _pre(text: str) -> str:
    return f"<pre><code>{escape(reveal(text))}</code></pre>" if text.strip() else ""


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)
