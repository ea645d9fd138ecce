from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from asking import (
    EVENTS,
    HELLO,
    KEY,
    ONLY_DIRECT,
    ONLY_LITELLM,
    ask,
    client_of,
    failed,
    make_client,
)
from reasons import REASONS

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError
from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import to_openai, tools_to_openai
from ipyagent.schema import (
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultContent,
)
from servers.model_server import (
    ModelServer,
    Reply,
    Silence,
    answer,
    anthropic_answer,
    delta,
    failure,
    sse,
    stream,
)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.spec("A09", "A30", "M13", "N14")
async def test_text_thinking_calls_and_usage_stream(request_: ModelRequest) -> None:
    with ModelServer([HELLO]) as server:
        reply = await ask(client_of(server), request_)
    assert reply.message().content == (
        ThinkingContent(thinking="Let me think"),
        TextContent(text="Hello wörld"),
        ToolCall(id="call_0", name="run_python", arguments={"code": "1+1"}),
    )
    assert reply.finish_reason == "tool_calls"
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (11, 7)


async def test_the_first_piece_arrives_before_the_last_is_sent(request_: ModelRequest) -> None:
    go = threading.Event()
    with ModelServer([answer("one two").pause(go, after=2)]) as server:
        chunks = client_of(server).stream(request_)
        async with aclosing(chunks):
            assert (await anext(chunks)).data == "one "
            go.set()
            assert "".join([c.data async for c in chunks if c.type == "content"]) == "two"


async def test_the_request_is_what_wire_says_and_carries_the_key(request_: ModelRequest) -> None:
    with ModelServer([HELLO]) as server:
        await ask(client_of(server), request_)
        (sent,) = server.requests
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert sent.body["tools"][0]["function"]["name"] == "run_python"
    assert sent.body["stream_options"] == {"include_usage": True}


@ONLY_DIRECT
async def test_a_long_history_costs_hardly_more_than_a_short_one(request_: ModelRequest) -> None:
    turn = (
        Message(role=Role.ASSISTANT, content=(ToolCall(id="c", name="run_python"),)),
        Message(
            role=Role.USER,
            content=(ToolResultContent(tool_use_id="c", content=(TextContent(text="ok"),)),),
        ),
    )
    long = ModelRequest((*request_.messages, *turn * 300), request_.tools)

    async def work(
        ask_with: Callable[[ModelRequest], Awaitable[object]], asked: ModelRequest
    ) -> int:
        """Python functions that a request calls: what it costs, whatever else is going on."""
        await ask_with(asked)
        calls: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, arg: calls.update((event,)))
        try:
            await ask_with(asked)
        finally:
            sys.setprofile(None)
        return calls["call"]

    with ModelServer([answer("ok")] * 16) as server:
        client = client_of(server)

        async def naive(asked: ModelRequest) -> None:
            stream = await gateway.import_litellm().acompletion(
                "openai/gpt-4o",
                to_openai(asked.messages, vision=False),
                tools=tools_to_openai(asked.tools),
                stream=True,
                api_base=server.url,
                api_key="k",
                _skip_mcp_handler=True,
            )
            assert [chunk async for chunk in stream]

        def ours(asked: ModelRequest) -> Awaitable[object]:
            return ask(client, asked)

        assert await work(naive, long) > 4 * await work(naive, request_)
        assert await work(ours, long) < 4 * await work(ours, request_)


@ONLY_LITELLM
async def test_a_model_that_needs_a_missing_package_names_it(request_: ModelRequest) -> None:
    if importlib.util.find_spec("mcp"):
        pytest.skip("mcp is installed here")
    with ModelServer() as server:
        error, _ = await failed(client_of(server, "openai/responses/x"), request_)
    assert type(error) is ModelRefusedError
    assert "%pip install mcp" in str(error)


async def test_a_character_cut_in_two_chunks_arrives_whole(request_: ModelRequest) -> None:
    chunks = [
        delta(content="a\ud83d"),
        delta(content="\ude00b\ud800c\ud83d"),
        delta(content="d"),
        delta(finish_reason="stop"),
    ]
    with ModelServer([stream(*chunks)]) as server:
        pieces = [c.data async for c in client_of(server).stream(request_) if c.type == "content"]
    assert "".join(pieces) == "a😀b\ufffdc\ufffdd"
    for piece in pieces:
        piece.encode()


@pytest.mark.spec("H19", "M15")
async def test_cached_tokens_are_part_of_the_prompt_and_the_total_is_not_trusted(
    request_: ModelRequest,
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 1}
    cached = usage | {"prompt_tokens_details": {"cached_tokens": 64}}
    with ModelServer([answer("ok", usage=cached)]) as server:
        openai = (await ask(client_of(server), request_)).usage
    with ModelServer([anthropic_answer("ok")]) as server:
        anthropic = (await ask(client_of(server, "anthropic/claude-sonnet-4-5"), request_)).usage
    assert (openai.prompt_tokens, openai.cache_read_tokens, openai.total_tokens) == (100, 64, 107)
    assert anthropic.prompt_tokens == 5 + 100 + 20
    assert (anthropic.cache_read_tokens, anthropic.cache_creation_tokens) == (100, 20)


async def test_the_price_comes_from_the_local_map_or_is_unknown(request_: ModelRequest) -> None:
    with ModelServer([HELLO, HELLO]) as server:
        known = await ask(client_of(server, "openai/gpt-4o"), request_)
        unknown = await ask(client_of(server, "openai/my-own-model"), request_)
    assert known.cost_usd == pytest.approx(11 * 2.5e-6 + 7 * 1e-5)
    assert unknown.cost_usd is None


@pytest.mark.parametrize("model", ["ollama/qwen3", "lm_studio/qwen3", "llamafile/qwen3"])
async def test_a_local_server_is_asked_in_openais_format_without_a_key(
    model: str, request_: ModelRequest
) -> None:
    with ModelServer([HELLO]) as server:
        reply = await ask(client_of(server, model), request_)
        (sent,) = server.requests
    assert (sent.path, sent.body["model"]) == ("/v1/chat/completions", "qwen3")
    assert KEY not in str(sent.headers)
    assert reply.message().tool_calls
    assert reply.cost_usd is None


@pytest.mark.parametrize("frames", [0, 3], ids=["before the answer", "within it"])
async def test_cancelling_the_reader_closes_the_connection(
    frames: int, request_: ModelRequest
) -> None:
    said = Reply((*HELLO.frames[:frames], Silence()), headers=EVENTS)
    with ModelServer([said if frames else Reply(before=(Silence(),))]) as server:
        reading = asyncio.create_task(ask(client_of(server), request_))
        asked = await server.asked()
        await asyncio.sleep(0.1)
        assert not asked.closed.is_set()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await asked.gone()


async def test_a_reader_that_stops_early_closes_the_connection(request_: ModelRequest) -> None:
    with ModelServer([Reply((*HELLO.frames[:3], Silence()), headers=EVENTS)]) as server:
        async with aclosing(client_of(server).stream(request_)) as chunks:
            await anext(chunks)
        assert await server.requests[0].gone()


def simple_globals(module: Any) -> dict[str, str]:
    return {
        name: repr(value)
        for name, value in vars(module).items()
        if isinstance(value, (str, int, float, list, tuple, type(None))) and name != "model_list"
    }


@ONLY_LITELLM
@pytest.mark.spec("A05")
async def test_nothing_stays_set_on_litellms_module(request_: ModelRequest) -> None:
    litellm = gateway.import_litellm()
    with ModelServer([HELLO, HELLO, failure(401), HELLO.cut(500)]) as server:
        await ask(client_of(server), request_)  # LiteLLM's own lazy imports are not our doing
        before = simple_globals(litellm)
        await ask(client_of(server), request_)
        await failed(client_of(server), request_)
        await failed(client_of(server), request_)
    assert simple_globals(litellm) == before
    assert litellm.suppress_debug_info is False


@ONLY_LITELLM
async def test_two_calls_at_once_leave_litellms_switch_as_it_was(request_: ModelRequest) -> None:
    litellm = gateway.import_litellm()
    go = threading.Event()
    with ModelServer([HELLO.pause(go), failure(401), HELLO]) as server:
        slow = asyncio.create_task(ask(client_of(server), request_))
        await server.asked()
        await failed(client_of(server), request_)
        assert litellm.suppress_debug_info is True
        go.set()
        await slow
    assert litellm.suppress_debug_info is False


async def test_calls_leave_no_warning_and_no_log_behind(
    request_: ModelRequest, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as seen, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        with ModelServer([HELLO, HELLO.cut(700)]) as server:
            await ask(client_of(server), request_)
            await failed(client_of(server), request_)
    assert [str(w.message) for w in seen] == []
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@ONLY_LITELLM
@pytest.mark.spec("A08")
@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("model", ["openai/x", "anthropic/claude-sonnet-4-5"])
@pytest.mark.parametrize("after", [(), (sse("[DONE]"),)])
async def test_the_reason_that_a_service_gives_is_the_error(
    name: str, model: str, after: tuple[bytes, ...], request_: ModelRequest
) -> None:
    event, kind, words = REASONS[name]
    frame = event if isinstance(event, bytes) else sse(event)
    with ModelServer([Reply((frame, *after), headers=EVENTS)]) as server:
        error, _ = await failed(client_of(server, model), request_)
    assert isinstance(error, kind)
    assert words in str(error)
    assert "connection was closed" not in str(error)


@ONLY_LITELLM
async def test_an_unknown_model_is_refused_before_anything_is_sent(request_: ModelRequest) -> None:
    error, _ = await failed(make_client("no-such-model", environ={}, start={}), request_)
    assert type(error) is ModelRefusedError
    assert "provider/name" in str(error)


def test_vision_is_as_configured_or_as_the_map_says() -> None:
    assert make_client("openai/gpt-4o").vision
    assert not make_client("openai/my-own-model").vision
    assert make_client("openai/my-own-model", LLMConfig(vision=True)).vision
