"""The destination of spans: the process's tracer provider, or one for OTLP/HTTP."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Mapping
from functools import cache

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ipyagent.errors import ConfigError

_SECONDS = 2.0
"""Seconds for one request to a collector, and for the last one when the process ends."""


def tracer_provider(environ: Mapping[str, str]) -> trace.TracerProvider:
    """Return the process's own provider if it has one, else ours for the endpoint in `environ`.

    Raises ConfigError if there is neither.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, trace.ProxyTracerProvider):
        return provider
    endpoint = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not endpoint and (base := environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        endpoint = base.rstrip("/") + "/v1/traces"
    if not endpoint:
        raise ConfigError(
            "chat.enable_observability is on, but traces have nowhere to go: set "
            "OTEL_EXPORTER_OTLP_ENDPOINT (such as http://localhost:4318), or set up "
            "OpenTelemetry's tracer provider in this process"
        )
    return _sending(endpoint, environ.get("OTEL_SERVICE_NAME") or "ipyagent")


@cache
def _sending(endpoint: str, service: str) -> TracerProvider:
    # Otherwise OpenTelemetry's messages about a dead collector are printed into the user's cell.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    provider = TracerProvider(
        resource=Resource.create({SERVICE_NAME: service}), shutdown_on_exit=False
    )
    exporter = OTLPSpanExporter(endpoint, timeout=_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1_000))
    _stop_at_exit(provider)
    return provider


def _stop_at_exit(provider: TracerProvider) -> None:
    """Send the rest when the process ends, but do not wait long: its own limit is 30 s."""
    ending, ended = threading.Event(), threading.Event()

    def stop() -> None:
        ending.wait()
        provider.shutdown()
        ended.set()

    def stop_soon() -> None:
        ending.set()
        ended.wait(_SECONDS)

    # Started now, since from Python 3.12 on no thread can be started at exit.
    threading.Thread(target=stop, name="ipyagent-traces", daemon=True).start()
    atexit.register(stop_soon)
