"""A run as Markdown: the same order and words as the HTML, without any HTML."""

from __future__ import annotations

from collections.abc import Iterable

from ipyagent.ui import transcript_text as words
from ipyagent.ui.addresses import image_source
from ipyagent.ui.formatting import clean_output
from ipyagent.ui.markdown import block_quote, code, fence, literal, safe_markdown
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcript import (
    Call,
    Display,
    Ending,
    Fold,
    Image,
    Media,
    Plan,
    PlanStep,
    Step,
    Todo,
    Transcript,
    UserText,
)


def run_markdown(transcript: Transcript) -> str:
    """Return Markdown that is safe in renderers that allow HTML and remote images."""
    header, fold = transcript.header, transcript.context
    badge = [f"**{literal(header.badge)}**"] if header.badge else []
    parts = [
        " · ".join(["**ipyagent**", *map(literal, words.header_parts(header)), *badge]),
        f"*{fold.title}*\n\n{fence(reveal(fold.text))}" if fold else "",
        *map(_remark, transcript.notes),
        *(_plan(transcript.plan) if transcript.plan else ()),
        *_steps(transcript),
        _ending(transcript.ending) if transcript.ending else "",
        _remark(words.footer_text(transcript.footer)),
        *map(_user_text, transcript.unsent),
    ]
    return _join_markdown(parts)


def _steps(transcript: Transcript) -> list[str]:
    blocks, place = [_step(step) for step in transcript.steps], transcript.todos_at
    return [*blocks[:place], _todos(transcript.todos), *blocks[place:]]


def _todos(todos: Iterable[Todo]) -> str:
    return "\n".join(f"- {literal(reveal(f'{todo.glyph} {todo.text}'))}" for todo in todos)


def _plan(plan: Plan) -> list[str]:
    """Return the plan with all arguments, its progress, and how to decide on it."""
    steps = [part for number, step in enumerate(plan.steps, 1) for part in _plan_step(number, step)]
    goal, title = f"**{literal(plan.goal)}**", literal(words.plan_title(plan))
    return [goal, title, *steps, _remark(plan.hint)]


def _plan_step(number: int, step: PlanStep) -> list[str]:
    name, note = literal(reveal(step.name)), _remark(" ".join(step.notes))
    line = [f"**{number}. {step.glyph} {name}**", step.verdict, note]
    arguments = words.arguments_text(step.request)
    return [
        " ".join(part for part in line if part),
        fence(arguments) if arguments else "",
        _remark(step.request.parse_error),
    ]


def _step(step: Step) -> str:
    parts = [
        *map(_user_text, step.user_texts),
        *map(_remark, step.notes),
        _thinking(step.thinking) if step.thinking else "",
        "___" if step.is_answer and step.number > 1 else "",
        safe_markdown(step.text),
        *map(_media, step.images),
        *map(_call, step.calls),
        _remark(step.facts),
    ]
    return _join_markdown(parts)


def _user_text(text: UserText) -> str:
    return f"> {literal(words.user_text(text))}"


def _thinking(thinking: Fold) -> str:
    return f"*{thinking.title}*\n\n{block_quote(thinking.text)}"


def _call(call: Call) -> str:
    texts = [] if words.request_is_in_line(call) else words.request_texts(call)
    preview = call.request.preview
    languages = [preview.language if preview else "", ""]
    parts = [
        _call_line(call),
        *(fence(text, language) for text, language in zip(texts, languages, strict=False)),
        *([fence(words.effects_text(call.effects))] if call.effects else []),
        *map(_remark, [call.concern, *call.remarks, call.request.parse_error]),
        *(fence(reveal(text), "text") for text in words.texts_beside_line(call)),
        *map(_remark, call.facts),
        *map(_media, call.result.media if call.result else ()),
        *_for_model(call.result.for_model if call.result else None),
    ]
    return _join_markdown(parts)


def _for_model(text: Fold | None) -> list[str]:
    return [_remark(text.title), fence(reveal(text.text), "text")] if text else []


def _call_line(call: Call) -> str:
    summary, outcome = words.summary_line(call), words.outcome_line(call)
    parts = [
        f"**{call.glyph} {literal(reveal(call.name))}**",
        f"*{call.badge}*" if call.badge else "",
        code(summary) if summary else "",
        f"→ {literal(outcome)}" if outcome else "",
        _remark(call.verdict),
        f"({call.duration})" if call.duration else "",
    ]
    return " ".join(part for part in parts if part)


def _media(media: Media) -> str:
    return _image(media) if isinstance(media, Image) else _display(media)


def _display(display: Display) -> str:
    mime = words.richest(display)
    if mime == "text/markdown":
        return safe_markdown(display.data[mime])
    if mime.startswith("image/"):
        return _image(Image(media_type=mime, data=display.data[mime], label=display.label))
    plain = display.data.get("text/plain", "")
    return (
        fence(clean_output(plain), "text")
        if plain
        else _remark(words.unknown_display_text(display))
    )


def _image(image: Image) -> str:
    url = image_source(image)
    return (
        f"![{literal(reveal(image.label))}]({url})"
        if url
        else _remark(words.refused_image_text(image))
    )


def _ending(ending: Ending) -> str:
    is_error = ending.tone == "error"
    title = f"**✗ {literal(clean_output(ending.title))}**" if is_error else _remark(ending.title)
    return f"> {title} {literal(clean_output(ending.text))}".rstrip()


def _remark(text: str) -> str:
    return f"*{literal(reveal(text)).strip()}*" if text.strip() else ""


def _join_markdown(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part)
