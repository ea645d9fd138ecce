"""The sessions of a workspace: which one continues, and how new ones begin.

    begin ─▶ prompts … ─▶ end
      ▲          │
      │          ├─ branch: a new session that shares everything up to a step
      └── resume ┘  load: a new session from a file or a notebook's saved runs

A session belongs to one kernel at a time. A second kernel that continues it gets a branch, so that
neither loses anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pydantic import JsonValue

from ipyagent import schema
from ipyagent.agent.session.conversation import (
    CONVERSATION_EVENTS,
    NOTEBOOK,
    Conversation,
    initial_conversation,
    load_initial_graph,
)
from ipyagent.agent.session.session import Session
from ipyagent.errors import SessionError
from ipyagent.schema import Node, PlanProposed, Run, RunStarted, SessionState
from ipyagent.store.journal import Journal
from ipyagent.store.runs import plan_name

NO_METADATA: Mapping[str, JsonValue] = MappingProxyType({})


@dataclass
class OpenedSession:
    """A session, ready for prompts, and notices about how it was opened."""

    session: Session
    notices: tuple[str, ...] = ()


class Sessions:
    """The sessions of one journal, as one kernel uses them.

    A session that is open in this process is opened once; everyone gets the same object.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.used: list[Session] = []
        """The sessions that this kernel has used, some of them several times.

        They are kept, with the user's permissions in them.
        """
        self._open_sessions = journal.open_sessions

    def begin(
        self, name: str, nodes: Iterable[Node] = (), metadata: Mapping[str, JsonValue] = NO_METADATA
    ) -> Session:
        """Start a session; a number is appended if the name is taken."""
        record = schema.Session(name=name, metadata=dict(metadata))
        return self.add(Session.begin(self.journal, record, nodes))

    def get_or_begin(self, name: str) -> OpenedSession:
        """Return the session with that name, started if there is none."""
        return self._find_or_begin(
            schema.Session(name=name), lambda each: name in (each.name, each.id)
        )

    def get_for_notebook(self, notebook: str) -> OpenedSession:
        """Return the session that this notebook used last, started if none continues."""
        record = schema.Session(name=notebook, metadata={NOTEBOOK: notebook})
        return self._find_or_begin(record, partial(_is_ongoing, notebook=notebook))

    def resume(self, reference: str) -> OpenedSession:
        """Open the session with that id, beginning of an id, or name; raises SessionError."""
        record = self.journal.session(reference)
        if record is None:
            known = ", ".join(sorted({each.name for each in self.journal.sessions()})) or "none yet"
            raise SessionError(f"no session is called {reference!r}; there are: {known}")
        return self._open_record(record, record.name)

    def _open_record(self, record: schema.Session, name: str) -> OpenedSession:
        """Open the session, or a branch called `name` plus a number if another kernel has it."""
        if session := self._open_sessions.get(record.id):
            return OpenedSession(self.add(session))
        if not self.journal.claim(record.id):
            return self._branch_from_other_kernel(record, name)
        stale = self.journal.recover(record.id)
        record = self.journal.session(record.id) or record
        waiting = (
            [_waiting_plan_notice(self.journal.run(record.pending_run_id))]
            if record.pending_run_id
            else []
        )
        return OpenedSession(
            self.add(self._restore(record)), (*map(_interruption_notice, stale), *waiting)
        )

    def branch(self, session: Session, node: str | None = None, name: str | None = None) -> Session:
        """Return a new session that shares everything up to `node` (None: all of it)."""
        return self.add(session.branch(node, name))

    def read(self, reference: str) -> Session | None:
        """Return the session with that id, beginning of an id, or name, only to look at it."""
        record = self.journal.session(reference)
        if record is None:
            return None
        return self._open_sessions.get(record.id) or self._restore(record)

    def load(self, path: Path, name: str | None = None) -> Session:
        """Start a session from a saved graph, or from the runs saved in a notebook."""
        nodes, beginning = load_initial_graph(path)
        return self.begin(name or path.stem, nodes, beginning.to_metadata())

    def close(self) -> None:
        """Release the sessions for other kernels."""
        for each in self.used:
            self.journal.release(each.id)
            self._open_sessions.pop(each.id, None)
        self.used.clear()

    def _find_or_begin(
        self, fresh: schema.Session, matches: Callable[[schema.Session], bool]
    ) -> OpenedSession:
        record = self.journal.find_or_create(fresh, matches=matches)
        if record.id == fresh.id:
            return OpenedSession(self.add(Session(record, self.journal)))
        # An id is nothing to call a branch by.
        return self._open_record(record, record.name if fresh.name == record.id else fresh.name)

    def add(self, session: Session) -> Session:
        """Return the session, noted as one that this kernel uses."""
        self._open_sessions[session.id] = session
        self.used.append(session)
        return session

    def _branch_from_other_kernel(self, record: schema.Session, name: str) -> OpenedSession:
        foreign = self._restore(record)
        if foreign.head is None:
            fresh = self.begin(name, metadata=record.metadata)
            return OpenedSession(
                fresh,
                (
                    f"Another kernel has just begun the session {record.name!r}, so this one is "
                    f"{fresh.name!r}.",
                ),
            )
        branch = self.branch(foreign, name=name)
        return OpenedSession(
            branch,
            (
                f"Another kernel works in the session {record.name!r}, so this goes on as a branch "
                f"of it, {branch.name!r}.",
            ),
        )

    def _restore(self, record: schema.Session) -> Session:
        """Restore the session from the journal."""
        line = [record]
        while origin := line[-1].origin:
            parent = self.journal.session(origin[0])
            if parent is None:
                raise SessionError(f"{record.name!r} was branched from a session that is gone")
            line.append(parent)
        conversation, begun = Conversation(), set[str]()
        for each in reversed(line):
            if each.origin:
                conversation = conversation.up_to(each.origin[1])
            else:
                conversation = initial_conversation(each, self.journal.nodes(each.id))
            begun.clear()
            for entry in self.journal.events(each.id, CONVERSATION_EVENTS):
                conversation.add(entry.event)
                if isinstance(entry.event, RunStarted | PlanProposed):
                    begun.add(entry.run_id)
        run_ids = [each for each in self.journal.run_ids(record.id) if self._is_known(each, begun)]
        return Session(record, self.journal, conversation, run_ids)

    def _is_known(self, run_id: str, begun: AbstractSet[str]) -> bool:
        """Return whether the run can be read: its beginning was, or it is a plan without events."""
        if run_id in begun:
            return True
        with contextlib.suppress(SessionError):
            return bool(self.journal.run(run_id))
        return False


def find_ongoing(records: Iterable[schema.Session], notebook: str) -> schema.Session | None:
    """Return the first of a notebook's sessions that was not ended."""
    return next((each for each in records if _is_ongoing(each, notebook)), None)


def _is_ongoing(record: schema.Session, notebook: str) -> bool:
    is_mine = record.metadata.get(NOTEBOOK) == notebook
    return is_mine and record.state is not SessionState.TERMINATED


def _interruption_notice(run: Run) -> str:
    return (
        f"The kernel ended while run {run.id} ({_prompt_excerpt(run)}) was going on; "
        f"it is marked as failed. `%agent show {run.id}` shows how far it came."
    )


def _waiting_plan_notice(run: Run) -> str:
    plan = plan_name(run.plan)
    return (
        f"A plan waits for you ({_prompt_excerpt(run)}): `%agent show {plan}` shows it, "
        f"`%agent approve {plan}` runs it, `%agent deny {plan}` cancels it."
    )


def _prompt_excerpt(run: Run) -> str:
    return " ".join(run.prompt.split())[:60]
