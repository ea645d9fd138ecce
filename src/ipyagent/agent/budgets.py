"""Budgets: hard limits that end a run, and a message count that only warns."""

from __future__ import annotations

from ipyagent.config import AgentConfig
from ipyagent.schema import Run, StopReason

WARNING_PERCENT = 80
"""The warning comes at this percentage of the allowed number of messages."""

GRACEFUL_REASONS = frozenset({StopReason.MAX_STEPS, StopReason.MAX_SECONDS})
"""Budgets after which the model may still answer once; a spent token budget ends the run at once.
"""

CLOSING_SECONDS = 30.0
"""Seconds that this last answer may take."""


def find_exhausted(run: Run, config: AgentConfig) -> StopReason | None:
    """Return the budget that `run` has used up, or None. Time is limited elsewhere."""
    if len(run.steps) >= config.max_steps:
        return StopReason.MAX_STEPS
    if config.max_tokens is not None and run.usage.total_tokens >= config.max_tokens:
        return StopReason.MAX_TOKENS
    if config.max_usd is not None and (run.cost_usd or 0.0) >= config.max_usd:
        return StopReason.MAX_USD
    return None


def length_warning(messages: int, at_most: int) -> str | None:
    """Return the warning for a conversation of this many prompts and answers, or None.

    The text stays the same from prompt to prompt, so it need not be repeated.
    """
    if 100 * messages < WARNING_PERCENT * at_most:
        return None
    if messages < at_most:
        return (
            f"This conversation nears {at_most} messages (chat.max_messages). All of it is sent "
            "with each prompt: the longer it is, the slower and dearer the answers become."
        )
    return (
        f"This conversation has {at_most} messages or more (chat.max_messages). Nothing is left "
        "out: all of it is sent with each prompt, which makes answers slower and dearer. "
        "`%agent session compact` summarises the older part, `%agent session new` begins anew."
    )
