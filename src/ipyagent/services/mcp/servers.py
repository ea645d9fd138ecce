"""The MCP servers of one folder: connected when needed, supervised, their tools, the commands.

A connection's scopes must be left by the task that entered them. So each connection has a task of
its own in one thread, which lives as long as the kernel, and runs only send it requests.
"""

from __future__ import annotations

import asyncio
import atexit
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from ipyagent.config import MCPServerConfig
from ipyagent.config.trust import ListedServer
from ipyagent.errors import ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.kernel.threads import LoopThread
from ipyagent.plaintext import cite, clean_text, ellipsize, join_some, join_words, plural, visible
from ipyagent.schema import Preview, ToolResult
from ipyagent.services import hide_surplus, name_tools, notebook_note
from ipyagent.services.mcp import ADDED, NamedServer, NamedServers, Pins, ServerSources
from ipyagent.telemetry import current_trace_id
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import Tool, Where, find_command

if TYPE_CHECKING:
    from ipyagent.services.mcp.connection import Connection, Listing

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


class Server:
    """A server; async methods are called in the servers' thread."""

    def __init__(
        self, config: MCPServerConfig, source: str, environ: Mapping[str, str], folder: Path
    ) -> None:
        self.config, self.source, self.name = config, source, config.name
        self.failure: str | None = None
        """The reason why it is not tried again."""
        self.listing: Listing | None = None
        self.pins = Pins(config)
        self._environ, self._folder = environ, folder
        self._connection: Connection | None = None
        self._starts = 0
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
    def descriptions(self) -> dict[str, JsonMapping]:
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
            is_late = isinstance(error, TimeoutError)
            late = self._describe_problem(f"it did not answer within {seconds:g} s")
            problem = late if is_late else str(error)
            self.disconnect()
            if not is_late or self.listing is None or self._starts > RESTARTS:
                self.failure = problem
            raise MCPConnectionError(problem) from None
        await asyncio.to_thread(self.pins.load, self.descriptions)

    async def reconnect(self) -> None:
        """Forget failures and reconnect; raises MCPConnectionError."""
        self.disconnect()
        self.failure, self.listing, self._starts = None, None, 0
        await self.refresh_listing()

    async def call(
        self, tool: str, pin: str, arguments: JsonDict, *, reads: bool, trace_id: str | None
    ) -> ToolResult:
        """Call a tool if it is still as approved; raises MCPError."""
        seconds = self.config.execute_timeout
        try:
            async with asyncio.timeout(seconds):
                await self.refresh_listing()
                self._check_approved(tool, pin)
                if self._connection is None:  # closed by the user meanwhile
                    raise MCPConnectionError("it is not connected any more")
                return await self._connection.call(tool, arguments, reads, trace_id)
        except TimeoutError:
            raise MCPToolCallError(f"there was no answer within {seconds:g} s") from None

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
        if self.pins.digest(now) != pin:
            raise MCPToolCallError(
                f"{cite(tool)} was not called: its description is not the one that was "
                f"approved. {self.change_advice()}"
            )

    async def _update_listing(self) -> None:
        connection = self._connection
        if connection is None or not connection.is_alive:
            connection = await self._start()
        try:
            self.listing = await connection.list_tools()
        except MCPConnectionError:  # it had ended unnoticed
            self.listing = await (await self._start()).list_tools()

    async def _start(self) -> Connection:
        from ipyagent.services.mcp.connection import Connection

        if self.config.command is not None and self._starts > RESTARTS:
            raise MCPConnectionError(self._describe_problem(f"it ended {self._starts} times"))
        self._starts += 1
        self.disconnect()
        new = self._connection = Connection(self.config, self._environ, self._folder)
        ServersThread.current().connections.add(new)
        await new.open()
        return new

    def _describe_problem(self, problem: str) -> str:
        return self._connection.describe_problem(problem) if self._connection else problem


_MAX_DESCRIPTION = 2_000  # characters of a description


def server_tool(server: Server, tool: JsonMapping, name: str) -> Tool:
    """Return one of a server's tools under a name; raises ConfigError for an unusable schema.

    It runs in the servers' thread; every call of it needs approval.
    """
    own_name, pin = str(tool["name"]), server.pins.digest(tool)
    hints = tool.get("annotations") or {}
    reads, destroys = (hints.get(f"{each}Hint") is True for each in ("readOnly", "destructive"))
    arguments = JsonArgumentSchema(dict(tool.get("inputSchema") or {}))
    source = f"the MCP server {cite(server.name)}"
    warning = f"{source} says that this tool may destroy something" if destroys else None
    hint = "   it may destroy something" if destroys else ""

    async def call(**given: object) -> ToolResult:
        # Read here, because the servers' thread does not know the run.
        trace_id = current_trace_id()
        work = server.call(own_name, pin, given, reads=reads, trace_id=trace_id)
        try:
            # A little longer than the server's own limit, whose error says more.
            return await ServersThread.current().run(work, server.config.execute_timeout + 1)
        except TimeoutError:
            raise MCPToolCallError(f"{source}: there was no answer in time") from None
        except (MCPConnectionError, MCPToolCallError) as error:
            raise type(error)(f"{source}: {error}") from None

    def preview(**given: object) -> Preview:
        sent = visible(json.dumps(given, indent=2, ensure_ascii=False))
        return Preview(
            kind="arguments", text=f"{cite(own_name)} of {source}{hint}\n{sent}", language="json"
        )

    return Tool(
        name=name,
        description=_describe_tool(server, tool, hints),
        function=call,
        arguments=arguments,
        sensitive=True,
        where=Where.LOOP,
        preview=preview,
        reaches_out=True,
        idempotent=reads or hints.get("idempotentHint") is True,
        command=find_command(arguments.schema),
        source=lambda **_: source,
        always_asks=lambda **_: warning,
    )


def _describe_tool(server: Server, tool: JsonMapping, hints: JsonMapping) -> str:
    """Return the server's own description, made safe, and attributed to the server."""
    text = ellipsize(clean_text(str(tool.get("description") or "")).strip(), _MAX_DESCRIPTION)
    title = cite(str(tool.get("title") or hints.get("title") or tool["name"]))[:100]
    claims = [word for key, word in _CLAIMS.items() if hints.get(key) is True]
    says = f" It says that this {join_words(claims)}." if claims else ""
    return f"{title}, by the MCP server {cite(server.name)}.{says}\n{text}".strip()


_CLAIMS = {
    "readOnlyHint": "only reads",
    "destructiveHint": "may destroy something",
    "openWorldHint": "talks to others",
}


_SLACK = 1.0  # seconds over a server's own limit, for a loop that is busy


class MCPServers:
    """The servers named by the settings, the user or a trusted folder.

    `here` returns the switches of this notebook alone, such as `mcp:files`.
    The servers that are `connected`, and the descriptions that the user has `seen`, last longer.
    """

    def __init__(
        self,
        sources: ServerSources,
        here: Callable[[], Mapping[str, bool]] = dict,
        connected: dict[str, Server] | None = None,
        seen: dict[str, JsonDict] | None = None,
    ) -> None:
        self._notebook_switches = here
        self.sources = sources
        self._servers = {} if connected is None else connected
        self._seen_descriptions = {} if seen is None else seen

    async def tools(self, found: NamedServers | None = None) -> tuple[list[Tool], list[str]]:
        """Connect the servers that were found as necessary; return their tools, and notices.

        It takes no longer than the longest `connect_timeout`, and no server waits for another.
        """
        servers, notices = self._active(found or self.sources.collect())
        if not servers:
            return [], notices
        if problem := await asyncio.to_thread(_missing_sdk):
            return [], [*notices, problem]
        refreshes = (_connection_problem(each.refresh_listing(), each) for each in servers)
        problems = dict(zip(servers, await asyncio.gather(*refreshes), strict=True))
        notices += (
            f"The MCP server {cite(each.name)} has no tools now: {problem}. "
            f"`%agent mcp refresh {cite(each.name)}` tries again."
            for each, problem in problems.items()
            if problem
        )
        good = [each for each in servers if not problems[each]]
        # In a thread, because reading many schemas takes a while.
        return await asyncio.to_thread(self._make_tools, good, notices), notices

    def describe_servers(self) -> str:
        """Return a list of all servers with their states."""
        named, notices, switches = self.sources.collect()
        rows = [
            self._describe_server(each, self._is_on(each, switches or {}))
            for each in named.values()
        ]
        return "\n".join([*rows, *notices]) or "no MCP servers; `%agent mcp add NAME URL|COMMAND`"

    def add(self, name: str, target: Sequence[str], values: Mapping[str, object]) -> str:
        """Add a server for this folder: an address, or a command with its arguments."""
        named = self.sources.collect().named
        if name in named:
            raise ConfigError(
                f"there is an MCP server {cite(name)} already, in {named[name].source}"
            )
        if not target:
            raise ConfigError("name the server's address, or the command that starts it")
        if "://" not in target[0]:
            values = {"command": target[0], "args": [*target[1:]], **values}
        elif len(target) == 1:
            values = {"url": target[0], **values}
        else:
            raise ConfigError("only options may follow an address")
        listed = ListedServer(name, ADDED, values)
        listed.to_config(self.sources.environ, self.sources.home)
        self.sources.choose("servers", name, values)
        does = "starts this program" if "command" in values else "connects to"
        return f"{cite(name)} is added. The next cell {does}:\n  {listed}"

    def remove(self, name: str) -> str:
        """Remove an added server."""
        each = self._find(name)
        if each.source != ADDED:
            raise ConfigError(
                f"{cite(name)} is named in {cite(each.source)}; remove it there, or switch it off: "
                f"`%agent mcp deactivate {cite(name)}`"
            )
        self.sources.choose("servers", name, None)
        self.sources.choose("active", name, None)
        self._disconnect(name)
        return f"{cite(name)} is removed"

    def prepare_switch(self, name: str, *, on: bool) -> None:
        """Prepare to switch a server for this notebook alone; raises ConfigError."""
        each = self._find(name)
        if on and not _may_be_on(each, self.sources.collect().switches or {}):
            raise ConfigError(
                f"{cite(name)} is disabled in {cite(each.source)}; to use it all the same: "
                f"`%agent mcp activate {cite(name)}`, for the whole folder"
            )
        if not on:
            self._disconnect(name)

    def activate(self, name: str) -> str:
        """Use a server in this folder, even one that its source disables."""
        self.sources.choose("active", self._find(name).name, True)
        return f"{cite(name)} is used from the next cell on"

    def deactivate(self, name: str) -> str:
        """Stop using a server in this folder."""
        self.sources.choose("active", self._find(name).name, False)
        self._disconnect(name)
        return f"{cite(name)} is switched off"

    def refresh(self, name: str | None = None, *, accept: bool = False) -> str:
        """Reconnect and show what changed; `accept` approves it."""
        servers, notices = self._active(self.sources.collect())
        if name is not None:
            self._find(name)
            servers = [each for each in servers if each.name == name]
        if servers and (problem := _missing_sdk()):
            raise ConfigError(problem)
        thread = ServersThread.current()
        pending = [(each, thread.submit(each.reconnect())) for each in servers]
        lines = []
        for each, work in pending:
            try:
                work.result(each.config.connect_timeout + _SLACK)
                lines.append(self._refresh_server(each, accept=accept))
            except (MCPError, TooLate) as error:
                lines.append(f"{cite(each.name)}: {error or 'it did not answer in time'}")
        return "\n".join([*lines, *notices]) or "no MCP server is in use"

    def close(self) -> None:
        """Disconnect all servers."""
        for name in list(self._servers):
            self._disconnect(name)

    def _active(self, found: NamedServers) -> tuple[list[Server], list[str]]:
        """Return the servers in use, and notices about the others."""
        notices, used = [*found.notices], dict[str, Server]()
        if found.switches is None:
            return [], notices
        for each in found.named.values():
            if not self._is_on(each, found.switches):
                continue
            if not each.trusted:
                notices.append(_untrusted_notice(each))
                continue
            try:
                used[each.name] = self._get_server(each)
            except ConfigError as error:
                notices.append(f"The MCP server {cite(each.name)} is not used: {error}")
        for name in self._servers.keys() - used.keys():
            self._disconnect(name)
        return list(used.values()), notices

    def _is_on(self, each: NamedServer, switches: Mapping[str, bool]) -> bool:
        """Return whether a server is in use; the notebook's switches win."""
        on = switches.get(each.name, not each.disabled)
        on = self._notebook_switches().get(f"mcp:{each.name}", on)
        return on and _may_be_on(each, switches)

    def _get_server(self, named: NamedServer) -> Server:
        """Return the existing server, unless its settings have changed."""
        config, server = named.config(), self._servers.get(named.name)
        if server is None or (server.config, server.source) != (config, named.source):
            self._disconnect(named.name)
            server = Server(config, named.source, self.sources.environ, self.sources.home)
            self._servers[named.name] = server
        return server

    def _disconnect(self, name: str) -> None:
        if server := self._servers.pop(name, None):
            server.disconnect()

    def _find(self, name: str) -> NamedServer:
        named = self.sources.collect().named
        if name not in named:
            known = ", ".join(map(cite, named)) or "none"
            raise ConfigError(f"there is no MCP server {cite(name)}; there are: {known}")
        if not named[name].trusted:
            raise ConfigError(_untrusted_notice(named[name]))
        return named[name]

    def _make_tools(self, servers: Sequence[Server], notices: list[str]) -> list[Tool]:
        """Return the approved tools, under unique names."""
        offered = {each: each.descriptions for each in servers}
        pairs = [(each.name, name) for each, found in offered.items() for name in found]
        names = name_tools({pair: "_".join(("mcp", *pair)) for pair in pairs})
        groups: list[list[Tool]] = []
        for each, descriptions in offered.items():
            about = f"The MCP server {cite(each.name)}"
            problems = each.listing.problems if each.listing else ()
            notices += (f"{about}: {problem}." for problem in problems)
            notices += [f"{about}: {each.pins.problem}."] * bool(each.pins.problem)
            if changed := each.pins.changed_tools(descriptions):
                notices.append(
                    f"{about} changed the description of {_join_names(changed)} since that was "
                    f"approved, so it is left out. {each.change_advice()}"
                )
            groups.append([])
            for name in (each for each in descriptions if each not in changed):
                try:
                    tool = server_tool(each, descriptions[name], names[each.name, name])
                except ConfigError as error:
                    notices.append(f"{about}: its tool {cite(name)} is left out: {error}.")
                else:
                    groups[-1].append(tool)
        return hide_surplus(groups)

    def _refresh_server(self, server: Server, *, accept: bool) -> str:
        """Describe a server's tools and their changes; approve the changes if `accept`."""
        now, pins = server.descriptions, server.pins
        changed = pins.changed_tools(now)
        text = f"{cite(server.name)} is connected and offers {plural(len(now), 'tool')}"
        if not changed:
            return text
        seen = self._seen_descriptions.get(server.name)
        self._seen_descriptions[server.name] = now
        text += f"; the description of {_join_names(changed)} changed:\n{pins.difference(now)}\n"
        if not accept:
            return f"{text}To approve this: `%agent mcp refresh {cite(server.name)} --accept`"
        if seen is not None and seen != now:
            return f"{text}This is not what you saw before, so it is not approved. Look again."
        pins.approve(now)
        return f"{text}It is approved."

    def _describe_server(self, each: NamedServer, is_on: bool) -> str:
        server = self._servers.get(each.name)
        state = server.state if server else "not started"
        state = "not trusted" if not each.trusted else state if is_on else "off"
        count = plural(len(server.listing.tools), "tool") if server and server.listing else ""
        failure = f"\n    {server.failure}" if server and server.failure else ""
        here = self._notebook_switches().get(f"mcp:{each.name}") if each.trusted else None
        source = ", ".join([each.source, *notebook_note(here if here == is_on else None)])
        return (
            f"{cite(each.name):<16} {state:<12} {count:<10} {source}   {each.description}{failure}"
        )


def _may_be_on(each: NamedServer, switches: Mapping[str, bool]) -> bool:
    """Return whether a notebook may use it; a disabled one needs the folder's switch."""
    return not each.disabled or switches.get(each.name, False)


def _join_names(names: Sequence[str]) -> str:
    return join_some([cite(name)[:100] for name in names], 5)


def _untrusted_notice(each: NamedServer) -> str:
    return (
        f"{cite(each.source)} of this folder names the MCP server {cite(each.name)}, which is not "
        f"used before you trust the folder as it is now (`%agent trust`): {each.description}"
    )


async def _connection_problem(work: Any, server: Server) -> str | None:
    """Return a connection's error instead of raising it, so that no server blocks others."""
    try:
        await ServersThread.current().run(work, server.config.connect_timeout + _SLACK)
    except TimeoutError:
        return "it did not answer in time"
    except MCPError as error:
        return str(error)
    return None


def _missing_sdk() -> str | None:
    """Return an error message if the SDK cannot be imported, which takes a second."""
    try:
        import ipyagent.services.mcp.connection  # noqa: F401
    except ImportError as error:
        return f"MCP servers need the MCP SDK ({error}): pip install 'ipyagent[mcp]'"
    return None
