"""The subcommands of `%agent mcp`, `%agent api` and `%agent session`."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook


class WrongArguments(Exception):  # noqa: N818 - turned into a ConfigError with the usage
    """Raised for arguments that a subcommand does not take; its text, if any, says why."""


@dataclass(frozen=True)
class Subcommand:
    """A subcommand: a function of the notebook and the arguments, each a string."""

    function: Callable[..., str]
    arguments: str
    """The arguments as the usage message shows them."""
    help: str

    def run(self, name: str, book: Notebook, arguments: list[str]) -> str:
        """Call the function; `name` is the full command. Raises ConfigError."""
        usage = f"usage: {name} {self.arguments}".rstrip()
        try:
            inspect.signature(self.function).bind(book, *arguments)
        except TypeError:
            raise ConfigError(usage) from None
        try:
            return self.function(book, *arguments)
        except WrongArguments as error:
            raise ConfigError("; ".join(filter(None, (usage, str(error))))) from None


def split(group: str, rest: str, table: Mapping[str, Subcommand]) -> tuple[str, list[str]]:
    """Return the subcommand's name (`list` by default) and its arguments; raises ConfigError."""
    try:
        name, *arguments = shlex.split(rest) or ["list"]
    except ValueError as error:
        raise ConfigError(f"%agent {group}: {error} in {rest!r}") from None
    if name not in table:
        raise ConfigError(f"%agent {group} has no {name!r}; there are: {', '.join(table)}")
    return name, arguments


def run(group: str, book: Notebook, rest: str, table: Mapping[str, Subcommand]) -> str:
    """Run one of a group's subcommands; raises ConfigError."""
    name, arguments = split(group, rest, table)
    return table[name].run(f"%agent {group} {name}", book, arguments)


HERE = "--here"


def switching_commands(kind: Literal["api", "mcp"]) -> dict[str, Subcommand]:
    """Return the subcommands that switch and remove a service of that kind.

    A choice for the folder replaces the one for this notebook.
    """
    switched = "in this folder, or only in this notebook"
    return {
        "activate": Subcommand(
            partial(_switch, kind=kind, on=True), "NAME [--here]", f"offer NAME again {switched}"
        ),
        "deactivate": Subcommand(
            partial(_switch, kind=kind, on=False), "NAME [--here]", f"switch NAME off {switched}"
        ),
        "remove": Subcommand(partial(_remove, kind=kind), "NAME", "remove NAME"),
    }


def _switch(book: Notebook, *arguments: str, kind: str, on: bool) -> str:
    names = [each for each in arguments if each != HERE]
    if len(names) != 1:
        raise WrongArguments
    (name,) = names
    services = book.services.mcp if kind == "mcp" else book.services.openapi
    if HERE in arguments:
        services.prepare_switch(name, on=on)
        book.sessions.get().switch_services({f"{kind}:{name}": on})
        return f"{name} is {'active' if on else 'off'} in this notebook."
    return _forget(book, kind, name, services.activate(name) if on else services.deactivate(name))


def _remove(book: Notebook, name: str, kind: str) -> str:
    services = book.services.mcp if kind == "mcp" else book.services.openapi
    return _forget(book, kind, name, services.remove(name))


def _forget(book: Notebook, kind: str, name: str, text: str) -> str:
    """Let the folder's choice apply in this notebook too; return `text`."""
    book.sessions.get().switch_services({f"{kind}:{name}": None})
    return text
