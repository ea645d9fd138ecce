"""The static mirror: a finished run as MIME bundle, readable without a kernel and without us.

text/html                           plain tags, for GitHub, nbviewer, exports, untrusted pages
text/markdown                       where HTML is not drawn
text/plain                          where nothing is drawn
application/vnd.ipyagent.run+json   the run itself, drawn by the labextension as it was live
"""

from __future__ import annotations

from ipyagent.schema import Display, ImageContent, Run, Step, ToolExecution, ToolResult
from ipyagent.ui import wording
from ipyagent.ui.addresses import image_source
from ipyagent.ui.mirror_markdown import run_markdown
from ipyagent.ui.plain import render
from ipyagent.ui.sanitize import escape, markdown_to_html, safe_html
from ipyagent.ui.secrets import without_secrets
from ipyagent.ui.wording import shown, state_of

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
    answer = wording.answering(run)
    parts = [
        _header(run),
        _details("Sent with your prompt", _pre(run.context)) if run.context else "",
        *map(_note, run.notes),
        *(_step(step, is_answer=step is answer) for step in run.steps),
        _ending(run),
    ]
    state = state_of(run)
    return f'<div data-ipyagent="run" data-state="{state}" {_NO_MATH}>\n{_joined(parts)}\n</div>'


def result_html(result: ToolResult) -> str:
    """A tool's result as HTML: text, tables, images, and the error if there is one."""
    failed = "" if result.success else "<p><strong>✗ failed</strong></p>"
    parts = [failed, result_body(result), *map(_image, result.images)]
    return f"<div {_NO_MATH}>\n{_joined(parts)}\n</div>"


def result_body(result: ToolResult) -> str:
    """What a result says, without its images."""
    output, displays = wording.text_and_displays(result)
    more = wording.more_output(result)
    parts = [
        _pre(output),
        _pre(more),
        *map(_display, displays),
        _note(wording.truncation_text(result.truncated)) if result.truncated else "",
    ]
    return _joined(parts)


def _header(run: Run) -> str:
    parts = ["<strong>ipyagent</strong>", *map(escape, wording.header(run))]
    if badge := wording.badge(run):
        parts.append(f"<mark>{badge}</mark>")
    return f"<p>{' · '.join(parts)}</p>"


def _step(step: Step, *, is_answer: bool) -> str:
    message = step.message
    said = markdown_to_html(message.text) if message else ""
    public = ' data-ipyagent="answer"' if is_answer else ""
    rule = "<hr>" if is_answer and step.number > 1 else ""
    parts = [
        *map(_note, step.notes),
        _thinking(step, message.thinking) if message and message.thinking.strip() else "",
        f"{rule}<div{public}>\n{said}</div>" if said else "",
        *map(_tool, step.executions),
    ]
    return _joined(parts)


def _thinking(step: Step, text: str) -> str:
    title = f"<em>{wording.thinking_title(step.thinking_seconds)}</em>"
    return _details(title, markdown_to_html(text), 'data-ipyagent="thinking"')


def _tool(execution: ToolExecution) -> str:
    """A card to unfold, and its figures below, in sight."""
    name = escape(shown(execution.call.name))
    public = f'data-ipyagent="tool" data-tool="{name}" data-state="{execution.status}"'
    images = execution.result.images if execution.result else ()
    card = _details(_tool_summary(execution, name), _tool_body(execution), public)
    return _joined([card, *map(_image, images)])


def _tool_summary(execution: ToolExecution, name: str) -> str:
    arguments = escape(wording.argument_summary(execution.call))
    line = escape(wording.outcome_line(execution))
    duration = "" if execution.duration is None else wording.seconds(execution.duration)
    parts = [
        wording.GLYPHS[execution.status],
        f"<strong>{name}</strong>",
        f"<code>{arguments}</code>" if arguments else "",
        f"→ {line}" if line else "",
        f"<small>{duration.replace(' ', '&nbsp;')}</small>" if duration else "",
    ]
    return " ".join(part for part in parts if part)


def _tool_body(execution: ToolExecution) -> str:
    preview, result = wording.preview_text(execution), wording.new_result(execution)
    in_summary = result and wording.says_only(result, wording.outcome_line(execution))
    parts = [
        _pre(preview),
        *(f"<p><em>{escape(text)}</em></p>" for text in wording.remarks(execution)),
        result_body(result) if result and not in_summary else "",
    ]
    return _joined(parts)


def _display(display: Display) -> str:
    mime = wording.richest(display)
    content = display.data.get(mime, "")
    match mime:
        case "text/html":
            return safe_html(content)
        case "text/markdown":
            return markdown_to_html(content)
        case "image/png" | "image/jpeg":
            return _image(ImageContent(media_type=mime, data=content.strip()))
        case "text/plain":
            return _pre(content)
    return _note(wording.unshown(display))


def _image(image: ImageContent) -> str:
    url = image_source(image)
    if url is None:
        return _note(wording.image_text(image))
    return f'<p><img src="{escape(url)}" alt="{escape(wording.image_text(image))}"></p>'


def _ending(run: Run) -> str:
    text = wording.ending(run)
    if not text:
        return ""
    state = wording.STATES[state_of(run)].capitalize()
    lines = escape(shown(text)).replace("\n", "<br>")
    return f"<blockquote><p><strong>{state}.</strong> {lines}</p></blockquote>"


def _note(text: str) -> str:
    return f"<p><small>{escape(shown(text))}</small></p>"


def _details(summary: str, body: str, attributes: str = "") -> str:
    return f"<details {attributes}><summary>{summary}</summary>\n{body}\n</details>"


def _pre(text: str) -> str:
    return f"<pre><code>{escape(shown(text))}</code></pre>" if text.strip() else ""


def _joined(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part)
