"""Plans: calls that a person is shown as a whole, before any of them runs.

planning run ─▶ reply whose calls are all valid ─▶ draft in the journal ─▶ shown to the person
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ipyagent.agent.dispatch import Dispatcher, check_whole
from ipyagent.agent.policy import Arguments, Effect, Judge, Verdict
from ipyagent.agent.session import Session
from ipyagent.errors import AgentError
from ipyagent.schema import (
    DecidedBy,
    Decision,
    PlanStep,
    Run,
    Scope,
    ToolCall,
    ToolStatus,
)
from ipyagent.schema.base import now
from ipyagent.schema.replayed import AS_DRAFT
from ipyagent.store.plans import plan_name
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.reach import Reach
from ipyagent.tools.toolbox import Toolbox

UNRUN = "Planned: runs once the plan is approved."

TIED = "cannot run in the background, because {step} works with the notebook's variables or cells"

NO_QUESTIONS = "nothing can be asked within a plan: ask in words, without calls, before you plan"

APPROVED = """\
<plan>
The person approved the plan {plan_id}{changed}. Its calls run now, one after the other.
</plan>\
"""

CHANGED = " after they changed it: what runs is what you see below"

MARK = "⚠ "
"""Begins a line of a step's note that says why this call would be asked about."""

_NUMBERED = re.compile(r"(?m)^[ \t]*\d+[.)]\s+(\S.*)$")


@dataclass(frozen=True)
class Planning:
    """Judges calls that are only to be planned."""

    policy: Judge

    def judge(self, tool: Tool, arguments: Arguments, reach: Reach | None = None) -> Verdict:
        """What would become of the call; questions cannot be part of a plan."""
        if tool.question is not None:
            return Verdict(Effect.DENY, reason=NO_QUESTIONS)
        return self.policy.judge(tool, arguments, reach)

    def grant(self, tool: Tool, scope: Scope, reach: Reach | None = None) -> None:
        """Nothing is asked, so nothing is allowed."""


@dataclass(frozen=True)
class Approved:
    """Judges the calls of a step that a person approved; all others are judged as usual."""

    policy: Judge
    step: PlanStep
    by: DecidedBy

    def judge(self, tool: Tool, arguments: Arguments, reach: Reach | None = None) -> Verdict:
        """What becomes of the call. Rules that deny it, and new reasons to ask, still count."""
        verdict = self.policy.judge(tool, arguments, reach)
        call = self.step.call
        if tool.name != call.name or arguments != tool.check(call.arguments):
            return verdict
        asks = tool.always_asks(**arguments) if tool.always_asks else None
        if verdict.effect is Effect.DENY or (asks and asks not in self.step.note):
            return verdict
        return Verdict(Effect.ALLOW, self.by, decision=Decision.APPROVED)

    def grant(self, tool: Tool, scope: Scope, reach: Reach | None = None) -> None:
        """Remember what a person allowed beside the plan."""
        self.policy.grant(tool, scope, reach)


def unrun(dispatcher: Dispatcher) -> Dispatcher:
    """One that checks calls and runs none."""
    policy = Planning(dispatcher.policy)
    return replace(dispatcher, policy=policy, dry_run=True, unrun=UNRUN, planning=True)


def is_plan(run: Run) -> bool:
    """Whether the newest reply's calls could all be approved as they are."""
    calls = run.steps[-1].executions
    return bool(calls) and all(call.status is ToolStatus.SUCCESS for call in calls)


def steps_of(run: Run) -> tuple[PlanStep, ...]:
    """What a planning run proposed; a step's note is its line of the list beside the calls."""
    newest = run.steps[-1]
    notes = _NUMBERED.findall(newest.message.text) if newest.message else []
    if len(notes) != len(newest.executions):
        notes = [""] * len(newest.executions)
    calls = (execution.call for execution in newest.executions)
    return tuple(PlanStep(call=call, note=note) for call, note in zip(calls, notes, strict=True))


def tied_step(toolbox: Toolbox, steps: Iterable[PlanStep]) -> str | None:
    """Name the first step that needs the notebook's main thread; None where the cell may end."""
    for number, step in enumerate(steps, 1):
        name = step.call.name
        if name in toolbox and toolbox.get(name).where in (Where.MAIN, Where.RELAY):
            return f"step {number} ({name})"
    return None


def drafted(
    session: Session,
    dispatcher: Dispatcher,
    origin: Run,
    steps: Iterable[PlanStep],
    *,
    changed: bool = False,
) -> Run:
    """A plan, stored before anybody sees it. `origin` is its planning run, or the plan before it.

    Raises AgentError for steps that cannot run.
    """
    run_id = uuid.uuid4().hex[:12]
    plan = tuple(_step(dispatcher, f"{run_id}_{n}", step) for n, step in enumerate(steps, 1))
    if not plan:
        raise AgentError("a plan has at least one step; to have none of them, deny it")
    plan_id = plan_name(plan)
    draft = origin.model_copy(
        update={
            "id": run_id,
            "parent_id": origin.parent_id if origin.plan else origin.id,
            "context": APPROVED.format(plan_id=plan_id, changed=CHANGED if changed else ""),
            "plan": plan,
            "plan_id": plan_id,
            "max_steps": len(plan),
            "started_at": now(),
            **AS_DRAFT,
        }
    )
    if changed:
        session.journal.cancel(session.id, origin.id)
    session.journal.draft(draft, session.id)
    return draft


def _step(dispatcher: Dispatcher, call_id: str, step: PlanStep) -> PlanStep:
    """The step as it would run. Its call has a new id: providers refuse one that was used."""
    given = step.call
    tool = dispatcher.toolbox.get(given.name)
    arguments = tool.check(given.arguments)
    verdict = Planning(dispatcher.policy).judge(tool, arguments)
    check_whole(tool, given)
    if verdict.effect is Effect.DENY:
        raise AgentError(f"{tool.name} is not allowed: {verdict.reason}")
    if tool.validate is not None:
        tool.validate(**arguments)
    lines = [line for line in step.note.splitlines() if not line.startswith(MARK)]
    if verdict.effect is Effect.ASK and verdict.reason:
        lines.append(MARK + verdict.reason)
    call = ToolCall(id=call_id, name=given.name, arguments=given.arguments)
    return PlanStep(call=call, note="\n".join(lines))
