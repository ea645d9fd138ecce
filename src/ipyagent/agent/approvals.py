"""Approvals: each covers one call with exactly its arguments, or one plan, for one use.

    pending ──▶ approved ──▶ used
       ├──────▶ denied
       └──────▶ expired

Buttons, the terminal prompt and `%agent approve` all call `Approvals.decide`; the first decision
wins. `Approvals.use` is called before execution: it compares the call about to run with the call
that was approved.
"""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime

from ipyagent.agent.steering import Steering
from ipyagent.digests import digest_json
from ipyagent.errors import AgentError, ApprovalExpiredError
from ipyagent.schema import DecidedBy, Decision, PlanStep, Run, Scope, ToolCall, ToolExecution
from ipyagent.schema.base import now


@dataclass(frozen=True)
class Answer:
    """The user's answer.

    `scope` is how far an approval reaches, `text` the reply to a question, `plan` the steps that
    replace the proposed ones.
    """

    decision: Decision
    by: DecidedBy
    reason: str | None = None
    scope: Scope = Scope.ONCE
    text: str | None = None
    plan: tuple[PlanStep, ...] | None = None


@dataclass
class Approval:
    """A question to the user: may exactly this call, or this plan, run?"""

    id: str
    subject: ToolExecution | Run
    digest: str
    answer: Future[Answer] = field(default_factory=Future)
    decided_at: datetime | None = None
    used: bool = False
    was_missed: bool = False
    """True if the user clicked on it after it was decided."""

    @property
    def decision(self) -> Decision | None:
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

    def open_call(self, execution: ToolExecution) -> Approval:
        """Ask about a call, as the user sees it."""
        return self._register(execution, _digest_call(execution.call))

    def open_plan(self, plan: Run, digest: str) -> Approval:
        """Ask about a plan; the journal makes sure that it runs once, as it was stored."""
        return self._register(plan, digest)

    def _register(self, subject: ToolExecution | Run, digest: str) -> Approval:
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
            approval.decided_at = now()
            approval.answer.set_result(answer)
            return True

    def expire(self, approval: Approval) -> None:
        """Close a question that can no longer be answered."""
        self.decide(approval.id, Answer(Decision.EXPIRED, DecidedBy.POLICY))

    def use(self, approval: Approval, call: ToolCall) -> None:
        """Spend an approval on running `call`.

        Raises ApprovalExpiredError if it has expired, AgentError if `call` is not the call
        approved.
        """
        with self._lock:
            if approval.used:
                raise ApprovalExpiredError(f"{call.name} does not run: its approval was used")
            if approval.decision is Decision.EXPIRED:
                raise ApprovalExpiredError(f"{call.name} does not run: nobody approved it in time")
            if approval.decision is not Decision.APPROVED or approval.digest != _digest_call(call):
                raise AgentError(f"{call.name} does not run: this call was not approved")
            approval.used = True


def _digest_call(call: ToolCall) -> str:
    return digest_json([call.id, call.name, call.arguments])
