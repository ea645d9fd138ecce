"""A size limit on each event of a service, applied where the bytes arrive.

The SDK's and LiteLLM's parsers collect a whole event before they pass on any of it, and the time
for that can grow with the square of its size.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

MAX_EVENT = 8 * 1024 * 1024
"""Bytes of one event, or of a body without events: twice the limit of a whole reply."""

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_OVERLAP = 3


class EventTooLargeError(Exception):
    """A service sent more than MAX_EVENT in one piece."""

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_EVENT // 2**20} MB came in one piece")


def limit_events(stream: Any) -> None:
    """Let a reply of LiteLLM's end with EventTooLargeError if an event is too large."""
    response = response_of(stream)
    if hasattr(response, "aiter_bytes"):
        response.aiter_bytes = _limit_events(response.aiter_bytes)


def response_of(stream: Any) -> Any:
    """Return the httpx response that a stream of LiteLLM's reads; None if it is hidden."""
    inner = getattr(stream, "completion_stream", None)
    known = getattr(inner, "response", None) or getattr(inner, "http_response", None)
    return known or _response_behind(getattr(inner, "streaming_response", None))


def _response_behind(lines: Any, depth: int = 3) -> Any:
    """Return the response whose `aiter_lines()` or `aiter_text()` a chain of generators reads."""
    frame = getattr(lines, "ag_frame", None)
    if frame is None or not depth:
        return None
    values = list(frame.f_locals.values())
    responses = (each for each in values if hasattr(each, "aiter_bytes"))
    behind = (_response_behind(each, depth - 1) for each in values)
    return next(responses, None) or next(filter(None, behind), None)


def _limit_events(read: Callable[..., AsyncIterator[bytes]]) -> Callable[..., AsyncIterator[bytes]]:
    async def read_some(*args: Any, **kwargs: Any) -> AsyncGenerator[bytes, None]:
        size, before = 0, b""
        async for piece in read(*args, **kwargs):
            joined = before + piece
            end = max(joined.rfind(each) for each in _ENDS)
            size = len(joined) - end if end >= 0 else size + len(piece)
            if size > MAX_EVENT:
                raise EventTooLargeError
            before = joined[-_OVERLAP:]
            yield piece

    return read_some
