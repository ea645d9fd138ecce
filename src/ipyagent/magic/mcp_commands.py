"""`%agent mcp …`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.service_switch import forget_switch, switch_service
from ipyagent.magic.subcommands import chosen

Command = Callable[..., str]


def run(book: Notebook, rest: str) -> str:
    """add|list|refresh|activate|deactivate|remove: servers that bring tools"""
    name, command, words = chosen("mcp", rest, COMMANDS)
    try:
        inspect.signature(command).bind(book, *words)
    except TypeError:
        raise ConfigError(f"write: %agent mcp {name} {command.__doc__}") from None
    return command(book, *words)


def _add(book: Notebook, name: str, *words: str) -> str:
    """NAME URL|COMMAND… [--env VAR] [--token-env VAR] [--header-env HEADER=VAR] [--sse]"""
    target, options = _options(words)
    return book.services.mcp.add(name, target, options)


def _list(book: Notebook) -> str:
    """(alone): the servers and how they are"""
    return book.services.mcp.listed()


def _refresh(book: Notebook, *words: str) -> str:
    """[NAME] [--accept]"""
    names = [word for word in words if word != "--accept"]
    if len(names) > 1:
        raise ConfigError("%agent mcp refresh takes one NAME, or none for all")
    return book.services.mcp.refresh(*names, accept="--accept" in words)


def _remove(book: Notebook, name: str) -> str:
    """NAME"""
    return forget_switch(book, "mcp", name, book.services.mcp.remove(name))


def _activate(book: Notebook, *words: str) -> str:
    """NAME [--here]"""
    return switch_service(book, "mcp", words, on=True)


def _deactivate(book: Notebook, *words: str) -> str:
    """NAME [--here]"""
    return switch_service(book, "mcp", words, on=False)


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
