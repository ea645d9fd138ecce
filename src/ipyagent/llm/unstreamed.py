"""Answers that are no stream although one was requested: a page, whole JSON, nothing."""

from __future__ import annotations

from ipyagent.llm.error_mapping import hide_keys
from ipyagent.phrases import ellipsize

_PAGES = {"text/html", "application/xhtml+xml", "application/xml", "text/xml"}

_FIELDS = ("data:", "event:", "id:", "retry:", "error:", ":")

WORDS = 100
"""Characters of a body that are shown."""

MOST_BODY = 1_000_000
"""Characters of a body that are read."""


def may_be_stream(kind: str) -> bool:
    """Return whether an answer of that type may be a stream, without looking at its body."""
    return kind not in _PAGES and kind != "application/json"


def is_stream(body: str) -> bool:
    """Return whether a body consists of server-sent events, or is cut off in the first."""
    start = body.lstrip("\ufeff \t\r\n")
    return start.startswith(_FIELDS) or any(start and each.startswith(start) for each in _FIELDS)


def describe(kind: str, body: str, key: str | None = None) -> str:
    """Describe what arrived instead of a stream, without the key."""
    type_text = f"of type {kind}" if kind else "without a content type"
    words = hide_keys(body[:MOST_BODY], key)
    if not words:
        return f"answered with an empty body, or one that is no stream, {type_text}"
    beginning = ellipsize(words, WORDS)
    return f"answered with a body {type_text} instead of a stream; it begins: {beginning}"
