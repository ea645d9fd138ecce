"""Traces: the spans of runs, their destination, and the names of OpenTelemetry that they need."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from pydantic import TypeAdapter

from harness import NO, YES, Follower, Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.errors import ConfigError
from ipyagent.schema import (
    Event,
    Outcome,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    StepStarted,
    StopReason,
)
from ipyagent.telemetry import span_listener
from ipyagent.telemetry.spans import Spans
from ipyagent.tools.base import tool
from servers.model_server import ModelServer, Reply, Silence, failure

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


class Collector:
    """A provider that keeps its spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.listener = Follower(Spans(self._provider))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans, in the order in which they ended."""
        return self._exporter.get_finished_spans()

    def only(self, start: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name.startswith(start)]
        return span


@pytest.fixture
def collector() -> Collector:
    return Collector()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def short_run(**fields: Any) -> tuple[Any, ...]:
    """Return the events of a run without a message."""
    end = RunFinished(status=RunStatus.DONE, stop_reason=StopReason.EMPTY, duration=0.0)
    return RunStarted(run=Run(id="r", **fields)), StepStarted(step=1), end


@pytest.mark.spec("P08", "H21")
def test_a_run_is_a_tree_of_spans_in_the_trace_of_its_own_id(
    lab: Lab, collector: Collector
) -> None:
    run = lab.run([{"calls": [call("list_files")]}, "Done."], heard=collector.listener)
    chat, execute, chat_again, invoke = collector.spans
    assert [span.name for span in collector.spans] == [
        "chat scripted",
        "execute_tool list_files",
        "chat scripted",
        "invoke_agent ipyagent",
    ]
    assert {format_trace_id(span.context.trace_id) for span in collector.spans} == {run.trace_id}
    assert invoke.parent is None
    parents = {span.parent.span_id for span in (chat, execute, chat_again) if span.parent}
    assert parents == {invoke.context.span_id}
    assert (invoke.kind, execute.kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL)
    assert chat.kind is chat_again.kind is SpanKind.CLIENT
    moments = [(span.start_time or 0, span.end_time or 0) for span in (chat, execute, chat_again)]
    assert all(start <= end for start, end in moments)
    assert moments == sorted(moments)
    assert {span.status.status_code for span in collector.spans} == {StatusCode.UNSET}


@pytest.mark.spec("H21")
def test_spans_follow_the_genai_conventions(lab: Lab, collector: Collector) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "cache_read_tokens": 16}
    first = {"calls": [call("list_files")], "usage": usage, "cost_usd": 0.25}
    last = {"text": "Done.", "usage": {"prompt_tokens": 30, "completion_tokens": 2}}
    run = lab.run([first, last], heard=collector.listener)
    chat, execute, _, invoke = map(attributes, collector.spans)
    common = {
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.request.model": "scripted",
        "gen_ai.conversation.id": run.session_id,
    }
    assert chat == common | {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 16,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "ipyagent.step": 1,
        "ipyagent.cost_usd": 0.25,
    }
    assert execute == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "list_files",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": run.executions[0].call.id,
        "ipyagent.tool.status": "success",
    }
    assert invoke == common | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "ipyagent",
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 16,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "ipyagent.run_id": run.id,
        "ipyagent.trace_id": run.trace_id,
        "ipyagent.status": "done",
        "ipyagent.stop_reason": "finished",
    }


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("openai/gpt-x", "openai"),
        ("anthropic/claude-x", "anthropic"),
        ("gemini/gemini-x", "gcp.gemini"),
        ("xai/grok-x", "x_ai"),
        ("openrouter/openai/gpt-x", "openrouter"),
        ("gpt-x", "_OTHER"),
        ("", "_OTHER"),
    ],
)
def test_the_provider_is_taken_from_the_models_id(
    collector: Collector, model: str, provider: str
) -> None:
    for event in short_run(model=model, agent="reviewer"):
        collector.listener(event)
    chat, invoke = collector.spans
    assert attributes(chat)["gen_ai.provider.name"] == provider
    assert invoke.name == "invoke_agent reviewer"


@pytest.mark.spec("H21")
@pytest.mark.parametrize("said", ["", "I was about to"])
def test_failures_are_marked_even_if_a_reply_was_cut(
    lab: Lab, collector: Collector, said: str
) -> None:
    error = {"kind": "refused", "message": "no such model"}
    lab.run([{"text": said, "error": error}], heard=collector.listener)
    chat, invoke = collector.spans
    for span in (chat, invoke):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == "error"


@pytest.mark.spec("H21")
def test_a_failed_tool_marks_its_own_span_and_not_the_runs(lab: Lab, collector: Collector) -> None:
    lab.run([{"calls": [call("read_file", path="none.txt")]}, "Sorry."], heard=collector.listener)
    execute = collector.only("execute_tool")
    assert execute.status.status_code is StatusCode.ERROR
    assert attributes(execute)["error.type"] == "failed"
    assert collector.only("invoke_agent").status.status_code is StatusCode.UNSET


def test_a_users_decision_is_an_event_and_not_an_error(lab: Lab, collector: Collector) -> None:
    script = [{"calls": [call("write_file", path="a.txt", content="A")]}, "As you like."]
    lab.run(script, answer=NO, heard=collector.listener)
    execute = collector.only("execute_tool")
    assert execute.status.status_code is StatusCode.UNSET
    assert attributes(execute)["ipyagent.tool.status"] == "denied"
    asked, decided = execute.events
    assert (asked.name, decided.name) == ("approval_requested", "approval_decided")
    assert dict(decided.attributes or {}) == {"decision": "denied", "by": "button"}


def test_an_interrupted_run_ends_its_spans(collector: Collector) -> None:
    started, step, _ = short_run()
    end = RunFinished(status=RunStatus.CANCELLED, stop_reason=StopReason.INTERRUPTED, duration=0.0)
    for event in (started, step, end):
        collector.listener(event)
    chat, invoke = collector.spans
    assert chat.status.status_code is invoke.status.status_code is StatusCode.UNSET
    assert attributes(invoke)["ipyagent.stop_reason"] == "interrupted"


def test_a_request_with_all_its_retries_is_one_span(lab: Lab, collector: Collector) -> None:
    busy = {"error": {"kind": "unavailable", "message": "busy"}}
    retry = {"llm": {"retry": {"initial_delay": 0.0}}}
    lab.run([busy, "Done."], settings=retry, heard=collector.listener)
    chat = collector.only("chat")
    assert [event.name for event in chat.events] == ["retry"]
    assert chat.status.status_code is StatusCode.UNSET


@pytest.mark.spec("H21")
def test_no_content_is_in_a_span(lab: Lab, collector: Collector) -> None:
    canary = "canary-4711"

    @tool
    def fetch(key: str) -> str:
        """Fetch something."""
        raise ValueError(f"{key} is wrong")

    script = [
        {"text": canary, "thinking": canary, "calls": [call("fetch", key=canary)]},
        {"text": canary, "error": {"kind": "refused", "message": canary}},
    ]
    run = lab.run(script, canary, tools=[fetch], answer=YES, heard=collector.listener)
    assert str(run.to_dict()).count(canary) > 4
    assert canary not in "".join(span.to_json() for span in collector.spans)


@pytest.mark.spec("P08")
def test_a_traceparent_makes_the_run_part_of_another_trace(collector: Collector) -> None:
    traceparent = f"00-{TRACE}-{PARENT}-01"
    for event in short_run(trace_id=traceparent):
        collector.listener(event)
    invoke = collector.only("invoke_agent")
    assert format_trace_id(invoke.context.trace_id) == TRACE
    assert format_span_id(invoke.parent.span_id) == PARENT
    assert attributes(invoke)["ipyagent.trace_id"] == traceparent


@pytest.mark.spec("P08")
@pytest.mark.parametrize("given", ["order-4711", "0" * 32, TRACE[:-1], f"00-{TRACE}-{'0' * 16}-01"])
def test_an_id_that_is_not_a_trace_id_becomes_an_attribute(
    collector: Collector, given: str
) -> None:
    for event in short_run(trace_id=given):
        collector.listener(event)
    invoke = collector.only("invoke_agent")
    assert invoke.context.trace_id
    assert format_trace_id(invoke.context.trace_id) != TRACE
    assert attributes(invoke)["ipyagent.trace_id"] == given


def test_each_run_has_its_own_trace(lab: Lab, collector: Collector) -> None:
    runs = [lab.run(["Hello."], heard=collector.listener) for _ in range(2)]
    traces = [format_trace_id(span.context.trace_id) for span in collector.spans]
    assert traces == [run.trace_id for run in runs for _ in range(2)]


def test_any_tracer_provider_works(lab: Lab) -> None:
    """Not only the SDK's: its own tracers make their own ids."""
    from opentelemetry.trace import NoOpTracerProvider

    follower = Follower(Spans(NoOpTracerProvider()))
    assert lab.run([{"calls": [call("list_files")]}, "Done."], heard=follower).output == "Done."


@pytest.mark.spec("P08", "P30")
@pytest.mark.parametrize("answer", [YES, NO])
def test_the_steps_of_a_plan_are_not_requests_to_a_model(
    lab: Lab, collector: Collector, answer: Answer
) -> None:
    steps = {"calls": [call("list_files"), call("list_variables")]}
    run = lab.run([steps], answer=answer, plan=True, heard=collector.listener)
    names = [span.name for span in collector.spans]
    assert [name for name in names if name.startswith("chat")] == ["chat scripted"]
    assert names.count("invoke_agent ipyagent") == (2 if run.outcome is Outcome.SUCCESS else 1)


EVENTS = TypeAdapter(tuple[Event, ...])

HEAR = """
import os, sys, time
from pydantic import TypeAdapter
from ipyagent.schema import Event, advance
from ipyagent.telemetry import span_listener
hear, state = span_listener(os.environ), None
events = TypeAdapter(tuple[Event, ...]).validate_json(sys.stdin.read())
begun = time.monotonic()
for event in events:
    state = advance(state, event)
    hear(event, state)
print(time.monotonic() - begun, time.time())
"""
NAIVE = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=0.1)))
provider.get_tracer("naive").start_span("a").end()
"""


@dataclass
class Done:
    """The output of a process, and the seconds that its events and its end took."""

    out: str
    err: str
    telling: float = 0.0
    ending: float = 0.0


def python(code: str, endpoint: str, told: bytes = b"") -> Done:
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=told,
        env=own | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint},
        capture_output=True,
        check=True,
    )
    return Done(done.stdout.decode(), done.stderr.decode())


def trace_run(events: bytes, endpoint: str) -> Done:
    """Run a process that traces a run and ends."""
    done = python(HEAR, endpoint, events)
    took, at = map(float, done.out.split())
    return Done(done.out, done.err, took, time.time() - at)


@pytest.fixture
def events(lab: Lab) -> bytes:
    lab.run([{"calls": [call("list_files")]}, "Done."])
    return EVENTS.dump_json(tuple(lab.watcher.events))


def received_spans(server: ModelServer) -> list[ResourceSpans]:
    """Return the spans that a collector received."""
    assert {request.path for request in server.requests} == {"/v1/traces"}
    return [
        each
        for request in server.requests
        for each in ExportTraceServiceRequest.FromString(request.raw).resource_spans
    ]


@pytest.mark.spec("H21", "P08")
def test_a_collector_gets_the_run_before_the_process_ends(events: bytes) -> None:
    trace = json.loads(events)[0]["run"]["trace_id"]
    with ModelServer([Reply((b"",))] * 3) as server:
        done = trace_run(events, server.url.removesuffix("/v1"))
        resources = received_spans(
            server
        )  # one, or more where a slow machine sent some before the end
    for resource in resources:
        service = {a.key: a.value.string_value for a in resource.resource.attributes}
        assert service["service.name"] == "ipyagent"
    scopes = [scope for resource in resources for scope in resource.scope_spans]
    assert {scope.scope.name for scope in scopes} == {"ipyagent"}
    spans = [span for scope in scopes for span in scope.spans]
    assert {span.trace_id.hex() for span in spans} == {trace}
    assert sorted(span.name for span in spans) == [
        "chat scripted",
        "chat scripted",
        "execute_tool list_files",
        "invoke_agent ipyagent",
    ]
    assert done.err == ""


@pytest.mark.parametrize("fault", ["refused", "silent", "unavailable"])
def test_a_dead_collector_prints_nothing_and_delays_nothing(events: bytes, fault: str) -> None:
    faults = {"silent": Reply(before=(Silence(),)), "unavailable": failure(503)}
    with ModelServer([faults.get(fault, Reply())] * 9) as server:
        url = "http://127.0.0.1:9" if fault == "refused" else server.url.removesuffix("/v1")
        if fault == "refused":
            assert "export" in python(NAIVE, url).err
        done = trace_run(events, url)
    assert done.err == ""
    assert done.telling < 9
    assert done.ending < 9  # two seconds and what a busy machine adds; left alone it is ten


@pytest.mark.spec("H21")
def test_the_processs_own_provider_is_used(events: bytes) -> None:
    own = """
import atexit
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
"""
    end = "\nprint(sorted(span.name for span in kept.get_finished_spans()))"
    with ModelServer() as server:
        done = python(own + HEAR + end, server.url, events)
        assert not server.requests
    assert "'invoke_agent ipyagent'" in done.out


@pytest.mark.spec("H21")
@pytest.mark.parametrize("environ", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}])
def test_without_an_endpoint_the_error_names_the_remedy(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"nowhere to go: set OTEL_EXPORTER_OTLP_ENDPOINT"):
        span_listener(environ)


@pytest.mark.spec("H21")
def test_without_the_packages_the_error_names_them() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
from ipyagent.errors import ConfigError
from ipyagent.telemetry import span_listener
try:
    span_listener({})
except ConfigError as error:
    print(error)
"""
    assert "pip install 'ipyagent[otel]'" in python(code, "").out


@pytest.mark.spec("H21")
def test_opentelemetry_is_imported_only_if_spans_are_wanted() -> None:
    code = """
import sys
from ipyagent import telemetry
from ipyagent.telemetry import eventlog
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    assert python(code, "").out.strip() == "[]"


def test_the_tracer_of_opentelemetry_takes_a_generator_of_ids() -> None:
    tracer = TracerProvider().get_tracer("test")
    assert hasattr(tracer, "id_generator"), (
        "Tracer.id_generator is gone: a run's trace no longer has the run's trace id. Look for "
        "what makes the ids now, and change telemetry/spans.py"
    )
