"""The MCP servers of one folder: their list, their tools, and the user's commands."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from typing import Any

from ipyagent.config.trust import ListedServer
from ipyagent.digests import digest_bytes
from ipyagent.errors import ConfigError, MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.phrases import ellipsize, join_some, join_words, plural
from ipyagent.plaintext import cite, clean_text, visible
from ipyagent.schema import Preview, ToolResult
from ipyagent.services import notebook_note
from ipyagent.services.mcp.server import Description, Server, ServersThread, digest_tool
from ipyagent.services.mcp.sources import ADDED, NamedServer, NamedServers, ServerSources
from ipyagent.services.tool_search import hide_surplus
from ipyagent.telemetry import current_trace_id
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import Tool, Where, find_command

_MAX_NAME = 64
_MARK_LENGTH = 9  # "_" and eight digits of a hash

Pair = tuple[str, str]
"""The original names of a server and a tool."""


def tool_names(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """Return a name for each pair, independent of their order.

    A changed name always gets a mark, even if it is unique: a name that was allowed once must not
    pass to another tool later.
    """
    names = {pair: re.sub(r"[^a-zA-Z0-9_-]", "_", _full_name(pair))[:_MAX_NAME] for pair in pairs}
    exact = Counter(name for pair, name in names.items() if name == _full_name(pair))
    return {
        pair: name if name == _full_name(pair) and exact[name] == 1 else _mark_name(pair, name)
        for pair, name in names.items()
    }


def _full_name(pair: Pair) -> str:
    return f"mcp_{pair[0]}_{pair[1]}"


def _mark_name(pair: Pair, name: str) -> str:
    identity = f"{len(pair[0])}:{pair[0]}:{pair[1]}".encode("utf-8", "surrogatepass")
    return f"{name[: _MAX_NAME - _MARK_LENGTH]}_{digest_bytes(identity)[: _MARK_LENGTH - 1]}"


_MAX_DESCRIPTION = 2_000  # characters of a description


def server_tool(server: Server, tool: Description, name: str) -> Tool:
    """Return one of a server's tools under a name; raises ConfigError for an unusable schema.

    It runs in the servers' thread; every call of it needs approval.
    """
    own_name, pin = str(tool["name"]), digest_tool(server.pins.server, tool)
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


def _describe_tool(server: Server, tool: Description, hints: Description) -> str:
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
        named, notices = self.sources.collect()
        switches = self._read_switches() or {}
        rows = [self._describe_server(each, self._is_on(each, switches)) for each in named.values()]
        return "\n".join([*rows, *notices]) or "no MCP servers; `%agent mcp add NAME URL|COMMAND`"

    def add(self, name: str, target: Sequence[str], values: Mapping[str, object]) -> str:
        """Add a server for this folder: an address, or a command with its arguments."""
        named, _ = self.sources.collect()
        if name in named:
            raise ConfigError(
                f"there is an MCP server {cite(name)} already, in {named[name].source}"
            )
        if not target:
            raise ConfigError("name the server's address, or the command that starts it")
        values = {**_parse_target(target), **values}
        listed = ListedServer(name, ADDED, values)
        listed.to_config(self.sources.environ, self.sources.home)
        self.sources.choices.add(name, values)
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
        self.sources.choices.remove(name)
        self._disconnect(name)
        return f"{cite(name)} is removed"

    def prepare_switch(self, name: str, *, on: bool) -> None:
        """Prepare to switch a server for this notebook alone; raises ConfigError."""
        each = self._find(name)
        if on and not _may_be_on(each, self.sources.choices.load_switches()):
            raise ConfigError(
                f"{cite(name)} is disabled in {cite(each.source)}; to use it all the same: "
                f"`%agent mcp activate {cite(name)}`, for the whole folder"
            )
        if not on:
            self._disconnect(name)

    def activate(self, name: str) -> str:
        """Use a server in this folder, even one that its source disables."""
        self.sources.choices.switch(self._find(name).name, True)
        return f"{cite(name)} is used from the next cell on"

    def deactivate(self, name: str) -> str:
        """Stop using a server in this folder."""
        self.sources.choices.switch(self._find(name).name, False)
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
        named, notices = found.named, [*found.notices]
        if (switches := self._read_switches()) is None:
            return [], notices
        used = {}
        for each in named.values():
            if not self._is_on(each, switches):
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

    def _read_switches(self) -> dict[str, bool] | None:
        """Return the folder's switches; None if they cannot be read: then no server is used."""
        try:
            return self.sources.choices.load_switches()
        except ConfigError:  # reported already: the same file holds the added servers
            return None

    def _is_on(self, each: NamedServer, switches: Mapping[str, bool]) -> bool:
        """Return whether a server is in use; the notebook's switches win."""
        on = switches.get(each.name, not each.disabled)
        on = self._notebook_switches().get(f"mcp:{each.name}", on)
        return on and _may_be_on(each, switches)

    def _get_server(self, named: NamedServer) -> Server:
        """Return the existing server, unless its settings have changed."""
        config, before = named.config(), self._servers.get(named.name)
        if before is not None and (before.config, before.source) == (config, named.source):
            return before
        self._disconnect(named.name)
        sources = self.sources
        new = Server(config, named.source, sources.environ, sources.home)
        self._servers[named.name] = new
        return new

    def _disconnect(self, name: str) -> None:
        if server := self._servers.pop(name, None):
            server.disconnect()

    def _find(self, name: str) -> NamedServer:
        named, _ = self.sources.collect()
        if name not in named:
            known = ", ".join(map(cite, named)) or "none"
            raise ConfigError(f"there is no MCP server {cite(name)}; there are: {known}")
        if not named[name].trusted:
            raise ConfigError(_untrusted_notice(named[name]))
        return named[name]

    def _make_tools(self, servers: Sequence[Server], notices: list[str]) -> list[Tool]:
        """Return the approved tools, under unique names."""
        offered = {each: each.descriptions for each in servers}
        names = tool_names(
            (each.name, name) for each, descriptions in offered.items() for name in descriptions
        )
        tools: dict[str, Tool] = {}
        groups: dict[str, list[Tool]] = {each.name: [] for each in servers}
        for each, descriptions in offered.items():
            about = f"The MCP server {cite(each.name)}"
            notices += (f"{about}: {problem}." for problem in each.current_listing.problems)
            notices += [f"{about}: {each.pins.problem}."] * bool(each.pins.problem)
            if changed := each.pins.changed_tools(descriptions):
                notices.append(
                    f"{about} changed the description of {_join_names(changed)} since that was "
                    f"approved, so it is left out. {each.change_advice()}"
                )
            approved = {k: v for k, v in descriptions.items() if k not in changed}
            for own_name, description in approved.items():
                name = names[each.name, own_name]
                try:
                    tool = server_tool(each, description, name)
                except ConfigError as error:
                    notices.append(f"{about}: its tool {cite(own_name)} is left out: {error}.")
                    continue
                if tools.setdefault(name, tool) is not tool:
                    notices.append(f"Two MCP tools would be called {name}; one is left out.")
                else:
                    groups[each.name].append(tool)
        return hide_surplus(groups.values())

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
        if not each.trusted:
            state = "not trusted"
        elif not is_on:
            state = "off"
        else:
            state = server.state if server else "not started"
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


def _parse_target(target: Sequence[str]) -> JsonDict:
    if "://" in target[0]:
        if len(target) > 1:
            raise ConfigError("only options may follow an address")
        return {"url": target[0]}
    return {"command": target[0], "args": list(target[1:])}


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
