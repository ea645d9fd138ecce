"""What the settings, and each request, change about what is sent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from asking import HELLO, KEY, ONLY_LITELLM, ask, client_of, failed, make_client

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError
from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.destinations import resolve
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.schema import (
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolResultContent,
)
from servers.model_server import ModelServer, Reply, answer, anthropic_answer, sse

pytestmark = pytest.mark.usefixtures("engine")

CLAUDE = "anthropic/claude-sonnet-4-5"


def whole(message: dict[str, Any], finish_reason: str = "stop") -> Reply:
    choice = {"index": 0, "message": {"role": "assistant"} | message}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 99}
    body = {"choices": [choice | {"finish_reason": finish_reason}], "usage": usage}
    return Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})


async def types_of(client: Any, request: ModelRequest) -> tuple[list[str], ReplyBuilder]:
    builder = ReplyBuilder()
    types: list[str] = []
    async for chunk in client.stream(request):
        types.append(chunk.type)
        builder.add(chunk)
    return types, builder


@pytest.mark.spec("A09", "H19", "D4")
async def test_without_streaming_the_whole_reply_comes_in_one_piece(request_: ModelRequest) -> None:
    assert LLMConfig().stream
    function = {"name": "run_python", "arguments": '{"code": "1+1"}'}
    said = whole(
        {
            "content": "Hello wörld",
            "reasoning_content": "Let me think",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        "tool_calls",
    )
    with ModelServer([said, HELLO]) as server:
        types, one = await types_of(client_of(server, stream=False), request_)
        streamed = await ask(client_of(server), request_)
        first, second = (request.body.get("stream", False) for request in server.requests)
    assert (first, second) == (False, True)
    assert types == ["thinking", "content", "tool_call", "finish", "usage"]
    assert one.message().content == streamed.message().content
    assert (one.finish_reason, one.usage) == (streamed.finish_reason, streamed.usage)
    assert one.usage.total_tokens == 18


@pytest.mark.spec("N04", "M13")
async def test_signed_and_encrypted_thinking_goes_back_verbatim_and_in_order(
    request_: ModelRequest,
) -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "S1"},
        {"type": "redacted_thinking", "data": "ENC=="},
        {"type": "thinking", "thinking": "so", "signature": "S2"},
        {"type": "text", "text": "ok"},
    ]
    body = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": content}
    body |= {"stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 6}}
    reply = Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})
    with ModelServer([reply, reply]) as server:
        client = client_of(server, CLAUDE, stream=False)
        message = (await ask(client, request_)).message()
        assert message.content == (
            ThinkingContent(thinking="hm", signature="S1"),
            ThinkingContent(encrypted_content="ENC=="),
            ThinkingContent(thinking="so", signature="S2"),
            TextContent(text="ok"),
        )
        more = Message.of(Role.USER, "more")
        await ask(client, replace(request_, messages=(*request_.messages, message, more)))
        (back,) = [m for m in server.requests[1].body["messages"] if m["role"] == "assistant"]
    assert back["content"] == content


async def test_a_redacted_thought_streams(request_: ModelRequest) -> None:
    block = {"type": "redacted_thinking", "data": "ENC=="}
    start, *rest = anthropic_answer("ok").frames
    redacted = [
        {"type": "content_block_start", "index": 7, "content_block": block},
        {"type": "content_block_stop", "index": 7},
    ]
    frames = (start, *map(sse, redacted), *rest)
    with ModelServer([Reply(frames, headers={"Content-Type": "text/event-stream"})]) as server:
        reply = await ask(client_of(server, CLAUDE), request_)
    assert reply.message().content == (
        ThinkingContent(encrypted_content="ENC=="),
        TextContent(text="ok"),
    )


def gemini_answer(*parts: dict[str, Any], finish: str | None = "STOP") -> Reply:
    def chunk(part: dict[str, Any]) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}}
        if part is parts[-1] and finish:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}
        return {"candidates": [candidate], "usageMetadata": usage}

    return Reply(tuple(sse(chunk(part)) for part in parts), headers={"Content-Type": "text/plain"})


@ONLY_LITELLM
@pytest.mark.spec("M13")
async def test_gemini_streams_and_gets_the_signature_of_its_call_back(
    request_: ModelRequest,
) -> None:
    call = {"functionCall": {"name": "run_python", "args": {"code": "1"}}}
    said = gemini_answer({"text": "Let me see."}, call | {"thoughtSignature": "U0lH"})
    with ModelServer([said, gemini_answer({"text": "ok"}), HELLO]) as server:
        client = client_of(server, "gemini/gemini-3-pro-preview")
        message = (await ask(client, request_)).message()
        (made,) = message.tool_calls
        assert (made.thought_signature, "U0lH" in made.id) == ("U0lH", False)
        result = ToolResultContent(tool_use_id=made.id, content=(TextContent(text="1"),))
        messages = (*request_.messages, message, Message(role=Role.USER, content=(result,)))
        assert (await ask(client, replace(request_, messages=messages))).finish_reason == "stop"
        parts = [part for turn in server.requests[1].body["contents"] for part in turn["parts"]]
        assert [part["thoughtSignature"] for part in parts if "function_call" in part] == ["U0lH"]
        await ask(client_of(server), replace(request_, messages=messages))
        assert b"U0lH" not in server.requests[2].raw


@ONLY_LITELLM
async def test_a_gemini_stream_that_breaks_is_not_finished(request_: ModelRequest) -> None:
    said = gemini_answer({"text": "Let me"}, {"text": " see."})
    with ModelServer([said.cut(len(said.body) // 2)]) as server:
        error, reply = await failed(client_of(server, "gemini/gemini-2.5-flash"), request_)
    assert "closed before the answer was complete" in str(error)
    assert reply.message().text == "Let me"


@ONLY_LITELLM
async def test_asking_gemini_leaves_the_tools_as_they_were(request_: ModelRequest) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool = request_.tools[0].model_copy(update={"input_schema": schema})
    request = replace(request_, tools=(tool,))
    with ModelServer([gemini_answer({"text": "ok"})]) as server:
        await ask(client_of(server, "gemini/gemini-2.5-flash"), request)
    assert schema == {"type": "object", "properties": {}}


@pytest.mark.spec("M20")
@pytest.mark.parametrize("model", ["openai/gpt-4o", CLAUDE])
async def test_a_model_that_may_not_call_still_sees_the_same_tools(
    model: str, request_: ModelRequest
) -> None:
    reply = anthropic_answer("ok") if model == CLAUDE else answer("ok")
    with ModelServer([reply] * 2) as server:
        client = client_of(server, model)
        await ask(client, request_)
        await ask(client, replace(request_, may_call=False))
        may, may_not = (request.body for request in server.requests)
    assert "tool_choice" not in may
    assert may_not["tool_choice"] in ("none", {"type": "none"})
    assert may_not["tools"] == may["tools"]
    (tool,) = may["tools"]
    schema = tool["input_schema"] if model == CLAUDE else tool["function"]["parameters"]
    assert schema == request_.tools[0].input_schema


async def test_a_service_without_such_a_choice_is_asked_all_the_same(
    request_: ModelRequest,
) -> None:
    request = replace(request_, may_call=False)
    with ModelServer([answer("ok")]) as server:
        reply = await ask(client_of(server, "fireworks_ai/x", api_key=KEY), request)
        assert "tool_choice" not in server.requests[0].body
    assert reply.message().text == "ok"


@pytest.mark.spec("P08")
@pytest.mark.parametrize("model", ["openai/gpt-4o", CLAUDE, "gemini/gemini-2.5-flash"])
async def test_the_trace_id_is_sent_as_a_header(
    model: str, engine: str, request_: ModelRequest
) -> None:
    replies = {CLAUDE: anthropic_answer("ok"), "openai/gpt-4o": answer("ok")}
    reply = replies.get(model) or (
        answer("ok") if engine == "direct" else gemini_answer({"text": "ok"})
    )
    with ModelServer([reply] * 3) as server:
        client = client_of(server, model)
        for trace_id in ("4bf92f3577b34da6-01", "", "zwei\nZeilen\u2028ü"):
            await ask(client, replace(request_, trace_id=trace_id))
        sent = [request.headers.get("x-trace-id") for request in server.requests]
    assert sent == ["4bf92f3577b34da6-01", None, "zwei%0AZeilen%E2%80%A8%C3%BC"]


@pytest.mark.spec("A03")
@pytest.mark.parametrize("model", ["gpt-4o", "openai/o1-pro", "anthropic/claude-x", "my model:1"])
async def test_a_proxy_is_asked_in_openais_format_for_the_model_as_it_stands(
    model: str, request_: ModelRequest
) -> None:
    with ModelServer([answer("ok")]) as server:
        settings = {"api_base": server.url, "mode": "proxy", "api_key": KEY}
        client = make_client(model, LLMConfig.model_validate(settings), environ={}, start={})
        reply = await ask(client, request_)
        (sent,) = server.requests
    assert (sent.path, sent.body["model"]) == ("/v1/chat/completions", model)
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert reply.message().text == "ok"
    assert reply.cost_usd is None


@pytest.mark.spec("A03")
async def test_a_proxy_needs_an_address(request_: ModelRequest) -> None:
    unchecked = LLMConfig().model_copy(update={"mode": "proxy"})
    error, _ = await failed(make_client("gpt-4o", unchecked, environ={}, start={}), request_)
    assert type(error) is ModelRefusedError
    assert "llm.api_base" in str(error)


@pytest.mark.spec("A02")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_provider_is_a_prefix_of_the_model(provider: str, request_: ModelRequest) -> None:
    with ModelServer([anthropic_answer("ok") if provider == "anthropic" else answer("ok")]) as s:
        values = {"provider": provider, "model": "some-model", "api_base": s.origin, "api_key": KEY}
        config = LLMConfig.model_validate(values)
        client = make_client(resolve(config, {}).model, config, environ={}, start={})
        assert (await ask(client, request_)).message().text == "ok"
        (sent,) = s.requests
    assert client.model == f"{provider}/some-model"
    assert sent.body["model"] == "some-model"
    assert sent.path == {"anthropic": "/v1/messages", "openai": "/chat/completions"}[provider]


@pytest.mark.spec("M03", "A05")
async def test_minimax_is_a_profile_of_four_lines(request_: ModelRequest) -> None:
    said = anthropic_answer("ok", thinking="hm", signature="SIG")
    with ModelServer([said, said]) as server:
        profile = {
            "provider": "anthropic",
            "model": "MiniMax-M2",
            "api_base": f"{server.origin}/anthropic",
            "api_key_env": "MINIMAX_API_KEY",
        }
        config = LLMConfig.model_validate(profile)
        environ = {"MINIMAX_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-another"}
        client = make_client(resolve(config, environ).model, config, environ=environ, start={})
        message = (await ask(client, request_)).message()
        more = (*request_.messages, message, Message.of(Role.USER, "more"))
        await ask(client, replace(request_, messages=more))
        first, second = server.requests
    assert (first.path, first.body["model"]) == ("/anthropic/v1/messages", "MiniMax-M2")
    assert KEY in first.headers.values()
    assert "sk-another" not in str(first.headers)
    assert message.thinking == "hm"
    assert '"signature": "SIG"' in json.dumps(second.body["messages"])
    assert gateway.import_litellm().api_base is None


async def test_a_conversation_keeps_one_connection(request_: ModelRequest) -> None:
    replies = [HELLO, answer("ok"), whole({"content": "ok"}), HELLO]
    with ModelServer(replies) as server:
        streaming, at_once = client_of(server), client_of(server, stream=False)
        for client in (streaming, streaming, at_once, streaming):
            said = (await ask(client, request_)).message()
            request_ = replace(request_, messages=(*request_.messages, said))
        assert (len(server.requests), server.connections) == (4, 1)
