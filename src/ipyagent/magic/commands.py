"""The subcommands of `%agent`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial

from ipyagent import config
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.shell import detect
from ipyagent.kernel.threads import EngineThread
from ipyagent.llm.destinations import BUILT_IN
from ipyagent.magic import status, subcommands
from ipyagent.magic.entry import state_of
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import HELP_AT, USAGE, find_near, options_help
from ipyagent.phrases import ellipsize, first_line, limit_lines, plural
from ipyagent.plaintext import visible
from ipyagent.schema import DecidedBy, Decision, Run, Skill, TokenUsage, ToolExecution
from ipyagent.services.skills import Skills, personal_folder
from ipyagent.tools.namespace_tools import find_authors
from ipyagent.tools.path_rules import SKILLS
from ipyagent.ui.views import show_run, view_for
from ipyagent.wiring import RunFactory, RunFunction, RunRequest

Command = Callable[[Notebook, str], str]

BACKGROUND, DRY_RUN = "--background", "--dry-run"

MOST_CHANGES = 50
"""Changes of a variable that are listed."""


def run(line: str) -> None:
    """Run `%agent SUBCOMMAND …`; without one, print help and status."""
    name, _, rest = line.strip().partition(" ")
    try:
        book = notebook()
        if name not in COMMANDS:
            near = find_near(name, COMMANDS)
            raise ConfigError(f"%agent has no subcommand {name!r}; did you mean {near}?")
        check_words(name, rest)
        reply = COMMANDS[name](book, rest.strip())
        for text in filter(None, (reply, *book.sessions.take_news())):
            print(text)  # noqa: T201
        book.tell_pages()
    except AgentError as error:
        print(f"ipyagent: {error}")  # noqa: T201


def is_prompt(line: str) -> bool:
    """Return whether a line asks the agent: its first word is not a subcommand.

    Neither is a line of one word that is perhaps a misspelt subcommand.
    """
    name, _, rest = line.strip().partition(" ")
    return name not in COMMANDS and bool(rest or not find_near(name, COMMANDS))


def check_words(name: str, rest: str) -> None:
    """Raise ConfigError for arguments that a subcommand does not take."""
    usage = TAKES.get(name)
    if name == "config" and "=" in rest:
        return
    if usage is not None and len(rest.split()) > len(usage.split()):
        usage = f"usage: %agent {name} {usage}".strip()
        prompt = f"if it is a prompt: `%%agent {name} …`"
        raise ConfigError(f"{usage}; it does not take {rest.strip()!r}; {prompt}")


def _overview(book: Notebook, _rest: str) -> str:
    """Most of what is needed, and status, on one screen."""
    lines = [
        *(line for line in options_help().splitlines() if line.split()[0].strip(",") in _NEEDED),
        *(_command_help(name) for name in _NEEDED if name in COMMANDS),
    ]
    return "\n".join([USAGE, "", *lines, "", _status(book, "")])


def _help(_book: Notebook, _rest: str) -> str:
    """all options and commands"""
    commands = [_command_help(name) for name in COMMANDS if name]
    return "\n".join([USAGE, "", options_help(), "", *commands])


def _command_help(name: str) -> str:
    return f"{f'  %agent {name}':<{HELP_AT}}{COMMANDS[name].__doc__}"


def _status(book: Notebook, _rest: str) -> str:
    """which model answers and why, what is asked, how far the session is"""
    return status.describe(book)


def _model(book: Notebook, rest: str) -> str:
    """show the model, or use this one from now on"""
    if rest:
        book.settings.set(f"llm.model={rest}")
    resolved = book.model.resolve(book.settings.config)
    return f"{resolved.model} ({resolved.why})"


def _config(book: Notebook, rest: str) -> str:
    """show the settings and where they come from, or set KEY=VALUE for this kernel"""
    if "=" in rest:
        book.settings.set(rest)
    settings = book.settings.resolve()
    wanted = rest.partition("=")[0].strip()
    rows = [row for row in config.setting_rows(settings) if row[0].startswith(wanted)]
    if not rows:
        return _no_setting(rest)
    lines = [f"{key:<27} {value:<22} {origin}" for key, value, origin in rows]
    return "\n".join([*lines, *settings.notices])


def _no_setting(key: str) -> str:
    config.from_assignment(f"{key}=")  # raises, naming the nearest setting
    return ""


def _tools(book: Notebook, _rest: str) -> str:
    """list the tools that the model is offered; * marks those that are asked about"""
    settings = book.settings.config
    services = book.services.load_tools(book.services.find_servers(settings))
    tools, notices = EngineThread.current().wait_for(services)
    box = book.environment.toolset.build(settings).merge_services(tools)
    offered = box.select(settings.agent.allowed_tools).offered_tools()
    disabled = set() if settings.workspace.allow_delete else {"delete_file"}
    rows = (
        f"{'*' if each.sensitive else ' '} {each.name:<20} {_first_line(each.description)}"
        f"{' (disabled: workspace.allow_delete)' * (each.name in disabled)}"
        for each in offered
    )
    return "\n".join([*rows, *notices, *box.notices])


def _runs(book: Notebook, _rest: str) -> str:
    """list the runs of this notebook, and what of them can be taken back"""
    from ipyagent.wiring.undo import describe_undo

    rows = []
    current = book.sessions.get()
    names = {each.id: f"  (session {each.name})" for each in book.sessions.list_used()}
    for run in reversed([*book.sessions.runs()]):
        undo = describe_undo(book.environment, run)
        kept = f"  [{undo}]" if undo else ""
        kept += "" if run.session_id == current.id else names.get(run.session_id, "")
        rows.append(
            f"{run.id}  {run.outcome:<8} {plural(len(run.steps), 'step'):<8} "
            f"{run.duration or 0:6.1f} s  {_first_line(run.prompt)}{kept}"
        )
    return "\n".join(rows) or "no runs yet"


def _show(book: Notebook, rest: str) -> str:
    """show a run again: RUN is an id of `%agent runs`, or its beginning; alone, the newest"""
    show_run(detect(book.shell), book.sessions.find_run(rest))
    return ""


def _cost(book: Notebook, _rest: str) -> str:
    """tokens and US dollars of the newest run's session"""
    session = book.sessions.newest or book.sessions.get()
    if not session.runs:
        return f"no runs in {session.name} yet"
    rows = [_cost_line(_first_line(run.prompt), [run]) for run in session.runs]
    return "\n".join([*rows, _cost_line(f"together in {session.name}", session.runs)])


def _cost_line(title: str, runs: Sequence[Run]) -> str:
    usage = TokenUsage.sum(run.usage for run in runs)
    prices = [run.cost_usd for run in runs if run.cost_usd is not None]
    unknown = "free" if all(run.model.startswith(BUILT_IN) for run in runs) else "no price known"
    price = f"${sum(prices):.4f}" if prices else unknown
    cached = f", {usage.cache_read_tokens:,} of them cached" if usage.cache_read_tokens else ""
    return (
        f"{title:<40.40} {usage.prompt_tokens:>9,} in{cached}  "
        f"{usage.completion_tokens:>7,} out  {price}"
    )


def _undo(book: Notebook, rest: str) -> str:
    """take back what RUN or CALL changed; alone, the newest run; --dry-run only says what"""
    words = rest.split()
    names = [word for word in words if word != DRY_RUN]
    if len(names) > 1 or any(name.startswith("-") for name in names):
        raise ConfigError(f"usage: %agent undo [RUN|CALL] [{DRY_RUN}]")
    return str(book.undo("".join(names), dry_run=DRY_RUN in words))


def _blame(book: Notebook, rest: str) -> str:
    """list the runs, calls and cells that made or changed NAME or NAME.COLUMN, newest first"""
    name, _, column = rest.partition(".")
    if not name.isidentifier():
        raise ConfigError("usage: %agent blame NAME[.COLUMN]")
    found = find_authors(book.sessions.runs(), state_of(book.shell).notes.notes, name, column)
    if not found:
        known = name in book.shell.user_ns
        why = "before ipyagent was loaded, or not at all" if known else "there is no such variable"
        return f"nothing is known of {rest}: {why}"
    lines = [f"{each.at.astimezone():%H:%M:%S}  {each}" for each in found]
    return "\n".join(limit_lines(lines, MOST_CHANGES))


def _skills(book: Notebook, rest: str) -> str:
    """the skills that the agent may read, yours and this folder's"""
    if rest:
        raise ConfigError("usage: %agent skills")
    skills = Skills(book.environment.workspace, personal_folder())
    lines = [_skill_line(each, own=skills.is_own(each)) for each in skills.all()]
    if not lines:
        lines = [
            f"There are no skills. A skill is a folder with a SKILL.md, in {personal_folder()} "
            f"(for all your work) or in {SKILLS} (for this folder)."
        ]
    return visible("\n".join([*lines, *skills.notices()]))


def _skill_line(skill: Skill, *, own: bool) -> str:
    allowed = "" if skill.allowed_tools is None else f"  [{', '.join(skill.allowed_tools)}]"
    about = textwrap.shorten(skill.description, 100, placeholder=" …")
    return f"{skill.name:<20} {'yours' if own else 'this folder':<12} {about}{allowed}"


def _trust(book: Notebook, _rest: str) -> str:
    """let this folder's own settings loosen what is asked, as they are now"""
    return config.trust(book.home)


def _approve(book: Notebook, rest: str) -> str:
    """approve the plan or call that waits, or the one with this ID; a plan may --background"""
    words = [word for word in rest.split() if word != BACKGROUND]
    background = len(words) < len(rest.split())
    if background:
        subcommands.check_background(detect(book.shell))
    answer = Answer(Decision.APPROVED, DecidedBy.MAGIC)
    return _decide(book, " ".join(words), answer, background=background)


def _say(book: Notebook, rest: str) -> str:
    """tell the run that is on something; the model reads it with its next request"""
    if not rest:
        raise ConfigError("usage: %agent say TEXT")
    book.environment.approvals.steering.say(rest)
    return "the model reads it with its next request"


def _deny(book: Notebook, rest: str) -> str:
    """deny the plan or call that waits, or the one with this ID; a reason may follow"""
    approval_id, _, reason = rest.partition(" ")
    return _decide(book, approval_id, Answer(Decision.DENIED, DecidedBy.MAGIC, reason or None))


def _decide(book: Notebook, reference: str, answer: Answer, *, background: bool = False) -> str:
    approvals = book.environment.approvals
    pending = {approval.id: approval for approval in approvals.pending()}
    if not reference and len(pending) > 1:
        raise ConfigError(f"several calls wait: {', '.join(pending)}; name one")
    reference = reference or next(iter(pending), "")
    named = approvals.get(reference)
    if named is None:
        return _decide_on_plan(book, reference, answer, background=background)
    if background and isinstance(named.subject, ToolExecution):
        raise ConfigError(f"{reference} is a call; only plans run in the background")
    if answer.decision is Decision.APPROVED and _is_question(named):
        raise ConfigError(f"{reference} is a question: answer it in its cell, or `%agent deny` it")
    if not approvals.decide(reference, answer):
        raise ConfigError(_late_decision(named))
    return f"{reference}: {answer.decision}"


def _decide_on_plan(
    book: Notebook, reference: str, answer: Answer, *, background: bool = False
) -> str:
    session, settings = book.sessions.get(), book.settings.config
    if not reference and session.waiting_plan_id is None:
        raise ConfigError("there is no pending plan, and no call waits for an approval")

    def prepare(cell: Cell) -> RunFunction:
        environment = book.environment
        client = environment.client_for(book.model.resolve(settings), settings.llm)
        view = partial(view_for, cell, environment.approvals, detect(book.shell), book.desk)
        runs = RunFactory(environment, session, client, cell, view)
        request = RunRequest("", settings, background=background)
        return runs.build_decision(request, answer, reference)

    approvals = book.environment.approvals
    return subcommands.decide_on_plan(approvals, reference, answer, session, prepare)


def _is_question(approval: Approval) -> bool:
    return isinstance(approval.subject, ToolExecution) and approval.subject.question is not None


def _late_decision(approval: Approval) -> str:
    """Return why a decision comes too late."""
    at = approval.decided_at
    when = f" at {at.astimezone():%H:%M}" if at else ""
    return f"{approval.id} was already {approval.decision}{when}"


def _first_line(text: str) -> str:
    return ellipsize(first_line(text), 70)


COMMANDS: dict[str, Command] = {
    "": _overview,
    "help": _help,
    "status": _status,
    "model": _model,
    "config": _config,
    "tools": _tools,
    "runs": _runs,
    "show": _show,
    "cost": _cost,
    "undo": _undo,
    "blame": _blame,
    "approve": _approve,
    "deny": _deny,
    "say": _say,
    "stop": subcommands.stop_plan,
    "session": subcommands.session,
    "mcp": subcommands.mcp,
    "api": subcommands.api,
    "skills": _skills,
    "policy": status.policy,
    "trust": _trust,
}

_NEEDED = ("-a", "-s", "-m", "--plan", "--dry-run", "model", "undo", "approve", "help")
"""The options and subcommands of the overview."""

TAKES = {
    "": "",
    "help": "",
    "status": "",
    "model": "[ID]",
    "config": "[KEY[=VALUE]]",
    "tools": "",
    "runs": "",
    "show": "[RUN]",
    "cost": "",
    "undo": f"[RUN|CALL] [{DRY_RUN}]",
    "blame": "NAME[.COLUMN]",
    "approve": f"[ID] [{BACKGROUND}]",
    "stop": "",
    "skills": "",
    "trust": "",
}
"""The arguments of subcommands; the others check theirs themselves."""
