"""`%agent api …`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.service_switch import forget_switch, switch_service
from ipyagent.magic.subcommands import chosen

Command = Callable[[Notebook, list[str]], str]

REGISTER = (
    "register NAME URL|FILE [--auth-env VARIABLE] [--header-env HEADER=VARIABLE] "
    "[--get-unasked] [--base URL]"
)


def run(book: Notebook, rest: str) -> str:
    """register|list|refresh|activate|deactivate|remove: services described by OpenAPI, as tools"""
    _, command, words = chosen("api", rest, COMMANDS)
    return command(book, words)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"%agent api register: {message}. It is: {REGISTER}")


def _register(book: Notebook, words: list[str]) -> str:
    """take in a service by its address, or by the file that describes it"""
    parser = _Parser(prog="%agent api register", add_help=False, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("target")
    parser.add_argument("--auth-env")
    parser.add_argument("--header-env", action="append", default=[])
    parser.add_argument("--get-unasked", action="store_true")
    parser.add_argument("--base")
    given = parser.parse_args(words)
    headers = {}
    for each in given.header_env:
        header, equals, variable = each.partition("=")
        if not equals:
            parser.error("--header-env takes HEADER=VARIABLE")
        headers[header] = variable
    return book.services.openapi.register(
        given.name,
        given.target,
        auth_env=given.auth_env,
        header_env=headers,
        get_unasked=given.get_unasked,
        base=given.base,
    )


def _list(book: Notebook, words: list[str]) -> str:
    """those of this folder"""
    if words:
        raise ConfigError("%agent api list takes nothing more")
    return book.services.openapi.listed()


def _refresh(book: Notebook, words: list[str]) -> str:
    """look again what NAME can do, or all of them"""
    if len(words) > 1:
        raise ConfigError("%agent api refresh takes [NAME]")
    return book.services.openapi.refresh(*words)


def _activate(book: Notebook, words: list[str]) -> str:
    """offer NAME again, in this folder or, with --here, in this notebook"""
    return switch_service(book, "api", words, on=True)


def _deactivate(book: Notebook, words: list[str]) -> str:
    """offer and allow nothing of NAME, in this folder or, with --here, in this notebook"""
    return switch_service(book, "api", words, on=False)


def _remove(book: Notebook, words: list[str]) -> str:
    """forget NAME"""
    name = _name("remove", words)
    return forget_switch(book, "api", name, book.services.openapi.remove(name))


def _name(command: str, words: list[str]) -> str:
    if len(words) != 1:
        raise ConfigError(f"%agent api {command} takes NAME")
    return words[0]


COMMANDS: dict[str, Command] = {
    "register": _register,
    "list": _list,
    "refresh": _refresh,
    "activate": _activate,
    "deactivate": _deactivate,
    "remove": _remove,
}
