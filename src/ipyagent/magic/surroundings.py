"""What the pages are told beside the runs: the model that would answer, and the sessions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ipyagent.agent.session import Session
from ipyagent.agent.sessions import going_on
from ipyagent.config import Config
from ipyagent.errors import AgentError
from ipyagent.llm.resolve import resolve
from ipyagent.store.glimpse import glimpse
from ipyagent.ui.overview import Around
from ipyagent.wiring import journal_path

if TYPE_CHECKING:
    from ipyagent.magic.notebook import Notebook


class Surroundings:
    """Looked up between runs: while one goes on they stay as they are, for it costs time."""

    def __init__(self, book: Notebook) -> None:
        self.book = book
        self._of: Session | None = None
        self._known: Around | None = None

    def of(self, session: Session | None, *, is_running: bool) -> Around:
        """Those of the notebook that goes on with this session (None: none was begun)."""
        if self._known is None or session is not self._of or not is_running:
            self._of, self._known = session, self._look(session)
        return self._known

    def _look(self, session: Session | None) -> Around:
        try:
            config = self.book.config()
            model = resolve(config.llm, os.environ).model
        except AgentError:
            return Around()
        if session is None:
            return self._before(config, model)
        try:
            return Around(model, session.journal.sessions())
        except AgentError:
            return Around(model)

    def _before(self, config: Config, model: str) -> Around:
        """Before the first prompt: nothing is opened, let alone made."""
        if not config.chat.persist:
            return Around(model)
        found = glimpse(journal_path(self.book.root(config)))
        mine = going_on(found.sessions, self.book.name)
        return Around(model, found.sessions, found.plans.get(mine.id) if mine else None)
