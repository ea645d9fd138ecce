"""What a session begins with: a graph from a file, or from the sessions that it brings together.

Where it goes on from there, and what the file said beside the graph, is in the session's metadata,
so that the journal has it and the session is saved as it was loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ipyagent import schema
from ipyagent.agent.conversation import Conversation
from ipyagent.agent.service_switches import SERVICES
from ipyagent.errors import SessionError
from ipyagent.schema import Node
from ipyagent.schema.replayed import events_of
from ipyagent.store import graph_file

NOTEBOOK = "notebook"
"""Key in a session's metadata: the notebook that goes on with it."""

GRAPH = "graph"
"""Key in a session's metadata: what it began with, as a Beginning."""


@dataclass(frozen=True)
class Beginning:
    """The nodes that the first prompt `follows`, all `heads`, and what a file said beside them."""

    follows: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    session_id: str = ""
    created_at: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def to_metadata(self) -> dict[str, Any]:
        """Return it as a session's metadata."""
        return {GRAPH: _BEGINNING.dump_python(self, mode="json")}


_BEGINNING = TypeAdapter(Beginning)


def beginning_of(metadata: Mapping[str, Any]) -> Beginning | None:
    """Return what a session with this metadata began with; None where it began empty."""
    try:
        return _BEGINNING.validate_python(metadata[GRAPH])
    except (KeyError, ValidationError):  # metadata is free: it may be another program's key
        return None


def begun_with(record: schema.Session, nodes: Iterable[Node]) -> Conversation:
    """Return the conversation of a session before its first prompt; `nodes` are the journal's."""
    nodes = list(nodes)
    beginning, there = beginning_of(record.metadata), {node.id for node in nodes}
    follows = beginning.follows if beginning else ()
    return Conversation(nodes, *(each for each in follows if each in there))


def read_beginning(path: Path) -> tuple[list[Node], Beginning]:
    """Return what a saved graph holds, or a notebook's runs; raise SessionError."""
    if path.suffix != ".ipynb":
        file = graph_file.load(path)
        return list(file.graph), Beginning(
            file.heads[:1], file.heads, file.session_id, file.created_at, file.metadata, file.extra
        )
    conversation = Conversation()
    # By id: a cell that was copied brings its run along.
    for run in {each.id: each for each in graph_file.runs_in_notebook(path)}.values():
        for event in events_of(run):
            conversation.add(event)
    if conversation.head is None:
        raise SessionError(f"{path} holds no agent runs")
    return list(conversation.graph), Beginning(conversation.heads, conversation.heads)


def save_graph(path: Path, record: schema.Session, conversation: Conversation) -> None:
    """Write a session as a graph, with all that it was loaded with; raise SessionError."""
    beginning = beginning_of(record.metadata) or Beginning(metadata={"name": record.name})
    of_notebook = (GRAPH, NOTEBOOK, SERVICES)
    noted = {key: record.metadata[key] for key in record.metadata if key not in of_notebook}
    graph_file.save(
        path,
        conversation.graph,
        heads=heads_of(conversation, beginning),
        session_id=beginning.session_id or record.id,
        created_at=beginning.created_at or record.started_at,
        metadata={**beginning.metadata, **noted},
        extra=beginning.extra,
    )


def heads_of(conversation: Conversation, beginning: Beginning | None) -> tuple[str, ...]:
    """Return the ends of the branches that a conversation has, its own in the place it had."""
    now = conversation.heads
    if beginning is None or not beginning.heads:
        return now
    if now == beginning.follows:
        return beginning.heads
    covered = {node.id for node in conversation.graph.ancestors(*now)}
    heads: list[str] = []
    for each in beginning.heads:
        heads += [each] if each not in covered else now if now[0] not in heads else []
    return tuple(heads)
