"""A conversation, as a graph and as the messages sent to a model.

    system prompt ─ tools ─ prompt ─ context ─ reply ─┬─ call ─┬─ results ─ reply ─ stop ─ prompt …
                                                      └─ call ─┘

It is the fold of its runs' events, so a conversation read back from the journal equals the live
one, including ids and times. Everything is appended: each request extends the one before byte for
byte, so the provider's cache hits. Only a summary starts a new prefix. It
knows the sources other than the user that the model has read, in the order of reading.

A session starts with an initial graph: empty, from a file, or from the sessions that it merges. The
heads and the other contents of a file are kept in the session's metadata, so the journal has them
and the session is saved as it was loaded. So are the services that are switched on or off for its
notebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from ipyagent import schema
from ipyagent.agent.budgets import CHARACTERS_PER_TOKEN, message_length, tools_length
from ipyagent.agent.prompts import Context
from ipyagent.errors import SessionError
from ipyagent.json_types import JsonDict, JsonMapping, object_of, parse_json
from ipyagent.plaintext import visible
from ipyagent.schema import (
    NO_TOKENS,
    Compacted,
    Event,
    Graph,
    Message,
    MessageDelta,
    MessageFinished,
    Node,
    NodeData,
    PlanProposed,
    Role,
    Run,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Stop,
    SystemPrompt,
    TextContent,
    ToolCall,
    ToolDefinition,
    ToolDefinitions,
    ToolExecution,
    ToolFinished,
    ToolOutput,
    ToolResult,
    ToolResultContent,
    UserText,
    now,
)
from ipyagent.schema.events import conversation_events
from ipyagent.schema.graph import COMPACTED, OF_RUN, READ, text_of_prompts, with_prompt
from ipyagent.schema.messages import add_to_exchange, exchange
from ipyagent.store import graph_file

CONVERSATION_EVENTS = frozenset(
    {
        "plan_proposed",
        "run_started",
        "step_started",
        "compacted",
        "message_finished",
        "tool_finished",
        "step_finished",
        "run_finished",
    }
)
"""The types of events that change a conversation."""


class Conversation:
    """A conversation that starts with `nodes`, continues from `heads`, and grows by events.

    Without `heads` it continues from the newest end. `messages` go to the model, `ids` are
    the ids of their nodes. `history` has all prompts and answers, including those replaced by a
    summary. Only `add` changes them.
    """

    def __init__(self, nodes: Iterable[Node] = (), *heads: str | None) -> None:
        self.graph = Graph(nodes)
        self.heads = tuple(filter(None, heads)) or self.graph.heads[-1:]
        """The parents of the next node: the newest node, or the ends of branches that it merges."""
        self.messages: list[Message] = []
        self.node_ids: list[str] = []
        self.exchange: list[Message] = []
        """The prompts and answers among the messages."""
        self.history: list[Message] = []
        self.tools: tuple[ToolDefinition, ...] = ()
        self.call_ids: set[str] = set()
        """The ids of all calls so far."""
        self._sources: dict[str, None] = {}
        self.context = Context()
        """The facts that the messages tell about variables, files and tables, as far as known."""
        self.origins: tuple[str, ...] = ()
        """The files that it was brought from; whoever wrote them may have written anything."""
        self.since_summary: int | None = None
        """Replies since the newest summary; None if there is none."""
        self._prompts: tuple[Node, ...] = ()
        self._counted_tokens = self._uncounted_characters = (
            0  # tokens of a provider's count; characters since
        )
        self._run, self._node_number = "", 0
        self._run_start = self._timestamp = now()
        self._usage = NO_TOKENS
        self._request_length = 0  # how many messages the newest request had
        self._executions: dict[str, tuple[str, ToolExecution]] = {}
        for node in self.graph.ancestors(*self.heads):
            self._apply_node(node)

    @property
    def head(self) -> str | None:
        """The id of the newest node; None if there is none."""
        return self.heads[-1] if self.heads else None

    @property
    def system_prompt(self) -> str:
        """The system prompt in force."""
        return text_of_prompts(self._prompts)

    @property
    def newest_prompt(self) -> str | None:
        """The newest system prompt, in force or not."""
        return text_of_prompts(self._prompts[-1:]) if self._prompts else None

    @property
    def open_prompt(self) -> str:
        """The newest message if it is a prompt, which the next request answers; or ""."""
        newest = self.messages[-1] if self.messages else None
        return newest.text if newest and newest.is_from_user else ""

    @property
    def sources(self) -> AbstractSet[str]:
        """The sources read so far, other than the user; the newest last."""
        return self._sources.keys()

    @property
    def token_count(self) -> int:
        """The length in tokens: the provider's last count plus an estimate of the rest."""
        return self._counted_tokens + self._uncounted_characters // CHARACTERS_PER_TOKEN

    def up_to(self, node_id: str) -> Conversation:
        """Return the conversation up to that node, to continue from there; raises SessionError."""
        if node_id not in self.graph.nodes:
            raise SessionError(f"no step of this session has the id {node_id!r}")
        start = Conversation(self.graph.ancestors(node_id), node_id)
        start.add_origins(self.origins)
        return start

    def add_origins(self, names: Iterable[str]) -> None:
        """Add files that the conversation was brought from: they are sources that were read."""
        self.origins = tuple(dict.fromkeys((*self.origins, *names)))
        self._sources |= dict.fromkeys(self.origins)

    def add(self, event: Event) -> None:
        """Apply an event."""
        match event:
            case MessageDelta() | ToolOutput():  # first, because there are so many
                return
            case PlanProposed(run=run):
                self._switch_to_run(run)
            case RunStarted():
                self._start_run(event)
            case StepStarted(nudge=nudge, user_texts=texts):
                self._start_step(nudge, texts)
            case Compacted(summary=summary, before=before, after=after):
                self._add_node(
                    summary, metadata={COMPACTED: {"before": [*before], "after": [*after]}}
                )
                self._request_length = len(self.messages)
            case MessageFinished(message=message, usage=usage):
                self._usage += usage
                if message is not None:
                    self._timestamp = message.timestamp
                    self._add_node(message.model_copy(update={"usage": message.usage or usage}))
            case ToolFinished(execution=execution):
                self._add_execution(execution)
            case StepFinished():
                self._answer_calls()
            case RunFinished():
                self._end_run(event)

    def _start_run(self, event: RunStarted) -> None:
        self._answer_calls()  # of a step that this one was branched from
        run = event.run
        self._switch_to_run(run)
        if event.system_prompt is not None:
            self._add_node(SystemPrompt(content=event.system_prompt), metadata={OF_RUN: True})
        if event.tools is not None:
            self._add_node(ToolDefinitions(tools=event.tools))
        # A plan's prompt was that of the run that planned it.
        if not run.plan and run.prompt != self.open_prompt:
            self._add_text(Role.USER, run.prompt, synthetic=False)
        self._add_text(Role.USER, run.context, metadata={READ: [*run.read]} if run.read else None)

    def _switch_to_run(self, run: Run) -> None:
        self._run, self._node_number, self._usage = run.id, 0, NO_TOKENS
        self._run_start = self._timestamp = run.started_at

    def _start_step(self, nudge: str | None, texts: tuple[UserText, ...]) -> None:
        new = self.messages[self._request_length :]
        # The message that ended a request stays separate.
        if (nudge is not None or texts) and not any(map(_has_content, new)):
            self._add_text(Role.ASSISTANT, "[no answer]")
        self._add_text(Role.USER, nudge or "")
        for each in texts:
            self._add_text(Role.USER, each.text, synthetic=False)
        self._request_length = len(self.messages)

    def _add_execution(self, execution: ToolExecution) -> None:
        """Hang a call and its result below the reply that made the call."""
        self._timestamp = execution.started_at or self._timestamp
        if execution.duration is not None:
            self._timestamp += timedelta(seconds=execution.duration)
        stored = execution.model_copy(update={"result": _without_objects(execution.result)})
        node = self._create_node(stored, self.heads)
        self._executions[execution.call.id] = (node.id, stored)
        self._add_source(stored)

    def _add_source(self, execution: ToolExecution) -> None:
        if execution.source and execution.started_at is not None:
            self._sources |= dict.fromkeys(filter(None, execution.source.split("\n")))

    def _answer_calls(self) -> None:
        """Give each call of the newest reply its one result, in the order of the calls."""
        calls = self.messages[-1].tool_calls if self.messages else ()
        if calls:
            known = [self._executions[call.id] for call in calls if call.id in self._executions]
            results = tuple(self._result_of(call) for call in calls)
            self._add_node(
                Message(role=Role.USER, content=results, timestamp=self._timestamp),
                tuple(node_id for node_id, _ in known) or self.heads,
            )
        self._executions.clear()

    def _result_of(self, call: ToolCall) -> ToolResultContent:
        _, execution = self._executions.get(call.id, (None, None))
        if execution is None or execution.result is None:
            return ToolResult.failure("no result of this call is known").to_content(call.id)
        return execution.result.to_content(call.id)

    def _end_run(self, event: RunFinished) -> None:
        self._answer_calls()
        self._timestamp = self._run_start + timedelta(seconds=event.duration)
        # Providers want turns to alternate, so a turn without an answer is closed by a note.
        last = self.messages[-1] if self.messages else None
        if last and (last.role is not Role.ASSISTANT or not _has_content(last)):
            self._add_text(Role.ASSISTANT, f"[{event.error or f'ended: {event.stop_reason}'}]")
        self._add_node(Stop(reason=event.stop_reason, usage=self._usage))

    def _add_text(
        self,
        role: Role,
        text: str,
        *,
        synthetic: bool = True,
        metadata: dict[str, JsonValue] | None = None,
    ) -> None:
        if text.strip():
            content = (TextContent(text=text),)
            self._add_node(
                Message(role=role, content=content, synthetic=synthetic, timestamp=self._timestamp),
                metadata=metadata,
            )

    def _add_node(
        self,
        data: NodeData,
        parents: tuple[str, ...] = (),
        metadata: dict[str, JsonValue] | None = None,
    ) -> None:
        node = self._create_node(data, parents or self.heads, metadata)
        self.heads = (node.id,)
        self._apply_node(node)

    def _create_node(
        self,
        data: NodeData,
        parents: tuple[str, ...],
        metadata: dict[str, JsonValue] | None = None,
    ) -> Node:
        self._node_number += 1
        node = Node(
            id=f"{self._run}-{self._node_number}",
            parent_ids=parents,
            data=data,
            timestamp=self._timestamp,
            metadata=metadata or {},
        )
        self.graph.add(node)
        return node

    def _apply_node(self, node: Node) -> None:
        """Apply a node on the way to the head to the next request's messages."""
        match node.data:
            case SystemPrompt(content=text):
                self._prompts = with_prompt(self._prompts, node)
                self._uncounted_characters += len(text)
            case ToolDefinitions(tools=tools):
                self.tools = tools
                self._uncounted_characters += tools_length(tools)
            case ToolExecution() as execution:
                self._add_source(execution)
            case Message() as message:
                add_to_exchange(self.history, message)
                if isinstance(read := node.metadata.get(READ), list):
                    self._sources |= dict.fromkeys(map(str, read))
                match node.metadata.get(COMPACTED):
                    case {"before": list(before), "after": list(after)}:
                        self._apply_summary(node.id, [*map(str, before), node.id, *map(str, after)])
                    case _:
                        self._append_message(node.id, message)

    def _append_message(self, node_id: str, message: Message) -> None:
        self.node_ids.append(node_id)
        self.messages.append(message)
        add_to_exchange(self.exchange, message)
        self.call_ids.update(call.id for call in message.tool_calls)
        if message.role is not Role.ASSISTANT or message.synthetic:
            self._uncounted_characters += message_length(message)
            return
        if self.since_summary is not None:
            self.since_summary += 1
        if message.usage is not None and message.usage.total_tokens:
            self._counted_tokens, self._uncounted_characters = message.usage.total_tokens, 0
        else:
            self._uncounted_characters += message_length(message)

    def _apply_summary(self, summary: str, ids: list[str]) -> None:
        """Put a summary and the verbatim rest in the place of all messages before them."""
        covered = self.graph.ancestor_ids(summary)
        known = dict(zip(self.node_ids, self.messages, strict=True))
        self.node_ids = [*(each for each in self.node_ids if each not in covered), *ids]
        node_data = (known.get(each) or self.graph.nodes[each].data for each in self.node_ids)
        self.messages = [data for data in node_data if isinstance(data, Message)]
        self.exchange = exchange(self.messages)
        self.since_summary = 0
        self._counted_tokens = 0
        self._uncounted_characters = len(self.system_prompt) + tools_length(self.tools)
        self._uncounted_characters += sum(map(message_length, self.messages))


def _has_content(message: Message) -> bool:
    """Return whether any of it is sent to a model: thinking alone is not."""
    return bool(message.text.strip() or message.tool_calls or message.tool_results)


def _without_objects(result: ToolResult | None) -> ToolResult | None:
    """Return the result as it is recorded: without live objects, which may be large."""
    bare = {"value": None, "undo": None}
    return result and result.model_copy(update={**bare, "full_output": result.output})


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
