"""Replies as services really send them, each with the deviation that it is known for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from asking import EVENTS, ask, client_of

from ipyagent.llm.client import ModelRequest
from ipyagent.schema import TextContent, ThinkingContent, TokenUsage, ToolCall
from servers.model_server import ModelServer, Reply, sse

Block = TextContent | ThinkingContent | ToolCall
HELLO = (TextContent(text="Hello there."),)
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
TOKENS = TokenUsage(prompt_tokens=100, completion_tokens=7)


def chunk(finish: str | None = None, /, **delta: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def usage(**more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": USAGE | more}


def call(name: str = "f", arguments: Any = '{"x": 1}', **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}} | more


@dataclass
class Case:
    """What is sent, event for event, and what it means."""

    events: list[Any]
    content: tuple[Block, ...] = HELLO
    finish: str = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)


THOUGHT = (ThinkingContent(thinking="Hm, so."), *HELLO)
F = ToolCall(id="a", name="f", arguments={"x": 1})
G = ToolCall(id="b", name="g", arguments={"y": 2})
END = (chunk("stop"), "[DONE]")

CASES = {
    "OpenAI": Case(
        [
            chunk(role="assistant", content="", refusal=None),
            chunk(content="Hello"),
            chunk(content=" there."),
            chunk("stop"),
            usage(prompt_tokens_details={"cached_tokens": 64, "audio_tokens": 0}),
            "[DONE]",
        ],
        usage=TokenUsage(prompt_tokens=100, completion_tokens=7, cache_read_tokens=64),
    ),
    "OpenAI refuses": Case(
        [chunk(refusal="I can't"), chunk(refusal=" do that."), *END],
        (TextContent(text="I can't do that."),),
        "content_filter",
    ),
    "Azure begins with filter results and an empty list": Case(
        [
            {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            chunk(content="Hello there.", content_filter_results={}),
            *END,
        ]
    ),
    "Ollama reasons, and sends calls in one piece": Case(
        [
            chunk(role="assistant", content="", reasoning="Hm, "),
            chunk(role="assistant", content="", reasoning="so."),
            chunk(role="assistant", content="", tool_calls=[call(id="a", index=0)]),
            chunk(role="assistant", content="", tool_calls=[call("g", '{"y":2}', id="b", index=1)]),
            chunk("tool_calls", role="assistant", content=""),
            "[DONE]",
        ],
        (ThinkingContent(thinking="Hm, so."), F, G),
        "tool_calls",
    ),
    "old Ollama sends arguments as an object, without ids": Case(
        [chunk(tool_calls=[call(arguments={"x": 1})]), chunk("stop"), "[DONE]"],
        (ToolCall(id="call_1_1", name="f", arguments={"x": 1}),),
    ),
    "older completions have a text in the choice": Case(
        [
            {"choices": [{"index": 0, "text": "Hello ", "finish_reason": None}]},
            {"choices": [{"index": 0, "text": "there.", "finish_reason": "stop"}]},
            "[DONE]",
        ],
        (TextContent(text="Hello there."),),
    ),
    "llama.cpp sends null first, and timings": Case(
        [
            chunk(role="assistant", content=None),
            chunk(content="Hello there."),
            chunk("stop") | {"timings": {"prompt_n": 100}},
            usage(),
            "[DONE]",
        ],
        usage=TOKENS,
    ),
    "LM Studio sends the name before the arguments": Case(
        [
            chunk(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"x":'}}]),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": " 1}"}}]),
            chunk("tool_calls"),
            "[DONE]",
        ],
        (F,),
        "tool_calls",
    ),
    "vLLM counts with each chunk, and repeats a call's id": Case(
        [
            chunk(reasoning_content="Hm, so.") | {"usage": {"prompt_tokens": 100}},
            chunk(tool_calls=[call(arguments="", id="a", index=0)]),
            chunk(tool_calls=[{"index": 0, "id": "a", "function": {"arguments": '{"x": 1}'}}]),
            chunk("tool_calls") | {"usage": USAGE},
            "[DONE]",
        ],
        (ThinkingContent(thinking="Hm, so."), F),
        "tool_calls",
        TOKENS,
    ),
    "OpenRouter sends a thought twice, and comments while it waits": Case(
        [
            b": OPENROUTER PROCESSING\n\n",
            chunk(
                content="",
                reasoning="Hm, so.",
                reasoning_details=[{"type": "reasoning.text", "text": "Hm, so."}],
            ),
            b": OPENROUTER PROCESSING\n\n",
            chunk(content="Hello there."),
            chunk("stop") | {"native_finish_reason": "STOP"},
            usage(cost=0.001),
            "[DONE]",
        ],
        THOUGHT,
        usage=TOKENS,
    ),
    "OpenRouter sends only the details of a thought": Case(
        [
            chunk(reasoning_details=[{"type": "reasoning.summary", "summary": "Hm, "}]),
            chunk(reasoning_details=[{"type": "reasoning.text", "text": "so."}]),
            chunk(content="Hello there."),
            *END,
        ],
        THOUGHT,
    ),
    "Groq counts in a field of its own": Case(
        [
            chunk(content="Hello there."),
            chunk("stop") | {"x_groq": {"id": "r", "usage": USAGE}},
            "[DONE]",
        ],
        usage=TOKENS,
    ),
    "DeepSeek names its cache differently, and keeps the connection alive": Case(
        [
            b": keep-alive\n\n",
            chunk(content=None, reasoning_content="Hm, so."),
            chunk(content="Hello there.", reasoning_content=None),
            chunk("stop", content="") | {"usage": USAGE | {"prompt_cache_hit_tokens": 64}},
            "[DONE]",
        ],
        THOUGHT,
        usage=TokenUsage(prompt_tokens=100, completion_tokens=7, cache_read_tokens=64),
    ),
    "Moonshot counts within the choice": Case(
        [
            chunk(content="Hello there."),
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]},
            "[DONE]",
        ],
        usage=TOKENS,
    ),
    "some count within the last delta only": Case(
        [
            chunk(content="Hello there.", usage=None),
            {"choices": [{"index": 0, "delta": {"usage": USAGE}, "finish_reason": "stop"}]},
            "[DONE]",
        ],
        usage=TOKENS,
    ),
    "Gemini's gateways count in Gemini's own words": Case(
        [
            chunk(content="Hello there."),
            chunk("stop")
            | {"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 7}},
            "[DONE]",
        ],
        usage=TokenUsage(prompt_tokens=100, completion_tokens=7),
    ),
    "Mistral thinks in parts of the content": Case(
        [
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm, "}]}]),
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "so."}]}]),
            chunk(content=[{"type": "text", "text": "Hello there."}]),
            chunk("stop", content="") | {"usage": USAGE},
            "[DONE]",
        ],
        THOUGHT,
        usage=TOKENS,
    ),
    "Mistral names its limit differently": Case(
        [chunk(content="Hello there."), chunk("model_length"), "[DONE]"], finish="length"
    ),
    "Gemini gives every call the same number, and signs them": Case(
        [
            chunk(
                tool_calls=[
                    call(id="a", index=0, extra_content={"google": {"thought_signature": "SIG"}})
                ]
            ),
            chunk(tool_calls=[call("g", '{"y":2}', id="b", index=0)]),
            chunk("stop"),
            "[DONE]",
        ],
        (F.model_copy(update={"thought_signature": "SIG"}), G),
    ),
    "Gemini sends two calls at once, without numbers": Case(
        [chunk("tool_calls", tool_calls=[call(id="a"), call("g", '{"y":2}', id="b")]), "[DONE]"],
        (F, G),
        "tool_calls",
    ),
    "LiteLLM's proxy passes signed thinking on, and the same as text": Case(
        [
            chunk(
                reasoning_content="Hm, so.",
                thinking_blocks=[{"type": "thinking", "thinking": "Hm, so.", "signature": ""}],
            ),
            chunk(thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "SIG"}]),
            chunk(content="Hello there."),
            *END,
        ],
        (ThinkingContent(thinking="Hm, so.", signature="SIG"), *HELLO),
    ),
    "a model writes its thinking into the answer": Case(
        [
            chunk(content="<th"),
            chunk(content="ink>\nHm, "),
            chunk(content="so.</thi"),
            chunk(content="nk>\n\nHello"),
            chunk(content=" there."),
            *END,
        ],
        THOUGHT,
    ),
    "a model writes about thinking": Case(
        [chunk(content="Use <think>"), chunk(content=" and </think>."), *END],
        (TextContent(text="Use <think> and </think>."),),
    ),
    "the older way to call one function": Case(
        [
            chunk(function_call={"name": "f", "arguments": ""}),
            chunk(function_call={"arguments": '{"x": 1}'}),
            chunk("function_call"),
            "[DONE]",
        ],
        (ToolCall(id="call_1_1", name="f", arguments={"x": 1}),),
        "tool_calls",
    ),
    "events end with one line break": Case(
        [b'data: {"choices": [{"delta": {"content": "Hello "}}]}\n'
         b'data: {"choices": [{"delta": {"content": "there."}, "finish_reason": "stop"}]}\n'
         b"data: [DONE]\n\n"],
    ),
    "no space after the colon, and line feeds of all kinds": Case(
        [b'data:{"choices":[{"delta":{"content":"Hello "}}]}\r\n\r\n',
         b'data:{"choices":[{"delta":{"content":"there."},"finish_reason":"stop"}]}\r\r',
         b"data:[DONE]\n\n"],
    ),
    "no end after the reason to stop": Case([chunk(content="Hello there."), chunk("stop")]),
    "a hundred equal chunks, which LiteLLM takes for a broken model": Case(
        [*[chunk(content="-- ")] * 200, *END], (TextContent(text="-- " * 200),)
    ),
}  # fmt: skip


def bytes_of(event: Any) -> bytes:
    return event if isinstance(event, bytes) else sse(event)


@pytest.mark.parametrize("pieces", ["as sent", "byte by byte", "at once"])
@pytest.mark.parametrize("name", CASES)
async def test_a_service_is_understood(name: str, pieces: str, request_: ModelRequest) -> None:
    case = CASES[name]
    reply = Reply(tuple(map(bytes_of, case.events)), headers=EVENTS)
    if pieces != "as sent":
        reply = reply.split(1 if pieces == "byte by byte" else 10**6)
    with ModelServer([reply]) as server:
        said = await ask(client_of(server), request_)
    assert said.message().content == case.content
    assert said.finish_reason == case.finish
    assert said.usage == case.usage


ANTHROPIC = {
    "Anthropic's calls come in pieces, between pings": (
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "text_delta", "text": "Hello there."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1,
             "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}},
            {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": '{"x":'}},
            {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
             "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ],
        (*HELLO, F),
        "tool_calls",
        TokenUsage(prompt_tokens=5, completion_tokens=9),
    ),
    "a call comes whole with its beginning, blocks of unknown types between": (
        [
            {"type": "message_start", "message": {}},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "server_tool_use", "id": "s", "name": "web", "input": {}}},
            {"type": "content_block_start", "index": 1,
             "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
             "usage": {"input_tokens": 50, "output_tokens": 9, "cache_read_input_tokens": 40}},
            {"type": "message_stop"},
        ],
        (F,),
        "tool_calls",
        TokenUsage(prompt_tokens=90, completion_tokens=9, cache_read_tokens=40),
    ),
    "a reply without arguments, ended by its limit": (
        [
            {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
            {"type": "content_block_start", "index": 0,
             "content_block": {"type": "text", "text": "Hello there."}},
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
            {"type": "message_stop"},
        ],
        HELLO,
        "length",
        TokenUsage(prompt_tokens=5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("named", [True, False], ids=["named events", "data only"])
@pytest.mark.parametrize("name", ANTHROPIC)
async def test_a_service_of_anthropics_format_is_understood(
    name: str, named: bool, request_: ModelRequest
) -> None:
    events, content, finish, tokens = ANTHROPIC[name]
    frames = [(f"event: {e['type']}\n".encode() if named else b"") + sse(e) for e in events]
    with ModelServer([Reply(tuple(frames), headers=EVENTS)]) as server:
        said = await ask(client_of(server, "anthropic/claude-sonnet-4-5"), request_)
    assert (said.message().content, said.finish_reason) == (content, finish)
    assert said.usage == tokens
