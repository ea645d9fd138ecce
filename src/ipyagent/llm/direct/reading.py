"""From an answer's bytes to chunks, whatever the format."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import httpx

from ipyagent.json_types import JsonDict
from ipyagent.llm import event_limit
from ipyagent.llm.direct.formats import Reader
from ipyagent.llm.event_limit import EventTooLargeError
from ipyagent.llm.service_error import ServiceError
from ipyagent.schema import StreamChunk

DONE = "[DONE]"


def read_chunks(events: list[list[str]], reader: Reader) -> Iterator[StreamChunk]:
    """Yield the chunks of events that arrived together, neighbouring texts of one kind as one.

    Whatever handles a chunk costs the same for one word as for fifty.
    """
    texts: list[StreamChunk] = []
    try:
        for chunk in _chunks(events, reader):
            if texts and chunk.type != texts[0].type:
                yield _join(texts)
                texts = []
            if chunk.type in ("content", "thinking"):
                texts.append(chunk)
            else:
                yield chunk
    except Exception:
        if texts:  # text before the failure is kept
            yield _join(texts)
        raise
    if texts:
        yield _join(texts)


def _join(texts: list[StreamChunk]) -> StreamChunk:
    if len(texts) == 1:
        return texts[0]
    return StreamChunk(type=texts[0].type, data="".join(chunk.data for chunk in texts))


def _chunks(events: list[list[str]], reader: Reader) -> Iterator[StreamChunk]:
    for lines in events:
        for event in _parse(lines, reader):
            yield from reader.read(event)


def _parse(lines: list[str], reader: Reader) -> Iterator[JsonDict]:
    """Yield the JSON objects of an event: one, or by mistake one in each line."""
    text = "\n".join(lines).strip()
    if text == DONE:
        reader.is_over = True
        return
    if not text or reader.is_over:
        return
    try:
        events = [json.loads(text)]
    except ValueError:
        if len(lines) == 1:
            raise
        events = [json.loads(line) for line in lines if line.strip() not in ("", DONE)]
    yield from (event for event in events if isinstance(event, dict))


async def check_status(response: httpx.Response) -> None:
    """Raise ServiceError for an answer that is none."""
    if response.is_success:
        return
    body = await read_body(response)
    raise ServiceError.of_answer(response.status_code, body, response.headers)


async def read_body(response: httpx.Response) -> bytes:
    """Return the whole body; raises EventTooLargeError for one that does not end."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > event_limit.MAX_EVENT:
            raise EventTooLargeError
    return bytes(body)


async def once(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body that was read already."""
    yield body
