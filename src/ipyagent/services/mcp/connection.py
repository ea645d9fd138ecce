"""One connection to an MCP server, by the official SDK, with a limit on everything it may do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS
from mcp.shared.exceptions import MCPError as ProtocolError
from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPConnectionError, MCPToolCallError
from ipyagent.plaintext import strip_escapes
from ipyagent.services.mcp.http import Exchange, reached
from ipyagent.services.mcp.screen import MAX_TOOLS, Screened, told_of
from ipyagent.services.mcp.stdio import Program, started
from ipyagent.services.mcp.streams import TransportStreams

MAX_PAGES = 50

LOST = "it ended the connection"

_FORGOTTEN = (INVALID_REQUEST, "Session terminated")
"""How the SDK says that the server does not know us any more."""

_NO_MESSAGE = "Server returned an error response"

_Result = TypeVar("_Result", bound=BaseModel)
_Mode = Literal["legacy", "auto"]

# What the SDK logs about a server's faults would be printed into the person's cell.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Listing:
    """What a server offers."""

    tools: tuple[types.Tool, ...]
    resources: bool
    prompts: bool
    problems: tuple[str, ...] = ()


class _Talk(NamedTuple):
    """The two ends of a conversation that goes on."""

    client: Client
    heard: Screened


@dataclass(eq=False)
class Connection:
    """A server that is spoken to; everything is called in the servers' thread."""

    config: MCPServerConfig
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    _stop: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _owner: asyncio.Task[None] | None = field(default=None, repr=False)
    _scope: anyio.CancelScope | None = field(default=None, repr=False)
    _talk: _Talk | None = field(default=None, repr=False)
    _line: Program | Exchange | None = field(default=None, repr=False)

    @property
    def alive(self) -> bool:
        """Whether it can be asked something."""
        return self._talk is not None and not self._stop.is_set()

    async def open(self) -> None:
        """Connect; raises MCPConnectionError. Whoever gives up waiting has to close it."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(ready))
        await ready

    async def close(self) -> None:
        """Disconnect, and end the server's process."""
        connected = self._talk is not None
        self._stop.set()
        if self._scope is not None and not connected:
            self._scope.cancel()
        if self._owner is not None:
            await asyncio.wait([self._owner])

    def kill(self) -> None:
        """End the server's process at once, from any thread."""
        if isinstance(self._line, Program):
            self._line.kill()

    async def listing(self) -> Listing:
        """What it offers now; raises MCPError."""
        client, heard = self._going_on()
        has = client.server_capabilities
        heard.left_out.clear()
        tools, more = await self._tools() if has.tools else ([], False)
        broken = [strip_escapes(name) for name in heard.left_out[:5]]
        problems = [f"the description of its tool {name!r} is broken" for name in broken]
        if more:
            problems.append(
                f"it offers more than {MAX_TOOLS} tools or {MAX_PAGES} pages of them; the first "
                "are used"
            )
        return Listing(tuple(tools), bool(has.resources), bool(has.prompts), tuple(problems))

    async def ask(self, request: Any, shape: type[_Result], seconds: float) -> _Result:
        """Its answer; raises MCPToolCallError for a refusal or one that does not come in time.

        Raises MCPConnectionError where the connection is lost.
        """
        client, heard = self._going_on()
        work = asyncio.ensure_future(client.session.send_request(request, shape))
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await self._in_time(work, heard, seconds)
            return work.result()
        except ProtocolError as error:
            if not self.alive or (error.code, error.message) == _FORGOTTEN:
                self._stop.set()
                raise MCPConnectionError(self.told(LOST)) from None
            raise MCPToolCallError(self._refusal(error)) from None
        except ValidationError:
            raise MCPToolCallError(
                "its answer is not what the protocol says, or asks for something in return, "
                "which is declined"
            ) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, RuntimeError):
            raise MCPConnectionError(self.told(LOST)) from None
        finally:
            work.cancel()  # the SDK tells the server

    async def _in_time(self, work: asyncio.Future[Any], heard: Screened, seconds: float) -> None:
        """Wait for it, as long as the server gives signs of life and the time is not up."""
        silence = self.config.read_timeout
        begun = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= begun + seconds:
                raise MCPToolCallError(f"there was no answer within {seconds:g} s")
            if now >= (quiet := max(begun, heard.at) + silence):
                raise MCPToolCallError(f"it gave no sign of life for {silence:g} s")
            done, _ = await asyncio.wait([work], timeout=min(begun + seconds, quiet) - now)
            if done:
                return

    async def _tools(self) -> tuple[list[types.Tool], bool]:
        """Its tools, and whether there are more of them than are used."""
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
            page = await self.ask(request, types.ListToolsResult, self.config.connect_timeout)
            tools += page.tools
            before, cursor = cursor, page.next_cursor or None
            if cursor == before:
                cursor = None  # it does not know how to go on
            if cursor is None or len(tools) > MAX_TOOLS:
                break
        return tools[:MAX_TOOLS], cursor is not None or len(tools) > MAX_TOOLS

    def _going_on(self) -> _Talk:
        if self._talk is None or self._stop.is_set():
            raise MCPConnectionError(self.told(LOST))
        return self._talk

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """Hold the connection from its first to its last moment: scopes belong to one task."""
        try:
            with anyio.CancelScope() as self._scope:
                await self._try(ready)
            problem = "it was given up"
        except Exception as error:  # whatever a server can bring a library to raise
            problem = told_of(error)
        finally:
            self._talk = None
            self._stop.set()
        if not ready.done():
            ready.set_exception(MCPConnectionError(self.told(problem)))

    async def _try(self, ready: asyncio.Future[None]) -> None:
        """Speak as most servers do, then, if it refuses, as newer and older ones do."""
        ways: list[tuple[_Mode, bool]] = [("legacy", self.config.transport == "sse")]
        first: tuple[Exception, Program | Exchange | None] | None = None
        while ways:
            mode, sse = ways.pop()
            try:
                async with self._line_to(sse=sse) as streams:
                    await self._serve(streams, mode, ready)
                return
            except Exception as error:  # the SDK's task groups wrap what they raise
                if ready.done():
                    raise
                if (other := self._other_way(error, mode, sse=sse)) is None:
                    error, self._line = first or (error, self._line)
                    raise error from None
                if other[1] and not sse:  # why not the usual transport says more
                    first = error, self._line
                ways.append(other)

    async def _serve(
        self, streams: TransportStreams, mode: _Mode, ready: asyncio.Future[None]
    ) -> None:
        heard = Screened(streams[0], self._stop.set)
        line = contextlib.nullcontext((heard, streams[1]))
        async with Client(line, mode=mode, cache=None) as client:
            self._talk = _Talk(client, heard)
            if not ready.done():
                ready.set_result(None)
            await self._stop.wait()

    def _other_way(
        self, error: BaseException, mode: _Mode, *, sse: bool
    ) -> tuple[_Mode, bool] | None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        code = error.code if isinstance(error, ProtocolError) else None
        self._stop.clear()
        if mode == "legacy" and code == UNSUPPORTED_PROTOCOL_VERSION:
            return "auto", sse
        status = self._line.status if isinstance(self._line, Exchange) else None
        if status in (400, 404, 405) and not sse and self.config.transport is None:
            return "legacy", True
        if mode == "legacy" and code == METHOD_NOT_FOUND:
            return "auto", sse
        return None

    @asynccontextmanager
    async def _line_to(self, *, sse: bool) -> AsyncIterator[TransportStreams]:
        config = self.config
        if config.url is not None:
            async with reached(config.url, config, self.environ, sse=sse) as (streams, exchange):
                self._line = exchange
                yield streams
            return
        env = {k: self.environ[k] for k in DEFAULT_INHERITED_ENV_VARS if k in self.environ}
        env |= {name: value.get_secret_value() for name, value in config.env.items()}
        cwd = self.folder / (config.cwd or "")
        async with started([config.command or "", *config.args], env, cwd) as (streams, program):
            self._line = program
            yield streams

    def _refusal(self, error: ProtocolError) -> str:
        """What the server said, or what the SDK made of an answer that was no message."""
        if error.message == _NO_MESSAGE:
            return self.told(error.message)
        return strip_escapes(error.message) or "it refused"

    def told(self, problem: str) -> str:
        """A problem, with what the server itself said about it."""
        match self._line:
            case Program(trouble=str(trouble)):
                return trouble
            case Program(last_words=words) if words:
                return f"{problem}; the last that it wrote: {strip_escapes(words)[-1000:]}"
            case Exchange(status=int(status)):
                return f"{problem} (HTTP {status})"
        return problem
