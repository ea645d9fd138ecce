"""`%agent status`: what is known of the notebook's agent, also while its settings are damaged."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping

from ipyagent.agent.session import Session
from ipyagent.config import Settings
from ipyagent.errors import AgentError, ConfigError
from ipyagent.magic.notebook import Notebook
from ipyagent.schema import ToolExecution
from ipyagent.ui.format import plural
from ipyagent.wiring import running_behind

_IN_MEMORY = "none: this session is kept in memory alone"
_DAMAGED = "No agent runs until this is mended; the next cell looks again:"
_THE_REST = "The rest comes to this:"
_UNTIL = "not known until then"


def describe(book: Notebook) -> str:
    """Return a line for each thing that is known, and what is to be known of the model."""
    try:
        settings = book.settings()
    except ConfigError:
        return _describe_damaged(book)
    notes: list[str] = []

    def session() -> str:
        found = book.session()
        notes.extend(found.notices)
        return _extent(found)

    lines = {
        "model": lambda: _model(book, settings, notes),
        "confirm": lambda: settings.config.agent.confirm_mode,
        "always allowed": lambda: _allowed(book.session()),
        "workspace": lambda: str(book.place.workspace.root),
        "sandbox": lambda: _sandbox(book),
        "session": session,
        "record": lambda: _record(book.session()),
        "background": _background,
        "waiting": lambda: _waiting(book, book.session()),
    }
    return "\n".join([*_rows(lines), *_filled(notes)])


def _describe_damaged(book: Notebook) -> str:
    """Return the same by what can be read; no session is opened for it, nor a workspace."""
    settings, heading = damaged(book)
    notes: list[str] = []

    def of(describe_one: Callable[[Session], str]) -> Callable[[], str]:
        return lambda: _UNTIL if book.begun is None else describe_one(book.begun)

    lines = {
        "model": lambda: _model(book, settings, notes),
        "confirm": lambda: settings.config.agent.confirm_mode,
        "always allowed": of(_allowed),
        "workspace": lambda: str(book.root(settings.config)),
        "sandbox": of(lambda _: _sandbox(book)),
        "session": of(_extent),
        "record": of(_record),
        "background": _background,
        "waiting": of(lambda session: _waiting(book, session)),
    }
    return "\n".join([*heading, *_rows(lines), *_filled(notes)])


def damaged(book: Notebook) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that can be read, and a heading that says what is wrong."""
    found, problems = book.readable_settings()
    wrong = (textwrap.indent(problem, "  ") for problem in problems)
    return found, (_DAMAGED, *wrong, "", _THE_REST)


def _rows(lines: Mapping[str, Callable[[], str]]) -> Iterator[str]:
    """Yield a row for each thing; what cannot be known is told once, with the reason."""
    problems: set[str] = set()
    for key, value in lines.items():
        try:
            yield f"{key:<15} {value()}"
        except AgentError as error:
            problem = str(error)
            why = "not known either" if problem in problems else f"not known: {problem}"
            yield f"{key:<15} {why}"
            problems.add(problem)


def _filled(notes: Iterable[str]) -> Iterator[str]:
    return (textwrap.fill(note, 88) for note in notes)


def _model(book: Notebook, settings: Settings, notes: list[str]) -> str:
    resolved = book.resolve(settings.config)
    notes.extend(resolved.notes)
    return f"{resolved.model} ({resolved.why})"


def _allowed(session: Session) -> str:
    return ", ".join(sorted(session.granted)) or "nothing"


def _record(session: Session) -> str:
    return str(session.journal.path or _IN_MEMORY)


def _sandbox(book: Notebook) -> str:
    sandbox = book.place.sandbox
    if sandbox.why:
        return f"none: {sandbox.why}"
    return f"holds, but {sandbox.unfiltered}" if sandbox.unfiltered else "holds"


def _extent(session: Session) -> str:
    runs, messages = len(session.runs), len(session.messages)
    return f"{session.name}, {plural(runs, 'run')}, {plural(messages, 'message')}"


def _background() -> str:
    """Return the plan that runs although its cell has ended."""
    behind = running_behind()
    return f"the plan {behind.name} runs; `%agent stop` stops it" if behind else "nothing runs"


def _waiting(book: Notebook, session: Session) -> str:
    """Return what the user is to decide on."""
    pending = book.place.approvals.pending()
    waiting = [each.id for each in pending if isinstance(each.shown, ToolExecution)]
    if plan := session.waiting_plan:
        waiting.append(f"the plan {plan}: `%agent approve` or `%agent deny`")
    return ", ".join(waiting) or "nothing"
