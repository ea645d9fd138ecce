"""The status of each run. A transition is one UPDATE that names the status it starts from.

    draft ─▶ queued ─▶ running ─▶ done | error | cancelled

Only one caller changes the row; a second one changes nothing and gets an error that says what
happened before. The columns of the session follow in the same transaction: `pending_run_id` waits
for the user, `active_run_id` is in progress.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import datetime

from pydantic import TypeAdapter

from ipyagent.digests import digest_json, digest_text
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict
from ipyagent.schema import (
    Event,
    PlanStep,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    StepStarted,
    ToolStarted,
    now,
)
from ipyagent.schema.runs import MOVES
from ipyagent.store.codec import read

NAMED = 12
"""Characters of a plan's digest that name it, in every card, command and message."""


def plan_name(plan: Iterable[PlanStep]) -> str:
    """Return the name by which users know a plan."""
    return plan_digest(plan)[:NAMED]


def plan_json(plan: Iterable[PlanStep]) -> str:
    """Return the plan as text, its arguments in their original order."""
    return json.dumps([step.to_dict() for step in plan])


def plan_digest(plan: Iterable[PlanStep]) -> str:
    """Return the digest by which a card names a plan: this one runs and no other."""
    return digest_plan_text(plan_json(plan))


def digest_plan_text(text: str) -> str:
    """Return the digest of a plan as text; equal plans have the same."""
    try:
        plan = json.loads(text)
    except ValueError:  # no plan that we wrote
        return digest_text(text)
    return digest_json(plan)


def run_without_plan(run: Run) -> str:
    """Return the run as text, without its plan."""
    return json.dumps(run.model_dump(mode="json", exclude={"plan", "steps"}))


SOURCES = {to: tuple(each for each in MOVES if to in MOVES[each]) for to in RunStatus}
"""The statuses from which each status may be reached."""

ACTIVE = (RunStatus.QUEUED, RunStatus.RUNNING)

_RUN = TypeAdapter(Run)

_NO_PLAN = "no pending plan"


def draft(db: sqlite3.Connection, session_id: str, run: Run) -> str:
    """Store a plan before it is shown; return its digest."""
    if run.status is not RunStatus.DRAFT:
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


def confirm(db: sqlite3.Connection, session_id: str, run_id: str | None) -> Run:
    """Move draft → queued, for the first caller; return the run with the stored plan."""
    row = _find_row(db, session_id, run_id, RunStatus.DRAFT)
    wanted = row["id"]
    _refuse_second(db, session_id, wanted)
    if digest_plan_text(row["plan_json"]) != row["plan_digest"]:
        raise SessionError(
            f"the plan {_name(row)} is not the one that was shown; nothing was run. Ask for it "
            "again."
        )
    # Nothing can happen in between: the transaction has the database to itself.
    _move(db, wanted, RunStatus.QUEUED)
    db.execute("UPDATE runs SET confirmed_at = updated_at WHERE id = ?", (wanted,))
    db.execute(
        "UPDATE sessions SET pending_run_id = nullif(pending_run_id, :run), active_run_id = :run"
        " WHERE id = :session",
        {"run": wanted, "session": session_id},
    )
    touch(db, session_id)
    return run_from_row(row, RunStatus.QUEUED)


def run_from_row(row: sqlite3.Row, status: RunStatus) -> Run:
    """Return the run of its row, with the stored plan; raises SessionError."""

    def complete(record: JsonDict) -> JsonDict:
        plan = json.loads(row["plan_json"])
        return record | {"plan": plan, "status": status, "error": row["error"]}

    return read(_RUN, row["record"], f"the run {row['id']}", complete)


def waiting(db: sqlite3.Connection, session_id: str) -> Run | None:
    """Return the plan of a session that waits for the user, as it was stored; else None."""
    row = db.execute(
        "SELECT runs.* FROM runs JOIN sessions ON runs.id = sessions.pending_run_id"
        " WHERE sessions.id = ? AND runs.status = 'draft'",
        (session_id,),
    ).fetchone()
    return run_from_row(row, RunStatus.DRAFT) if row is not None else None


def cancel(db: sqlite3.Connection, session_id: str, run_id: str | None) -> None:
    """Move draft | queued → cancelled, for good."""
    row = _find_row(db, session_id, run_id, RunStatus.DRAFT, RunStatus.QUEUED)
    end(db, row["id"], RunStatus.CANCELLED, None)


def begin(db: sqlite3.Connection, session_id: str, run: Run) -> None:
    """Move queued → running; a run that was never a plan is inserted."""
    _refuse_second(db, session_id, run.id)
    row = db.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone()
    if row is not None and row["status"] == RunStatus.RUNNING:
        raise SessionError(_describe(row))
    if why := _start(db, session_id, run):
        raise SessionError(why)
    db.execute(
        "UPDATE runs SET record = ?, plan_json = ? WHERE id = ? AND record IS NULL",
        (run_without_plan(run), plan_json(run.plan), run.id),
    )


def end(db: sqlite3.Connection, run_id: str, status: RunStatus, error: str | None) -> bool:
    """Move to a final status. Clears only columns that still point at this run."""
    if not _move(db, run_id, status, error):
        return False
    db.execute(
        "UPDATE sessions SET pending_run_id = nullif(pending_run_id, :run),"
        " active_run_id = nullif(active_run_id, :run), last_run_id = :run,"
        " last_run_status = :status, last_run_at = :at"
        " WHERE id = (SELECT session_id FROM runs WHERE id = :run)",
        {"run": run_id, "status": status, "at": _moment()},
    )
    return True


def follow(db: sqlite3.Connection, session_id: str, run_id: str, event: Event) -> str | None:
    """Update a run's row with an event; return why the run may not begin, or None."""
    place = None
    match event:
        case RunStarted(run=run):
            if why := _start(db, session_id, run):
                return why
        case StepStarted(step=step):
            place = str(step)
        case ToolStarted(step=step, execution=execution):
            place = f"{step}/{execution.call.name}"
        case RunFinished(status=status, error=error):
            end(db, run_id, status, error)
            touch(db, session_id)
    db.execute(
        "UPDATE runs SET current_step_path = coalesce(?, current_step_path), last_event = ?,"
        " updated_at = ? WHERE id = ?",
        (place, event.type, _moment(), run_id),
    )
    return None


def touch(db: sqlite3.Connection, session_id: str) -> None:
    """Make the session the newest. Counted, since clocks sometimes go backwards."""
    db.execute(
        "UPDATE sessions SET activity = (SELECT max(activity) + 1 FROM sessions) WHERE id = ?",
        (session_id,),
    )


def _start(db: sqlite3.Connection, session_id: str, run: Run) -> str | None:
    """Return why the run may not begin, or None."""
    fresh = db.execute(
        "INSERT INTO runs (id, session_id, status, goal, updated_at)"
        " SELECT ?, id, 'running', ?, ? FROM sessions WHERE id = ? ON CONFLICT (id) DO NOTHING",
        (run.id, run.prompt, _moment(), session_id),
    )
    if not fresh.rowcount and not _move(db, run.id, RunStatus.RUNNING):
        row = db.execute("SELECT * FROM runs WHERE id = ?", (run.id,)).fetchone()
        if row is None:
            return f"the session {session_id} is not in it"
        if row["status"] != RunStatus.RUNNING:
            return _describe(row)
    db.execute("UPDATE sessions SET active_run_id = ? WHERE id = ?", (run.id, session_id))
    touch(db, session_id)
    return None


def _move(db: sqlite3.Connection, run_id: str, status: RunStatus, error: str | None = None) -> bool:
    """Move to `status`; return whether the run was where that is possible."""
    changed = db.execute(
        "UPDATE runs SET status = ?, error = ?, updated_at = ? WHERE id = ?"
        " AND status IN (SELECT value FROM json_each(?))",
        (status, error, _moment(), run_id, json.dumps(SOURCES[status])),
    )
    return changed.rowcount == 1


def _pointers(db: sqlite3.Connection, session_id: str) -> tuple[str | None, str | None]:
    row = db.execute(
        "SELECT pending_run_id, active_run_id FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    if row is None:
        raise SessionError(f"the session {session_id} is not in the journal")
    return row["pending_run_id"], row["active_run_id"]


def _refuse_second(db: sqlite3.Connection, session_id: str, run_id: str) -> None:
    _, active = _pointers(db, session_id)
    if active not in (None, run_id):
        running = _name(_row(db, session_id, active))
        raise SessionError(f"already running: {running}; wait for its end, or stop it")


def _find_row(
    db: sqlite3.Connection, session_id: str, run_id: str | None, *statuses: RunStatus
) -> sqlite3.Row:
    """Return the run of that id (None: waiting or active), if it has such a status."""
    pending, active = _pointers(db, session_id)
    wanted = run_id or pending or active
    if wanted is None:
        raise SessionError(_NO_PLAN)
    row = _row(db, session_id, wanted)
    if row["status"] not in statuses:
        raise SessionError(_describe(row))
    return row


def _row(db: sqlite3.Connection, session_id: str, run_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM runs WHERE id = ? AND session_id = ?", (run_id, session_id)
    ).fetchone()
    if row is None:
        raise SessionError(f"no pending plan is called {run_id!r}")
    return row


def _name(row: sqlite3.Row) -> str:
    """Return the name of a plan, or the id of another run."""
    return (row["plan_digest"] or "")[:NAMED] or str(row["id"])


def _describe(row: sqlite3.Row) -> str:
    """Return the state of a run before a late decision."""
    name, status = _name(row), row["status"]
    if status == RunStatus.DRAFT:
        return f"the plan {name} waits for you: `%agent approve {name}` or `%agent deny {name}`"
    ended = "" if status in ACTIVE else f"; it is {status}"
    if row["confirmed_at"]:
        return f"already approved at {_clock(row['confirmed_at'])}: {name}{ended}"
    if status == RunStatus.CANCELLED:
        return f"already cancelled at {_clock(row['updated_at'])}: {name}; ask for it again"
    return f"already running: {name}" if not ended else f"already run: {name}{ended}"


def _clock(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone():%H:%M}"


def _moment() -> str:
    return now().isoformat()
