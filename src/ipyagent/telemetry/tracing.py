"""The way to OpenTelemetry, which is imported when somebody wants traces, and not before."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ipyagent.errors import ConfigError
from ipyagent.schema import Event


def spans(environ: Mapping[str, str]) -> Callable[[Event], None]:
    """A listener that sends a run's spans to where the process, or `environ`, says.

    Raises ConfigError where OpenTelemetry is not installed, or where neither says it.
    """
    try:
        from ipyagent.telemetry.exporter import tracer_provider
        from ipyagent.telemetry.spans import Spans
    except ImportError as error:
        raise ConfigError(
            f"chat.enable_observability needs OpenTelemetry: pip install 'ipyagent[otel]' ({error})"
        ) from None
    return Spans(tracer_provider(environ))
