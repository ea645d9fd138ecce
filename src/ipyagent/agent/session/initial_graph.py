"""The initial graph of a session: from a file, or from the sessions that it merges.

The heads and the other contents of the file are kept in the session's metadata, so the journal has
them and the session is saved as it was loaded. So are the services that are switched on or off for
its notebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ipyagent import schema
from ipyagent.agent.session.conversation import Conversation
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict, JsonMapping, object_of, parse_json
from ipyagent.plaintext import visible
from ipyagent.schema import Node
from ipyagent.schema.state import conversation_events
from ipyagent.store import graph_file

SERVICES = "services"
"""Key in a session's metadata: names such as `api:shop`, each on or off, as JSON."""


def read_switches(metadata: JsonMapping) -> dict[str, bool]:
    """Return the switches; metadata is free-form, so anything else counts as none."""
    switches = object_of(parse_json(metadata.get(SERVICES)))
    return {name: on for name, on in switches.items() if isinstance(on, bool)}


def switches_to_metadata(switches: Mapping[str, bool]) -> dict[str, str]:
    """Return the metadata that `read_switches` reads."""
    return {SERVICES: json.dumps(dict(switches))}


NOTEBOOK = "notebook"
"""Key in a session's metadata: the notebook that continues it."""

GRAPH = "graph"
"""Key in a session's metadata: its InitialGraph."""


@dataclass(frozen=True, kw_only=True)
class InitialGraph(graph_file.GraphFacts):
    """The nodes that the first prompt `follows`, all `heads`, and the file's other contents.

    `origins` names the files that the graph was brought from.
    """

    follows: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def to_metadata(self) -> JsonDict:
        """Return it as a session's metadata."""
        return {GRAPH: _ADAPTER.dump_python(self, mode="json")}


_ADAPTER = TypeAdapter(InitialGraph)


def initial_graph_of(metadata: JsonMapping) -> InitialGraph | None:
    """Return the initial graph in a session's metadata; None if the session began empty."""
    try:
        return _ADAPTER.validate_python(metadata[GRAPH])
    except (KeyError, ValidationError):  # metadata is free: it may be another program's key
        return None


def initial_conversation(record: schema.Session, nodes: Iterable[Node]) -> Conversation:
    """Return the conversation of a session before its first prompt; `nodes` are the journal's."""
    nodes = list(nodes)
    beginning, there = initial_graph_of(record.metadata), {node.id for node in nodes}
    follows = beginning.follows if beginning else ()
    conversation = Conversation(nodes, *(each for each in follows if each in there))
    conversation.add_origins(beginning.origins if beginning else ())
    return conversation


def load_initial_graph(path: Path) -> tuple[list[Node], InitialGraph]:
    """Return the nodes of a saved graph, or of a notebook's runs; raise SessionError."""
    origins = (visible(path.name),)
    if path.suffix != ".ipynb":
        facts = {**vars(graph_file.load(path))}
        graph = facts.pop("graph")
        return list(graph), InitialGraph(**facts, follows=facts["heads"][:1], origins=origins)
    conversation = Conversation()
    # By id: a cell that was copied brings its run along.
    for run in {each.id: each for each in graph_file.runs_in_notebook(path)}.values():
        for event in conversation_events(run):
            conversation.add(event)
    if conversation.head is None:
        raise SessionError(f"{path} holds no agent runs")
    heads = conversation.heads
    return list(conversation.graph), InitialGraph(heads=heads, follows=heads, origins=origins)


def mark_origin(record: schema.Session, origin: str) -> schema.Session:
    """Return the record of a session that was brought along from `origin`."""
    beginning = initial_graph_of(record.metadata) or InitialGraph()
    marked = replace(beginning, origins=(*beginning.origins, origin))
    return record.model_copy(update={"metadata": {**record.metadata, **marked.to_metadata()}})


def save_graph(path: Path, record: schema.Session, conversation: Conversation) -> None:
    """Write a session as a graph, with all that it was loaded with; raise SessionError."""
    beginning = initial_graph_of(record.metadata) or InitialGraph(metadata={"name": record.name})
    of_notebook = (GRAPH, NOTEBOOK, SERVICES)
    noted = {key: record.metadata[key] for key in record.metadata if key not in of_notebook}
    facts = replace(
        beginning,
        heads=branch_heads(conversation, beginning),
        session_id=beginning.session_id or record.id,
        created_at=beginning.created_at or record.started_at,
        metadata={**beginning.metadata, **noted},
    )
    graph_file.save(path, conversation.graph, facts)


def branch_heads(conversation: Conversation, beginning: InitialGraph | None) -> tuple[str, ...]:
    """Return the ends of all branches of a conversation; its own end keeps its place."""
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
