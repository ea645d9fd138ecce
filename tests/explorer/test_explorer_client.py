from __future__ import annotations

from dataclasses import replace

import pytest

from ipyagent.errors import ModelRefusedError
from ipyagent.explorer import ExplorerReply, client
from ipyagent.explorer.client import ExplorerClient, chunks_of
from ipyagent.llm.client import Client, ModelRequest
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.schema import (
    Message,
    Role,
    StreamChunk,
    TextContent,
    TokenUsage,
    ToolCall,
    ToolDefinition,
    ToolResultContent,
)

LIST_FILES = ToolDefinition(name="list_files", description="List files.", input_schema={})


@pytest.fixture
def request_() -> ModelRequest:
    return asking("Hello")


def asking(prompt: str, *later: Message) -> ModelRequest:
    messages = (Message.of(Role.SYSTEM, "Be brief."), Message.of(Role.USER, prompt), *later)
    return ModelRequest(messages, (LIST_FILES,))


async def answer_of(request: ModelRequest) -> ReplyBuilder:
    builder = ReplyBuilder()
    async for chunk in ExplorerClient().stream(request):
        builder.add(chunk)
    return builder


def test_thinking_text_and_calls_are_split_into_words() -> None:
    calls = (("list_files", {}), ("run_python", {"code": "ü"}))
    answer = ExplorerReply("because of a rule", "Two  steps:\n- a", calls)
    chunks = list(chunks_of(answer, 1))
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


def test_an_empty_reply_only_finishes() -> None:
    assert list(chunks_of(ExplorerReply(""), 1)) == [StreamChunk(type="finish", data="stop")]


async def test_the_explorer_answers_as_a_model_does(request_: ModelRequest) -> None:
    explorer: Client = ExplorerClient()
    chunks = [chunk async for chunk in explorer.stream(request_)]
    assert [c.type for c in chunks].count("finish") == 1
    assert chunks[-1].type == "finish"
    assert {c.type for c in chunks} & {"content", "tool_call"}
    assert any(c.type == "thinking" for c in chunks)


async def test_ids_of_calls_differ_from_turn_to_turn() -> None:
    prompt = "List files"
    (first,) = (await answer_of(asking(prompt))).message().tool_calls
    result = ToolResultContent(tool_use_id=first.id, content=(TextContent(text="a.csv"),))
    later = (
        Message(role=Role.ASSISTANT, content=(first,)),
        Message(role=Role.USER, content=(result,)),
        Message.of(Role.ASSISTANT, "There is a.csv."),
        Message.of(Role.USER, prompt),
    )
    (second,) = (await answer_of(asking(prompt, *later))).message().tool_calls
    assert (first.id, second.id) == ("call_1_1", "call_3_1")


async def test_where_no_calls_are_allowed_it_answers_in_words() -> None:
    request = asking("List files")
    assert (await answer_of(request)).message().tool_calls
    in_words = (await answer_of(replace(request, may_call=False))).message()
    assert not in_words.tool_calls
    assert in_words.text


async def test_a_bug_in_the_explorer_is_final_and_not_taken_for_an_outage(
    request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> ExplorerReply:
        raise KeyError("column")

    monkeypatch.setattr(client, "reply", fail)
    with pytest.raises(ModelRefusedError, match="the explorer failed: KeyError: 'column'"):
        await answer_of(request_)
