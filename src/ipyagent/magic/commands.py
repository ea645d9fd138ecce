"""The subcommands of `%agent`."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Sequence

from ipyagent import config
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.frontend import detect
from ipyagent.magic import session_commands
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import USAGE, options_help
from ipyagent.schema import DecidedBy, Decision, Run, TokenUsage
from ipyagent.ui.format import plural
from ipyagent.ui.views import show_run

Command = Callable[[Notebook, str], str]


def run(line: str) -> None:
    """`%agent SUBCOMMAND …`; alone it prints help and status."""
    name, _, rest = line.strip().partition(" ")
    try:
        book = notebook()
        said = _command(name)(book, rest.strip())
        for text in filter(None, (said, *book.news())):
            print(text)  # noqa: T201
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
    session = book.session()
    lines = {
        "model": f"{resolved.model} ({resolved.why})",
        "confirm": settings.agent.confirm_mode,
        "always allowed": ", ".join(sorted(session.always_allowed)) or "nothing",
        "workspace": str(book.place.workspace.root),
        "session": f"{session.name}, {plural(len(session.runs), 'run')}, "
        f"{plural(len(session.messages), 'message')}",
        "record": session.journal.path or "none: this session is kept in memory alone",
        "waiting": ", ".join(a.id for a in book.place.approvals.pending()) or "nothing",
    }
    notes = "".join("\n" + textwrap.fill(note, 88) for note in resolved.notes)
    return "\n".join(f"{key:<15} {value}" for key, value in lines.items()) + notes


def _model(book: Notebook, rest: str) -> str:
    """show the model, or use this one from now on"""
    if rest:
        book.set(f"llm.model={rest}")
    resolved = book.resolve(book.config())
    return f"{resolved.model} ({resolved.why})"


def _config(book: Notebook, rest: str) -> str:
    """show the settings and where they come from, or set KEY=VALUE for this kernel"""
    if "=" in rest:
        book.set(rest)
    settings, wanted = book.settings(), rest.partition("=")[0].strip()
    rows = [row for row in config.shown(settings) if row[0].startswith(wanted)]
    if not rows:
        return _no_setting(rest)
    lines = [f"{key:<27} {value:<22} {origin}" for key, value, origin in rows]
    return "\n".join([*lines, *settings.notices])


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
        f"{run.id}  {run.outcome:<8} {plural(len(run.steps), 'step'):<8} "
        f"{run.duration or 0:6.1f} s  {_first_line(run.prompt)}"
        for run in book.session().runs
    ]
    return "\n".join(rows) or "no runs yet"


def _show(book: Notebook, rest: str) -> str:
    """show a run again: RUN is an id of `%agent runs`, or its beginning; alone, the newest"""
    runs = [run for run in book.session().runs if run.id.startswith(rest)]
    if not runs:
        raise ConfigError(f"no run has the id {rest!r}; `%agent runs` lists them")
    show_run(detect(book.shell), runs[-1])
    return ""


def _cost(book: Notebook, _rest: str) -> str:
    """tokens and US dollars of this session's runs"""
    rows = [_cost_line(_first_line(run.prompt), [run]) for run in book.session().runs]
    return "\n".join([*rows, _cost_line("together", book.session().runs)])


def _cost_line(title: str, runs: Sequence[Run]) -> str:
    usage = sum((run.usage for run in runs), TokenUsage())
    prices = [run.cost_usd for run in runs if run.cost_usd is not None]
    price = f"${sum(prices):.4f}" if prices else "no price known"
    cached = f", {usage.cache_read_tokens:,} of them cached" if usage.cache_read_tokens else ""
    return (
        f"{title:<40.40} {usage.prompt_tokens:>9,} in{cached}  "
        f"{usage.completion_tokens:>7,} out  {price}"
    )


def _trust(book: Notebook, _rest: str) -> str:
    """let this folder's own settings loosen what is asked, as they are now"""
    return config.trust(book.home)


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
    if not approval_id:
        raise ConfigError("there is no pending plan, and no call waits for an approval")
    if not approvals.decide(approval_id, answer):
        raise ConfigError(_decided(approvals.find(approval_id), approval_id))
    return f"{approval_id}: {answer.decision}"


def _decided(approval: Approval | None, approval_id: str) -> str:
    """Why a decision comes too late."""
    if approval is None or approval.decided_at is None:
        return f"no call waits for an approval as {approval_id}"
    decision = approval.answer.result().decision
    return f"{approval_id} was already {decision} at {approval.decided_at.astimezone():%H:%M}"


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
    "show": _show,
    "cost": _cost,
    "approve": _approve,
    "deny": _deny,
    "session": session_commands.run,
    "trust": _trust,
}
