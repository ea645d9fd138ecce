"""Telemetry for operators: the event log, the logger, traces, and the ids of traces.

The logger `ipyagent` is silent until the user adds a handler:

    logging.getLogger("ipyagent").addHandler(logging.FileHandler("ipyagent.log"))

Failures are logged there with their tracebacks. Secrets are never logged.

A trace id is one for each run, made here or given by the caller. OpenTelemetry is imported only
when traces are wanted.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from ipyagent.errors import ConfigError

if TYPE_CHECKING:
    from ipyagent.redaction import Redactor
    from ipyagent.schema.events import Listener

_SAFE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")
"""Characters that need no quoting in a header, a log line or a page."""


_UNQUOTED = " :/=,;+@"

TRACE_HEADER = "X-Trace-Id"
"""The header with the id in requests to models and services."""

_current: ContextVar[str | None] = ContextVar("ipyagent_trace_id", default=None)


@contextlib.contextmanager
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


Level = Literal["debug", "info", "warn", "error"]

_FORMATTER = logging.Formatter()


def setup_logging(level: Level = "info", redactor: Redactor | None = None) -> None:
    """Set the logger's level, and let it print nothing by default.

    Records pass `redactor`; without one, text that looks like a secret is still hidden.
    """
    logger = logging.getLogger("ipyagent")
    if logger.level != logging.getLevelNamesMapping()[level.upper()]:
        logger.setLevel(level.upper())  # which makes all loggers look again, under their one lock
    for former in [each for each in logger.filters if isinstance(each, RedactingFilter)]:
        logger.removeFilter(former)
    logger.addFilter(RedactingFilter(redactor))
    # Where nobody handles a warning, Python prints it to stderr, and that is the user's cell.
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


class RedactingFilter(logging.Filter):
    """Redacts a record's message, arguments, traceback and stack."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact every record and pass it on; drop it if that is impossible."""
        try:
            # Imported for the first record, not while ipyagent loads.
            from ipyagent.redaction import Redactor

            self._redactor = self._redactor or Redactor()
        except (ImportError, OSError):  # no descriptor is left, perhaps
            return False
        text = self._redactor.text
        with contextlib.suppress(TypeError, ValueError):  # logging itself reports a bad format
            message = record.getMessage()
            if (clean := text(message)) != message:
                record.msg, record.args = clean, ()
        record.args = self._redactor.data(record.args)
        if record.exc_info and not record.exc_text:
            trace = _FORMATTER.formatException(record.exc_info)
            if (clean := text(trace)) != trace:
                # A handler with a format of its own would read the secret from the exception.
                record.exc_text, record.exc_info = clean, None
        record.stack_info = record.stack_info and text(record.stack_info)
        return True
