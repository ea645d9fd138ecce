"""Switching services on and off: for the folder, or for this notebook alone."""

from __future__ import annotations

from collections.abc import Sequence

from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook

HERE = "--here"


def switch_service(book: Notebook, kind: str, words: Sequence[str], *, on: bool) -> str:
    """Switch a service of that kind, `api` or `mcp`; raises ConfigError.

    What is chosen for the folder takes the place of what was chosen for this notebook.
    """
    names = [word for word in words if word != HERE]
    if len(names) != 1:
        command = "activate" if on else "deactivate"
        raise ConfigError(f"%agent {kind} {command} takes NAME [{HERE}]")
    (name,) = names
    services = book.services.mcp if kind == "mcp" else book.services.openapi
    if HERE in words:
        services.prepare_switch(name, on=on)
        book.session().switch_services({f"{kind}:{name}": on})
        return f"{name} is {'active' if on else 'off'} in this notebook."
    text = services.activate(name) if on else services.deactivate(name)
    return forget_switch(book, kind, name, text)


def forget_switch(book: Notebook, kind: str, name: str, text: str) -> str:
    """Leave a service to the folder's choice in this notebook too; return `text`."""
    book.session().switch_services({f"{kind}:{name}": None})
    return text
