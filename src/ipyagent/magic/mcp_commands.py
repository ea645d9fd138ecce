"""`%agent mcp …`."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.json_types import JsonDict
from ipyagent.magic import subcommands
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import Subcommand, WrongArguments, switching_commands


def run(book: Notebook, rest: str) -> str:
    """add|list|refresh|activate|deactivate|remove: servers that bring tools"""
    return subcommands.run("mcp", book, rest, COMMANDS)


def _add(book: Notebook, name: str, *arguments: str) -> str:
    target, options = _split_options(arguments)
    return book.services.mcp.add(name, target, options)


def _list(book: Notebook) -> str:
    return book.services.mcp.describe_servers()


def _refresh(book: Notebook, *arguments: str) -> str:
    names = [each for each in arguments if each != "--accept"]
    if len(names) > 1:
        raise WrongArguments
    return book.services.mcp.refresh(*names, accept="--accept" in arguments)


def _split_options(arguments: tuple[str, ...]) -> tuple[list[str], JsonDict]:
    """Separate our options from the address or command; after `--` none is ours."""
    target: list[str] = []
    options: JsonDict = {}
    rest = iter(arguments)
    for each in rest:
        match each:
            case "--":
                target += rest
            case "--sse":
                options["transport"] = "sse"
            case "--env":
                variable = _value(rest, each)
                options.setdefault("env", {})[variable] = f"${{{variable}}}"
            case "--token-env":
                options["token_env"] = _value(rest, each)
            case "--header-env":
                header, _, variable = _value(rest, each).partition("=")
                options.setdefault("header_env", {})[header] = variable
            case _:
                target.append(each)
    return target, options


def _value(rest: Iterator[str], option: str) -> str:
    if (value := next(rest, None)) is None:
        raise WrongArguments(f"{option} needs a value")
    return value


_ADD = Subcommand(
    _add,
    "NAME URL|COMMAND… [--env VAR] [--token-env VAR] [--header-env HEADER=VAR] [--sse]",
    "add a server by its address, or by the command that starts it",
)

_SWITCHING = switching_commands("mcp")

COMMANDS = {
    "add": _ADD,
    "list": Subcommand(_list, "", "list the servers and their state"),
    "refresh": Subcommand(
        _refresh, "[NAME] [--accept]", "connect again to NAME, or to all; --accept what changed"
    ),
    **_SWITCHING,
    "register": _ADD,
    "delete": _SWITCHING["remove"],
}
