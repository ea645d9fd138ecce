"""The transports of MCP, a program's pipes and HTTP: messages are limited, filtered and repaired.

The SDK's own transport for programs keeps everything until a line ends. This one limits the length
of a line, the rate of reading, and the stored part of stderr. Small flaws are repaired before the
SDK gets a message: it would refuse the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, JSONRPCMessage, jsonrpc_message_adapter
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ipyagent import telemetry
from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPConnectionError
from ipyagent.json_types import JsonDict, object_of, parse_json
from ipyagent.services import find_credentials, secret_headers
from ipyagent.tools.json_schemas import clean

ReceivedItem = SessionMessage | Exception


class ReceiveStream(Protocol):
    """A stream that messages are read from."""

    async def receive(self) -> ReceivedItem:
        """Return the next message; raise EndOfStream after the last one."""

    async def aclose(self) -> None:
        """Close it."""


TransportStreams = tuple[ReceiveStream, Any]
"""The stream to read from, and the SDK's to write to."""

_TOP = ("type", "properties", "required")

_LISTS = ("content", "tools")
_GREETING = {"protocolVersion", "serverInfo", "capabilities"}
_KNOWN = {
    *_LISTS,
    *_GREETING,
    *("structuredContent", "task", "tasks", "resultType"),
    *("supportedVersions", "nextCursor", "inputRequests"),
}
"""Fields by which the answers to methods are known."""

VERSION = "2025-11-25"
"""The protocol version by which a single tool or block is validated."""
OLDEST_VERSION = "2024-11-05"
"""The version of a server that names none."""


def repair_message(message: object) -> object:
    """Return a message whose error or result, if it is an answer, has the form of the protocol."""
    if not isinstance(message, dict) or "id" not in message:
        return message
    is_answer = "result" in message  # also one of null
    message = {"jsonrpc": "2.0", **_without_nulls(message)}
    if "error" in message:
        given = message["error"]
        fields = _without_nulls(given) if isinstance(given, dict) else {"message": given}
        code, text = fields.get("code"), fields.get("message", given)
        message["error"] = fields | {
            "code": code if isinstance(code, int) else INTERNAL_ERROR,
            "message": text if isinstance(text, str) else json.dumps(text, ensure_ascii=False),
        }
    elif is_answer:
        result = message.get("result", {})
        message["result"] = result if isinstance(result, dict) else {"content": result}
    return message


def repair_result(result: JsonDict) -> None:
    """Repair a result in place: the call has already been carried out."""
    for key in _LISTS:
        if result.get(key, ...) is None:  # as Go writes an empty list
            result[key] = []
    for key, value in [*result.items()]:
        if value is None or (key == "_meta" and not isinstance(value, dict)):
            del result[key]
    if type(page := result.get("nextCursor", "")) is not str:
        result["nextCursor"] = str(page or "")
    if result.keys() & _GREETING and "supportedVersions" not in result:
        _repair_greeting(result)
    if not result.keys() & _KNOWN:  # the answer to a call, in a form of the server's own
        own = {key: value for key, value in result.items() if key not in ("isError", "_meta")}
        result["content"] = [own] if own else []
    if "content" not in result and "structuredContent" not in result:
        return
    content = result.get("content", [])
    blocks = content if isinstance(content, list) else [content]
    if not isinstance(result.get("structuredContent", {}), dict):
        blocks = blocks or [result["structuredContent"]]
        del result["structuredContent"]
    result["content"] = [_repair_block(each) for each in blocks]


def _repair_greeting(result: JsonDict) -> None:
    """Add what a server left out about itself; one that announces nothing may have tools."""
    if not isinstance(result.get("protocolVersion"), str):
        result["protocolVersion"] = OLDEST_VERSION
    info, offered = result.get("serverInfo"), result.get("capabilities")
    named = _without_nulls(info) if isinstance(info, dict) else {}
    result["serverInfo"] = {"name": "", "version": "", **named}
    listed = offered.items() if isinstance(offered, dict) else ()
    announced = {k: object_of(v) for k, v in listed if v not in (None, False)}
    result["capabilities"] = announced or {"tools": {}}


def repair_tool(tool: object) -> object:
    """Return a tool's description, the top of its schema as the protocol insists on it."""
    if not isinstance(tool, dict):
        return tool
    tool = _without_nulls(tool)
    schema = tool.get("inputSchema")
    if schema is True:
        schema = {"additionalProperties": True}
    if schema == []:  # as PHP writes an empty object
        schema = {}
    if tool.get("annotations") == []:
        del tool["annotations"]
    if isinstance(schema, dict):
        top = {key: each for key, each in clean(schema).items() if key in _TOP}
        if "object" in top.get("type", ()):
            top["type"] = "object"
        others = {k: v for k, v in schema.items() if k not in _TOP and k != "$schema"}
        tool["inputSchema"] = {"type": "object", **_without_nulls(others), **top}
    return tool


def _repair_block(block: object) -> object:
    """Return the block; one of an unknown type becomes text."""
    if isinstance(block, dict):
        block = _without_nulls(block)
        if (kind := block.get("type")) in ("image", "audio"):
            block = {"mimeType": block.get("mime_type", f"{kind}/*"), **block}
        try:
            validate_server_result("tools/call", VERSION, {"content": [block]})
        except ValidationError:
            pass
        else:
            return block
    text = block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)
    return {"type": "text", "text": text}


def _without_nulls(values: JsonDict) -> JsonDict:
    return {key: value for key, value in values.items() if value is not None}


MAX_MESSAGE = 16_000_000
"""Bytes of one message; an image in it may be large."""

BYTES_PER_SECOND = 64_000_000
"""Bytes read per second, so that a flooding server does not use up the kernel's processor."""

_CHUNK = 65_536
_DECODER = json.JSONDecoder()
_BEGINNING = re.compile(r'\{\s*"(?:jsonrpc|id|result)"')
_EXIT_SECONDS = 1.0  # seconds to end after its input is closed, and again after SIGTERM
_MAX_STDERR = 8_000  # bytes that are stored


class Program:
    """A server's process, its process group, and the end of its stderr."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._input = cast("asyncio.StreamWriter", process.stdin)
        self._output = cast("asyncio.StreamReader", process.stdout)
        self._errors = cast("asyncio.StreamReader", process.stderr)
        self._stderr = b""
        self._stderr_closed = asyncio.Event()
        self._exited = False
        self.problem: str | None = None

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr."""
        return self._stderr.decode("utf-8", "replace").strip()

    async def listen(self) -> None:
        """Keep reading stderr, so that the program never blocks on it."""
        while chunk := await self._errors.read(_CHUNK):
            self._stderr = (self._stderr + chunk)[-_MAX_STDERR:]
            await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)
        self._stderr_closed.set()

    async def read(self, received: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on its messages until its stdout ends; other lines are dropped."""
        lines = LineSplitter()
        async with received:
            with contextlib.suppress(anyio.BrokenResourceError):
                while chunk := await self._output.read(_CHUNK):
                    for line in lines.feed(chunk):
                        for message in _parse_messages(line):
                            await received.send(SessionMessage(message))
                    if lines.too_long:
                        self.problem = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
                        return
                    await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)

    async def write(self, to_send: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send messages to it."""
        async with to_send:
            with contextlib.suppress(ConnectionError):
                async for each in to_send:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._input.write(text.encode("utf-8", "replace") + b"\n")
                    await self._input.drain()

    async def end(self) -> None:
        """Close its input, then terminate it, then kill it and its children."""
        self._input.close()
        if not await self._wait_for_exit():
            self._signal(signal.SIGTERM)
            await self._wait_for_exit()
        self.kill()
        self._exited = await self._wait_for_exit()
        with anyio.move_on_after(0.2):
            await self._stderr_closed.wait()
        # A child that left the group may hold the pipes open; do not wait for it.
        getattr(self._process, "_transport").close()  # noqa: B009 - asyncio has no public way

    def kill(self) -> None:
        """Kill it and its children at once, unless its process id may have been reused."""
        if not self._exited:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    async def _wait_for_exit(self) -> bool:
        # Not `wait`, which also waits until the pipes are closed.
        for _ in range(int(_EXIT_SECONDS / 0.01)):
            if self._process.returncode is not None:
                return True
            await asyncio.sleep(0.01)
        return False

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.terminate()


def _parse_messages(line: bytes) -> list[JSONRPCMessage]:
    """Return the messages in a line, several in a batch; small flaws are repaired."""
    with contextlib.suppress(ValueError):
        return [jsonrpc_message_adapter.validate_json(line, by_name=False)]
    # Some servers cut texts between the two halves of a character.
    text = line.decode("utf-8-sig", "replace")
    given = parse_json(text) or [*_find_messages(text)]
    messages = []
    for each in given if isinstance(given, list) else [given]:
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(repair_message(each), ensure_ascii=False)
            data = text.encode("utf-8", "replace")
            messages.append(jsonrpc_message_adapter.validate_json(data, by_name=False))
    return messages


def _find_messages(text: str) -> Iterator[object]:
    """Yield the answers in a line that holds something else as well.

    A request in it is one that the server writes to its log.
    """
    end = 0
    while found := _BEGINNING.search(text, end):
        try:
            message, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return
        fields = object_of(message)
        if "jsonrpc" in fields and fields.keys() & {"result", "error"}:
            yield message


class LineSplitter:
    """Splits bytes into lines, none longer than a message may be.

    A `StreamReader` with such a limit would hold that much of a flood before the answer behind it.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self.too_long = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the completed lines."""
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            self._partial += line
            yield bytes(self._partial)
            self._partial.clear()
        self._partial += rest
        self.too_long = len(self._partial) > MAX_MESSAGE


@contextlib.asynccontextmanager
async def start_program(
    command: Sequence[str], env: Mapping[str, str], cwd: Path
) -> AsyncIterator[tuple[TransportStreams, Program]]:
    """Start the program; raises MCPConnectionError. It ends with the context."""
    program = Program(await _start(command, env, cwd))
    received, to_read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    written, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    async with received, to_read, written, to_send, anyio.create_task_group() as tasks:
        tasks.start_soon(program.listen)
        tasks.start_soon(program.read, received)
        tasks.start_soon(program.write, to_send)
        try:
            yield (to_read, written), program
        finally:
            with anyio.CancelScope(shield=True):
                to_read.close()
                await program.end()
            tasks.cancel_scope.cancel()


async def _start(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> Process:
    name = command[0]
    local = os.sep in name
    program = shutil.which(str(cwd / name) if local else name, path=env.get("PATH"))
    if program is None:
        raise MCPConnectionError(f"there is no program {name!r} to start; is it installed?")
    try:
        return await asyncio.create_subprocess_exec(
            *_death_signal_prefix(), program, *command[1:],
            stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(env), cwd=cwd, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise MCPConnectionError(f"{name!r} cannot be started: {error}") from None


@cache
def _death_signal_prefix() -> tuple[str, ...]:
    """Return a command prefix that ends a program with the kernel, if the system has one."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    prefix = (setpriv, "--pdeathsig", "KILL", "--")
    probe = subprocess.run([*prefix, "true"], check=False, capture_output=True)  # noqa: S603
    return prefix if probe.returncode == 0 else ()


TRACE_ID = "ipyagent/trace_id"
"""The key in a call's `_meta` that holds the run's trace id."""


class LimitedTransport(httpx2.AsyncHTTPTransport):
    """A transport that limits responses; `status` is that of the last refusal."""

    def __init__(self) -> None:
        super().__init__(trust_env=False)
        self.status: int | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, uncompressed and limited in size."""
        response = await super().handle_async_request(request)
        if (request.method, response.status_code) != ("GET", 405):  # a server without notifications
            self.status = response.status_code if response.is_error else None
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("it compresses its answers, which was not requested")
        is_event_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        stream = cast("httpx2.AsyncByteStream", response.stream)
        response.stream = _LimitedStream(stream, None if is_event_stream else MAX_MESSAGE)
        return response


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int | None) -> None:
        self._stream, self._max_bytes = stream, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for chunk in self._stream:
            length += len(chunk)
            if self._max_bytes is not None and length > self._max_bytes:
                raise httpx2.StreamError(f"it sent more than {self._max_bytes:,} bytes")
            yield chunk
            await asyncio.sleep(len(chunk) / BYTES_PER_SECOND)

    async def aclose(self) -> None:
        await self._stream.aclose()


@asynccontextmanager
async def connect_http(
    url: str, config: MCPServerConfig, environ: Mapping[str, str], *, sse: bool
) -> AsyncIterator[tuple[TransportStreams, LimitedTransport]]:
    """Open the server's streams; raises MCPConnectionError for a missing credential."""
    given = secret_headers(config), config.header_env, config.token_env
    find_credentials(*given, environ)

    async def authorize(request: httpx2.Request) -> None:
        if trace_id := _find_trace_id(await request.aread()):
            request.headers[telemetry.TRACE_HEADER] = trace_id
        headers = find_credentials(*given, environ)
        request.headers.update({k.encode(): v.encode("latin-1") for k, v in headers.items()})

    transport = LimitedTransport()
    client = httpx2.AsyncClient(
        transport=transport,
        # The time limits of a call, also of its silence, are applied where the call is made.
        timeout=httpx2.Timeout(config.connect_timeout, read=None, write=config.execute_timeout),
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [authorize]},
    )
    if sse:
        async with sse_client(url, httpx_client_factory=lambda *_, **__: client) as streams:
            yield streams, transport
        return
    connection = streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE)
    async with client, connection as streams:
        yield streams, transport


def _find_trace_id(message: bytes) -> str | None:
    """Return the trace id of the run that a message was sent for."""
    # The SDK sends from tasks of its own, so only the message identifies its run.
    if TRACE_ID.encode() not in message:
        return None
    value = json.loads(message)
    for key in ("params", "_meta", TRACE_ID):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
