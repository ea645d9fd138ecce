"""What an `%%agent` cell does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

from ipyagent.agent.planning import WAITS
from ipyagent.agent.session import remember
from ipyagent.errors import AgentError, AgentNotFoundError, ConfigError, RunFailedError
from ipyagent.kernel.comm_status import comm_status
from ipyagent.kernel.drivers import Cell, drive_async, drive_sync
from ipyagent.kernel.frontend import detect, running_shell
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import BELOW, USAGE, Options, parse
from ipyagent.magic.plan_commands import check_background, in_words
from ipyagent.schema import Outcome, Run, RunStatus
from ipyagent.ui.views import SilentView, show_run, view_for
from ipyagent.wiring import Bench, Engine, Request, only_run, refused


async def run(cell: Cell, line: str, text: str) -> None:
    """Run the agent, awaiting it: the kernel's loop stays free for clicks."""
    try:
        with only_run() as turn, comm_status(notebook().shell):
            job = _prepare(cell, line, text)
            run = await drive_async(cell, job.engine)
            turn.follow(cell, run)
            job.finish(run)
    except AgentError as error:
        _refuse(line, text, error)


def run_blocking(cell: Cell, line: str, text: str) -> None:
    """Run the agent where the cell cannot await."""
    try:
        with only_run() as turn:
            job = _prepare(cell, line, text)
            run = drive_sync(cell, job.engine)
            turn.follow(cell, run)
            job.finish(run)
    except AgentError as error:
        _refuse(line, text, error)


@dataclass(frozen=True)
class _Job:
    """A cell's run, ready to be driven."""

    book: Notebook
    options: Options
    engine: Engine

    def finish(self, run: Run) -> None:
        """What the options ask for when the run is over."""
        self.book.tell()
        if self.options.out:
            self.book.shell.user_ns[self.options.out] = run
        if self.options.json:
            print(json.dumps(run.to_output_dict(), ensure_ascii=False, indent=2))  # noqa: T201
        if self.options.raises and run.status is RunStatus.DRAFT:
            raise RunFailedError(WAITS.format(plan_id=run.plan_id))
        if self.options.raises and run.outcome is not Outcome.SUCCESS:
            raise RunFailedError(run.error or f"the run ended as {run.outcome}: {run.stop_reason}")


def _prepare(cell: Cell, line: str, text: str) -> _Job:
    """Make the run of a cell; an interrupt ends this by KeyboardInterrupt."""
    with cell.interrupt.raising():
        return _prepared(cell, line, text)


def _prepared(cell: Cell, line: str, text: str) -> _Job:
    book = notebook()
    options = parse(line, book.home)
    if not text.strip():
        raise ConfigError(f"The prompt is empty.\n\n{USAGE}")
    try:
        settings = book.settings(*options.layers, agent=options.agent)
    except AgentNotFoundError as error:
        raise AgentNotFoundError(f"{error} {BELOW}") from None
    session = book.session(options.session)
    decision = in_words(session, text)
    resolved = book.choose(settings.config)
    frontend = detect(book.shell)
    plan = options.plan or settings.config.agent.plan
    if options.background:
        if decision is None and not plan:
            raise ConfigError("%%agent: --background is for plans: add --plan")
        check_background(frontend)
    request = Request(
        text.strip(),
        settings.config,
        agent=options.agent,
        cell_id=frontend.cell_id,
        trace_id=options.trace_id,
        dry_run=options.dry_run,
        plan=plan,
        background=options.background,
        notices=(*settings.notices, *book.warnings()),
        here=book.here,
        news=(*book.news(), *book.introduce(resolved)),
    )
    show = SilentView if options.json else partial(view_for, desk=book.desk)
    view = partial(show, cell, book.place.approvals, frontend)
    client = book.client(resolved, settings.config)
    bench = Bench(book.place, session, request, client, cell, view)
    engine = bench.engine() if decision is None else bench.plan_engine(decision)
    return _Job(book, options, engine)


def _refuse(line: str, text: str, error: AgentError) -> None:
    """Show why the cell did not do what it asked for; raise only where the cell asks for that."""
    if isinstance(error, RunFailedError) or "--raise" in line.split():
        raise error
    run = refused(text.strip(), error)
    remember(run)
    show_run(detect(running_shell()), run)
