"""How long to wait before a transient failure is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable

from ipyagent.config import RetryConfig

JITTER = 0.1  # of the delay, so that many notebooks do not come back at the same moment


def delay(
    attempt: int,
    config: RetryConfig,
    retry_after: float | None = None,
    rand: Callable[[], float] = random.random,
) -> float:
    """Seconds to wait before retry number `attempt` (from 0).

    min(initial·base^attempt, max) plus a little jitter; at least what the service asked for in
    `retry_after`, but never more than max.
    """
    try:
        backoff = config.initial_delay * config.exponential_base**attempt
    except OverflowError:
        backoff = config.max_delay
    backoff = min(backoff, config.max_delay) * (1 + JITTER * rand())
    return min(max(backoff, retry_after or 0.0), config.max_delay)
