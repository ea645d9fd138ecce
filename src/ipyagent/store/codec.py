"""The text of one row of the journal: encoding and decoding of events.

    {"v": 1, "event": {"type": "tool_finished", "step": 1, "execution": {"call": {"id": "c1"}, …}}}

Texts of user and model are written once: a call by its id if the reply that made it has it whole,
and a finished call's execution only where it differs from the started one.

Data from newer versions is loaded tolerantly: unknown keys are dropped, and named.
"""

from __future__ import annotations

import copy
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict
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

T = TypeVar("T")

Key = str | int


def load_tolerant(adapter: TypeAdapter[T], data: object) -> tuple[T, list[str]]:
    """Return the value, and its unknown keys; raises ValidationError for all other errors."""
    dropped: list[str] = []
    while True:
        try:
            return adapter.validate_python(data), dropped
        except ValidationError as error:
            unknown = _unknown_keys(error)
            # Each round removes something, or gives up.
            data = data if dropped else copy.deepcopy(data)
            if not unknown or not all(_remove(data, location) for location in unknown):
                raise
            dropped += [str(location[-1]) for location in unknown]


def read(
    adapter: TypeAdapter[T],
    text: str,
    label: str,
    complete: Callable[[JsonDict], object] = lambda data: data,
) -> T:
    """Parse a JSON text, after `complete`; raises SessionError if it is invalid."""
    try:
        data = json.loads(text)
        return load_tolerant(adapter, data if complete is None else complete(data))[0]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SessionError(f"{label} cannot be read: {describe_error(error)}") from None


def describe_error(error: Exception) -> str:
    """Return the problem of invalid data, and its place, in one line."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _unknown_keys(error: ValidationError) -> list[tuple[Key, ...]]:
    """Return locations whose only error is an unknown key; other members of unions report more."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    wrong = {fault["loc"][:-1] for fault in faults if fault["type"] != "extra_forbidden"}
    return [
        fault["loc"]
        for fault in faults
        if fault["type"] == "extra_forbidden" and fault["loc"][:-1] not in wrong
    ]


def _remove(data: object, location: Sequence[Key]) -> bool:
    """Remove one key. A location also names the members of unions, which `data` does not have."""
    key, *rest = location
    inner = _at(data, key)
    if not rest:
        return isinstance(data, dict) and data.pop(key, data) is not data
    return (inner is not None and _remove(inner, rest)) or _remove(data, rest)


def _at(data: object, key: Key) -> object:
    if isinstance(data, dict):
        return data.get(key)
    if isinstance(data, list) and isinstance(key, int) and key < len(data):
        return data[key]
    return None


log = logging.getLogger("ipyagent")

VERSION = 1


@cache
def _events() -> TypeAdapter[Event]:
    """Return what reads events; built when a journal is read first."""
    return TypeAdapter(Event)


_ALL_TYPES = frozenset(
    get_args(each.model_fields["type"].annotation)[0] for each in get_args(get_args(Event)[0])
)


def _beginnings(types: AbstractSet[str]) -> tuple[str, ...]:
    """Return how rows of those types begin, if nothing in them is needed for later rows."""
    return tuple(f'{{"v":{VERSION},"event":{{"type":"{each}"' for each in types - {"tool_started"})


@dataclass(frozen=True)
class Record:
    """An event in the journal. `seq` orders all events of a database."""

    seq: int
    run_id: str
    at: datetime
    event: Event


@dataclass
class _StepTexts:
    """The texts of a run's newest step so far."""

    calls: dict[str, ToolCall] = field(default_factory=dict)
    started: dict[str, ToolExecution] = field(default_factory=dict)


class Encoder:
    """Encodes the events of many runs, each run's in order."""

    def __init__(self) -> None:
        self._runs: defaultdict[str, _StepTexts] = defaultdict(_StepTexts)

    def encode(self, run_id: str, event: Event) -> str:
        """Return one row's text; raises ValueError for what JSON cannot express."""
        text = event.model_dump_json(exclude=self._already_written(run_id, event))
        return f'{{"v":{VERSION},"event":{text}}}'

    def note(self, run_id: str, event: Event) -> None:
        """Remember a stored row: later rows need not repeat it."""
        match event:
            case MessageFinished(message=message) if message is not None:
                self._runs[run_id].calls = {call.id: call for call in message.tool_calls}
            case ToolStarted(execution=execution):
                self._runs[run_id].started[execution.call.id] = execution
            case StepFinished() | RunFinished():
                self._runs.pop(run_id, None)

    def _already_written(self, run_id: str, event: Event) -> JsonDict | None:
        """Return the parts of the event that were written before."""
        if not isinstance(event, ToolStarted | ToolFinished) or run_id not in self._runs:
            return None
        texts, execution = self._runs[run_id], event.execution
        known: JsonDict = {}
        if isinstance(event, ToolFinished) and execution.call.id in texts.started:
            before = dict(texts.started[execution.call.id])
            # Not the result: it may hold a live object, whose idea of equality is unknown.
            same = [name for name, value in execution if name != "result" and before[name] == value]
            known = dict.fromkeys(same, True)
        if texts.calls.get(execution.call.id) == execution.call:
            known["call"] = dict.fromkeys(set(ToolCall.model_fields) - {"id"}, True)
        else:
            known.pop("call", None)
        return {"execution": known}


class Decoder:
    """Decodes the rows of a session or a run, in order; of other types than `types` none."""

    def __init__(self, types: AbstractSet[str] | None = None) -> None:
        self._skipped = _beginnings(_ALL_TYPES - types) if types else ()
        self._types = types or _ALL_TYPES
        self._calls: dict[tuple[str, str], JsonDict] = {}
        self._started: dict[tuple[str, str], JsonDict] = {}

    def decode(self, seq: int, run_id: str, at: str, text: str) -> Record | None:
        """Return the record; None, with a log message, if this version cannot read it."""
        if self._skipped and text.startswith(self._skipped):
            return None
        try:
            data = json.loads(text)
            if data["v"] != VERSION:
                raise ValueError(f"it has version {data['v']}")
            whole = self._whole(run_id, data["event"])
            if whole["type"] == "tool_started" and "tool_started" not in self._types:
                return None
            event, dropped = load_tolerant(_events(), whole)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("event %s of the journal was skipped: %s", seq, describe_error(error))
            return None
        if dropped:
            log.warning("in event %s of the journal, %s was left out", seq, ", ".join(dropped))
        return Record(seq, run_id, datetime.fromisoformat(at), event)

    def _whole(self, run_id: str, event: JsonDict) -> JsonDict:
        """Return the event completed with the parts that were written before."""
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
