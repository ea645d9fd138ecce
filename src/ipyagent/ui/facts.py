"""The small print of a run: tokens, cost, times and ids, the more of it the higher `verbose` is.

The live view says the same in `labextension/src/view/facts.ts`.
"""

from __future__ import annotations

from datetime import UTC

from ipyagent.schema import Run, Step, TokenUsage, ToolExecution
from ipyagent.ui.format import dollars, seconds
from ipyagent.ui.reveal import reveal

OPEN, COUNTED, ALL = 1, 2, 3
"""From which `Run.verbose` on cards and thinking are drawn open; what the model was told and what
each step took is shown; ids and reasons are."""


def footer(run: Run) -> list[str]:
    """What all steps took together, and the id under which logs and traces know the run."""
    parts = [usage_text(run.usage), f"trace {reveal(run.trace_id)}" if run.trace_id else ""]
    return [part for part in parts if part]


def usage_text(usage: TokenUsage) -> str:
    """Tokens in and out, and what the provider's cache had to do with them; "" for none."""
    read, made = usage.cache_read_tokens, usage.cache_creation_tokens
    parts = [f"{read:,} from cache" if read else "", f"{made:,} to cache" if made else ""]
    cache = ", ".join(part for part in parts if part)
    cache = f" ({cache})" if cache else ""
    said = f"{usage.prompt_tokens:,} tokens in{cache}, {usage.completion_tokens:,} out"
    return said if usage.total_tokens else ""


def step_facts(step: Step, verbose: int) -> str:
    """What one step took, and why the model ended it."""
    if verbose < COUNTED:
        return ""
    took = sum(e.duration or 0.0 for e in step.executions)
    reason = reveal(step.finish_reason or "") if verbose >= ALL else ""
    parts = [
        f"step {step.number}",
        usage_text(step.usage),
        dollars(step.cost_usd) if step.cost_usd is not None else "",
        f"thinking {seconds(step.thinking_seconds)}" if step.thinking_seconds else "",
        f"tools {seconds(took)}" if took else "",
        f"finish reason {reason}" if reason else "",
    ]
    return " · ".join(part for part in parts if part)


def call_facts(execution: ToolExecution, verbose: int) -> str:
    """A call's id, who decided on it and when it began."""
    if verbose < ALL:
        return ""
    decision, by, began = execution.decision, execution.decided_by, execution.started_at
    parts = [
        f"call {reveal(execution.call.id)}",
        f"{decision} by {by}" if decision and by else "",
        f"began {began.astimezone(UTC):%H:%M:%S} UTC" if began else "",
    ]
    return " · ".join(part for part in parts if part)
