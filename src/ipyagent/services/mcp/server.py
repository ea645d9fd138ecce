"""One MCP server of this kernel: connected when needed, supervised, its tools approved.

A connection's scopes must be left by the task that entered them. So each connection has a task of
its own in one thread, which lives as long as the kernel, and runs only send it requests.

A server may silently change the description of a tool later. So each tool is stored as it was first
seen, in the user's own directory, and a changed or new one is not used until the user approves it.
A server that is started differently counts as another server.
"""

from __future__ import annotations

import asyncio
import atexit
import difflib
import json
from collections.abc import Coroutine, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from ipyagent.config import MCPServerConfig
from ipyagent.config.sources import UserDataFile
from ipyagent.digests import digest_json, digest_text
from ipyagent.errors import ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict, JsonMapping, object_of
from ipyagent.kernel.threads import LoopThread
from ipyagent.phrases import limit_lines
from ipyagent.plaintext import cite, visible
from ipyagent.schema import ToolResult

if TYPE_CHECKING:
    from ipyagent.services.mcp.connection import Connection, Listing

Description = JsonMapping
"""A server's description of one tool: name, title, description, schemas, annotations."""

_MAX_STORED = 4_000_000  # bytes of descriptions that are kept to compare with
_MAX_DIFF_LINES = 400


def identity(config: MCPServerConfig) -> str:
    """Return a digest that identifies a server: its command or address, and its secrets' names."""
    parts = [
        config.name, config.command, config.args, config.url, str(config.cwd), config.transport,
        sorted(config.env), sorted({*config.headers, *config.header_env}), config.token_env,
    ]  # fmt: skip
    return digest_json(parts)


def digest_tool(server: str, tool: Description) -> str:
    """Return a digest of a server's identity and its description of a tool."""
    return digest_text(f"{server}\0{json.dumps(tool, sort_keys=True)}")


@dataclass
class Pins:
    """The approved tools of one server."""

    server: str
    approved: dict[str, str] = field(default_factory=dict)
    """Digests by the tool's name."""
    known: bool = False
    """True if the server was seen before."""
    problem: str | None = None
    _approved_texts: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._file = UserDataFile(f"mcp-tools/{self.server[:32]}.json", 2 * _MAX_STORED)

    def load(self) -> None:
        """Load the approved tools; if they cannot be read, none is approved."""
        try:
            data = self._file.read()
        except ConfigError as error:
            self.problem, self.known, self.approved = str(error), True, {}
            return
        if data:
            self._apply(data)

    def approve(self, tools: Mapping[str, Description], *, unless_known: bool = False) -> None:
        """Approve the tools as they are now, unless another kernel has approved others already."""
        new = self._serialize(tools)
        try:
            self._file.rewrite(lambda before: before if unless_known and before else new)
            self._apply(self._file.read())
            self.problem = None
        except ConfigError as error:
            self._apply(new)
            self.problem = f"{error}; approvals hold for this kernel only"

    def changed_tools(self, tools: Mapping[str, Description]) -> list[str]:
        """Return the names of tools that are new or differ from the approved ones."""
        return [
            n for n, tool in tools.items() if self.approved.get(n) != digest_tool(self.server, tool)
        ]

    def difference(self, tools: Mapping[str, Description]) -> str:
        """Return the changes as a diff, with all characters visible."""
        lines: list[str] = []
        for name in self.changed_tools(tools):
            before = self._approved_texts.get(name, "").splitlines()
            after = _format_description(tools[name]).splitlines()
            old, new = ("approved", "now") if name in self.approved else ("not there", "new")
            label = f"{name!r}"
            lines += difflib.unified_diff(
                before, after, f"{label} {old}", f"{label} {new}", lineterm="", n=1
            )
        return visible("\n".join(limit_lines(lines, _MAX_DIFF_LINES, "… and {} more lines")))

    def _serialize(self, tools: Mapping[str, Description]) -> JsonDict:
        readable = {name: _format_description(tool) for name, tool in tools.items()}
        return {
            "tools": {name: digest_tool(self.server, tool) for name, tool in tools.items()},
            "texts": readable if len(json.dumps(readable)) <= _MAX_STORED else {},
        }

    def _apply(self, data: JsonDict) -> None:
        self.known = True
        self.approved = dict(object_of(data.get("tools")))
        readable = object_of(data.get("texts"))
        self._approved_texts = {name: str(text) for name, text in readable.items()}


def _format_description(tool: Description) -> str:
    """Return a tool's description as comparable lines; `difference` makes them visible."""
    rest = {key: value for key, value in tool.items() if key != "description"}
    description = str(tool.get("description") or "")
    return f"{description}\n{json.dumps(rest, indent=1, sort_keys=True, ensure_ascii=False)}"


T = TypeVar("T")

_EXIT_SECONDS = 3.0  # seconds that servers get to end by themselves when the kernel ends


class ServersThread(LoopThread):
    """The thread of all connections; `connections` are those to close when it ends."""

    thread_name = "ipyagent-mcp"

    def __init__(self) -> None:
        self.connections: WeakSet[Connection] = WeakSet()
        super().__init__()
        atexit.register(self._close)

    async def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Await `work` from another loop; raises TimeoutError even if this loop hangs."""
        return await asyncio.wait_for(asyncio.wrap_future(self.submit(work)), seconds)

    def _close(self) -> None:
        remaining = list(self.connections)
        if self.thread.is_alive():
            wait([self.submit(each.close()) for each in remaining], _EXIT_SECONDS)
        for each in remaining:
            each.kill()


RESTARTS = 2
"""The number of times that a program is restarted in one kernel."""


@dataclass(eq=False)
class Server:
    """A server; async methods are called in the servers' thread."""

    config: MCPServerConfig
    source: str
    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    failure: str | None = None
    """The reason why it is not tried again."""
    listing: Listing | None = field(default=None, repr=False)
    _connection: Connection | None = field(default=None, repr=False)
    _starts: int = 0

    def __post_init__(self) -> None:
        self.name = self.config.name
        self.pins = Pins(identity(self.config))
        self._lock = asyncio.Lock()

    @property
    def state(self) -> str:
        """The state, in one or two words."""
        if self.failure:
            return "failed"
        if self._connection is None:
            return "not started"
        return "connected" if self._connection.is_alive else "ended"

    @property
    def current_listing(self) -> Listing:
        """Its latest listing; raises MCPConnectionError if there is none yet."""
        if self.listing is None:
            raise MCPConnectionError(f"{cite(self.name)} was never connected")
        return self.listing

    @property
    def descriptions(self) -> dict[str, Description]:
        """Its latest descriptions of tools by name; none if it was never connected."""
        return self.listing.tools if self.listing else {}

    async def refresh_listing(self) -> None:
        """Connect if necessary and get its listing; raises MCPConnectionError."""
        if self.failure:
            raise MCPConnectionError(self.failure)
        seconds = self.config.connect_timeout
        try:
            async with self._lock, asyncio.timeout(seconds):
                await self._update_listing()
        except (TimeoutError, MCPError) as error:
            timeout_problem = self._describe_problem(f"it did not answer within {seconds:g} s")
            problem = str(error) if isinstance(error, MCPError) else timeout_problem
            self.disconnect()
            if not isinstance(error, TimeoutError) or self.listing is None or self._out_of_restarts:
                self.failure = problem
            raise MCPConnectionError(problem) from None
        await asyncio.to_thread(self._load_pins)

    async def reconnect(self) -> None:
        """Forget failures and reconnect; raises MCPConnectionError."""
        self.disconnect()
        self.failure, self.listing, self._starts = None, None, 0
        await self.refresh_listing()

    async def call(
        self,
        tool: str,
        pin: str,
        arguments: JsonDict,
        *,
        reads: bool = False,
        trace_id: str | None = None,
    ) -> ToolResult:
        """Call a tool if it is still as approved; raises MCPError."""
        from ipyagent.services.mcp import messages

        request = messages.call_tool(tool, arguments, trace_id)
        seconds = self.config.execute_timeout
        try:
            async with asyncio.timeout(seconds):
                await self.refresh_listing()
                self._check_approved(tool, pin)
                if self._connection is None:  # closed by the user meanwhile
                    raise MCPConnectionError("it is not connected any more")
                answer = await self._connection.ask(*request, seconds)
        except TimeoutError:
            raise MCPToolCallError(f"there was no answer within {seconds:g} s") from None
        return await asyncio.to_thread(messages.convert_result, answer, reads=reads)

    def disconnect(self) -> None:
        """End the connection without waiting."""
        if self._connection is not None:
            ServersThread.current().submit(self._connection.close())
            self._connection = None

    def change_advice(self) -> str:
        """Return advice for the user about a changed tool."""
        return (
            f"`%agent mcp refresh {self.name}` shows what changed, and with --accept approves it."
        )

    def _check_approved(self, tool: str, pin: str) -> None:
        """Raise MCPToolCallError if a tool is not as approved."""
        now = self.descriptions.get(tool)
        if now is None:
            raise MCPToolCallError(f"{cite(tool)} was not called: it is not offered any more")
        if digest_tool(self.pins.server, now) != pin:
            raise MCPToolCallError(
                f"{cite(tool)} was not called: its description is not the one that was "
                f"approved. {self.change_advice()}"
            )

    async def _update_listing(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_alive:
            connection = await self._start()
        try:
            self.listing = await connection.listing()
        except MCPConnectionError:  # it had ended unnoticed
            connection = await self._start()
            self.listing = await connection.listing()

    async def _start(self) -> Connection:
        from ipyagent.services.mcp.connection import Connection

        if self.config.command is not None and self._out_of_restarts:
            raise MCPConnectionError(self._describe_problem(f"it ended {self._starts} times"))
        self._starts += 1
        self.disconnect()
        new = self._connection = Connection(self.config, self.environ, self.folder)
        ServersThread.current().connections.add(new)
        await new.open()
        return new

    @property
    def _out_of_restarts(self) -> bool:
        return self._starts > RESTARTS

    def _describe_problem(self, problem: str) -> str:
        return (
            self._connection.describe_problem(problem) if self._connection is not None else problem
        )

    def _load_pins(self) -> None:
        """Load the approved tools; approve those of a server that is seen for the first time."""
        self.pins.load()
        if not self.pins.known:
            self.pins.approve(self.descriptions, unless_known=True)
