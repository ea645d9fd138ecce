"""Telling that something is tried again, before the wait."""

from __future__ import annotations

from collections.abc import Callable

from ipyagent.schema import Event, RetryScheduled

Announce = Callable[[int, float, object], None]
"""Hears of retry number n (from 1), of the seconds until then, and of what went wrong."""


def announcing(emit: Callable[[Event], None], step: int, of: int) -> Announce:
    """Retries within a step, of which there are at most `of`."""

    def announce(attempt: int, seconds: float, problem: object) -> None:
        reason = str(problem).partition("\n")[0]  # what can be done matters when all has failed
        emit(RetryScheduled(step=step, attempt=attempt, of=of, delay=seconds, reason=reason))

    return announce
