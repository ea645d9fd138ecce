"""What a prompt must be like, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ipyagent.errors import AgentError
from ipyagent.schema import MAX_TYPED

Validator = Callable[[str], object]
"""Raises ValueError, saying why, for a prompt that it refuses."""


def not_empty(prompt: str) -> None:
    """There is something to answer."""
    if not prompt.strip():
        raise ValueError("The prompt is empty: write what the agent should do.")


def not_too_long(prompt: str) -> None:
    """It was typed, not pasted: what is longer belongs where it can be read in parts."""
    typed = len(prompt.strip())
    if typed > MAX_TYPED:
        raise ValueError(
            f"The prompt has {typed:,} characters; at most {MAX_TYPED:,} can be typed. "
            "Put the text into a file or a variable and mention it with @."
        )


VALIDATORS: tuple[Validator, ...] = (not_empty, not_too_long)
"""What every prompt has to pass."""


def validate(prompt: str, validators: Iterable[Validator] = VALIDATORS) -> None:
    """Ask all validators; raises AgentError with the first objection."""
    for check in validators:
        try:
            check(prompt)
        except ValueError as error:
            raise AgentError(str(error)) from None
