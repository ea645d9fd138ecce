"""The agent's side of a kernel: its workspace, its sessions, and settings made with `%agent`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from IPython.core.getipython import get_ipython

from ipyagent import config
from ipyagent.agent.beginnings import NOTEBOOK
from ipyagent.agent.service_switches import read_switches
from ipyagent.agent.session import Session
from ipyagent.agent.sessions import Opened, Sessions
from ipyagent.config import Config, Layer, Settings
from ipyagent.errors import AgentError, ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.frontend import detect
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.kernel.protocols import Shell
from ipyagent.llm.client import Client
from ipyagent.llm.environment import start_environ
from ipyagent.llm.resolve import Resolved, fetch, resolve
from ipyagent.llm.warmup import dotenv_warning
from ipyagent.magic import home_of, pages_of
from ipyagent.magic.surroundings import Surroundings
from ipyagent.schema import Run
from ipyagent.ui import formatters, mirror
from ipyagent.ui.asking import choose
from ipyagent.ui.desk import Desk
from ipyagent.ui.feed import Feed
from ipyagent.ui.overview import Overview
from ipyagent.wiring import (
    Place,
    Services,
    client_for,
    has_journal,
    journal_for,
    warm_up,
    workspace_at,
)

log = logging.getLogger("ipyagent")


@dataclass
class Notebook:
    """What `%%agent` cells of one kernel share."""

    shell: Shell
    home: Path
    """The folder the kernel was in at `%load_ext`: the notebook's. A later chdir is ignored."""
    made: JsonDict = field(default_factory=dict, repr=False)
    """Settings made with `%agent config`."""
    _introduced: str | None = None
    _current: Session | None = None
    _news: list[str] = field(default_factory=list)
    _sessions: dict[bool, Sessions] = field(default_factory=dict)
    _describe: Overview = field(default_factory=Overview, repr=False)
    _choosing: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def settings(self, *layers: Layer, agent: str | None = None) -> Settings:
        """The settings in force, those of a cell above all others; raises ConfigError."""
        return config.settle(*self._layers(), *layers, agent=agent)

    def readable_settings(self) -> tuple[Settings, tuple[str, ...]]:
        """Return what can be read of the settings, only to be shown, and what is wrong there."""
        return config.readable(os.environ, start_environ(), self.home, self._made)

    @property
    def begun(self) -> Session | None:
        """The session that the notebook goes on with, if it has one already."""
        return self._current

    def config(self) -> Config:
        """The settings between cells."""
        return self.settings().config

    @cached_property
    def place(self) -> Place:
        """Workspace and namespace."""
        workspace = workspace_at(self.root(self.config()))
        return Place(workspace, ShellNamespace(self.shell), self.home)

    def root(self, settings: Config) -> Path:
        """The workspace's folder by these settings."""
        return (self.home / settings.workspace.root).resolve()

    @cached_property
    def desk(self) -> Desk | None:
        """What its pages are told and may do; None outside of a kernel."""
        pages = pages_of(self.shell)
        return None if pages is None else Desk(pages, self._overview, self._bundle)

    def tell(self) -> None:
        """Let its pages know how things are now."""
        if self.desk is not None:
            self.desk.tell()

    @cached_property
    def _surroundings(self) -> Surroundings:
        return Surroundings(self)

    @property
    def services(self) -> Services:
        """What brings tools from elsewhere, by the settings between cells."""
        services = self.place.services
        services.configured = self.config().mcp.servers
        services.here = self.here
        return services

    @property
    def here(self) -> dict[str, bool]:
        """What services are switched on and off in this notebook alone; begins no session."""
        if self._current is not None:
            return self._current.services
        if self.config().chat.persist and not has_journal(self.place.workspace):
            return {}
        mine = (each for each in self.sessions.list() if each.metadata.get(NOTEBOOK) == self.name)
        newest = next(mine, None)
        return read_switches(newest.metadata) if newest else {}

    @property
    def sessions(self) -> Sessions:
        """The sessions of this workspace, or those in memory alone; raises JournalError."""
        persist = self.config().chat.persist
        with self._choosing:  # two journals would keep each other out
            if persist not in self._sessions:
                journal = journal_for(self.place.workspace, persist=persist)
                self._sessions[persist] = Sessions(journal)
            return self._sessions[persist]

    @property
    def name(self) -> str:
        """The notebook's own name, as the server tells it; kernels without one share a session."""
        path = os.environ.get("JPY_SESSION_NAME")
        return Path(path).name if path else "default"

    def session(self, name: str | None = None) -> Session:
        """The session to go on with: that of this name, or the notebook's own."""
        with self._choosing:  # a page may ask for its runs meanwhile
            return self._session(name)

    def runs(self, reference: str) -> list[Run]:
        """The session's runs whose ids begin so, oldest first; raises ConfigError for none."""
        found = [
            run
            for run in self.session().runs
            if run.id.startswith(reference) or (run.plan_id or "").startswith(reference or "-")
        ]
        if not found:
            raise ConfigError(f"no run has the id {reference!r}; `%agent runs` lists them")
        return found

    def _session(self, name: str | None) -> Session:
        if name is not None:
            return self.opened(self.sessions.go_on(name))
        current, sessions = self._current, self.sessions
        if current is None:
            here = self.here  # before another session is begun
            return self.use(self.opened(sessions.of_notebook(self.name)), here)
        if current.journal is sessions.journal:
            return current
        # It was loaded by itself, or chat.persist was changed: what was said goes along.
        copy = sessions.begin(current.name, current.graph, current.beginning.to_metadata())
        copy.validators += current.validators
        return self.use(copy)

    def use(self, session: Session, here: Mapping[str, bool] | None = None) -> Session:
        """Make it the one that the notebook goes on with, also after the kernel restarts.

        Services that are switched in the notebook stay so, whatever another notebook had switched.
        """
        here = self.here if here is None else here
        self._current = session
        session.annotate(**{NOTEBOOK: self.name})
        session.switch_services({**dict.fromkeys(session.services), **here})
        return session

    def opened(self, opened: Opened) -> Session:
        """The session; what there is to tell of it is told with whatever is shown next."""
        self._news += opened.notices
        return opened.session

    def news(self) -> tuple[str, ...]:
        """What there is to tell, once."""
        news, self._news = tuple(self._news), []
        return news

    def set(self, assignment: str) -> None:
        """Put `section.key=value` in force from now on; raises ConfigError."""
        layer = config.from_assignment(assignment, *self._layers())
        self.made = config.merge(self.made, layer.values)
        prepare_model(self.home, self._made)

    def _overview(self, feeds: list[Feed]) -> JsonDict:
        session = self._current
        around = self._surroundings.of(session, is_running=bool(feeds))
        return self._describe(session, feeds, self.desk.drawn if self.desk else [], around)

    def _bundle(self, run_id: str | None, cell_id: str | None) -> JsonDict | None:
        """The newest run with that id or of that cell, as it is saved in an output."""
        session = self._current or self._left_behind()
        for run in reversed(session.runs if session else []):
            if run.id == run_id or (cell_id and run.cell_id == cell_id):
                return mirror.bundle(run)
        return None

    def _left_behind(self) -> Session | None:
        """The session of a kernel before this one, its runs ended; makes no journal for it."""
        try:
            workspace, chat = self.place.workspace, self.config().chat
            if not chat.persist or not has_journal(workspace):
                return None
            if not self.sessions.has_notebook(self.name):
                return None
            session = self.session()
        except AgentError as error:
            log.warning("runs of earlier kernels cannot be shown: %s", error)
            return None
        self.tell()
        return session

    def _layers(self) -> tuple[Layer, ...]:
        return (*_standing(self.home), self._made)

    @property
    def _made(self) -> Layer:
        return Layer("%agent", self.made)

    def resolve(self, settings: Config) -> Resolved:
        """Which model answers."""
        return resolve(settings.llm, os.environ, probe=fetch)

    def choose(self, settings: Config) -> Resolved:
        """Which model answers; where several could, the person chooses, once for the session."""
        resolved = self.resolve(settings)
        if not resolved.others or not detect(self.shell).can_input:
            return resolved
        model = choose(
            "Several providers' API keys are set. Which model should answer?",
            (resolved.model, *resolved.others),
        )
        self.set(f"llm.model={model}")
        return Resolved(model, "you chose it")

    def client(self, resolved: Resolved, settings: Config) -> Client:
        """The model's side of a conversation."""
        return client_for(resolved, settings.llm, self.place.workspace.root)

    def introduce(self, resolved: Resolved) -> tuple[str, ...]:
        """Return what users should know of a model, at its first run only."""
        if self._introduced == resolved.model:
            return ()
        self._introduced = resolved.model
        return resolved.notes

    def warnings(self) -> tuple[str, ...]:
        """Return what is odd about the environment."""
        warnings = [
            f"{name} was set after this kernel started, perhaps by a .env file, and is ignored. "
            "To set it on purpose: %agent config KEY=VALUE."
            for name in config.late(os.environ, start_environ())
        ]
        if warning := dotenv_warning():
            warnings.append(warning)
        return tuple(warnings)


def _standing(home: Path | None) -> tuple[Layer, ...]:
    return config.standing(os.environ, start_environ(), home)


def prepare_model(home: Path | None, *above: Layer) -> None:
    """Begin to import what the model needs that would answer now."""
    with suppress(AgentError):  # the next cell says it
        settings = config.settle(*_standing(home), *above).config
        warm_up(resolve(settings.llm, os.environ))


_notebooks: dict[int, Notebook] = {}
_making = threading.Lock()


def notebook() -> Notebook:
    """That of the running shell; a page may ask for it while the first cell does."""
    shell = get_ipython()
    with _making:
        if id(shell) not in _notebooks:
            formatters.register(shell)
            book = _notebooks[id(shell)] = Notebook(shell, home_of(shell))
            _ = book.desk  # made once
        return _notebooks[id(shell)]
