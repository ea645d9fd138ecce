"""A notebook's shared parts: its settings, model, workspace, sessions and pages.

It answers its pages beside the runs that its cells draw.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from importlib import import_module
from itertools import chain
from pathlib import Path

from IPython.core.getipython import get_ipython

from ipyagent.agent.session.conversation import NOTEBOOK, read_switches
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import OpenedSession, Sessions, find_ongoing
from ipyagent.config import Config
from ipyagent.config.rules import Secret
from ipyagent.errors import AgentError, BusyError, ConfigError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.kernel.pages import Message, Pages
from ipyagent.kernel.shell import Shell
from ipyagent.llm.client import Client
from ipyagent.llm.destinations import resolve
from ipyagent.magic import state_of
from ipyagent.magic.notebook_settings import ModelChoice, NotebookSettings
from ipyagent.schema import Run
from ipyagent.schema.runs import UndoReport
from ipyagent.store.journal import read_summary
from ipyagent.tools.workspace import Workspace
from ipyagent.ui import messages, static_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.page_bridge import OverviewBuilder, OverviewContext, PageBridge
from ipyagent.ui.panel import EXAMPLE
from ipyagent.ui.parts import pre
from ipyagent.values.describe import describe
from ipyagent.wiring import (
    Environment,
    Services,
    has_journal,
    journal_place,
    runtime,
)
from ipyagent.wiring.run_methods import freeze_for_page
from ipyagent.wiring.undo import find_undo


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
        self._opened: dict[tuple[bool, Secret | None], Sessions] = {}
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
        config = self._settings.config
        persist, url = key = config.chat.persist, config.store.url
        with self._lock:  # two journals would keep each other out
            if key not in self._opened:
                journal = runtime().journal(self._workspace(), persist=persist, url=url)
                self._opened[key] = Sessions(journal)
            return self._opened[key]

    @property
    def is_recorded(self) -> bool:
        """True if sessions of this workspace were recorded; checking creates no record."""
        config = self._settings.config
        return config.chat.persist and has_journal(self._workspace(), config.store.url)

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

    def go_on(self, session: Session) -> str:
        """Use a session from now on; return it in words."""
        self.use(session)
        return f"{session.name} ({session.id[:8]}): {len(session.messages)} messages"

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
        if self._settings.config.chat.persist and not self.is_recorded:
            return {}
        records = self.all.journal.sessions()
        newest = next((r for r in records if r.metadata.get(NOTEBOOK) == self.name), None)
        return read_switches(newest.metadata) if newest else {}

    def list_used(self) -> list[Session]:
        """Return the notebook's session and others that this kernel used; begins none."""
        used = [session for each in self._opened.values() for session in each.used]
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

    def runs_after(self, session: Session, heads: Sequence[str]) -> list[Run]:
        """Return the runs of a conversation after these nodes, oldest first."""
        before, used = session.graph.ancestor_ids(*heads), self.list_used()
        firsts = [each for each in session.graph.nodes if each not in before]
        runs = (of.runs.get(each.removesuffix("-1")) for each in firsts for of in used)
        return [run for run in runs if run]

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
        # The extension was reloaded, or such a setting changed: the conversation is kept.
        copy = sessions.begin(current.name, current.graph, current.continuation.to_metadata())
        copy.validators += current.validators
        return self.use(copy)


log = logging.getLogger("ipyagent")


class NotebookPages:
    """Describes a notebook to its pages, and finds its saved runs.

    `root` returns the workspace's folder by the settings; `answers` are what the notebook itself
    replies to a page that asks.
    """

    def __init__(
        self,
        pages: Pages,
        settings: NotebookSettings,
        sessions: NotebookSessions,
        root: Callable[[Config], Path],
        answers: Mapping[str, Callable[[Message], JsonDict]],
    ) -> None:
        own = {
            "models": self._choose_model,
            "fresh": self._make_fresh,
            "sessions": self._find_sessions,
        }
        self._fresh: set[object] = set()
        self.desk = PageBridge(pages, self._describe, self._bundle, own | dict(answers))
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

    def _find_sessions(self, message: Message) -> JsonDict:
        """Return the sessions with a text as blocks, each of which can go on."""
        session = self._sessions.current
        found = self._look(session, str(message.get("text")))
        return self.desk.draw_sessions(session, found)

    def _look(self, session: Session | None, text: str = "") -> OverviewContext:
        model = None
        try:
            config = self._settings.config
            model = resolve(config.llm, os.environ).model
            if session is None:
                return self._look_before_first_prompt(config, model, text)
            journal = session.journal
            plan = journal.waiting_plan(session.id)
            return OverviewContext(model, journal.sessions(), plan, journal.prompts(text))
        except AgentError:
            return OverviewContext(model)

    def _look_before_first_prompt(self, config: Config, model: str, text: str) -> OverviewContext:
        """Return the same before the first prompt, without opening or creating anything."""
        if not config.chat.persist:
            return OverviewContext(model)
        summary = read_summary(journal_place(self._root(config), config.store.url), text)
        mine = find_ongoing(summary.sessions, self._sessions.name)
        plan = summary.plans.get(mine.id) if mine else None
        return OverviewContext(model, summary.sessions, plan, summary.prompts)

    def _bundle(self, run_id: str | None, cell_id: str | None) -> JsonDict | None:
        """Return the newest run with that id or of that cell, as it is saved in an output."""
        run = self.find_run(run_id, cell_id)
        return static_html.saved_bundle(run) if run else None

    def find_run(self, run_id: str | None, cell_id: str | None = None) -> Run | None:
        """Return the newest run with that id or of that cell, also of an earlier kernel."""
        if self._sessions.current is None:
            self._open_earlier()
        drawn = (feed.run for feed in self.desk.drawn if feed.has_begun)
        known = chain(self._sessions.runs_so_far(), drawn)
        return next(
            (e for e in known if e.id == run_id or (cell_id and e.cell_id == cell_id)), None
        )

    def show_again(self, run: Run) -> None:
        """Draw a run again, of which something was taken back."""
        self._overview.forget(run.id)
        self.desk.publish_again(run)

    def _choose_model(self, message: Message) -> JsonDict:
        """Use a model from now on, if one is named; return those that can answer."""
        chosen = message.get("model")
        if isinstance(chosen, str):
            self._settings.set(f"llm.model={chosen}")
            self._around = None
            self.desk.publish_soon()
        current = resolve(self._settings.config.llm, os.environ).model
        return messages.Models(current=current, models=self._settings.list_models()).to_dict()

    def _make_fresh(self, message: Message) -> JsonDict:
        self._fresh.add(message.get("cell_id"))
        return {}

    def take_fresh(self, cell_id: str | None) -> bool:
        """Return whether a page wants this run of a cell to ask the model; true once."""
        is_fresh = cell_id is not None and cell_id in self._fresh
        self._fresh.discard(cell_id)
        return is_fresh

    def _open_earlier(self) -> None:
        """Open the session of an earlier kernel, its runs ended; starts none."""
        sessions = self._sessions
        try:
            if not sessions.is_recorded:
                return
            if find_ongoing(sessions.all.journal.sessions(), sessions.name) is None:
                return
            sessions.get()
        except AgentError as error:
            log.warning("runs of earlier kernels cannot be shown: %s", error)
            return
        self.desk.publish_soon()


ENDING_SECONDS = 2
"""How long a cell may take to end once its run is drawn as finished."""

_COMPLETIONS = "ipyagent.magic.completions"
"""It imports this module."""


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
            answers = {
                "undo": self._undo_for_page,
                "variable": self._describe_for_page,
                "complete": lambda message: import_module(_COMPLETIONS).complete_for_page(message),
                "requests": self._suggest_for_page,
                "freeze": self._freeze_for_page,
                "session": self._change_session_for_page,
            }
            self.pages = NotebookPages(pages, self.settings, self.sessions, self.root, answers)

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
            settings=lambda: self.settings.config,
            connect=self._connect,
        )
        environment.undo.show = self._show_again
        return environment

    def _connect(self) -> Client:
        settings = self.settings.config
        return self.environment.client_for(self.model.resolve(settings), settings.llm)

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
            return find_undo(self.undo_place, runs, reference, redo=redo).run(dry_run=dry_run)

    @property
    def undo_place(self) -> Environment:
        """The environment, with an undo that knows the sessions so far."""
        history = self.environment.undo
        history.sessions.update(self.sessions.list_used())
        history.journal = self.sessions.all.journal
        return self.environment

    def _show_again(self, run: Run) -> None:
        last = runtime().last_run
        if last is not None and last.id == run.id:
            runtime().last_run = run
        if self.pages is not None:
            self.pages.show_again(run)

    @contextmanager
    def _between_cells(self) -> Iterator[None]:
        lock = state_of(self.shell).cell_lock
        if not lock.acquire(timeout=ENDING_SECONDS):
            raise BusyError("a cell is running; try again when it is done")
        try:
            yield
        finally:
            lock.release()

    def _undo_for_page(self, message: Message) -> JsonDict:
        """Take a run back, or say what that would do."""
        run_id, dry_run = str(message.get("run_id")), message.get("dry_run") is not False
        try:
            with self._between_cells():
                report = self.undo(run_id, dry_run=dry_run, redo=True)
        except AgentError as error:
            return messages.Undone(restored=(), skipped=(str(error),)).to_dict()
        return messages.Undone(restored=report.restored, skipped=report.skipped).to_dict()

    def _describe_for_page(self, message: Message) -> JsonDict:
        """Return what a model would read of a variable: it computes nothing."""
        job = partial(self._describe, str(message.get("text")))
        main = self.pages.desk.between_calls() if self.pages else None
        if main is not None:
            with suppress(TimeoutError):
                found: JsonDict = main.post(job).result(ENDING_SECONDS)
                return found
        with self._between_cells():
            return job()

    def _describe(self, name: str) -> JsonDict:
        known = self.environment.namespace.variables()
        text = describe(name, known[name], detail=True) if name in known else "It is gone."
        return messages.Described(html=pre(text)).to_dict()

    def _suggest_for_page(self, _message: Message) -> JsonDict:
        """Return requests that fit the variables and files; none without any."""
        from ipyagent.explorer.steps import suggest_for  # only for a notebook without runs

        with state_of(self.shell).cell_lock:
            requests = suggest_for(self.environment.collect_facts())
        return messages.Requests(requests=tuple(requests), example=EXAMPLE).to_dict()

    def _freeze_for_page(self, message: Message) -> JsonDict:
        """Return a run as plain cells."""
        run = self.pages.find_run(str(message.get("run_id"))) if self.pages else None
        cells = freeze_for_page(self.environment, run) if run else []
        return messages.Frozen.from_dict({"cells": cells}).to_dict()

    def _change_session_for_page(self, message: Message) -> JsonDict:
        """Go on with the session that a page names, or else with a new one."""
        name, known = str(message.get("text") or ""), self.sessions.all
        with self._between_cells(), runtime().run_lock.hold():
            chosen = self.sessions.open(known.resume(name)) if name else None
            text = self.sessions.go_on(chosen or known.begin(self.sessions.name))
        self.tell_pages()
        return messages.Resumed(text=f"ipyagent goes on with {text}").to_dict()

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
