"""A call that is given up while LiteLLM prepares it in a thread.

A thread cannot be cancelled. What LiteLLM's brings is a coroutine, the request itself; if that were
only dropped, Python would tell some later cell that it "was never awaited".
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")


@types.coroutine
def close_if_given_up(call: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """The result of `call`; a coroutine that its thread brings after a cancellation is closed."""
    go_on = partial(call.send, None)
    prepared = False
    while not prepared:
        try:
            future: asyncio.Future[Any] = go_on()
        except StopIteration as end:
            return cast("T", end.value)
        go_on = partial(call.send, None)
        shield = asyncio.shield(future)  # else a cancellation would lose what the thread brings
        try:
            prepared = asyncio.iscoroutine((yield from shield))
        except BaseException as error:
            if shield.cancelled() and not future.cancelled():
                future.add_done_callback(_close)
                go_on = partial(call.throw, error)
            # Otherwise it is the future's own failure, which `call` gets as it goes on.
    return cast("T", (yield from call))


def _close(future: asyncio.Future[Any]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    if asyncio.iscoroutine(brought := future.result()):
        brought.close()
