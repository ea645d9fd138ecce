"""From an answer's bytes to chunks, whatever the format."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Iterator

import httpx

from ipyagent.errors import ModelRefusedError
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct.events import EventSplitter
from ipyagent.llm.direct.formats import Reader, objects_of
from ipyagent.llm.service_error import EventTooLargeError, ServiceError
from ipyagent.schema import StreamChunk

DONE = "[DONE]"
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 47
_MAX_PIECE = 65_536
"""Bytes that are unpacked at once."""


def read_chunks(events: list[list[str]], reader: Reader) -> Iterator[StreamChunk]:
    """Yield the chunks of events that arrived together, neighbouring texts of one kind as one.

    Whatever handles a chunk costs the same for one word as for fifty.
    """
    texts: list[StreamChunk] = []
    try:
        for chunk in _chunks(events, reader):
            if texts and (chunk.type, chunk.index) != (texts[0].type, texts[0].index):
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
    return texts[0].model_copy(update={"data": "".join(chunk.data for chunk in texts)})


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
        events = _objects(text)
    except ValueError:
        if reader.is_finished:  # what was complete stays complete
            return
        if not reader.has_words and text[0] not in "{[":
            reader.reason = text
            return
        if len(lines) == 1:
            raise
        events = [e for line in lines if line.strip() not in ("", DONE) for e in _objects(line)]
    yield from events


def _objects(text: str) -> list[JsonDict]:
    """Return the JSON object of a text, or those of its array."""
    value = json.loads(text)
    return objects_of(value if isinstance(value, list) else [value])


async def check_status(response: httpx.Response) -> None:
    """Raise ServiceError for an answer that is none."""
    if response.is_success:
        return
    body = await read_body(response)
    raise ServiceError.of_answer(response.status_code, body, response.headers)


async def read_body(response: httpx.Response) -> bytes:
    """Return the whole body; raises EventTooLargeError for one that does not end."""
    body = bytearray()
    async for piece in iterate_body(response):
        body += piece
        if len(body) > EventSplitter.most:
            raise EventTooLargeError(EventSplitter.most)
    return bytes(body)


async def iterate_body(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body in pieces, each of bounded size also where a service packed it unasked.

    One layer is unpacked, since a few bytes of several can take all memory.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        async for piece in response.aiter_raw():
            yield piece
        return
    if encoding not in _PACKED:
        raise ModelRefusedError(f"the service packs its answer as {encoding!r}, unasked")
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        async for piece in response.aiter_raw():
            while piece:
                yield unpacker.decompress(piece, _MAX_PIECE)
                piece = unpacker.unconsumed_tail
    except zlib.error as error:
        raise httpx.DecodingError(str(error)) from None


async def once(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body that was read already."""
    yield body
