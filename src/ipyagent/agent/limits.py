"""Hard budgets, tested in this one place."""

from __future__ import annotations

from ipyagent.config import AgentConfig
from ipyagent.schema import Run, StopReason


def reached(run: Run, config: AgentConfig) -> tuple[StopReason, str] | None:
    """The budget that `run` has used up, with a sentence about it; None while it may go on."""
    tokens, dollars = run.usage.total_tokens, run.cost_usd or 0.0
    if len(run.steps) >= config.max_steps:
        return StopReason.MAX_STEPS, f"Stopped after {config.max_steps} steps (max_steps)."
    if config.max_tokens is not None and tokens >= config.max_tokens:
        return StopReason.MAX_TOKENS, f"Stopped after {tokens:,} tokens (max_tokens)."
    if config.max_usd is not None and dollars >= config.max_usd:
        return StopReason.MAX_USD, f"Stopped after ${dollars:.4f} (max_usd)."
    return None
