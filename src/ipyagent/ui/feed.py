"""A run that is on, told to whoever draws it: numbered messages, and a snapshot for who comes late.

    kernel → page   {op: "events",   seq, events}                   one more than the last seq
                    {op: "snapshot", seq, run, open, approvals, plan_approval, retry}
                                                                    the answer to init, resync
                    {op: "late", call_id, decision, at}             a click that came too late;
                                                                    call_id null: for the plan
    page → kernel   {kind: "init", id}                              clicks arrive: the handshake
                    {kind: "resync"}                                a gap in seq was seen
                    {kind: "decide", approval_id, decision, …}      see clicks.py
                    {kind: "stop"}

Deltas keep what is sent linear in the text. Messages can get lost on a busy connection, so they
are numbered and the page may ask for a snapshot.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.json_types import JsonDict
from ipyagent.schema import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    PlanProposed,
    RetryScheduled,
    Run,
    RunFinished,
    RunStarted,
    fold,
)
from ipyagent.schema.base import now
from ipyagent.ui.clicks import answer_of
from ipyagent.ui.secrets import told, without_secrets

INTERVAL = 0.04
"""Seconds between two messages while text streams: 25 a second."""

Send = Callable[[JsonDict], object]
"""Sends a message to one that follows."""


class Feed:
    """A listener that passes a run's events on to its followers, and takes what they say."""

    def __init__(
        self, approvals: Approvals, stop: Callable[[], object], cell_id: str | None = None
    ) -> None:
        self.approvals, self.stop = approvals, stop
        self.cell_id = cell_id
        """The notebook's cell in which the run is drawn."""
        self.followers: list[Send] = []
        self.changed: Callable[[], object] = lambda: None
        """Called after every event but pieces of text."""
        self._lock = threading.Lock()
        self._seq = 0
        self._run: Run | None = None
        self._open: _OpenMessage | None = None
        self._asked: dict[str, str] = {}
        self._decided: dict[str, tuple[ApprovalDecided, datetime]] = {}
        self._late: set[str] = set()
        self._plans: list[str] = []
        self._plan_asked: str | None = None
        self._retry: tuple[RetryScheduled, float] | None = None
        self._waiting: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, event: Event) -> None:
        """Tell an event; text is collected for a moment, all else goes out at once."""
        with self._lock:
            self._note(event)
            _append(self._waiting, event)
        if not isinstance(event, MessageDelta):
            self.flush()
            self.changed()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self.flush)
        if isinstance(event, ApprovalDecided):
            self._tell_late()

    def flush(self) -> None:
        """Send what is waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._lock:
            self._send_waiting(self.followers)

    def heard(self, message: Mapping[str, object], reply: Send) -> None:
        """What a page says; it may come on any thread. `reply` goes to that page alone."""
        match message:
            case {"kind": "init" | "resync"}:
                self._snapshot(reply)
            case {"kind": "stop"}:
                self.stop()
            case {"kind": "decide", "approval_id": str(approval_id)}:
                approval = self.approvals.find(approval_id)
                answer = answer_of(message, approval.shown) if approval else None
                if approval and answer and not self.approvals.decide(approval_id, answer):
                    self._too_late(approval)

    def follow(self, send: Send) -> None:
        """Tell one more from now on, beginning with how things are."""
        with self._lock:
            if send not in self.followers:
                self.followers.append(send)
        self._snapshot(send)

    def leave(self, send: Send) -> None:
        """Tell this one no more."""
        with self._lock:
            if send in self.followers:
                self.followers.remove(send)

    @property
    def has_begun(self) -> bool:
        """Whether there is a run to tell of."""
        return self._run is not None

    def is_about(self, run_id: str) -> bool:
        """Whether it tells of the run with that id."""
        return self._run is not None and self._run.id == run_id

    @property
    def run(self) -> Run:
        """The run as far as it was told."""
        if self._run is None:
            raise RuntimeError("no run has started")
        return self._run

    @property
    def asked(self) -> dict[str, str]:
        """The approvals that wait, by the ids of their calls."""
        with self._lock:
            return dict(self._asked)

    @property
    def plan_asked(self) -> str | None:
        """The approval that the run's plan waits for."""
        return self._plan_asked

    def _note(self, event: Event) -> None:
        """Keep what a snapshot needs."""
        self._run = fold(self._run, event)
        self._retry = (event, time.monotonic()) if isinstance(event, RetryScheduled) else None
        match event:
            case MessageStarted(step=step):
                self._open = _OpenMessage(step)
            case MessageDelta() if self._open is not None:
                self._open.add(event)
            case MessageFinished():
                self._open = None
            case ApprovalRequested():
                self._asked[event.call_id] = event.approval_id
            case PlanProposed(approval_id=str(asked)):
                self._plans.append(asked)
                self._plan_asked = asked
            case PlanProposed() | RunStarted() | RunFinished():
                self._plan_asked = None
            case ApprovalDecided():
                if approval_id := self._asked.pop(event.call_id, None):
                    self._decided[approval_id] = event, now()

    def _too_late(self, approval: Approval) -> None:
        if approval.id in self._plans:
            self._tell_late_for_plan(approval)
            return
        with self._lock:
            self._late.add(approval.id)
        self._tell_late()

    def _tell_late_for_plan(self, approval: Approval) -> None:
        edited = approval.answer.result().plan is not None
        decision, at = "edited" if edited else approval.decision, approval.decided_at
        late = {"op": "late", "call_id": None, "decision": decision}
        self._tell({**late, "at": at and at.isoformat()})

    def _tell_late(self) -> None:
        """Answer late clicks, once the decision that they came too late for has been told."""
        with self._lock:
            answered = self._late & self._decided.keys()
            self._late -= answered
            for event, at in (self._decided[each] for each in answered):
                late = {"op": "late", "call_id": event.call_id, "decision": event.decision}
                self._tell({**late, "at": at.isoformat()})

    def _snapshot(self, reply: Send) -> None:
        with self._lock:
            # Whoever asked has it in the snapshot.
            self._send_waiting([each for each in self.followers if each != reply])
            reply(
                {
                    "op": "snapshot",
                    "seq": self._seq,
                    "run": self._run and self._as_asked(self._run).to_dict(),
                    "open": self._open and self._open.to_dict(),
                    "approvals": self._asked,
                    "plan_approval": self._plan_asked,
                    "retry": self._retry and _still_waiting(*self._retry),
                }
            )

    def _send_waiting(self, followers: list[Send]) -> None:
        events, self._waiting = self._waiting, []
        if events:
            self._seq += 1
            said = [told(event).to_dict() for event in events]
            for send in followers:
                send({"op": "events", "seq": self._seq, "events": said})

    def _tell(self, message: JsonDict) -> None:
        for send in list(self.followers):
            send(message)

    def _as_asked(self, run: Run) -> Run:
        """Whole where the person decides, else masked."""
        masked = without_secrets(run, asking=True)
        return masked.model_copy(update={"plan": run.plan}) if self._plan_asked else masked


class _OpenMessage:
    """The reply that is streaming in, in pieces: joining them at each delta would be quadratic."""

    def __init__(self, step: int) -> None:
        self.step = step
        self._pieces: dict[str, list[str]] = {"text": [], "thinking": []}

    def add(self, delta: MessageDelta) -> None:
        self._pieces[delta.kind].append(delta.text)

    def to_dict(self) -> JsonDict:
        return {"step": self.step} | {kind: "".join(p) for kind, p in self._pieces.items()}


def _append(events: list[Event], event: Event) -> None:
    """Add an event; pieces of one text that wait together become one piece."""
    match events[-1:], event:
        case [MessageDelta() as last], MessageDelta() if last.kind == event.kind:
            events[-1] = last.model_copy(update={"text": last.text + event.text})
        case _:
            events.append(event)


def _still_waiting(retry: RetryScheduled, since: float) -> JsonDict:
    """The retry with the seconds that are left of its delay."""
    left = max(0.0, retry.delay - (time.monotonic() - since))
    return retry.to_dict() | {"delay": left}
