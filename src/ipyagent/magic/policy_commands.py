"""`%agent policy …`."""

from __future__ import annotations

from collections.abc import Iterator

from ipyagent.agent.permissions import Standing
from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook

LABEL = 16
"""The width of the first column."""


def run(book: Notebook, rest: str) -> str:
    """which calls are asked about; `forget [TOOL]` takes back what you allowed"""
    match rest.split():
        case []:
            return "\n".join(_lines(book))
        case ["forget"]:
            return _forget(book, None)
        case ["forget", tool]:
            return _forget(book, tool)
    raise ConfigError("%agent policy stands alone, or before `forget` or `forget TOOL`")


def _lines(book: Notebook) -> Iterator[str]:
    settings, session = book.settings(), book.session()
    standing = Standing(book.place.workspace.root)
    tools = [tool.name for tool in book.place.toolbox(settings.config)]
    origin = settings.origins["agent.confirm_mode"]
    yield _line("confirm", f"{settings.config.agent.confirm_mode} ({origin})")
    rules = settings.config.policy.rules
    for n, rule in enumerate(rules):
        unused = "" if any(map(rule.names, tools)) else "; it names no tool that there is now"
        yield _line("" if n else "rules", f"{rule} ({rule.source}{unused})")
    if not rules:
        yield _line("rules", "none")
    yield _line("this session", ", ".join(sorted(session.granted)) or "nothing is allowed")
    yield _line("this folder", ", ".join(standing.tools()) or "nothing is allowed")
    yield _line("was read", ", ".join(session.conversation.sources) or "nothing by others")
    yield from (*standing.notices(), *settings.notices)


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


def _forget(book: Notebook, tool: str | None) -> str:
    granted = book.session().granted
    gone = {name for name in granted if tool in (None, name)}
    for name in gone:
        del granted[name]
    gone.update(Standing(book.place.workspace.root).forget(tool))
    if not gone:
        raise ConfigError(f"you allowed {tool or 'no tool'} neither for this session nor here")
    return f"asked about again: {', '.join(sorted(gone))}"
