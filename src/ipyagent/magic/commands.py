"""The subcommands of `%agent`; `status` and `policy`: the agent's state, and what it may do."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ipyagent import config
from ipyagent.agent.answers import suggest
from ipyagent.agent.policy import FolderPermissions
from ipyagent.agent.session.session import Session
from ipyagent.atomic_files import find_network_drive
from ipyagent.config import Settings
from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.shell import detect
from ipyagent.kernel.threads import EngineThread
from ipyagent.llm.client import ModelSize
from ipyagent.llm.destinations import BUILT_IN, SCRIPTED
from ipyagent.llm.service_client import ServiceClient
from ipyagent.magic import cells, state_of, subcommands
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import HELP_AT, USAGE, find_near, options_help
from ipyagent.plaintext import ellipsize, first_line, limit_lines, plural, visible
from ipyagent.schema import Run, Skill, TokenUsage, ToolExecution
from ipyagent.services.skills import Skills, personal_folder
from ipyagent.tools.namespace_tools import find_authors
from ipyagent.tools.path_rules import SKILLS
from ipyagent.tools.rehearsed import UNTRIED
from ipyagent.ui.views import show_run
from ipyagent.wiring import find_problem, runtime

_IN_MEMORY = "none: this session is kept in memory alone"
_DISABLED = "Agent cells are disabled until these settings are fixed:"


def _rows(lines: Mapping[str, Callable[[], str]]) -> Iterator[str]:
    """Yield a row for each fact there is; unknown ones are reported once, with the reason."""
    problems: set[str] = set()
    for key, value in lines.items():
        try:
            if text := value():
                yield f"{key:<15} {text}"
        except AgentError as error:
            problem = str(error)
            why = "not known either" if problem in problems else f"not known: {problem}"
            yield f"{key:<15} {why}"
            problems.add(problem)


def _describe_offer(book: Notebook, settings: Settings) -> str:
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


def _record(place: Path | str | None) -> str:
    """Return where the journal is, and whether it has to do without SQLite's WAL there."""
    drive = find_network_drive(place) if isinstance(place, Path) else None
    note = f" ({drive}, as on a network drive: with a rollback journal instead of a WAL)"
    return f"{place or _IN_MEMORY}{note if drive else ''}"


def _background() -> str:
    """Return the plan that runs in the background; "" if none does."""
    behind = runtime().run_lock.background
    return f"the plan {behind.name} runs; `%agent stop` stops it" if behind else ""


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


Command = Callable[[Notebook, str], str]

DRY_RUN = "--dry-run"

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
        "",
        *(_command_help(name) for name in _NEEDED if name in COMMANDS),
    ]
    return "\n".join([USAGE, "", *lines, "", describe_status(book)])


def _help(_book: Notebook, _rest: str) -> str:
    """all options and commands"""
    commands = [_command_help(name) for name in COMMANDS if name]
    return "\n".join([USAGE, "", options_help(), "", *commands])


def _command_help(name: str) -> str:
    return f"{f'  %agent {name}':<{HELP_AT}}{COMMANDS[name].__doc__}"


def describe_status(book: Notebook, _rest: str = "") -> str:
    """which model answers and why, what is asked, how far the session is"""
    try:
        settings = book.settings.resolve()
    except ConfigError as error:
        return f"{_DISABLED}\n{textwrap.indent(str(error), '  ')}"
    notes: list[str] = []

    def model() -> str:
        resolved = book.model.resolve(settings.config)
        notes.extend(resolved.notes)
        return f"{resolved.model} ({resolved.why})"

    def session() -> str:
        found = book.sessions.get()
        notes.extend(found.notices)
        runs, messages = plural(len(found.runs), "run"), plural(len(found.messages), "message")
        return f"{found.name}, {runs}, {messages}"

    lines = {
        "model": model,
        "tools": lambda: _describe_offer(book, settings),
        "confirm": lambda: settings.config.agent.confirm_mode,
        "always allowed": lambda: ", ".join(book.sessions.get().grants) or "nothing",
        "workspace": lambda: str(book.environment.workspace.root),
        "sandbox": lambda: _sandbox(book),
        "looking": lambda: _looking(settings),
        "session": session,
        "record": lambda: _record(book.sessions.get().journal.place),
        "background": _background,
        "waiting": lambda: _waiting(book, book.sessions.get()),
    }
    return "\n".join([*_rows(lines), *(textwrap.fill(note, 88) for note in notes)])


def _model(book: Notebook, rest: str) -> str:
    """show the model and others that can be chosen, or use this one from now on"""
    if rest:
        book.settings.set(f"llm.model={rest}")
    resolved = book.model.resolve(book.settings.config)
    current = f"{resolved.model} ({resolved.why})"
    if rest:
        problem = find_problem(resolved.model, book.settings.config.llm, book.home)
        return "\n".join(filter(None, (current, problem)))
    others = book.settings.list_models()
    others.pop(resolved.model, None)
    return "\n".join([current, *(f"  %agent model {name}  ({others[name]})" for name in others)])


def _config(book: Notebook, rest: str) -> str:
    """show the settings and where they come from, or set KEY=VALUE for this kernel"""
    if "=" in rest:
        book.settings.set(rest)
    settings = book.settings.resolve()
    wanted = rest.partition("=")[0].strip()
    rows = [row for row in config.setting_rows(settings) if row[0].startswith(wanted)]
    if not rows:
        config.from_assignment(f"{rest}=")  # raises, naming the nearest setting
    lines = [f"{key:<27} {value:<22} {origin}" for key, value, origin in rows]
    return "\n".join([*lines, *settings.notices])


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
        tasks = ((each, each.result.child) for each in run.executions if each.result)
        rows += (
            f"  ↳ {child.runs[0]}  {each.status:<8} {each.duration or 0:6.1f} s  "
            f"{_first_line(str(each.call.arguments.get('task')))}"
            for each, child in tasks
            if child
        )
    return "\n".join(rows) or "no runs yet"


def _show(book: Notebook, rest: str) -> str:
    """show a run again: RUN is an id of `%agent runs`, or its beginning; alone, the newest"""
    show_run(detect(book.shell), book.sessions.find_run(rest))
    return ""


def _expect(book: Notebook, rest: str) -> str:
    """lines that expect of RUN's cell what holds of RUN now; alone, of the newest"""
    run = book.sessions.find_run(rest)
    lines = [f"--expect {each}" for each in suggest(run, book.environment.namespace)]
    return "\n".join(lines) or f"{run.id} has no numbers, calls, variables or files to expect"


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
        f"{ellipsize(title, 40):<40} {usage.prompt_tokens:>9,} in{cached}  "
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


def _first_line(text: str) -> str:
    return ellipsize(first_line(text), 70)


COMMANDS: dict[str, Command] = {
    "": _overview,
    "help": _help,
    "status": describe_status,
    "model": _model,
    "config": _config,
    "tools": _tools,
    "runs": _runs,
    "show": _show,
    "expect": _expect,
    "cost": _cost,
    "undo": _undo,
    "blame": _blame,
    "freeze": subcommands.freeze,
    "approve": cells.approve,
    "deny": cells.deny,
    "say": cells.say,
    "stop": cells.stop_plan,
    "session": subcommands.session,
    "mcp": subcommands.mcp,
    "api": subcommands.api,
    "skills": _skills,
    "policy": policy,
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
    "expect": "[RUN]",
    "cost": "",
    "undo": f"[RUN|CALL] [{DRY_RUN}]",
    "blame": "NAME[.COLUMN]",
    "approve": f"[ID] [{cells.BACKGROUND}]",
    "stop": "",
    "skills": "",
    "trust": "",
}
"""The arguments of subcommands; the others check theirs themselves."""
