"""A run as text while it happens, for terminals and scripts."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable

from ipyagent import schema
from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.shell import Frontend
from ipyagent.plaintext import plural, reveal_prose, strip_escapes, visible
from ipyagent.schema.events import Decisions
from ipyagent.ui.plain_text import TextPrinter, plan_effects_text, plan_text, prose, render, wrap
from ipyagent.ui.questions import InputAsker, choose_asker, print_approval
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcribe import transcribe, transcribe_todos
from ipyagent.ui.transcribe.call import COUNTED, OPEN, CallContext, is_tried, transcribe_call
from ipyagent.ui.transcribe.call_texts import mask_execution
from ipyagent.ui.transcribe.step import (
    SENT,
    lead_in,
    position_of,
    step_facts,
    thinking_title,
    transcribe_plan,
    transcribe_thinking,
    transcribe_unsent,
    transcribe_user_texts,
)
from ipyagent.ui.transcript import Call, Todo


class ProseFilter:
    """Strips terminal escapes from streaming prose, split ones too, and reveals what else hides."""

    _INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
    _MAX_HELD = 4_096  # no valid sequence is longer, and held-back text is invisible
    _CONTEXT = 40

    def __init__(self) -> None:
        self._held = self._before = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now; an incomplete sequence is held back."""
        text = self._held + piece.replace("\r", "")
        cut = len(text)
        while cut > 0 and not _whole(text[:cut]):
            cut = max(text.rfind(char, 0, cut) for char in self._INTRODUCERS)
        if len(text) - cut > self._MAX_HELD:
            cut = len(text)
        self._held = text[cut:]
        shown = strip_escapes(text[:cut])
        revealed = reveal_prose(shown, self._before)
        self._before = (self._before + shown)[-self._CONTEXT :]
        return revealed

    def flush(self) -> str:
        """Return the text held back, now that nothing follows."""
        rest = reveal_prose(strip_escapes(self._held), self._before)
        self._held = self._before = ""
        return rest


def _whole(text: str) -> bool:
    """Return whether no sequence is open at the end: it would swallow the next text."""
    return strip_escapes(text + "~") == strip_escapes(text) + "~"


class PlainView:
    """A listener that writes a run as it happens, without escapes but its own."""

    def __init__(self, write: Callable[[str], object], *, color: bool) -> None:
        self._out = TextPrinter(write, color=color)
        self._decisions = Decisions()
        self._begun: str | None = None
        self._plan: tuple[schema.PlanStep, ...] = ()
        self._todos: tuple[Todo, ...] = ()
        self._stream = _Stream(self._out)
        self._live = _LiveLines(self._out)

    def __call__(self, event: schema.Event, state: schema.RunState) -> None:
        """Show an event."""
        run, self._decisions = state.run, state.decisions
        self._live.erase()
        match event:
            case schema.PlanProposed() | schema.RunStarted():
                self._begin(run, is_draft=isinstance(event, schema.PlanProposed))
            case schema.PlanRehearsed():
                plan = transcribe_plan(run, is_whole=True)
                self._out.line(plan_effects_text(plan) if plan else "")
            case schema.PlanWaiting():
                plan = transcribe_plan(run)
                self._out.line(plan.hint if plan else "", "yellow")
            case schema.StepStarted():
                self._out.print_user_texts(transcribe_user_texts(run.steps[-1].user_texts, SENT))
                self._out.line(lead_in(run, len(run.steps) - 1), "dim")
            case schema.Compacted():
                self._out.line(reveal(run.steps[-1].notes[-1]), "dim")
            case schema.RetryScheduled():
                self._stream.end()
                self._out.line(reveal(run.steps[-1].notes[-1]), "yellow")
            case schema.StepFinished() if run.verbose >= COUNTED:
                self._out.line(step_facts(run.steps[-1], run.verbose), "dim")
            case schema.Notice(text=text):
                self._out.line(reveal(text), "yellow")
            case schema.UserTextsChanged():
                self._out.print_user_texts(transcribe_unsent(run))
            case schema.RunFinished():
                self._stream.end()
                self._out.print_user_texts(transcribe_unsent(run))
                self._out.line("\n".join(reveal(str(each)) for each in run.unmet), "yellow")
                self._out.print_end(transcribe(run))
            case schema.MessageStarted():
                self._stream.end()
            case schema.MessageDelta(kind="text" | "thinking" as kind, text=text):
                self._stream.add(kind, text, run.verbose)
            case schema.MessageFinished():
                self._end_message(event, run)
            case schema.ToolOutput():
                self._live.draw(state.outputs.values())
            case _:
                self._show_call(event, state)

    def _show_call(self, event: schema.Event, state: schema.RunState) -> None:
        run, asked = state.run, state.decisions.asked
        match event:
            case schema.MessageDelta() if self._out.color and state.open_message:
                self._stream.close()
                self._live.draw(map(_written_line, state.open_message.calls))
            case schema.ToolStarted(execution=execution) | schema.ToolEdited(execution=execution):
                if is_tried(execution):
                    line = TextPrinter(str, color=False).call_line(_call(run, execution), "")
                    self._live.draw([line])
            case schema.ApprovalRequested(call_id=call_id):
                self._out.print_question(_call(run, _find_call(run, call_id)))
            case schema.ApprovalDecided(call_id=call_id, decision=schema.Decision.APPROVED):
                call = _call(run, _find_call(run, call_id))
                if call_id in asked and not call.question:
                    self._out.line(f"  {call.decision}", "bold")
            case schema.ToolRunning(call_id=call_id):
                call = _call(run, _find_call(run, call_id), was_asked=call_id in asked)
                self._out.print_running(call)
            case schema.ToolFinished(execution=execution):
                call = _call(run, execution, was_asked=execution.call.id in asked)
                self._out.print_call(call, _index(run, execution))
                self._show_todos(transcribe_todos(state.totals))

    def _begin(self, run: schema.Run, *, is_draft: bool) -> None:
        if self._begun != run.id:
            self._begun = run.id
            self._out.print_head(transcribe(run))
        plan = transcribe_plan(run, is_whole=is_draft)
        if plan and run.plan != self._plan:
            self._out.line(plan_text(plan))
            self._plan = run.plan

    def _end_message(self, event: schema.MessageFinished, run: schema.Run) -> None:
        if self._stream.end() or event.message is None:
            return
        if thinking := transcribe_thinking(run.steps[-1], is_open=run.verbose >= OPEN):
            self._out.print_thinking(thinking)
        self._out.line(prose(event.message.text).strip("\n"))

    def _show_todos(self, todos: tuple[Todo, ...]) -> None:
        if todos != self._todos:
            self._todos = todos
            self._out.print_todos(todos)


class _Stream:
    """The streaming reply."""

    def __init__(self, out: TextPrinter) -> None:
        self._out = out
        self._filter = ProseFilter()
        self._kind = ""
        self._begun = 0.0
        self._shows_thinking = self._has_written = False

    def add(self, kind: str, text: str, verbose: int) -> None:
        """Write a piece; thinking only if it is dimmed or asked for."""
        self._has_written = True
        if kind != self._kind:
            self.close()
            self._kind = kind
            if kind == "thinking":
                self._shows_thinking = self._out.color or verbose >= OPEN
                self._begun = time.monotonic()
                self._out.put("Thinking…" + ("\n" if self._shows_thinking else ""), "dim")
        text = self._filter.feed(text)
        if kind == "text":
            self._out.put(text)
        elif self._shows_thinking:
            self._out.put(text, "dim")

    def end(self) -> bool:
        """End the reply; return whether anything of it was written."""
        self.close()
        was_written, self._has_written = self._has_written, False
        return was_written

    def close(self) -> None:
        """End the streaming text, or the thinking with its duration."""
        kind, self._kind = self._kind, ""
        rest = self._filter.flush()
        if kind == "text":
            self._out.put(rest)
        elif kind == "thinking":
            took = thinking_title(time.monotonic() - self._begun).removeprefix("Thinking")
            self._out.put(rest if self._shows_thinking else took, "dim")
        self._out.line("")


class _LiveLines:
    """Lines about what goes on now, such as a call's last output, if they can be overwritten."""

    def __init__(self, out: TextPrinter) -> None:
        self._out = out
        self._height = 0

    def draw(self, texts: Iterable[str]) -> None:
        """Draw them, each cut to one line of the terminal."""
        if not self._out.color:
            return
        size = shutil.get_terminal_size()
        lines = [line for text in texts for line in visible(text).split("\n")]
        lines = [next(wrap(f"  {line.expandtabs()}", size.columns - 1)) for line in lines]
        lines = lines[-max(1, size.lines - 2) :]
        for line in lines:
            self._out.line(line or " ", "dim")
        self._height = len(lines)

    def erase(self) -> None:
        """Erase them."""
        if self._height:
            self._out.write(f"\x1b[{self._height}A\r\x1b[J")
            self._height = 0


def _written_line(call: schema.MessageDelta) -> str:
    """Return the line of a call that is coming in."""
    return f"▸ {reveal(call.name)} · writing… {plural(call.text.count(chr(10)) + 1, 'line')}"


def _call(run: schema.Run, execution: schema.ToolExecution, *, was_asked: bool = False) -> Call:
    position, context = position_of(run, execution), CallContext.of(run, is_live=True)
    call = transcribe_call(mask_execution(execution), context, position=position)
    return call.model_copy(update={"was_asked": True}) if was_asked else call


def _find_call(run: schema.Run, call_id: str) -> schema.ToolExecution:
    return next(e for e in run.steps[-1].executions if e.call.id == call_id)


def _index(run: schema.Run, execution: schema.ToolExecution) -> int:
    """Return the index of a call's result; parallel calls end in any order."""
    ids = [each.call.id for each in run.executions]
    # The last one: some services number the calls of every reply from zero.
    return len(ids) - 1 - ids[::-1].index(execution.call.id)


class TerminalView(PlainView):
    """Plain text as it happens, and questions by `input()`."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        # https://no-color.org
        color = frontend.can_input and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        super().__init__(_write, color=color)
        self.asker = choose_asker(frontend, InputAsker(cell.main, approvals, self._show_foreign))

    def _show_foreign(self, approval: Approval) -> None:
        """Show what a delegated task asks; the event stream has shown the run's own calls."""
        if approval.id not in (*self._decisions.asked.values(), *self._decisions.plans):
            self._live.erase()
            print_approval(approval)

    async def ask(self, approval: Approval) -> None:
        """Ask at the terminal, if there is one."""
        await self.asker.ask(approval)


def write_run(run: schema.Run) -> None:
    """Write a run that has ended."""
    _write(render(transcribe(run, folds_thoughts=False)))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
