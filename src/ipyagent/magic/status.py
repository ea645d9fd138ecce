"""`%agent status` and `%agent policy`: the state of the notebook's agent, and what it may do."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ipyagent.agent.grants import FolderPermissions
from ipyagent.agent.session.session import Session
from ipyagent.config import Settings
from ipyagent.errors import AgentError, ConfigError
from ipyagent.llm.client import ModelSize
from ipyagent.llm.destinations import BUILT_IN, SCRIPTED
from ipyagent.llm.service_client import ServiceClient
from ipyagent.magic.notebook import Notebook
from ipyagent.phrases import plural
from ipyagent.plaintext import visible
from ipyagent.schema import ToolExecution
from ipyagent.tools.rehearsed import UNTRIED
from ipyagent.wiring import runtime

_IN_MEMORY = "none: this session is kept in memory alone"
_DISABLED = "Agent cells are disabled until these settings are fixed:"


def describe(book: Notebook) -> str:
    """Return a line for each fact, and the description of the model."""
    try:
        settings = book.settings.resolve()
    except ConfigError as error:
        return f"{_DISABLED}\n{textwrap.indent(str(error), '  ')}"
    notes: list[str] = []

    def session() -> str:
        found = book.sessions.get()
        notes.extend(found.notices)
        return _extent(found)

    lines = {
        "model": lambda: _model(book, settings, notes),
        "tools": lambda: _tools(book, settings),
        "confirm": lambda: settings.config.agent.confirm_mode,
        "always allowed": lambda: _describe_permissions(book.sessions.get()),
        "workspace": lambda: str(book.environment.workspace.root),
        "sandbox": lambda: _sandbox(book),
        "looking": lambda: _looking(settings),
        "session": session,
        "record": lambda: _record(book.sessions.get()),
        "background": _background,
        "waiting": lambda: _waiting(book, book.sessions.get()),
    }
    return "\n".join([*_rows(lines), *_wrap_notes(notes)])


def _rows(lines: Mapping[str, Callable[[], str]]) -> Iterator[str]:
    """Yield a row for each fact; unknown ones are reported once, with the reason."""
    problems: set[str] = set()
    for key, value in lines.items():
        try:
            yield f"{key:<15} {value()}"
        except AgentError as error:
            problem = str(error)
            why = "not known either" if problem in problems else f"not known: {problem}"
            yield f"{key:<15} {why}"
            problems.add(problem)


def _wrap_notes(notes: Iterable[str]) -> Iterator[str]:
    return (textwrap.fill(note, 88) for note in notes)


def _model(book: Notebook, settings: Settings, notes: list[str]) -> str:
    resolved = book.model.resolve(settings.config)
    notes.extend(resolved.notes)
    return f"{resolved.model} ({resolved.why})"


def _tools(book: Notebook, settings: Settings) -> str:
    """Return which tools the model is offered, and why fewer."""
    config = settings.config
    if config.agent.allowed_tools:
        return f"only {', '.join(config.agent.allowed_tools)}"
    model = book.model.resolve(config).model
    built_in = model.startswith((BUILT_IN, SCRIPTED))
    size = ModelSize() if built_in else ServiceClient(model, config.llm).size()
    if config.tools.offer == "auto" and size.is_small:
        return f"few, and short results: a small model ({size.reason})"
    return {"all": "all", "small": "few, and short results"}.get(
        config.tools.offer, "the usual ones, others where they are of use"
    )


def _describe_permissions(session: Session) -> str:
    return ", ".join(sorted(session.grants)) or "nothing"


def _record(session: Session) -> str:
    return str(session.journal.path or _IN_MEMORY)


def _sandbox(book: Notebook) -> str:
    sandbox = book.environment.toolset.sandbox
    if sandbox.unavailable_reason:
        return f"none: {sandbox.unavailable_reason}"
    return f"holds, but {sandbox.unfiltered_reason}" if sandbox.unfiltered_reason else "holds"


def _looking(settings: Settings) -> str:
    """Return whether code that changes nothing runs unasked, and why not."""
    agent = settings.config.agent
    if agent.confirm_mode == "yolo":
        return "not needed: nothing is asked about"
    if agent.confirm_mode == "confirm-all":
        return "asked about: agent.confirm_mode is confirm-all"
    if not agent.look_freely or not agent.rehearse_seconds:
        name = "rehearse_seconds is 0" if agent.look_freely else "look_freely is off"
        return f"asked about: agent.{name}"
    isolation = runtime().isolation
    if isolation.problem == UNTRIED:
        how = "if a copy of the kernel can be isolated here, tried with the first code"
    elif isolation.problem is not None:
        return f"asked about: {isolation.problem}"
    elif isolation.method == "Landlock":
        how = "on a copy of the kernel that Landlock keeps from writing files"
    else:
        how = "on a copy of the kernel, in namespaces of its own"
    return f"free {how}"


def _extent(session: Session) -> str:
    runs, messages = len(session.runs), len(session.messages)
    return f"{session.name}, {plural(runs, 'run')}, {plural(messages, 'message')}"


def _background() -> str:
    """Return the plan that runs in the background."""
    behind = runtime().run_lock.background
    return f"the plan {behind.name} runs; `%agent stop` stops it" if behind else "nothing runs"


def _waiting(book: Notebook, session: Session) -> str:
    """Return what waits for the user's decision."""
    pending = book.environment.approvals.pending()
    waiting = [each.id for each in pending if isinstance(each.subject, ToolExecution)]
    if plan := session.waiting_plan_name:
        waiting.append(f"the plan {plan}: `%agent approve` or `%agent deny`")
    return ", ".join(waiting) or "nothing"


# -- %agent policy

LABEL = 16
"""The width of the first column."""


def policy(book: Notebook, rest: str) -> str:
    """which calls are asked about; `revoke N|all` takes back what you allowed"""
    match rest.split():
        case []:
            return "\n".join(_policy_lines(book))
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


def _policy_lines(book: Notebook) -> Iterator[str]:
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
