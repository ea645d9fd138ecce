"""Conversations in files: a graph as JSON in nano-agent's layout, and a notebook's runs.

{"session_id", "created_at", "metadata", "head_ids": [id, …], "nodes": {id: {"id", "parent_ids",
"data", "timestamp", "metadata"}}}

All that nano-agent's loader reads has its names. Extra content stands beside it, and content of
another shape is added whole, under OWN. Its loader skips both.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ipyagent import schema
from ipyagent.atomic_files import replace_file
from ipyagent.compat import block_text, convert_blocks
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict, as_json, object_of
from ipyagent.plaintext import join_some
from ipyagent.schema.run_states import RUN_MIME, fill_from_html
from ipyagent.store.runs import describe_error, is_whole, load_tolerant

OWN = "ipyagent"
"""The key of our own record of a node's data."""

AS_LOADED = "ipyagent:as_loaded"
"""Key in a node's metadata: the original node of the file, if it would be written differently."""

EMPTY = "empty_message"
"""The type of data of an empty message."""

_NODE = TypeAdapter(schema.Node)


def shape_of(node: schema.Node) -> JsonDict:
    """Return the node as JSON types."""
    as_loaded = node.metadata.get(AS_LOADED)
    if isinstance(as_loaded, dict):
        return as_loaded
    return {
        "id": node.id,
        "parent_ids": list(node.parent_ids),
        "data": _shape(node.data),
        "timestamp": node.timestamp.timestamp(),
        "metadata": node.metadata,
    }


def node_of(shape: JsonDict) -> tuple[schema.Node, list[str]]:
    """Return the node, and its unknown keys; raises ValueError.

    A node that would be written differently is kept in its metadata, to be saved as it was.
    """
    data = shape.get("data")
    read = {**shape, "data": _data(data, shape)} if isinstance(data, dict) else shape
    node, unknown = load_tolerant(_NODE, read)
    if unknown or shape_of(node) != shape:
        metadata = {**node.metadata, AS_LOADED: as_json(shape)}
        node = node.model_copy(update={"metadata": metadata})
    return node, unknown


def _shape(data: schema.NodeData) -> JsonDict:
    match data:
        case schema.Message(role=schema.Role.SYSTEM):
            return {"type": "system_prompt", "content": data.text, OWN: data.to_dict()}
        case schema.Message():
            shape = data.to_dict()
            return shape | {"content": [_block_shape(block) for block in shape["content"]]}
        case schema.OpaqueData():
            content = data.to_dict()
            message = content.get("message") if content.get("type") == EMPTY else None
            return message if isinstance(message, dict) else content
        case schema.ToolExecution():
            return _execution_shape(data)
        case schema.Stop():
            reason = data.finish_reason or data.reason or "unknown"
            usage = data.usage.to_anthropic()
            return {
                "type": "stop_reason",
                "reason": str(reason),
                "usage": usage,
                OWN: data.to_dict(),
            }
    return data.to_dict()


def _block_shape(block: JsonDict) -> JsonDict:
    match block:
        case {"type": "tool_call", "arguments": arguments, **rest}:
            return rest | {"type": "tool_use", "input": arguments}
        case {"type": "image", "media_type": media_type, "data": data, **rest}:
            source = {"type": "base64", "media_type": media_type, "data": data}
            return rest | {"type": "image", "source": source}
        case {"type": "tool_result", "content": content, **rest}:
            return rest | {"type": "tool_result", "content": [_block_shape(b) for b in content]}
    return block


def _execution_shape(execution: schema.ToolExecution) -> JsonDict:
    """Return the execution; text and images of its result stand outside of our record, once."""
    own = execution.to_dict()
    result = own["result"] or {}
    text, images = result.pop("output", ""), result.pop("images", [])
    blocks = [{"type": "text", "text": text}] if text else []
    return {
        "type": "tool_execution",
        "tool_name": execution.call.name,
        "tool_use_id": execution.call.id,
        "result": [*blocks, *map(_block_shape, images)],
        "is_error": execution.result is not None and not execution.result.success,
        OWN: own,
    }


def _data(data: JsonDict, shape: JsonDict) -> JsonDict:
    """Return the data in the form that the schema reads."""
    own = data.get(OWN)
    if isinstance(own, dict):
        return _own(own, data)
    if "role" in data and "type" not in data:
        return _message(data, shape)
    return data


def _own(own: JsonDict, data: JsonDict) -> JsonDict:
    result = own.get("result")
    if not isinstance(result, dict):
        return own
    blocks = data.get("result")
    blocks = blocks if isinstance(blocks, list) else []
    images = [block for block in blocks if block_text(block) is None]
    output = "".join(block_text(block) or "" for block in blocks)
    return own | {"result": result | {"output": output, "images": images}}


def _message(data: JsonDict, shape: JsonDict) -> JsonDict:
    """Return a message, kept even if it would not be valid as new input here."""
    content = convert_blocks(data.get("content"))
    texts = (
        [block_text(block) for block in content] if isinstance(content, (list, tuple)) else [None]
    )
    if all(text is not None and not text.strip() for text in texts):
        return {"type": EMPTY, "message": data}
    if "timestamp" in shape:
        data = {"timestamp": shape["timestamp"]} | data
    if (
        sum(len(text or "") for text in texts) > schema.MAX_TYPED
        and data["role"] == schema.Role.USER
    ):
        data = {"synthetic": True} | data
    return data


MOST = 5
"""Nodes that a warning names."""

_KNOWN = {"session_id", "created_at", "metadata", "head_ids", "nodes"}
_RUN = TypeAdapter(schema.Run)


@dataclass(frozen=True, kw_only=True)
class GraphFacts:
    """The content of a file beside its nodes; the conversation can continue from its `heads`."""

    heads: tuple[str, ...] = ()
    session_id: str = ""
    created_at: datetime | None = None
    metadata: JsonDict = field(default_factory=dict)
    extra: JsonDict = field(default_factory=dict)
    """Other content of the file, unknown to this version or written differently by it."""


@dataclass(frozen=True, kw_only=True)
class LoadedGraph(GraphFacts):
    """The content of a file."""

    graph: schema.Graph


def save(path: Path, graph: schema.Graph, facts: GraphFacts | None = None) -> None:
    """Write a graph; `heads` default to its leaves, the time to now. Raises SessionError.

    The file appears as a whole or not at all, and replaces only another saved graph.
    """
    facts = facts or GraphFacts()
    content = {
        **_facts_shape(facts),
        **facts.extra,
        "head_ids": facts.heads or graph.heads,
        "nodes": {node.id: shape_of(node) for node in graph},
    }
    if path.exists() and not _is_graph(path):
        raise SessionError(f"{path} exists and is not a saved session; choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(content, ensure_ascii=False, indent=1))
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror}") from None


def _facts_shape(facts: GraphFacts) -> JsonDict:
    return {
        "session_id": facts.session_id,
        "created_at": (facts.created_at or datetime.now(UTC)).timestamp(),
        "metadata": facts.metadata,
    }


def load(path: Path) -> LoadedGraph:
    """Load a graph from a file, written here or by nano-agent; raises SessionError.

    Content unknown to this version is kept for the next `save`, with a warning.
    """
    content = _json(path)
    shapes = content.get("nodes")
    if not isinstance(shapes, dict) or not all(isinstance(s, dict) for s in shapes.values()):
        raise SessionError(f"{path} is not a saved session: it has no object `nodes`")
    graph, unknown = schema.Graph(), {*content} - _KNOWN
    for name in _parents_first(path, {name: _parents(path, name, s) for name, s in shapes.items()}):
        node, dropped = _node(path, name, shapes[name])
        unknown.update(dropped)
        graph.add(node)
    if unknown:
        _warn(f"{path} has keys that this version does not know: {', '.join(sorted(unknown))}")
    strange = (node for node in graph if isinstance(node.data, schema.OpaqueData))
    if kinds := [f"{n.id} ({_kind(n)})" for n in strange if _kind(n) != EMPTY]:
        _warn(
            f"{path} has nodes of kinds that this version does not know: "
            f"{join_some(kinds, MOST)}. They are not sent to models"
        )
    heads = content.get("head_ids")
    known = tuple(head for head in heads if head in shapes) if isinstance(heads, list) else ()
    loaded = LoadedGraph(
        graph=graph,
        heads=known or graph.heads,
        session_id=str(content.get("session_id") or ""),
        created_at=_moment(content.get("created_at")),
        metadata=object_of(content.get("metadata")),
    )
    same = {**_facts_shape(loaded), "head_ids": heads, "nodes": shapes}.items()
    # A number that is not one differs from itself, and is not JSON.
    extra = {key: each for key, each in content.items() if (key, each) not in same and each == each}
    return replace(loaded, extra=extra)


def runs_in_notebook(path: Path) -> list[schema.Run]:
    """Return the runs in a notebook's outputs, in the order of its cells; raises SessionError."""
    cells = _json(path).get("cells")
    if not isinstance(cells, list):
        raise SessionError(f"{path} is not a notebook: it has no list `cells`")
    runs: dict[str, schema.Run] = {}
    unknown: set[str] = set()
    for number, cell in enumerate(cells, start=1):
        for data in _runs_in(cell):
            try:
                run, dropped = load_tolerant(_RUN, data)
            except ValidationError as error:
                raise SessionError(
                    f"{path}, cell {number}: the run {describe_error(error)}"
                ) from None
            unknown.update(dropped)
            # A copied cell has copied outputs; a plan that waited in one cell ran in another.
            if run.id not in runs or not runs[run.id].is_finished:
                runs[run.id] = run
    if unknown:
        names = ", ".join(sorted(unknown))
        warnings.warn(
            f"{path} was written by a newer version; this was left out: {names}", stacklevel=2
        )
    return list(runs.values())


_MOST_NOTEBOOKS = 100


class NotebookRecordings:
    """The runs that are saved in the outputs of notebooks."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, int], list[schema.Run]]] = {}
        self.times_read = 0
        """How many files were read: what finding a run costs."""

    def list_runs(self, paths: Iterable[Path]) -> Iterator[schema.Run]:
        """Yield the runs that can be repeated, those of known and unchanged files first."""
        states = {path: state for path in paths if (state := _state_of(path)) is not None}
        known = [path for path in states if self._read.get(path, (None,))[0] == states[path]]
        for path in dict.fromkeys([*known, *states]):
            if path not in known:
                self._read[path] = states[path], list(self._read_file(path))
            yield from reversed(self._read[path][1])

    def _read_file(self, path: Path) -> Iterator[schema.Run]:
        self.times_read += 1
        # A broken notebook beside this one holds no recordings.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of newer versions
            if RUN_MIME.encode() in path.read_bytes():
                yield from (run for run in runs_in_notebook(path) if is_whole(run))


def list_notebooks(folder: Path, own: str) -> list[Path]:
    """Return the notebooks in a folder, the one called `own` first."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".ipynb")]  # noqa: PTH208 - it is quick
    except OSError:
        return []
    return [folder / name for name in sorted(names, key=lambda name: (name != own, name))][
        :_MOST_NOTEBOOKS
    ]


def _state_of(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):  # reading a pipe or a device has no end
            return status.st_mtime_ns, status.st_size
    return None


def _runs_in(cell: object) -> list[object]:
    if not isinstance(cell, dict):
        return []
    bundles = [o.get("data") for o in cell.get("outputs") or () if isinstance(o, dict)]
    saved = [b for b in bundles if isinstance(b, dict) and RUN_MIME in b]
    for bundle in saved:
        html = bundle.get("text/html")
        lines = html if isinstance(html, list) else [html]
        fill_from_html(bundle[RUN_MIME], "".join(map(str, lines)))
        if isinstance(bundle[RUN_MIME], dict):  # copied cells have ids of their own, or none
            bundle[RUN_MIME]["cell_id"] = cell.get("id")
    return [bundle[RUN_MIME] for bundle in saved]


def _node(path: Path, name: str, shape: JsonDict) -> tuple[schema.Node, list[str]]:
    try:
        node, dropped = node_of({"id": name} | shape)
    except (ValueError, TypeError) as error:
        raise SessionError(f"{path}, node {name!r}: {describe_error(error)}") from None
    if node.id != name:
        raise SessionError(f"{path}, node {name!r}: it calls itself {node.id!r}")
    return node, dropped


def _parents(path: Path, name: str, shape: JsonDict) -> list[str]:
    parents = shape.get("parent_ids", [])
    if not isinstance(parents, list) or not all(isinstance(each, str) for each in parents):
        raise SessionError(f"{path}, node {name!r}: its parent_ids must be a list of ids")
    return parents


def _parents_first(path: Path, parents: dict[str, list[str]]) -> list[str]:
    """Return the ids in the order of the file, as far as parents come before their children."""
    for name, each in parents.items():
        if missing := sorted(parent for parent in each if parent not in parents):
            raise SessionError(f"{path}, node {name!r}: it follows {missing[0]!r}, not in the file")
    order: dict[str, None] = {}
    for begin in parents:
        waiting = {} if begin in order else {begin: None}
        while waiting:
            name = next(reversed(waiting))
            parent = next((each for each in parents[name] if each not in order), None)
            if parent is None:
                order[waiting.popitem()[0]] = None
            elif parent in waiting:
                cycle = "it follows itself, directly or through others"
                raise SessionError(f"{path}, node {parent!r}: {cycle}")
            else:
                waiting[parent] = None
    return [*order]


def _json(path: Path) -> JsonDict:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SessionError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise SessionError(f"{path} holds no JSON object")
    return content


def _is_graph(path: Path) -> bool:
    with contextlib.suppress(SessionError):
        return {"nodes", "head_ids"} <= _json(path).keys()
    return False


def _warn(problem: str) -> None:
    warnings.warn(f"{problem}. They are kept as they are when it is saved again.", stacklevel=3)


def _kind(node: schema.Node) -> str:
    return str(getattr(node.data, "type", None) or "without a type")


def _moment(seconds: Any) -> datetime | None:
    with contextlib.suppress(ValueError, TypeError, OverflowError, OSError):
        return datetime.fromtimestamp(seconds, UTC)
    return None
