"""The subcommands of `%agent`."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable

from ipyagent import config
from ipyagent.agent.approvals import Answer
from ipyagent.errors import AgentError, ConfigError
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import USAGE, options_help
from ipyagent.schema import DecidedBy, Decision

Command = Callable[[Notebook, str], str]


def run(line: str) -> None:
    """`%agent SUBCOMMAND …`; alone it prints help and status."""
    name, _, rest = line.strip().partition(" ")
    try:
        print(_command(name)(notebook(), rest.strip()))  # noqa: T201
    except AgentError as error:
        print(f"ipyagent: {error}")  # noqa: T201


def _command(name: str) -> Command:
    if name in COMMANDS:
        return COMMANDS[name]
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = (
        f"did you mean {close[0]}?" if close else f"there are: {', '.join(filter(None, COMMANDS))}"
    )
    raise ConfigError(f"%agent has no subcommand {name!r}; {hint}")


def _help(book: Notebook, _rest: str) -> str:
    """Help and status."""
    commands = "\n".join(f"  %agent {n:<18}{c.__doc__}" for n, c in COMMANDS.items() if n)
    return f"{USAGE}\n\n{options_help()}\n\n{commands}\n\n{_status(book, '')}"


def _status(book: Notebook, _rest: str) -> str:
    """which model answers and why, what is asked, how far the session is"""
    settings = book.config()
    resolved = book.resolve(settings)
    session = book.place.session
    lines = {
        "model": f"{resolved.model} ({resolved.why})",
        "confirm": settings.agent.confirm_mode,
        "always allowed": ", ".join(sorted(session.always_allowed)) or "nothing",
        "workspace": str(book.place.workspace.root),
        "session": f"{session.id}, {len(session.runs)} runs, {len(session.messages)} messages",
        "waiting": ", ".join(a.id for a in book.place.approvals.pending()) or "nothing",
    }
    notes = "".join("\n" + textwrap.fill(note, 88) for note in resolved.notes)
    return "\n".join(f"{key:<15} {value}" for key, value in lines.items()) + notes


def _model(book: Notebook, rest: str) -> str:
    """show the model, or use this one from now on"""
    if rest:
        book.set(config.from_assignment(f"llm.model={rest}"))
    resolved = book.resolve(book.config())
    return f"{resolved.model} ({resolved.why})"


def _config(book: Notebook, rest: str) -> str:
    """show the settings, or set KEY=VALUE for this session"""
    if "=" in rest:
        book.set(config.from_assignment(rest))
    shown = config.values_of(book.config())
    rows = {key: value for key, value in shown.items() if key.startswith(rest.partition("=")[0])}
    return "\n".join(f"{key:<25} {value}" for key, value in rows.items()) or _no_setting(rest)


def _no_setting(key: str) -> str:
    config.from_assignment(f"{key}=")  # raises, naming the nearest setting
    return ""


def _tools(book: Notebook, _rest: str) -> str:
    """list the tools; * marks those that are asked about"""
    tools = book.place.toolbox(book.config())
    return "\n".join(
        f"{'*' if each.sensitive else ' '} {each.name:<20} {_first_line(each.description)}"
        for each in tools
    )


def _runs(book: Notebook, _rest: str) -> str:
    """list the runs of this session"""
    rows = [
        f"{i:>3}  {run.outcome:<8} {len(run.steps):>2} steps  {run.duration or 0:6.1f} s  "
        f"{_first_line(run.prompt)}"
        for i, run in enumerate(book.place.session.runs)
    ]
    return "\n".join(rows) or "no runs yet"


def _approve(book: Notebook, rest: str) -> str:
    """approve the call that waits, or the one with this ID"""
    return _decide(book, rest, Answer(Decision.APPROVED, DecidedBy.MAGIC))


def _deny(book: Notebook, rest: str) -> str:
    """deny the call that waits, or the one with this ID; a reason may follow"""
    approval_id, _, reason = rest.partition(" ")
    return _decide(book, approval_id, Answer(Decision.DENIED, DecidedBy.MAGIC, reason or None))


def _decide(book: Notebook, approval_id: str, answer: Answer) -> str:
    approvals = book.place.approvals
    pending = approvals.pending()
    if not approval_id and len(pending) > 1:
        raise ConfigError(f"several calls wait: {', '.join(a.id for a in pending)}; name one")
    if not approval_id and pending:
        approval_id = pending[0].id
    if not approval_id or not approvals.decide(approval_id, answer):
        raise ConfigError(
            "no call waits for an approval" + (f" as {approval_id}" * bool(approval_id))
        )
    return f"{approval_id}: {answer.decision}"


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 70 else line[:69] + "…"


COMMANDS: dict[str, Command] = {
    "": _help,
    "help": _help,
    "status": _status,
    "model": _model,
    "config": _config,
    "tools": _tools,
    "runs": _runs,
    "approve": _approve,
    "deny": _deny,
}
