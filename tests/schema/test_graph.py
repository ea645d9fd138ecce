"""The conversation as a graph, in our shape and in nano-agent's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from ipyagent.agent.session.conversation import Conversation
from ipyagent.schema import (
    Graph,
    Message,
    Node,
    NodeData,
    OpaqueData,
    Role,
    Stop,
    StopReason,
    SystemPrompt,
    TokenUsage,
    ToolDefinition,
    ToolDefinitions,
    ToolExecution,
)


def node(each: str, *parents: str, **data: Any) -> Node:
    return Node.from_dict(
        {"id": each, "parent_ids": parents, "data": data, "timestamp": 1.5, "metadata": {}}
    )


def message_node(each: str, *parents: str, role: str = "user") -> Node:
    return node(each, *parents, role=role, content=f"<{each}>")


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text.strip("<>") for message in messages]


# Nodes


@pytest.mark.spec("N09", "N17", "N10", "N11", "N12", "N13")
def test_the_type_of_a_nodes_data_is_found_by_its_shape() -> None:
    def data_type(data: NodeData) -> str:
        match data:
            case Message(role=role):
                return f"message of {role}"
            case SystemPrompt(content=content):
                return content
            case ToolDefinitions(tools=(ToolDefinition(name=name), *_)):
                return name
            case ToolExecution():
                return f"{data.call.name} {data.status}"
            case Stop(reason=reason):
                return str(reason)
            case OpaqueData():
                return "?"
        return "else"

    usage = {"input_tokens": 150, "output_tokens": 50, "cache_read_input_tokens": 100}
    result = [{"type": "text", "text": "file1.txt"}]
    tool = {"name": "calculator", "description": "Adds", "input_schema": {"type": "object"}}
    shapes: list[tuple[dict[str, Any], str]] = [
        ({"role": "user", "content": "hi"}, "message of user"),
        ({"role": "assistant", "content": [{"type": "text", "text": "x"}]}, "message of assistant"),
        ({"type": "system_prompt", "content": "Be brief."}, "Be brief."),
        ({"type": "tool_definitions", "tools": [tool]}, "calculator"),
        (
            {
                "type": "tool_execution",
                "tool_name": "Bash",
                "tool_use_id": "c",
                "result": result,
                "is_error": False,
            },
            "Bash success",
        ),
        ({"type": "stop_reason", "reason": "end_turn", "usage": usage}, "finished"),
        ({"type": "sub_graph", "nodes": {}, "role": "x", "call": 1}, "?"),
        ({"anything": None}, "?"),
    ]
    for shape, wanted in shapes:
        parsed = node("a", **shape)
        assert data_type(parsed.data) == wanted
        assert isinstance(parsed.data, NodeData)
        assert Node.from_dict(json.loads(json.dumps(parsed.to_dict()))) == parsed
        # The object itself is a node's data as well.
        assert Node(id="a", data=parsed.data).data == parsed.data
    assert node("a", role="user", content="x").timestamp == datetime.fromtimestamp(1.5, UTC)


@pytest.mark.spec("N09", "D24")
def test_data_of_a_newer_version_is_kept_unchanged() -> None:
    new = {"type": "sub_graph", "nodes": {"x": {"data": [1.5, None]}}, "depth": 1, "call": "y"}
    assert node("a", **new).to_dict()["data"] == new
    with pytest.raises(ValidationError):
        Node.from_dict({"id": "a", "data": "text"})


@pytest.mark.spec("N13")
@pytest.mark.parametrize(
    ("word", "reason", "finish_reason"),
    [
        ("end_turn", StopReason.FINISHED, "end_turn"),
        ("stop_sequence", StopReason.FINISHED, "stop_sequence"),
        ("stop", StopReason.FINISHED, "stop"),
        ("completed", StopReason.FINISHED, "completed"),
        ("length", StopReason.MAX_TOKENS, "length"),
        ("max_tokens", StopReason.MAX_TOKENS, None),
        ("interrupted", StopReason.INTERRUPTED, None),
        ("pause_turn", None, "pause_turn"),
        ("", None, ""),
    ],
)
def test_a_providers_stop_reason_is_understood_or_kept(
    word: str, reason: StopReason | None, finish_reason: str | None
) -> None:
    stop = Stop.from_dict({"type": "stop_reason", "reason": word, "usage": {"input_tokens": 2}})
    assert (stop.reason, stop.finish_reason) == (reason, finish_reason)
    assert stop.usage == TokenUsage(prompt_tokens=2)
    assert Stop.from_dict(stop.to_dict()) == stop


def test_a_stop_has_one_reason_or_a_providers_word() -> None:
    for reason in StopReason:
        assert Stop(reason=reason).finish_reason is None
    assert Stop(finish_reason="pause_turn").reason is None
    with pytest.raises(ValidationError):
        Stop.from_dict({"reason": ["end_turn"]})


# Graphs


@pytest.mark.spec("N10", "N11")
def test_prompts_are_joined_and_the_newest_tools_count() -> None:
    tools = [
        {"tools": [{"name": name, "description": "", "input_schema": {}}]} for name in ("f", "g")
    ]
    graph = Graph(
        [
            node("p", type="system_prompt", content="Be brief."),
            node("t", "p", type="tool_definitions", **tools[0]),
            message_node("u", "t"),
            node("q", "u", type="system_prompt", content="Be kind."),
            node("v", "q", type="tool_definitions", **tools[1]),
        ]
    )
    assert Conversation(graph, "v").system_prompt == "Be brief.\n\nBe kind."
    assert Conversation(graph, "u").system_prompt == "Be brief."
    assert [tool.name for tool in Conversation(graph, "v").tools] == ["g"]
    assert [tool.name for tool in Conversation(graph, "u").tools] == ["f"]
    assert Conversation([message_node("x")], "x").tools == ()


@pytest.mark.spec("N12", "H22")
def test_executions_are_never_sent() -> None:
    ran = {"type": "tool_execution", "tool_name": "f", "result": "secret"}
    graph = Graph(
        [
            message_node("u"),
            message_node("a", "u", role="assistant"),
            node("x", "a", **ran, tool_use_id="1"),
            node("y", "a", **ran, tool_use_id="2"),
            node("r", "x", "y", role="tool", tool_call_id="1", content="ok"),
            node("s", "r", type="stop_reason", reason="end_turn"),
            node("n", "s", type="new", text="secret"),
        ]
    )
    sent = Conversation(graph, "n").messages
    assert [message.role for message in sent] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert "secret" not in str(sent)
    assert graph.heads == ("n",)


def test_a_branch_has_only_its_ancestors() -> None:
    graph = Graph(
        [
            message_node("a"),
            message_node("b", "a"),
            message_node("c", "a"),
            message_node("d", "b", "c"),
            message_node("e", "c"),
        ]
    )
    assert texts(Conversation(graph, "e").messages) == ["a", "c", "e"]
    assert [each.id for each in graph.ancestors("d")] == ["a", "b", "c", "d"]
    assert graph.heads == ("d", "e")
    assert len(graph) == 5


def test_a_summary_replaces_the_messages_that_it_summarizes() -> None:
    metadata = {"compacted": {"before": ["a"], "after": ["d"]}}
    summary = Node(id="s", parent_ids=("d",), data=Message.of(Role.USER, "<s>"), metadata=metadata)
    graph = Graph(
        [
            message_node("a"),
            message_node("b", "a"),
            message_node("c", "b"),
            message_node("d", "c"),
            summary,
        ]
    )
    graph.add(message_node("e", "s"))
    assert texts(Conversation(graph, "e").messages) == ["a", "s", "d", "e"]
    assert texts(Conversation(graph, "d").messages) == ["a", "b", "c", "d"]


def test_a_graph_refuses_duplicate_ids_and_missing_parents() -> None:
    graph = Graph([message_node("a")])
    for wrong in (
        message_node("a"),
        message_node("b", "x"),
        message_node("b", "a", "x"),
        message_node("b", "b"),
    ):
        with pytest.raises(ValueError, match=r"two nodes|does not exist"):
            graph.add(wrong)
    assert len(graph) == 1
    with pytest.raises(ValueError, match="no node 'x'"):
        Conversation(graph, "x")
    with pytest.raises(ValidationError):
        Node(id="", data=SystemPrompt(content="x"))


@pytest.mark.slow
@pytest.mark.spec("N18")
def test_a_long_conversation_needs_no_deep_stack() -> None:
    count = 10_000
    data = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    nodes = {
        f"n{i}": {"id": f"n{i}", "parent_ids": [f"n{i - 1}"] if i else [], "data": data}
        for i in range(count)
    }
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        graph = Graph.from_dict({"nodes": nodes})
        sent = Conversation(graph, f"n{count - 1}").messages
    finally:
        sys.setrecursionlimit(limit)
    assert len(sent) == len(graph) == count
    again = Graph.from_dict(json.loads(json.dumps(graph.to_dict())))
    assert list(again) == list(graph)
    assert graph.to_dict()["head_ids"] == [f"n{count - 1}"]
