"""Hard budgets, tested in this one place."""

from __future__ import annotations

from ipyagent.config import AgentConfig
from ipyagent.schema import Run, StopReason


def reached(run: Run, config: AgentConfig) -> StopReason | None:
    """The budget that `run` has used up; None while it may go on."""
    if len(run.steps) >= config.max_steps:
        return StopReason.MAX_STEPS
    if config.max_tokens is not None and run.usage.total_tokens >= config.max_tokens:
        return StopReason.MAX_TOKENS
    if config.max_usd is not None and (run.cost_usd or 0.0) >= config.max_usd:
        return StopReason.MAX_USD
    return None
