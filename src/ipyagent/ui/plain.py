"""A run as text: as it happens for terminals and scripts, at the end for notebooks."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from ipyagent.plaintext import reveal_prose, strip_escapes
from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    Compacted,
    Decision,
    Event,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Notice,
    PlanProposed,
    PlanStep,
    RetryScheduled,
    Run,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Todo,
    ToolExecution,
    ToolFinished,
    ToolRunning,
    ToolStatus,
    fold,
)
from ipyagent.schema.progress import place
from ipyagent.schema.replayed import events_of
from ipyagent.ui import checklist, decisions, facts, plans, wording
from ipyagent.ui.calls import approval_text, call_body, call_text, plan_text
from ipyagent.ui.escapes import ProseFilter
from ipyagent.ui.format import clean_output, clipped, plural, seconds
from ipyagent.ui.reveal import reveal
from ipyagent.ui.secrets import drawn, without_secrets

_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}
_COLORS = {
    ToolStatus.SUCCESS: "green",
    ToolStatus.FAILED: "red",
    ToolStatus.DENIED: "yellow",
    ToolStatus.CANCELLED: "yellow",
    ToolStatus.UNKNOWN: "yellow",
}
_TOLD = {ToolStatus.DENIED, ToolStatus.UNKNOWN}


class PlainView:
    """A listener that writes a run as it happens. What it writes holds no escapes but its own."""

    def __init__(self, write: Callable[[str], object], *, color: bool) -> None:
        self.write, self.color = write, color
        self.run: Run | None = None
        self._shown: set[str] = set()
        self._begun: str | None = None
        self._plan: tuple[PlanStep, ...] = ()
        self._todos: tuple[Todo, ...] = ()
        self._kind = ""
        self._thinking_since = 0.0
        self._filter = ProseFilter()
        self._at_line_start = True
        self._countdown: asyncio.TimerHandle | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.run = run = fold(self.run, event)
        self._end_countdown()
        match event:
            case PlanProposed():
                self._begin(run)
                self._line(plan_text(run))
                self._plan = run.plan
            case RunStarted():
                self._begin(run)
                if run.plan != self._plan:
                    self._line(plan_text(without_secrets(run)))
            case StepStarted():
                self._shown.clear()
                self._line(wording.lead_in(run, len(run.steps) - 1), "dim")
            case Compacted():
                self._line(reveal(run.steps[-1].notes[-1]), "dim")
            case RetryScheduled():
                self._close_text()
                self._line(reveal(run.steps[-1].notes[-1]), "yellow")
                if self.color:
                    self._count_down(time.monotonic() + event.delay)
            case StepFinished():
                self._line(facts.step_facts(run.steps[-1], run.verbose), "dim")
            case Notice(text=text):
                self._line(reveal(text), "yellow")
            case RunFinished():
                self._end(run)
            case MessageStarted() | MessageDelta() | MessageFinished():
                self._message(event)
            case _:
                self._call(event, run)

    def _message(self, event: MessageStarted | MessageDelta | MessageFinished) -> None:
        match event:
            case MessageStarted():
                self._close_text()
            case MessageDelta(kind=kind, text=text):
                self._stream(kind, text)
            case MessageFinished():
                self._end_message(event)

    def _call(self, event: Event, run: Run) -> None:
        match event:
            case ApprovalRequested(call_id=call_id):
                self._shown.add(call_id)
                self._line(approval_text(_called(run, call_id), color=self.color))
            case ApprovalDecided(call_id=call_id, decision=Decision.APPROVED):
                execution = _called(run, call_id)
                if call_id in self._shown and not execution.question:
                    self._line("  " + decisions.decision_text(execution), "bold")
            case ToolRunning(call_id=call_id):
                self._running(_called(run, call_id), run)
            case ToolFinished(execution=execution):
                self._tool(execution, run)
                self._checklist(run.todos)

    def leave(self) -> None:
        """The plan goes on waiting: say how it is decided on later."""
        if self.run is not None:
            self._line(plans.waits(self.run), "yellow")

    def _begin(self, run: Run) -> None:
        if self._begun == run.id:
            return
        self._begun = run.id
        parts = ["ipyagent", wording.model_name(run), wording.badge(run)]
        self._line(" · ".join(part for part in parts if part), "bold")
        title, context = plans.context(run)
        if context:
            size = plural(len(context.splitlines()), "line")
            self._line(f"{title.lower()}: {size} of context", "dim")
            if run.verbose >= facts.COUNTED:
                self._indented(reveal(context))
        for note in run.notes:
            self._line(reveal(note), "yellow")

    def _stream(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self._close_text()
            self._kind = kind
            if kind == "thinking":
                self._thinking_since = time.monotonic()
                self._put("Thinking…" + ("\n" if self._shows_thinking else ""), "dim")
        text = self._filter.feed(text)
        if kind == "text":
            self._put(text)
        elif self._shows_thinking:
            self._put(text, "dim")

    @property
    def _verbose(self) -> int:
        return self.run.verbose if self.run else 0

    @property
    def _shows_thinking(self) -> bool:
        return self.color or self._verbose >= facts.OPEN

    def _close_text(self) -> None:
        """End what streams: the text, or the thinking with the time it took."""
        rest = self._filter.flush()
        if self._kind == "text":
            self._put(rest)
        elif self._kind == "thinking":
            took = wording.thinking_title(time.monotonic() - self._thinking_since)
            self._put(rest if self._shows_thinking else took.removeprefix("Thinking"), "dim")
        self._kind = ""
        self._line("")

    def _end_message(self, event: MessageFinished) -> None:
        streamed = bool(self._kind)
        self._close_text()
        if streamed or event.message is None:
            return
        if event.message.thinking.strip():
            self._line(wording.thinking_title(event.thinking_seconds), "dim")
            if self._verbose >= facts.OPEN:
                self._indented(_prose(event.message.thinking).strip("\n"))
        self._line(_prose(event.message.text).strip("\n"))

    def _running(self, execution: ToolExecution, run: Run) -> None:
        """What changes something is shown in full before it runs, also where nobody was asked."""
        execution, name = drawn(execution), reveal(execution.call.name)
        if (step := place(run, execution.call.id)) is not None:
            self._line(f"▶ step {step + 1}/{len(run.plan)} {name}", "dim")
        elif execution.sensitive and execution.call.id not in self._shown:
            self._shown.add(execution.call.id)
            why = decisions.decision_text(execution, run.confirm_mode)
            head = f"▶ {name} runs" + (f", {why}" if why else "")
            self._line(call_text(head, execution, color=self.color))

    def _checklist(self, todos: tuple[Todo, ...]) -> None:
        if todos != self._todos:
            self._todos = todos
            self._line("\n".join(f"  {line}" for line in checklist.lines(todos)))

    def _tool(self, execution: ToolExecution, run: Run) -> None:
        execution = drawn(execution)
        line, result = wording.outcome_line(execution), wording.new_result(execution)
        said = [wording.output_text(result), wording.more_output(result)] if result else []
        listed = bool(result and result.success and checklist.summary(execution))
        fits = listed or said in ([], [line, ""])
        self._line(self._tool_line(execution, line if fits else ""))
        shows = self._verbose >= facts.OPEN or decisions.mark(execution, run) == decisions.DRY_RUN
        if shows and execution.call.id not in self._shown:
            self._line(call_body(execution, color=self.color))
        for text in [] if fits else said:
            where = f"in ipyagent.last.results[{self._index(execution)}].output"
            self._indented(clipped(text, where))
        for image in result.images if result else ():
            self._line(f"  {wording.image_text(image)}")
        if touched := wording.variables_text(result) if result else "":
            self._line(f"  {touched}", "dim")
        if known := facts.call_facts(execution, self._verbose):
            self._line(f"  {known}", "dim")

    def _index(self, execution: ToolExecution) -> int:
        """The place of a call's result; calls that run beside each other end in any order."""
        ids = [each.call.id for each in self.run.executions] if self.run else []
        # The last one: some services number the calls of every reply from zero.
        return len(ids) - 1 - ids[::-1].index(execution.call.id)

    def _tool_line(self, execution: ToolExecution, line: str = "") -> str:
        glyph = self._painted(
            wording.glyph(execution),
            "dim" if execution.dry_run else _COLORS.get(execution.status, ""),
        )
        duration = execution.duration
        parts = [
            f"{glyph} {self._painted(reveal(execution.call.name), 'bold')}",
            wording.summary(execution),
            f"→ {line}" if line else "",
            decisions.verdict(execution) if execution.status in _TOLD else "",
            self._painted(f" {seconds(duration)}", "dim") if duration is not None else "",
        ]
        return " ".join(part for part in parts if part)

    def _indented(self, text: str) -> None:
        for line in text.split("\n") if text else ():
            self._line(f"  {line}".rstrip(), "dim")

    def _count_down(self, until: float) -> None:
        """Keep a line that tells the seconds until then, until the next event."""
        left = math.ceil(until - time.monotonic())
        if left > 0:
            self.write(f"\r\x1b[K{self._painted(f'  trying again in {left} s', 'dim')}")
            later = asyncio.get_running_loop().call_later
            self._countdown = later(1, self._count_down, until)

    def _end_countdown(self) -> None:
        if self._countdown is not None:
            self._countdown.cancel()
            self._countdown = None
            self.write("\r\x1b[K")

    def _end(self, run: Run) -> None:
        self._close_text()
        state, (_, *parts) = wording.state_of(run), wording.header(run)
        color = {"done": "green", "failed": "red"}.get(state, "yellow")
        self._line(" · ".join(parts), color)
        if text := wording.ending(run):
            self._line(clean_output(text), color)
        if run.verbose >= facts.OPEN:
            self._line(" · ".join(facts.footer(run)), "dim")

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


def render(run: Run) -> str:
    """A run as text, as the terminal would have shown it."""
    parts: list[str] = []
    view = PlainView(parts.append, color=False)
    for event in events_of(run):
        view(event)
    view.leave()
    return "".join(parts).rstrip("\n")


def _prose(text: str) -> str:
    return reveal_prose(strip_escapes(text))


def _called(run: Run, call_id: str) -> ToolExecution:
    return next(e for e in run.steps[-1].executions if e.call.id == call_id)
