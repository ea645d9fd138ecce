"""Trace ids: one for each cell's run, made here or taken over from whoever asked for the run."""

from __future__ import annotations

import re
import uuid

from ipyagent.errors import ConfigError

_SAFE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,64}")
"""What can stand in a header, a log line and a page without being quoted."""


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
