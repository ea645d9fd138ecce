"""Telemetry for operators: the event log, the logger, traces, and the ids of traces.

A trace id is one for each run, made here or given by the caller. OpenTelemetry is imported only
when traces are wanted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import quote

from ipyagent.errors import ConfigError

if TYPE_CHECKING:
    from ipyagent.schema.state import Listener

_SAFE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")
"""Characters that need no quoting in a header, a log line or a page."""


_UNQUOTED = " :/=,;+@"

TRACE_HEADER = "X-Trace-Id"
"""The header with the id in requests to models and services."""

_current: ContextVar[str | None] = ContextVar("ipyagent_trace_id", default=None)


@contextmanager
def tracing_as(trace_id: str) -> Iterator[None]:
    """Let requests of this task, and of those it starts, carry the id."""
    token = _current.set(trace_id)
    try:
        yield
    finally:
        _current.reset(token)


def current_trace_id() -> str | None:
    """Return the id of this task's run, fit for a header; None outside."""
    trace_id = _current.get()
    return trace_id and quote(trace_id, safe=_UNQUOTED)


def new_trace_id() -> str:
    """Return a random trace id: 32 hexadecimal digits, as in W3C Trace Context."""
    return uuid.uuid4().hex


def check_trace_id(text: str) -> str:
    """Return a given trace id unchanged: 32 hex digits, a traceparent, or another word.

    Raises ConfigError for more than 64 characters, and for those that a header cannot take.
    """
    if not _SAFE.fullmatch(text):
        raise ConfigError(
            f"{text[:80]!r} is not a trace id; give 1 to 64 letters, digits or . _ : / + = @ - "
            "(32 hexadecimal digits name the same trace in OpenTelemetry)"
        )
    return text


def span_listener(environ: Mapping[str, str]) -> Listener:
    """Return a listener that sends a run's spans to the process's, or `environ`'s, destination.

    Raises ConfigError if OpenTelemetry is not installed, or there is no destination.
    """
    try:
        from ipyagent.telemetry.spans import Spans, tracer_provider
    except ImportError as error:
        raise ConfigError(
            f"chat.enable_observability needs OpenTelemetry: pip install 'ipyagent[otel]' ({error})"
        ) from None
    return Spans(tracer_provider(environ))
