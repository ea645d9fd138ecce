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
        services.check_known(name)
        book.session().switch_service(f"{kind}:{name}", on)
        return f"{name} is {'active' if on else 'not active'} in this notebook."
    text = services.activate(name) if on else services.deactivate(name)
    book.session().switch_service(f"{kind}:{name}", None)
    return text
