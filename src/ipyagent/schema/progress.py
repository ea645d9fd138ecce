"""The progress of a plan, derived from the calls that carry it out.

A step's call has the id X; its retries have X.2, X.3, and so on.
"""

from __future__ import annotations

from ipyagent.schema.results import ToolStatus
from ipyagent.schema.runs import Run, RunStatus, StopReason


def never_ran(run: Run) -> bool:
    """Return whether it is a plan that waits, or was denied as a whole."""
    waits = run.status is RunStatus.DRAFT or run.stop_reason is StopReason.DENIED
    return bool(run.plan) and not run.executions and waits


def plan_index(run: Run, call_id: str) -> int | None:
    """Return the step of the plan that a call carries out, from 0; None for any other call."""
    ids = [step.call.id for step in run.plan]
    base, _, attempt = call_id.rpartition(".")
    known = call_id if call_id in ids else base if attempt.isdecimal() else None
    return ids.index(known) if known in ids else None


def progress(run: Run) -> list[ToolStatus]:
    """Return the status of each step: that of its newest call, or pending."""
    states = [ToolStatus.PENDING] * len(run.plan)
    for execution in run.executions:
        if (index := plan_index(run, execution.call.id)) is not None:
            states[index] = execution.status
    return states
