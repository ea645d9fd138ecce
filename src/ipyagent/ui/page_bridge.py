"""Messages between a kernel and its pages beside the cells' outputs, and the overview in them.

kernel → page   {type: "overview", overview}          for side panel and status bar; after a change
                {type: "run", run_id, message}        of a run that the page follows: feed.py
                {type: "reply", id, value}
page → kernel   {type: "follow", run_id}              draw this run too, from now on
                {type: "to_run", run_id, message}     feed.py: decisions, stop, resync
                {type: "ask", id, what: "bundle", run_id | cell_id}
                                                      the run as it is saved in an output, also one
                                                      that is not finished
                {type: "ask", id, what: "undo", run_id, dry_run}
                                                      take it back, or say what that would do:
                                                      {restored, skipped}
                {type: "ask", id, what: "models", model}
                                                      use this model from now on, if one is named:
                                                      {current, models: {name: why}, problem}
                {type: "ask", id, what: "requests"}   to begin with: {requests}; none without data
                {type: "ask", id, what: "freeze", run_id}
                                                      the run as plain cells: {cells: [{kind,
                                                      source}]}; none if it is not known here
                {type: "ask", id, what: "fresh", cell_id}
                                                      the cell, which runs next, asks the model: {}
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ipyagent import schema
from ipyagent.agent.approvals import Approvals
from ipyagent.agent.session.session import Session
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import Message, Page, Pages
from ipyagent.plaintext import dollars, plural, seconds
from ipyagent.schema.runs import progress
from ipyagent.ui import messages, static_html
from ipyagent.ui.blocks import call_html, change_html, plan_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.live_blocks import asked_call, asked_plan
from ipyagent.ui.reveal import first_line, reveal
from ipyagent.ui.transcribe.call import GLYPHS
from ipyagent.ui.transcribe.run import (
    count_tokens_and_cost,
    state_of,
    state_text,
    transcribe_todos,
)
from ipyagent.ui.transcribe.step import transcribe_plan
from ipyagent.ui.transcript import Plan, State, Todo

PROMPT = 200
"""Characters of a prompt in the overview."""

RUNS, SESSIONS, VARIABLES = 50, 30, 100
"""How many of each are listed, the newest."""

_MODEL = 32
"""Characters of a model's name that fit in a line."""

_WAITS = "waiting for you"

_GLYPHS: Final[dict[State, str]] = {
    "running": "▶",
    "waiting": "?",
    "done": "✓",
    "partial": "◐",
    "failed": "✗",
    "cancelled": "■",
}


@dataclass(frozen=True)
class OverviewContext:
    """The facts beside the runs: the current model, and the content of the journal.

    `plan` waits for the user, according to the journal.
    """

    model: str | None = None
    sessions: Sequence[schema.Session] = ()
    plan: schema.Run | None = None


class OverviewBuilder:
    """Describes the runs of a kernel and of its session. Ended runs are summarized once."""

    def __init__(self) -> None:
        self._digests: dict[str, _Digest] = {}

    def __call__(
        self,
        session: Session | None,
        feeds: Iterable[Feed],
        drawn: Iterable[Feed],
        around: OverviewContext,
    ) -> JsonDict:
        """Return the overview as JSON; session None: none was begun.

        `feeds` are current runs, `drawn` all runs that were shown here, of whichever session.
        """
        live = {feed.run.id: feed for feed in feeds if feed.has_begun}
        feeds_by_run = {feed.run.id: feed for feed in drawn if feed.has_begun}
        self._digests = digests = self._collect_digests(
            session, feeds_by_run.values(), live.values()
        )
        newest = list(digests.values())[-RUNS:]
        approvals = tuple(each for feed in live.values() for each in _approvals(feed))
        asking = {approval.run_id for approval in approvals}
        runs = tuple(
            _run_line(each, feeds_by_run.get(each.line.id), live, asking) for each in newest
        )
        waiting = _waiting(around.plan, live)
        last = newest[-1] if newest else None
        return messages.Overview(
            model=shorten_model(around.model or ""),
            sessions=tuple(_session_line(each, session) for each in around.sessions[:SESSIONS]),
            runs=runs,
            approvals=approvals,
            waiting=waiting,
            plan=last.plan if last and not last.is_draft else (),
            todos=last.todos if last else (),
            done=_progress_text(last) if last else "",
            variables=_variables(newest),
            usage=_usage([digests[each] for each in session.runs.ids] if session else []),
            status=_status(around.model, newest, runs, is_asked=bool(approvals or waiting)),
        ).to_dict()

    def forget(self, run_id: str) -> None:
        """Summarize an ended run again: it was taken back, or put there again."""
        self._digests.pop(run_id, None)

    def _collect_digests(
        self, session: Session | None, drawn: Iterable[Feed], live: Collection[Feed]
    ) -> dict[str, _Digest]:
        """Return all runs, oldest first; a session's record has more than a drawn run."""
        feeds_by_id = {feed.run.id: feed for feed in (*drawn, *live)}
        recorded = set(session.runs.ids if session else ()) - {feed.run.id for feed in live}
        known = {
            each: self._digest(feeds_by_id[each]) for each in feeds_by_id if each not in recorded
        }
        known |= {each: self._find_recorded(session, each) for each in recorded}
        return dict(sorted(known.items(), key=lambda item: item[1].line.started_at))

    def _find_recorded(self, session: Session | None, run_id: str) -> _Digest:
        digest = self._digests.get(run_id)
        if digest is not None and digest.is_final:
            return digest
        run = session.runs.get(run_id) if session else None
        if run is None:
            raise KeyError(run_id)
        return _Digest.of(run, schema.Totals.of(run))

    def _digest(self, feed: Feed) -> _Digest:
        run = feed.run
        digest = self._digests.get(run.id)
        is_known = digest and digest.is_final and run.is_finished
        return digest if digest and is_known else _Digest.of(run, feed.totals)


def shorten_model(model: str) -> str:
    """Return a model's name; a long one is shortened at its provider, then at its end."""
    name = model if len(model) <= _MODEL else model.rpartition("/")[2]
    return reveal(name if len(name) <= _MODEL else f"{name[: _MODEL - 1]}…")


@dataclass(frozen=True)
class _Digest:
    """The summary of a run, without the run, which may be large."""

    line: messages.RunLine
    model: str
    totals: schema.Totals
    is_final: bool
    is_draft: bool
    variables: tuple[messages.VariableLine, ...]
    plan: tuple[messages.PlanStepLine, ...]
    todos: tuple[Todo, ...]

    @classmethod
    def of(cls, run: schema.Run, totals: schema.Totals) -> _Digest:
        state, model, prompt = state_of(run), shorten_model(run.model), run.prompt[:PROMPT]
        text, time = state_text(run, state), "" if run.duration is None else seconds(run.duration)
        line = messages.RunLine(
            id=run.id,
            cell_id=run.cell_id,
            number=None,
            live=False,
            prompt=prompt,
            title=first_line(prompt, PROMPT) or "no prompt",
            state=state,
            glyph=_GLYPHS[state],
            state_text=text,
            taken_back=run.taken_back,
            facts=tuple(filter(None, (text, model, *count_tokens_and_cost(totals), time))),
            steps=run.current_step,
            started_at=run.started_at,
            duration=run.duration,
        )
        return cls(
            line,
            model,
            totals,
            run.is_finished,
            run.status is schema.RunStatus.DRAFT,
            tuple(_variable_lines(run)),
            tuple(_plan_lines(run)),
            transcribe_todos(totals),
        )


def _run_line(
    digest: _Digest, feed: Feed | None, live: Container[str], asking: Container[str]
) -> messages.RunLine:
    """Return the line of a run with what changes while it is drawn."""
    line = digest.line
    now: dict[str, object] = {"live": line.id in live}
    if feed:
        now |= {"cell_id": feed.cell_id, "number": feed.number}
    if line.state == "running" and line.id in asking:
        now |= {"state": "waiting", "glyph": _GLYPHS["waiting"], "state_text": _WAITS}
        now["facts"] = (_WAITS, *line.facts[1:])
    return line.model_copy(update=now)


def _status(
    model: str | None, newest: list[_Digest], runs: Sequence[messages.RunLine], *, is_asked: bool
) -> str:
    """Return the newest run in a line: "ipyagent: claude-… · waiting for you · 1,204 tok"."""
    pairs = [*zip(newest, runs, strict=True)]
    newest_pair = next(
        (pair for pair in reversed(pairs) if pair[1].live), pairs[-1] if pairs else None
    )
    if newest_pair is None:
        parts = [shorten_model(model or ""), _WAITS if is_asked else "no runs yet"]
    else:
        digest, line = newest_pair
        state = _WAITS if is_asked else _step_of(digest, line) or line.state_text
        parts = [digest.model, state, *count_tokens_and_cost(digest.totals)]
    return "ipyagent: " + " · ".join(part for part in parts if part)


def _step_of(digest: _Digest, line: messages.RunLine) -> str:
    """Return the progress of a running plan."""
    if not line.live or line.state != "running" or not digest.plan:
        return ""
    begun = sum(step.status is not schema.ToolStatus.PENDING for step in digest.plan)
    return f"step {max(1, begun)} of {len(digest.plan)}"


def _session_line(record: schema.Session, current: Session | None) -> messages.SessionLine:
    return messages.SessionLine(
        id=record.id,
        name=record.name,
        current=current is not None and record.id == current.id,
        ended=record.state is schema.SessionState.TERMINATED,
        at=record.last_run_at or record.started_at,
    )


def _approvals(feed: Feed) -> Iterator[messages.PendingApproval]:
    """Yield what a run waits for: calls of its newest step (earlier ones do not), or its plan."""
    transcript = feed.transcript
    for call in transcript.steps[-1].calls if transcript.steps else ():
        if call.approval:
            about = "a question" if call.question else reveal(call.name)
            yield messages.PendingApproval(
                approval_id=call.approval.id,
                run_id=feed.run.id,
                cell_id=feed.cell_id,
                about=about,
                html=call_html(call),
                asked=asked_call(call),
                change=change_html(call),
            )
    if plan := transcript.plan:
        yield from _asked_plan(plan, feed.run.id, feed.cell_id)


def _waiting(run: schema.Run | None, live: Container[str]) -> messages.PendingApproval | None:
    """Return a plan that waits while no cell asks about it."""
    if run is None or run.id in live or (plan := transcribe_plan(run, "")) is None:
        return None
    return next(_asked_plan(plan, run.id, run.cell_id), None)


def _asked_plan(plan: Plan, run_id: str, cell_id: str | None) -> Iterator[messages.PendingApproval]:
    if plan.approval:
        yield messages.PendingApproval(
            approval_id=plan.approval.id,
            run_id=run_id,
            cell_id=cell_id,
            about="a plan",
            html=plan_html(plan, "waiting"),
            asked=asked_plan(plan),
        )


def _plan_lines(run: schema.Run) -> Iterator[messages.PlanStepLine]:
    for step, status in zip(run.plan, progress(run), strict=True):
        glyph, text = GLYPHS[status]
        name, note = reveal(step.call.name), reveal(step.note)
        yield messages.PlanStepLine(
            name=name, note=note, status=status, glyph=glyph, status_text=text
        )


def _progress_text(digest: _Digest) -> str:
    """Return the progress of a run's plan and tasks: "2 of 5 done"."""
    # One that waits is among the approvals.
    plan = () if digest.is_draft else digest.plan
    steps = [step.status is schema.ToolStatus.SUCCESS for step in plan]
    tasks = [todo.status == "completed" for todo in digest.todos]
    completed = steps + tasks
    return f"{sum(completed)} of {len(completed)} done" if completed else ""


def _variable_lines(run: schema.Run) -> Iterator[messages.VariableLine]:
    for call in run.executions:
        is_there = call.result is not None and call.call.id not in run.taken_back
        for each in call.result.variables if call.result and is_there else ():
            facts = reveal(each.summary or each.type)
            yield messages.VariableLine(
                name=reveal(each.name), change=each.change, type=facts, run_id=run.id
            )


def _variables(digests: Iterable[_Digest]) -> tuple[messages.VariableLine, ...]:
    """Return the last change of each variable, the newest first."""
    newest: dict[str, messages.VariableLine] = {}
    for change in (each for digest in digests for each in digest.variables):
        newest.pop(change.name, None)
        newest[change.name] = change
    return tuple(reversed(newest.values()))[:VARIABLES]


def _usage(digests: Sequence[_Digest]) -> tuple[str, ...]:
    """Return the usage of the session: "2 runs", "5,034 tokens", "$0.020"."""
    if not digests:
        return ()
    tokens = sum(each.totals.usage.total_tokens for each in digests)
    costs = [cost for each in digests if (cost := each.totals.cost_usd) is not None]
    price = dollars(sum(costs)) if costs else "no price known" if tokens else ""
    parts = (plural(len(digests), "run"), f"{tokens:,} tokens" if tokens else "", price)
    return tuple(part for part in parts if part)


log = logging.getLogger("ipyagent")

INTERVAL = 0.15
"""Seconds within which changes are sent once."""

DRAWN = 50
"""Finished runs that stay known, of whichever session."""


class PageBridge:
    """Connects the pages of a kernel with its runs.

    `overview` describes the notebook's runs and sessions; `bundle` finds a run by its id or by its
    cell's, as it is saved in an output; `answers` has the functions that answer other requests.
    """

    def __init__(
        self,
        pages: Pages,
        overview: Callable[[list[Feed]], JsonDict],
        bundle: Callable[[str | None, str | None], JsonDict | None],
        answers: Mapping[str, Callable[[Message], JsonDict]] | None = None,
    ) -> None:
        self.pages = pages
        self._overview, self._bundle, self._answers = overview, bundle, answers or {}
        self._feeds: list[Feed] = []
        self.drawn: list[Feed] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, feed: Feed) -> None:
        """Add a run that is now drawn."""
        self._feeds.append(feed)
        self.drawn = [*self.drawn, feed][-DRAWN:]
        feed.changed = self._publish_from_loop

    def end(self, feed: Feed) -> None:
        """Remove a run that has ended, or is no longer drawn."""
        if feed in self._feeds:
            self._feeds.remove(feed)
            self.publish_soon()

    def publish_again(self, run: schema.Run) -> None:
        """Publish a run in the place of its earlier state, wherever that is displayed."""
        from IPython.display import publish_display_data

        feeds = [feed for feed in self.drawn if feed.is_about(run.id)]
        for display_id in {run.id, *(feed.display_id for feed in feeds)}:
            where = {"display_id": display_id}
            publish_display_data(static_html.saved_bundle(run), transient=where, update=True)
        if not feeds:  # another kernel has drawn it
            feeds = [Feed(Approvals(), lambda: None, run.cell_id)]
            self.drawn = [*self.drawn, *feeds][-DRAWN:]
        for feed in feeds:
            feed.replace(run)
        self.publish_soon()

    def publish_soon(self) -> None:
        """Send the current overview to all pages."""
        pages = self.pages.all()
        if pages:
            overview = self._overview(list(self._feeds))
            for page in pages:
                page.send({"type": "overview", "overview": overview})

    def on_message(self, page: Page, message: Message) -> None:
        """Handle a message from a page; it may come on any thread."""
        match message:
            case {"type": "hello"}:
                page.send({"type": "overview", "overview": self._overview(list(self._feeds))})
            case {"type": "follow", "run_id": str(run_id)} if feed := self._feed(run_id):
                feed.follow(_RunChannel(page, run_id))
            case {"type": "to_run", "run_id": str(run_id), "message": dict(said)}:
                if feed := self._feed(run_id):
                    feed.on_message(said, _RunChannel(page, run_id))
            case {"type": "ask", "id": number, "what": "bundle"}:
                value = self._send_bundle(message.get("run_id"), message.get("cell_id"))
                page.send({"type": "reply", "id": number, "value": value})
            case {"type": "ask", "id": number, "what": str(what)} if what in self._answers:
                job = partial(self._answer, page, number, message)
                # It may ask this page about cells, for whose reply this thread is needed.
                threading.Thread(target=job, name="ipyagent-answer", daemon=True).start()
            case {"type": "bye"}:
                self._forget(page)

    def _answer(self, page: Page, number: int, message: Message) -> None:
        value = None
        try:
            value = self._answers[message["what"]](message)
        except Exception:
            log.exception("a page's request for %s failed", message["what"])
        finally:
            page.send({"type": "reply", "id": number, "value": value})

    def _send_bundle(self, run_id: str | None, cell_id: str | None) -> JsonDict | None:
        feed = self._feed(run_id) if run_id else None
        return static_html.saved_bundle(feed.run) if feed else self._bundle(run_id, cell_id)

    def _forget(self, page: Page) -> None:
        for feed in list(self._feeds):
            for send in list(feed.followers):
                if isinstance(send, _RunChannel) and send.page is page:
                    feed.unfollow(send)

    def _feed(self, run_id: str) -> Feed | None:
        return next((each for each in self._feeds if each.is_about(run_id)), None)

    def _publish_from_loop(self) -> None:
        """Send the overview soon, from the engine's loop: changes come in bursts."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._publish)

    def _publish(self) -> None:
        self._timer = None
        self.publish_soon()


@dataclass(frozen=True)
class _RunChannel:
    """Sends a run's messages to a page; equal to any other that does the same."""

    page: Page
    run_id: str

    def __call__(self, message: JsonDict) -> None:
        self.page.send({"type": "run", "run_id": self.run_id, "message": message})
