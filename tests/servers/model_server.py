"""A model's service on loopback: real HTTP, real SSE, and every fault a network has.

    with ModelServer([answer("Hello"), failure(429, headers={"Retry-After": "2"})]) as server:
        ...  # ask server.url, then look at server.requests

Each POST is played the next reply, whatever its path, so the same server speaks OpenAI's format
(`answer`) and Anthropic's (`anthropic_answer`). GET answers from `pages`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from patience import PATIENCE, until


@dataclass(frozen=True)
class Cut:
    """The connection ends here: `fin` politely, in mid-body; `rst` with a reset."""

    how: Literal["fin", "rst"] = "fin"


@dataclass(frozen=True)
class Silence:
    """Nothing more is sent; the connection stays open until the client closes it."""


@dataclass(frozen=True)
class Pause:
    """Nothing is sent until the test sets `event`."""

    event: threading.Event


@dataclass(frozen=True)
class Flood:
    """Frame after frame until the client goes; `frame` makes the one of that number."""

    frame: Callable[[int], bytes]


Frame = bytes | Cut | Silence | Pause | Flood


@dataclass(frozen=True)
class Reply:
    """What is sent for one request: a status, headers, and the body in frames.

    `framed=False` sends the body without a length, so that only closing the connection ends it.
    `before` is played before the status line.
    """

    frames: tuple[Frame, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framed: bool = True
    before: tuple[Frame, ...] = ()

    @property
    def body(self) -> bytes:
        """All bytes of the body."""
        return b"".join(frame for frame in self.frames if isinstance(frame, bytes))

    def split(self, size: int) -> Reply:
        """The same body in writes of `size` bytes, wherever that cuts it."""
        body = self.body
        return replace(
            self, frames=tuple(body[i : i + size] for i in range(0, len(body), size) or [0])
        )

    def cut(self, at: int, end: Cut | Silence | None = None) -> Reply:
        """The first `at` bytes of the body, then `end` (default: a polite cut)."""
        return replace(self, frames=(self.body[:at], end or Cut()))

    def pause(self, event: threading.Event, after: int = 1) -> Reply:
        """The same reply, waiting for `event` after that many frames."""
        return replace(self, frames=(*self.frames[:after], Pause(event), *self.frames[after:]))


@dataclass
class Request:
    """One request as it arrived. `closed` is set when its client has gone before the end."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    connection: int
    closed: threading.Event = field(default_factory=threading.Event)

    async def gone(self) -> bool:
        """Whether the client goes before the end."""
        return await asyncio.to_thread(self.closed.wait, PATIENCE)

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        body: dict[str, Any] = json.loads(self.raw)
        return body


def sse(data: object) -> bytes:
    """One server-sent event; strings go out as they are."""
    return b"data: " + (data if isinstance(data, str) else json.dumps(data)).encode() + b"\n\n"


def delta(*, finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk of OpenAI's format."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "test-model",
        "choices": [choice],
    }


USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def answer(
    text: str = "",
    *,
    thinking: str = "",
    calls: Sequence[tuple[str, Any] | tuple[str, Any, str]] = (),
    usage: Mapping[str, Any] | None = USAGE,
    finish_reason: str | None = None,
    chunk_size: int = 4,
    done: bool = True,
) -> Reply:
    """A streamed reply. A call is (name, arguments) or (name, arguments, id); a string as arguments
    goes out as it is, to play malformed JSON."""
    chunks = [delta(role="assistant", content="")]
    chunks += [delta(reasoning_content=piece) for piece in _pieces(thinking, chunk_size)]
    chunks += [delta(content=piece) for piece in _pieces(text, chunk_size)]
    for index, (name, arguments, *given) in enumerate(calls):
        said = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"index": index, "id": given[0] if given else f"call_{index}", "type": "function"}
        chunks.append(delta(tool_calls=[call | {"function": {"name": name, "arguments": ""}}]))
        chunks += [
            delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
            for piece in _pieces(said, chunk_size)
        ]
    chunks.append(delta(finish_reason=finish_reason or ("tool_calls" if calls else "stop")))
    if usage is not None:
        chunks.append(delta() | {"choices": [], "usage": dict(usage)})
    return stream(*chunks, *(["[DONE]"] if done else []))


def stream(*events: object) -> Reply:
    """A reply of these server-sent events, one frame each."""
    return Reply(tuple(map(sse, events)), headers={"Content-Type": "text/event-stream"})


def anthropic_answer(text: str = "", *, thinking: str = "", signature: str = "") -> Reply:
    """A streamed reply in Anthropic's format."""
    usage = {
        "input_tokens": 5,
        "output_tokens": 1,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"model": "test-model"}}
    ]
    blocks = [("thinking", thinking), ("text", text)]
    for index, (kind, said) in enumerate((k, s) for k, s in blocks if s):
        events.append(
            {
                "type": "content_block_start",
                "index": index,
                "content_block": {"type": kind, kind: ""},
            }
        )
        pieces = [{"type": f"{kind}_delta", kind: piece} for piece in _pieces(said, 4)]
        if kind == "thinking" and signature:
            pieces.append({"type": "signature_delta", "signature": signature})
        events += [{"type": "content_block_delta", "index": index, "delta": p} for p in pieces]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    events += [stop | {"usage": {"output_tokens": 9}}, {"type": "message_stop"}]
    frames = (f"event: {e['type']}\n".encode() + sse(e) for e in events)
    return Reply(tuple(frames), headers={"Content-Type": "text/event-stream"})


def failure(
    status: int,
    message: str = "something went wrong",
    *,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> Reply:
    """An error in OpenAI's format."""
    body = {"error": {"message": message, "type": "error", "code": None, **fields}}
    sent = {"Content-Type": "application/json", **(headers or {})}
    return Reply((json.dumps(body).encode(),), status=status, headers=sent)


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[i : i + size] for i in range(0, len(text), size))


Script = Iterable[Reply | Callable[[Request], Reply]]


class ModelServer:
    """The server, running in a thread of its own between `with` and its end."""

    def __init__(
        self,
        replies: Script = (),
        *,
        pages: Mapping[str, object] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.replies = list(replies)
        self.tls = tls
        self.pages = dict(pages or {})
        self.requests: list[Request] = []
        self.connections = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._ready = threading.Event()
        self._open: set[asyncio.Task[None]] = set()
        self._pauses: list[threading.Event] = []

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:PORT`, or https."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base URL for clients of OpenAI's format."""
        return f"{self.origin}/v1"

    async def asked(self, number: int = 1) -> Request:
        """The request of that number, as soon as it has arrived."""
        await until(lambda: len(self.requests) >= number)
        return self.requests[number - 1]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        for event in self._pauses:  # whose threads would be waited for
            event.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(
            self._connection, "127.0.0.1", 0, limit=2**24, ssl=self.tls
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in (tasks := list(self._open)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._open.add(task := asyncio.current_task())
        # Cancelled when the server stops; nobody waits for what is cut off then.
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while (request := await self._read(reader, number)) is not None:
                self.requests.append(request)
                if not await self._answer(request, reader, writer):
                    break
        if self._stop.is_set():
            # A client that keeps its connection for later answers no goodbye of TLS.
            writer.transport.abort()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self._open.discard(task)

    async def _read(self, reader: asyncio.StreamReader, connection: int) -> Request | None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(method, path, headers, body, connection)

    def _next(self, request: Request) -> Reply:
        if request.method == "GET":
            if request.path not in self.pages:
                return failure(404, f"no page {request.path}")
            return Reply((json.dumps(self.pages[request.path]).encode(),))
        if not self.replies:
            return failure(400, f"the server's script has no reply number {len(self.requests)}")
        reply = self.replies.pop(0)
        return reply if isinstance(reply, Reply) else reply(request)

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection can take another request."""
        playing = asyncio.ensure_future(self._play(self._next(request), writer))
        gone = asyncio.ensure_future(_closed(reader))
        await asyncio.wait({playing, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done() or isinstance(playing.exception(), ConnectionError):
            request.closed.set()
        for task in (playing, gone):
            if not task.done():
                task.cancel()
        done, _ = await asyncio.gather(playing, gone, return_exceptions=True)
        return done is True

    async def _play(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        if not await self._send(reply.before, writer, framed=False):
            return False
        ending = "Transfer-Encoding: chunked" if reply.framed else "Connection: close"
        headers = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Status\r\n{headers}{ending}\r\n\r\n".encode())
        # The end goes out with the last frame: a client that has read that may look no further,
        # and then closes a connection whose end it has not seen.
        whole = reply.framed and bool(reply.frames) and isinstance(reply.frames[-1], bytes)
        frames, last = (reply.frames[:-1], reply.frames[-1]) if whole else (reply.frames, b"")
        if not await self._send(frames, writer, framed=reply.framed):
            return False
        if reply.framed:
            writer.write((_chunk(last) if last else b"") + b"0\r\n\r\n")
        await writer.drain()
        return reply.framed

    async def _send(
        self, frames: Iterable[Frame], writer: asyncio.StreamWriter, *, framed: bool
    ) -> bool:
        for frame in frames:
            match frame:
                case bytes():
                    if frame:
                        writer.write(_chunk(frame) if framed else frame)
                        await writer.drain()
                case Pause(event):
                    self._pauses.append(event)
                    await asyncio.to_thread(event.wait, 30)
                case Flood(make):
                    for number in itertools.count():
                        writer.write(_chunk(make(number)) if framed else make(number))
                        await writer.drain()
                case Silence():
                    await asyncio.Event().wait()
                case Cut(how):
                    if how == "rst":
                        # Zero linger: closing discards what is unsent and resets.
                        sock = writer.get_extra_info("socket")
                        sock.setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
                        writer.transport.abort()
                    return False
        return True


def _chunk(frame: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(frame), frame)


async def _closed(reader: asyncio.StreamReader) -> None:
    """Wait until the client has gone, without eating what it sends next."""
    while not reader.at_eof():
        await asyncio.sleep(0.01)
        if reader.exception() is not None:
            return


Part = list[Reply | Callable[[Request], Reply]]


def play(server: ModelServer, **parts: Part) -> None:
    """Let the server play several agents, each known by the words of its prompt."""
    named = {name.replace("_", " "): [*replies] for name, replies in parts.items()}

    def reply(request: Request) -> Reply:
        said = [str(each["content"]) for each in request.body["messages"] if each["role"] == "user"]
        part = next(part for name, part in named.items() if name in said[-1])
        found = part.pop(0)
        return found(request) if callable(found) else found

    server.replies = [reply] * 50


class Meeting:
    """Replies that are sent once all of them were asked for."""

    def __init__(self, number: int) -> None:
        self.left, self.everybody = number, threading.Event()

    def of(self, reply: Reply) -> Callable[[Request], Reply]:
        def meet(_request: Request) -> Reply:
            self.left -= 1
            if not self.left:
                self.everybody.set()
            return reply.pause(self.everybody)

        return meet
