"""Telemetry for operators: the event log, the logger, traces.

OpenTelemetry is imported only when traces are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ipyagent.errors import ConfigError

if TYPE_CHECKING:
    from ipyagent.schema.state import Listener


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
