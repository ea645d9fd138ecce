"""One connection to an MCP server through the official SDK, with limits on everything.

A server at an address speaks streamable HTTP, or the older SSE. The SDK follows redirects within
the server's own origin only. This module adds the limits that the SDK lacks, and the credentials,
which go to that origin alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError as ProtocolError
from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from ipyagent import telemetry
from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPConnectionError, MCPToolCallError
from ipyagent.json_types import JsonMapping
from ipyagent.plaintext import excerpt, strip_escapes
from ipyagent.services.mcp.messages import (
    MAX_TOOLS,
    TRACE_ID,
    FilteredMessages,
    TransportStreams,
    describe_error,
)
from ipyagent.services.mcp.stdio import BYTES_PER_SECOND, MAX_MESSAGE, Program, start_program


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
    _credential_headers(config, environ)
    transport = LimitedTransport()
    client = _client(config, environ, transport)
    if sse:

        def make_client(*_: object, **__: object) -> httpx2.AsyncClient:
            return client

        async with sse_client(url, httpx_client_factory=make_client) as streams:
            yield streams, transport
        return
    connection = streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE)
    async with client, connection as streams:
        yield streams, transport


def _client(
    config: MCPServerConfig, environ: Mapping[str, str], transport: LimitedTransport
) -> httpx2.AsyncClient:
    async def authorize(request: httpx2.Request) -> None:
        if trace_id := _find_trace_id(await request.aread()):
            request.headers[telemetry.TRACE_HEADER] = trace_id
        request.headers.update(_credential_headers(config, environ))

    # The time limits of a call, also of its silence, are applied where the call is made.
    timeout = httpx2.Timeout(config.connect_timeout, read=None, write=config.execute_timeout)
    return httpx2.AsyncClient(
        transport=transport,
        timeout=timeout,
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [authorize]},
    )


def _find_trace_id(message: bytes) -> str | None:
    """Return the trace id of the run that a message was sent for."""
    # The SDK sends from tasks of its own, so only the message identifies its run.
    if TRACE_ID.encode() not in message:
        return None
    value = json.loads(message)
    for key in ("params", "_meta", TRACE_ID):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _credential_headers(config: MCPServerConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send, with the current values of their variables."""
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    headers |= {name: _environment_value(environ, each) for name, each in config.header_env.items()}
    if config.token is not None:
        headers["Authorization"] = f"Bearer {config.token.get_secret_value()}"
    if config.token_env is not None:
        headers["Authorization"] = f"Bearer {_environment_value(environ, config.token_env)}"
    for name, text in headers.items():
        if not (text.isascii() and text.isprintable()):
            raise MCPConnectionError(f"the value for the header {name} is not valid in a header")
    return headers


def _environment_value(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name):
        return value
    raise MCPConnectionError(f"the environment variable {name} is not set")


MAX_PAGES = 50

LOST = "it ended the connection"

_SESSION_ENDED = (INVALID_REQUEST, "Session terminated")
"""The SDK's report that the server has forgotten the session."""

_LAST_LINES, _LAST_CHARACTERS = 6, 1_000
"""The end of a server's last output that is told, in lines and in characters."""
_DESCRIBED = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
"""Parts of a tool's description that the user approves."""
_MOST_DETAILS = 1_000  # characters of what an error holds beside its message
_NO_MESSAGE = "Server returned an error response"

_Result = TypeVar("_Result", bound=BaseModel)
_Mode = Literal["legacy", "auto"]

# Without a handler, the SDK's log of a server's faults would be printed in the user's cell.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Listing:
    """The tools of a server, and what is wrong with others.

    Tools are described by their names; of two with the same name, by the first.
    """

    tools: dict[str, JsonMapping]
    problems: tuple[str, ...] = ()


class _ActiveSession(NamedTuple):
    """The client of an open session, and the messages that it receives."""

    client: Client
    messages: FilteredMessages


@dataclass(eq=False)
class Connection:
    """A connection to a server; everything is called in the servers' thread."""

    config: MCPServerConfig
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    _stop: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _task: asyncio.Task[None] | None = field(default=None, repr=False)
    _scope: anyio.CancelScope | None = field(default=None, repr=False)
    _session: _ActiveSession | None = field(default=None, repr=False)
    _server_transport: Program | LimitedTransport | None = field(default=None, repr=False)

    @property
    def is_alive(self) -> bool:
        """True if it can take requests."""
        return self._session is not None and not self._stop.is_set()

    async def open(self) -> None:
        """Connect; raises MCPConnectionError. A caller that stops waiting must close it."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(ready))
        await ready

    async def close(self) -> None:
        """Disconnect, and end the server's process."""
        connected = self._session is not None
        self._stop.set()
        if self._scope is not None and not connected:
            self._scope.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """End the server's process at once, from any thread."""
        if isinstance(self._server_transport, Program):
            self._server_transport.kill()

    async def listing(self) -> Listing:
        """Return the server's current listing; raises MCPError."""
        client, messages = self._require_session()
        capabilities = client.server_capabilities
        messages.broken_tools.clear()
        tools, more = await self._list_tools() if capabilities.tools else ([], False)
        problems = [
            f"the description of its tool {strip_escapes(name)!r} is broken ({reason})"
            for name, reason in messages.broken_tools[:5]
        ]
        if more:
            problems.append(
                f"it offers more than {MAX_TOOLS} tools or {MAX_PAGES} pages of them; the first "
                "are used"
            )
        described: dict[str, JsonMapping] = {}
        for each in tools:
            if each.name not in described:
                described[each.name] = each.model_dump(
                    mode="json", by_alias=True, exclude_none=True, include=_DESCRIBED
                )
        return Listing(described, tuple(problems))

    async def ask(self, request: Any, result_type: type[_Result], seconds: float) -> _Result:
        """Return the server's answer; raises MCPToolCallError for a refusal or a timeout.

        Raises MCPConnectionError if the connection is lost.
        """
        client, messages = self._require_session()
        work = asyncio.ensure_future(client.session.send_request(request, result_type))
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await self._wait_for_reply(work, messages, seconds)
            return work.result()
        except ProtocolError as error:
            if not self.is_alive or (error.code, error.message) == _SESSION_ENDED:
                self._stop.set()
                raise MCPConnectionError(self.describe_problem(LOST)) from None
            raise MCPToolCallError(self._refusal(error)) from None
        except ValidationError:
            raise MCPToolCallError(
                "its answer does not follow the protocol, or asks this side for something, "
                "which is declined"
            ) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError):
            raise MCPConnectionError(self.describe_problem(LOST)) from None
        finally:
            work.cancel()  # the SDK tells the server

    async def _wait_for_reply(
        self, work: asyncio.Future[Any], messages: FilteredMessages, seconds: float
    ) -> None:
        """Wait for the reply; raises MCPToolCallError after `seconds`, or too long a silence."""
        silence = self.config.read_timeout
        begun = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= begun + seconds:
                raise MCPToolCallError(f"there was no answer within {seconds:g} s")
            if now >= (quiet := max(begun, messages.last_activity) + silence):
                raise MCPToolCallError(f"it gave no sign of life for {silence:g} s")
            done, _ = await asyncio.wait([work], timeout=min(begun + seconds, quiet) - now)
            if done:
                return

    async def _list_tools(self) -> tuple[list[types.Tool], bool]:
        """Return its tools, at most MAX_TOOLS, and whether there are more."""
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            page = await self.ask(request, types.ListToolsResult, self.config.connect_timeout)
            tools += page.tools
            before, cursor = cursor, page.next_cursor or None
            if cursor == before:
                cursor = None  # the server repeats its cursor
            if cursor is None or len(tools) > MAX_TOOLS:
                break
        return tools[:MAX_TOOLS], cursor is not None or len(tools) > MAX_TOOLS

    def _require_session(self) -> _ActiveSession:
        if self._session is None or self._stop.is_set():
            raise MCPConnectionError(self.describe_problem(LOST))
        return self._session

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        """Keep the connection open in one task from beginning to end: scopes belong to a task."""
        try:
            with anyio.CancelScope() as self._scope:
                await self._connect(ready)
            problem = "connecting was cancelled"
        except Exception as error:  # a server can make a library raise anything
            problem = describe_error(error)
        finally:
            self._session = None
            self._stop.set()
        if not ready.done():
            ready.set_exception(MCPConnectionError(self.describe_problem(problem)))

    async def _connect(self, ready: asyncio.Future[None]) -> None:
        """Try the usual protocol first, then newer and older ones if the server refuses it."""
        attempts: list[tuple[_Mode, bool]] = [("legacy", self.config.transport == "sse")]
        first: tuple[Exception, Program | LimitedTransport | None] | None = None
        while attempts:
            mode, sse = attempts.pop()
            try:
                async with self._open_transport(sse=sse) as (streams, self._server_transport):
                    await self._run_session(streams, mode, ready)
                return
            except Exception as error:  # the SDK's task groups wrap their errors
                if ready.done():
                    raise
                if (fallback := self._fallback(error, mode, sse=sse)) is None:
                    error, self._server_transport = first or (error, self._server_transport)
                    raise error from None
                if fallback[1] and not sse:  # the error of the usual transport says more
                    first = error, self._server_transport
                attempts.append(fallback)

    async def _run_session(
        self, streams: TransportStreams, mode: _Mode, ready: asyncio.Future[None]
    ) -> None:
        messages = FilteredMessages(streams[0], self._stop.set)
        transport = contextlib.nullcontext((messages, streams[1]))
        async with Client(transport, mode=mode, cache=None) as client:
            self._session = _ActiveSession(client, messages)
            if not ready.done():
                ready.set_result(None)
            await self._stop.wait()

    def _fallback(
        self, error: BaseException, mode: _Mode, *, sse: bool
    ) -> tuple[_Mode, bool] | None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        code = error.code if isinstance(error, ProtocolError) else None
        self._stop.clear()
        if mode == "legacy" and code == UNSUPPORTED_PROTOCOL_VERSION:
            return "auto", sse
        transport = self._server_transport
        status = transport.status if isinstance(transport, LimitedTransport) else None
        if status in (400, 404, 405) and not sse and self.config.transport is None:
            return "legacy", True
        if mode == "legacy" and code == METHOD_NOT_FOUND:
            return "auto", sse
        return None

    def _open_transport(
        self, *, sse: bool
    ) -> AbstractAsyncContextManager[tuple[TransportStreams, Program | LimitedTransport]]:
        config = self.config
        if config.url is not None:
            return connect_http(config.url, config, self.environ, sse=sse)
        env = {k: self.environ[k] for k in DEFAULT_INHERITED_ENV_VARS if k in self.environ}
        env |= {name: value.get_secret_value() for name, value in config.env.items()}
        cwd = self.folder / (config.cwd or "")
        return start_program([config.command or "", *config.args], env, cwd)

    def _refusal(self, error: ProtocolError) -> str:
        """Return the server's message, or the SDK's if the answer was not a message."""
        if error.message == _NO_MESSAGE:
            return self.describe_problem(error.message)
        details = "" if error.data is None else json.dumps(error.data, ensure_ascii=False)
        words = ": ".join(filter(None, [error.message, excerpt(details, _MOST_DETAILS)]))
        return strip_escapes(words) or "it refused"

    def describe_problem(self, problem: str) -> str:
        """Return the problem, with the server's own report of it."""
        match self._server_transport:
            case Program(problem=str(own_problem)):
                return own_problem
            case Program(stderr_tail=tail) if tail:
                return f"{problem}; its last output: {_without_frames(strip_escapes(tail))}"
            case LimitedTransport(status=int(status)):
                return f"{problem} (HTTP {status})"
        return problem


def _without_frames(output: str) -> str:
    """Return the last lines of an output that are not indented, as frames of a traceback are."""
    lines = [line for line in output.splitlines() if line.strip() and not line[0].isspace()]
    return ("\n".join(lines[-_LAST_LINES:]) or output.strip())[-_LAST_CHARACTERS:]
