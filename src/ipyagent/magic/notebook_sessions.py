"""The settings of a notebook, read again only when a source has changed, and its sessions."""

from __future__ import annotations

import heapq
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ipyagent import config
from ipyagent.agent.session.initial_graph import NOTEBOOK, read_switches
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import OpenedSession, Sessions
from ipyagent.config import Config, Layer, LLMConfig, Settings
from ipyagent.config.settings import Snapshot, snapshot
from ipyagent.errors import AgentError, ConfigError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.llm import start_environ
from ipyagent.llm.destinations import dotenv_warning, fetch, list_models, resolve
from ipyagent.schema import Run
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring import has_journal, runtime, warm_up

REMEMBERED = 2
"""Cached settings: those of cells with the usual options, and those between cells."""


class NotebookSettings:
    """The settings of a folder and its user; None: of the user alone.

    Settings made with `%agent config` are applied over them.
    """

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self._made = Layer("%agent", {})
        self._read: tuple[Snapshot, tuple[Layer, ...]] | None = None
        self._listed: list[LLMConfig] = []
        self._resolved: list[tuple[object, Settings]] = []
        """The newest, with their sources."""

    def resolve(self, *layers: Layer, agent: str | None = None) -> Settings:
        """Return the settings in force, those of a cell above all others; raises ConfigError."""
        given = (*self._layers(), *layers)
        for known, settings in self._resolved:
            if known == (given, agent):
                return settings
        settings = config.resolve_layers(*given, agent=agent)
        self._resolved = [((given, agent), settings), *self._resolved[: REMEMBERED - 1]]
        return settings

    @property
    def config(self) -> Config:
        """The settings between cells; raises ConfigError."""
        return self.resolve().config

    def set(self, assignment: str) -> None:
        """Apply `section.key=value` from now on; raises ConfigError."""
        layer = config.from_assignment(assignment, *self._layers())
        values: JsonDict = config.merge(self._made.values, layer.values)
        self._made = Layer("%agent", values)
        self.prepare_model()

    def list_models(self) -> dict[str, str]:
        """Return the models that can answer, and why; asks servers on this machine.

        Those that were current when this was called before, or are named in files, stay listed.
        """
        current = self.config.llm
        self._listed = [current, *(each for each in self._listed if each != current)]
        before = config.resolve_layers(*self._layers()[:-1]).config.llm
        return list_models(*self._listed, before, environ=os.environ, probe=fetch)

    def prepare_model(self) -> None:
        """Start to import the current model's dependencies."""
        with suppress(AgentError):  # the next cell reports it
            warm_up(resolve(self.config.llm, os.environ), self.config.llm)

    def warnings(self) -> tuple[str, ...]:
        """Return peculiarities of the environment."""
        warnings = [
            f"{name} was set after this kernel started, perhaps by a .env file, and is ignored. "
            "To set it on purpose: %agent config KEY=VALUE."
            for name in config.late_variables(os.environ, start_environ())
        ]
        if warning := dotenv_warning():
            warnings.append(warning)
        return tuple(warnings)

    def _layers(self) -> tuple[Layer, ...]:
        now = snapshot(os.environ, self.home)
        if self._read is None or self._read[0] != now:
            self._read = now, config.base_layers(os.environ, start_environ(), self.home)
        return (*self._read[1], self._made)


def notebook_name() -> str:
    """Return the notebook's own name, as the server tells it; kernels without one share one."""
    path = os.environ.get("JPY_SESSION_NAME")
    return Path(path).name if path else "default"


class NotebookSessions:
    """`current` is the notebook's session, if any; `workspace` opens its workspace."""

    def __init__(self, settings: NotebookSettings, workspace: Callable[[], Workspace]) -> None:
        self.current: Session | None = None
        self.newest: Session | None = None
        """The session of the newest cell, or the notebook's own if it was chosen since."""
        self._settings, self._workspace = settings, workspace
        self._opened: dict[bool, Sessions] = {}
        self._news: list[str] = []
        self._lock = threading.RLock()
        """A page may ask for the notebook's runs while its first cell starts."""

    @property
    def name(self) -> str:
        """The notebook's name."""
        return notebook_name()

    @property
    def all(self) -> Sessions:
        """The sessions of this workspace, or those in memory alone; raises JournalError."""
        persist = self._settings.config.chat.persist
        with self._lock:  # two journals would keep each other out
            if persist not in self._opened:
                journal = runtime().journal(self._workspace(), persist=persist)
                self._opened[persist] = Sessions(journal)
            return self._opened[persist]

    @property
    def is_recorded(self) -> bool:
        """True if sessions of this workspace were recorded; checking creates no record."""
        return self._settings.config.chat.persist and has_journal(self._workspace())

    def get(self, name: str | None = None) -> Session:
        """Return the session to continue: that of this name, or the notebook's own."""
        with self._lock:
            return self._get(name)

    def use(self, session: Session, switches: Mapping[str, bool] | None = None) -> Session:
        """Make it the session that the notebook continues, also after the kernel restarts.

        Services that are switched in the notebook stay so, whatever another notebook had switched.
        """
        switches = self.switches if switches is None else switches
        self.current = self.newest = session
        session.annotate(**{NOTEBOOK: self.name})
        session.switch_services({**dict.fromkeys(session.services), **switches})
        return session

    def open(self, opened: OpenedSession) -> Session:
        """Return the session; its notices are shown with the next output."""
        self._news += opened.notices
        return opened.session

    def take_news(self) -> tuple[str, ...]:
        """Return pending notices, once."""
        news, self._news = tuple(self._news), []
        return news

    @property
    def switches(self) -> dict[str, bool]:
        """Services that are switched on or off in this notebook alone; starts no session."""
        if self.current is not None:
            return self.current.services
        if self._settings.config.chat.persist and not has_journal(self._workspace()):
            return {}
        mine = (each for each in self.all.records() if each.metadata.get(NOTEBOOK) == self.name)
        newest = next(mine, None)
        return read_switches(newest.metadata) if newest else {}

    def list_used(self) -> list[Session]:
        """Return the notebook's session and others that this kernel used; begins none."""
        used = [session for each in self._opened.values() for session in each.list_own()]
        used += [self.current] if self.current else []
        return [*{each.id: each for each in used}.values()]

    def runs_so_far(self) -> Iterator[Run]:
        """Return the runs of these sessions, newest first, each read when it is asked for."""
        newest_first = (reversed(each.runs) for each in self.list_used())
        return heapq.merge(*newest_first, key=lambda run: run.started_at, reverse=True)

    def runs(self, run_id: str = "") -> Iterator[Run]:
        """Yield the same, with those of the notebook's session in an earlier kernel.

        The run with that id comes too, of whatever session: no kernel need have opened that.
        """
        self.get()
        yield from self.runs_so_far()
        with suppress(SessionError):
            yield self.all.journal.run(run_id)

    def find_run(self, reference: str) -> Run:
        """Return the newest run whose id starts so; raises ConfigError."""
        for run in self.runs(reference):
            if run.id.startswith(reference) or (run.plan_id or "").startswith(reference or "-"):
                return run
        raise ConfigError(f"no run has the id {reference!r}; `%agent runs` lists them")

    def _get(self, name: str | None) -> Session:
        if name is not None:
            return self.open(self.all.get_or_begin(name))
        current, sessions = self.current, self.all
        if current is None:
            switches = self.switches  # before another session is begun
            return self.use(self.open(sessions.get_for_notebook(self.name)), switches)
        if current.journal is sessions.journal:
            return current
        # The extension was reloaded, or chat.persist changed: the conversation is kept.
        copy = sessions.begin(current.name, current.graph, current.continuation.to_metadata())
        copy.validators += current.validators
        return self.use(copy)
