"""One MCP server of this kernel: connected when it is needed, and watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipyagent.config import MCPServerConfig
from ipyagent.config.keys import told
from ipyagent.errors import MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.schema import ToolResult
from ipyagent.services.mcp.pins import Pins, digest, identity
from ipyagent.services.mcp.thread import ServersThread

if TYPE_CHECKING:
    from ipyagent.services.mcp.connection import Connection, Listing

RESTARTS = 2
"""How often a program that ended is started again in one kernel."""

_SAID = ("name", "title", "description", "input_schema", "output_schema", "annotations")


@dataclass(eq=False)
class Server:
    """A server; what is async is called in the servers' thread."""

    config: MCPServerConfig
    source: str
    shown: str
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    failure: str | None = None
    """Why it is not tried any more."""
    listing: Listing | None = field(default=None, repr=False)
    _connection: Connection | None = field(default=None, repr=False)
    _starts: int = 0

    def __post_init__(self) -> None:
        self.name = self.config.name
        self.pins = Pins(identity(self.config))
        self._lock = asyncio.Lock()

    @property
    def state(self) -> str:
        """In one word or two."""
        if self.failure:
            return "failed"
        if self._connection is None:
            return "not started"
        return "connected" if self._connection.alive else "ended"

    @property
    def offers(self) -> Listing:
        """What it offered when it was last looked at; raises MCPConnectionError before that."""
        if self.listing is None:
            raise MCPConnectionError(f"{told(self.name)} was never connected")
        return self.listing

    @property
    def descriptions(self) -> dict[str, JsonDict]:
        """What it says about its tools; of two with one name, the first."""
        said: dict[str, JsonDict] = {}
        for tool in self.listing.tools if self.listing else ():
            if tool.name not in said:
                said[tool.name] = tool.model_dump(
                    mode="json", by_alias=True, exclude_none=True, include=set(_SAID)
                )
        return said

    async def look(self) -> None:
        """Connect where that is needed and see what it offers; raises MCPConnectionError."""
        if self.failure:
            raise MCPConnectionError(self.failure)
        seconds = self.config.connect_timeout
        try:
            async with self._lock, asyncio.timeout(seconds):
                await self._list()
        except (TimeoutError, MCPError) as error:
            late = self._told(f"it did not answer within {seconds:g} s")
            problem = str(error) if isinstance(error, MCPError) else late
            self.drop()
            if not isinstance(error, TimeoutError) or self.listing is None or self._worn_out:
                self.failure = problem
            raise MCPConnectionError(problem) from None
        await asyncio.to_thread(self._pin)

    async def again(self) -> None:
        """Forget what went wrong, and connect anew; raises MCPConnectionError."""
        self.drop()
        self.failure, self.listing, self._starts = None, None, 0
        await self.look()

    async def call(
        self,
        tool: str,
        pin: str,
        arguments: JsonDict,
        *,
        reads: bool = False,
        trace_id: str | None = None,
    ) -> ToolResult:
        """Call a tool, if it still is what was approved; raises MCPError."""
        from ipyagent.services.mcp import content
        from ipyagent.services.mcp.requests import call_tool

        request = call_tool(tool, arguments, trace_id)
        answer = await self.ask(*request, lambda: self._check(tool, pin))
        return await asyncio.to_thread(content.result_of, answer, reads=reads)

    async def ask(self, request: Any, shape: Any, check: Callable[[], None] | None = None) -> Any:
        """Its answer to a request, if `check` finds it as it should be; raises MCPError."""
        seconds = self.config.execute_timeout
        try:
            async with asyncio.timeout(seconds):
                await self.look()
                if check is not None:
                    check()
                if self._connection is None:  # closed by the person meanwhile
                    raise MCPConnectionError("it is not connected any more")
                return await self._connection.ask(request, shape, seconds)
        except TimeoutError:
            raise MCPToolCallError(f"there was no answer within {seconds:g} s") from None

    def drop(self) -> None:
        """End the connection; nobody waits for it."""
        if self._connection is not None:
            ServersThread.current().submit(self._connection.close())
            self._connection = None

    def ask_person(self) -> str:
        """What the person can do about a changed tool."""
        return (
            f"`%agent mcp refresh {self.name}` shows what changed, and with --accept approves it."
        )

    def _check(self, tool: str, pin: str) -> None:
        """Raise MCPToolCallError where a tool is not what it was when it was approved."""
        now = self.descriptions.get(tool)
        if now is None:
            raise MCPToolCallError(f"{told(tool)} was not called: it is not offered any more")
        if digest(self.pins.server, now) != pin:
            raise MCPToolCallError(
                f"{told(tool)} was not called: what is said about it now is not what was "
                f"approved. {self.ask_person()}"
            )

    async def _list(self) -> None:
        connection = self._connection
        if connection is None or not connection.alive:
            connection = await self._start()
        try:
            self.listing = await connection.listing()
        except MCPConnectionError:  # it had ended without our noticing
            connection = await self._start()
            self.listing = await connection.listing()

    async def _start(self) -> Connection:
        from ipyagent.services.mcp.connection import Connection

        if self.config.command is not None and self._worn_out:
            raise MCPConnectionError(self._told(f"it ended {self._starts} times"))
        self._starts += 1
        self.drop()
        new = self._connection = Connection(self.config, self.environ, self.folder)
        ServersThread.current().open.add(new)
        await new.open()
        return new

    @property
    def _worn_out(self) -> bool:
        return self._starts > RESTARTS

    def _told(self, problem: str) -> str:
        return self._connection.told(problem) if self._connection is not None else problem

    def _pin(self) -> None:
        """Compare with what was approved, or approve what is seen for the first time."""
        self.pins.load()
        if not self.pins.known:
            self.pins.first_seen(self.descriptions)
