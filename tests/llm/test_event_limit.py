"""One event of any size is ended where the bytes come in, before anybody parses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import product

import pytest
from asking import ONLY_LITELLM, make_client

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.reading import EventSplitter
from ipyagent.llm.gateway import Events
from ipyagent.llm.service_error import EventTooLargeError
from ipyagent.schema import Message, Role
from servers.model_server import Flood, ModelServer, Reply, answer

pytestmark = pytest.mark.usefixtures("engine")

PROVIDERS = ("OPENAI", "ANTHROPIC", "MISTRAL", "GROQ")
KEYS = {f"{name}_API_KEY": "sk-canary-0123456789abcdef" for name in PROVIDERS}
MODELS = ("openai/gpt-x", "mistral/x", "groq/x", "ollama/qwen3")
WORDS = (b'data: {"choices": [{"index": 0, "delta": {"content": "', b"endless words " * 5_000)


async def ask(server: ModelServer, model: str) -> str:
    base = server.origin if model.startswith("anthropic/") else server.url
    config = LLMConfig(api_base=base, timeout=30)
    client = make_client(model, config, environ=KEYS, start=KEYS)
    request = ModelRequest((Message.of(Role.USER, "Hello."),))
    return "".join([c.data async for c in client.stream(request) if c.type == "content"])


@pytest.mark.spec("A53")
@pytest.mark.parametrize(
    ("engine", "model"),
    # LiteLLM reads Anthropic's lines, of which one that never ends is not seen.
    [*product(("direct", "litellm"), MODELS), ("direct", "anthropic/claude-x")],
    indirect=["engine"],
)
async def test_an_event_without_end_is_ended_and_not_asked_for_again(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventSplitter, "most", 1024**2)
    frames = []

    def frame(number: int) -> bytes:
        frames.append(number)
        return WORDS[min(number, 1)]

    endless = Flood(frame)
    reply = Reply((endless,), headers={"Content-Type": "text/event-stream"})
    with ModelServer([reply] * 3) as server:
        with pytest.raises(ModelRefusedError) as raised:
            await ask(server, model)
        assert await asyncio.to_thread(server.requests[0].closed.wait, 10)
        assert len(server.requests) == 1
    assert len(frames) * len(WORDS[1]) < 32 * 1024**2, "the limit and what sockets hold"
    what, _, advice = str(raised.value).partition("\n")
    assert what == f"{model} was ended: more than 1 MB came in one piece."
    assert f"Asked at {server.origin}" in advice
    assert KEYS["OPENAI_API_KEY"] not in str(raised.value)


@pytest.mark.slow
async def test_a_long_reply_of_small_events_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EventSplitter, "most", 2_000)
    with ModelServer([answer("word " * 5_000)]) as server:
        assert await ask(server, "openai/gpt-x") == "word " * 5_000


@ONLY_LITELLM
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
async def test_the_end_of_an_event_is_seen_wherever_the_pieces_are_cut(
    end: bytes, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two events: a carriage return ends a line only once it is known what follows.
    monkeypatch.setattr(EventSplitter, "most", 80)

    class Response:
        def __init__(self, body: bytes) -> None:
            self.body = body

        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            for at in range(0, len(self.body), step):
                yield self.body[at : at + step]

    class Stream:
        def __init__(self, body: bytes) -> None:
            self.response = Response(body)
            self.completion_stream = self

    small = (b"data: " + b"x" * 30 + end) * 20
    stream = Stream(small)
    Events().watch(stream)
    if step <= 30:
        assert b"".join([piece async for piece in stream.response.aiter_bytes()]) == small
    large = Stream(small + b"data: " + b"x" * 200)
    Events().watch(large)
    with pytest.raises(EventTooLargeError):
        [piece async for piece in large.response.aiter_bytes()]
