"""OpenAI's Responses: what it streams, and the reasoning that goes back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from asking import EVENTS, ask, client_of, failed

from ipyagent.errors import ContextOverflowError, ModelError, ModelUnavailableError
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import (
    Message,
    Role,
    TextContent,
    ThinkingContent,
    TokenUsage,
    ToolCall,
    ToolResultContent,
)
from servers.model_server import ModelServer, Reply, sse

MODEL = "openai/responses/gpt-x"
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"}
MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "Let me see."}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "f",
        "arguments": '{"x": 1}'}  # fmt: skip
USAGE = {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 64}}
WHOLE = {"object": "response", "status": "completed", "output": [REASONING, MESSAGE, CALL],
         "usage": USAGE}  # fmt: skip
STREAM: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"status": "in_progress"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm."},
    {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "Let me "},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "see."},
    {"type": "response.output_item.added", "output_index": 2, "item": CALL | {"arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"x":'},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": " 1}"},
    {"type": "response.output_item.done", "output_index": 2, "item": CALL},
    {"type": "response.completed", "response": {"usage": USAGE}},
]
CONTENT = (
    ThinkingContent(thinking="Hm."),
    ThinkingContent(encrypted_content="ENC", id="rs_1"),
    TextContent(text="Let me see."),
    ToolCall(id="call_a", name="f", arguments={"x": 1}),
)


JSON = {"Content-Type": "application/json"}


def streamed(*events: dict[str, Any]) -> Reply:
    return Reply(tuple(map(sse, events)), headers=EVENTS)


@pytest.mark.spec("M13", "A30")
async def test_reasoning_text_and_calls_stream_and_the_reasoning_goes_back(
    request_: ModelRequest,
) -> None:
    with ModelServer([streamed(*STREAM), streamed(*STREAM)]) as server:
        client = client_of(server, MODEL)
        said = await ask(client, request_)
        assert said.message().content == CONTENT
        assert said.finish_reason == "tool_calls"
        assert said.usage == TokenUsage(
            prompt_tokens=100, completion_tokens=7, cache_read_tokens=64
        )
        more = (*request_.messages, said.message(), Message.of(Role.USER, "more"))
        await ask(client, replace(request_, messages=more))
        back = server.requests[1].body["input"]
        assert server.requests[1].body["model"] == "gpt-x"
    assert REASONING in back
    assert {key: CALL[key] for key in ("type", "call_id", "name")}.items() <= back[4].items()


async def test_the_whole_reply_says_the_same(request_: ModelRequest) -> None:
    body = Reply((json.dumps(WHOLE).encode(),), headers={"Content-Type": "application/json"})
    with ModelServer([body]) as server:
        said = await ask(client_of(server, MODEL, stream=False), request_)
        assert server.requests[0].body["stream"] is False
    assert said.message().content == CONTENT[1:]
    assert said.usage.total_tokens == 107


async def test_a_text_beside_no_parts_is_the_answer(request_: ModelRequest) -> None:
    whole = {"object": "response", "status": "completed", "output_text": "Hello."}
    body = Reply((json.dumps(whole).encode(),), headers={"Content-Type": "application/json"})
    end = {"type": "response.completed", "response": whole | {"output": []}}
    with ModelServer([body, streamed(end), streamed(*STREAM[4:6], end)]) as server:
        client = client_of(server, MODEL)
        said = [(await ask(client, request_)).message().text for _ in range(3)]
    assert said == ["Hello.", "Hello.", "Let me see."]


async def test_two_messages_of_a_reply_are_two_paragraphs(request_: ModelRequest) -> None:
    texts = ("First I look.", "It is 42.")
    items = [MESSAGE | {"content": [{"type": "output_text", "text": text}]} for text in texts]
    parts = [
        [
            *({"type": "response.output_text.delta", "output_index": number, "delta": piece}
              for piece in (text[:5], text[5:])),
            {"type": "response.output_item.done", "output_index": number, "item": item},
        ]
        for number, (text, item) in enumerate(zip(texts, items, strict=True))
    ]  # fmt: skip
    end = {"type": "response.completed", "response": {"output": items}}
    whole = Reply((json.dumps(WHOLE | {"output": items}).encode(),), headers=JSON)
    empty = {"type": "response.output_item.done", "output_index": 9, "item": {"type": "message"}}
    replies = [streamed(empty, *parts[0], empty, *parts[1], end), streamed(end), whole]
    with ModelServer(replies) as server:
        client = client_of(server, MODEL)
        said = [(await ask(client, request_)).message().text for _ in replies]
    assert said == ["First I look.\n\nIt is 42."] * 3


async def test_a_reply_that_reached_its_limit_says_so(request_: ModelRequest) -> None:
    end = {"incomplete_details": {"reason": "max_output_tokens"}}
    events = [STREAM[4], {"type": "response.incomplete", "response": end}]
    with ModelServer([streamed(*events)]) as server:
        assert (await ask(client_of(server, MODEL), request_)).finish_reason == "length"


async def test_a_refusal_is_an_answer_that_was_filtered(request_: ModelRequest) -> None:
    refusal = {"type": "refusal", "refusal": "I can't do that."}
    thinking = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    items = [thinking, {"type": "message", "content": [refusal]}]
    whole = Reply((json.dumps(WHOLE | {"output": items}).encode(),), headers=JSON)
    pieces = [
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "Hm."},
        {"type": "response.refusal.delta", "output_index": 1, "delta": "I can't"},
        {"type": "response.refusal.done", "output_index": 1, "refusal": refusal["refusal"]},
    ]
    with ModelServer([streamed(*pieces, {"type": "response.done"}), whole]) as server:
        for _ in range(2):
            said = await ask(client_of(server, MODEL), request_)
            assert said.finish_reason == "content_filter"
            assert said.message().content == (
                ThinkingContent(thinking="Hm."),
                TextContent(text="I can't do that."),
            )


FAILED = {
    "cancelled": ({"type": "response.cancelled"}, ModelUnavailableError),
    "failed": (
        {"type": "response.failed",
         "response": {"error": {"code": "server_error", "message": "exploded"}}},
        ModelUnavailableError,
    ),
    "error": ({"type": "error", "code": None, "message": "exploded"}, ModelUnavailableError),
    "too long": (
        {"type": "response.failed",
         "response": {"error": {"code": "context_length_exceeded", "message": "exploded"}}},
        ContextOverflowError,
    ),
    "cut": (STREAM[5], ModelUnavailableError),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
async def test_a_failure_in_the_midst_keeps_what_was_said(
    name: str, request_: ModelRequest
) -> None:
    event, kind = FAILED[name]
    with ModelServer([streamed(STREAM[4], event)]) as server:
        error, said = await failed(client_of(server, MODEL), request_)
    assert type(error) is kind
    assert isinstance(error, ModelError)
    assert said.message().text.startswith("Let me ")
    assert "exploded" in str(error) or name in ("cut", "cancelled")


PATCH = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_p", "name": "apply_patch"}
PIECES = [
    {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": '*** "Begin'},
    {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": " Patch\n"},
]
WHOLE_PATCH = PATCH | {"input": '*** "Begin Patch\n'}
END = {"type": "response.completed", "response": {"usage": USAGE}}
UNASKED: dict[str, list[dict[str, Any]]] = {
    "all": [
        {"type": "response.output_item.added", "output_index": 0, "item": PATCH | {"input": ""}},
        *PIECES,
        {"type": "response.custom_tool_call_input.done", "output_index": 0,
         "input": WHOLE_PATCH["input"]},
        {"type": "response.output_item.done", "output_index": 0, "item": WHOLE_PATCH},
        {"type": "response.completed", "response": {"output": [WHOLE_PATCH]}},
    ],
    "pieces": [{"type": "response.output_item.added", "output_index": 0, "item": PATCH},
               *PIECES, END],
    "item": [{"type": "response.output_item.done", "output_index": 0, "item": WHOLE_PATCH}, END],
    "end": [{"type": "response.completed", "response": {"output": [WHOLE_PATCH]}}],
}  # fmt: skip


@pytest.mark.parametrize("way", UNASKED)
async def test_a_call_of_a_tool_that_takes_a_text_is_answered_as_any_other(
    way: str, request_: ModelRequest
) -> None:
    with ModelServer([streamed(*UNASKED[way]), streamed(*STREAM)]) as server:
        client = client_of(server, MODEL)
        said = await ask(client, request_)
        (call,) = said.message().tool_calls
        assert (call.id, call.name) == ("call_p", "apply_patch")
        assert call.arguments == {"input": '*** "Begin Patch\n'}
        assert said.finish_reason == "tool_calls"
        result = ToolResultContent(tool_use_id=call.id, content=(TextContent(text="no such tool"),))
        more = (*request_.messages, said.message(), Message(role=Role.USER, content=(result,)))
        await ask(client, replace(request_, messages=more))
        sent, answered = server.requests[1].body["input"][-2:]
    assert (sent["type"], sent["call_id"], sent["name"]) == (
        "function_call", "call_p", "apply_patch",
    )  # fmt: skip
    assert json.loads(sent["arguments"]) == call.arguments
    assert (answered["type"], answered["call_id"]) == ("function_call_output", "call_p")


@pytest.mark.parametrize(
    ("item", "arguments"),
    [
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, {"command": ["ls"]}),
        ({"type": "apply_patch_call", "operation": {"path": "a"}}, {"path": "a"}),
    ],
)
async def test_no_call_that_wants_an_answer_is_lost(
    item: dict[str, Any], arguments: dict[str, Any], request_: ModelRequest
) -> None:
    hosted = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    done = {"type": "response.completed", "response": {"output": [hosted, item | {"call_id": "c"}]}}
    with ModelServer([streamed(done)]) as server:
        said = await ask(client_of(server, MODEL), request_)
    (call,) = said.message().tool_calls
    assert (call.id, call.name, call.arguments) == ("c", item["type"], arguments)


def replied(status: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"object": "response", "output": list(items)} | ({"status": status} if status else {})


OPEN = "in_progress"
STATUSES: list[tuple[dict[str, Any], str]] = [
    (replied("completed", MESSAGE), "stop"),
    (replied("", MESSAGE), "stop"),
    (replied("", MESSAGE | {"status": "completed"}), "stop"),
    (replied("completed", MESSAGE | {"status": OPEN}), "stop"),
    (replied(OPEN, MESSAGE), "pause_turn"),
    (replied("queued", MESSAGE), "pause_turn"),
    (replied("", MESSAGE | {"status": OPEN}), "pause_turn"),
    (replied(OPEN, MESSAGE | {"status": "completed"}), "pause_turn"),
    (replied(OPEN, CALL), ""),
    (replied("", CALL | {"status": OPEN}), ""),
    (replied("queued"), ""),
]
"""Replies, and how they end; "" if they are not to be used."""


@pytest.mark.parametrize(("body", "end"), STATUSES)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply_in_progress_is_not_complete(
    body: dict[str, Any], end: str, stream: bool, request_: ModelRequest
) -> None:
    whole = Reply((json.dumps(body).encode(),), headers={"Content-Type": "application/json"})
    events = streamed({"type": "response.completed", "response": body})
    with ModelServer([events if stream else whole]) as server:
        client = client_of(server, MODEL, stream=stream)
        if end:
            assert (await ask(client, request_)).finish_reason == end
            return
        error, _ = await failed(client, request_)
    assert type(error) is ModelUnavailableError
    assert "in progress" in str(error)
