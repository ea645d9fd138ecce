"""The execution of an `%%agent` cell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from ipyagent.agent.answers import AnswerType
from ipyagent.agent.plan_approval import WAITING_NOTICE
from ipyagent.errors import AgentError, ConfigError, RunFailedError
from ipyagent.kernel.drivers import Cell, comm_status, drive_async, drive_sync
from ipyagent.kernel.shell import detect, running_shell
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import USAGE, Options, parse
from ipyagent.magic.subcommands import check_background, in_words
from ipyagent.schema import Outcome, Run, RunStatus
from ipyagent.ui.views import SilentView, show_run, view_for
from ipyagent.wiring import (
    Hold,
    RunFactory,
    RunFunction,
    RunRequest,
    failed_run,
    runtime,
)


async def run(cell: Cell, line: str, text: str) -> None:
    """Run the agent, awaiting it: the kernel's loop stays free for clicks."""
    try:
        with runtime().run_lock.hold() as hold, comm_status(notebook().shell):
            job = _prepare(cell, hold, line, text)
            run = await drive_async(cell, job.engine)
            hold.keep_for_background(cell, run)
            job.finish(run)
    except AgentError as error:
        _refuse(line, text, error)


def run_blocking(cell: Cell, line: str, text: str) -> None:
    """Run the agent in a cell that cannot await."""
    try:
        with runtime().run_lock.hold() as hold:
            job = _prepare(cell, hold, line, text)
            run = drive_sync(cell, job.engine)
            hold.keep_for_background(cell, run)
            job.finish(run)
    except AgentError as error:
        _refuse(line, text, error)


@dataclass(frozen=True)
class _Job:
    """A cell's run, ready to be driven."""

    book: Notebook
    options: Options
    engine: RunFunction

    def finish(self, run: Run) -> None:
        """Apply the options that concern a finished run."""
        self.book.tell_pages()
        if self.options.out:
            self.book.shell.user_ns[self.options.out] = run
        if self.options.json:
            print(json.dumps(run.to_output_dict(), ensure_ascii=False, indent=2))  # noqa: T201
        if self.options.raises and run.status is RunStatus.DRAFT:
            raise RunFailedError(WAITING_NOTICE.format(plan_id=run.plan_id))
        if self.options.raises and run.outcome is not Outcome.SUCCESS:
            raise RunFailedError(run.error or f"the run ended as {run.outcome}: {run.stop_reason}")


def _prepare(cell: Cell, hold: Hold, line: str, text: str) -> _Job:
    """Make the run of a cell; an interrupt ends this by KeyboardInterrupt."""
    with cell.interrupt.raising():
        return _prepare_job(cell, hold, line, text)


def _prepare_job(cell: Cell, hold: Hold, line: str, text: str) -> _Job:
    book = notebook()
    options = parse(line, book.home)
    if options.prompt and " " not in options.prompt:
        options = options.name_profile(book.settings.resolve(*options.layers).config.agents)
    if not (text := f"{options.prompt}\n{text}".strip()):
        raise ConfigError(f"The prompt is empty.\n\n{USAGE}")
    settings = book.settings.resolve(*options.layers, agent=options.agent)
    session = book.sessions.newest = book.sessions.get(options.session)
    hold.add_session(session.id)
    decision = in_words(session, text)
    resolved = book.model.choose(settings.config)
    frontend = detect(book.shell)
    plan = options.plan or settings.config.agent.plan
    if options.background:
        if decision is None and not plan:
            raise ConfigError("%%agent: --background is for plans: add --plan")
        check_background(frontend)
    request = RunRequest(
        text,
        settings.config,
        agent=options.agent,
        cell_id=frontend.cell_id,
        trace_id=options.trace_id,
        dry_run=options.dry_run,
        plan=plan,
        answer=AnswerType.find(options.result, book.shell.user_ns) if options.result else None,
        background=options.background,
        notices=(*settings.notices, *book.settings.warnings()),
        one_time_notices=(*book.sessions.take_news(), *book.model.introduce(resolved)),
    )
    show = SilentView if options.json else partial(view_for, desk=book.desk)
    view = partial(show, cell, book.environment.approvals, frontend)
    client = book.environment.client_for(resolved, settings.config.llm)
    runs = RunFactory(book.environment, session, client, cell, view)
    engine = runs.build(request) if decision is None else runs.build_decision(request, decision)
    return _Job(book, options, engine)


def _refuse(line: str, text: str, error: AgentError) -> None:
    """Show why the cell failed; raise only if the cell asks for that."""
    if isinstance(error, RunFailedError) or "--raise" in line.split():
        raise error
    run = failed_run(text.strip() or line, error)
    runtime().last_run = run
    show_run(detect(running_shell()), run)
