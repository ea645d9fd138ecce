"""The notebook at a glance, for the side panel and the status bar."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ipyagent import schema
from ipyagent.agent.session import Session
from ipyagent.json_types import JsonDict
from ipyagent.schema import Run, RunStatus, SessionState
from ipyagent.schema.progress import progress
from ipyagent.ui.feed import Feed
from ipyagent.ui.secrets import without_secrets

PROMPT = 200
"""Characters of a prompt that are told."""

RUNS, SESSIONS, VARIABLES = 50, 30, 100
"""How many of each are told, the newest."""


@dataclass(frozen=True)
class Around:
    """What is known beside the runs: the model that would answer now, and what the journal has.

    `plan` waits for a person, though no cell asks about it.
    """

    model: str | None = None
    sessions: Sequence[schema.Session] = ()
    plan: Run | None = None


class Overview:
    """Describes the runs of a kernel and of its session. What has ended is worked out once."""

    def __init__(self) -> None:
        self._digests: dict[str, _Digest] = {}

    def __call__(
        self,
        session: Session | None,
        feeds: Iterable[Feed],
        drawn: Iterable[Feed],
        around: Around,
    ) -> JsonDict:
        """What there is to know, as JSON; session None: none was begun.

        `feeds` go on, `drawn` are all that were shown here: they are told whatever session they
        are of. `Overview` in labextension/src/lab/messages.ts says what each part is.
        """
        live = {feed.run.id: feed for feed in feeds if feed.has_begun}
        shown = {feed.run.id: feed for feed in drawn if feed.has_begun}
        self._digests = digests = self._known(session, shown.values(), live.values())
        newest = list(digests.values())[-RUNS:]
        return {
            "model": around.model,
            "session": session and {"id": session.id, "name": session.name},
            "sessions": [_session(each, session) for each in around.sessions[:SESSIONS]],
            "runs": [_run(each, shown.get(each.run_id), live) for each in newest],
            "approvals": [each for feed in live.values() for each in _approvals(feed)],
            "waiting": _waiting(_plan_of(session, around), live),
            "plan": newest[-1].plan if newest else None,
            "todos": newest[-1].todos if newest else [],
            "variables": _variables(newest),
            "usage": _usage([digests[each] for each in session.runs.ids] if session else []),
        }

    def _known(
        self, session: Session | None, drawn: Iterable[Feed], live: Collection[Feed]
    ) -> dict[str, _Digest]:
        """All runs, oldest first; what a session has recorded says more than a drawing."""
        shown = {feed.run.id: feed.run for feed in (*drawn, *live)}
        recorded = set(session.runs.ids if session else ()) - {feed.run.id for feed in live}
        known = {each: self._digest(shown[each]) for each in shown if each not in recorded}
        known |= {each: self._recorded(session, each) for each in recorded}
        return dict(sorted(known.items(), key=lambda item: item[1].started_at))

    def _recorded(self, session: Session | None, run_id: str) -> _Digest:
        digest = self._digests.get(run_id)
        if digest is not None and digest.is_final:
            return digest
        run = session.runs.find(run_id) if session else None
        if run is None:
            raise KeyError(run_id)
        return _Digest.of(run)

    def _digest(self, run: Run) -> _Digest:
        digest = self._digests.get(run.id)
        return digest if digest and digest.is_final and run.is_finished else _Digest.of(run)


@dataclass(frozen=True)
class _Digest:
    """What a run comes to; without the run, which may be large."""

    run_id: str
    started_at: datetime
    is_final: bool
    row: JsonDict
    tokens: int
    cost_usd: float | None
    variables: tuple[JsonDict, ...]
    plan: JsonDict | None
    todos: list[JsonDict]

    @classmethod
    def of(cls, run: Run) -> _Digest:
        usage, cost = run.usage, run.cost_usd
        tokens = usage.prompt_tokens + usage.completion_tokens
        changes = (
            each.to_dict() | {"run_id": run.id}
            for result in run.results
            for each in result.variables
        )
        return cls(
            run.id,
            run.started_at,
            run.is_finished,
            _row(run) | {"tokens": tokens, "cost_usd": cost},
            tokens,
            cost,
            (*changes,),
            _plan(run),
            [todo.to_dict() for todo in run.todos],
        )


def _run(digest: _Digest, feed: Feed | None, live: Container[str]) -> JsonDict:
    cell_id = feed.cell_id if feed else digest.row["cell_id"]
    return digest.row | {"cell_id": cell_id, "live": digest.run_id in live}


def _row(run: Run) -> JsonDict:
    return {
        "id": run.id,
        "cell_id": run.cell_id,
        "live": False,
        "prompt": run.prompt[:PROMPT],
        "model": run.model,
        "status": str(run.status),
        "stop_reason": run.stop_reason and str(run.stop_reason),
        "steps": run.current_step,
        "started_at": run.started_at.isoformat(),
        "duration": run.duration,
    }


def _session(record: schema.Session, current: Session | None) -> JsonDict:
    return {
        "id": record.id,
        "name": record.name,
        "current": current is not None and record.id == current.id,
        "ended": record.state is SessionState.TERMINATED,
        "at": (record.last_run_at or record.started_at).isoformat(),
    }


def _approvals(feed: Feed) -> Iterator[JsonDict]:
    asked = feed.asked
    about = {"run_id": feed.run.id, "cell_id": feed.cell_id}
    for execution in feed.run.executions:
        if approval_id := asked.get(execution.call.id):
            shown = execution.to_dict()
            yield {**about, "approval_id": approval_id, "execution": shown, "plan": None}
    if asked_id := feed.plan_asked:
        shown = _asked(feed.run)
        yield {**about, "approval_id": asked_id, "execution": None, "plan": shown}


def _plan_of(session: Session | None, around: Around) -> Run | None:
    """The plan that waits for a person."""
    if session is None:
        return around.plan
    plan = session.runs.find(session.record.pending_run_id)
    return plan if plan and plan.status is RunStatus.DRAFT else None


def _waiting(plan: Run | None, live: dict[str, Feed]) -> JsonDict | None:
    """A plan that waits while no cell asks about it."""
    if plan is None or plan.id in live:
        return None
    return {"run_id": plan.id, "cell_id": plan.cell_id, "plan": _asked(plan)}


def _asked(plan: Run) -> JsonDict:
    """A plan as the person decides on it: its steps whole, all else masked."""
    return without_secrets(plan).model_copy(update={"plan": plan.plan, "steps": ()}).to_dict()


def _plan(run: Run) -> JsonDict | None:
    """How far the run's plan is."""
    steps = [
        {"tool": step.call.name, "note": step.note, "status": str(status)}
        for step, status in zip(run.plan, progress(run), strict=True)
    ]
    return {"run_id": run.id, "status": str(run.status), "steps": steps} if steps else None


def _variables(digests: Iterable[_Digest]) -> list[JsonDict]:
    """What became of each variable last, the newest first."""
    newest: dict[str, JsonDict] = {}
    for change in (each for digest in digests for each in digest.variables):
        newest.pop(change["name"], None)
        newest[change["name"]] = change
    return list(reversed(newest.values()))[:VARIABLES]


def _usage(digests: Sequence[_Digest]) -> JsonDict:
    """What the session took so far."""
    costs = [each.cost_usd for each in digests if each.cost_usd is not None]
    return {
        "runs": len(digests),
        "tokens": sum(each.tokens for each in digests),
        "cost_usd": sum(costs) if costs else None,
    }
