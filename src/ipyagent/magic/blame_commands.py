"""`%agent blame`: who made and changed a variable."""

from __future__ import annotations

from ipyagent.errors import ConfigError
from ipyagent.magic import notes_of
from ipyagent.magic.notebook import Notebook
from ipyagent.tools.authors import find_authors

MOST = 50
"""Changes that are listed."""


def run(book: Notebook, rest: str) -> str:
    """list the runs, calls and cells that made or changed NAME or NAME.COLUMN, newest first"""
    name, _, column = rest.partition(".")
    if not name.isidentifier():
        raise ConfigError("usage: %agent blame NAME[.COLUMN]")
    found = find_authors(book.sessions.get().runs, notes_of(book.shell), name, column)
    if not found:
        known = name in book.shell.user_ns
        why = "before ipyagent was loaded, or not at all" if known else "there is no such variable"
        return f"nothing is known of {rest}: {why}"
    lines = [f"{each.at.astimezone():%H:%M:%S}  {each}" for each in found[:MOST]]
    more = [f"… and {len(found) - MOST} more"] if len(found) > MOST else []
    return "\n".join([*lines, *more])
