from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from asking import ask

from ipyagent.errors import ConfigError, ModelRefusedError, ModelUnavailableError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import StreamChunk, TextContent, ThinkingContent, TokenUsage, ToolCall


async def test_replies_play_in_order_and_requests_are_kept(request_: ModelRequest) -> None:
    client = Scripted(["Hello", {"text": "World"}])
    assert [(await ask(client, request_)).message().text for _ in range(2)] == ["Hello", "World"]
    assert client.requests == [request_, request_]


async def test_everything_that_a_reply_can_say_is_said(request_: ModelRequest) -> None:
    said = {
        "thinking": "hm",
        "text": "ok",
        "calls": [
            {"name": "f", "arguments": {"a": "ü"}},
            {"name": "g", "arguments": "{bad", "id": "mine"},
            {"name": "h"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "cost_usd": 0.25,
    }
    reply = await ask(Scripted([said]), request_)
    thinking, text, first, second, third = reply.message().content
    assert thinking == ThinkingContent(thinking="hm")
    assert text == TextContent(text="ok")
    assert first == ToolCall(id="call_1_1", name="f", arguments={"a": "ü"})
    assert isinstance(second, ToolCall)
    assert second.id == "mine"
    assert second.parse_error
    assert third == ToolCall(id="call_1_3", name="h")
    assert reply.usage == TokenUsage(prompt_tokens=3, completion_tokens=4)
    assert (reply.cost_usd, reply.finish_reason) == (0.25, "tool_calls")


async def test_text_streams_in_chunks_of_the_size_that_was_asked_for(
    request_: ModelRequest,
) -> None:
    async def pieces(client: Scripted) -> list[str]:
        return [c.data async for c in client.stream(request_) if c.type == "content"]

    assert await pieces(Scripted(["abcdef"])) == ["abcd", "ef"]
    assert await pieces(Scripted(["abcdef"], chunk_size=1)) == list("abcdef")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"kind": "unavailable", "message": "busy", "retry_after": 2}, ModelUnavailableError),
        ({"kind": "refused", "message": "busy"}, ModelRefusedError),
    ],
)
async def test_an_error_comes_after_what_was_said(
    error: dict[str, Any], kind: type[Exception], request_: ModelRequest
) -> None:
    chunks: list[StreamChunk] = []
    with pytest.raises(kind, match="busy") as caught:  # noqa: PT012
        async for chunk in Scripted([{"text": "par", "error": error}]).stream(request_):
            chunks.append(chunk)
    assert chunks == [StreamChunk(type="content", data="par")]
    assert getattr(caught.value, "retry_after", None) == error.get("retry_after")


async def test_a_reply_may_be_computed_from_the_request(request_: ModelRequest) -> None:
    async def later(request: ModelRequest) -> str:
        return "later"

    client = Scripted([lambda request: {"text": request.messages[-1].text}, later])
    assert (await ask(client, request_)).message().text == "Hello"
    assert (await ask(client, request_)).message().text == "later"


async def test_a_delay_can_be_cancelled(request_: ModelRequest) -> None:
    reading = asyncio.create_task(ask(Scripted([{"text": "a", "delay": 60}]), request_))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_a_script_that_has_ended_refuses(request_: ModelRequest) -> None:
    client = Scripted(["one"])
    await ask(client, request_)
    with pytest.raises(ModelRefusedError, match="no reply number 2"):
        await ask(client, request_)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"txt": "x"}, r"reply 1: txt: unknown key"),
        ({"calls": [{"nam": "f"}]}, r"reply 1: .*calls\.0\.nam: unknown key"),
        ({"error": {"kind": "weird"}}, r"reply 1: error\.kind"),
        ({"usage": {"tokens": 1}}, r"usage\.tokens: unknown key"),
        (42, r"reply 1 must be text, or a mapping with some of thinking, text"),
    ],
)
def test_a_mistake_in_a_reply_is_named(said: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Scripted([said])


async def test_a_script_can_be_yaml_or_json(tmp_path: Path, request_: ModelRequest) -> None:
    (tmp_path / "a.yaml").write_text("- Hello\n- text: Wörld\n  calls: [{name: f}]\n", "utf-8")
    (tmp_path / "a.json").write_text(json.dumps(["Hello"]))
    client = Scripted.from_file(tmp_path / "a.yaml")
    assert (await ask(client, request_)).message().text == "Hello"
    assert len((await ask(client, request_)).message().tool_calls) == 1
    assert (await ask(Scripted.from_file(tmp_path / "a.json"), request_)).finish_reason == "stop"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "There is no script at"),
        (b"- [", "cannot be read"),
        (b"\xff\xfe\xfa", "cannot be read"),
        (b"text: x", "must be a list"),
        (b"", "must be a list"),
        (b"- {txt: x}", "reply 1: txt: unknown key"),
    ],
)
def test_a_bad_script_file_says_what_to_do(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "script.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        Scripted.from_file(path)
    assert str(path) in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        Scripted.from_file(tmp_path)
