"""The export of spans, each from a process of its own."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from pydantic import TypeAdapter

from harness import Lab, call
from ipyagent.errors import ConfigError
from ipyagent.schema import Event
from ipyagent.telemetry import span_listener
from servers.model_server import ModelServer, Reply, Silence, failure

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
