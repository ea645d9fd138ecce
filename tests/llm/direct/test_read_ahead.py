"""Bytes that arrive together are taken together, and no more of them are read than needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from asking import EVENTS, client_of, failed

from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct import reading
from ipyagent.llm.direct.reading import ReadAhead
from servers.model_server import ModelServer, Reply, answer, delta, sse


async def bursts(*sizes: int, error: Exception | None = None) -> AsyncIterator[bytes]:
    """As many pieces of ten bytes at a time."""
    for size in sizes:
        for _ in range(size):
            yield b"0123456789"
        await asyncio.sleep(0)
    if error:
        raise error


async def test_each_burst_is_taken_at_once() -> None:
    async with ReadAhead(bursts(3, 1, 200)) as ahead:
        taken = []
        while (data := await ahead.take()) is not None:
            taken.append(len(data) // 10)
    assert taken == [3, 1, 200]


async def test_a_failure_comes_after_what_was_read_before_it() -> None:
    async with ReadAhead(bursts(3, error=ConnectionError("reset"))) as ahead:
        assert await ahead.take() == b"0123456789" * 3
        with pytest.raises(ConnectionError, match="reset"):
            await ahead.take()


async def test_nothing_is_read_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 100)
    count = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal count
        while True:
            count += 1
            yield b"0123456789"

    async with ReadAhead(endless()) as ahead:
        for taken in range(1, 4):
            assert len(await ahead.take() or b"") == 110
            assert count == 11 * taken


async def test_leaving_ends_the_reading() -> None:
    ended = False

    async def silent() -> AsyncIterator[bytes]:
        nonlocal ended
        try:
            yield b"0123456789"
            await asyncio.Event().wait()
        finally:
            ended = True

    async with ReadAhead(silent()) as ahead:
        await ahead.take()
    assert ended


async def test_words_that_come_in_one_piece_are_one_chunk_and_a_kind_is_never_mixed(
    request_: ModelRequest,
) -> None:
    said = answer("one two three four", thinking="so I think", chunk_size=1)
    with ModelServer([said.split(10**6)]) as server:
        chunks = [chunk async for chunk in client_of(server).stream(request_)]
    assert [(c.type, c.data) for c in chunks] == [
        ("thinking", "so I think"),
        ("content", "one two three four"),
        ("finish", "stop"),
        ("usage", ""),
    ]


async def test_what_was_said_before_a_failure_in_the_same_piece_is_kept(
    request_: ModelRequest,
) -> None:
    frames = (sse(delta(content="he")), sse(delta(content="llo")), sse({"error": "exploded"}))
    with ModelServer([Reply((b"".join(frames),), headers=EVENTS)]) as server:
        _, reply = await failed(client_of(server), request_)
    assert reply.message().text == "hello"
