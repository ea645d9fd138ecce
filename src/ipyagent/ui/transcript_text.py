"""Texts for views without folds and buttons: a call's line, and what it has no room for."""

from __future__ import annotations

from collections.abc import Iterable

from ipyagent.ui.formatting import shorten
from ipyagent.ui.reveal import reveal, reveal_diff
from ipyagent.ui.transcript import (
    Argument,
    Call,
    CallRequest,
    Display,
    Effects,
    Footer,
    Header,
    Image,
    Plan,
    Question,
    UserText,
)

_DRAWN = ("image/png", "image/jpeg", "text/html", "text/markdown", "text/plain")


def header_parts(header: Header) -> list[str]:
    """Return the parts of the first line, after the product's name."""
    parts = [header.model, header.state_text, *header.facts, header.duration]
    return [part for part in parts if part]


def footer_text(footer: Footer) -> str:
    """Return the last line."""
    trace = f"trace {footer.trace_id}" if footer.trace_id else ""
    return join_facts([*footer.facts, trace])


def plan_title(plan: Plan) -> str:
    """Return the length of a plan, and the hash that identifies it."""
    return join_facts([plan.title, f"hash {plan.hash}" if plan.hash else ""])


def user_text(text: UserText) -> str:
    """Return what the user said, after what became of it."""
    return f"{text.label}: {reveal(text.text)}"


def summary_line(call: Call) -> str:
    """Return the summary, cut to fit a line of text."""
    return shorten(call.summary)


def outcome_line(call: Call) -> str:
    """Return the outcome, cut to fit a line of text."""
    return shorten(call.outcome)


def texts_beside_line(call: Call) -> list[str]:
    """Return the output and the error that the outcome line cuts."""
    result = call.result
    texts = [text for text in (result.error, result.output) if text] if result else []
    return [] if [*map(reveal, texts)] in ([], [outcome_line(call)]) else texts


def request_texts(call: Call) -> list[str]:
    """Return the call in full: its preview, and the arguments that this does not show."""
    if call.question:
        return [question_text(call.question)]
    preview = call.request.preview
    preview_text = "" if preview is None else _preview_text(preview.kind, preview.text)
    return [text for text in (preview_text, arguments_text(call.request)) if text]


def request_is_in_line(call: Call) -> bool:
    """Return whether the line of the call shows its full request."""
    values = [argument.value for argument in call.request.shown]
    in_line = values in ([], [summary_line(call)])
    return call.request.preview is None and call.question is None and in_line


def effects_text(effects: Effects) -> str:
    """Return what a call would change, line by line, with diffs and what was put out."""
    lines = [reveal(effects.title)]
    for each in effects.lines:
        change = "" if each.change == "other" else f"{each.change} "
        lines.append(f"  {change}{each.text}")
        lines += (f"    {line}" for line in reveal_diff(each.diff).splitlines())
    if effects.shown:
        text = effects.shown.output or effects.shown.error
        lines += [f"  {effects.shown_title}", *(f"    {line}" for line in reveal(text).split("\n"))]
    return "\n".join(lines).rstrip()


def question_text(question: Question) -> str:
    """Return a question with its answers to pick from, numbered."""
    choices = (" ".join(reveal(choice).split()) for choice in question.choices)
    lines = [f"  {number}  {choice}" for number, choice in enumerate(choices, 1)]
    return "\n".join([reveal(question.text), *lines])


def arguments_text(request: CallRequest) -> str:
    """Return the arguments, one a line; several lines are indented below their name."""
    return "\n".join(map(_named_value, request.shown))


def image_text(image: Image) -> str:
    """Return the text for an image where none can be drawn."""
    size = f" {image.width}×{image.height}" if image.width and image.height else ""  # noqa: RUF001
    return f"[image{size}]"


def refused_image_text(image: Image) -> str:
    """Return the text for an image of a type that a page may not draw."""
    return f"[image not shown: {shorten(image.media_type)}]"


def unknown_display_text(display: Display) -> str:
    """Return the text for a display of a type that cannot be drawn."""
    return f"[output of type {shorten(', '.join(display.data)) or 'nothing'}]"


def richest(display: Display) -> str:
    """Return the MIME type in which a display is drawn."""
    return next((mime for mime in _DRAWN if mime in display.data), "")


def join_facts(facts: Iterable[str]) -> str:
    """Return facts in one line."""
    return " · ".join(fact for fact in facts if fact)


def _preview_text(kind: str, text: str) -> str:
    return reveal_diff(text) if kind == "diff" else reveal(text)


def _named_value(argument: Argument) -> str:
    """Return a name and its value; no line of a value can be taken for another argument."""
    name = reveal(argument.name).replace("\n", "⟨U+000A⟩")
    lines = reveal(argument.value).split("\n")
    rows = [""] + [f"    {line}" for line in lines] if len(lines) > 1 else [f" {lines[0]}"]
    return f"{name}:" + "\n".join(rows)
