"""Retries of transient failures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NoReturn, cast

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    retry_never,
    stop_after_attempt,
)

from ipyagent.config import RetryConfig
from ipyagent.errors import ModelUnavailableError, RetryExhaustedError

JITTER = 0.1  # of the delay, so that many notebooks do not come back at the same moment

Announce = Callable[[int, float, ModelUnavailableError], None]
"""Called before the wait with retry number n (from 1), the seconds, and the failure."""


def retrying(config: RetryConfig, announce: Announce) -> AsyncRetrying:
    """Return a caller that retries after ModelUnavailableError.

    After the last attempt it raises RetryExhaustedError.
    """
    return AsyncRetrying(
        retry=retry_if_exception_type(ModelUnavailableError) if config.enabled else retry_never,
        stop=stop_after_attempt(1 + config.max_retries),
        wait=lambda state: delay(state.attempt_number - 1, config, _error(state).retry_after),
        before_sleep=lambda state: announce(
            state.attempt_number, state.upcoming_sleep, _error(state)
        ),
        retry_error_callback=_give_up,
        sleep=asyncio.sleep,
    )


def delay(
    attempt: int,
    config: RetryConfig,
    retry_after: float | None = None,
    rand: Callable[[], float] = random.random,
) -> float:
    """Return the seconds to wait before retry number `attempt` (from 0).

    min(initial·base^attempt, max) plus a little jitter; at least what the service asked for in
    `retry_after`, but never more than max.
    """
    try:
        backoff = config.initial_delay * config.exponential_base**attempt
    except OverflowError:
        backoff = config.max_delay
    backoff = min(backoff, config.max_delay) * (1 + JITTER * rand())
    return min(max(backoff, retry_after or 0.0), config.max_delay)


def _error(state: RetryCallState) -> ModelUnavailableError:
    """Return the failure: only unavailable models are retried."""
    return cast("ModelUnavailableError", state.outcome and state.outcome.exception())


def _give_up(state: RetryCallState) -> NoReturn:
    raise RetryExhaustedError(state.attempt_number, _error(state)) from None
