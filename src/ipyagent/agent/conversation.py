"""A conversation: what was said, as a graph and as the messages that a model is sent.

    system prompt ─ tools ─ prompt ─ context ─ reply ─┬─ call ─┬─ results ─ reply ─ stop ─ prompt …
                                                      └─ call ─┘

It is the fold of its runs' events, so one that is read back from the record equals the live one,
ids and times included. Everything is appended: each request begins with the one before, byte for
byte, and the provider's cache hits; only a summary begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import timedelta

from pydantic import JsonValue

from ipyagent.agent.read_sources import CONTEXT, ReadSources
from ipyagent.agent.tokens import CHARACTERS, size, size_of_tools
from ipyagent.errors import SessionError
from ipyagent.schema import (
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
    TokenUsage,
    ToolCall,
    ToolDefinition,
    ToolDefinitions,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolResultContent,
)
from ipyagent.schema.base import now
from ipyagent.schema.graph import COMPACTED, OF_RUN, text_of_prompts, with_prompt
from ipyagent.schema.messages import add_to_exchange


class Conversation:
    """Starts with `nodes`, goes on from `heads` (none: the newest end), and grows by events.

    `messages` is what a model is sent, and `ids` are those of their nodes; `history` has all
    prompts and answers, also those that a summary stands for. Read them; only `add` changes them.
    """

    def __init__(self, nodes: Iterable[Node] = (), *heads: str | None) -> None:
        self.graph = Graph(nodes)
        self.heads = tuple(filter(None, heads)) or self.graph.heads[-1:]
        """What the next node follows: the newest one, or the ends of branches that it merges."""
        self.messages: list[Message] = []
        self.ids: list[str] = []
        self.history: list[Message] = []
        self.tools: tuple[ToolDefinition, ...] = ()
        self._sources = ReadSources()
        self.since_summary: int | None = None
        """Replies since the newest summary; None where there is none."""
        self._prompts: tuple[Node, ...] = ()
        self._measured = self._unmeasured = 0  # tokens of a provider's count; characters since
        self._run, self._numbers = "", 0
        self._began = self._moment = now()
        self._usage = TokenUsage()
        self._asked = 0  # how many messages the newest request had
        self._executions: dict[str, tuple[str, ToolExecution]] = {}
        for node in self.graph.ancestors(*self.heads):
            self._take(node)

    @property
    def head(self) -> str | None:
        """The id of the newest node; None where there is none."""
        return self.heads[-1] if self.heads else None

    @property
    def system_prompt(self) -> str:
        """The instructions in force."""
        return text_of_prompts(self._prompts)

    @property
    def newest_prompt(self) -> str | None:
        """The instructions that were given last."""
        return text_of_prompts(self._prompts[-1:]) if self._prompts else None

    @property
    def sources(self) -> AbstractSet[str]:
        """Whose words have been read, beside the person's; the newest last."""
        return self._sources.names

    @property
    def tokens(self) -> int:
        """How long it is: as the provider counted it last, and an estimate of what came since."""
        return self._measured + self._unmeasured // CHARACTERS

    def at(self, node_id: str) -> Conversation:
        """The conversation up to that node, to go on from there; raises SessionError."""
        if node_id not in self.graph.nodes:
            raise SessionError(f"no step of this session has the id {node_id!r}")
        return Conversation(self.graph.ancestors(node_id), node_id)

    def add(self, event: Event) -> None:
        """Take in what happened."""
        match event:
            case MessageDelta():  # first, because there are so many
                return
            case PlanProposed(run=run):
                self._turn_to(run)
            case RunStarted():
                self._begin(event)
            case StepStarted(nudge=nudge):
                self._ask(nudge)
            case Compacted(summary=summary, before=before, after=after):
                self._add(summary, metadata={COMPACTED: {"before": [*before], "after": [*after]}})
                self._asked = len(self.messages)
            case MessageFinished(message=message, usage=usage):
                self._usage += usage
                if message is not None:
                    self._moment = message.timestamp
                    self._add(message.model_copy(update={"usage": message.usage or usage}))
            case ToolFinished(execution=execution):
                self._keep(execution)
            case StepFinished():
                self._answer_calls()
            case RunFinished():
                self._end(event)

    def _begin(self, event: RunStarted) -> None:
        self._answer_calls()  # of a step that this one was branched from
        run = event.run
        self._turn_to(run)
        if event.system_prompt is not None:
            self._add(SystemPrompt(content=event.system_prompt), metadata={OF_RUN: True})
        if event.tools is not None:
            self._add(ToolDefinitions(tools=event.tools))
        if not run.plan:  # else the prompt was that of the run that planned it
            self._say(Role.USER, run.prompt, synthetic=False)
        self._say(Role.USER, run.context)

    def _turn_to(self, run: Run) -> None:
        self._run, self._numbers, self._usage = run.id, 0, TokenUsage()
        self._began = self._moment = run.started_at

    def _ask(self, nudge: str | None) -> None:
        if nudge is not None:
            # What was sent as the end of a request stays its own message.
            if not any(map(_is_sent, self.messages[self._asked :])):
                self._say(Role.ASSISTANT, "[no answer]")
            self._say(Role.USER, nudge)
        self._asked = len(self.messages)

    def _keep(self, execution: ToolExecution) -> None:
        """A call and its result hang below the reply that made the call."""
        self._moment = execution.started_at or self._moment
        if execution.duration is not None:
            self._moment += timedelta(seconds=execution.duration)
        kept = execution.model_copy(update={"result": _without_objects(execution.result)})
        node = self._node(kept, self.heads)
        self._executions[execution.call.id] = (node.id, kept)
        self._read(kept)

    def _read(self, execution: ToolExecution) -> None:
        if execution.source and execution.started_at is not None:
            self._sources.add(execution.source)

    def _answer_calls(self) -> None:
        """Each call of the newest reply gets its one result, in the order of the calls."""
        calls = self.messages[-1].tool_calls if self.messages else ()
        if calls:
            known = [self._executions[call.id] for call in calls if call.id in self._executions]
            results = tuple(self._result(call) for call in calls)
            self._add(
                Message(role=Role.USER, content=results, timestamp=self._moment),
                tuple(node_id for node_id, _ in known) or self.heads,
            )
        self._executions.clear()

    def _result(self, call: ToolCall) -> ToolResultContent:
        _, execution = self._executions.get(call.id, (None, None))
        if execution is None or execution.result is None:
            return ToolResult.failure("no result of this call is known").to_content(call.id)
        return execution.result.to_content(call.id)

    def _end(self, event: RunFinished) -> None:
        self._answer_calls()
        self._moment = self._began + timedelta(seconds=event.duration)
        # Providers want turns to alternate, so a turn without an answer is closed by a note.
        if self.messages and not _speaks(self.messages[-1]):
            self._say(Role.ASSISTANT, f"[{event.error or f'ended: {event.stop_reason}'}]")
        self._add(Stop(reason=event.stop_reason, usage=self._usage))

    def _say(self, role: Role, text: str, *, synthetic: bool = True) -> None:
        if text.strip():
            content = (TextContent(text=text),)
            self._add(
                Message(role=role, content=content, synthetic=synthetic, timestamp=self._moment)
            )

    def _add(
        self,
        data: NodeData,
        parents: tuple[str, ...] = (),
        metadata: dict[str, JsonValue] | None = None,
    ) -> None:
        node = self._node(data, parents or self.heads, metadata)
        self.heads = (node.id,)
        self._take(node)

    def _node(
        self,
        data: NodeData,
        parents: tuple[str, ...],
        metadata: dict[str, JsonValue] | None = None,
    ) -> Node:
        self._numbers += 1
        node = Node(
            id=f"{self._run}-{self._numbers}",
            parent_ids=parents,
            data=data,
            timestamp=self._moment,
            metadata=metadata or {},
        )
        self.graph.add(node)
        return node

    def _take(self, node: Node) -> None:
        """What a node on the way to the head means for the next request."""
        match node.data:
            case SystemPrompt(content=text):
                self._prompts = with_prompt(self._prompts, node)
                self._unmeasured += len(text)
            case ToolDefinitions(tools=tools):
                self.tools = tools
                self._unmeasured += size_of_tools(tools)
            case ToolExecution() as execution:
                self._read(execution)
            case Message() as message:
                add_to_exchange(self.history, message)
                match node.metadata.get(COMPACTED):
                    case {"before": list(before), "after": list(after)}:
                        self._put(node.id, [*map(str, before), node.id, *map(str, after)])
                    case _:
                        self._append(node.id, message)

    def _append(self, node_id: str, message: Message) -> None:
        self.ids.append(node_id)
        self.messages.append(message)
        if message.synthetic and message.role is Role.USER and message.text.startswith(CONTEXT):
            self._sources.add_context(message.text)
        if message.role is not Role.ASSISTANT or message.synthetic:
            self._unmeasured += size(message)
            return
        if self.since_summary is not None:
            self.since_summary += 1
        if message.usage is not None and message.usage.total_tokens:
            self._measured, self._unmeasured = message.usage.total_tokens, 0
        else:
            self._unmeasured += size(message)

    def _put(self, summary: str, ids: list[str]) -> None:
        """Put a summary and what stays verbatim in the place of all that it follows."""
        covered = {node.id for node in self.graph.ancestors(summary)}
        self.ids = [*(each for each in self.ids if each not in covered), *ids]
        said = (self.graph.nodes[each].data for each in self.ids)
        self.messages = [data for data in said if isinstance(data, Message)]
        self.since_summary = 0
        self._measured = 0
        self._unmeasured = len(self.system_prompt) + size_of_tools(self.tools)
        self._unmeasured += sum(map(size, self.messages))


def _is_sent(message: Message) -> bool:
    """Whether anything of it goes to a model: thinking alone does not."""
    return bool(message.text or message.tool_calls or message.tool_results)


def _speaks(message: Message) -> bool:
    return message.role is Role.ASSISTANT and _is_sent(message)


def _without_objects(result: ToolResult | None) -> ToolResult | None:
    """A result as the record has it: what it holds beside is the run's, and may be large."""
    return result and result.model_copy(update={"value": None, "full_output": result.output})
