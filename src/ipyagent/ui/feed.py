"""A current run for its followers: its blocks of HTML, and the changes in them.

    kernel → page   {type: "snapshot", seq, set, order, gone}       the answer to init and resync
                    {type: "changes", seq, set, order, more, drop}  one more than the last seq
    page → kernel   {type: "init"}                                  clicks arrive: the handshake
                    {type: "resync"}                                a gap in seq was seen
                    {type: "decide", approval_id, decision, …}      see questions.py
                    {type: "stop"}
                    {type: "say", text}                             see agent/approvals.py
                    {type: "take_back", text_id}

Messages can get lost on a busy connection, so they are numbered and a page may ask for a snapshot.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ipyagent import schema
from ipyagent.agent.approvals import Approvals
from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import MainThread
from ipyagent.ui.live_blocks import LiveBlocks
from ipyagent.ui.questions import parse_click
from ipyagent.ui.transcribe import Live, Transcriber, list_asked_by
from ipyagent.ui.transcript import Late, Transcript, Waiting

INTERVAL = 0.04
"""Seconds between two messages while text streams: 25 a second. The first piece does not wait."""

Send = Callable[[JsonDict], object]
"""Sends a message to one follower."""


class Feed:
    """A listener that shows a run to its followers, and handles their messages."""

    def __init__(
        self, approvals: Approvals, stop: Callable[[], object], cell_id: str | None = None
    ) -> None:
        self.approvals, self.stop = approvals, stop
        self.cell_id = cell_id
        """The notebook's cell in which the run is drawn."""
        self.main: MainThread | None = None
        """Runs jobs between the calls of the run."""
        self.display_id = ""
        """The id under which it is displayed, by which Jupyter finds it again."""
        self.number: int | None = None
        """The execution count of that cell."""
        self.followers: list[Send] = []
        self.changed: Callable[[], object] = lambda: None
        """Called after every event but pieces of text and of output."""
        self._lock = threading.Lock()
        self._seq = 0
        self._state: schema.RunState | None = None
        self._has_news = False
        """True if something has come since the run was last drawn."""
        self._children: dict[str, schema.RunState] = {}
        self._ended_children: list[schema.Run] = []
        self._transcriber, self._blocks = Transcriber(), LiveBlocks()
        self._shown: Transcript | None = None
        self._retry: Waiting | None = None
        self._retry_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._text_due = 0.0
        self._problem = ""
        """Why the user's last text was refused."""

    def __call__(self, event: schema.Event, state: schema.RunState) -> None:
        """Show an event soon, or text that follows other text when an interval has passed."""
        with self._lock:
            self._state, self._has_news = state, True
            self._retry = None
            if isinstance(event, schema.RetryScheduled):
                text = f"Retry {event.attempt}/{event.of}"
                self._retry = Waiting(text=text, seconds=event.delay)
                self._retry_at = time.monotonic() + event.delay
        if isinstance(event, schema.MessageDelta | schema.ToolOutput):
            self._pace(asyncio.get_running_loop())
            return
        if isinstance(event, schema.RunFinished | schema.PlanWaiting):
            self.flush()
        else:
            self._flush_soon()
        self.changed()

    def show_child(self, event: schema.Event, state: schema.RunState) -> None:
        """Show the questions of a run that a call has begun."""
        with self._lock:
            self._has_news = True
            if isinstance(event, schema.RunFinished):
                self._children.pop(state.run.id, None)
                self._ended_children.append(state.run)
            else:
                self._children[state.run.id] = state
        if not isinstance(event, schema.MessageDelta | schema.ToolOutput):
            self._flush_soon()
            self.changed()

    def _flush_soon(self) -> None:
        """Send the current state after this turn of the loop: events come in bursts."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if self._soon is None:
            self._soon = loop.call_soon(self.flush)

    def _pace(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send text now or when it is due, also where chunks keep timers waiting."""
        if loop.time() >= self._text_due:
            self._send_text(loop)
        elif self._timer is None:
            self._timer = loop.call_at(self._text_due, self._send_text, loop)

    def _send_text(self, loop: asyncio.AbstractEventLoop) -> None:
        self.flush()
        self._text_due = loop.time() + INTERVAL

    def flush(self) -> None:
        """Send the current state."""
        for timer in filter(None, (self._timer, self._soon)):
            timer.cancel()
        self._timer = self._soon = None
        with self._lock:
            self._send_changes([*self.followers])

    def on_message(self, message: Mapping[str, object], reply: Send) -> None:
        """Handle a page's message, on any thread. `reply` goes to that page alone."""
        match message:
            case {"type": "init" | "resync"}:
                self._send_snapshot(reply)
            case {"type": "stop"}:
                self.stop()
            case {"type": "say", "text": str(text)}:
                self._steer(lambda: self.approvals.steering.say(text, self.run.id))
            case {"type": "take_back", "text_id": str(text_id)}:
                self._steer(lambda: self.approvals.steering.take_back(text_id, self.run.id))
            case {"type": "decide", "approval_id": str(approval_id)}:
                approval = self.approvals.get(approval_id)
                answer = parse_click(message.get("answer"), approval.subject) if approval else None
                if approval and answer and not self.approvals.decide(approval_id, answer):
                    approval.was_missed = self._has_news = True
                    self.flush()

    def _steer(self, job: Callable[[], object]) -> None:
        """Do what the user wants with a text; show why if it cannot be done."""
        problem = ""
        try:
            job()
        except AgentError as error:
            problem = str(error)
        with self._lock:
            self._problem, self._has_news = problem, True
        self.flush()

    def follow(self, send: Send) -> None:
        """Add a follower, starting with a snapshot."""
        with self._lock:
            if send not in self.followers:
                self.followers.append(send)
        self._send_snapshot(send)

    def unfollow(self, send: Send) -> None:
        """Remove a follower."""
        with self._lock:
            if send in self.followers:
                self.followers.remove(send)

    @property
    def has_begun(self) -> bool:
        """True if there is a run to show."""
        return self._state is not None

    def is_about(self, run_id: str) -> bool:
        """Return whether it shows the run with that id."""
        return self._state is not None and self._state.run.id == run_id

    @property
    def run(self) -> schema.Run:
        """The run as far as it was shown."""
        if self._state is None:
            raise RuntimeError("no run has started")
        return self._state.run

    @property
    def children(self) -> list[schema.Run]:
        """The runs that its calls began, and that theirs began."""
        with self._lock:
            return [*self._ended_children, *(each.run for each in self._children.values())]

    def replace(self, run: schema.Run) -> None:
        """Show a run that has ended in another way: it was taken back."""
        with self._lock:
            self._state = replace(self._state or schema.RunState(run), run=run)
            self._has_news = True

    @property
    def totals(self) -> schema.Totals:
        """The sums of the run's steps."""
        return self._state.totals if self._state else schema.Totals()

    @property
    def transcript(self) -> Transcript:
        """The current transcript."""
        with self._lock:
            if self._state is None:
                raise RuntimeError("no run has started")
            return self._transcribe(self._state)

    def _transcribe(self, state: schema.RunState) -> Transcript:
        decisions = state.decisions
        late = {
            call: late
            for call, each in decisions.asked.items()
            if decisions.settled.get(call) and (late := self._find_late(each))
        }
        plan_late = next(filter(None, map(self._find_late, reversed(decisions.plans))), None)
        live = Live(
            state.open_message,
            state.totals,
            decisions.pending,
            decisions.plan,
            late,
            plan_late,
            self._retry,
            self._problem,
            state.outputs,
            tuple([call for each in self._children.values() for call in list_asked_by(each)]),
        )
        return self._transcriber.transcribe(state.run, live)

    def _find_late(self, approval_id: str) -> Late | None:
        """Return the decision on an approval that was clicked on after it; None if it was not."""
        approval = self.approvals.get(approval_id)
        if approval is None or not approval.was_missed:
            return None
        answer, at = approval.answer.result(), approval.decided_at or schema.now()
        return Late(decision=answer.decision if answer.plan is None else "edited", at=at)

    def _send_changes(self, followers: list[Send]) -> None:
        if self._state is None or not self._has_news:
            return
        drawn, self._has_news = self._transcribe(self._state), False
        before, self._shown = self._shown, drawn
        is_same = before is not None and before.run_id == drawn.run_id
        if not is_same:
            self._blocks = LiveBlocks()
        changes = self._blocks.update(drawn, self._seq + 1)
        if changes is not None:
            self._seq += 1
            if followers:
                message = changes if is_same else self._blocks.snapshot(self._seq)
                data = message.to_dict()
                for send in followers:
                    send(data)

    def _send_snapshot(self, reply: Send) -> None:
        with self._lock:
            # The page that asked has it in the snapshot.
            self._send_changes([each for each in self.followers if each != reply])
            left = max(0.0, self._retry_at - time.monotonic()) if self._retry else None
            reply(self._blocks.snapshot(self._seq, left).to_dict())
