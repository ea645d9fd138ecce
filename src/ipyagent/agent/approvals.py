"""Approvals: each is about one call with exactly its arguments, or one plan, and good for one use.

    pending ──▶ approved ──▶ used
       ├──────▶ denied
       └──────▶ expired

Buttons, the prompt and `%agent approve` all end in `Approvals.decide`; the first wins, whatever
races. `Approvals.use` is the executor's side: it compares the call about to run with the one that
was shown.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from ipyagent.errors import AgentError, ApprovalExpiredError
from ipyagent.schema import DecidedBy, Decision, PlanStep, Run, Scope, ToolCall, ToolExecution
from ipyagent.schema.base import now


@dataclass(frozen=True)
class Answer:
    """A person's answer.

    `scope` is how far an approval goes, `text` what they say to a question, `plan` the steps that
    they want instead of those that were proposed.
    """

    decision: Decision
    by: DecidedBy
    reason: str | None = None
    scope: Scope = Scope.ONCE
    text: str | None = None
    plan: tuple[PlanStep, ...] | None = None


@dataclass
class Approval:
    """A question to the person: may exactly this call run, or this plan?"""

    id: str
    shown: ToolExecution | Run
    digest: str
    answer: Future[Answer] = field(default_factory=Future)
    decided_at: datetime | None = None
    used: bool = False

    @property
    def decision(self) -> Decision | None:
        """What was decided; None while it is open."""
        return self.answer.result().decision if self.answer.done() else None


class Approvals:
    """All approvals of a kernel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._all: dict[str, Approval] = {}

    def open(self, shown: ToolExecution) -> Approval:
        """Ask about a call, as it is shown to the person."""
        return self._open(shown, digest(shown.call))

    def open_plan(self, shown: Run, digest: str) -> Approval:
        """Ask about a plan; the journal sees to it that it is run once, as it was stored."""
        return self._open(shown, digest)

    def _open(self, shown: ToolExecution | Run, digest: str) -> Approval:
        with self._lock:
            approval = Approval(f"a{next(self._numbers)}", shown, digest)
            self._all[approval.id] = approval
            return approval

    def pending(self) -> list[Approval]:
        """Those that wait for an answer, oldest first."""
        with self._lock:
            return [a for a in self._all.values() if not a.answer.done()]

    def find(self, approval_id: str) -> Approval | None:
        """The question with that id, also when it was answered long ago."""
        with self._lock:
            return self._all.get(approval_id)

    def decide(self, approval_id: str, answer: Answer) -> bool:
        """Answer a question; False when it is unknown or was answered before."""
        with self._lock:
            approval = self._all.get(approval_id)
            if approval is None or approval.answer.done():
                return False
            approval.decided_at = now()
            approval.answer.set_result(answer)
            return True

    def expire(self, approval: Approval) -> None:
        """Close a question that nobody will answer any more."""
        self.decide(approval.id, Answer(Decision.EXPIRED, DecidedBy.POLICY))

    def use(self, approval: Approval, call: ToolCall) -> None:
        """Spend an approval on running `call`.

        Raises ApprovalExpiredError where it is too late, AgentError for a call that is not the one
        approved.
        """
        with self._lock:
            if approval.used:
                raise ApprovalExpiredError(f"{call.name} does not run: its approval was used")
            if approval.decision is Decision.EXPIRED:
                raise ApprovalExpiredError(f"{call.name} does not run: nobody approved it in time")
            if approval.decision is not Decision.APPROVED or approval.digest != digest(call):
                raise AgentError(f"{call.name} does not run: this call was not approved")
            approval.used = True


def digest(call: ToolCall) -> str:
    """SHA-256 over a call's id, name and arguments, as canonical JSON."""
    exact = json.dumps([call.id, call.name, call.arguments], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(exact.encode()).hexdigest()
