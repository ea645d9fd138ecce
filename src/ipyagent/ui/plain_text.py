"""A run as text, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ipyagent.phrases import plural
from ipyagent.plaintext import reveal_prose, strip_escapes, visible
from ipyagent.schema import ToolStatus
from ipyagent.ui import transcript_text as words
from ipyagent.ui.reveal import clean_output, clip_output, reveal
from ipyagent.ui.transcribe.call import OPEN
from ipyagent.ui.transcript import Call, Fold, Image, Media, Step, Todo, Transcript, UserText
from ipyagent.ui.transcript_text import approval_text, call_body, call_text, plan_text

SUMMARY = 1_000
"""Characters of an answer that its summary has."""

_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}
_COLORS = {
    ToolStatus.SUCCESS: "green",
    ToolStatus.FAILED: "red",
    ToolStatus.DENIED: "yellow",
    ToolStatus.CANCELLED: "yellow",
    ToolStatus.UNKNOWN: "yellow",
}
_BEGUN = {
    ToolStatus.RUNNING,
    ToolStatus.SUCCESS,
    ToolStatus.FAILED,
    ToolStatus.CANCELLED,
    ToolStatus.UNKNOWN,
}


class TextPrinter:
    """Writes the blocks of a transcript, without escapes but its own."""

    def __init__(self, write: Callable[[str], object], *, color: bool) -> None:
        self.write, self.color = write, color
        self._at_line_start = True

    def print_head(self, transcript: Transcript) -> None:
        """Write the part before the first step."""
        header = transcript.header
        self.line(words.join_facts(["ipyagent", header.model, header.badge]), "bold")
        for fold in transcript.footer.folds:
            size = plural(len(fold.text.splitlines()), "line")
            self.line(f"{fold.title.lower()}: {size} of context", "dim")
            self.write_indented(reveal(fold.text) if fold.is_open else "")
        for note in transcript.notes:
            self.line(reveal(note), "yellow")

    def print_step(self, step: Step, index: int) -> None:
        """Write a finished step; `index` is the position of its first call in the run."""
        self.print_user_texts(step.user_texts)
        for note in step.notes:
            self.line(reveal(note), "dim")
        if step.thinking:
            self.print_thinking(step.thinking)
        self.line(prose(step.text).strip("\n"))
        for place, call in enumerate(step.calls, index):
            self.print_question(call)
            self.print_decision(call)
            self.print_running(call)
            if call.status is not ToolStatus.AWAITING_APPROVAL:
                self.print_call(call, place)
        self.line(step.facts, "dim")

    def print_user_texts(self, texts: Iterable[UserText]) -> None:
        """Write what the user added while the run was on."""
        for text in texts:
            self.line(words.user_text(text), "bold")

    def print_thinking(self, thinking: Fold) -> None:
        """Write the heading of thinking, and the thinking if it is expanded."""
        self.line(thinking.title, "dim")
        self.write_indented(prose(thinking.text).strip("\n") if thinking.is_open else "")

    def print_question(self, call: Call) -> None:
        """Write in full the call that the user was asked about."""
        if call.was_asked:
            self.line(approval_text(call, color=self.color))

    def print_decision(self, call: Call) -> None:
        """Write that the user approved."""
        if call.was_asked and not call.question and call.status in _BEGUN:
            self.line(f"  {call.decision}", "bold")

    def print_running(self, call: Call) -> None:
        """Write a running call: in full if it may change something and nobody was asked."""
        if call.status not in _BEGUN or call.is_dry:
            return
        if call.position:
            self.line(f"▶ {call.position} {reveal(call.name)}", "dim")
        elif call.is_sensitive and not call.was_asked:
            why = f", {call.decision}" if call.decision else ""
            self.line(call_text(f"▶ {reveal(call.name)} runs{why}", call, color=self.color))

    def print_call(self, call: Call, index: int) -> None:
        """Write the line and result of a finished call; `index` is its position."""
        texts = words.texts_beside_line(call)
        self.line(self.call_line(call, "" if texts else words.outcome_line(call)))
        if call.is_open and not (call.was_asked or call.is_sensitive):
            self.line(call_body(call, color=self.color))
        for text in texts:
            self.write_indented(
                clip_output(visible(text), f"in ipyagent.last.results[{index}].output")
            )
        for media in call.result.media if call.result else ():
            self._print_media(media, call)
        for fact in call.facts:
            self.line(f"  {fact}", "dim")
        if call.result and (fold := call.result.for_model):
            where = f"ipyagent.last.results[{index}].for_model"
            self.line(f"  {fold.title}: {where}", "dim")

    def print_todos(self, todos: Iterable[Todo]) -> None:
        """Write the checklist."""
        self.line("\n".join(f"  {todo.glyph} {reveal(todo.text)}" for todo in todos))

    def print_end(self, transcript: Transcript) -> None:
        """Write the ending."""
        header, ending, footer = transcript.header, transcript.ending, transcript.footer
        color = {"done": "green", "failed": "red"}.get(header.state, "yellow")
        parts = [*words.header_parts(header)[1:], *words.usage_parts(footer)]
        self.line(words.join_facts(parts), color)
        if ending:
            text = "\n".join(text for text in (ending.title, ending.text) if text)
            self.line(clean_output(text), color)
        if transcript.verbose >= OPEN:
            self.line(words.trace_text(footer), "dim")

    def line(self, text: str, style: str = "") -> None:
        """Write text on lines of its own."""
        if not self._at_line_start:
            self.put("\n")
        if text:
            self.put(text, style)
            self.put("\n")

    def write_indented(self, text: str) -> None:
        """Write indented text on lines of its own."""
        for line in text.split("\n") if text else ():
            self.line(f"  {line}".rstrip(), "dim")

    def put(self, text: str, style: str = "") -> None:
        """Write text without a line break before it."""
        if text:
            self.write(self.paint(text, style))
            self._at_line_start = text.endswith("\n")

    def paint(self, text: str, style: str) -> str:
        """Return the text in a style, if there are colors."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and style and text else text

    def _print_media(self, media: Media, call: Call) -> None:
        if isinstance(media, Image):
            self.line(f"  {words.image_text(media)}")
        else:
            plain = clean_output(media.data.get("text/plain", "")).strip("\n")
            self.write_indented(plain if plain != words.outcome_line(call) else "")

    def call_line(self, call: Call, outcome: str) -> str:
        """Return the line of a call, with the first line of its outcome."""
        glyph = self.paint(call.glyph, "dim" if call.is_dry else _COLORS.get(call.status, ""))
        parts = [
            f"{glyph} {self.paint(reveal(call.name), 'bold')}",
            f"[{call.badge}]" if call.badge else "",
            words.summary_line(call),
            f"→ {outcome}" if outcome else "",
            "" if _is_decision_above(call) else call.verdict,
            self.paint(f" {call.duration}", "dim") if call.duration else "",
        ]
        return " ".join(part for part in parts if part)


def summarize(transcript: Transcript) -> str:
    """Return what was asked, done and answered in few lines; richer formats stand beside it."""
    header, ending, plan = transcript.header, transcript.ending, transcript.plan
    facts = [*words.header_parts(header), *words.usage_parts(transcript.footer)]
    printer = TextPrinter(str, color=False)
    calls = [call for step in transcript.steps for call in step.calls]
    answers = [step.text for step in transcript.steps if step.is_answer]
    said = [text for step in transcript.steps for text in step.user_texts]
    parts = [
        reveal(words.join_facts(["ipyagent", *facts, header.badge])),
        *map(reveal, transcript.notes),
        *([plan_text(plan), plan.hint] if plan and transcript.is_draft else []),
        *(printer.call_line(call, words.outcome_line(call)) for call in calls),
        *map(words.user_text, (*said, *transcript.unsent)),
        shorten_prose(prose(answers[-1]).strip("\n")) if answers else "",
        clean_output(f"{ending.title}\n{ending.text}".rstrip()) if ending else "",
    ]
    return "\n".join(part for part in parts if part)


def shorten_prose(text: str) -> str:
    """Return the beginning of a text that is long."""
    return text if len(text) <= SUMMARY else f"{text[:SUMMARY]}…"


def render(transcript: Transcript) -> str:
    """Return a run as text, as the terminal would have shown it."""
    parts: list[str] = []
    printer = TextPrinter(parts.append, color=False)
    printer.print_head(transcript)
    if transcript.plan:
        printer.line(plan_text(transcript.plan))
        printer.line(transcript.plan.hint, "yellow")
    calls = 0
    for place, step in enumerate(transcript.steps):
        if place == transcript.todos_at:
            printer.print_todos(transcript.todos)
        printer.print_step(step, calls)
        calls += len(step.calls)
    if transcript.todos_at == len(transcript.steps):
        printer.print_todos(transcript.todos)
    printer.print_user_texts(transcript.unsent)
    if transcript.is_over:
        printer.print_end(transcript)
    return "".join(parts).rstrip("\n")


def _is_decision_above(call: Call) -> bool:
    """Return whether the call and its decision were shown in full above its line."""
    was_shown = call.is_sensitive or call.was_asked
    return was_shown and call.status in _BEGUN and call.status is not ToolStatus.UNKNOWN


def prose(text: str) -> str:
    """Return a model's text with hidden characters made visible, except needed ones."""
    return reveal_prose(strip_escapes(text))
