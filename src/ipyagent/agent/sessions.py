"""The sessions of a workspace: which one goes on, and how others come to be.

    begin ─▶ prompts … ─▶ end
      ▲          │
      │          ├─ branch: a new session that shares what was said up to a step
      └── resume ┘  load: a new session from a file or a notebook's saved runs

A session belongs to one kernel at a time. A second kernel that wants to go on with it gets a branch
from where it stands, so that neither loses anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from ipyagent import schema
from ipyagent.agent import registry
from ipyagent.agent.beginnings import NOTEBOOK, begun_with, read_beginning
from ipyagent.agent.conversation import Conversation
from ipyagent.agent.session import Session
from ipyagent.errors import SessionError
from ipyagent.schema import Node, Run, SessionState
from ipyagent.store.journal import Journal
from ipyagent.store.plans import plan_name

_MOST_NAMESAKES = 5

NOTHING: Mapping[str, JsonValue] = MappingProxyType({})


@dataclass
class Opened:
    """A session, ready for prompts, and what the person should know about how it came to be so."""

    session: Session
    notices: tuple[str, ...] = ()


class Sessions:
    """Those of one journal, as one kernel uses them.

    Whoever opens a session that is open in this process already gets the same one.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._mine: list[Session] = []  # kept, with what the person allowed in them
        self._open = registry.open_sessions(journal)

    def list(self) -> list[schema.Session]:
        """All records, the newest activity first."""
        return self.journal.sessions()

    def begin(
        self, name: str, nodes: Iterable[Node] = (), metadata: Mapping[str, JsonValue] = NOTHING
    ) -> Session:
        """A new session; a taken name gets a number."""
        record = schema.Session(name=name, metadata=dict(metadata))
        return self._keep(Session.begin(self.journal, record, nodes))

    def go_on(self, name: str) -> Opened:
        """The session of that name, begun if there is none."""
        return self._found_or_begun(
            schema.Session(name=name), lambda each: name in (each.name, each.id)
        )

    def of_notebook(self, notebook: str) -> Opened:
        """The session that this notebook used last, begun if there is none that goes on."""
        record = schema.Session(name=notebook, metadata={NOTEBOOK: notebook})
        return self._found_or_begun(record, partial(_goes_on, notebook=notebook))

    def has_notebook(self, notebook: str) -> bool:
        """Whether this notebook has a session that goes on."""
        return going_on(self.list(), notebook) is not None

    def resume(self, reference: str) -> Opened:
        """The session with that id, beginning of an id, or name; raises SessionError."""
        record = self.journal.session(reference)
        if record is None:
            known = ", ".join(sorted({each.name for each in self.list()})) or "none yet"
            raise SessionError(f"no session is called {reference!r}; there are: {known}")
        opened = self._opened(record, record.name)
        if reference == record.id or reference != record.name:
            return opened
        return replace(opened, notices=(*opened.notices, *self._namesakes(record)))

    def _namesakes(self, record: schema.Session) -> Iterator[str]:
        """Yield what there is to say of sessions with the same name, as older versions made."""
        others = [each for each in self.list() if each.name == record.name and each.id != record.id]
        if others:
            ids = ", ".join(f"`{each.id[:8]}`" for each in others[:_MOST_NAMESAKES])
            yield (
                f"This is the newest of {len(others) + 1} sessions that are called "
                f"{record.name!r}; `%agent session resume ID` goes on with another one: {ids}."
            )

    def _opened(self, record: schema.Session, name: str) -> Opened:
        """The session, or one that begins where it stands: `name`, and a number."""
        if session := self._open.get(record.id):
            return Opened(self._keep(session))
        if not self.journal.claim(record.id):
            return self._branch_of_foreign(record, name)
        stale = self.journal.recover(record.id)
        record = self.journal.session(record.id) or record
        waiting = [_waits(self.journal.run(record.pending_run_id))] if record.pending_run_id else []
        return Opened(self._keep(self._revive(record)), (*map(_told, stale), *waiting))

    def branch(self, session: Session, node: str | None = None, name: str | None = None) -> Session:
        """A new session that shares what `session` said up to `node` (None: all of it)."""
        return self._keep(session.branch(node, name))

    def load(self, path: Path, name: str | None = None) -> Session:
        """A new session from a saved graph, or from the runs that a notebook carries."""
        nodes, beginning = read_beginning(path)
        return self.begin(name or path.stem, nodes, beginning.to_metadata())

    def close(self) -> None:
        """Let other kernels go on with these sessions."""
        for each in self._mine:
            self.journal.release(each.id)
            self._open.pop(each.id, None)
        self._mine.clear()

    def _found_or_begun(
        self, fresh: schema.Session, matches: Callable[[schema.Session], bool]
    ) -> Opened:
        # Claimed before others can find it, so that whoever begins it goes on with it.
        self.journal.claim(fresh.id)
        record = self.journal.find_or_create(fresh, matches=matches)
        if record.id == fresh.id:
            return Opened(self._keep(Session(record, self.journal)))
        self.journal.forget(fresh.id)
        # An id is nothing to call a branch by.
        return self._opened(record, record.name if fresh.name == record.id else fresh.name)

    def _keep(self, session: Session) -> Session:
        self._open[session.id] = session
        self._mine.append(session)
        return session

    def _branch_of_foreign(self, record: schema.Session, name: str) -> Opened:
        foreign = self._revive(record)
        if foreign.head is None:
            fresh = self.begin(name, metadata=record.metadata)
            return Opened(
                fresh,
                (
                    f"Another kernel has just begun the session {record.name!r}, so this one is "
                    f"{fresh.name!r}.",
                ),
            )
        branch = self.branch(foreign, name=name)
        return Opened(
            branch,
            (
                f"Another kernel works in the session {record.name!r}, so this goes on as a branch "
                f"of it, {branch.name!r}.",
            ),
        )

    def _revive(self, record: schema.Session) -> Session:
        """The session as the journal has it."""
        line = [record]
        while origin := line[-1].origin:
            parent = self.journal.session(origin[0])
            if parent is None:
                raise SessionError(f"{record.name!r} was branched from a session that is gone")
            line.append(parent)
        conversation = Conversation()
        for each in reversed(line):
            if each.origin:
                conversation = conversation.at(each.origin[1])
            else:
                conversation = begun_with(each, self.journal.nodes(each.id))
            for entry in self.journal.events(each.id):
                conversation.add(entry.event)
        return Session(record, self.journal, conversation, self.journal.runs(record.id))


def going_on(records: Iterable[schema.Session], notebook: str) -> schema.Session | None:
    """The first of a notebook's sessions that was not ended."""
    return next((each for each in records if _goes_on(each, notebook)), None)


def _goes_on(record: schema.Session, notebook: str) -> bool:
    is_mine = record.metadata.get(NOTEBOOK) == notebook
    return is_mine and record.state is not SessionState.TERMINATED


def _told(run: Run) -> str:
    return (
        f"The kernel ended while run {run.id} ({_goal(run)}) was going on; it is marked as failed. "
        f"`%agent show {run.id}` shows how far it came."
    )


def _waits(run: Run) -> str:
    plan = plan_name(run.plan)
    return (
        f"A plan waits for you ({_goal(run)}): `%agent show {plan}` shows it, "
        f"`%agent approve {plan}` runs it, `%agent deny {plan}` cancels it."
    )


def _goal(run: Run) -> str:
    return " ".join(run.prompt.split())[:60]
