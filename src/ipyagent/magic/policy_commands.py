"""`%agent policy …`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ipyagent.agent.grants import FolderPermissions
from ipyagent.errors import ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.plaintext import visible

LABEL = 16
"""The width of the first column."""


def run(book: Notebook, rest: str) -> str:
    """which calls are asked about; `revoke N|all` takes back what you allowed"""
    match rest.split():
        case []:
            return "\n".join(_lines(book))
        case ["revoke", reference]:
            return _revoke(book, reference)
    raise ConfigError("usage: %agent policy, or %agent policy revoke N|TOOL|all")


class Permission(NamedTuple):
    """A permission of the user's: a tool, its reach, and its duration."""

    tool: str
    covers: str
    in_folder: bool

    def __str__(self) -> str:
        return f"{self.tool}: {self.covers}" if self.covers else self.tool


def _list_permissions(book: Notebook) -> list[Permission]:
    """Return all permissions, in the order of their numbers."""
    granted, standing = (
        book.sessions.get().grants,
        FolderPermissions(book.environment.workspace.root),
    )
    session = [Permission(tool, str(granted.get(tool)), in_folder=False) for tool in granted]
    folder = [
        Permission(tool, standing.describe_grant(tool), in_folder=True)
        for tool in standing.tool_names()
    ]
    return [*session, *folder]


def _lines(book: Notebook) -> Iterator[str]:
    settings, session = book.settings.resolve(), book.sessions.get()
    standing = FolderPermissions(book.environment.workspace.root)
    tools = [tool.name for tool in book.environment.toolset.build(settings.config)]
    origin = settings.origins["agent.confirm_mode"]
    yield _line("confirm", f"{settings.config.agent.confirm_mode} ({origin})")
    rules = settings.config.policy.rules
    for n, rule in enumerate(rules):
        unused = "" if any(map(rule.names_tool, tools)) else "; it names no tool that there is now"
        yield _line("" if n else "rules", f"{rule} ({rule.source}{unused})")
    if not rules:
        yield _line("rules", "none")
    yield from _allowed_lines(_list_permissions(book))
    read = ", ".join(map(visible, session.conversation.sources))
    yield _line("read so far", read or "nothing that others wrote")
    yield from (*standing.notices(), *settings.notices)


def _allowed_lines(allowed: list[Permission]) -> Iterator[str]:
    for in_folder, label in ((False, "this session"), (True, "this folder")):
        lines = [f"{n} {each}" for n, each in enumerate(allowed, 1) if each.in_folder == in_folder]
        for n, line in enumerate(lines or ["nothing is allowed"]):
            yield _line("" if n else label, line)


def _line(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


def _revoke(book: Notebook, reference: str) -> str:
    """Take back the permissions with this number, or for this tool, or all of them."""
    numbered = enumerate(_list_permissions(book), 1)
    chosen = [each for n, each in numbered if reference in (str(n), each.tool, "all")]
    if not chosen:
        raise ConfigError(
            f"you allowed nothing that {reference} stands for; "
            "`%agent policy` lists what you allowed"
        )
    standing = FolderPermissions(book.environment.workspace.root)
    for each in chosen:
        if each.in_folder:
            standing.revoke(each.tool)
        else:
            book.sessions.get().grants.revoke(each.tool)
    return f"asked about again: {', '.join(sorted({each.tool for each in chosen}))}"
