"""Trace ids: one for each cell's run, made here or taken over from whoever asked for the run."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import quote

from ipyagent.errors import ConfigError

_SAFE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")
"""What can stand in a header, a log line and a page without being quoted."""


_UNQUOTED = " :/=,;+@"

HEADER = "X-Trace-Id"
"""The header by which models and services are told it."""

_current: ContextVar[str | None] = ContextVar("ipyagent_trace_id", default=None)


@contextmanager
def tracing_as(trace_id: str) -> Iterator[None]:
    """Let requests that are sent meanwhile, by this task and those that it starts, carry the id."""
    token = _current.set(trace_id)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> str | None:
    """Return the id of the run that is going on in this task, fit for a header; None outside."""
    trace_id = _current.get()
    return trace_id and quote(trace_id, safe=_UNQUOTED)


def new() -> str:
    """A random trace id: 32 hexadecimal digits, as W3C Trace Context has them."""
    return uuid.uuid4().hex


def checked(text: str) -> str:
    """The trace id that somebody gave, as it is: 32 hex digits, a traceparent, or another word.

    Raises ConfigError for more than 64 characters, and for those that a header cannot take.
    """
    if not _SAFE.fullmatch(text):
        raise ConfigError(
            f"{text[:80]!r} is no trace id; give 1 to 64 letters, digits or . _ : / + = @ - "
            "(32 hexadecimal digits name the same trace in OpenTelemetry)"
        )
    return text
