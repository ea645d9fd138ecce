"""The bytes beneath LiteLLM's streams: their type, their whole, a limit on what comes at once."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from ipyagent.llm.direct.events import EventSplitter
from ipyagent.llm.reply_parts import MOST_BODY
from ipyagent.llm.service_error import EventTooLargeError

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_OVERLAP = 3


def content_type(stream: Any) -> str:
    """Return the media type of the answer, without parameters; "" for none."""
    hidden = getattr(stream, "_hidden_params", None) or {}
    headers = hidden.get("additional_headers") or {}
    content_type_header = str(headers.get("llm_provider-content-type") or "")
    return content_type_header.partition(";")[0].strip().lower()


async def body_of(stream: Any) -> str:
    """Return the body, as far as it can be read here; a stream can still be read afterwards."""
    inner = getattr(stream, "completion_stream", None)
    response: Any = getattr(inner, "response", None) or getattr(inner, "http_response", None)
    if hasattr(response, "aread"):
        return str((await response.aread())[:MOST_BODY].decode("utf-8", "replace"))
    lines: Any = getattr(inner, "streaming_response", None)
    read = ""
    if hasattr(lines, "__anext__"):
        async for line in lines:
            read += f"{line}\n"
            if len(read) > MOST_BODY:
                break
    return read


def completion_in(litellm: Any, body: str) -> Any | None:
    """Return a whole completion in OpenAI's format; None if the body is none."""
    with suppress(Exception):
        body_json = json.loads(body)
        if body_json["choices"][0]["message"]["role"] == "assistant":
            return litellm.utils.convert_to_model_response_object(
                response_object=body_json, model_response_object=litellm.ModelResponse()
            )
    return None


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
            if size > EventSplitter.most:
                raise EventTooLargeError(EventSplitter.most)
            before = joined[-_OVERLAP:]
            yield piece

    return read_some
