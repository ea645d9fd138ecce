"""A notebook's shared parts: its settings, model, workspace, sessions and pages."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from IPython.core.getipython import get_ipython

from ipyagent.config import Config
from ipyagent.errors import BusyError
from ipyagent.kernel.frontend import detect
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.kernel.pages import Pages
from ipyagent.kernel.protocols import Shell
from ipyagent.llm.resolve import Resolved, fetch, resolve
from ipyagent.magic.entry import state_of
from ipyagent.magic.notebook_pages import NotebookPages
from ipyagent.magic.notebook_sessions import NotebookSessions
from ipyagent.magic.notebook_settings import NotebookSettings
from ipyagent.schema import Run
from ipyagent.schema.runs import UndoReport
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.questions import choose
from ipyagent.wiring import Environment, Services, runtime


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
        from ipyagent.wiring.undo import find_undo  # few runs are taken back

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
        from ipyagent.explorer.errands import suggest_for  # only for a notebook without runs

        with state_of(self.shell).cell_lock:
            return suggest_for(self.environment.describe())

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
