"""`%agent mcp …`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import chosen
from ipyagent.services.mcp.servers import MCPServers

Command = Callable[..., str]


def run(book: Notebook, rest: str) -> str:
    """add|list|refresh|activate|deactivate|remove: servers that bring tools"""
    name, command, words = chosen("mcp", rest, COMMANDS)
    servers = book.services.mcp
    try:
        inspect.signature(command).bind(servers, *words)
    except TypeError:
        raise ConfigError(f"write: %agent mcp {name} {command.__doc__}") from None
    return command(servers, *words)


def _add(servers: MCPServers, name: str, *words: str) -> str:
    """NAME URL|COMMAND… [--env VAR] [--token-env VAR] [--header-env HEADER=VAR] [--sse]"""
    target, options = _options(words)
    return servers.add(name, target, options)


def _list(servers: MCPServers) -> str:
    """(alone): the servers and how they are"""
    return servers.listed()


def _refresh(servers: MCPServers, *words: str) -> str:
    """[NAME] [--accept]"""
    names = [word for word in words if word != "--accept"]
    if len(names) > 1:
        raise ConfigError("%agent mcp refresh takes one NAME, or none for all")
    return servers.refresh(*names, accept="--accept" in words)


def _remove(servers: MCPServers, name: str) -> str:
    """NAME"""
    return servers.remove(name)


def _activate(servers: MCPServers, name: str) -> str:
    """NAME"""
    return servers.activate(name)


def _deactivate(servers: MCPServers, name: str) -> str:
    """NAME"""
    return servers.deactivate(name)


def _options(words: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
    """The address or command, and our options among its words; after `--` nothing is ours."""
    target: list[str] = []
    values: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        match word:
            case "--":
                target += left
            case "--sse":
                values["transport"] = "sse"
            case "--env":
                name = _next(left, word)
                values.setdefault("env", {})[name] = f"${{{name}}}"
            case "--token-env":
                values["token_env"] = _next(left, word)
            case "--header-env":
                header, _, variable = _next(left, word).partition("=")
                values.setdefault("header_env", {})[header] = variable
            case _:
                target.append(word)
    return target, values


def _next(words: Iterator[str], option: str) -> str:
    if (word := next(words, None)) is None:
        raise ConfigError(f"%agent mcp add: {option} needs a value")
    return word


COMMANDS: dict[str, Command] = {
    "add": _add,
    "list": _list,
    "refresh": _refresh,
    "activate": _activate,
    "deactivate": _deactivate,
    "remove": _remove,
    "register": _add,
    "delete": _remove,
}
