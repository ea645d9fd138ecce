"""A session as it is lived: the conversation, its runs, and the record that all of it goes to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ipyagent import schema
from ipyagent.agent import current, registry
from ipyagent.agent.archive import Archive
from ipyagent.agent.beginnings import (
    GRAPH,
    Beginning,
    beginning_of,
    begun_with,
    heads_of,
    read_beginning,
    save_graph,
)
from ipyagent.agent.conversation import Conversation
from ipyagent.agent.grants import Grants
from ipyagent.agent.service_switches import read_switches, to_metadata
from ipyagent.agent.validation import Validator
from ipyagent.errors import SessionError
from ipyagent.schema import (
    ApprovalRequested,
    Event,
    Graph,
    Message,
    Node,
    PlanProposed,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    SessionState,
    fold,
)
from ipyagent.schema.graph import handle
from ipyagent.store.journal import Journal
from ipyagent.store.plans import plan_name


class Session:
    """Continued by every prompt. `record` is in the journal; without one it gets its own."""

    def __init__(
        self,
        record: schema.Session | None = None,
        journal: Journal | None = None,
        conversation: Conversation | None = None,
        runs: Iterable[Run] = (),
    ) -> None:
        self._record = record or schema.Session()
        self.journal = journal or _in_memory(self._record)
        self.conversation = conversation or Conversation()
        self.runs = Archive(runs)
        self.validators: list[Validator] = []
        """Functions that look at each prompt first; one that raises ValueError refuses it."""
        self.granted = Grants()
        """What is allowed for this session."""
        self.compact_next = False
        """Whether the older part becomes a summary before the next request."""
        self.notices: tuple[str, ...] = ()
        """What users should know beside the runs, as it was when the newest run began."""
        self._run: Run | None = None
        self._changing = threading.Lock()
        if self.runs:
            self._activate()

    @classmethod
    def current(cls) -> Session | None:
        """The notebook's own, begun if need be; None where the extension is not loaded."""
        return current.find()

    @classmethod
    def load(cls, path: str | Path) -> Session:
        """What a saved graph or a notebook's runs hold, kept in memory; raises SessionError."""
        nodes, beginning = read_beginning(Path(path))
        given: dict[str, Any] = {"name": Path(path).stem, "metadata": beginning.to_metadata()}
        record = schema.Session.from_dict(given)
        for said in ({"id": beginning.session_id}, {"started_at": beginning.created_at}):
            with contextlib.suppress(ValidationError):  # no UUID, or no time that can be
                record = schema.Session.from_dict({**given, **said})
                given |= said
        return cls.begin(Journal.open(None), record, nodes)

    @classmethod
    def begin(cls, journal: Journal, record: schema.Session, nodes: Iterable[Node] = ()) -> Session:
        """Return a new session of the journal with `nodes`; a taken name gets a number."""
        conversation = begun_with(record, nodes)
        journal.claim(record.id)
        record = journal.find_or_create(record, conversation.graph)
        return registry.register(cls(record, journal, conversation))

    @property
    def record(self) -> schema.Session:
        """The session as data, with its prompts and answers."""
        return self._record.model_copy(update={"messages": self.history})

    @property
    def id(self) -> str:
        """A UUID."""
        return self._record.id

    @property
    def session_id(self) -> str:
        """The same as `id`."""
        return self._record.id

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self._record.name

    @property
    def state(self) -> SessionState:
        """Where it is in its life; it becomes active with its first run."""
        return self._record.state

    @property
    def started_at(self) -> datetime:
        """When it was begun."""
        return self._record.started_at

    @property
    def metadata(self) -> dict[str, Any]:
        """What was noted about it, in its file too; `annotate` adds to it."""
        beginning = beginning_of(self._record.metadata) or Beginning()
        noted = {key: value for key, value in self._record.metadata.items() if key != GRAPH}
        return {**beginning.metadata, **noted}

    @property
    def history(self) -> tuple[Message, ...]:
        """All prompts and answers, also those that a summary stands for when a model is asked."""
        return tuple(self.conversation.history)

    @property
    def message_count(self) -> int:
        """How many prompts and answers there are."""
        return len(self.conversation.history)

    @property
    def messages(self) -> list[Message]:
        """What a model is sent."""
        return self.conversation.messages

    @property
    def graph(self) -> Graph:
        """All that was said and done."""
        return self.conversation.graph

    @property
    def head(self) -> str | None:
        """The id of the newest node."""
        return self.conversation.head

    @property
    def heads(self) -> tuple[str, ...]:
        """The ids of the ends of all branches in its graph; the next prompt goes on from `head`."""
        return heads_of(self.conversation, beginning_of(self._record.metadata))

    @property
    def beginning(self) -> Beginning:
        """What a session would begin with that goes on as this one does."""
        before = beginning_of(self._record.metadata) or Beginning()
        return replace(before, follows=self.conversation.heads, heads=self.heads)

    @property
    def waiting(self) -> str | None:
        """The id of the plan that waits for a person; raises JournalError."""
        stored = self.journal.session(self.id)
        return stored.pending_run_id if stored else None

    @property
    def waiting_plan(self) -> str | None:
        """The name of the plan that waits for the user; raises JournalError."""
        waiting = self.waiting
        return plan_name(self.journal.run(waiting).plan) if waiting else None

    def check_ready(self) -> None:
        """Raise SessionError where no more prompts are taken now."""
        self.check_open()
        if plan := self.waiting_plan:
            raise SessionError(
                f"a plan waits for you ({plan}): `%agent approve` or `%agent deny` it first"
            )

    def take_notices(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return those of the notices in force that were not told in this session before.

        One that was gone meanwhile is told again.
        """
        before, self.notices = self.notices, tuple(dict.fromkeys(texts))
        return tuple(text for text in self.notices if text not in before)

    def check_open(self) -> None:
        """Raise SessionError where nothing is taken any more."""
        if self._record.state is SessionState.TERMINATED:
            raise SessionError(
                f"the session {self.name or self.id!r} has ended; begin another with "
                "`%agent session new`"
            )

    def end(self) -> None:
        """No more prompts from here on; ending twice does nothing. Raises JournalError."""
        if self._record.state is not SessionState.TERMINATED:
            self._change(state=self._record.move(SessionState.TERMINATED).state)

    def annotate(self, **metadata: str) -> None:
        """Add to the record's metadata; raises JournalError."""
        self._change(metadata={**self._record.metadata, **metadata})

    @property
    def services(self) -> dict[str, bool]:
        """What is switched on and off for its notebook alone, by names such as `api:shop`."""
        return read_switches(self._record.metadata)

    def switch_services(self, switches: Mapping[str, bool | None]) -> None:
        """Switch services for its notebook alone; None: as the folder has it."""
        wanted = {**self.services, **switches}
        new = {name: on for name, on in wanted.items() if on is not None}
        if new != self.services:
            self.annotate(**to_metadata(new))

    def save(self, path: str | Path) -> None:
        """Write the conversation to a JSON file, as a graph; raises SessionError."""
        save_graph(Path(path), self._record, self.conversation)

    def branch(self, node: str | None = None, name: str | None = None) -> Session:
        """Return a new session that shares what was said up to `node` (None: all of it).

        `node` is an id of the graph, or its beginning. What either of them says from here on the
        other does not know. Raises SessionError.
        """
        if node is None and len(self.conversation.heads) > 1:
            return self.merge(self.conversation.heads, name)
        head = self.conversation.head if node is None else find_node(self.graph, node)
        if head is None:
            raise SessionError("nothing was said yet, so there is nothing to branch from")
        record = schema.Session(
            name=name or self.name,
            origin=(self.id, head),
            metadata={key: v for key, v in self._record.metadata.items() if key != GRAPH},
        )
        self.journal.claim(record.id)
        record = self.journal.find_or_create(record)
        return registry.register(Session(record, self.journal, self.conversation.at(head)))

    def merge(
        self, heads: Iterable[str | Session] | None = None, name: str | None = None
    ) -> Session:
        """Return a new session that goes on from several heads at once.

        `heads` are ids in this session's graph, or other sessions, such as branches of this one;
        None: all heads of this one. A model is then sent what was said on the way to each of them,
        one branch after the other. Raises SessionError.
        """
        nodes = dict(self.graph.nodes)
        follows: list[str] = []
        for each in self.heads if heads is None else heads:
            if isinstance(each, Session):
                nodes |= {node.id: node for node in each.graph if node.id not in nodes}
                follows += each.conversation.heads
            else:
                follows.append(find_node(self.graph, each))
        if not follows:
            raise SessionError("nothing was said yet, so there is nothing to merge")
        covered = {node.id for node in Graph(nodes.values()).ancestors(*follows)}
        others = [each for each in self.heads if each not in covered]
        follows = list(dict.fromkeys(follows))
        beginning = replace(self.beginning, follows=tuple(follows), heads=(*follows, *others))
        record = schema.Session(
            name=name or self.name,
            metadata={**self._record.metadata, **beginning.to_metadata()},
        )
        return self.begin(self.journal, record, nodes.values())

    def make_current(self) -> None:
        """Let the notebook's next cells go on with this session; raises SessionError elsewhere."""
        if not current.choose(self):
            raise SessionError("there is no notebook here; give the session to Agent(session=…)")

    def listen(self, event: Event) -> Run:
        """Take in what happened, and hand it to the journal; the run as it is now."""
        before, run = self._run, fold(self._run, event)
        self.conversation.add(event)
        self.journal.append(self.id, run.id, event)
        self._run = run
        match event:
            case ApprovalRequested():
                self.journal.save()  # the person may take hours
            case PlanProposed():
                if before is not None and before.id != run.id:  # the person changed it
                    self._keep(before.move(RunStatus.CANCELLED))
                self._keep(run)
                self._set(pending_run_id=run.id)
            case RunStarted():
                self._activate()
                self._set(active_run_id=run.id, pending_run_id=None)
            case RunFinished():
                self._keep(run)
                self._set(
                    pending_run_id=None,
                    active_run_id=None,
                    last_run_id=run.id,
                    last_run_status=run.status,
                    last_run_at=run.started_at,
                )
                self._run = None  # the next one begins by itself
        return run

    async def recorded(self) -> None:
        """Return when everything so far is on the disk; raises JournalError."""
        # Shielded: a run that is stopped must not take back what others wait for as well.
        await asyncio.shield(asyncio.wrap_future(self.journal.flush()))

    def _keep(self, run: Run) -> None:
        """Add the run; a plan was there already while it waited."""
        self.runs.put(run)

    def _activate(self) -> None:
        if self._record.state is SessionState.INITIALIZING:
            self._record = self._record.move(SessionState.ACTIVE)

    def _set(self, **changes: Any) -> None:
        with self._changing:  # a run in the background and a cell may both do so
            self._record = self._record.model_copy(update=changes)

    def _change(self, **changes: Any) -> None:
        self._set(**changes)
        self.journal.update(self._record)


def find_node(graph: Graph, reference: str) -> str:
    """Return the id that is meant by an id, its short form, or its beginning; SessionError."""
    matching = [each for each in graph.nodes if reference in (each, handle(each))]
    matching = matching or [each for each in graph.nodes if each.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    what = "several steps are" if matching else "no step is"
    raise SessionError(f"{what} called {reference!r}; `%agent session graph` shows their ids")


def _in_memory(record: schema.Session) -> Journal:
    journal = Journal.open(None)
    journal.create(record)
    return journal


_newest: list[Run] = []


def remember(run: Run) -> None:
    """Make `run` the newest one, `ipyagent.last`."""
    _newest[:] = [run]


def newest_run() -> Run | None:
    """The newest run of this process; None before the first."""
    return _newest[0] if _newest else None
