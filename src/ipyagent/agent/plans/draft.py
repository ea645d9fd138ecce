"""Plans: calls that the user sees as a whole, before any of them runs.

planning run ─▶ reply whose calls are all valid ─▶ draft in the journal ─▶ shown to the user
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ipyagent.agent.call_checks import check_unredacted
from ipyagent.agent.policy import Arguments, CallPolicy, Effect, Verdict
from ipyagent.agent.session.session import Session
from ipyagent.agent.tool_context import ToolContext
from ipyagent.errors import AgentError
from ipyagent.schema import (
    DecidedBy,
    Decision,
    PlanStep,
    Run,
    Scope,
    ToolCall,
    ToolStatus,
    now,
)
from ipyagent.schema.state import AS_DRAFT
from ipyagent.store.runs import plan_name
from ipyagent.tools.base import Tool, Toolbox, Where
from ipyagent.tools.static_analysis import Effects

PLANNED_OUTPUT = "Planned: runs once the plan is approved."

NEEDS_NOTEBOOK = (
    "cannot run in the background, because {step} works with the notebook's variables or cells"
)

NO_QUESTIONS = "nothing can be asked within a plan: ask in words, without calls, before you plan"

APPROVED = """\
<plan>
The user approved the plan {plan_id}{changed}. Its calls run now, one after the other.
</plan>\
"""

CHANGED = " after they changed it: what runs is what you see below"

CONCERN_MARK = "⚠ "
"""Starts a line of a step's note that says why its call would be asked about."""

_NUMBERED = re.compile(r"(?m)^[ \t]*\d+[.)]\s+(\S.*)$")


@dataclass(frozen=True)
class PlanningPolicy:
    """A policy for calls that are only planned."""

    policy: CallPolicy

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call; questions cannot be part of a plan."""
        if tool.question is not None:
            return Verdict(Effect.DENY, reason=NO_QUESTIONS)
        return self.policy.evaluate(tool, arguments, effects)

    def grant(self, tool: Tool, scope: Scope, effects: Effects | None = None) -> None:
        """Do nothing: nothing is asked, so nothing is allowed."""


@dataclass(frozen=True)
class ApprovedStepPolicy:
    """A policy for the calls of a step that the user approved; all others are judged as usual."""

    policy: CallPolicy
    step: PlanStep
    by: DecidedBy

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Judge the call. Rules that deny it, and new reasons to ask, still count."""
        verdict = self.policy.evaluate(tool, arguments, effects)
        call = self.step.call
        if tool.name != call.name or arguments != tool.check_arguments(call.arguments):
            return verdict
        asks = tool.always_asks(**arguments) if tool.always_asks else None
        if verdict.effect is Effect.DENY or (asks and asks not in self.step.note):
            return verdict
        return Verdict(Effect.ALLOW, self.by, decision=Decision.APPROVED)

    def grant(self, tool: Tool, scope: Scope, effects: Effects | None = None) -> None:
        """Remember a permission that the user gave beside the plan."""
        self.policy.grant(tool, scope, effects)


def planning_context(context: ToolContext) -> ToolContext:
    """Return a context in which calls are checked and none runs."""
    return replace(
        context, policy=PlanningPolicy(context.policy), dry_run=PLANNED_OUTPUT, planning=True
    )


def is_plan(run: Run) -> bool:
    """Return whether the newest reply's calls could all be approved as they are."""
    calls = run.steps[-1].executions
    return bool(calls) and all(call.dry_run and call.status is ToolStatus.SUCCESS for call in calls)


def proposed_steps(run: Run) -> tuple[PlanStep, ...]:
    """Return the steps that a planning run proposed; a step's note is its item of the list."""
    newest = run.steps[-1]
    notes = _NUMBERED.findall(newest.message.text) if newest.message else []
    if len(notes) != len(newest.executions):
        notes = [""] * len(newest.executions)
    calls = (execution.call for execution in newest.executions)
    return tuple(PlanStep(call=call, note=note) for call, note in zip(calls, notes, strict=True))


def notebook_step(toolbox: Toolbox, steps: Iterable[PlanStep]) -> str | None:
    """Return the first step that needs the notebook's main thread; None if the cell may end."""
    for number, step in enumerate(steps, 1):
        name = step.call.name
        if name in toolbox and toolbox.get(name).where in (Where.MAIN, Where.RELAY):
            return f"step {number} ({name})"
    return None


def create_draft(
    session: Session,
    context: ToolContext,
    origin: Run,
    steps: Iterable[PlanStep],
    *,
    changed: bool = False,
) -> Run:
    """Create a plan and store it before anybody sees it.

    `origin` is its planning run, or the plan that it replaces. Raises AgentError for steps that
    cannot run.
    """
    run_id = uuid.uuid4().hex[:12]
    plan = tuple(_prepare_step(context, f"{run_id}_{n}", step) for n, step in enumerate(steps, 1))
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


def _prepare_step(context: ToolContext, call_id: str, step: PlanStep) -> PlanStep:
    """Return the step as it would run. Its call gets a new id: providers refuse a used one."""
    given = step.call
    tool = context.toolbox.get(given.name)
    arguments = tool.check_arguments(given.arguments)
    verdict = PlanningPolicy(context.policy).evaluate(tool, arguments)
    check_unredacted(tool, given)
    if verdict.effect is Effect.DENY:
        raise AgentError(f"{tool.name} is not allowed: {verdict.reason}")
    if tool.validate is not None:
        tool.validate(**arguments)
    lines = [line for line in step.note.splitlines() if not line.startswith(CONCERN_MARK)]
    if verdict.effect is Effect.ASK and verdict.reason:
        lines.append(CONCERN_MARK + verdict.reason)
    call = ToolCall(id=call_id, name=given.name, arguments=given.arguments)
    return PlanStep(call=call, note="\n".join(lines))
