"""What runs tell a journal, for its tests."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ipyagent import schema as s
from ipyagent.schema.events import advance_message
from ipyagent.store.journal import Journal, postgres_store
from ipyagent.store.tables import Database

Place = Path | str
"""A file, or the URL of a database."""

IN_FILE = pytest.mark.parametrize("path", ["sqlite"], indirect=True)
"""For what holds of files alone."""

OPEN = """
import sys
from pathlib import Path
from ipyagent.store.journal import Journal
def opened(place):
    return Journal.open(place if "://" in place else Path(place))
"""
"""The beginning of another process's code."""


@contextlib.contextmanager
def raw(path: Place) -> Iterator[Database]:
    """The database itself, past the journal."""
    if isinstance(path, str):
        with contextlib.closing(postgres_store()(path)) as server:
            yield server
    else:
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.row_factory = sqlite3.Row
            yield other


PLAN = (
    s.PlanStep(call=s.ToolCall(id="p1", name="read_file", arguments={"path": "a.txt"})),
    s.PlanStep(call=s.ToolCall(id="p2", name="delete_file", arguments={"path": "a.txt"})),
)


def begun(journal: Journal, name: str = "notebook") -> s.Session:
    """A new session."""
    session = s.Session(name=name)
    journal.create(session)
    return session


def tell(journal: Journal, session: s.Session, run_id: str, events: Iterable[s.Event]) -> None:
    """Append and flush."""
    append(journal, session, run_id, events)
    journal.flush().result()


def append(journal: Journal, session: s.Session, run_id: str, events: Iterable[s.Event]) -> None:
    """Append, with the reply that is streaming in."""
    message: s.OpenMessage | None = None
    for event in events:
        message = advance_message(message, event)
        journal.append(session.id, run_id, event, message)


def plan(run_id: str = "r1") -> s.Run:
    return s.Run(id=run_id, prompt="Tidy up.", model="m", status=s.RunStatus.DRAFT, plan=PLAN)


def started(run_id: str = "r1", prompt: str = "Go on.") -> s.RunStarted:
    return s.RunStarted(run=s.Run(id=run_id, prompt=prompt, model="m"))


def ended(status: s.RunStatus = s.RunStatus.DONE, error: str | None = None) -> s.RunFinished:
    reason = s.StopReason.ERROR if error else s.StopReason.FINISHED
    return s.RunFinished(status=status, stop_reason=reason, error=error, duration=1.5)


def asked(step: int, *calls: s.ToolCall, text: str = "I will.") -> s.MessageFinished:
    blocks = (s.TextContent(text=text), *calls) if text else calls
    message = s.Message(role=s.Role.ASSISTANT, content=blocks)
    return s.MessageFinished(step=step, message=message, finish_reason="stop")


def called(n: int = 1, **arguments: object) -> s.ToolCall:
    return s.ToolCall(id=f"c{n}", name="write_file", arguments=arguments or {"path": "a.txt"})


def doing(step: int, call: s.ToolCall, preview: str = "a") -> Iterator[s.Event]:
    """A call up to the moment when its tool runs."""
    shown = s.Preview(kind="diff", text=preview)
    yield s.ToolStarted(step=step, execution=s.ToolExecution(call=call, preview=shown))
    yield s.ToolRunning(step=step, call_id=call.id)


def done(step: int, call: s.ToolCall, output: str = "ok", preview: str = "a") -> s.ToolFinished:
    execution = s.ToolExecution(
        call=call,
        preview=s.Preview(kind="diff", text=preview),
        status=s.ToolStatus.SUCCESS,
        result=s.ToolResult(output=output),
        started_at=s.Run(id="x").started_at,
        duration=0.1,
    )
    return s.ToolFinished(step=step, execution=execution)


def whole_run(run_id: str = "r1", steps: int = 2, **texts: str) -> list[s.Event]:
    """A run with a call in each step but the last."""
    events: list[s.Event] = [started(run_id)]
    for step in range(1, steps + 1):
        call = called(step, path="a.txt", content=texts.get("content", "x"))
        last = step == steps
        events += [s.StepStarted(step=step), s.MessageStarted(step=step)]
        events.append(asked(step) if last else asked(step, call))
        if not last:
            preview = texts.get("preview", "a")
            events += [*doing(step, call, preview), done(step, call, preview=preview)]
        events.append(s.StepFinished(step=step))
    return [*events, ended()]


def deltas(text: str, size: int = 10, step: int = 1) -> Iterator[s.MessageDelta]:
    for at in range(0, len(text), size):
        yield s.MessageDelta(step=step, kind="text", text=text[at : at + size])


def types(journal: Journal, session: s.Session) -> list[str]:
    return [record.event.type for record in journal.events(session.id)]


def reopened(path: Place, journal: Journal) -> Journal:
    journal.close()
    return Journal.open(path)
