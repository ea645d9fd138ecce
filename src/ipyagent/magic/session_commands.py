"""`%agent session …`."""

from __future__ import annotations

from ipyagent.agent.session.session import Session
from ipyagent.kernel.frontend import detect
from ipyagent.magic import subcommands
from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import Subcommand
from ipyagent.ui.views import show_graph
from ipyagent.wiring import runtime


def run(book: Notebook, rest: str) -> str:
    """new|list|resume|branch|save|load|graph|compact|end: this notebook's conversation"""
    name, _ = subcommands.split("session", rest, COMMANDS)
    if name in READING:
        return subcommands.run("session", book, rest, COMMANDS)
    with runtime().run_lock.hold():  # a plan in the background belongs to the session, too
        return subcommands.run("session", book, rest, COMMANDS)


def _new(book: Notebook, name: str = "") -> str:
    return _go_on(book, book.sessions.all.begin(name or book.sessions.name))


def _list(book: Notebook) -> str:
    current = book.sessions.get().id
    return "\n".join(
        f"{'*' if each.id == current else ' '} {each.id[:8]}  {each.state:<12} "
        f"{each.started_at.astimezone():%Y-%m-%d %H:%M}  {each.name}"
        for each in book.sessions.all.records()
    )


def _resume(book: Notebook, session: str) -> str:
    return _go_on(book, book.sessions.open(book.sessions.all.resume(session)))


def _branch(book: Notebook, node: str = "", name: str = "") -> str:
    current = book.sessions.get()
    return _go_on(book, book.sessions.all.branch(current, node or None, name or None))


def _save(book: Notebook, path: str) -> str:
    book.sessions.get().save(book.home / path)
    return f"saved to {path}"


def _load(book: Notebook, path: str) -> str:
    return _go_on(book, book.sessions.all.load(book.home / path))


def _graph(book: Notebook) -> str:
    show_graph(detect(book.shell), book.sessions.get())
    return ""


def _compact(book: Notebook) -> str:
    book.sessions.get().compact_next = True
    return "The next prompt begins with a summary of the conversation so far."


def _end(book: Notebook) -> str:
    session = book.sessions.get()
    session.end()
    return f"{session.name} has ended; `%agent session new` begins another."


def _go_on(book: Notebook, session: Session) -> str:
    book.sessions.use(session)
    return f"{session.name} ({session.id[:8]}): {len(session.messages)} messages"


COMMANDS = {
    "new": Subcommand(_new, "[NAME]", "begin a new session; the old one stays in the record"),
    "list": Subcommand(_list, "", "list this workspace's sessions, the newest first"),
    "resume": Subcommand(_resume, "SESSION", "continue another session, given by name or id"),
    "branch": Subcommand(
        _branch, "[NODE] [NAME]", "begin a session that shares the conversation up to NODE, or all"
    ),
    "save": Subcommand(_save, "PATH", "write the conversation to a JSON file, as a graph"),
    "load": Subcommand(
        _load, "PATH", "continue from a saved graph, or from the runs in a notebook"
    ),
    "graph": Subcommand(_graph, "", "draw the conversation"),
    "compact": Subcommand(_compact, "", "summarise the older part before the next prompt"),
    "end": Subcommand(_end, "", "end the session: it takes no more prompts"),
}

READING = {"list", "save", "graph"}
"""Subcommands that change nothing in a session."""
