"""Switch services on and off, for the folder or only for this notebook."""

from __future__ import annotations

from collections.abc import Sequence

from ipyagent.magic.notebook import Notebook
from ipyagent.magic.subcommands import WrongArguments

HERE = "--here"


def switch_service(book: Notebook, kind: str, arguments: Sequence[str], *, on: bool) -> str:
    """Switch a service of that kind, `api` or `mcp`; raises ConfigError and WrongArguments.

    A choice for the folder replaces the one for this notebook.
    """
    names = [each for each in arguments if each != HERE]
    if len(names) != 1:
        raise WrongArguments
    (name,) = names
    services = book.services.mcp if kind == "mcp" else book.services.openapi
    if HERE in arguments:
        services.prepare_switch(name, on=on)
        book.sessions.get().switch_services({f"{kind}:{name}": on})
        return f"{name} is {'active' if on else 'off'} in this notebook."
    text = services.activate(name) if on else services.deactivate(name)
    return forget_switch(book, kind, name, text)


def forget_switch(book: Notebook, kind: str, name: str, text: str) -> str:
    """Let the folder's choice apply in this notebook too; return `text`."""
    book.sessions.get().switch_services({f"{kind}:{name}": None})
    return text
