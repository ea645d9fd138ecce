"""Budgets: the hard ones that end a run, and the number of messages that is only warned about."""

from __future__ import annotations

from ipyagent.config import AgentConfig
from ipyagent.schema import Run, StopReason

NEARLY = 80
"""Percent of the number of messages that is warned about."""

GRACEFUL = frozenset({StopReason.MAX_STEPS, StopReason.MAX_SECONDS})
"""Budgets after which the model may still say a last word; more tokens would be more money."""

CLOSING_SECONDS = 30.0
"""What that last word may take."""


def reached(run: Run, config: AgentConfig) -> StopReason | None:
    """The budget that `run` has used up; None while it may go on. Time has its own clock."""
    if len(run.steps) >= config.max_steps:
        return StopReason.MAX_STEPS
    # Without Run.usage, which builds a new total for each step.
    if config.max_tokens is not None and _tokens(run) >= config.max_tokens:
        return StopReason.MAX_TOKENS
    if config.max_usd is not None and (run.cost_usd or 0.0) >= config.max_usd:
        return StopReason.MAX_USD
    return None


def crowded(messages: int, at_most: int) -> str | None:
    """What to tell the person about a conversation of so many messages."""
    if 100 * messages < NEARLY * at_most:
        return None
    if messages < at_most:
        return f"This session has {messages} of {at_most} messages (chat.max_messages)."
    return (
        f"This session has {messages} messages; chat.max_messages is {at_most}. All of them are "
        "still sent. `%agent session compact` summarises the older ones, `%agent session new` "
        "begins anew."
    )


def _tokens(run: Run) -> int:
    return sum(step.usage.total_tokens for step in run.steps)
