from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ipyagent.errors import ModelRefusedError
from ipyagent.llm import offline, warmup
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.gateway import LiteLLMClient
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.schema import (
    Message,
    Role,
    StreamChunk,
    TextContent,
    TokenUsage,
    ToolCall,
    ToolResultContent,
)


@dataclass(frozen=True)
class Said:
    thinking: str = ""
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def says(said: Said) -> LiteLLMClient:
    return LiteLLMClient("offline/explorer", environ={}, explore=lambda messages, tools: said)


async def chunks_of(client: LiteLLMClient, request: ModelRequest) -> list[StreamChunk]:
    return [chunk async for chunk in client.stream(request)]


@pytest.fixture(autouse=True)
def other_providers() -> Iterator[None]:
    """A provider of the person's own stands beside ours, and the list is as it was afterwards."""
    providers = warmup.litellm().custom_provider_map
    before = list(providers)
    providers[:] = [{"provider": "theirs", "custom_handler": object()}]
    yield
    assert providers[0]["provider"] == "theirs"
    providers[:] = before


async def test_thinking_text_and_parallel_calls_stream_in_words(request_: ModelRequest) -> None:
    calls = (("list_files", {}), ("run_python", {"code": "ü"}))
    chunks = await chunks_of(says(Said("because of a rule", "Two  steps:\n- a", calls)), request_)
    assert [c.data for c in chunks if c.type == "thinking"] == ["because ", "of ", "a ", "rule"]
    assert [c.data for c in chunks if c.type == "content"] == ["Two  ", "steps:\n", "- ", "a"]
    builder = ReplyBuilder()
    for chunk in chunks:
        builder.add(chunk)
    assert builder.message().tool_calls == (
        ToolCall(id="call_1_1", name="list_files"),
        ToolCall(id="call_1_2", name="run_python", arguments={"code": "ü"}),
    )
    assert builder.finish_reason == "tool_calls"
    assert (builder.usage, builder.cost_usd) == (TokenUsage(), None)


async def test_the_explorer_sees_messages_and_tools_in_openais_format(
    request_: ModelRequest,
) -> None:
    seen: list[Any] = []

    def explore(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Said:
        seen.extend((messages, tools))
        return Said(text="ok")

    await chunks_of(LiteLLMClient("offline/explorer", explore=explore), request_)
    messages, tools = seen
    assert [m["role"] for m in messages] == ["system", "user"]
    assert tools[0]["function"]["name"] == "run_python"


async def test_ids_differ_from_turn_to_turn(request_: ModelRequest) -> None:
    client = says(Said(calls=(("list_files", {}),)))
    result = ToolResultContent(tool_use_id="call_1_1", content=(TextContent(text="a.csv"),))
    later = ModelRequest(
        (
            *request_.messages,
            Message(role=Role.ASSISTANT, content=(ToolCall(id="call_1_1", name="list_files"),)),
            Message(role=Role.USER, content=(result,)),
        )
    )
    ids = [
        next(c.id for c in await chunks_of(client, request) if c.type == "tool_call")
        for request in (request_, later)
    ]
    assert ids == ["call_1_1", "call_2_1"]


async def test_a_bug_in_the_explorer_is_final_and_does_not_look_like_an_outage(
    request_: ModelRequest,
) -> None:
    def explore(messages: object, tools: object) -> Said:
        raise KeyError("column")

    client = LiteLLMClient("offline/explorer", explore=explore)
    with pytest.raises(ModelRefusedError, match="the explorer failed: KeyError: 'column'"):
        await chunks_of(client, request_)


async def test_registering_again_after_the_person_cleared_the_list(request_: ModelRequest) -> None:
    litellm = warmup.litellm()
    client = says(Said(text="ok"))
    await chunks_of(client, request_)
    await chunks_of(client, request_)
    names = [entry["provider"] for entry in litellm.custom_provider_map]
    assert names == ["theirs", offline.PROVIDER]
    litellm.custom_provider_map[:] = litellm.custom_provider_map[:1]
    assert (await chunks_of(client, request_))[0].data == "ok"


async def test_an_empty_answer_is_an_answer(request_: ModelRequest) -> None:
    assert await chunks_of(says(Said()), request_) == [StreamChunk(type="finish", data="stop")]


async def test_the_shipped_explorer_answers_through_litellm(request_: ModelRequest) -> None:
    chunks = await chunks_of(LiteLLMClient("offline/explorer", environ={}), request_)
    assert [c.type for c in chunks].count("finish") == 1
    assert {c.type for c in chunks} & {"content", "tool_call"}
    assert any(c.type == "thinking" for c in chunks)
