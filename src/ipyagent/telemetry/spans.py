"""A run as OpenTelemetry spans, with the names of the GenAI conventions, and their destination.

    invoke_agent ipyagent        the run
    ├─ chat MODEL                a step's request to the model, with all retries
    └─ execute_tool NAME         a call, from its check to its result

They contain no content: no prompt, no argument, no result, no text of an error.
"""

from __future__ import annotations

import atexit
import logging
import re
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ipyagent import __version__, schema as s
from ipyagent.errors import ConfigError
from ipyagent.providers import telemetry_name

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


_HEX = re.compile(r"[0-9a-fA-F]{32}")
_FAILED = frozenset({s.ToolStatus.FAILED, s.ToolStatus.UNKNOWN})

_wanted: ContextVar[int | None] = ContextVar("wanted", default=None)


class _RunIds(RandomIdGenerator):
    """Random ids, except that a run's first span continues the trace of the run."""

    def generate_trace_id(self) -> int:
        return _wanted.get() or super().generate_trace_id()


class Spans:
    """A listener that makes the spans of one run after the other.

    A trace id of 32 hex digits is the trace's, a traceparent names trace and parent; any other one
    is in the attribute `ipyagent.trace_id`.
    """

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("ipyagent", __version__)
        if hasattr(self._tracer, "id_generator"):  # OpenTelemetry's own SDK, not another one's
            self._tracer.id_generator = _RunIds()
        self._run: Span = trace.INVALID_SPAN
        self._inside = Context()
        self._chat: Span | None = None
        self._replied: int | None = None
        self._asks = False
        """True if a step begins with a request to the model: not in plans."""
        self._tools: dict[str, Span] = {}
        self._common: dict[str, str] = {}

    def __call__(self, event: s.Event, state: s.RunState) -> None:
        """Begin and end the spans of an event."""
        match event:
            case s.PlanProposed():
                self._asks = False
            case s.RunStarted(run=run):
                self._start_run(run)
            case s.StepStarted(step=step):
                self._end_chat()
                if self._asks:
                    self._start_chat(step)
            case s.RetryScheduled(attempt=attempt, delay=delay):
                if self._chat:
                    self._chat.add_event("retry", {"attempt": attempt, "delay": delay})
            case s.MessageFinished():
                self._reply(event)
            case s.ToolStarted(execution=execution):
                self._start_tool(execution.call)
            case s.ApprovalRequested(call_id=id_):
                self._tools[id_].add_event("approval_requested")
            case s.ApprovalDecided(call_id=id_, decision=decision, by=by):
                self._tools[id_].add_event("approval_decided", {"decision": decision, "by": by})
            case s.ToolRunning(call_id=id_):
                self._tools[id_].add_event("running")
            case s.ToolFinished(execution=execution):
                self._end_tool(execution)
            case s.RunFinished():
                self._end_run(event, state.run.usage)

    def _start_run(self, run: s.Run) -> None:
        provider, slash, _ = run.model.partition("/")
        self._common = {
            "gen_ai.provider.name": telemetry_name(provider) if slash else "_OTHER",
            "gen_ai.request.model": run.model,
            "gen_ai.conversation.id": run.session_id,
        }
        self._asks = not run.plan
        agent = run.agent or "ipyagent"
        token = _wanted.set(int(run.trace_id, 16) if _HEX.fullmatch(run.trace_id) else None)
        parent = TraceContextTextMapPropagator().extract({"traceparent": run.trace_id}, Context())
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            **self._common,
            "ipyagent.run_id": run.id,
            "ipyagent.trace_id": run.trace_id,
        }
        try:
            self._run = self._tracer.start_span(
                f"invoke_agent {agent}", parent, attributes=attributes
            )
        finally:
            _wanted.reset(token)
        self._inside = trace.set_span_in_context(self._run, Context())

    def _start_chat(self, step: int) -> None:
        self._chat = self._tracer.start_span(
            f"chat {self._common['gen_ai.request.model']}",
            self._inside,
            SpanKind.CLIENT,
            {"gen_ai.operation.name": "chat", **self._common, "ipyagent.step": step},
        )

    def _reply(self, event: s.MessageFinished) -> None:
        """Record the reply. Whether a cut-off reply has failed is known when the run ends."""
        self._replied = time.time_ns()
        if self._chat is None:
            return
        self._chat.set_attributes(_usage(event.usage))
        if event.cost_usd is not None:
            self._chat.set_attribute("ipyagent.cost_usd", event.cost_usd)
        if event.finish_reason:
            self._chat.set_attribute("gen_ai.response.finish_reasons", [event.finish_reason])
            self._end_chat()

    def _end_chat(self, error: str | None = None) -> None:
        if self._chat:
            _fail(self._chat, error)
            self._chat.end(self._replied)
        self._chat = self._replied = None

    def _start_tool(self, call: s.ToolCall) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
        }
        self._tools[call.id] = self._tracer.start_span(
            f"execute_tool {call.name}", self._inside, attributes=attributes
        )

    def _end_tool(self, execution: s.ToolExecution) -> None:
        span = self._tools.pop(execution.call.id)
        span.set_attribute("ipyagent.tool.status", execution.status)
        _fail(span, execution.status if execution.status in _FAILED else None)
        span.end()

    def _end_run(self, event: s.RunFinished, usage: s.TokenUsage) -> None:
        error = event.stop_reason if event.status is s.RunStatus.ERROR else None
        self._end_chat(error)
        self._run.set_attribute("ipyagent.status", event.status)
        self._run.set_attribute("ipyagent.stop_reason", event.stop_reason)
        self._run.set_attributes(_usage(usage))
        _fail(self._run, error)
        self._run.end()
        self._run = trace.INVALID_SPAN


def _fail(span: Span, error: str | None) -> None:
    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)


def _usage(usage: s.TokenUsage) -> dict[str, int]:
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_tokens,
    }
