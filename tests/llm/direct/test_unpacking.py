"""Answers that are packed: what was not asked for takes no more memory than a plain answer."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import httpx
import pytest
from asking import EVENTS, HELLO, ask, client_of, failed

from ipyagent.errors import ModelError, ModelRefusedError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.reading import Deadline
from servers.model_server import ModelServer, Reply, delta, sse

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 9),
    "x-gzip": lambda data: gzip.compress(data, 9),
    "deflate": lambda data: zlib.compress(data, 9),
}
ZEROES = bytes(60_000_000)
MOST = 50_000_000
"""Bytes by which an answer may let this process grow."""


def packed(body: bytes, encoding: str, layers: int = 1, **more: object) -> Reply:
    for _ in range(layers):
        body = PACKERS[encoding](body)
    headers = {**EVENTS, "Content-Encoding": ", ".join([encoding] * layers)}
    return Reply((body,), headers=headers, **more)


async def measure(client: object, request: ModelRequest) -> tuple[ModelError, int]:
    """Return the error that an answer ends with, and the bytes by which memory grew."""
    tracemalloc.start()
    try:
        error, _ = await failed(client, request)
        return error, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def bombs() -> dict[tuple[str, int], Reply]:
    return {
        (encoding, layers): packed(ZEROES, encoding, layers)
        for encoding in ("gzip", "deflate")
        for layers in (1, 2, 4)
    }


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_few_packed_bytes_take_no_memory(
    bombs: dict[tuple[str, int], Reply], status: int, is_streamed: bool, request_: ModelRequest
) -> None:
    for (encoding, layers), bomb in bombs.items():
        reply = Reply(bomb.frames, status, bomb.headers)
        with ModelServer([reply] * 9) as server:
            client = client_of(server, stream=is_streamed)
            error, growth = await measure(client, request_)
        assert growth < MOST, (encoding, layers)
        told = "unasked" if layers > 1 else "more than 8 MB came in one piece"
        assert told in str(error), (encoding, layers)


NOTHING = {
    "comments": b":\n",
    "lines of data": b"data:\n",
    "objects": b"data: {}\n\n",
    "deltas": sse(delta()),
    "roles": sse(delta(role="assistant", content="")),
    "counts": sse({"choices": [], "usage": {"prompt_tokens": 1}}),
    "pieces of nothing": sse({"choices": [{"delta": {"tool_calls": {"index": 0}}}]}),
}


@pytest.mark.parametrize("kind", NOTHING)
async def test_bytes_without_an_answer_are_ended_long_before_the_timeout(
    kind: str, request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "most", 1024**2)
    event = NOTHING[kind]
    with ModelServer([packed(event * (3 * 1024**2 // len(event)), "gzip")]) as server:
        error, _ = await failed(client_of(server), request_)
    assert "was ended: more than 1 MB came without an answer" in str(error)


async def test_calls_without_end_take_no_memory(request_: ModelRequest) -> None:
    pieces = ({"index": number, "id": f"{number}"} for number in range(30_000))
    events = (sse({"choices": [{"delta": {"tool_calls": [piece]}}]}) for piece in pieces)
    with ModelServer([packed(b"".join(events), "gzip")]) as server:
        error, growth = await measure(client_of(server), request_)
    assert growth < MOST
    assert "10,000 calls" in str(error)


async def test_the_library_unpacks_all_of_it(bombs: dict[tuple[str, int], Reply]) -> None:
    with ModelServer([bombs["gzip", 2]]) as server:
        tracemalloc.start()
        async with httpx.AsyncClient() as naive:
            await naive.post(server.url)
        assert tracemalloc.get_traced_memory()[1] > MOST
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", PACKERS)
async def test_one_layer_is_unpacked(encoding: str, request_: ModelRequest) -> None:
    with ModelServer([packed(HELLO.body, encoding).split(7)]) as server:
        assert (await ask(client_of(server), request_)).message().text == "Hello wörld"


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, br", "what"])
async def test_an_encoding_that_was_not_asked_for_is_named(
    encoding: str, request_: ModelRequest
) -> None:
    odd = Reply(HELLO.frames, headers={**EVENTS, "Content-Encoding": encoding})
    with ModelServer([odd]) as server:
        error, _ = await failed(client_of(server), request_)
    assert isinstance(error, ModelRefusedError)
    assert encoding in str(error)


async def test_what_is_packed_wrongly_is_an_error_that_can_be_read(request_: ModelRequest) -> None:
    odd = Reply(HELLO.frames, headers={**EVENTS, "Content-Encoding": "gzip"})
    with ModelServer([odd] * 9) as server:
        error, _ = await failed(client_of(server), request_)
    assert "malformed and cannot be read" in str(error)
