"""The usage of a run and its steps."""

from __future__ import annotations

from ipyagent.schema import Run, Step, TokenUsage, Totals
from ipyagent.ui import transcript
from ipyagent.ui.formatting import dollars, seconds
from ipyagent.ui.reveal import reveal
from ipyagent.ui.transcribe.call import ALL, COUNTED


def transcribe_footer(run: Run, totals: Totals) -> transcript.Footer:
    """Return the usage of all steps, and the trace id."""
    usage = usage_text(totals.usage)
    return transcript.Footer(facts=(usage,) if usage else (), trace_id=reveal(run.trace_id))


def usage_text(usage: TokenUsage) -> str:
    """Return the tokens in and out, and the share of the provider's cache."""
    if not usage.total_tokens:
        return ""
    read, made = usage.cache_read_tokens, usage.cache_creation_tokens
    parts = [f"{read:,} from cache" if read else "", f"{made:,} to cache" if made else ""]
    cache = ", ".join(part for part in parts if part)
    cache = f" ({cache})" if cache else ""
    return f"{usage.prompt_tokens:,} tokens in{cache}, {usage.completion_tokens:,} out"


def step_facts(step: Step, verbose: int) -> str:
    """Return one step's usage and finish reason; "" if they are not shown."""
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
