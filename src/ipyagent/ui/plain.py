"""A run as text: as it happens for terminals and scripts, at the end for notebooks."""

from __future__ import annotations

import time
from collections.abc import Callable

from ipyagent.plaintext import strip_escapes
from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    Decision,
    Event,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Notice,
    RetryScheduled,
    Run,
    RunFinished,
    RunStarted,
    ToolExecution,
    ToolFinished,
    ToolRunning,
    ToolStatus,
    fold,
)
from ipyagent.ui import wording
from ipyagent.ui.format import plural, seconds, shown
from ipyagent.ui.replay import replayed

MAX_CHARS, MAX_LINES = 5_000, 40

_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}
_COLORS = {
    ToolStatus.SUCCESS: "green",
    ToolStatus.FAILED: "red",
    ToolStatus.DENIED: "yellow",
    ToolStatus.CANCELLED: "yellow",
}


class PlainView:
    """A listener that writes a run as it happens. What it writes holds no escapes but its own."""

    def __init__(self, write: Callable[[str], object], *, color: bool) -> None:
        self.write, self.color = write, color
        self.run: Run | None = None
        self._shown: set[str] = set()
        self._kind = ""
        self._thinking_since = 0.0
        self._filter = EscapeFilter()
        self._at_line_start = True

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.run = run = fold(self.run, event)
        match event:
            case RunStarted():
                self._begin(run)
            case MessageStarted():
                self._shown.clear()
                self._close_text()
            case MessageDelta(kind=kind, text=text):
                self._stream(kind, text)
            case MessageFinished():
                self._end_message(event)
            case RetryScheduled():
                self._close_text()
                self._line(shown(run.steps[-1].notes[-1]), "yellow")
            case ApprovalRequested(call_id=call_id):
                self._shown.add(call_id)
                self._line(approval_text(_called(run, call_id), color=self.color))
            case ApprovalDecided(call_id=call_id, decision=Decision.APPROVED):
                if call_id in self._shown:
                    self._line("  " + wording.decision_text(_called(run, call_id)), "bold")
            case ToolRunning(call_id=call_id):
                self._running(_called(run, call_id))
            case ToolFinished(execution=execution):
                self._tool(execution)
            case Notice(text=text):
                self._line(shown(text), "yellow")
            case RunFinished():
                self._end(run)

    def _begin(self, run: Run) -> None:
        parts = ["ipyagent", wording.model_name(run), wording.badge(run)]
        self._line(" · ".join(part for part in parts if part), "bold")
        if run.context:
            size = plural(len(run.context.splitlines()), "line")
            self._line(f"sent with your prompt: {size} of context", "dim")
        for note in run.notes:
            self._line(shown(note), "yellow")

    def _stream(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self._close_text()
            self._kind = kind
            if kind == "thinking":
                self._thinking_since = time.monotonic()
                self._put("Thinking…" + ("\n" if self.color else ""), "dim")
        text = self._filter.feed(text)
        if kind == "text":
            self._put(text)
        elif self.color:
            self._put(text, "dim")

    def _close_text(self) -> None:
        """End what streams: the text, or the thinking with the time it took."""
        rest = self._filter.flush()
        if self._kind == "text":
            self._put(rest)
        elif self._kind == "thinking":
            took = wording.thinking_title(time.monotonic() - self._thinking_since)
            self._put(rest if self.color else took.removeprefix("Thinking"), "dim")
        self._kind = ""
        self._line("")

    def _end_message(self, event: MessageFinished) -> None:
        streamed = bool(self._kind)
        self._close_text()
        if streamed:
            return
        if event.message.thinking.strip():
            self._line(wording.thinking_title(event.thinking_seconds), "dim")
        self._line(strip_escapes(event.message.text).strip("\n"))

    def _running(self, execution: ToolExecution) -> None:
        """What changes something is shown in full before it runs, also where nobody was asked."""
        if execution.sensitive and execution.call.id not in self._shown:
            why = wording.decision_text(execution, self.run.confirm_mode if self.run else "")
            head = f"▶ {shown(execution.call.name)} runs" + (f", {why}" if why else "")
            self._line(_call_text(head, execution, color=self.color))

    def _tool(self, execution: ToolExecution) -> None:
        line, result = wording.outcome_line(execution), wording.new_result(execution)
        said = [wording.output_text(result), wording.more_output(result)] if result else []
        fits = said in ([], [line, ""])
        self._line(self._tool_line(execution, line if fits else ""))
        for text in [] if fits else said:
            where = f"in ipyagent.last.results[{self._index(execution)}].output"
            self._block(text, where)
        for image in result.images if result else ():
            self._line(f"  {wording.image_text(image)}")

    def _index(self, execution: ToolExecution) -> int:
        """The place of a call's result; calls that run beside each other end in any order."""
        ids = [each.call.id for each in self.run.executions] if self.run else []
        # The last one: some services number the calls of every reply from zero.
        return len(ids) - 1 - ids[::-1].index(execution.call.id)

    def _tool_line(self, execution: ToolExecution, line: str = "") -> str:
        glyph = self._painted(wording.GLYPHS[execution.status], _COLORS.get(execution.status, ""))
        duration = execution.duration
        parts = [
            f"{glyph} {self._painted(shown(execution.call.name), 'bold')}",
            wording.argument_summary(execution.call),
            f"→ {line}" if line else "",
            wording.decision_text(execution) if execution.status is ToolStatus.DENIED else "",
            self._painted(f" {seconds(duration)}", "dim") if duration is not None else "",
        ]
        return " ".join(part for part in parts if part)

    def _block(self, text: str, where: str) -> None:
        for line in clipped(text, where).split("\n") if text else ():
            self._line(f"  {line}".rstrip(), "dim")

    def _end(self, run: Run) -> None:
        self._close_text()
        state, (_, *parts) = wording.state_of(run), wording.header(run)
        color = {"done": "green", "failed": "red"}.get(state, "yellow")
        self._line(" · ".join(parts), color)
        if text := wording.ending(run):
            self._line(shown(text), color)

    def _line(self, text: str, style: str = "") -> None:
        """Text on lines of its own."""
        if not self._at_line_start:
            self._put("\n")
        if text:
            self._put(text, style)
            self._put("\n")

    def _put(self, text: str, style: str = "") -> None:
        if text:
            self.write(self._painted(text, style))
            self._at_line_start = text.endswith("\n")

    def _painted(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and style and text else text


class EscapeFilter:
    """Strips terminal escapes from text that comes in pieces, also those that are cut in two."""

    _INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
    _MAX_HELD = 4_096  # nothing honest is longer, and what is held back is not seen

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now; the beginning of a sequence is held back until it is whole."""
        text = self._held + piece.replace("\r", "")
        cut = len(text)
        while cut > 0 and not _whole(text[:cut]):
            cut = max(text.rfind(char, 0, cut) for char in self._INTRODUCERS)
        if len(text) - cut > self._MAX_HELD:
            cut = len(text)
        self._held = text[cut:]
        return strip_escapes(text[:cut])

    def flush(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return strip_escapes(held)


def _whole(text: str) -> bool:
    """Whether no sequence is open at the end: it would swallow what comes next."""
    return strip_escapes(text + "~") == strip_escapes(text) + "~"


def render(run: Run) -> str:
    """A run as text, as the terminal would have shown it."""
    parts: list[str] = []
    view = PlainView(parts.append, color=False)
    for event in replayed(run):
        view(event)
    return "".join(parts).rstrip("\n")


def approval_text(execution: ToolExecution, *, color: bool) -> str:
    """The call that a person is asked about, in full."""
    return _call_text(f"? {shown(execution.call.name)} wants to run", execution, color=color)


def _call_text(head: str, execution: ToolExecution, *, color: bool) -> str:
    texts, preview = wording.call_texts(execution), wording.drawn_preview(execution)
    if color and preview:
        language = "diff" if preview.kind == "diff" else preview.language
        texts[0] = _highlighted(texts[0].rstrip("\n"), language)
    text = "\n".join(text.rstrip("\n") for text in texts)
    body = "".join(f"\n  │ {line}" for line in text.split("\n")) if text else ""
    return f"{head}{':' if body else ''}{body}"


def clipped(text: str, where: str) -> str:
    """Text cut to what a terminal should show at once, saying how much more there is and where."""
    kept = "\n".join(text[:MAX_CHARS].split("\n")[:MAX_LINES])
    if kept == text:
        return text
    rest = text[len(kept) :]
    lines = rest.count("\n")
    more = plural(lines, "more line") if lines else f"{len(rest):,} more characters"
    return f"{kept}\n… {more}; the full text is {where}"


def _highlighted(code: str, language: str) -> str:
    from pygments import formatters, highlight, lexers, util

    try:
        lexer = lexers.get_lexer_by_name(language, stripnl=False)
    except util.ClassNotFound:
        return code
    return str(highlight(code, lexer, formatters.TerminalFormatter())).rstrip("\n")


def _called(run: Run, call_id: str) -> ToolExecution:
    return next(e for e in run.steps[-1].executions if e.call.id == call_id)
