"""Answers to a notebook's pages beside the runs that its cells draw."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import find_ongoing
from ipyagent.config import Config
from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import Message, Pages
from ipyagent.llm.destinations import resolve
from ipyagent.magic.notebook_sessions import NotebookSessions
from ipyagent.magic.notebook_settings import NotebookSettings
from ipyagent.schema import Run
from ipyagent.schema.runs import UndoReport
from ipyagent.store.journal import read_summary
from ipyagent.ui import static_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.overview import OverviewBuilder, OverviewContext
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.wiring import journal_path

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
