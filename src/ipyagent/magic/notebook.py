"""A notebook's shared parts, and the answers to its pages beside the runs that its cells draw."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from IPython.core.getipython import get_ipython

from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import find_ongoing
from ipyagent.config import Config
from ipyagent.errors import AgentError, BusyError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.kernel.pages import Message, Pages
from ipyagent.kernel.shell import Shell, detect
from ipyagent.llm.destinations import Resolved, fetch, resolve
from ipyagent.magic.entry import state_of
from ipyagent.magic.notebook_sessions import NotebookSessions, NotebookSettings
from ipyagent.schema import Run
from ipyagent.schema.runs import UndoReport
from ipyagent.store.journal import read_summary
from ipyagent.ui import static_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.page_bridge import OverviewBuilder, OverviewContext, PageBridge
from ipyagent.ui.questions import choose
from ipyagent.wiring import Environment, Services, journal_path, runtime
from ipyagent.wiring.undo import find_undo

log = logging.getLogger("ipyagent")


class NotebookPages:
    """Describes a notebook to its pages, and finds its saved runs.

    `root` returns the workspace's folder by the settings; `undo` takes a run back, or says what
    that would do; `suggest` returns requests to begin with.
    """

    def __init__(
        self,
        pages: Pages,
        settings: NotebookSettings,
        sessions: NotebookSessions,
        root: Callable[[Config], Path],
        undo: Callable[[str, bool], UndoReport],
        suggest: Callable[[], list[str]],
    ) -> None:
        answers = {
            "undo": self._take_back,
            "models": self._choose_model,
            "requests": self._suggest_requests,
        }
        self.desk = PageBridge(pages, self._describe, self._bundle, answers)
        self._undo, self._suggest = undo, suggest
        self._settings, self._sessions, self._root = settings, sessions, root
        self._overview = OverviewBuilder()
        self._around: tuple[Session | None, OverviewContext] | None = None

    def _describe(self, feeds: list[Feed]) -> JsonDict:
        session = self._sessions.current
        around = self._look_around(session, is_running=bool(feeds))
        return self._overview(session, feeds, self.desk.drawn, around)

    def _look_around(self, session: Session | None, *, is_running: bool) -> OverviewContext:
        """Return the facts beside the runs; looked up between runs, because it costs time."""
        if self._around is None or session is not self._around[0] or not is_running:
            self._around = session, self._look(session)
        return self._around[1]

    def _look(self, session: Session | None) -> OverviewContext:
        try:
            config = self._settings.config
            model = resolve(config.llm, os.environ).model
        except AgentError:
            return OverviewContext()
        if session is None:
            return self._look_before_first_prompt(config, model)
        try:
            journal = session.journal
            return OverviewContext(model, journal.sessions(), journal.waiting_plan(session.id))
        except AgentError:
            return OverviewContext(model)

    def _look_before_first_prompt(self, config: Config, model: str) -> OverviewContext:
        """Return the same before the first prompt, without opening or creating anything."""
        if not config.chat.persist:
            return OverviewContext(model)
        summary = read_summary(journal_path(self._root(config)))
        mine = find_ongoing(summary.sessions, self._sessions.name)
        return OverviewContext(
            model, summary.sessions, summary.plans.get(mine.id) if mine else None
        )

    def _bundle(self, run_id: str | None, cell_id: str | None) -> JsonDict | None:
        """Return the newest run with that id or of that cell, as it is saved in an output."""
        if self._sessions.current is None:
            self._open_earlier()
        for run in self._sessions.runs_so_far():
            if run.id == run_id or (cell_id and run.cell_id == cell_id):
                return static_html.saved_bundle(run)
        return None

    def show_again(self, run: Run) -> None:
        """Draw a run again, of which something was taken back."""
        self._overview.forget(run.id)
        self.desk.publish_again(run)

    def _take_back(self, message: Message) -> JsonDict:
        """Take a run back, or say what that would do."""
        try:
            report = self._undo(str(message.get("run_id")), message.get("dry_run") is not False)
        except AgentError as error:
            return {"restored": [], "skipped": [str(error)]}
        return {"restored": [*report.restored], "skipped": [*report.skipped]}

    def _choose_model(self, message: Message) -> JsonDict:
        """Use a model from now on, if one is named; return those that can answer."""
        chosen = message.get("model")
        try:
            if isinstance(chosen, str):
                self._settings.set(f"llm.model={chosen}")
                self._around = None
                self.desk.publish_soon()
            current = resolve(self._settings.config.llm, os.environ).model
            return {"current": current, "models": self._settings.list_models(), "problem": ""}
        except AgentError as error:
            return {"current": "", "models": {}, "problem": str(error)}

    def _suggest_requests(self, message: Message) -> JsonDict:
        try:
            return {"requests": self._suggest()}
        except AgentError:  # the next cell reports it
            return {"requests": []}

    def _open_earlier(self) -> None:
        """Open the session of an earlier kernel, its runs ended; starts none."""
        sessions = self._sessions
        try:
            if not sessions.is_recorded or not sessions.all.has_session_for(sessions.name):
                return
            sessions.get()
        except AgentError as error:
            log.warning("runs of earlier kernels cannot be shown: %s", error)
            return
        self.desk.publish_soon()


@dataclass
class ModelChoice:
    """The model by the settings; the user is asked once if several are possible."""

    shell: Shell
    settings: NotebookSettings
    _introduced: str | None = None

    def resolve(self, config: Config) -> Resolved:
        """Return the model that answers, and why."""
        return resolve(config.llm, os.environ, probe=fetch)

    def choose(self, config: Config) -> Resolved:
        """Return the model that answers; if several could, the user chooses, for all cells."""
        resolved = self.resolve(config)
        if not resolved.others or not detect(self.shell).can_input:
            return resolved
        model = choose(
            "Several providers' API keys are set. Which model should answer?",
            (resolved.model, *resolved.others),
        )
        self.settings.set(f"llm.model={model}")
        return Resolved(model, "you chose it")

    def introduce(self, resolved: Resolved) -> tuple[str, ...]:
        """Return notices about a model, at its first run only."""
        if self._introduced == resolved.model:
            return ()
        self._introduced = resolved.model
        return resolved.notes


ENDING_SECONDS = 2
"""How long a cell may take to end once its run is drawn as finished."""


class Notebook:
    """The parts that `%%agent` cells of one kernel share; `pages` is None outside of a kernel."""

    def __init__(self, shell: Shell, home: Path, pages: Pages | None = None) -> None:
        self.shell = shell
        self.home = home
        """The kernel's folder at `%load_ext`: the notebook's. A later chdir is ignored."""
        self.settings = NotebookSettings(home)
        self.model = ModelChoice(shell, self.settings)
        self.sessions = NotebookSessions(self.settings, lambda: self.environment.workspace)
        self.pages: NotebookPages | None = None
        if pages is not None:
            self.pages = NotebookPages(
                pages,
                self.settings,
                self.sessions,
                self.root,
                self._undo_for_page,
                self._suggest_for_page,
            )

    @cached_property
    def environment(self) -> Environment:
        """Return workspace and namespace."""
        workspace = runtime().workspace(self.root(self.settings.config))
        environment = Environment(
            workspace,
            ShellNamespace(self.shell),
            self.home,
            approvals=runtime().approvals,
            switches=lambda: self.sessions.switches,
            notes=lambda: state_of(self.shell).notes.notes,
        )
        environment.undo.show = self._show_again
        return environment

    @property
    def services(self) -> Services:
        """The services that bring tools, by the settings between cells."""
        return self.environment.services_for_run(self.settings.config)

    @property
    def desk(self) -> PageBridge | None:
        """The connection to its pages."""
        return self.pages.desk if self.pages is not None else None

    def undo(self, reference: str, *, dry_run: bool = False, redo: bool = False) -> UndoReport:
        """Take back a run, a call or an undo; raises AgentError if that is impossible now.

        `redo`: put a run there again that was taken back.
        """
        with runtime().run_lock.hold_all():  # not beneath a plan in the background
            runs = self.sessions.runs(reference)
            self.environment.undo.sessions.update(self.sessions.list_used())
            return find_undo(self.environment, runs, reference, redo=redo).run(dry_run=dry_run)

    def _show_again(self, run: Run) -> None:
        last = runtime().last_run
        if last is not None and last.id == run.id:
            runtime().last_run = run
        if self.pages is not None:
            self.pages.show_again(run)

    def _undo_for_page(self, run_id: str, dry_run: bool) -> UndoReport:
        between_cells = state_of(self.shell).cell_lock
        if not between_cells.acquire(timeout=ENDING_SECONDS):
            raise BusyError("a cell is running; try again when it is done")
        try:
            return self.undo(run_id, dry_run=dry_run, redo=True)
        finally:
            between_cells.release()

    def _suggest_for_page(self) -> list[str]:
        """Return requests that fit the variables and files; none without any."""
        from ipyagent.explorer.steps import suggest_for  # only for a notebook without runs

        with state_of(self.shell).cell_lock:
            return suggest_for(self.environment.collect_facts())

    def root(self, config: Config) -> Path:
        """Return the workspace's folder by these settings."""
        return (self.home / config.workspace.root).resolve()

    def tell_pages(self) -> None:
        """Send the current overview to its pages."""
        if self.desk is not None:
            self.desk.publish_soon()


def notebook() -> Notebook:
    """Return the running shell's notebook; a page may ask for it during the first cell."""
    shell = get_ipython()
    if Notebook not in shell.meta:
        made = Notebook(shell, state_of(shell).home, shell.meta.get(Pages))
        shell.meta.setdefault(Notebook, made)
    book: Notebook = shell.meta[Notebook]
    return book
