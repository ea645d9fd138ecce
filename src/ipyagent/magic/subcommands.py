"""`%agent freeze`, and the subcommands of `%agent session`, `mcp` and `api`."""

from __future__ import annotations

import argparse
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn

from ipyagent.agent.prompts import validate
from ipyagent.agent.session.branches import compare_branches
from ipyagent.agent.session.conversation import Conversation
from ipyagent.agent.session.session import find_node
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import current
from ipyagent.kernel.shell import detect
from ipyagent.ui.views import show_bundle, show_graph
from ipyagent.wiring import extra_validators, runtime

if TYPE_CHECKING:
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
    split: Callable[[str], list[str]] = shlex.split
    """Splits a line into the arguments."""

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


def _split(group: str, rest: str, table: Mapping[str, Subcommand]) -> tuple[str, list[str]]:
    """Return the subcommand's name (`list` by default) and its arguments; raises ConfigError."""
    name, *more = rest.split(None, 1) or ["list"]
    if name not in table:
        raise ConfigError(f"%agent {group} has no {name!r}; there are: {', '.join(table)}")
    try:
        return name, table[name].split("".join(more))
    except ValueError as error:
        raise ConfigError(f"%agent {group}: {error} in {rest!r}") from None


def _run(group: str, book: Notebook, rest: str, table: Mapping[str, Subcommand]) -> str:
    """Run one of a group's subcommands; raises ConfigError."""
    name, arguments = _split(group, rest, table)
    return table[name].run(f"%agent {group} {name}", book, arguments)


# -- %agent session


def session(book: Notebook, rest: str) -> str:
    """new|list|resume|branch|edit|diff|save|load|graph|compact|end: this notebook's conversation"""
    name, _ = _split("session", rest, SESSION)
    if name in READING:
        return _run("session", book, rest, SESSION)
    with runtime().run_lock.hold():  # a plan in the background belongs to the session, too
        return _run("session", book, rest, SESSION)


def _new(book: Notebook, name: str = "") -> str:
    return book.sessions.go_on(book.sessions.all.begin(name or book.sessions.name))


def _list_sessions(book: Notebook) -> str:
    current = book.sessions.get().id
    return "\n".join(
        f"{'*' if each.id == current else ' '} {each.id[:8]}  {each.state:<12} "
        f"{each.started_at.astimezone():%Y-%m-%d %H:%M}  {each.name}"
        for each in book.sessions.all.journal.sessions()
    )


def _resume(book: Notebook, reference: str) -> str:
    return book.sessions.go_on(book.sessions.open(book.sessions.all.resume(reference)))


def _branch(book: Notebook, node: str = "", name: str = "") -> str:
    current = book.sessions.get()
    return book.sessions.go_on(book.sessions.all.branch(current, node or None, name or None))


def _edit(book: Notebook, node: str, text: str) -> str:
    validate(text, extra_validators(book.environment, book.settings.config))
    reply = book.sessions.go_on(book.sessions.all.add(book.sessions.get().edit(node, text)))
    return f"{reply}; {GO_ON}" if book.sessions.get().conversation.open_prompt else reply


def _diff(book: Notebook, first: str, second: str = "") -> str:
    branches = [_find_branch(book, each) for each in (first, second)]
    diff = compare_branches(*(branches if second else reversed(branches)))
    show_bundle(detect(book.shell), {"text/plain": str(diff), "text/html": diff._repr_html_()})
    return ""


def _find_branch(book: Notebook, reference: str) -> tuple[str, Conversation]:
    """Return the name and the conversation of a session, or of this one up to a node."""
    current = book.sessions.get()
    found = book.sessions.all.read(reference) if reference else current
    if found is not None:
        return found.name, found.conversation
    return reference, current.conversation.up_to(find_node(current.graph, reference))


def _save(book: Notebook, path: str) -> str:
    book.sessions.get().save(book.home / path)
    return f"saved to {path}"


def _load(book: Notebook, path: str) -> str:
    return book.sessions.go_on(book.sessions.all.load(book.home / path))


def _graph(book: Notebook) -> str:
    show_graph(detect(book.shell), book.sessions.get())
    return ""


def _compact(book: Notebook) -> str:
    book.sessions.get().compact_next = True
    return "The next prompt begins with a summary of the conversation so far."


def _end(book: Notebook) -> str:
    current = book.sessions.get()
    current.end()
    return f"{current.name} has ended; `%agent session new` begins another."


SESSION = {
    "new": Subcommand(_new, "[NAME]", "begin a new session; the old one stays in the record"),
    "list": Subcommand(_list_sessions, "", "list this workspace's sessions, the newest first"),
    "resume": Subcommand(_resume, "SESSION", "continue another session, given by name or id"),
    "branch": Subcommand(
        _branch, "[NODE] [NAME]", "begin a session that shares the conversation up to NODE, or all"
    ),
    "edit": Subcommand(
        _edit,
        "NODE TEXT",
        "begin a session in which NODE has another text, and nothing comes after it",
        lambda line: line.split(None, 1),
    ),
    "diff": Subcommand(
        _diff, "A [B]", "compare sessions, or ends at nodes: A with B, or this session with A"
    ),
    "save": Subcommand(_save, "PATH", "write the conversation to a JSON file, as a graph"),
    "load": Subcommand(
        _load, "PATH", "continue from a saved graph, or from the runs in a notebook"
    ),
    "graph": Subcommand(_graph, "", "draw the conversation"),
    "compact": Subcommand(_compact, "", "summarise the older part before the next prompt"),
    "end": Subcommand(_end, "", "end the session: it takes no more prompts"),
}

GO_ON = "`%%agent` without a prompt asks the model from here"

READING = {"list", "save", "graph", "diff"}
"""Subcommands that change nothing in a session."""


# -- %agent freeze

_FREEZE = "usage: %agent freeze [RUN…|--all] [--verify] [--to FILE.py|FILE.ipynb]"
FREEZING = {
    "--all": "all runs of this session",
    "--verify": "try the cells in a fresh kernel, in a copy of the workspace",
    "--to": "the file to write, FILE.py or FILE.ipynb",
}


def freeze(book: Notebook, rest: str) -> str:
    """turn RUN… or --all into plain cells, below or --to FILE; --verify tries them first"""
    from ipyagent.wiring import freezing  # most notebooks freeze nothing

    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("runs", nargs="*")
    for option in ("--all", "--verify"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--to")
    try:
        given = parser.parse_args(shlex.split(rest))
        if given.all and given.runs:
            parser.error("--all takes no RUN")
    except (WrongArguments, ValueError) as error:
        raise ConfigError(f"{_FREEZE}; {error}") from None
    target = book.home / given.to if given.to else None
    if target:
        freezing.check_target(target)
    named = [book.sessions.find_run(each) for each in given.runs or [""] * (not given.all)]
    named += [each for each in book.sessions.get().runs if given.all]
    if not named:
        raise ConfigError("no runs yet")
    chosen = sorted({each.id: each for each in named}.values(), key=lambda each: each.started_at)
    around = current(book.shell, book.home)
    frozen = freezing.freeze_runs(book.environment, chosen, around.saved)
    if given.verify:
        frozen = freezing.verify(book.environment, frozen)
    if target:
        freezing.write_file(frozen, target)
        return f"wrote {given.to}: {frozen.outcome}"
    assert around.next_input is not None  # noqa: S101
    around.next_input.add(freezing.make_script(frozen, with_own=False))
    return f"proposed {around.next_input.where}; {frozen.outcome}"


# -- %agent mcp and %agent api: services

HERE = "--here"


def _switching_commands(kind: Literal["api", "mcp"]) -> dict[str, Subcommand]:
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


def mcp(book: Notebook, rest: str) -> str:
    """add|list|refresh|activate|deactivate|remove: servers that bring tools"""
    return _run("mcp", book, rest, MCP)


def _add(book: Notebook, name: str, *arguments: str) -> str:
    target, options = _split_options(arguments)
    return book.services.mcp.add(name, target, options)


def _refresh_servers(book: Notebook, *arguments: str) -> str:
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

_SWITCHING = _switching_commands("mcp")

MCP = {
    "add": _ADD,
    "list": Subcommand(
        lambda book: book.services.mcp.describe_servers(), "", "list the servers and their state"
    ),
    "refresh": Subcommand(
        _refresh_servers,
        "[NAME] [--accept]",
        "connect again to NAME, or to all; --accept what changed",
    ),
    **_SWITCHING,
    "register": _ADD,
    "delete": _SWITCHING["remove"],
}


def api(book: Notebook, rest: str) -> str:
    """register|list|refresh|activate|deactivate|remove: services described by OpenAPI, as tools"""
    return _run("api", book, rest, API)


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


def _refresh_api(book: Notebook, name: str | None = None) -> str:
    return book.services.openapi.refresh(*([] if name is None else [name]))


API = {
    "register": Subcommand(
        _register,
        "NAME URL|FILE [--auth-env VARIABLE] [--header-env HEADER=VARIABLE] [--get-unasked] "
        "[--base URL]",
        "add a service by its address, or by the file that describes it",
    ),
    "list": Subcommand(
        lambda book: book.services.openapi.describe_services(), "", "list this folder's services"
    ),
    "refresh": Subcommand(_refresh_api, "[NAME]", "read the description of NAME again, or of all"),
    **_switching_commands("api"),
}
