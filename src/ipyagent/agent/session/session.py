"""A live session: the conversation, its runs, and their record in the journal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast, overload

from pydantic import ValidationError

from ipyagent import schema
from ipyagent.agent import prompts, session as sessions_room
from ipyagent.agent.policy import Grants
from ipyagent.agent.session.branches import BranchDiff, compare_branches, edit_node
from ipyagent.agent.session.conversation import (
    GRAPH,
    Conversation,
    InitialGraph,
    branch_heads,
    initial_conversation,
    initial_graph_of,
    load_initial_graph,
    read_switches,
    save_graph,
    switches_to_metadata,
)
from ipyagent.errors import JournalError, SessionError
from ipyagent.json_types import JsonDict
from ipyagent.redaction import Redactor, known_secrets
from ipyagent.schema.graph import EDITED, Packed, handle
from ipyagent.schema.runs import AS_DRAFT
from ipyagent.store.journal import Journal
from ipyagent.store.runs import plan_name

LIVE = 3
"""Runs with the parts that are never recorded, such as the objects that tools returned."""


class RunList(Sequence[schema.Run]):
    """Runs by position, oldest first, and by id."""

    def __init__(
        self, unread: Iterable[str] = (), read: Callable[[str], schema.Run] | None = None
    ) -> None:
        """`read` returns the runs whose ids are `unread`, each when it is asked for."""
        self._runs = Packed(schema.Run, LIVE, read)
        for run_id in unread:
            self._runs.announce(run_id)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids, oldest first; nothing is loaded."""
        return tuple(self._runs)

    def add(self, run: schema.Run) -> None:
        """Add a run as the newest; a plan was in the list already while it waited."""
        self._runs.put(run.id, run)

    def replace(self, run: schema.Run) -> None:
        """Put a run in the place of the one with its id."""
        self._runs.replace(run.id, run)

    def get(self, run_id: str | None) -> schema.Run | None:
        """Return the run with that id, or None."""
        return self._runs[run_id] if run_id is not None and run_id in self._runs else None

    @overload
    def __getitem__(self, place: int) -> schema.Run: ...
    @overload
    def __getitem__(self, place: slice) -> list[schema.Run]: ...
    def __getitem__(self, place: int | slice) -> schema.Run | list[schema.Run]:
        if isinstance(place, slice):
            return [self._runs[each] for each in self.ids[place]]
        return self._runs[self.ids[place]]

    def __iter__(self) -> Iterator[schema.Run]:
        return (self._runs[each] for each in self.ids)

    def __len__(self) -> int:
        return len(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RunList({len(self)} runs)"


class CellKeys:
    """The keys of what the cells of this kernel asked for, in the order of their first execution.

    A cell that is executed again keeps its place, as it has one place in the notebook.
    """

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self.starts: dict[str, tuple[str, ...]] = {}
        """The heads of the conversation before each cell's first prompt in it."""

    def key_before(self, cell_id: str | None) -> str:
        """Return the key of the cell before; "start" for the first one."""
        cells = list(self._keys)
        place = cells.index(cell_id) if cell_id in self._keys else len(cells)
        return self._keys[cells[place - 1]] if place else "start"

    def add(self, cell_id: str | None, key: str) -> None:
        """Note what a cell asks for."""
        self._keys[cell_id or f"#{len(self._keys)}"] = key

    def copy_for(self, branch: Conversation) -> CellKeys:
        """Return the same for a branch, with the starts of the cells that are in it."""
        copy, nodes = CellKeys(), branch.graph.nodes
        copy._keys |= self._keys
        for cell_id, heads in self.starts.items():
            if heads != branch.heads and all(each in nodes for each in heads):
                copy.starts[cell_id] = heads
        return copy


class Session:
    """A session that every prompt continues. Without `record` it gets a new one in the journal.

    `run_ids` are those of its earlier runs, which are read when they are asked for.
    """

    def __init__(
        self,
        record: schema.Session | None = None,
        journal: Journal | None = None,
        conversation: Conversation | None = None,
        run_ids: Iterable[str] = (),
    ) -> None:
        self._record = record or schema.Session()
        self.journal = journal or _memory_journal(self._record)
        self.conversation = conversation or Conversation()
        self.runs = RunList(run_ids, self.journal.run)
        self.validators: list[prompts.Validator] = []
        """Functions that check each prompt first; one that raises ValueError refuses it."""
        self.invented: frozenset[str] = frozenset()
        """Numbers in a delegated task that the model who wrote it had made up."""
        self.grants = Grants()
        """The calls that are allowed for this session."""
        self.compact_next = False
        """True if the conversation is compacted before the next request."""
        self.notices: tuple[str, ...] = ()
        """Notices for the user beside the runs, as of the beginning of the newest run."""
        self.cells = CellKeys()
        self._changing = threading.Lock()
        if self.runs:
            self._activate()

    @classmethod
    def current(cls) -> Session | None:
        """Return the notebook's session, started if necessary; None without the extension."""
        provider = sessions_room.provider
        return None if provider is None else cast("Session", provider.get_session())

    @classmethod
    def load(cls, path: str | Path) -> Session:
        """Load a saved graph, or a notebook's runs, into memory; raises SessionError."""
        nodes, beginning = load_initial_graph(Path(path))
        given: JsonDict = {"name": Path(path).stem, "metadata": beginning.to_metadata()}
        record = schema.Session.from_dict(given)
        for changes in ({"id": beginning.session_id}, {"started_at": beginning.created_at}):
            with contextlib.suppress(ValidationError):  # no UUID, or no time that can be
                record = schema.Session.from_dict({**given, **changes})
                given |= changes
        return cls.begin(Journal.open(None), record, nodes)

    @classmethod
    def begin(
        cls, journal: Journal, record: schema.Session, nodes: Iterable[schema.Node] = ()
    ) -> Session:
        """Start a session with `nodes`; a number is appended if the name is taken."""
        conversation = initial_conversation(record, nodes)
        record = journal.find_or_create(record, conversation.graph)
        return cls(record, journal, conversation).register()

    @property
    def record(self) -> schema.Session:
        """The session as data, with its prompts and answers."""
        waiting = None
        with contextlib.suppress(JournalError):  # then nobody can decide on a plan either
            waiting = self.waiting_plan_id
        changes = {"messages": self.history, "pending_run_id": waiting}
        return self._record.model_copy(update=changes)

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
        """The name that the user gave."""
        return self._record.name

    @property
    def state(self) -> schema.SessionState:
        """Its state; it becomes active with its first run."""
        return self._record.state

    @property
    def started_at(self) -> datetime:
        """The time at which it began."""
        return self._record.started_at

    @property
    def metadata(self) -> JsonDict:
        """Its metadata, saved with it; `annotate` adds to it."""
        beginning = initial_graph_of(self._record.metadata) or InitialGraph()
        noted = {key: value for key, value in self._record.metadata.items() if key != GRAPH}
        return {**beginning.metadata, **noted}

    @property
    def history(self) -> tuple[schema.Message, ...]:
        """All prompts and answers, including those that a summary replaces for the model."""
        return tuple(self.conversation.history)

    @property
    def message_count(self) -> int:
        """The number of prompts and answers."""
        return len(self.conversation.history)

    @property
    def messages(self) -> list[schema.Message]:
        """The messages sent to a model."""
        return self.conversation.messages

    @property
    def graph(self) -> schema.Graph:
        """Everything said and done, as a graph."""
        return self.conversation.graph

    @property
    def head(self) -> str | None:
        """The id of the newest node."""
        return self.conversation.head

    @property
    def heads(self) -> tuple[str, ...]:
        """The ids of the ends of all branches; the next prompt continues from `head`."""
        return branch_heads(self.conversation, initial_graph_of(self._record.metadata))

    @property
    def continuation(self) -> InitialGraph:
        """The initial graph of a session that continues this one."""
        before = initial_graph_of(self._record.metadata) or InitialGraph()
        now = self.conversation
        return replace(before, follows=now.heads, heads=self.heads, origins=now.origins)

    @property
    def waiting_plan_id(self) -> str | None:
        """The id of the plan that waits for the user; raises JournalError."""
        stored = self.journal.session(self.id)
        return stored.pending_run_id if stored else None

    @property
    def waiting_plan_name(self) -> str | None:
        """The name of the plan that waits for the user; raises JournalError."""
        waiting = self.waiting_plan_id
        return plan_name(self.journal.run(waiting).plan) if waiting else None

    def cancel_plan(
        self,
        plan: schema.Run,
        reason: schema.StopReason,
        error: str | None = None,
        emit: Callable[[schema.Event], object] | None = None,
    ) -> None:
        """Cancel a plan that never ran, and record the events.

        `emit` passes them to the view that shows the plan, if any. The plan may have been cancelled
        before. Raises JournalError.
        """
        with contextlib.suppress(SessionError):  # cancelled already
            self.journal.cancel(self.id, plan.id)
        draft = schema.PlanProposed(run=plan.model_copy(update=AS_DRAFT))
        status = schema.RunStatus.CANCELLED
        end = schema.RunFinished(status=status, stop_reason=reason, error=error, duration=0.0)
        if emit is None:
            self.apply_event(end, self.apply_event(draft))
        else:
            emit(draft)
            emit(end)

    def check_ready(self) -> None:
        """Raise SessionError if it takes no prompts now."""
        self.check_open()
        if plan := self.waiting_plan_name:
            raise SessionError(
                f"a plan waits for you ({plan}): `%agent approve` or `%agent deny` it first"
            )

    def take_notices(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the notices that were not given in this session before.

        A notice that was withdrawn meanwhile is given again.
        """
        before, self.notices = self.notices, tuple(dict.fromkeys(texts))
        return tuple(text for text in self.notices if text not in before)

    def check_open(self) -> None:
        """Raise SessionError if it was ended."""
        if self._record.state is schema.SessionState.TERMINATED:
            raise SessionError(
                f"the session {self.name or self.id!r} has ended; begin another with "
                "`%agent session new`"
            )

    def end(self) -> None:
        """Take no more prompts and cancel a waiting plan. Raises JournalError.

        Ending twice does nothing.
        """
        if self._record.state is not schema.SessionState.TERMINATED:
            if plan := self.journal.waiting_plan(self.id):
                self.cancel_plan(plan, schema.StopReason.DENIED)
            self._save_record(state=self._record.move(schema.SessionState.TERMINATED).state)

    def annotate(self, **metadata: str) -> None:
        """Add to the record's metadata; raises JournalError."""
        self._save_record(metadata={**self._record.metadata, **metadata})

    @property
    def services(self) -> dict[str, bool]:
        """The switches of its notebook, by names such as `api:shop`."""
        return read_switches(self._record.metadata)

    def switch_services(self, switches: Mapping[str, bool | None]) -> None:
        """Switch services for its notebook alone; None: as the folder has it."""
        wanted = {**self.services, **switches}
        new = {name: on for name, on in wanted.items() if on is not None}
        if new != self.services:
            self.annotate(**switches_to_metadata(new))

    def save(self, path: str | Path) -> None:
        """Write the conversation to a JSON file, as a graph; raises SessionError."""
        save_graph(Path(path), self._record, self.conversation)

    def branch(self, node: str | None = None, name: str | None = None) -> Session:
        """Return a new session that shares everything up to `node` (None: all of it).

        `node` is an id of the graph, or its beginning. From there on the two sessions are
        independent. Raises SessionError.
        """
        if node is None and len(self.conversation.heads) > 1:
            return self.merge(self.conversation.heads, name)
        head = self.conversation.head if node is None else find_node(self.graph, node)
        if head is None:
            raise SessionError("the conversation is empty, so there is nothing to branch from")
        record = schema.Session(
            name=name or self.name,
            origin=(self.id, head),
            metadata={key: v for key, v in self._record.metadata.items() if key != GRAPH},
        )
        record = self.journal.find_or_create(record)
        branch = Session(record, self.journal, self.conversation.up_to(head)).register()
        return self._hand_on(branch)

    def continue_from(self, heads: tuple[str, ...]) -> Session:
        """Return a new session with the conversation up to these nodes; empty without any."""
        if len(heads) == 1:
            return self.branch(heads[0])
        beginning = self._begin_at(heads)
        return self._begin_branch(beginning, self.graph.ancestors(*heads))

    def edit(self, node: str, text: str, name: str | None = None) -> Session:
        """Return a new session in which that node has another text, and nothing comes after it.

        `node` is an id of the graph, or its beginning: a prompt, an answer, a system prompt, or a
        call, whose result is replaced. An edited prompt is answered by the next request if that
        has no prompt of its own. Raises AgentError, also for a text that a validator refuses.
        """
        prompts.validate(
            text, (prompts.check_not_empty, *prompts.installed_validators(), *self.validators)
        )
        clean = Redactor(known_secrets(os.environ)).text(text)
        nodes = edit_node(self.graph, find_node(self.graph, node), clean)
        return self._begin_branch(self._begin_at((nodes[-1].id,)), nodes, name)

    def diff(self, other: Session | str) -> BranchDiff:
        """Return where another session parts from this one, and what each holds after that.

        `other` may be a node of this session: then it is the branch that ends there. Printing the
        result shows it. Raises SessionError.
        """
        if isinstance(other, Session):
            theirs = other.name, other.conversation
        else:
            theirs = handle(other), self.conversation.up_to(find_node(self.graph, other))
        return compare_branches((self.name, self.conversation), theirs)

    def _begin_at(self, heads: tuple[str, ...]) -> InitialGraph:
        whole = self.continuation
        return replace(whole, follows=heads, heads=heads, session_id="", created_at=None)

    def _begin_branch(
        self, beginning: InitialGraph, nodes: Iterable[schema.Node], name: str | None = None
    ) -> Session:
        metadata = {**self._record.metadata, **beginning.to_metadata()}
        record = schema.Session(name=name or self.name, metadata=metadata)
        return self._hand_on(self.begin(self.journal, record, nodes))

    def _hand_on(self, branch: Session) -> Session:
        """Return a branch, with the cells that are in it and the checks of prompts."""
        branch.cells = self.cells.copy_for(branch.conversation)
        branch.validators += self.validators
        return branch

    def merge(
        self, heads: Iterable[str | Session] | None = None, name: str | None = None
    ) -> Session:
        """Return a new session that continues from several heads at once.

        `heads` are ids in this session's graph, or other sessions, such as branches of this one;
        None: all heads of this one. A model is sent what leads to each of them, one branch after
        the other. Raises SessionError.
        """
        nodes = dict(self.graph.nodes)
        follows: list[str] = []
        origins = self.conversation.origins
        for each in self.heads if heads is None else heads:
            if isinstance(each, Session):
                nodes |= {node.id: node for node in each.graph if node.id not in nodes}
                follows += each.conversation.heads
                origins += each.conversation.origins
            else:
                follows.append(find_node(self.graph, each))
        if not follows:
            raise SessionError("the conversation is empty, so there is nothing to merge")
        covered = schema.Graph(nodes.values()).ancestor_ids(*follows)
        others = [each for each in self.heads if each not in covered]
        follows = list(dict.fromkeys(follows))
        beginning = replace(
            self.continuation,
            follows=tuple(follows),
            heads=(*follows, *others),
            origins=tuple(dict.fromkeys(origins)),
        )
        return self._begin_branch(beginning, nodes.values(), name)

    def make_current(self) -> None:
        """Continue the notebook's next cells with this session; raises SessionError elsewhere."""
        if sessions_room.provider is None:
            raise SessionError("there is no notebook here; give the session to Agent(session=…)")
        sessions_room.provider.use_session(self)

    def register(self) -> Session:
        """Make this the object that is returned when this session is opened in this process."""
        self.journal.open_sessions[self.id] = self
        return self

    def apply_event(
        self, event: schema.Event, before: schema.RunState | None = None
    ) -> schema.RunState:
        """Apply an event to its run's state, and pass it to the journal; return the new state."""
        if before is not None and before.run.is_finished:
            before = None  # the next run begins anew
        state = schema.advance(before, event)
        run = state.run
        self.conversation.add(event)
        self.journal.append(self._record.id, run.id, event, state.open_message)
        match event:
            case schema.ApprovalRequested():
                self.journal.save()  # the user may take hours
            case schema.PlanProposed():
                if before is not None and before.run.id != run.id:  # the user changed it
                    self.runs.add(before.run.move(schema.RunStatus.CANCELLED))
                self.runs.add(run)
            case schema.RunStarted():
                self._activate()
                self._update_record(active_run_id=run.id)
            case schema.RunFinished():
                self.runs.add(run)
                self._update_record(
                    active_run_id=None,
                    last_run_id=run.id,
                    last_run_status=run.status,
                    last_run_at=run.started_at,
                )
        return state

    def note_undo(self, run: schema.Run, calls: Iterable[str], stays: Iterable[str]) -> schema.Run:
        """Record which calls of a run are taken back now, and what stays; return the run.

        Raises JournalError.
        """
        run = self.journal.note_undo(self.id, run, calls, stays)
        self.runs.replace(run)
        return run

    async def wait_until_recorded(self) -> None:
        """Wait until everything so far is on the disk; raises JournalError."""
        recorded = self.journal.flush()
        if recorded.done():
            recorded.result()
        else:  # shielded: others may wait for the same result when this run is stopped
            await asyncio.shield(asyncio.wrap_future(recorded))

    def _activate(self) -> None:
        if self._record.state is schema.SessionState.INITIALIZING:
            self._record = self._record.move(schema.SessionState.ACTIVE)

    def _update_record(self, **changes: object) -> None:
        with self._changing:  # a run in the background and a cell may both do so
            self._record = self._record.model_copy(update=changes)

    def _save_record(self, **changes: object) -> None:
        self._update_record(**changes)
        self.journal.update(self._record)


def find_node(graph: schema.Graph, reference: str) -> str:
    """Return the full id for an id, its short form, or its beginning; raises SessionError."""
    matching = [each for each in graph.nodes if reference in (each, handle(each))]
    matching = matching or [each for each in graph.nodes if each.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    what = "several steps are" if matching else "no step is"
    text = f"{what} called {reference!r}; `%agent session graph` shows their ids"
    edits = [(str(node.metadata[EDITED]), node.id) for node in graph if EDITED in node.metadata]
    if edits and not matching:
        now = ", ".join(f"{handle(before)} is {handle(after)}" for before, after in edits)
        text += f". Edited here: {now}. What came after it stayed in the session before the edit"
    raise SessionError(text)


def _memory_journal(record: schema.Session) -> Journal:
    journal = Journal.open(None)
    journal.create(record)
    return journal
