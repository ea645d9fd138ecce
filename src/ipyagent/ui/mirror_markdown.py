"""A run as Markdown: the same order and words as the HTML, without any HTML."""

from __future__ import annotations

from ipyagent.schema import Display, ImageContent, Run, ToolExecution, ToolResult
from ipyagent.ui import facts, wording
from ipyagent.ui.addresses import image_source
from ipyagent.ui.format import seconds, shown
from ipyagent.ui.markdown import code, fenced, literal, quoted, safe_markdown


def run_markdown(run: Run) -> str:
    """The run as Markdown that is safe in renderers that allow HTML and remote images."""
    badge, answer = wording.badge(run), wording.answering(run)
    header = ["**ipyagent**", *map(literal, wording.header(run)), *([f"**{badge}**"] * bool(badge))]
    parts = [
        " · ".join(header),
        f"*Sent with your prompt*\n\n{fenced(shown(run.context))}" if run.context else "",
        *map(_remark, run.notes),
        *(_step(run, index, is_answer=step is answer) for index, step in enumerate(run.steps)),
        _ending(run),
        _remark(" · ".join(facts.footer(run))),
    ]
    return _joined(parts)


def _step(run: Run, index: int, *, is_answer: bool) -> str:
    step, before = run.steps[index], run.steps[index - 1] if index else None
    message = step.message
    thinking = message.thinking if message else ""
    title = wording.thinking_title(step.thinking_seconds)
    blocks = message.content if message else ()
    parts = [
        _remark(wording.lead_in(step, before)),
        *map(_remark, step.notes),
        f"*{title}*\n\n{quoted(thinking)}" if thinking.strip() else "",
        "___" if is_answer and step.number > 1 else "",
        safe_markdown(message.text) if message else "",
        *(_image(block, "the model") for block in blocks if isinstance(block, ImageContent)),
        *(_tool(execution, run) for execution in step.executions),
        _remark(facts.step_facts(step, run.verbose)),
    ]
    return _joined(parts)


def _tool(execution: ToolExecution, run: Run) -> str:
    preview, result = wording.drawn_preview(execution), wording.new_result(execution)
    told = result is None or wording.says_only(result, wording.outcome_line(execution))
    texts = [] if wording.in_summary(execution) else wording.call_texts(execution)
    languages = [preview.language if preview else "", ""]
    parts = [
        _tool_title(execution),
        *(fenced(text, language) for text, language in zip(texts, languages, strict=False)),
        *map(_remark, wording.remarks(execution, run)),
        "" if result is None or told else _said(result),
        *(_media(execution.result, execution.call.name) if execution.result else ()),
    ]
    return _joined(parts)


def _tool_title(execution: ToolExecution) -> str:
    arguments = wording.argument_summary(execution.call)
    line, verdict = wording.outcome_line(execution), wording.verdict(execution)
    parts = [
        f"**{wording.GLYPHS[execution.status]} {literal(shown(execution.call.name))}**",
        "*dry run*" if execution.dry_run else "",
        code(arguments) if arguments else "",
        f"→ {literal(line)}" if line else "",
        _remark(verdict),
        f"({seconds(execution.duration)})" if execution.duration is not None else "",
    ]
    return " ".join(part for part in parts if part)


def _said(result: ToolResult) -> str:
    output, _ = wording.text_and_displays(result)
    more = wording.more_output(result)
    parts = [
        fenced(output, "text") if output else "",
        fenced(more, "text") if more else "",
        _remark(wording.truncation_text(result.truncated)) if result.truncated else "",
    ]
    return _joined(parts)


def _media(result: ToolResult, name: str) -> list[str]:
    _, displays = wording.text_and_displays(result)
    return [*map(_display, displays), *(_image(image, name) for image in result.images)]


def _display(display: Display) -> str:
    mime = wording.richest(display)
    if mime == "text/markdown":
        return safe_markdown(display.data[mime])
    if mime.startswith("image/"):
        return _image(ImageContent(media_type=mime, data=display.data[mime]), "a display")
    plain = display.data.get("text/plain", "")
    return fenced(shown(plain), "text") if plain else _remark(wording.unshown(display))


def _image(image: ImageContent, origin: str) -> str:
    url = image_source(image)
    return (
        f"![Figure from {literal(shown(origin))}]({url})"
        if url
        else _remark(wording.not_drawn(image))
    )


def _ending(run: Run) -> str:
    what, _, more = wording.ending(run).strip().partition("\n")
    title = f"**✗ {literal(shown(what))}**" if run.error else _remark(what)
    return f"> {title} {literal(shown(more))}".rstrip() if what else ""


def _remark(text: str) -> str:
    return f"*{literal(shown(text)).strip()}*" if text.strip() else ""


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)
