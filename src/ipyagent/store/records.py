"""Events as text and back: what one row of the journal holds.

    {"v": 1, "event": {"type": "tool_finished", "step": 1, "execution": {"call": {"id": "c1"}, …}}}

What a person and a model said is written once: a call by its id where the reply that made it has
it whole, and a finished call's execution only where it differs from the one that was started.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from ipyagent.schema import (
    Event,
    MessageFinished,
    RunFinished,
    StepFinished,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolStarted,
)
from ipyagent.store.lenient import fault, lenient

log = logging.getLogger("ipyagent")

VERSION = 1
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


@dataclass(frozen=True)
class Record:
    """An event as the journal has it. `seq` orders all events of a database."""

    seq: int
    run_id: str
    at: datetime
    event: Event


@dataclass
class _Said:
    """What a run's newest step said so far."""

    calls: dict[str, ToolCall] = field(default_factory=dict)
    started: dict[str, ToolExecution] = field(default_factory=dict)


class Encoder:
    """Writes the events of many runs, each run's in order."""

    def __init__(self) -> None:
        self._runs: defaultdict[str, _Said] = defaultdict(_Said)

    def encode(self, run_id: str, event: Event) -> str:
        """One row's text; raises ValueError for what JSON can't say."""
        text = event.model_dump_json(exclude=self._known(run_id, event))
        return f'{{"v":{VERSION},"event":{text}}}'

    def note(self, run_id: str, event: Event) -> None:
        """The row is kept: what it says need not be said again."""
        match event:
            case MessageFinished(message=message) if message is not None:
                self._runs[run_id].calls = {call.id: call for call in message.tool_calls}
            case ToolStarted(execution=execution):
                self._runs[run_id].started[execution.call.id] = execution
            case StepFinished() | RunFinished():
                self._runs.pop(run_id, None)

    def _known(self, run_id: str, event: Event) -> dict[str, Any] | None:
        """What of the event was written before."""
        if not isinstance(event, ToolStarted | ToolFinished) or run_id not in self._runs:
            return None
        said, execution = self._runs[run_id], event.execution
        known: dict[str, Any] = {}
        if isinstance(event, ToolFinished) and execution.call.id in said.started:
            before = dict(said.started[execution.call.id])
            # Not the result: it may hold a live object, and what that thinks is equal is unknown.
            same = (name for name, value in execution if name != "result" and before[name] == value)
            known = dict.fromkeys(same, True)
        if said.calls.get(execution.call.id) == execution.call:
            known["call"] = dict.fromkeys(set(ToolCall.model_fields) - {"id"}, True)
        else:
            known.pop("call", None)
        return {"execution": known}


class Decoder:
    """Reads the rows of a session or a run, in order."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], dict[str, Any]] = {}
        self._started: dict[tuple[str, str], dict[str, Any]] = {}

    def decode(self, seq: int, run_id: str, at: str, text: str) -> Record | None:
        """The record; None, and a line in the log, where this version can't read it."""
        try:
            data = json.loads(text)
            if data["v"] != VERSION:
                raise ValueError(f"it has version {data['v']}")
            event, dropped = lenient(EVENTS, self._whole(run_id, data["event"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("event %s of the journal was skipped: %s", seq, fault(error))
            return None
        if dropped:
            log.warning("in event %s of the journal, %s was left out", seq, ", ".join(dropped))
        return Record(seq, run_id, datetime.fromisoformat(at), event)

    def _whole(self, run_id: str, event: dict[str, Any]) -> dict[str, Any]:
        """The event with what was written before."""
        if event["type"] == "message_finished" and event["message"]:
            for block in event["message"]["content"]:
                if block["type"] == "tool_call":
                    self._calls[run_id, block["id"]] = block
        if event["type"] not in ("tool_started", "tool_finished"):
            return event
        execution = event["execution"]
        key = run_id, execution["call"]["id"]
        call = {**self._calls.get(key, {}), **execution["call"]}
        if event["type"] == "tool_started":
            self._started[key] = execution = {**execution, "call": call}
        else:
            execution = {**self._started.get(key, {}), **execution, "call": call}
        return {**event, "execution": execution}
