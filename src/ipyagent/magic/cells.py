"""The execution of an `%%agent` cell, and decisions on the plans and calls that wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from ipyagent import errors
from ipyagent.agent.answers import AnswerType
from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.agent.plan_runner import WAITING_NOTICE
from ipyagent.agent.session.session import Session
from ipyagent.agent.signs import find_decision
from ipyagent.kernel.drivers import Cell, comm_status, drive_async, drive_sync, stoppable
from ipyagent.kernel.shell import Frontend, Surface, detect, running_shell
from ipyagent.llm.client import Client
from ipyagent.magic.notebook import Notebook, notebook
from ipyagent.magic.options import Options, parse, split_expectations
from ipyagent.plaintext import limit_lines, plural
from ipyagent.schema import DecidedBy, Decision, Run, RunStatus, ToolExecution
from ipyagent.schema.graph import handle
from ipyagent.ui.views import SilentView, show_run, view_for
from ipyagent.wiring import Hold, RunFactory, RunFunction, RunRequest, failed_run, runtime
from ipyagent.wiring.undo import NAMED, undo_of_runs

BACKGROUND = "--background"


async def run(cell: Cell, line: str, text: str) -> None:
    """Run the agent, awaiting it: the kernel's loop stays free for clicks."""
    try:
        with runtime().run_lock.hold() as hold, comm_status(notebook().shell):
            job = _prepare(cell, hold, line, text)
            with job.quietly():
                run = await drive_async(cell, job.engine)
            hold.keep_for_background(cell, run)
            job.finish(run)
    except errors.AgentError as error:
        _refuse(line, text, error)


def run_blocking(cell: Cell, line: str, text: str) -> None:
    """Run the agent in a cell that cannot await."""
    try:
        with runtime().run_lock.hold() as hold:
            job = _prepare(cell, hold, line, text)
            with job.quietly():
                run = drive_sync(cell, job.engine)
            hold.keep_for_background(cell, run)
            job.finish(run)
    except errors.AgentError as error:
        _refuse(line, text, error)


@dataclass(frozen=True)
class _Job:
    """A cell's run, ready to be driven."""

    book: Notebook
    options: Options
    engine: RunFunction
    raises_differences: bool
    """True if the cell was to be replayed, whatever comes."""

    session: Session
    is_watched: bool

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Leave it to the card to say that the run was stopped, if somebody sees it."""
        try:
            yield
        except errors.AgentInterrupted as stop:
            run = next(reversed(self.session.runs), None)
            if self.is_watched and run and run.status is RunStatus.CANCELLED:
                raise errors.AgentStopped(*stop.args) from None
            raise

    def finish(self, run: Run) -> None:
        """Apply the options that concern a finished run."""
        self.book.tell_pages()
        if self.options.out:
            self.book.shell.user_ns[self.options.out] = run
        if self.options.json:
            print(json.dumps(run.to_output_dict(), ensure_ascii=False, indent=2))  # noqa: T201
        if self.options.raises or (run.replayed and self.raises_differences):
            if run.status is RunStatus.DRAFT:
                raise errors.RunFailedError(WAITING_NOTICE.format(plan_id=run.plan_id))
            run.raise_for_outcome()


def _prepare(cell: Cell, hold: Hold, line: str, text: str) -> _Job:
    """Make the run of a cell; an interrupt ends this by KeyboardInterrupt."""
    with cell.interrupt.raising():
        return _prepare_job(cell, hold, line, text)


def _prepare_job(cell: Cell, hold: Hold, line: str, text: str) -> _Job:
    book = notebook()
    options = parse(line, book.home)
    if len(options.prompt.split()) == 1:
        options = options.name_profile(book.settings.resolve(*options.layers).config.agents)
    text, expected = split_expectations(text)
    text = f"{options.prompt}\n{text}".strip()
    settings = book.settings.resolve(*options.layers, agent=options.agent)
    session = book.sessions.newest = book.sessions.get(options.session)
    decision = find_decision(session, text)
    frontend = detect(book.shell)
    plan = options.plan or settings.config.agent.plan
    if options.background:
        if decision is None and not plan:
            raise errors.ConfigError("%%agent: --background is for plans: add --plan")
        check_background(frontend)
    news = [*book.sessions.take_news()]
    is_fresh = book.pages is not None and book.pages.take_fresh(frontend.cell_id)
    request = RunRequest(
        text,
        settings.config,
        agent=options.agent,
        cell_id=frontend.cell_id,
        trace_id=options.trace_id,
        dry_run=options.dry_run,
        plan=plan,
        answer=AnswerType.find(options.result, book.shell.user_ns) if options.result else None,
        expected=(*options.expected, *expected),
        background=options.background,
        notices=(*settings.notices, *book.settings.warnings()),
        one_time_notices=news,
        replay="never" if is_fresh else settings.config.agent.replay,
        session_name=options.session or "",
        is_attended=frontend.can_input,
        notebook=book.sessions.name,
        about=options.cell,
    )

    def connect() -> Client:
        resolved = book.model.choose(settings.config)
        news.extend(book.model.introduce(resolved))
        return book.environment.client_for(resolved, settings.config.llm)

    show = SilentView if options.json else partial(view_for, desk=book.desk)
    view = partial(show, cell, book.environment.approvals, frontend)
    runs = RunFactory(book.environment, session, connect, cell, view)
    if options.rewind:
        runs.check(request)
        news += _rewind(book, hold, session, frontend.cell_id)
        runs = replace(runs, session=(session := book.sessions.get()))
    hold.add_session(session.id)
    start = session.conversation.heads
    engine = runs.build(request) if decision is None else runs.build_decision(request, decision)
    if frontend.cell_id:
        session.cells.starts.setdefault(frontend.cell_id, start)
    always = settings.config.agent.replay == "always"
    is_watched = frontend.can_input and not options.json
    return _Job(book, options, engine, always, session, is_watched)


NOT_RUN = "Nothing was taken back: this cell has not run in this session since the kernel started."
CHANGED = (
    "Nothing ran, and nothing was taken back, because you decide about what has changed since:\n"
    "{changed}\nChange it back, and run the cell again; or leave all of it as it is, and run the "
    "cell without --rewind after {command}"
)


def _rewind(book: Notebook, hold: Hold, session: Session, cell_id: str | None) -> Iterator[str]:
    """Go on in a branch that ends before a cell's first prompt, and take back what came since.

    Yield notices. Raises ConfigError, before anything is done, if others changed it meanwhile.
    """
    start = session.cells.starts.get(cell_id or "")
    if start is None:
        yield NOT_RUN
        return
    hold.check_alone()
    runs = book.sessions.runs_after(session, start)
    undo = undo_of_runs(book.undo_place, runs)
    if changed := undo.run(dry_run=True).changed:
        branch = f"branch {handle(start[-1])}" if start else "new"
        command = f"`%agent session {branch}`"
        raise errors.ConfigError(CHANGED.format(changed="\n".join(changed), command=command))
    book.sessions.use(book.sessions.all.add(session.continue_from(start)))
    book.environment.remarks.clear()  # about runs that the model no longer knows
    if not runs:  # an edited step began this session
        yield NOT_RUN
        return
    report = undo.run()
    again = f", `%agent undo {report.id}` to what they had changed" if report.id else ""
    yield (
        f"Rewound: {plural(len(runs), 'run')} of {session.name!r} left out; "
        f"`%agent session resume {session.id[:8]}` goes back to the conversation{again}."
    )
    for title, lines in (("Taken back", report.restored), ("Not taken back", report.skipped)):
        if lines:
            yield f"{title}: {'; '.join(limit_lines(lines, NAMED))}"


def _refuse(line: str, text: str, error: errors.AgentError) -> None:
    """Show why the cell failed; raise only if the cell asks for that."""
    if isinstance(error, errors.RunFailedError) or "--raise" in line.split():
        raise error
    run = failed_run(text.strip() or line, error)
    runtime().last_run = run
    show_run(detect(running_shell()), run)


# -- decisions on plans and calls that wait


def in_its_cell(approvals: Approvals, reference: str) -> Approval | None:
    """Return the question about a plan that a cell of this kernel is asking now, if named."""
    for approval in approvals.pending():
        plan = approval.subject
        if isinstance(plan, Run) and any(
            name.startswith(reference) for name in (approval.id, plan.id, plan.plan_id or "")
        ):
            return approval
    return None


def decide_on_plan(
    approvals: Approvals,
    reference: str,
    answer: Answer,
    session: Session,
    prepare: Callable[[Cell], RunFunction],
) -> str:
    """Decide on a plan: in the cell that asks, or else here, with the run of `prepare`."""
    asked = in_its_cell(approvals, reference)
    if asked is not None and approvals.decide(asked.id, answer):
        return f"{asked.id}: {answer.decision}"
    with runtime().run_lock.hold() as hold:
        hold.add_session(session.id)
        cell = Cell()
        with stoppable(cell):
            hold.keep_for_background(cell, drive_sync(cell, prepare(cell)))
    return ""


def stop_plan(_book: object, _rest: str) -> str:
    """stop the plan that runs in the background"""
    behind = runtime().run_lock.background
    if behind is None:
        raise errors.ConfigError(
            "no plan runs in the background; what runs in a cell is stopped there, or by "
            "interrupting the kernel"
        )
    behind.stop()
    return f"stopping the plan {behind.name}; its work so far is kept"


def check_background(frontend: Frontend) -> None:
    """Raise ConfigError if nobody would see a plan that runs in the background."""
    if frontend.surface is Surface.TERMINAL:
        raise errors.ConfigError(
            "--background needs a notebook: in a terminal its progress would be printed between "
            "your lines. Leave it out, and the plan runs here"
        )
    if not frontend.can_input:
        raise errors.ConfigError(
            "--background needs somebody at the notebook: run from its first cell to its last, as "
            "by nbconvert, the kernel would end in the middle of the plan. Leave it out, and the "
            "plan runs in its cell"
        )


def approve(book: Notebook, rest: str) -> str:
    """approve what waits, or the plan or call ID; --background: the plan runs beside other cells"""
    words = [word for word in rest.split() if word != BACKGROUND]
    background = len(words) < len(rest.split())
    if background:
        check_background(detect(book.shell))
    answer = Answer(Decision.APPROVED, DecidedBy.MAGIC)
    return _decide(book, " ".join(words), answer, background=background)


def say(book: Notebook, rest: str) -> str:
    """tell the run that is on something; the model reads it with its next request"""
    if not rest:
        raise errors.ConfigError("usage: %agent say TEXT")
    book.environment.approvals.steering.say(rest)
    return "the model reads it with its next request"


def deny(book: Notebook, rest: str) -> str:
    """deny the plan or call that waits, or the one with this ID; a reason may follow"""
    approval_id, _, reason = rest.partition(" ")
    return _decide(book, approval_id, Answer(Decision.DENIED, DecidedBy.MAGIC, reason or None))


def _decide(book: Notebook, reference: str, answer: Answer, *, background: bool = False) -> str:
    approvals = book.environment.approvals
    pending = {approval.id: approval for approval in approvals.pending()}
    if not reference and len(pending) > 1:
        raise errors.ConfigError(f"several calls wait: {', '.join(pending)}; name one")
    reference = reference or next(iter(pending), "")
    named = approvals.get(reference)
    if named is None:
        return _decide_on_plan(book, reference, answer, background=background)
    if background and isinstance(named.subject, ToolExecution):
        raise errors.ConfigError(f"{reference} is a call; only plans run in the background")
    if answer.decision is Decision.APPROVED and _is_question(named):
        raise errors.ConfigError(
            f"{reference} is a question: answer it in its cell, or `%agent deny` it"
        )
    if not approvals.decide(reference, answer):
        raise errors.ConfigError(_late_decision(named))
    return f"{reference}: {answer.decision}"


def _decide_on_plan(
    book: Notebook, reference: str, answer: Answer, *, background: bool = False
) -> str:
    session, settings = book.sessions.get(), book.settings.config
    if not reference and session.waiting_plan_id is None:
        raise errors.ConfigError("there is no pending plan, and no call waits for an approval")

    def prepare(cell: Cell) -> RunFunction:
        environment = book.environment
        view = partial(view_for, cell, environment.approvals, detect(book.shell), book.desk)
        runs = RunFactory(environment, session, environment.connect, cell, view)
        request = RunRequest("", settings, background=background)
        return runs.build_decision(request, answer, reference)

    approvals = book.environment.approvals
    return decide_on_plan(approvals, reference, answer, session, prepare)


def _is_question(approval: Approval) -> bool:
    return isinstance(approval.subject, ToolExecution) and approval.subject.question is not None


def _late_decision(approval: Approval) -> str:
    """Return why a decision comes too late."""
    at = approval.decided_at
    when = f" at {at.astimezone():%H:%M}" if at else ""
    return f"{approval.id} was already {approval.decision}{when}"
