"""`%agent api …`."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ipyagent.magic import subcommands
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import Subcommand, WrongArguments, switching_commands


def run(book: Notebook, rest: str) -> str:
    """register|list|refresh|activate|deactivate|remove: services described by OpenAPI, as tools"""
    return subcommands.run("api", book, rest, COMMANDS)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongArguments(message)


def _register(book: Notebook, *arguments: str) -> str:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("target")
    parser.add_argument("--auth-env")
    parser.add_argument("--header-env", action="append", default=[])
    parser.add_argument("--get-unasked", action="store_true")
    parser.add_argument("--base")
    given = parser.parse_args(arguments)
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


def _list(book: Notebook) -> str:
    return book.services.openapi.describe_services()


def _refresh(book: Notebook, name: str | None = None) -> str:
    return book.services.openapi.refresh(*([] if name is None else [name]))


COMMANDS = {
    "register": Subcommand(
        _register,
        "NAME URL|FILE [--auth-env VARIABLE] [--header-env HEADER=VARIABLE] [--get-unasked] "
        "[--base URL]",
        "add a service by its address, or by the file that describes it",
    ),
    "list": Subcommand(_list, "", "list this folder's services"),
    "refresh": Subcommand(_refresh, "[NAME]", "read the description of NAME again, or of all"),
    **switching_commands("api"),
}
