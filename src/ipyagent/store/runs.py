"""Runs in the journal: rows of events, the status of each run, and those that can be repeated.

    {"v": 1, "event": {"type": "tool_finished", "step": 1, "execution": {"call": {"id": "c1"}, …}}}

Texts of user and model are written once: a call by its id if the reply that made it has it whole,
and a finished call's execution only where it differs from the started one. Data from newer versions
is loaded tolerantly: unknown keys are dropped, and named.

    draft ─▶ queued ─▶ running ─▶ done | error | cancelled

A transition is one UPDATE that names the status it starts from. Only one caller changes the row; a
second one changes nothing and gets an error that says what happened before. The columns of the
session follow in the same transaction: `pending_run_id` waits for the user, `active_run_id` is in
progress.
"""

from __future__ import annotations

import copy
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from ipyagent import schema
from ipyagent.digests import digest_json, digest_text
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict
from ipyagent.schema.runs import MOVES
from ipyagent.store.tables import Database, Row

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
        return load_tolerant(adapter, complete(data))[0]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SessionError(f"{label} cannot be read: {describe_error(error)}") from None


def describe_error(error: Exception) -> str:
    """Return the problem of invalid data, and its place, in one line."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _unknown_keys(error: ValidationError) -> list[tuple[Key, ...]]:
    """Return locations whose only error is an unknown key; other members of unions report more."""
    faults = error.errors()
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
def _events() -> TypeAdapter[schema.Event]:
    """Return what reads events; built when a journal is read first."""
    return TypeAdapter(schema.Event)


_ALL_TYPES = frozenset(
    get_args(each.model_fields["type"].annotation)[0]
    for each in get_args(get_args(schema.Event)[0])
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
    event: schema.Event


@dataclass
class _StepTexts:
    """The texts of a run's newest step so far."""

    calls: dict[str, schema.ToolCall] = field(default_factory=dict)
    started: dict[str, schema.ToolExecution] = field(default_factory=dict)


class Encoder:
    """Encodes the events of many runs, each run's in order."""

    def __init__(self) -> None:
        self._runs: defaultdict[str, _StepTexts] = defaultdict(_StepTexts)

    def encode(self, run_id: str, event: schema.Event) -> str:
        """Return one row's text; raises ValueError for what JSON cannot express."""
        known = None
        if isinstance(event, schema.ToolStarted | schema.ToolFinished) and run_id in self._runs:
            known = self._already_written(self._runs[run_id], event)
        text = event.model_dump_json(exclude=known)
        return f'{{"v":{VERSION},"event":{text}}}'

    def note(self, run_id: str, event: schema.Event) -> None:
        """Remember a stored row: later rows need not repeat it."""
        match event:
            case schema.MessageFinished(message=message) if message is not None:
                self._runs[run_id].calls = {call.id: call for call in message.tool_calls}
            case schema.ToolStarted(execution=execution):
                self._runs[run_id].started[execution.call.id] = execution
            case schema.StepFinished() | schema.RunFinished():
                self._runs.pop(run_id, None)

    def _already_written(
        self, texts: _StepTexts, event: schema.ToolStarted | schema.ToolFinished
    ) -> JsonDict:
        """Return the parts of the event that were written before."""
        execution = event.execution
        known: JsonDict = {}
        if isinstance(event, schema.ToolFinished) and execution.call.id in texts.started:
            before = dict(texts.started[execution.call.id])
            # Not the result: it may hold a live object, whose idea of equality is unknown.
            same = [name for name, value in execution if name != "result" and before[name] == value]
            known = dict.fromkeys(same, True)
        if texts.calls.get(execution.call.id) == execution.call:
            known["call"] = dict.fromkeys(set(schema.ToolCall.model_fields) - {"id"}, True)
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


NAMED = 12
"""Characters of a plan's digest that name it, in every card, command and message."""


def plan_name(plan: Iterable[schema.PlanStep]) -> str:
    """Return the name by which users know a plan."""
    return plan_digest(plan)[:NAMED]


def plan_json(plan: Iterable[schema.PlanStep]) -> str:
    """Return the plan as text, its arguments in their original order."""
    return json.dumps([step.to_dict() for step in plan])


def plan_digest(plan: Iterable[schema.PlanStep]) -> str:
    """Return the digest by which a card names a plan: this one runs and no other."""
    return digest_plan_text(plan_json(plan))


def digest_plan_text(text: str) -> str:
    """Return the digest of a plan as text; equal plans have the same."""
    try:
        plan = json.loads(text)
    except ValueError:  # no plan that we wrote
        return digest_text(text)
    return digest_json(plan)


def run_without_plan(run: schema.Run) -> str:
    """Return the run as text, without its plan."""
    return json.dumps(run.model_dump(mode="json", exclude={"plan", "steps"}))


SOURCES = {to: tuple(each for each in MOVES if to in MOVES[each]) for to in schema.RunStatus}
"""The statuses from which each status may be reached."""

ACTIVE = (schema.RunStatus.QUEUED, schema.RunStatus.RUNNING)

_RUN = TypeAdapter(schema.Run)

_NO_PLAN = "no pending plan"


def draft(db: Database, session_id: str, run: schema.Run) -> str:
    """Store a plan before it is shown; return its digest."""
    if run.status is not schema.RunStatus.DRAFT:
        raise SessionError(
            f"a plan that waits for approval is a draft, and {run.id} is {run.status}"
        )
    pending, _ = _pointers(db, session_id)
    if pending:
        raise SessionError(_describe(_row(db, session_id, pending)))
    _refuse_second(db, session_id, run.id)
    text = plan_json(run.plan)
    digest = digest_plan_text(text)
    db.execute(
        "INSERT INTO runs"
        " (id, session_id, status, goal, record, plan_json, plan_digest, updated_at)"
        " VALUES (?, ?, 'draft', ?, ?, ?, ?, ?)",
        (run.id, session_id, run.prompt, run_without_plan(run), text, digest, _moment()),
    )
    db.execute("UPDATE sessions SET pending_run_id = ? WHERE id = ?", (run.id, session_id))
    touch(db, session_id)
    return digest


def confirm(db: Database, session_id: str, run_id: str | None) -> schema.Run:
    """Move draft → queued, for the first caller; return the run with the stored plan."""
    row = _find_row(db, session_id, run_id, schema.RunStatus.DRAFT)
    wanted = row["id"]
    _refuse_second(db, session_id, wanted)
    if digest_plan_text(row["plan_json"]) != row["plan_digest"]:
        raise SessionError(
            f"the plan {_name(row)} is not the one that was shown; nothing was run. Ask for it "
            "again."
        )
    # Nothing can happen in between: the transaction has the database to itself.
    _move(db, wanted, schema.RunStatus.QUEUED)
    db.execute("UPDATE runs SET confirmed_at = updated_at WHERE id = ?", (wanted,))
    db.execute(
        "UPDATE sessions SET pending_run_id = nullif(pending_run_id, :run), active_run_id = :run"
        " WHERE id = :session",
        {"run": wanted, "session": session_id},
    )
    touch(db, session_id)
    return run_from_row(row, schema.RunStatus.QUEUED)


def run_from_row(row: Row, status: schema.RunStatus) -> schema.Run:
    """Return the run of its row, with the stored plan; raises SessionError."""

    def complete(record: JsonDict) -> JsonDict:
        plan = json.loads(row["plan_json"])
        return record | {"plan": plan, "status": status, "error": row["error"]}

    return read(_RUN, row["record"], f"the run {row['id']}", complete)


def waiting(db: Database, session_id: str) -> schema.Run | None:
    """Return the plan of a session that waits for the user, as it was stored; else None."""
    row = db.execute(
        "SELECT runs.* FROM runs JOIN sessions ON runs.id = sessions.pending_run_id"
        " WHERE sessions.id = ? AND runs.status = 'draft'",
        (session_id,),
    ).fetchone()
    return run_from_row(row, schema.RunStatus.DRAFT) if row is not None else None


def cancel(db: Database, session_id: str, run_id: str | None) -> None:
    """Move draft | queued → cancelled, for good."""
    row = _find_row(db, session_id, run_id, schema.RunStatus.DRAFT, schema.RunStatus.QUEUED)
    end(db, row["id"], schema.RunStatus.CANCELLED, None)


def end(db: Database, run_id: str, status: schema.RunStatus, error: str | None) -> None:
    """Move to a final status, if possible. Clears only columns that still point at this run."""
    if not _move(db, run_id, status, error):
        return
    db.execute(
        "UPDATE sessions SET pending_run_id = nullif(pending_run_id, :run),"
        " active_run_id = nullif(active_run_id, :run), last_run_id = :run,"
        " last_run_status = :status, last_run_at = :at"
        " WHERE id = (SELECT session_id FROM runs WHERE id = :run)",
        {"run": run_id, "status": status, "at": _moment()},
    )


def follow(db: Database, session_id: str, run_id: str, event: schema.Event) -> str | None:
    """Update a run's row with an event; return why the run may not begin, or None."""
    place = None
    match event:
        case schema.RunStarted(run=run):
            if why := _start(db, session_id, run):
                return why
            add_recording(db, run)
        case schema.StepStarted(step=step):
            place = str(step)
        case schema.ToolStarted(step=step, execution=execution):
            place = f"{step}/{execution.call.name}"
        case schema.RunFinished(status=status, stop_reason=reason, error=error):
            end(db, run_id, status, error)
            if reason is not schema.StopReason.FINISHED:
                remove_recording(db, run_id)
            touch(db, session_id)
    db.execute(
        "UPDATE runs SET current_step_path = coalesce(?, current_step_path), last_event = ?,"
        " updated_at = ? WHERE id = ?",
        (place, event.type, _moment(), run_id),
    )
    return None


def touch(db: Database, session_id: str) -> None:
    """Make the session the newest. Counted, since clocks sometimes go backwards."""
    db.execute(
        "UPDATE sessions SET activity = (SELECT max(activity) + 1 FROM sessions) WHERE id = ?",
        (session_id,),
    )


def _start(db: Database, session_id: str, run: schema.Run) -> str | None:
    """Return why the run may not begin, or None."""
    fresh = db.execute(
        "INSERT INTO runs (id, session_id, status, goal, updated_at)"
        " SELECT ?, id, 'running', ?, ? FROM sessions WHERE id = ? ON CONFLICT (id) DO NOTHING",
        (run.id, run.prompt, _moment(), session_id),
    )
    if not fresh.rowcount and not _move(db, run.id, schema.RunStatus.RUNNING):
        row = db.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone()
        if row is None:
            return f"the session {session_id} is not in it"
        if row["status"] != schema.RunStatus.RUNNING:
            return _describe(row)
    db.execute("UPDATE sessions SET active_run_id = ? WHERE id = ?", (run.id, session_id))
    touch(db, session_id)
    return None


def _move(db: Database, run_id: str, status: schema.RunStatus, error: str | None = None) -> bool:
    """Move to `status`; return whether the run was where that is possible."""
    places = ", ".join("?" * len(SOURCES[status]))
    changed = db.execute(
        f"UPDATE runs SET status = ?, error = ?, updated_at = ? WHERE id = ? AND status IN ({places})",  # noqa: E501, S608
        (status, error, _moment(), run_id, *SOURCES[status]),
    )
    return bool(changed.rowcount)


def _pointers(db: Database, session_id: str) -> tuple[str | None, str | None]:
    row = db.execute(
        "SELECT pending_run_id, active_run_id FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    if row is None:
        raise SessionError(f"the session {session_id} is not in the journal")
    return row["pending_run_id"], row["active_run_id"]


def _refuse_second(db: Database, session_id: str, run_id: str) -> None:
    _, active = _pointers(db, session_id)
    if active not in (None, run_id):
        running = _name(_row(db, session_id, active))
        raise SessionError(f"already running: {running}; wait for its end, or stop it")


def _find_row(
    db: Database, session_id: str, run_id: str | None, *statuses: schema.RunStatus
) -> Row:
    """Return the run of that id (None: waiting or active), if it has such a status."""
    pending, active = _pointers(db, session_id)
    wanted = run_id or pending or active
    if wanted is None:
        raise SessionError(_NO_PLAN)
    row = _row(db, session_id, wanted)
    if row["status"] not in statuses:
        raise SessionError(_describe(row))
    return row


def _row(db: Database, session_id: str, run_id: str) -> Row:
    row: Row | None = db.execute(
        "SELECT * FROM runs WHERE id = ? AND session_id = ?", (run_id, session_id)
    ).fetchone()
    if row is None:
        raise SessionError(f"no pending plan is called {run_id!r}")
    return row


def _name(row: Row) -> str:
    """Return the name of a plan, or the id of another run."""
    return (row["plan_digest"] or "")[:NAMED] or str(row["id"])


def _describe(row: Row) -> str:
    """Return the state of a run before a late decision."""
    name, status = _name(row), row["status"]
    if status == schema.RunStatus.DRAFT:
        return f"the plan {name} waits for you: `%agent approve {name}` or `%agent deny {name}`"
    ended = "" if status in ACTIVE else f"; it is {status}"
    if row["confirmed_at"]:
        return f"already approved at {_clock(row['confirmed_at'])}: {name}{ended}"
    if status == schema.RunStatus.CANCELLED:
        return f"already cancelled at {_clock(row['updated_at'])}: {name}; ask for it again"
    return f"already running: {name}" if not ended else f"already run: {name}{ended}"


def _clock(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone():%H:%M}"


def _moment() -> str:
    return schema.now().isoformat()


# Recordings: runs that a replay can repeat, by the key of what was asked --------------------------


def add_recording(db: Database, run: schema.Run) -> None:
    """Note what a run answers, if a cell asked for it."""
    if run.asked is not None:
        row = run.id, run.asked.key, run.asked.prompt, run.cell_id
        db.execute(
            "INSERT INTO recordings VALUES (?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE"
            " SET key = excluded.key, prompt = excluded.prompt, cell = excluded.cell",
            row,
        )


def remove_recording(db: Database, run_id: str) -> None:
    """Forget a run that ended early: it would hide older ones that can be repeated."""
    db.execute("DELETE FROM recordings WHERE run_id = ?", (run_id,))


_NEWEST = """SELECT runs.id FROM recordings JOIN runs ON runs.id = recordings.run_id
    WHERE runs.status = 'done' AND {} runs.updated_at DESC LIMIT 5"""
"""The newest few: some of them may have ended early."""


def find_recorded(db: Database, key: str, cell: str | None) -> list[str]:
    """Return the newest finished runs of a cell with that key, the newest first."""
    # Not every front end names its cells.
    fits = "key = :key AND coalesce(:cell, cell, '') = coalesce(cell, :cell, '') ORDER BY"
    rows = db.execute(_NEWEST.format(fits), {"key": key, "cell": cell})
    return [row["id"] for row in rows]


def find_nearest(db: Database, prompt: str) -> list[str]:
    """Return the newest finished runs, first those with that prompt."""
    rows = db.execute(_NEWEST.format("true ORDER BY recordings.prompt = ? DESC,"), (prompt,))
    return [row["id"] for row in rows]


def is_whole(run: schema.Run) -> bool:
    """Return whether a run came to its end, so that it can be repeated."""
    return run.outcome is schema.Outcome.SUCCESS and run.stop_reason is schema.StopReason.FINISHED
