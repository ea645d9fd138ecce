"""A run as Markdown: the same order and words as the HTML, without any HTML."""

from __future__ import annotations

from ipyagent.schema import Display, ImageContent, Run, Step, ToolExecution, ToolResult
from ipyagent.ui import wording
from ipyagent.ui.addresses import image_source
from ipyagent.ui.markdown import code, fenced, literal, quoted, safe_markdown
from ipyagent.ui.wording import shown


def run_markdown(run: Run) -> str:
    """The run as Markdown that is safe in renderers that allow HTML and remote images."""
    badge, answer = wording.badge(run), wording.answering(run)
    header = ["**ipyagent**", *map(literal, wording.header(run)), *([f"**{badge}**"] * bool(badge))]
    parts = [
        " · ".join(header),
        f"*Sent with your prompt*\n\n{fenced(shown(run.context))}" if run.context else "",
        *map(_remark, run.notes),
        *(_step(step, is_answer=step is answer) for step in run.steps),
        _ending(run),
    ]
    return _joined(parts)


def _step(step: Step, *, is_answer: bool) -> str:
    message = step.message
    thinking = message.thinking if message else ""
    title = wording.thinking_title(step.thinking_seconds)
    parts = [
        *map(_remark, step.notes),
        f"*{title}*\n\n{quoted(thinking)}" if thinking.strip() else "",
        "___" if is_answer and step.number > 1 else "",
        safe_markdown(message.text) if message else "",
        *map(_tool, step.executions),
    ]
    return _joined(parts)


def _tool(execution: ToolExecution) -> str:
    preview, result = wording.preview_text(execution), wording.new_result(execution)
    language = execution.preview.language if execution.preview else ""
    in_title = result and wording.says_only(result, wording.outcome_line(execution))
    parts = [
        _tool_title(execution),
        fenced(preview, language) if preview else "",
        *map(_remark, wording.remarks(execution)),
        _result(result) if result and not in_title else "",
        *map(_image, result.images if result else ()),
    ]
    return _joined(parts)


def _tool_title(execution: ToolExecution) -> str:
    arguments = wording.argument_summary(execution.call)
    line, duration = wording.outcome_line(execution), execution.duration
    parts = [
        f"**{wording.GLYPHS[execution.status]} {literal(shown(execution.call.name))}**",
        code(arguments) if arguments else "",
        f"→ {literal(line)}" if line else "",
        f"({wording.seconds(duration)})" if duration is not None else "",
    ]
    return " ".join(part for part in parts if part)


def _result(result: ToolResult) -> str:
    output, displays = wording.text_and_displays(result)
    more = wording.more_output(result)
    parts = [
        fenced(output, "text") if output else "",
        fenced(more, "text") if more else "",
        *map(_display, displays),
        _remark(wording.truncation_text(result.truncated)) if result.truncated else "",
    ]
    return _joined(parts)


def _display(display: Display) -> str:
    mime = wording.richest(display)
    if mime == "text/markdown":
        return safe_markdown(display.data[mime])
    if mime.startswith("image/"):
        return _image(ImageContent(media_type=mime, data=display.data[mime].strip()))
    plain = display.data.get("text/plain", "")
    return fenced(shown(plain), "text") if plain else _remark(wording.unshown(display))


def _image(image: ImageContent) -> str:
    url, text = image_source(image), literal(wording.image_text(image))
    return f"![{text}]({''.join(url.split())})" if url else f"*{text}*"


def _ending(run: Run) -> str:
    text = wording.ending(run)
    state = wording.STATES[wording.state_of(run)].capitalize()
    return f"> **{state}.** {literal(shown(text))}" if text else ""


def _remark(text: str) -> str:
    return f"*{literal(shown(text)).strip()}*"


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)
