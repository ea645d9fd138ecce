"""A provider is one row of the table: all that differs between providers follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from asking import ask, make_client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from harness import Follower
from ipyagent.config import LLMConfig
from ipyagent.errors import ContextOverflowError, ModelRefusedError
from ipyagent.explorer import ExplorerClient
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.destinations import destination, late_bases, resolve
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.providers import PROVIDERS, Provider
from ipyagent.schema import (
    Message,
    Role,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultContent,
)
from ipyagent.telemetry.spans import Spans
from servers.model_server import ModelServer, answer, failure

pytestmark = pytest.mark.usefixtures("engine")

NAME = "featherless_ai"  # LiteLLM knows it; our table does not
ROW = Provider(
    "https://api.featherless.example/v1",
    ("FEATHERLESS_KEY",),
    ("FEATHERLESS_BASE",),
    default_model="big",
    telemetry_name="featherless.models",
    too_long="my beak is full",
)
KEY = {"FEATHERLESS_KEY": "k-0123456789"}
SIGNED = Message(
    role=Role.ASSISTANT,
    content=(
        ThinkingContent(thinking="hm", signature="SIG"),
        ToolCall(id="c", name="f", thought_signature="SIG"),
    ),
)
RESULT = ToolResultContent(tool_use_id="c", content=(TextContent(text="done"),))
CONVERSATION = ModelRequest(
    (
        Message.of(Role.USER, "Hello"),
        SIGNED,
        Message(role=Role.USER, content=(RESULT,)),
    ),
    (),
)


@pytest.fixture
def row() -> Iterator[Provider]:
    """Add one row, before all others."""
    before = dict(PROVIDERS)
    PROVIDERS.clear()
    PROVIDERS.update({NAME: ROW} | before)
    yield ROW
    PROVIDERS.clear()
    PROVIDERS.update(before)


async def send(server: ModelServer) -> ReplyBuilder:
    environ = KEY | {"FEATHERLESS_BASE": server.url}
    client = make_client(f"{NAME}/big", environ=environ, start=environ)
    asked, signed, result = CONVERSATION.messages
    signed = signed.model_copy(update={"maker": client.maker})
    return await ask(client, replace(CONVERSATION, messages=(asked, signed, result)))


@pytest.mark.usefixtures("row")
def test_its_key_chooses_its_model_and_the_order_is_the_tables() -> None:
    assert resolve(LLMConfig(), KEY).model == f"{NAME}/big"
    both = resolve(LLMConfig(), {"OPENAI_API_KEY": "k"} | KEY)
    assert both.model == f"{NAME}/big"
    assert "FEATHERLESS_KEY, ANTHROPIC_API_KEY" in both.notes[0]


@pytest.mark.usefixtures("row")
def test_its_key_goes_to_its_address_and_to_no_address_that_turned_up_later() -> None:
    where = destination(NAME, LLMConfig(), KEY, {})
    assert (where.base, where.key) == (ROW.base, KEY["FEATHERLESS_KEY"])
    late = KEY | {"FEATHERLESS_BASE": "http://attacker.example"}
    assert late_bases(late, {}) == {"FEATHERLESS_BASE": "http://attacker.example"}
    with pytest.raises(ModelRefusedError, match="FEATHERLESS_BASE"):
        destination(NAME, LLMConfig(), late, {})


@pytest.mark.usefixtures("row")
async def test_it_is_sent_what_it_signed() -> None:
    with ModelServer([answer("Fine")]) as server:
        assert (await send(server)).message().text == "Fine"
    (sent,) = server.requests
    assert sent.raw.count(b"SIG") == 2


@pytest.mark.usefixtures("row")
async def test_its_own_words_for_a_long_conversation_are_understood() -> None:
    with (
        ModelServer([failure(400, "My beak is full.")]) as server,
        pytest.raises(ContextOverflowError),
    ):
        await send(server)


@pytest.mark.usefixtures("row")
def test_traces_name_it_as_opentelemetry_does() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    listener = Follower(Spans(provider))
    listener(RunStarted(run=Run(id="r", model=f"{NAME}/big")))
    listener(RunFinished(status=RunStatus.DONE, stop_reason=StopReason.EMPTY, duration=0.0))
    (span,) = spans.get_finished_spans()
    assert (span.attributes or {})["gen_ai.provider.name"] == "featherless.models"


@pytest.mark.usefixtures("row")
async def test_the_explorer_advises_to_set_the_first_key() -> None:
    builder = ReplyBuilder()
    async for chunk in ExplorerClient().stream(
        ModelRequest((Message.of(Role.USER, "What can you do?"),), ())
    ):
        builder.add(chunk)
    assert "`FEATHERLESS_KEY`" in builder.message().text
