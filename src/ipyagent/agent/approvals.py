"""Approvals: each covers one call with exactly its arguments, or one plan, for one use.

    pending ──▶ approved ──▶ used
       ├──────▶ denied
       ├──────▶ changed ──▶ pending, as an approval of the changed call or plan
       └──────▶ expired

Buttons, the terminal prompt and `%agent approve` all call `Approvals.decide`; the first decision
wins. `Approvals.use` is called before execution: it compares the call about to run with the call
that was approved.

What the user adds while a run is on comes in the same way; the model reads it with its next
request.

    a page, %agent say ──▶ Steering ──▶ user_texts_changed ──▶ the next step_started

Every change is an event of the run, so nothing that was said is hidden.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from ipyagent import schema
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.prompts import Validator, validate
from ipyagent.digests import digest_json
from ipyagent.errors import AgentError, ApprovalExpiredError, SessionError
from ipyagent.json_types import JsonDict

NO_RUN = (
    "No run is on that could read this. Write it as the next prompt, in a cell that begins with "
    "%%agent."
)

ALREADY_SENT = "That text does not wait any more: it was sent, or taken back before."

HIDDEN_FROM_TEXT = (
    "Your text held what looks like a secret. It is hidden from the model, the record and this "
    "transcript; name the environment variable that holds it instead."
)

PATIENCE = 10.0
"""Seconds in which a run takes a text: its loop is never busy for long."""


@dataclass(frozen=True)
class _Way:
    """The way into one run, whose loop emits all of its events."""

    stream: EventStream
    validators: tuple[Validator, ...]
    loop: asyncio.AbstractEventLoop

    def add(self, text: str) -> None:
        text_id = uuid.uuid4().hex[:8]
        self._change((*self.stream.run.unsent, schema.UserText(id=text_id, text=text)))
        if self.stream.run.unsent[-1].text != text:
            self.stream.emit(schema.Notice(text=HIDDEN_FROM_TEXT))

    def remove(self, text_id: str) -> None:
        left = tuple(each for each in self.stream.run.unsent if each.id != text_id)
        if left == self.stream.run.unsent:
            raise SessionError(ALREADY_SENT)
        self._change(left)

    def _change(self, texts: tuple[schema.UserText, ...]) -> None:
        self.stream.emit(schema.UserTextsChanged(texts=texts))


class Steering:
    """The ways of the user's texts into the runs of a kernel, from any thread."""

    def __init__(self) -> None:
        self._ways: dict[str, _Way] = {}

    @contextmanager
    def accept(self, stream: EventStream, validators: Iterable[Validator]) -> Iterator[None]:
        """Take texts for the stream's run meanwhile; in the loop of the run."""
        run_id = stream.run.id
        self._ways[run_id] = _Way(stream, tuple(validators), asyncio.get_running_loop())
        try:
            yield
        finally:
            del self._ways[run_id]

    def say(self, text: str, run_id: str | None = None) -> None:
        """Queue a text for the next request of a run, by default of the newest one.

        Raises AgentError for a text that is refused, SessionError if the run takes no texts.
        """
        run_id = next(reversed(self._ways), "") if run_id is None else run_id
        way = self._find(run_id)
        validate(text.strip(), way.validators)
        self._do(run_id, lambda: way.add(text.strip()))

    def take_back(self, text_id: str, run_id: str) -> None:
        """Remove a text that waits; raises SessionError if it does not."""
        way = self._find(run_id)
        self._do(run_id, lambda: way.remove(text_id))

    def _find(self, run_id: str) -> _Way:
        if run_id not in self._ways:
            raise SessionError(NO_RUN)
        return self._ways[run_id]

    def _do(self, run_id: str, job: Callable[[], None]) -> None:
        """Do something in the run's loop, if the run still takes texts then."""
        loop, done = self._find(run_id).loop, Future[None]()

        def work() -> None:
            try:
                self._find(run_id)
                job()
                done.set_result(None)
            except Exception as error:
                done.set_exception(error)

        if _is_running(loop):
            work()
        else:
            try:
                loop.call_soon_threadsafe(work)
            except RuntimeError:  # the loop is closed
                raise SessionError(NO_RUN) from None
        try:
            done.result(PATIENCE)
        except TimeoutError:
            raise SessionError("The run did not take the text: its loop is blocked.") from None


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether this thread runs that loop now."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


@dataclass(frozen=True)
class Answer:
    """The user's answer.

    `scope` is how far an approval reaches, `text` the reply to a question. `plan` are the steps,
    and `arguments` those of a call, that replace the proposed ones, which is asked about anew.
    """

    decision: schema.Decision
    by: schema.DecidedBy
    reason: str | None = None
    scope: schema.Scope = schema.Scope.ONCE
    text: str | None = None
    plan: tuple[schema.PlanStep, ...] | None = None
    arguments: JsonDict | None = None


@dataclass
class Approval:
    """A question to the user: may exactly this call, or this plan, run?"""

    id: str
    subject: schema.ToolExecution | schema.Run
    digest: str
    answer: Future[Answer] = field(default_factory=Future)
    decided_at: datetime | None = None
    used: bool = False
    was_missed: bool = False
    """True if the user clicked on it after it was decided."""

    @property
    def decision(self) -> schema.Decision | None:
        """The decision; None while the question is open."""
        return self.answer.result().decision if self.answer.done() else None


class Approvals:
    """All approvals of a kernel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._all: dict[str, Approval] = {}
        self.steering = Steering()
        """The texts that the user adds to runs."""

    def open_call(self, execution: schema.ToolExecution) -> Approval:
        """Ask about a call, as the user sees it."""
        return self._register(execution, _digest_call(execution.call))

    def open_plan(self, plan: schema.Run, digest: str) -> Approval:
        """Ask about a plan; the journal makes sure that it runs once, as it was stored."""
        return self._register(plan, digest)

    def _register(self, subject: schema.ToolExecution | schema.Run, digest: str) -> Approval:
        with self._lock:
            approval = Approval(f"a{next(self._numbers)}", subject, digest)
            self._all[approval.id] = approval
            return approval

    def pending(self) -> list[Approval]:
        """Return the unanswered approvals, oldest first."""
        with self._lock:
            return [a for a in self._all.values() if not a.answer.done()]

    def get(self, approval_id: str) -> Approval | None:
        """Return the approval with this id, answered or not."""
        with self._lock:
            return self._all.get(approval_id)

    def decide(self, approval_id: str, answer: Answer) -> bool:
        """Answer a question; return False if it is unknown or already answered."""
        with self._lock:
            approval = self._all.get(approval_id)
            if approval is None or approval.answer.done():
                return False
            approval.decided_at = schema.now()
            approval.answer.set_result(answer)
            return True

    def expire(self, approval: Approval) -> None:
        """Close a question that can no longer be answered."""
        self.decide(approval.id, Answer(schema.Decision.EXPIRED, schema.DecidedBy.POLICY))

    def use(self, approval: Approval, call: schema.ToolCall) -> None:
        """Spend an approval on running `call`.

        Raises ApprovalExpiredError if it has expired, AgentError if `call` is not the call
        approved.
        """
        with self._lock:
            if approval.used:
                raise ApprovalExpiredError(f"{call.name} does not run: its approval was used")
            if approval.decision is schema.Decision.EXPIRED:
                raise ApprovalExpiredError(f"{call.name} does not run: nobody approved it in time")
            if approval.decision is not schema.Decision.APPROVED or approval.digest != _digest_call(
                call
            ):
                raise AgentError(f"{call.name} does not run: this call was not approved")
            approval.used = True


def _digest_call(call: schema.ToolCall) -> str:
    return digest_json([call.id, call.name, call.arguments])
