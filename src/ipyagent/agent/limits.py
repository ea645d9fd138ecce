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
    """Return what to tell the user about a conversation of so many prompts and answers.

    The text stays the same from prompt to prompt, so that it need not be shown with each.
    """
    if 100 * messages < NEARLY * at_most:
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


def _tokens(run: Run) -> int:
    return sum(step.usage.total_tokens for step in run.steps)
