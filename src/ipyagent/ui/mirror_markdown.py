"""A run as Markdown: the same order and words as the HTML, without any HTML."""

from __future__ import annotations

from ipyagent.schema import Display, ImageContent, Run, ToolExecution, ToolResult
from ipyagent.schema.progress import progress
from ipyagent.ui import checklist, decisions, facts, plans, wording
from ipyagent.ui.addresses import image_source
from ipyagent.ui.format import clean_output, seconds
from ipyagent.ui.markdown import code, fenced, literal, quoted, safe_markdown
from ipyagent.ui.reveal import reveal


def run_markdown(run: Run) -> str:
    """The run as Markdown that is safe in renderers that allow HTML and remote images."""
    badge, (title, context) = wording.badge(run), plans.context(run)
    header = ["**ipyagent**", *map(literal, wording.header(run)), *([f"**{badge}**"] * bool(badge))]
    parts = [
        " · ".join(header),
        f"*{title}*\n\n{fenced(reveal(context))}" if context else "",
        *map(_remark, run.notes),
        *(_plan(run) if run.plan else ()),
        *_steps(run),
        _ending(run),
        _remark(" · ".join(facts.footer(run))),
    ]
    return _joined(parts)


def _steps(run: Run) -> list[str]:
    answer = wording.answering(run)
    drawn = [_step(run, i, is_answer=step is answer) for i, step in enumerate(run.steps)]
    place = run.steps.index(answer) if answer else len(drawn)
    todos = "\n".join(f"- {literal(line)}" for line in checklist.lines(run.todos))
    return [*drawn[:place], todos, *drawn[place:]]


def _plan(run: Run) -> list[str]:
    """The plan with all its arguments, how far it is, and how it is decided on."""
    parts = [f"**{literal(plans.goal(run))}**", literal(plans.title(run))]
    for number, (step, state) in enumerate(zip(run.plan, progress(run), strict=True), 1):
        name, note = literal(reveal(step.call.name)), _remark(" ".join(plans.note_lines(step)))
        line = [f"**{number}. {wording.GLYPHS[state]} {name}**", plans.left_out(run, state), note]
        arguments = wording.arguments_text(step.call)
        parts.append(" ".join(part for part in line if part))
        parts += [fenced(arguments)] if arguments else []
        parts.append(_remark(step.call.parse_error or ""))
    return [*parts, _remark(plans.waits(run))]


def _step(run: Run, index: int, *, is_answer: bool) -> str:
    step = run.steps[index]
    message = step.message
    thinking = message.thinking if message else ""
    title = wording.thinking_title(step.thinking_seconds)
    blocks = message.content if message else ()
    parts = [
        _remark(wording.lead_in(run, index)),
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
        _tool_title(execution, run),
        *(fenced(text, language) for text, language in zip(texts, languages, strict=False)),
        *map(_remark, decisions.remarks(execution, run)),
        "" if result is None or told else _said(result),
        *(_media(execution.result, execution.call.name) if execution.result else ()),
    ]
    return _joined(parts)


def _tool_title(execution: ToolExecution, run: Run) -> str:
    arguments, mark = wording.summary(execution), decisions.mark(execution, run)
    line, verdict = wording.outcome_line(execution), decisions.verdict(execution)
    parts = [
        f"**{wording.glyph(execution)} {literal(reveal(execution.call.name))}**",
        f"*{mark}*" if mark else "",
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
        _remark(wording.variables_text(result)),
    ]
    return _joined(parts)


def _media(result: ToolResult, name: str) -> list[str]:
    return [
        _image(item, name) if isinstance(item, ImageContent) else _display(item)
        for item in wording.media(result)
    ]


def _display(display: Display) -> str:
    mime = wording.richest(display)
    if mime == "text/markdown":
        return safe_markdown(display.data[mime])
    if mime.startswith("image/"):
        return _image(ImageContent(media_type=mime, data=display.data[mime]), "a display")
    plain = display.data.get("text/plain", "")
    return fenced(clean_output(plain), "text") if plain else _remark(wording.unshown(display))


def _image(image: ImageContent, origin: str) -> str:
    url = image_source(image)
    return (
        f"![Figure from {literal(reveal(origin))}]({url})"
        if url
        else _remark(wording.not_drawn(image))
    )


def _ending(run: Run) -> str:
    what, _, more = wording.ending(run).strip().partition("\n")
    title = f"**✗ {literal(clean_output(what))}**" if run.error else _remark(what)
    return f"> {title} {literal(clean_output(more))}".rstrip() if what else ""


def _remark(text: str) -> str:
    return f"*{literal(reveal(text)).strip()}*" if text.strip() else ""


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)
