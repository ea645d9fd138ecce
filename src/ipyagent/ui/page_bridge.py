"""Messages between a kernel and its pages beside the cells' outputs, and the overview in them.

kernel → page   {type: "overview", overview}          for side panel and status bar; after a change
                {type: "run", run_id, message}        of a run that the page follows: feed.py
                {type: "reply", id, value}            value: {problem} for what cannot be done now
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
                                                      {current, models: {name: why}}
                {type: "ask", id, what: "requests"}   to begin with: {requests, example};
                                                      no requests without data
                {type: "ask", id, what: "freeze", run_id}
                                                      the run as plain cells: {cells: [{kind,
                                                      source}]}; none if it is not known here
                {type: "ask", id, what: "fresh", cell_id}
                                                      the cell, which runs next, asks the model: {}
                {type: "ask", id, what: "variable", text}
                                                      the description of a variable: {html}
                {type: "ask", id, what: "complete", text}
                                                      names with which a mention goes on: {names}
                {type: "ask", id, what: "sessions", text}
                                                      sessions with that text: {set, order}
                {type: "ask", id, what: "session", text}
                                                      go on with that session, or with a new one:
                                                      {text}
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ipyagent import schema
from ipyagent.agent.approvals import Approvals
from ipyagent.agent.session.session import Session
from ipyagent.errors import AgentError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import Message, Page, Pages
from ipyagent.kernel.threads import MainThread
from ipyagent.plaintext import seconds
from ipyagent.schema.runs import progress
from ipyagent.store.journal import Journal
from ipyagent.ui import messages, panel, static_html
from ipyagent.ui.blocks import Block, call_html, change_html, plan_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.live_blocks import asked_call, asked_plan
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcribe import (
    count_tokens_and_cost,
    state_of,
    state_text,
    transcribe_todos,
)
from ipyagent.ui.transcribe.step import transcribe_plan
from ipyagent.ui.transcript import Plan, Proposal

RUNS, VARIABLES = 50, 100
"""How many of each are listed, the newest."""

_MODEL = 32
"""Characters of a model's name that fit in a line."""


@dataclass(frozen=True)
class OverviewContext:
    """The facts beside the runs: the current model, and the content of the journal.

    `plan` waits for the user, according to the journal; `prompts` are first ones, by session.
    """

    model: str | None = None
    sessions: Sequence[schema.Session] = ()
    plan: schema.Run | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)


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
        asked = [each for feed in live.values() for each in _approvals(feed)]
        asking = {approval.run_id for approval, _ in asked}
        newest = [
            each.at(feeds_by_run.get(each.line.id), live, asking)
            for each in list(digests.values())[-RUNS:]
        ]
        digests |= {each.row.id: each for each in newest if each.is_final}
        asked += _waiting(around.plan, live)
        mine = [digests[each] for each in session.runs.ids] if session else []
        current = session.id if session else None
        prompts = {feed.run.session_id: feed.run.prompt for feed in live.values()}
        prompts |= around.prompts
        blocks = (
            *panel.draw_waiting(asked, {each.line.id: each.line.prompt for each in newest}),
            *(_draw_progress(newest[-1]) if newest else ()),
            *panel.draw_runs(each.drawn for each in reversed(newest)),
            *panel.draw_variables(_variables(newest)),
            *panel.draw_sessions(around.sessions, prompts, current, is_free=not live),
            *_draw_usage(mine),
        )
        return messages.Overview(
            model=shorten_model(around.model or ""),
            runs=tuple([each.line for each in newest]),
            approvals=tuple([approval for approval, _ in asked]),
            panel=panel.to_blocks(blocks),
            status=_status(around.model, newest, is_asked=bool(asked)),
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
        if run is None or session is None:
            raise KeyError(run_id)
        return _Digest.of(run, schema.Totals.of(run), [*_find_children(session.journal, run)])

    def _digest(self, feed: Feed) -> _Digest:
        run = feed.run
        digest = self._digests.get(run.id)
        is_known = digest and digest.is_final and run.is_finished
        return digest if digest and is_known else _Digest.of(run, feed.totals, feed.children)


def _find_children(journal: Journal, run: schema.Run) -> Iterator[schema.Run]:
    """Yield the runs that calls of a run began, and those that theirs began."""
    results = (each.result for each in run.executions)
    for name in (name for each in results if each and each.child for name in each.child.runs):
        with contextlib.suppress(SessionError):
            yield journal.run(name)


def shorten_model(model: str) -> str:
    """Return a model's name; a long one is shortened at its provider, then at its end."""
    name = model if len(model) <= _MODEL else model.rpartition("/")[2]
    return reveal(name if len(name) <= _MODEL else f"{name[: _MODEL - 1]}…")


@dataclass(frozen=True)
class _Digest:
    """The summary of a run, without the run, which may be large."""

    line: messages.RunLine
    row: panel.RunRow
    drawn: panel.Line
    model: str
    totals: schema.Totals
    is_final: bool
    is_draft: bool
    variables: tuple[panel.Line, ...]
    plan: tuple[panel.PlanStep, ...]

    @classmethod
    def of(cls, run: schema.Run, totals: schema.Totals, others: Sequence[schema.Run]) -> _Digest:
        """Summarize a run; `others` are the runs that it began, and that those began."""
        row = _row(run, totals, others)
        line = messages.RunLine(
            id=run.id,
            cell_id=run.cell_id,
            number=None,
            live=False,
            prompt=row.prompt,
            facts=row.facts,
            taken_back=run.taken_back,
            steps=run.current_step,
            started_at=run.started_at,
            duration=run.duration,
        )
        return cls(
            line,
            row,
            panel.run_line(row),
            shorten_model(run.model),
            totals,
            run.is_finished,
            run.status is schema.RunStatus.DRAFT,
            tuple([panel.variable_line(each, run.id) for each in _list_variables(run)]),
            tuple(zip(run.plan, progress(run), strict=True)),
        )

    def at(self, feed: Feed | None, live: Container[str], asking: Container[str]) -> _Digest:
        """Return the summary with what changes while the run is drawn."""
        cell_id, number = (feed.cell_id, feed.number) if feed else (self.line.cell_id, None)
        row = self.row._replace(cell_id=cell_id, is_live=self.row.id in live)
        if row.state == "running" and row.id in asking:
            facts = (panel.WAITS, *row.facts[1:])
            row = row._replace(state="waiting", state_text=panel.WAITS, facts=facts)
        if (row, number) == (self.row, self.line.number):
            return self
        now = {"live": row.is_live, "cell_id": cell_id, "number": number, "facts": row.facts}
        line = self.line.model_copy(update=now)
        return replace(self, line=line, row=row, drawn=panel.run_line(row))


def _row(run: schema.Run, totals: schema.Totals, others: Sequence[schema.Run]) -> panel.RunRow:
    state, text = state_of(run), state_text(run, state_of(run))
    time = "" if run.duration is None else seconds(run.duration)
    facts = (text, shorten_model(run.model), *count_tokens_and_cost(totals), time)
    children = [each for each in others if each.parent_id == run.id]
    return panel.RunRow(
        run.id,
        run.prompt[: panel.PROMPT],
        state,
        text,
        tuple(filter(None, facts)),
        run.cell_id,
        children=tuple([_row(each, schema.Totals.of(each), others) for each in children]),
    )


def _status(model: str | None, newest: list[_Digest], *, is_asked: bool) -> str:
    """Return the newest run in a line: "ipyagent: claude-… · waiting for you · 1,204 tok"."""
    live = [each for each in newest if each.row.is_live]
    if not newest:
        parts = [shorten_model(model or ""), panel.WAITS if is_asked else "no runs yet"]
    else:
        digest = (live or newest)[-1]
        state = panel.WAITS if is_asked else _step_of(digest) or digest.row.state_text
        parts = [digest.model, state, *count_tokens_and_cost(digest.totals)]
    return "ipyagent: " + " · ".join(part for part in parts if part)


def _step_of(digest: _Digest) -> str:
    """Return the progress of a running plan."""
    if not digest.row.is_live or digest.row.state != "running" or not digest.plan:
        return ""
    begun = sum(status is not schema.ToolStatus.PENDING for _, status in digest.plan)
    return f"step {max(1, begun)} of {len(digest.plan)}"


_Asked = tuple[messages.PendingApproval, str]
"""An approval that waits, and its HTML in full."""


def _approvals(feed: Feed) -> Iterator[_Asked]:
    """Yield what a run waits for: calls of its newest step (earlier ones do not), or its plan."""
    transcript = feed.transcript
    for call in transcript.steps[-1].calls if transcript.steps else ():
        if call.approval:
            about = "a question" if call.question else reveal(call.name)
            approval = messages.PendingApproval(
                approval_id=call.approval.id,
                run_id=feed.run.id,
                cell_id=feed.cell_id,
                about=about,
                asked=asked_call(call, feed.run.id),
                proposal=call.proposal and _stay_below(call.proposal, feed.run),
                change=change_html(call) if call.proposal else "",
            )
            yield approval, call_html(call)
    if plan := transcript.plan:
        yield from _asked_plan(plan, feed.run.id, feed.cell_id)


def _stay_below(proposal: Proposal, run: schema.Run) -> Proposal:
    """Return the proposal of a new cell below those that the run has inserted there since."""
    if (here := proposal.place).side != "after":
        return proposal
    columns: dict[str, list[str]] = {}
    for each in run.executions:
        place, made = each.preview and each.preview.cell, each.result and each.result.cell
        if place and made and place.side == "after":
            columns[made] = columns.setdefault(place.cell_id, [])
            columns[made].append(made)
    below = columns.get(here.cell_id, [here.cell_id])[-1]
    return proposal.model_copy(update={"place": here.model_copy(update={"cell_id": below})})


def _waiting(run: schema.Run | None, live: Container[str]) -> Iterator[_Asked]:
    """Yield a plan that waits while no cell asks about it."""
    if run is not None and run.id not in live and (plan := transcribe_plan(run, "")):
        yield from _asked_plan(plan, run.id, run.cell_id)


def _asked_plan(plan: Plan, run_id: str, cell_id: str | None) -> Iterator[_Asked]:
    if plan.approval:
        approval = messages.PendingApproval(
            approval_id=plan.approval.id,
            run_id=run_id,
            cell_id=cell_id,
            about="a plan",
            asked=asked_plan(plan, run_id),
        )
        yield approval, plan_html(plan, "waiting")


def _draw_progress(digest: _Digest) -> Iterator[Block]:
    """Yield the plan and the tasks of a run, with their progress: "2 of 5 done"."""
    # A plan that waits is among the approvals.
    plan, todos = () if digest.is_draft else digest.plan, transcribe_todos(digest.totals)
    steps = [status is schema.ToolStatus.SUCCESS for _, status in plan]
    completed = [*steps, *(todo.status == "completed" for todo in todos)]
    return panel.draw_progress(plan, todos, f"{sum(completed)} of {len(completed)} done")


def _list_variables(run: schema.Run) -> Iterator[schema.VariableChange]:
    for call in run.executions:
        is_there = call.result is not None and call.call.id not in run.taken_back
        yield from call.result.variables if call.result and is_there else ()


def _variables(digests: Iterable[_Digest]) -> list[panel.Line]:
    """Return the last change of each variable, the newest first."""
    newest: dict[str, panel.Line] = {}
    for line in (each for digest in digests for each in digest.variables):
        newest.pop(line.name, None)
        newest[line.name] = line
    return [*reversed(newest.values())][:VARIABLES]


def _draw_usage(digests: Sequence[_Digest]) -> Iterator[Block]:
    tokens = sum(each.totals.usage.total_tokens for each in digests)
    costs = [cost for each in digests if (cost := each.totals.cost_usd) is not None]
    return panel.draw_usage(len(digests), tokens, sum(costs) if costs else None)


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
        self._shown: dict[str, JsonDict] = {}
        """The blocks of the panel that all pages have."""
        self._sending = threading.RLock()

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

    def between_calls(self) -> MainThread | None:
        """Return what runs jobs between the calls of a run that is on; None without one."""
        mains = (feed.main for feed in self._feeds)
        return next((each for each in mains if each and not each.closed), None)

    def draw_sessions(self, session: Session | None, found: OverviewContext) -> JsonDict:
        """Return sessions that were found as blocks, beside the current one."""
        current = session.id if session else None
        is_free = not self._feeds
        rows = panel.draw_found(found.sessions, found.prompts, current, is_free=is_free)
        return panel.to_blocks(rows).to_dict()

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
        """Send the current overview to all pages, with the blocks of the panel that changed."""
        with self._sending:
            if pages := self.pages.all():
                overview = self._overview(list(self._feeds))
                shown, blocks = self._shown, overview["panel"]["set"]
                changed = [each for each in blocks if shown.get(each["key"]) != each]
                self._shown = {each["key"]: each for each in blocks}
                message = overview | {"panel": overview["panel"] | {"set": changed}}
                for page in pages:
                    page.send({"type": "overview", "overview": message})

    def _greet(self, page: Page) -> None:
        """Send a page all there is; blocks that others have not are sent again to all."""
        with self._sending:
            overview = self._overview(list(self._feeds))
            now = {each["key"]: each for each in overview["panel"]["set"]}
            self._shown = {key: each for key, each in self._shown.items() if now.get(key) == each}
            page.send({"type": "overview", "overview": overview})

    def on_message(self, page: Page, message: Message) -> None:
        """Handle a message from a page; it may come on any thread."""
        match message:
            case {"type": "hello"}:
                self._greet(page)
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
        except AgentError as error:
            value = {"problem": str(error)}
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
