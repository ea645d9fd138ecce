"""The MCP servers of one folder: which there are, what they offer, what a person does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from pathlib import Path
from typing import Any

from ipyagent.config import MCPServerConfig
from ipyagent.config.keys import told
from ipyagent.config.mcp_json import ListedServer
from ipyagent.errors import ConfigError, MCPError
from ipyagent.json_types import JsonDict
from ipyagent.services.listing import in_notebook
from ipyagent.services.mcp.listed import ADDED, Named, Sources
from ipyagent.services.mcp.naming import Pair, tool_names
from ipyagent.services.mcp.offered import (
    GET_PROMPT,
    READ_RESOURCE,
    Offer,
    offer_of,
    prompts_of,
    resources_of,
)
from ipyagent.services.mcp.server import Server
from ipyagent.services.mcp.thread import ServersThread
from ipyagent.tools.base import Tool

_SLACK = 1.0  # seconds over a server's own limit, for a loop that is busy


class MCPServers:
    """Servers that the settings, the person, or a folder that is trusted name.

    `folder` is what the person's choices are kept for, `home` the folder whose mcp.json counts and
    in which programs are started; `here` says what is switched for the notebook alone.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        environ: Mapping[str, str],
        configured: Callable[[], Iterable[MCPServerConfig]] = tuple,
        here: Callable[[], Mapping[str, bool]] = dict,
    ) -> None:
        self._here = here
        self.sources = Sources(folder, home, environ, configured)
        self._servers: dict[str, Server] = {}
        self._shown: dict[str, JsonDict] = {}
        """The descriptions of which the person last saw what changed."""

    async def tools(self) -> tuple[list[Tool], list[str]]:
        """Connect what is not connected yet; the tools, and what the person should know.

        It takes no longer than the longest `connect_timeout`, and no server waits for another.
        """
        servers, notices = self._active()
        if not servers:
            return [], notices
        if problem := await asyncio.to_thread(_no_sdk):
            return [], [*notices, problem]
        looks = (_within(each.look(), each) for each in servers)
        problems = dict(zip(servers, await asyncio.gather(*looks), strict=True))
        notices += (
            f"The MCP server {told(each.name)} has no tools now: {problem}. "
            f"`%agent mcp refresh {told(each.name)}` tries again."
            for each, problem in problems.items()
            if problem
        )
        good = [each for each in servers if not problems[each]]
        # In a thread: many schemas take a while to read.
        return await asyncio.to_thread(self._named, good, notices), notices

    def listed(self) -> str:
        """All servers with their states."""
        named, notices = self.sources.named()
        switched = self._switched() or {}
        rows = [self._row(each, self._is_on(each, switched)) for each in named.values()]
        return "\n".join([*rows, *notices]) or "no MCP servers; `%agent mcp add NAME URL|COMMAND`"

    def add(self, name: str, target: Sequence[str], values: Mapping[str, object]) -> str:
        """Keep a server for this folder: an address, or a command with its arguments."""
        named, _ = self.sources.named()
        if name in named:
            raise ConfigError(
                f"there is an MCP server {told(name)} already, in {named[name].source}"
            )
        if not target:
            raise ConfigError("name the server's address, or the command that starts it")
        values = {**_target(target), **values}
        listed = ListedServer(name, ADDED, values)
        listed.config(self.sources.environ, self.sources.home)
        self.sources.choices.add(name, values)
        does = "starts this program" if "command" in values else "connects to"
        return f"{told(name)} is added. The next cell {does}:\n  {listed}"

    def remove(self, name: str) -> str:
        """Forget a server that was added."""
        each = self._find(name)
        if each.source != ADDED:
            raise ConfigError(
                f"{told(name)} is named in {told(each.source)}; remove it there, or switch it off: "
                f"`%agent mcp deactivate {told(name)}`"
            )
        self.sources.choices.remove(name)
        self._drop(name)
        return f"{told(name)} is removed"

    def prepare_switch(self, name: str, *, on: bool) -> None:
        """Make ready to switch a server for the notebook alone; raises ConfigError."""
        each = self._find(name)
        if on and not _may_be_on(each, self.sources.choices.active()):
            raise ConfigError(
                f"{told(name)} is disabled in {told(each.source)}; to use it all the same: "
                f"`%agent mcp activate {told(name)}`, for the whole folder"
            )
        if not on:
            self._drop(name)

    def activate(self, name: str) -> str:
        """Use a server in this folder, also one that is disabled where it is named."""
        self.sources.choices.switch(self._find(name).name, True)
        return f"{told(name)} is used from the next cell on"

    def deactivate(self, name: str) -> str:
        """Use a server no more in this folder."""
        self.sources.choices.switch(self._find(name).name, False)
        self._drop(name)
        return f"{told(name)} is switched off"

    def refresh(self, name: str | None = None, *, accept: bool = False) -> str:
        """Connect anew and show what changed; `accept` approves it."""
        servers, notices = self._active()
        if name is not None:
            self._find(name)
            servers = [each for each in servers if each.name == name]
        if servers and (problem := _no_sdk()):
            raise ConfigError(problem)
        thread = ServersThread.current()
        begun = [(each, thread.submit(each.again())) for each in servers]
        lines = []
        for each, work in begun:
            try:
                work.result(each.config.connect_timeout + _SLACK)
                lines.append(self._refreshed(each, accept=accept))
            except (MCPError, TooLate) as error:
                lines.append(f"{told(each.name)}: {error or 'it did not answer in time'}")
        return "\n".join([*lines, *notices]) or "no MCP server is in use"

    def close(self) -> None:
        """Disconnect from all."""
        for name in list(self._servers):
            self._drop(name)

    def _active(self) -> tuple[list[Server], list[str]]:
        """The servers that are used as things are now, and why others are not."""
        named, notices = self.sources.named()
        if (switched := self._switched()) is None:
            return [], notices
        used = {}
        for each in named.values():
            if not self._is_on(each, switched):
                continue
            if not each.trusted:
                notices.append(_not_trusted(each))
                continue
            try:
                used[each.name] = self._server(each)
            except ConfigError as error:
                notices.append(f"The MCP server {told(each.name)} is not used: {error}")
        for name in self._servers.keys() - used.keys():
            self._drop(name)
        return list(used.values()), notices

    def _switched(self) -> dict[str, bool] | None:
        """What was switched for the folder; None, and then nothing is used, if nobody knows."""
        try:
            return self.sources.choices.active()
        except ConfigError:  # told already, for it says what was added, too
            return None

    def _is_on(self, each: Named, switched: Mapping[str, bool]) -> bool:
        """Whether a server is to be used, where what the notebook says comes first."""
        on = self._here().get(each.name, switched.get(each.name, not each.disabled))
        return on and _may_be_on(each, switched)

    def _server(self, named: Named) -> Server:
        """The one that is there, unless it is another by now."""
        config, before = named.config(), self._servers.get(named.name)
        if before is not None and (before.config, before.source) == (config, named.source):
            return before
        self._drop(named.name)
        sources = self.sources
        new = Server(config, named.source, named.shown, sources.environ, sources.home)
        self._servers[named.name] = new
        return new

    def _drop(self, name: str) -> None:
        if server := self._servers.pop(name, None):
            server.drop()

    def _find(self, name: str) -> Named:
        named, _ = self.sources.named()
        if name not in named:
            there = ", ".join(map(told, named)) or "none"
            raise ConfigError(f"there is no MCP server {told(name)}; there are: {there}")
        if not named[name].trusted:
            raise ConfigError(_not_trusted(named[name]))
        return named[name]

    def _named(self, servers: Sequence[Server], notices: list[str]) -> list[Tool]:
        """The tools that are as they were approved, under names that are theirs alone."""
        pairs = [(s.name, name) for s in servers for name in (*s.descriptions, *_ours(s))]
        names = tool_names(pairs)
        tools: dict[str, Tool] = {}
        for pair, offer in self._offers(servers, notices):
            if names[pair] in tools:
                notices.append(f"Two MCP tools would be called {names[pair]}; one is left out.")
            else:
                tools[names[pair]] = offer.tool(names[pair])
        return list(tools.values())

    def _offers(
        self, servers: Sequence[Server], notices: list[str]
    ) -> Iterator[tuple[Pair, Offer]]:
        for each in servers:
            about = f"The MCP server {told(each.name)}"
            notices += (f"{about}: {problem}." for problem in each.offers.problems)
            notices += [f"{about}: {each.pins.problem}."] * bool(each.pins.problem)
            changed = each.pins.changed(each.descriptions)
            if changed:
                notices.append(
                    f"{about} changed what it says about {_some(changed)} since that was approved, "
                    f"so that is left out. {each.ask_person()}"
                )
            for name, description in each.descriptions.items():
                try:
                    if name not in changed:
                        yield (each.name, name), offer_of(each, description)
                except ConfigError as error:
                    notices.append(f"{about}: its tool {told(name)} is left out: {error}.")
            for name, make in _ours(each).items():
                yield (each.name, name), make(each)

    def _refreshed(self, server: Server, *, accept: bool) -> str:
        """What a server offers now, what of it is new, and whether that is approved now."""
        now, pins = server.descriptions, server.pins
        changed = pins.changed(now)
        said = f"{told(server.name)} is connected and offers {len(now)} tools"
        if not changed:
            return said
        seen = self._shown.get(server.name)
        self._shown[server.name] = now
        said += f"; what it says about {_some(changed)} changed:\n{pins.difference(now)}\n"
        if not accept:
            return f"{said}To approve that: `%agent mcp refresh {told(server.name)} --accept`"
        if seen is not None and seen != now:
            return f"{said}This is not what you saw before, so it is not approved. Look again."
        pins.approve(now)
        return f"{said}It is approved."

    def _row(self, each: Named, is_on: bool) -> str:
        server = self._servers.get(each.name)
        if not each.trusted:
            state = "not trusted"
        elif not is_on:
            state = "off"
        else:
            state = server.state if server else "not started"
        count = f"{len(server.listing.tools)} tools" if server and server.listing else ""
        failure = f"\n    {server.failure}" if server and server.failure else ""
        here = self._here().get(each.name) if each.trusted else None
        source = ", ".join([each.source, *in_notebook(here if here == is_on else None)])
        return f"{told(each.name):<16} {state:<12} {count:<10} {source}   {each.shown}{failure}"


def _may_be_on(each: Named, switched: Mapping[str, bool]) -> bool:
    """Whether a notebook may use it: one that is disabled where it is named the folder allows."""
    return not each.disabled or switched.get(each.name, False)


def _target(target: Sequence[str]) -> JsonDict:
    if "://" in target[0]:
        if len(target) > 1:
            raise ConfigError("after an address nothing follows but options")
        return {"url": target[0]}
    return {"command": target[0], "args": list(target[1:])}


def _ours(server: Server) -> dict[str, Callable[[Server], Offer]]:
    """What we offer for a server, where it has no tool of that name itself."""
    ours = {}
    if server.offers.resources:
        ours[READ_RESOURCE] = resources_of
    if server.offers.prompts:
        ours[GET_PROMPT] = prompts_of
    return {name: make for name, make in ours.items() if name not in server.descriptions}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(told(name)[:100] for name in names[:5]) + more


def _not_trusted(each: Named) -> str:
    return (
        f"{told(each.source)} of this folder names the MCP server {told(each.name)}, which is not "
        f"used before you trust the folder as it is now (`%agent trust`): {each.shown}"
    )


async def _within(work: Any, server: Server) -> str | None:
    """What went wrong with a server; it holds nobody up."""
    try:
        await ServersThread.current().run(work, server.config.connect_timeout + _SLACK)
    except TimeoutError:
        return "it did not answer in time"
    except MCPError as error:
        return str(error)
    return None


def _no_sdk() -> str | None:
    """Why there can be no connections at all. Imported here: it takes a second."""
    try:
        import ipyagent.services.mcp.connection  # noqa: F401
    except ImportError as error:
        return f"MCP servers need the MCP SDK ({error}): pip install 'ipyagent[mcp]'"
    return None
