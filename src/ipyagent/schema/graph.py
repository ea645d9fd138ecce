"""The conversation as a graph of nodes: messages, calls and branches.

SystemPrompt ─ ToolDefinitions ─ user ─ assistant ─┬─ ToolExecution ─┬─ tool results ─ …
                                                   └─ ToolExecution ─┘

A long session has thousands of nodes and uses the last few, so it keeps compact collections: the
newest records as objects, older ones as text or unread until needed.
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Generic, Literal, TypeVar
from weakref import WeakValueDictionary

from pydantic import ConfigDict, Discriminator, Field, Tag

from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.schema.messages import (
    ForeignModel,
    JsonObject,
    JsonValue,
    Message,
    Model,
    Moment,
    Text,
    TokenUsage,
    now,
)
from ipyagent.schema.results import ToolDefinition, ToolExecution
from ipyagent.schema.runs import StopReason

M = TypeVar("M", bound=Model)


class Packed(Mapping[str, M], Generic[M]):
    """Records of one kind by their ids, in the order in which they were put.

    A record that is still referenced elsewhere is returned as that very object, with everything
    that is never serialized. `read` returns a record that was only announced. Beyond the `live`
    ones, records are compressed in groups: to compress a short text takes as long as a long one.
    """

    def __init__(
        self, kind: type[M], live: int, read: Callable[[str], M] | None = None, group: int = 1
    ) -> None:
        self._kind, self._most, self._read, self._group = kind, live, read, group
        self._live: dict[str, M] = {}
        self._packed: dict[str, tuple[bytes, int] | None] = {}
        """The compressed group of each record, and its line there; None if it is not in one."""
        self._opened: tuple[bytes, list[bytes]] = b"", []
        """The group that was read last, with its lines."""
        self._held: WeakValueDictionary[str, M] = WeakValueDictionary()
        """Records that may still be referenced elsewhere."""

    def put(self, record_id: str, record: M) -> None:
        """Add a record as the newest; one with the same id is replaced."""
        if record_id in self._packed:
            self.drop(record_id)
        self._packed[record_id] = None
        self._live[record_id] = record
        if len(self._live) >= self._most + self._group:
            self._pack([*islice(self._live, self._group)])

    def replace(self, record_id: str, record: M) -> None:
        """Put a record in the place of the one with that id."""
        if record_id in self._live:
            self._live[record_id] = record
        else:
            self._live[record_id] = record
            self._pack([record_id])

    def announce(self, record_id: str) -> None:
        """Add the id of a record as the newest, which is read when it is asked for."""
        self._packed[record_id] = None

    def drop(self, record_id: str) -> None:
        """Remove a record, if present."""
        for known in (self._packed, self._live, self._held):
            known.pop(record_id, None)

    def __getitem__(self, record_id: str) -> M:
        if record_id in self._live:
            return self._live[record_id]
        if (record := self._held.get(record_id)) is not None:
            return record
        if (place := self._packed[record_id]) is not None:
            record = self._kind.model_validate_json(self._open(place[0])[place[1]])
        elif self._read is not None:
            record = self._read(record_id)
        else:
            raise KeyError(record_id)
        self._held[record_id] = record
        return record

    def __contains__(self, record_id: object) -> bool:
        return record_id in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._packed))

    def __reversed__(self) -> Iterator[str]:
        return reversed(tuple(self._packed))

    def __len__(self) -> int:
        return len(self._packed)

    def _pack(self, record_ids: list[str]) -> None:
        lines = (self._live[each].model_dump_json() for each in record_ids)
        group = zlib.compress("\n".join(lines).encode(), 1)
        for line, each in enumerate(record_ids):
            self._packed[each] = group, line
            self._held[each] = self._live.pop(each)

    def _open(self, group: bytes) -> list[bytes]:
        opened = self._opened
        if opened[0] is not group:
            self._opened = opened = group, zlib.decompress(group).split(b"\n")
        return opened[1]


class SystemPrompt(Model):
    """Instructions to the model; several are joined by a blank line."""

    type: Literal["system_prompt"] = "system_prompt"
    content: Text


class ToolDefinitions(Model):
    """The tools available from here on."""

    type: Literal["tool_definitions"] = "tool_definitions"
    tools: tuple[ToolDefinition, ...] = ()


_REASONS = {
    "end_turn": StopReason.FINISHED,
    "stop_sequence": StopReason.FINISHED,
    "stop": StopReason.FINISHED,
    "completed": StopReason.FINISHED,
    "length": StopReason.MAX_TOKENS,
}
"""Providers' names for stop reasons."""


def _stop_data(data: JsonDict) -> object:
    match data:
        case {"reason": str(word), **rest} if word not in set(StopReason):
            return rest | {"reason": _REASONS.get(word), "finish_reason": word}
    return data


class Stop(ForeignModel):
    """A run ended here; `usage` is that of all its steps.

    A provider's reason that is no StopReason is kept in `finish_reason`.
    """

    type: Literal["stop_reason"] = "stop_reason"
    reason: StopReason | None = None
    finish_reason: Text | None = None
    usage: TokenUsage = TokenUsage()

    _convert = _stop_data


class OpaqueData(Model):
    """Data of a newer version's node: kept as it came, never sent or shown."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)


_KINDS = ("system_prompt", "tool_definitions", "tool_execution", "stop_reason")


def _tag(data: object) -> str:
    if isinstance(data, Message):
        return "message"
    if isinstance(data, ToolExecution):
        return "tool_execution"
    known = data if isinstance(data, Mapping) else {"type": getattr(data, "type", None)}
    if (kind := known.get("type")) is not None:
        return kind if kind in _KINDS else "opaque"
    return "message" if "role" in known else "tool_execution" if "call" in known else "opaque"


NodeData = SystemPrompt | ToolDefinitions | Message | ToolExecution | Stop | OpaqueData

_DataField = Annotated[
    Annotated[SystemPrompt, Tag("system_prompt")]
    | Annotated[ToolDefinitions, Tag("tool_definitions")]
    | Annotated[Message, Tag("message")]
    | Annotated[ToolExecution, Tag("tool_execution")]
    | Annotated[Stop, Tag("stop_reason")]
    | Annotated[OpaqueData, Tag("opaque")],
    Discriminator(_tag),
]

OF_RUN = "of_run"
"""Key in the metadata of a system prompt: it applies until a run has others."""

READ = "read"
"""Key in the metadata of a prompt's context: the files whose contents stand in it."""
EDITED = "edited_from"
"""Key in a node's metadata: the id of the node that it is, but for its text."""
COMPACTED = "compacted"
"""Key in a summary's metadata: {"before": [ids], "after": [ids]} of what stays verbatim."""


_OF_A_RUN = re.compile(r"([0-9a-f]{4})[0-9a-f]{8}(-\d+)")


def handle(node_id: str) -> str:
    """Return the short form of a node's id: `3f2a-5`, the fifth node of a run."""
    if match := _OF_A_RUN.fullmatch(node_id):
        return match[1] + match[2]
    return node_id[:8]


class Node(Model):
    """One element of a conversation. Its parents come before it."""

    id: str = Field(default_factory=lambda: uuid.uuid4().hex[:12], min_length=1)
    parent_ids: tuple[str, ...] = ()
    data: _DataField
    timestamp: Moment = Field(default_factory=now)
    metadata: JsonObject = Field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.id)


def with_prompt(prompts: tuple[Node, ...], node: Node) -> tuple[Node, ...]:
    """Return the prompts in force after `node`: a run's own replace those of earlier runs."""
    if not isinstance(node.data, SystemPrompt):
        return prompts
    if node.metadata.get(OF_RUN):
        prompts = tuple(each for each in prompts if not each.metadata.get(OF_RUN))
    return (*prompts, node)


def text_of_prompts(prompts: Iterable[Node]) -> str:
    """Return the prompts as the model reads them."""
    return "\n\n".join(p.data.content for p in prompts if isinstance(p.data, SystemPrompt))


LIVE, GROUP = 100, 16
"""Nodes of a graph that are kept as objects at least, and that are packed together."""


class Graph:
    """Nodes by id; parents come before children. No operation recurses."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes = Packed(Node, LIVE, group=GROUP)
        self._parents: dict[str, tuple[str, ...]] = {}  # beside the nodes, which may be packed
        for node in nodes:
            self.add(node)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by id, parents before children."""
        return self._nodes

    def add(self, node: Node) -> None:
        """Add a node; raises ValueError for an id that is taken or a parent that is missing."""
        if node.id in self._parents:
            raise ValueError(f"two nodes have the id {node.id!r}")
        if missing := [each for each in node.parent_ids if each not in self._parents]:
            raise ValueError(f"node {node.id!r} follows {missing[0]!r}, which does not exist")
        self._parents[node.id] = node.parent_ids
        self._nodes.put(node.id, node)

    @property
    def heads(self) -> tuple[str, ...]:
        """The ids of nodes without children, in order."""
        parents = {parent for parents in self._parents.values() for parent in parents}
        return tuple(each for each in self._parents if each not in parents)

    def ancestor_ids(self, *heads: str) -> set[str]:
        """Return the ids of the nodes and all their ancestors; no node is loaded.

        Raises ValueError for an unknown node.
        """
        if missing := [each for each in heads if each not in self._parents]:
            raise ValueError(f"there is no node {missing[0]!r}")
        reached: set[str] = set()
        stack = [*heads]
        while stack:
            each = stack.pop()
            if each not in reached:
                reached.add(each)
                stack += self._parents[each]
        return reached

    def ancestors(self, *heads: str) -> list[Node]:
        """Return the nodes and all their ancestors, parents before children.

        Raises ValueError for an unknown node.
        """
        reached = self.ancestor_ids(*heads)
        return [self._nodes[each] for each in self._parents if each in reached]

    def to_dict(self) -> JsonDict:
        """Return the nodes by id, parents first, and the heads."""
        nodes = {each: node.to_dict() for each, node in self.nodes.items()}
        return {"nodes": nodes, "head_ids": list(self.heads)}

    @classmethod
    def from_dict(cls, data: JsonMapping) -> Graph:
        """Return the graph that `to_dict` described; raises ValueError otherwise."""
        return cls(map(Node.from_dict, data["nodes"].values()))

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)
