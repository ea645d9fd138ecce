"""The fold of events into a graph and the messages for the model."""

import contextlib
import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from pydantic import TypeAdapter

from harness import NO, YES, Lab, call
from ipyagent.agent.session.conversation import Conversation
from ipyagent.errors import AgentInterrupted, SessionError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import to_openai, tools_to_openai
from ipyagent.schema import (
    Event,
    ImageContent,
    Message,
    Node,
    Role,
    Stop,
    StopReason,
    SystemPrompt,
    ToolDefinitions,
    ToolExecution,
    ToolResult,
)
from ipyagent.tools.base import tool

EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def kinds(nodes: Iterable[Node]) -> list[str]:
    return [n.data.role if isinstance(n.data, Message) else type(n.data).__name__ for n in nodes]


def folded(events: Iterable[Event]) -> Conversation:
    conversation = Conversation()
    for event in events:
        conversation.add(event)
    return conversation


def reread(events: Iterable[Event]) -> list[Event]:
    return [EVENT.validate_json(EVENT.dump_json(event)) for event in events]


def assert_equal(one: Conversation, other: Conversation) -> None:
    assert one.graph.nodes == other.graph.nodes
    assert (one.head, one.node_ids, one.messages) == (other.head, other.node_ids, other.messages)
    assert (one.system_prompt, one.tools) == (other.system_prompt, other.tools)
    assert (one.token_count, one.since_summary) == (other.token_count, other.since_summary)


def assert_each_extends_the_last(requests: list[ModelRequest]) -> None:
    sent = [to_openai(request.messages, vision=True) for request in requests]
    for one, other in itertools.pairwise(sent):
        assert json.dumps(other[: len(one)]) == json.dumps(one)
        assert len(other) > len(one)
    assert len({json.dumps(tools_to_openai(request.tools)) for request in requests}) <= 1


def test_calls_fan_out_below_their_reply_and_in_to_their_results(lab: Lab) -> None:
    lab.variables["x"] = 1
    lab.run([{"calls": [call("list_files"), call("list_variables")]}, "Done."])
    nodes = list(lab.session.graph)
    assert kinds(nodes) == [
        "SystemPrompt",
        "ToolDefinitions",
        "user",
        "user",
        "assistant",
        "ToolExecution",
        "ToolExecution",
        "user",
        "assistant",
        "Stop",
    ]
    reply, one, two, results = nodes[4:8]
    assert one.parent_ids == two.parent_ids == (reply.id,)
    assert results.parent_ids == (one.id, two.id)
    assert all(b.parent_ids == (a.id,) for a, b in itertools.pairwise(nodes[:5]))
    assert lab.session.conversation.head == nodes[-1].id
    stop = nodes[-1].data
    assert isinstance(stop, Stop)
    assert stop.reason is StopReason.FINISHED


def test_a_run_adds_what_is_new_and_not_its_instructions_again(lab: Lab) -> None:
    lab.run(["One."])
    before = len(lab.session.graph)
    lab.run(["Two."])
    assert kinds(lab.session.graph)[before:] == ["user", "assistant", "Stop"]
    lab.run(["Three."], allowed_tools=["list_files"])
    assert kinds(lab.session.graph)[-4:] == ["ToolDefinitions", "user", "assistant", "Stop"]
    assert [t.name for t in lab.session.conversation.tools] == ["list_files"]


def test_the_graph_holds_no_live_objects(lab: Lab) -> None:
    @tool
    def make() -> list[int]:
        """Make something large."""
        return [1, 2, 3]

    run = lab.run([{"calls": [call("make")]}, "Made."], tools=[make])
    assert run.results[0].value == [1, 2, 3]
    kept = [n.data.result for n in lab.session.graph if isinstance(n.data, ToolExecution)]
    assert [result.value for result in kept if result] == [None]


def test_a_reply_carries_the_tokens_it_took(lab: Lab) -> None:
    lab.run([{"text": "Hi.", "usage": {"prompt_tokens": 30, "completion_tokens": 4}}])
    usage = lab.session.conversation.messages[-1].usage
    assert usage.total_tokens == lab.session.conversation.token_count == 34
    stop = list(lab.session.graph)[-1].data
    assert isinstance(stop, Stop)
    assert stop.usage == usage


def test_a_turn_without_an_answer_is_closed_by_a_note(lab: Lab) -> None:
    lab.run([{"error": {"kind": "refused", "message": "No credit."}}])
    note = lab.session.conversation.messages[-1]
    assert (note.role, note.text, note.synthetic) == (Role.ASSISTANT, "[No credit.]", True)


def test_one_can_go_on_from_any_earlier_step(lab: Lab) -> None:
    lab.run(["Blue."], "My colour?")
    earlier = lab.session.conversation.head
    lab.run(["Seven."], "My number?")
    assert earlier is not None
    branch = lab.session.conversation.up_to(earlier)
    assert [m.text for m in branch.messages if not m.synthetic] == ["My colour?", "Blue."]
    assert len(branch.graph) < len(lab.session.graph)
    with pytest.raises(SessionError, match="no step"):
        branch.up_to("nowhere")


def test_from_the_middle_of_a_step_its_calls_are_answered(lab: Lab) -> None:
    lab.run([{"calls": [call("list_files"), call("list_variables")]}, "Done."])
    nodes = list(lab.session.graph)
    middle = next(n for n in nodes if isinstance(n.data, Message) and n.data.tool_calls)
    branch = lab.session.conversation.up_to(middle.id)
    lab.run(["Elsewhere."], "And now?")
    for event in lab.watcher.events:
        branch.add(event)
    calls = next(m for m in branch.messages if m.tool_calls)
    answers = branch.messages[branch.messages.index(calls) + 1].tool_results
    assert [a.tool_use_id for a in answers] == [c.id for c in calls.tool_calls]
    assert all(a.is_error for a in answers)


def test_what_happened_after_a_crash_is_still_a_valid_conversation(lab: Lab) -> None:
    lab.run([{"calls": [call("list_files")]}, "Done."])
    types = [event.type for event in lab.watcher.events]
    cut = types.index("message_finished") + 1
    torn = folded(lab.watcher.events[:cut])
    assert torn.messages[-1].tool_calls
    lab.run(["Back."])
    for event in lab.watcher.events:
        torn.add(event)
    assert len(torn.messages[-3].tool_results) == 1


def test_a_new_instruction_is_added_to_the_old_ones(lab: Lab) -> None:
    lab.run(["One."])
    head = lab.session.conversation.head
    assert head is not None
    extra = Node(id="more", parent_ids=(head,), data=SystemPrompt(content="Be brief."))
    more = Conversation([*lab.session.graph, extra], "more")
    assert more.system_prompt == f"{lab.session.conversation.system_prompt}\n\nBe brief."
    assert more.newest_prompt == "Be brief."


@pytest.mark.spec("A10", "N10")
def test_instructions_of_a_run_hold_for_that_run_alone(lab: Lab) -> None:
    asked = []
    for own in ({}, {"system_prompt": "You review."}, {}):
        lab.run(["One."], **own)
        asked.append(lab.client.requests[0].messages[0].text)
    usual, review, again = asked
    assert review == f"{usual}\n\nYou review."
    assert again == usual
    said = lab.session.conversation
    assert Conversation(said.graph, said.head or "").system_prompt == usual


def test_a_conversation_without_nodes_is_empty() -> None:
    empty = Conversation()
    assert (empty.head, empty.messages, empty.token_count) == (None, [], 0)
    assert Conversation([Node(data=ToolDefinitions())]).head is not None


FAILS = {"error": {"kind": "refused", "message": "No."}}
REPLIES = st.sampled_from(
    [
        "Answer.",
        {"text": "Cut", "finish_reason": "length"},
        {"thinking": "Hm.", "finish_reason": "length"},
        {"thinking": "Only thought."},
        {"text": ""},
        {"text": "Half", "error": {"kind": "refused", "message": "No."}},
        FAILS,
        {"text": "Look.", "calls": [call("list_files"), call("fly")]},
        {"calls": [call("write_file", path="x", content="y")], "usage": {"prompt_tokens": 70}},
        {"calls": [call("picture"), call("list_variables")]},
        {"calls": [{"name": "list_files", "arguments": "{bad"}]},
    ]
)
TURN = st.fixed_dictionaries(
    {
        "replies": st.lists(REPLIES, min_size=1, max_size=3),
        "answer": st.sampled_from([YES, NO, None]),
        "stop": st.sampled_from([None, "message_delta", "tool_running", "approval_requested"]),
        "max_steps": st.integers(1, 3),
        "x": st.integers(),
    }
)


@tool
def picture() -> Any:
    """Draw."""
    return ToolResult(output="drawn", images=(ImageContent(data="aGk="),))


@pytest.mark.spec("M14", "N25")
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(turns=st.lists(TURN, min_size=1, max_size=4))
def test_whatever_happens_requests_only_grow_and_what_is_read_back_is_the_same(
    tmp_path: Path, turns: list[dict[str, Any]]
) -> None:
    lab = Lab(tmp_path)
    events: list[Event] = []
    requests: list[ModelRequest] = []
    for turn in turns:
        lab.variables["x"] = turn["x"]

        def heard(event: Event, stop: str | None = turn["stop"]) -> None:
            if event.type == stop:
                lab.cell.stop()

        with contextlib.suppress(AgentInterrupted):
            lab.run(
                [*turn["replies"], FAILS],
                tools=[picture],
                answer=turn["answer"],
                heard=heard,
                max_steps=turn["max_steps"],
            )
        events += lab.watcher.events
        requests += lab.client.requests

    assert_each_extends_the_last(requests)
    said = lab.session.conversation
    for message, following in itertools.zip_longest(said.messages, said.messages[1:]):
        wanted = [c.id for c in message.tool_calls]
        if wanted:
            assert [r.tool_use_id for r in following.tool_results] == wanted
    assert_equal(folded(reread(events)), said)
    nodes = [Node.from_dict(json.loads(json.dumps(node.to_dict()))) for node in said.graph]
    assert_equal(Conversation(nodes, said.head), said)


def test_a_request_does_not_walk_through_what_was_said_before(lab: Lab) -> None:
    conversation = lab.session.conversation
    lab.run(["One."])
    first = conversation.messages
    lab.run(["Two."])
    assert conversation.messages is first
