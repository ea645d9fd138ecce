"""`%agent session …`."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ipyagent.agent.session import Session
from ipyagent.errors import ConfigError
from ipyagent.kernel.frontend import detect
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import chosen
from ipyagent.ui.views import show_graph
from ipyagent.wiring import only_run

Command = Callable[..., str]


def run(book: Notebook, rest: str) -> str:
    """new|list|resume|branch|save|load|graph|compact|end: this notebook's conversation"""
    name, command, words = chosen("session", rest, COMMANDS)
    parameters = inspect.signature(command)
    try:
        parameters.bind(book, *words)
    except TypeError:
        _, *wanted = parameters.parameters.values()
        raise ConfigError(f"%agent session {name} takes {_listed(wanted)}") from None
    if command in LOOKING:
        return command(book, *words)
    with only_run():  # a plan in the background is the session's, too
        return command(book, *words)


def _new(book: Notebook, name: str = "") -> str:
    """begin anew; what was said stays in the record"""
    return _go_on(book, book.sessions.begin(name or book.name))


def _list(book: Notebook) -> str:
    """those of this workspace, the newest first"""
    current = book.session().id
    return "\n".join(
        f"{'*' if each.id == current else ' '} {each.id[:8]}  {each.state:<12} "
        f"{each.started_at.astimezone():%Y-%m-%d %H:%M}  {each.name}"
        for each in book.sessions.list()
    )


def _resume(book: Notebook, session: str) -> str:
    """go on with another one: its name or id"""
    return _go_on(book, book.opened(book.sessions.resume(session)))


def _branch(book: Notebook, node: str = "", name: str = "") -> str:
    """a new one that shares what was said up to NODE (an id of the graph), or all of it"""
    current = book.session()
    return _go_on(book, book.sessions.branch(current, node or None, name or None))


def _save(book: Notebook, path: str) -> str:
    """write the conversation to a JSON file, as a graph"""
    book.session().save(book.home / path)
    return f"saved to {path}"


def _load(book: Notebook, path: str) -> str:
    """go on from a saved graph, or from the runs in a notebook"""
    return _go_on(book, book.sessions.load(book.home / path))


def _graph(book: Notebook) -> str:
    """draw the conversation"""
    show_graph(detect(book.shell), book.session())
    return ""


def _compact(book: Notebook) -> str:
    """summarise the older part before the next prompt"""
    book.session().compact_next = True
    return "The next prompt begins with a summary of what was said so far."


def _end(book: Notebook) -> str:
    """no more prompts in this one"""
    session = book.session()
    session.end()
    return f"{session.name} has ended; `%agent session new` begins another."


def _go_on(book: Notebook, session: Session) -> str:
    book.use(session)
    return f"{session.name} ({session.id[:8]}): {len(session.messages)} messages"


def _listed(parameters: list[inspect.Parameter]) -> str:
    words = [
        each.name.upper() if each.default is each.empty else f"[{each.name.upper()}]"
        for each in parameters
    ]
    return " ".join(words) or "nothing more"


COMMANDS: dict[str, Command] = {
    "new": _new,
    "list": _list,
    "resume": _resume,
    "branch": _branch,
    "save": _save,
    "load": _load,
    "graph": _graph,
    "compact": _compact,
    "end": _end,
}

LOOKING = (_list, _save, _graph)
"""These change nothing of a session."""
