"""From an answer's bytes to chunks, whatever the format, and by when something must have arrived.

Server-sent events are cut out of the bytes as they arrive. Format:
https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. Only `data`
matters here. A line that is bare JSON is taken for data: some services report an error in the midst
of a stream without any framing, or on several lines. Others name the event `error`, or its field.

HTTP delivers a fast stream in hundreds of small pieces for each read of the socket. All that comes
after them (redaction, events, views) costs the same for one piece as for all of them, so what
arrives together is handled together.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import httpx

from ipyagent.errors import ModelRefusedError
from ipyagent.json_types import JsonDict
from ipyagent.llm.direct import Reader, objects_of
from ipyagent.llm.service_error import EventTooLargeError, ServiceError
from ipyagent.schema import StreamChunk

_ERRORS = {b"error", b"exception"}
_MARK = b"\xef\xbb\xbf"
_OTHER_FIELDS = (b":", b"id:", b"retry:")
_UNFRAMED = 10_000


class EventSplitter:
    """Splits a stream of bytes into the data of its events."""

    most = 8 * 1024 * 1024
    """Bytes of one event, or of a body without events: twice the limit of a whole reply."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """A line that has not ended yet."""
        self._data: list[bytes] = []
        """The data of an event that has not ended yet."""
        self._size = 0
        self._is_start = True
        self._is_error = False
        """True if the event that has not ended yet is named so."""
        self.has_events = False
        """True once there was an event."""
        self.unframed = b""
        """The beginning of what belongs to no event."""

    def feed(self, piece: bytes) -> list[list[str]]:
        """Return the events that end in `piece`, each as its lines of data."""
        if b"\n" not in piece and b"\r" not in piece:
            self._pieces.append(piece)
            self._grow(len(piece))
            return []
        text = b"".join((*self._pieces, piece))
        self._pieces.clear()
        if self._is_start:
            text, self._is_start = text.removeprefix(_MARK), False
        if b"\r" in text:
            text = self._unify_ends(text)
        *lines, rest = text.split(b"\n")
        self._size = sum(map(len, self._data))
        events = [event for line in lines if (event := self._take(line))]
        self.has_events = self.has_events or bool(events)
        if rest:
            self._pieces.insert(0, rest)
        self._grow(len(rest))
        return events

    def end(self) -> list[list[str]]:
        """Return the event that the end of the stream ends."""
        return self.feed(b"\n\n")

    def _unify_ends(self, text: bytes) -> bytes:
        # A line feed that belongs to this carriage return may come with the next piece.
        if text.endswith(b"\r"):
            text = text[:-1]
            self._pieces.append(b"\r")
        return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take(self, line: bytes) -> list[str] | None:
        """Take a line; return the event that it ends."""
        if not line:
            event = [_as_error(b"\n".join(self._data))] if self._is_error else self._data
            self._data, self._size, self._is_error = [], 0, False
            return [each.decode("utf-8", "replace") for each in event]
        if line.startswith(b"data:"):
            text = line[6:] if line.startswith(b"data: ") else line[5:]
            text = text.removeprefix(b"data:")  # some servers name the field twice
            if not text.lstrip().startswith(b":"):  # a comment that a proxy has put into an event
                self._data.append(text)
        elif line.startswith(b"error:"):
            self._data.append(_as_error(line[6:]))
        elif line.startswith(b"event:"):
            self._is_error = line[6:].strip().lower() in _ERRORS
        elif line.startswith(b"{") and line.rstrip().endswith(b"}"):
            self._data.append(line)
        elif len(self.unframed) < _UNFRAMED and not line.startswith(_OTHER_FIELDS):
            self.unframed += line
        self._grow(len(line))
        return None

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self.most:
            raise EventTooLargeError(self.most)


def _as_error(text: bytes) -> bytes:
    """Return the data of an event that is an error by its name or its field."""
    try:
        error: Any = json.loads(text)
    except (ValueError, RecursionError):
        error = text.decode("utf-8", "replace").strip()
    if isinstance(error, dict) and error.get("error"):
        return text
    return json.dumps({"error": error or "an error without words"}).encode()


DONE = "[DONE]"
_WORDS = re.compile(r"[^{\[]|\[[A-Za-z]")
"""The beginning of what is not a chunk in JSON."""
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
        if _WORDS.match(text):  # a sign of life, or an error
            reader.reason = reader.reason if reader.has_words else text
            return
        if len(lines) == 1:
            raise
        yield from _parse_each(lines)
        return
    yield from events


def _parse_each(lines: list[str]) -> Iterator[JsonDict]:
    """Yield the objects of lines; raises for a broken line once no other one tells of an error."""
    broken = None
    for line in lines:
        try:
            yield from _objects(line) if line.strip() not in ("", DONE) else ()
        except ValueError as error:
            broken = error
    if broken:
        raise broken


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


FINISHED_SECONDS = 2.0
"""How long more is waited for once the tokens were counted after a finish."""
UNCOUNTED = 5
"""How many times as long it is waited for before: some services finish after each call."""
_LINE = 64
"""Bytes that cost as much time as a line by itself."""
DRAIN_SECONDS = 0.25
"""How long the end of an answer is waited for after its last event, to keep the connection."""


class Deadline:
    """The deadline of a reply, which only what can be used puts off.

    Bytes alone do not: a body that drips, pings, and events without words are no answer, and only
    so many of them are read. After the end of the reply there is one deadline for what may still
    come, which only words and calls lift, words not for ever, and what was complete stays so.
    """

    most = 16 * 1024 * 1024
    """Bytes without an answer; services repeat all tools and the whole reply in single events."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + seconds
        self._end = self._last = math.inf
        """By when all that may come after the reply must have come; the words among it."""
        self._unused = 0
        """Bytes since the last part of the answer."""

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Raise TimeoutError once the deadline has passed."""
        due = min(self._due, self._end, self._last)
        if self._loop.time() > due:
            raise TimeoutError
        async with asyncio.timeout_at(due):
            yield

    async def take(self, ahead: ReadAhead, reader: Reader) -> bytes | None:
        """Return the next bytes; None at the end, which a finished reply need not reach in order.

        Raises TimeoutError if nothing that can be used has arrived in time.
        """
        is_open = not (reader.is_finished or reader.is_over)
        if not is_open:
            seconds = FINISHED_SECONDS * (1 if reader.is_counted else UNCOUNTED)
            seconds = DRAIN_SECONDS if reader.is_over else seconds
            self._end = min(self._end, self._loop.time() + seconds)
        try:
            async with self.limit():
                data = await ahead.take()
            self._unused += len(data or b"") + _LINE * (data or b"").count(b"\n")
            if self._unused > self.most:
                raise EventTooLargeError(self.most, "without an answer")
            return data
        except (TimeoutError, httpx.HTTPError):
            if is_open and reader.reason is None:
                raise
        return None

    def renew_by(self, chunks: Iterable[StreamChunk]) -> Iterator[StreamChunk]:
        """Yield the chunks; each that says something puts the deadline off."""
        for chunk in chunks:
            if chunk.type == "finish":
                self._last = self._loop.time() + self._seconds
            elif chunk.data or chunk.name:
                self._due = self._loop.time() + self._seconds
                self._unused = self._unused if not chunk.data else 0
            if chunk.type == "tool_call":
                self._last = math.inf
            if chunk.type in ("content", "tool_call") and (chunk.data.strip() or chunk.name):
                self._end = math.inf  # the reply goes on, also after a finish
            yield chunk


MOST = 1024 * 1024
"""Bytes that are read before anybody takes them."""


class ReadAhead:
    """Reads an iterator of bytes; leaving it ends the reading, and with it the connection."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._waiting: list[bytes] = []
        self._size = 0
        self._arrived, self._taken = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._task

    async def take(self) -> bytes | None:
        """Return all that has arrived, after waiting for something; None at the end.

        Raises the reader's error, once all that came before was taken.
        """
        await self._arrived.wait()
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            self._taken.set()
            if not self._task.done():
                self._arrived.clear()
            return data
        self._task.result()
        return None

    async def _read(self) -> None:
        try:
            async for piece in self._pieces:
                self._waiting.append(piece)
                self._size += len(piece)
                self._arrived.set()
                if self._size > MOST:
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            # The task is done only after this: whoever waits is woken by its end.
            asyncio.get_running_loop().call_soon(self._arrived.set)
