"""Cancellation of a call that LiteLLM prepares in a thread.

A thread cannot be cancelled. LiteLLM's returns a coroutine, the request itself; if that were only
dropped, Python would warn in some later cell that it "was never awaited".
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
    """Return the result of `call`; after a cancellation, close the coroutine of its thread."""
    go_on = partial(call.send, None)
    prepared = False
    while not prepared:
        try:
            future: asyncio.Future[Any] = go_on()
        except StopIteration as end:
            return cast("T", end.value)
        go_on = partial(call.send, None)
        shield = asyncio.shield(future)  # else a cancellation would lose the thread's result
        try:
            prepared = asyncio.iscoroutine((yield from shield))
        except BaseException as error:
            if shield.cancelled() and not future.cancelled():
                future.add_done_callback(_close)
                go_on = partial(call.throw, error)
            # Otherwise it is the future's own failure, which `call` will get.
    return cast("T", (yield from call))


def _close(future: asyncio.Future[Any]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    if asyncio.iscoroutine(brought := future.result()):
        brought.close()
