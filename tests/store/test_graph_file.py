"""Saved graphs: nothing of ours is lost, nano-agent reads them, and we read its files."""

import json
import math
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ipyagent import schema as s
from ipyagent.agent.session.conversation import Conversation
from ipyagent.errors import SessionError
from ipyagent.schema.graph import COMPACTED
from ipyagent.store.graph_file import GraphFacts, load, save
from schema.strategies import nodes

WHEN = datetime(2025, 3, 1, 9, 30, 0, 123_457, tzinfo=UTC)


def node(name: str, *parents: str, data: Any, **metadata: Any) -> s.Node:
    return s.Node(id=name, parent_ids=parents, data=data, timestamp=WHEN, metadata=metadata)


def new_message(role: s.Role, *blocks: Any, **more: Any) -> s.Message:
    return s.Message(role=role, content=blocks, timestamp=WHEN, **more)


def rich() -> s.Graph:
    """One of everything."""
    call = s.ToolCall(
        id="c1", name="plot", arguments={"n": 1}, item_id="fc_1", thought_signature="sig"
    )
    bad = s.ToolCall(id="c2", name="plot", parse_error="not JSON")
    thinking = s.ThinkingContent(
        thinking="hm", signature="s", id="rs_1", encrypted_content="e", summary=({"text": "x"},)
    )
    image = s.ImageContent(data="aGk=", width=2, height=3)
    result = s.ToolResult(output="done", images=(image,), displays=(s.Display(data={"a": "b"}),))
    execution = s.ToolExecution(
        call=call, status=s.ToolStatus.SUCCESS, result=result, duration=0.5, sensitive=True
    )
    failed = s.ToolExecution(
        call=bad, status=s.ToolStatus.FAILED, result=s.ToolResult.failure("not JSON")
    )
    usage = s.TokenUsage(prompt_tokens=9, completion_tokens=2, cache_read_tokens=4)
    tool = s.ToolDefinition(name="plot", description="Draw.", input_schema={"type": "object"})
    user, model = s.Role.USER, s.Role.ASSISTANT
    text = s.TextContent(text="Plot it.")
    future = s.OpaqueContent.model_validate({"type": "hologram", "beam": [1, 2]})
    return s.Graph(
        [
            node("sys", data=s.SystemPrompt(content="Be brief.")),
            node("tools", "sys", data=s.ToolDefinitions(tools=(tool,))),
            node("old", "tools", data=new_message(s.Role.SYSTEM, text)),
            node("ask", "old", data=new_message(user, text, image)),
            node("ctx", "ask", data=new_message(user, text, synthetic=True)),
            node(
                "say",
                "ctx",
                data=new_message(model, thinking, text, call, bad, future, usage=usage),
            ),
            node("run", "say", data=execution),
            node("run2", "say", data=failed),
            node("wait", "say", data=s.ToolExecution(call=call)),
            node(
                "got",
                "run",
                "run2",
                data=new_message(user, result.to_content("c1"), failed.result.to_content("c2")),
            ),
            node(
                "sum",
                "got",
                data=new_message(user, text),
                **{COMPACTED: {"before": [], "after": []}},
            ),
            node("new", "sum", data=s.OpaqueData.model_validate({"type": "dream", "of": "sheep"})),
            node("stop", "new", data=s.Stop(reason=s.StopReason.FINISHED, usage=usage)),
            node("odd", "sum", data=s.Stop(finish_reason="pause_turn")),
        ]
    )


# Files of a newer version hold nodes that are unknown here, and these files do.
pytestmark = pytest.mark.filterwarnings("ignore:.*nodes of kinds that this version:UserWarning")


@pytest.mark.spec("N24", "D24")
def test_a_graph_survives_saving_and_loading(tmp_path: Path) -> None:
    path, graph = tmp_path / "sub" / "one.json", rich()
    facts = GraphFacts(heads=("stop",), session_id="s1", metadata={"name": "one"})
    save(path, graph, facts)
    loaded = load(path)
    assert list(loaded.graph) == list(graph)
    assert [n.to_dict() for n in loaded.graph] == [n.to_dict() for n in graph]
    assert (loaded.heads, loaded.session_id) == (("stop",), "s1")
    assert loaded.metadata == {"name": "one"}
    assert loaded.created_at is not None
    assert Conversation(loaded.graph, "stop").messages == Conversation(graph, "stop").messages
    save(path, loaded.graph)
    assert load(path).heads == graph.heads == ("wait", "stop", "odd")


@pytest.mark.spec("D24")
@given(nodes)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_node_survives_saving_and_loading(tmp_path: Path, one: s.Node) -> None:
    graph, path = s.Graph([one.model_copy(update={"parent_ids": ()})]), tmp_path / "one.json"
    save(path, graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*nodes of kinds that this version")
        (back,) = load(path).graph
    (saved,) = graph
    assert back.to_dict() == saved.to_dict()
    nano_reads(path)


# -- nano-agent's own loader


def nano_reads(path: Path) -> dict[str, list[Any]]:
    """Return the result of nano-agent's loader, by its rules; raises where it would."""
    data = json.loads(path.read_text())
    assert isinstance(data["session_id"], str)
    assert isinstance(data["created_at"], float)
    done: dict[str, list[Any]] = {}
    remaining = dict(data["nodes"])
    while remaining:
        ready = [
            name for name, each in remaining.items() if all(p in done for p in each["parent_ids"])
        ]
        assert ready, "Cycle or missing parents"
        for name in ready:
            each = remaining.pop(name)
            assert isinstance(each["timestamp"], float)
            assert each["id"] == name
            assert isinstance(each["metadata"], dict)
            done[name] = nano_data(each["data"])
    assert all(head in done for head in data["head_ids"])
    return done


def nano_data(data: dict[str, Any]) -> list[Any]:
    """Return the class and content that it loads; an unknown type is shown as a system prompt."""
    match data:
        case {"type": "system_prompt", "content": str(content)}:
            return ["SystemPrompt", content]
        case {"type": "tool_definitions", "tools": list(tools)}:
            assert all(tool["name"] and isinstance(tool["input_schema"], dict) for tool in tools)
            return ["ToolDefinitions", [tool["name"] for tool in tools]]
        case {"type": "tool_execution", "tool_name": str(name), "tool_use_id": str(call_id)}:
            assert name
            assert call_id
            return ["ToolExecution", name, call_id, *map(nano_block, data["result"])]
        case {"type": "stop_reason", "reason": str(reason), "usage": dict(usage)}:
            assert reason
            return ["StopReason", reason, usage]
        case {"role": "user" | "assistant" as role, "content": list(blocks)}:
            return ["Message", role, *filter(None, map(nano_block, blocks))]
    assert "role" not in data
    return ["unknown"]


def nano_block(block: dict[str, Any]) -> Any:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "thinking" | "reasoning", "thinking": str(text), "signature": str(sign)}:
            return ["thinking", text, sign, block["id"], block["encrypted_content"]]
        case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(given)}:
            return ["tool_use", call_id, name, given]
        case {"type": "tool_result", "tool_use_id": str(call_id), "content": list(content)}:
            return ["tool_result", call_id, block["is_error"], *map(nano_block, content)]
        case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}:
            return ["image", kind, data]
    return None


@pytest.mark.spec("N24")
def test_nano_agent_reads_our_files(tmp_path: Path) -> None:
    save(tmp_path / "one.json", rich(), GraphFacts(heads=("stop",)))
    seen = nano_reads(tmp_path / "one.json")
    image = ["image", "image/png", "aGk="]
    assert seen["sys"] == ["SystemPrompt", "Be brief."]
    assert seen["tools"] == ["ToolDefinitions", ["plot"]]
    assert seen["old"] == ["SystemPrompt", "Plot it."]
    assert seen["ask"] == ["Message", "user", "Plot it.", image]
    assert seen["say"] == [
        "Message",
        "assistant",
        ["thinking", "hm", "s", "rs_1", "e"],
        "Plot it.",
        ["tool_use", "c1", "plot", {"n": 1}],
        ["tool_use", "c2", "plot", {}],
    ]
    assert seen["run"] == ["ToolExecution", "plot", "c1", "done", image]
    assert seen["got"][2] == ["tool_result", "c1", False, "done", image]
    usage = {
        "input_tokens": 5,
        "output_tokens": 2,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 0,
    }
    assert seen["stop"] == ["StopReason", "finished", usage]
    assert seen["odd"][:2] == ["StopReason", "pause_turn"]


def nano_file(path: Path, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A file as nano-agent writes it, in an order in which children come first."""

    def entry(name: str, parents: list[str], data: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": name,
            "parent_ids": parents,
            "data": data,
            "timestamp": 1_740_821_400.25,
            "metadata": {},
        }

    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    none = {"type": "tool_use", "id": "toolu_2", "name": "Now", "input": None}
    thought = {"type": "thinking", "thinking": "Look.", "signature": "abc"}
    reasoning = {"type": "reasoning", "id": "rs", "encrypted_content": "e", "summary": []}
    compaction = {"type": "compaction", "encrypted_content": "zzz"}
    text = {"type": "text", "text": "file1.txt"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text, image]}
    second = {"type": "tool_result", "tool_use_id": "toolu_2", "content": [], "is_error": True}
    execution = {"tool_name": "Bash", "tool_use_id": "toolu_1", "result": [text], "is_error": False}
    usage = {"input_tokens": 150, "output_tokens": 50, "cache_read_input_tokens": 100}
    definitions = [
        entry("n9", ["n8"], {"type": "stop_reason", "reason": "end_turn", "usage": usage}),
        entry("n8", ["n7"], {"role": "assistant", "content": [{"type": "text", "text": "One."}]}),
        entry("n7", ["n5", "n6"], {"role": "user", "content": [result, second]}),
        entry("n6", ["n4"], {"type": "sub_graph", "tool_name": "Task", "nodes": {}, "depth": 1}),
        entry("n5", ["n4"], {"type": "tool_execution", **execution}),
        entry(
            "n4",
            ["n3"],
            {"role": "assistant", "content": [thought, reasoning, compaction, call, none]},
        ),
        entry("n3", ["n2"], {"role": "user", "content": "What files are here?"}),
        entry(
            "n2",
            ["n1"],
            {"type": "tool_definitions", "tools": [{"name": "Bash", "input_schema": {}}]},
        ),
        entry("n1", [], {"type": "system_prompt", "content": "You are helpful."}),
    ]
    content = {
        "session_id": "session_1a2b3c4d",
        "created_at": 1_740_821_400.5,
        "metadata": {"task": "greeting"},
        "head_ids": ["n9"],
        "nodes": {each["id"]: each for each in definitions},
    } | (changes or {})
    path.write_text(json.dumps(content))
    return content


@pytest.mark.spec("N24")
def test_we_read_files_of_nano_agent(tmp_path: Path) -> None:
    nano_file(tmp_path / "nano.json")
    loaded = load(tmp_path / "nano.json")
    assert (loaded.heads, loaded.session_id) == (("n9",), "session_1a2b3c4d")
    assert loaded.metadata == {"task": "greeting"}
    graph = loaded.graph
    assert Conversation(graph, "n9").system_prompt == "You are helpful."
    assert [tool.name for tool in Conversation(graph, "n9").tools] == ["Bash"]
    ask, reply, results, answer = Conversation(graph, "n9").messages
    assert (ask.text, answer.text) == ("What files are here?", "One.")
    assert (
        ask.timestamp == graph.nodes["n3"].timestamp == datetime(2025, 3, 1, 9, 30, 0, 250_000, UTC)
    )
    assert [call.arguments for call in reply.tool_calls] == [{"command": "ls"}, {}]
    assert [type(block).__name__ for block in reply.content[:3]] == [
        "ThinkingContent",
        "ThinkingContent",
        "OpaqueContent",
    ]
    assert [r.is_error for r in results.tool_results] == [False, True]
    assert len(results.tool_results[0].images) == 1
    execution, stop = graph.nodes["n5"].data, graph.nodes["n9"].data
    assert isinstance(execution, s.ToolExecution)
    assert (execution.call.name, execution.result.output) == ("Bash", "file1.txt")
    assert isinstance(stop, s.Stop)
    assert (stop.reason, stop.usage.prompt_tokens) == (s.StopReason.FINISHED, 250)
    assert isinstance(graph.nodes["n6"].data, s.OpaqueData)
    save(tmp_path / "ours.json", graph)
    assert list(load(tmp_path / "ours.json").graph) == list(graph)


def change_node(path: Path, name: str, **entry: Any) -> None:
    """A nano-agent file with something else in one node."""
    content = nano_file(path)
    content["nodes"][name] |= entry
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("content", ["", [], "   ", [{"type": "text", "text": ""}]])
def test_empty_messages_are_kept_and_never_sent(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "nano.json"
    change_node(path, "n8", data={"role": "assistant", "content": content})
    graph = load(path).graph
    assert len(graph) == 9
    assert len(Conversation(graph, "n9").messages) == 3
    save(path, graph)
    assert list(load(path).graph) == list(graph)


def test_a_message_longer_than_the_limit_for_typing_is_kept_whole(tmp_path: Path) -> None:
    path, long = tmp_path / "nano.json", "x" * (s.MAX_TYPED + 1)
    change_node(path, "n3", data={"role": "user", "content": long})
    assert Conversation(load(path).graph, "n9").messages[0].text == long


@pytest.mark.spec("N28")
def test_unknown_keys_are_kept_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "nano.json"
    cached = {"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [cached], "extra": 1}
    data = {"role": "user", "content": [cached, result], "mood": "good"}
    change_node(path, "n3", data=data, colour="red")
    with pytest.warns(UserWarning, match=r"nano.json .*: cache_control, colour, extra, mood"):
        loaded = load(path)
    assert Conversation(loaded.graph, "n9").messages[0].text == "Hi."
    save(path, loaded.graph)
    saved = json.loads(path.read_text())["nodes"]["n3"]
    assert saved["data"] == data
    assert saved["colour"] == "red"
    nano_file(path, {"version": 7})
    with pytest.warns(UserWarning, match="does not know: version"):
        loaded = load(path)
    assert loaded.extra == {"version": 7}


@pytest.mark.spec("N28")
def test_nodes_of_unknown_kinds_are_named_in_a_warning_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "nano.json"
    strange = {"type": "checkpoint", "of": ["n2"]}
    change_node(path, "n3", data=strange)
    with pytest.warns(
        UserWarning, match=r"nano.json .*n3 \(checkpoint\).* They are not sent to models"
    ):
        loaded = load(path)
    save(path, loaded.graph)
    assert json.loads(path.read_text())["nodes"]["n3"]["data"] == strange


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds no JSON object"),
        ("{}", "no object `nodes`"),
        ('{"nodes": []}', "no object `nodes`"),
        ('{"nodes": {"a": 1}}', "no object `nodes`"),
        ("[" * 200_000, "is not JSON"),
        (b"\xff\xfe{", "is not JSON"),
    ],
)
def test_a_file_without_a_graph_is_an_error(
    text: str | bytes, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SessionError, match=f"{path} .*{problem}"):
        load(path)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"parent_ids": ["gone"]}, "it follows 'gone', not in the file"),
        ({"parent_ids": ["n3"]}, "it follows itself"),
        ({"parent_ids": ["n9"]}, "it follows itself, directly or through others"),
        ({"parent_ids": "n2"}, "parent_ids must be a list"),
        ({"parent_ids": [["n2"]]}, "parent_ids must be a list"),
        ({"id": "other"}, "it calls itself 'other'"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"metadata": [1]}, "metadata"),
        ({"data": "text"}, "data"),
        ({"data": {"role": "nobody", "content": "x"}}, "role"),
        ({"data": {"role": "user", "content": [{"type": "tool_use", "name": "x"}]}}, "id"),
        ({"data": {"role": "user", "content": 7}}, "content"),
        ({"data": {"type": "tool_execution", "ipyagent": {"call": 1}}}, "call"),
    ],
)
def test_the_error_for_an_invalid_node_names_it(
    entry: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "nano.json"
    change_node(path, "n3", **entry)
    name = "n3" if "n9" not in entry.get("parent_ids", ()) else r"n\d"
    with pytest.raises(SessionError, match=rf"{path}, node '{name}': .*{problem}"):
        load(path)


def test_nan_in_a_node_is_an_error(tmp_path: Path) -> None:
    change_node(tmp_path / "nano.json", "n3", metadata={"score": math.nan})
    with pytest.raises(SessionError, match="node 'n3'"):
        load(tmp_path / "nano.json")


def test_missing_heads_are_replaced_by_the_leaves(tmp_path: Path) -> None:
    for heads in ([], ["gone"], "n9", None):
        nano_file(tmp_path / "nano.json", {"head_ids": heads})
        assert load(tmp_path / "nano.json").heads == ("n9",)


@pytest.mark.spec("N24")
def test_a_file_without_a_graph_is_not_replaced(tmp_path: Path) -> None:
    book = tmp_path / "analysis.ipynb"
    book.write_text('{"cells": []}')
    with pytest.raises(SessionError, match=r"exists and is not a saved session"):
        save(book, rich())
    assert book.read_text() == '{"cells": []}'
    with pytest.raises(SessionError, match="cannot be written"):
        save(book / "one.json", rich())
    with pytest.raises(SessionError, match="cannot be read"):
        load(tmp_path / "gone.json")


def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.json"
    save(path, rich())
    before = path.read_bytes()

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(SessionError, match="cannot be written: No space left"):
            save(path, s.Graph())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_of_ten_thousand_nodes_needs_no_recursion_in_any_order(
    order: int, tmp_path: Path
) -> None:
    path, count = tmp_path / "long.json", 10_000
    chain = [
        {
            "id": f"n{n}",
            "parent_ids": [f"n{n - 1}"] if n else [],
            "data": {"role": ("user", "assistant")[n % 2], "content": f"text {n}"},
            "timestamp": 1_740_821_400.0 + n,
            "metadata": {},
        }
        for n in range(count)
    ]
    nodes_ = {each["id"]: each for each in chain[::order]}
    path.write_text(json.dumps({"head_ids": [f"n{count - 1}"], "nodes": nodes_}))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        loaded = load(path)
        messages = Conversation(loaded.graph, loaded.heads[0]).messages
        save(path, loaded.graph)
    finally:
        sys.setrecursionlimit(before)
    assert [m.text for m in messages] == [f"text {n}" for n in range(count)]
