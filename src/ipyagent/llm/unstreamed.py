"""Answers that are no stream although one was requested: a page, whole JSON, nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from ipyagent.llm.error_mapping import hide_keys
from ipyagent.phrases import ellipsize

_PAGES = {"text/html", "application/xhtml+xml", "application/xml", "text/xml"}

_FIELDS = ("data:", "event:", "id:", "retry:", "error:", ":")

WORDS = 100
"""Characters of a body that are shown."""

_MOST = 1_000_000


def content_type(stream: Any) -> str:
    """Return the media type of the answer, without parameters; "" for none."""
    hidden = getattr(stream, "_hidden_params", None) or {}
    headers = hidden.get("additional_headers") or {}
    content_type_header = str(headers.get("llm_provider-content-type") or "")
    return content_type_header.partition(";")[0].strip().lower()


def may_be_stream(kind: str) -> bool:
    """Return whether an answer of that type may be a stream, without looking at its body."""
    return kind not in _PAGES and kind != "application/json"


async def body_of(stream: Any) -> str:
    """Return the body, as far as it can be read here; a stream can still be read afterwards."""
    inner = getattr(stream, "completion_stream", None)
    response: Any = getattr(inner, "response", None) or getattr(inner, "http_response", None)
    if hasattr(response, "aread"):
        return str((await response.aread())[:_MOST].decode("utf-8", "replace"))
    lines: Any = getattr(inner, "streaming_response", None)
    read = ""
    if hasattr(lines, "__anext__"):
        async for line in lines:
            read += f"{line}\n"
            if len(read) > _MOST:
                break
    return read


def is_stream(body: str) -> bool:
    """Return whether a body consists of server-sent events, or is cut off in the first."""
    start = body.lstrip("\ufeff \t\r\n")
    return start.startswith(_FIELDS) or any(start and each.startswith(start) for each in _FIELDS)


def completion_in(litellm: Any, body: str) -> Any | None:
    """Return a whole completion in OpenAI's format; None if the body is none."""
    with suppress(Exception):
        body_json = json.loads(body)
        if body_json["choices"][0]["message"]["role"] == "assistant":
            return litellm.utils.convert_to_model_response_object(
                response_object=body_json, model_response_object=litellm.ModelResponse()
            )
    return None


def describe(kind: str, body: str, key: str | None = None) -> str:
    """Describe what arrived instead of a stream, without the key."""
    type_text = f"of type {kind}" if kind else "without a content type"
    words = hide_keys(body[:_MOST], key)
    if not words:
        return f"answered with an empty body, or one that is no stream, {type_text}"
    beginning = ellipsize(words, WORDS)
    return f"answered with a body {type_text} instead of a stream; it begins: {beginning}"
