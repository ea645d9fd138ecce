"""Branches of a conversation: an edit begins one, and a diff shows what two of them hold."""

from __future__ import annotations

import difflib
import html
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from pydantic import ValidationError

from ipyagent import schema
from ipyagent.agent.session.conversation import Conversation
from ipyagent.errors import SessionError
from ipyagent.plaintext import clean_text, excerpt, limit_lines
from ipyagent.redaction import mask_arguments
from ipyagent.schema.graph import EDITED, Graph, Node, handle
from ipyagent.store.graph_file import AS_LOADED
from ipyagent.store.runs import describe_error

_EDITABLE = "edit a prompt, an answer, a system prompt, or a call that has a result"


def edit_node(graph: Graph, node_id: str, text: str) -> list[Node]:
    """Return the nodes up to one that gets another text; it is the last. Raises SessionError.

    An answer keeps neither its calls nor its thinking. Of a call it is the result that is edited,
    and the last node is the message that sends it to the model.
    """
    node = graph.nodes[node_id]
    try:
        if isinstance(node.data, schema.ToolExecution):
            return _edit_call(graph, node, node.data, text)
        edited = _replace_data(node, _edit_data(node, text))
    except ValidationError as error:
        raise SessionError(f"{handle(node_id)}: {describe_error(error)}") from None
    return [*graph.ancestors(*node.parent_ids), edited]


def _edit_data(node: Node, text: str) -> schema.NodeData:
    match node.data:
        case schema.SystemPrompt():
            return schema.SystemPrompt(content=text)
        case schema.Message(role=schema.Role.ASSISTANT) as message:
            return _replace_content(message, [schema.TextContent(text=text)])
        case schema.Message(tool_results=()) as message:
            images = (each for each in message.content if not isinstance(each, schema.TextContent))
            return _replace_content(message, [schema.TextContent(text=text), *images])
    raise SessionError(f"{handle(node.id)} cannot be edited; {_EDITABLE}")


def _edit_call(graph: Graph, node: Node, execution: schema.ToolExecution, text: str) -> list[Node]:
    result, call_id = schema.ToolResult(output=text), execution.call.id
    for sent in graph:
        message = sent.data
        if node.id not in sent.parent_ids or not isinstance(message, schema.Message):
            continue
        changes = {"result": result, "status": schema.ToolStatus.SUCCESS}
        edited = _replace_data(node, execution.model_copy(update=changes))
        parents = tuple(edited.id if each == node.id else each for each in sent.parent_ids)
        before = graph.ancestors(*sent.parent_ids)
        content = [
            result.to_content(call_id) if getattr(each, "tool_use_id", "") == call_id else each
            for each in message.content
        ]
        last = _replace_data(sent, _replace_content(message, content), parents)
        return [*(edited if each.id == node.id else each for each in before), last]
    raise SessionError(f"{handle(node.id)} has no result yet; {_EDITABLE}")


def _replace_data(node: Node, data: schema.NodeData, parents: tuple[str, ...] = ()) -> Node:
    kept = {key: each for key, each in node.metadata.items() if key != AS_LOADED}
    parents = parents or node.parent_ids
    return Node(parent_ids=parents, data=data, metadata={**kept, EDITED: node.id})


def _replace_content(message: schema.Message, content: Iterable[schema.Block]) -> schema.Message:
    changes = {"content": tuple(content), "usage": None, "maker": None, "timestamp": schema.now()}
    return schema.Message.model_validate(dict(message) | changes)


MOST_LINES = 20
"""Lines of a result that a diff shows."""


@dataclass(frozen=True)
class BranchDiff:
    """The difference of two branches: the nodes that both have, and those after that of each."""

    names: tuple[str, str]
    common: tuple[Node, ...]
    nodes: tuple[tuple[Node, ...], tuple[Node, ...]]

    def __str__(self) -> str:
        one, other = map(clean_text, self.names)
        begun = next(filter(None, map(_describe, reversed(self.common))), [])
        at = f"after {excerpt(' '.join(begun), 70)}" if begun else "at the beginning"
        mine, others = ([*chain(*map(_describe, nodes))] for nodes in self.nodes)
        if mine == others:
            return f"{one} and {other} say the same"
        most = len(mine) + len(others)
        diff = difflib.unified_diff(mine, others, one, other, n=most, lineterm="")
        shown = (line for line in diff if not line.startswith("@@"))
        return "\n".join([f"{one} and {other} part {at}", *shown])

    def _repr_html_(self) -> str:
        return f'<pre class="tex2jax_ignore mathjax_ignore">{html.escape(str(self))}</pre>'


def compare_branches(*branches: tuple[str, Conversation]) -> BranchDiff:
    """Return the difference of two conversations with their names."""
    (one, mine), (other, theirs) = branches
    lines = [each.graph.ancestors(*each.heads) for each in (mine, theirs)]
    both = {node.id for node in lines[0]} & {node.id for node in lines[1]}
    common = tuple(node for node in lines[0] if node.id in both)
    rest, others = (tuple(node for node in line if node.id not in both) for line in lines)
    return BranchDiff((one, other), common, (rest, others))


def _describe(node: Node) -> list[str]:
    """Return a prompt, an answer or a call in lines; of other nodes none."""
    match node.data:
        case schema.SystemPrompt(content=text):
            name, lines = "system prompt", text.splitlines()
        case schema.Message(synthetic=False) as message if message.text.strip():
            name, lines = str(message.role), message.text.splitlines()
        case schema.ToolExecution() as execution:
            name, lines = execution.call.name, [*_describe_call(execution)]
        case _:
            return []
    edited = " (edited)" if EDITED in node.metadata else ""
    return [f"{clean_text(name)}{edited}:", *(f"  {clean_text(line)}" for line in lines)]


def _describe_call(execution: schema.ToolExecution) -> Iterator[str]:
    for name, value in mask_arguments(execution.call.arguments).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *more = text.splitlines() or [""]
        yield from (f"{name} = {first}", *(f"{' ' * len(name)}   {line}" for line in more))
    output = execution.result.output.splitlines() if execution.result else []
    yield from (f"→ {line}" for line in limit_lines(output, MOST_LINES))
