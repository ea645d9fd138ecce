"""The older part of a conversation becomes a summary; the rest stays word for word."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from harness import Lab, call
from ipyagent.agent.compaction import KEPT_STEPS, find_cut, summary_request
from ipyagent.agent.session.conversation import Conversation
from ipyagent.errors import AgentInterrupted, ContextOverflowError
from ipyagent.llm.client import ModelRequest, ModelSize
from ipyagent.llm.scripted import Scripted
from ipyagent.llm.wire import to_openai
from ipyagent.schema import (
    Compacted,
    Event,
    Message,
    Node,
    Outcome,
    Role,
    Run,
    RunStatus,
    StopReason,
    TextContent,
    TokenUsage,
    ToolCall,
    ToolResultContent,
)

SMALL = {"context": {"token_limit": 100}}


def look(tokens: int = 0) -> dict[str, Any]:
    usage = {"prompt_tokens": tokens} if tokens else None
    return {"calls": [call("list_variables")], "usage": usage}


def asks_for_summary(request: ModelRequest) -> bool:
    return "It will be replaced by what you write" in request.messages[0].text


def compacted(lab: Lab) -> list[Compacted]:
    return [event for event in lab.watcher.events if isinstance(event, Compacted)]


def requests(lab: Lab) -> list[ModelRequest]:
    return lab.client.requests


def long_ago(lab: Lab, steps: int = 6) -> Run:
    """A run of so many steps, so that there is something to summarise."""
    lab.variables["x"] = 1
    return lab.run([*[look()] * (steps - 1), "Looked."], "Look around.", max_steps=steps)


@pytest.mark.spec("M16")
def test_a_conversation_that_gets_too_long_is_summarised(lab: Lab) -> None:
    replies = [*[look(50)] * 5, look(101), "The gist.", "Done."]
    run = lab.run(replies, "Find it.", settings=SMALL)
    assert (run.output, run.outcome) == ("Done.", Outcome.SUCCESS)
    assert [asks_for_summary(r) for r in requests(lab)] == [False] * 6 + [True, False]
    assert "summarised" in run.steps[6].notes[0]
    (event,) = compacted(lab)
    assert event.summary.synthetic
    _, prompt, summary, *tail = requests(lab)[-1].messages
    assert (prompt.text, "The gist." in summary.text) == ("Find it.", True)
    assert [m.role for m in tail] == [Role.ASSISTANT, Role.USER] * KEPT_STEPS
    assert tail[0].tool_calls[0].id == tail[1].tool_results[0].tool_use_id
    assert "list_variables" in requests(lab)[6].messages[1].text
    assert requests(lab)[6].tools == ()


@pytest.mark.spec("M16")
@pytest.mark.parametrize(
    ("window", "served", "limit"),
    [
        (None, None, 80_000),
        (1_000_000, None, 80_000),
        (8_000, None, 6_000),
        (1_000_000, 8_000, 6_000),
    ],
)
def test_the_limit_is_three_quarters_of_the_window_and_at_most_what_is_set(
    lab: Lab, window: int | None, served: int | None, limit: int
) -> None:
    """`served` is what a local server is set to."""

    class Model(Scripted):
        def size(self) -> ModelSize:
            return ModelSize(8, served or window)

    def ask(*replies: Any) -> None:
        lab.run(Model(replies, context_window=window), "A prompt.")

    long_ago(lab)
    usage = {"prompt_tokens": limit, "completion_tokens": 0}
    ask({"text": "Ok.", "usage": usage})
    ask("The gist.", "Two.")
    assert len(compacted(lab)) == 1

    usage["prompt_tokens"] -= 100
    ask({"text": "Ok.", "usage": usage})
    ask("Four.")
    assert compacted(lab) == []


@pytest.mark.spec("M16")
def test_what_came_since_the_providers_count_is_estimated(lab: Lab) -> None:
    lab.run([{"text": "Hm.", "usage": {"prompt_tokens": 50}}])
    assert lab.session.conversation.token_count == 50
    lab.run(["I see."], "word " * 80)
    assert lab.session.conversation.token_count == pytest.approx(150, abs=5)
    lab.run(["word " * 80])  # an answer that no provider counted
    assert lab.session.conversation.token_count == pytest.approx(250, abs=10)


@pytest.mark.spec("M16")
def test_after_a_summary_a_step_passes_before_the_next(lab: Lab) -> None:
    def play(request: ModelRequest) -> Any:
        said.append(asks_for_summary(request))
        return "Gist." if said[-1] else next(steps)

    said: list[bool] = []
    steps = iter([*[look(999)] * 9, "Done."])
    lab.run([play] * 20, settings=SMALL)
    assert not any(one and other for one, other in zip(said, said[2:], strict=False))
    assert said.count(True) >= 2


@pytest.mark.spec("M16")
@pytest.mark.parametrize("answer", [{"error": {"kind": "refused", "message": "No."}}, "", " \n"])
def test_without_a_summary_nothing_is_lost_and_the_run_goes_on(lab: Lab, answer: Any) -> None:
    long_ago(lab)
    before = list(lab.session.conversation.messages)
    run = lab.run([answer, look(999), "Done."], settings=SMALL)
    assert run.output == "Done."
    assert "could not be summarised" in run.notes[0]
    assert len(run.notes) == 1  # tried once
    assert lab.session.conversation.messages[: len(before)] == before


@pytest.mark.spec("M16", "M26")
def test_a_stop_while_the_summary_is_written_changes_nothing(lab: Lab) -> None:
    long_ago(lab)
    before = list(lab.session.conversation.messages)

    def stop(request: ModelRequest) -> str:
        assert asks_for_summary(request)
        lab.cell.stop()
        return "Never kept."

    with pytest.raises(AgentInterrupted):
        lab.run([stop], "And?", settings=SMALL)
    assert lab.session.conversation.messages[: len(before)] == before
    assert lab.run(["Back."]).output == "Back."


def test_what_a_summary_costs_counts(lab: Lab) -> None:
    long_ago(lab)
    spent = {"usage": {"prompt_tokens": 70, "completion_tokens": 30}, "cost_usd": 0.25}
    replies = [{"text": "Gist."} | spent, *[look() | spent] * 2, "No."]
    run = lab.run(replies, settings=SMALL, max_usd=0.75)
    assert run.stop_reason is StopReason.MAX_USD
    assert (run.usage.total_tokens, run.cost_usd) == (300, 0.75)
    said = [m for m in lab.session.conversation.messages if m.tool_calls]
    assert said[-1].usage == TokenUsage(prompt_tokens=70, completion_tokens=30)


@pytest.mark.spec("M16")
def test_the_person_may_ask_for_a_summary(lab: Lab) -> None:
    long_ago(lab)
    lab.session.compact_next = True
    run = lab.run(["Gist.", "Done."], "And now?")
    assert (run.output, len(compacted(lab))) == ("Done.", 1)
    assert not lab.session.compact_next


@pytest.mark.spec("M16")
def test_a_summarised_conversation_is_read_back_as_it_was(lab: Lab) -> None:
    long_ago(lab)
    events = list(lab.watcher.events)
    lab.session.compact_next = True
    lab.run(["Gist.", look(70), "Done."], "And now?")
    said, again = lab.session.conversation, Conversation()
    event_type: TypeAdapter[Event] = TypeAdapter(Event)
    for event in [*events, *lab.watcher.events]:
        again.add(event_type.validate_json(event_type.dump_json(event)))
    for other in (again, Conversation(said.graph, said.head)):
        assert (other.messages, other.node_ids) == (said.messages, said.node_ids)
        assert (other.token_count, other.since_summary) == (said.token_count, 2)
    assert said.head is not None
    assert Conversation(said.graph, said.head).messages == said.messages


def test_where_nothing_is_old_enough_the_person_is_told(lab: Lab) -> None:
    lab.session.compact_next = True
    run = lab.run(["Done."])
    assert (run.output, compacted(lab)) == ("Done.", [])
    assert "Nothing was summarised" in run.notes[0]


def full(room: int, *answers: str) -> list[Any]:
    """A model that refuses more than so many characters, and has these answers otherwise."""
    rest = iter(answers)

    def play(request: ModelRequest) -> Any:
        if len(json.dumps(to_openai(request.messages, vision=False))) > room:
            raise ContextOverflowError("Too long.")
        return next(rest)

    return [play] * 9


def words(number: int) -> dict[str, Any]:
    return {"calls": [call("list_variables")], "text": "word " * number}


@pytest.mark.spec("M16")
def test_a_conversation_that_the_model_refuses_as_too_long_is_summarised_once(lab: Lab) -> None:
    lab.run([*[words(2_000)] * 6, "Long."], "First.")
    run = lab.run(full(55_000, "Gist.", "Done."), "Second.")
    assert (run.output, len(compacted(lab))) == ("Done.", 1)


@pytest.mark.spec("M16")
def test_even_a_few_long_steps_make_room(lab: Lab) -> None:
    lab.run([*[words(2_000)] * 2, "Long."], "First.")
    assert find_cut(lab.session.conversation) is None
    run = lab.run(full(20_000, "Gist.", "Done."), "Second.")
    assert run.output == "Done."
    sent = requests(lab)[-1].messages
    assert [m.text for m in sent if m.role is Role.USER and not m.synthetic][-1] == "Second."


@pytest.mark.spec("M16")
def test_a_conversation_that_stays_too_long_ends_the_run_and_says_what_to_do(lab: Lab) -> None:
    lab.run([*[words(2_000)] * 6, "Long."], "First.")
    run = lab.run(full(32_000, "Gist." * 1_000, "Never."), "Second.")
    assert (run.status, run.stop_reason) == (RunStatus.ERROR, StopReason.CONTEXT_OVERFLOW)
    assert len(requests(lab)) == 3
    assert "session new" in (run.error or "")
    lab.session.conversation = Conversation()
    assert lab.run(["Fine."]).output == "Fine."


@pytest.mark.spec("M16")
def test_there_are_no_two_summaries_in_a_row(lab: Lab) -> None:
    lab.run([*[words(2_000)] * 6, "Long."], "First.")
    run = lab.run(full(40_000, "Gist." * 3_000, "Never."), "Second.", settings=SMALL)
    assert run.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert [asks_for_summary(r) for r in requests(lab)] == [True, False]


def test_a_first_prompt_that_is_too_long_is_not_tried_again(lab: Lab) -> None:
    run = lab.run(full(100, "Never."))
    assert run.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert len(requests(lab)) == 1


def test_a_summary_is_made_from_excerpts_that_fit() -> None:
    result = ToolResultContent(tool_use_id="c", content=(TextContent(text="x" * 50_000),))
    old = (
        Message.of(Role.USER, "Why?"),
        Message(role=Role.ASSISTANT, content=(ToolCall(id="c", name="look"),)),
        Message(role=Role.USER, content=(result,)),
        Message.of(Role.ASSISTANT, "Because."),
    )
    text = summary_request(old, room=25_000).messages[1].text
    assert len(text) < 3_000
    assert text.startswith("User: Why?\n\nAgent calls look: {}")
    assert text.endswith("Agent: Because.")
    assert len(summary_request(old * 100, room=2_500).messages[1].text) < 10_100


STEP = st.sampled_from(["prompt", "context", "answer", "calls"])


@pytest.mark.spec("M16")
@given(st.lists(STEP, max_size=30))
def test_no_cut_parts_a_call_from_its_result_or_drops_what_a_person_wrote(kinds: list[str]) -> None:
    messages: list[Message] = []
    for number, kind in enumerate(kinds):
        match kind:
            case "prompt":
                messages.append(Message.of(Role.USER, f"Prompt {number}"))
            case "context":
                messages.append(Message.of(Role.USER, "Context", synthetic=True))
            case "answer":
                messages.append(Message.of(Role.ASSISTANT, f"Answer {number}"))
            case "calls":
                call_ = ToolCall(id=f"c{number}", name="look")
                result = ToolResultContent(tool_use_id=f"c{number}")
                messages.append(Message(role=Role.ASSISTANT, content=(call_,)))
                messages.append(Message(role=Role.USER, content=(result,)))
    parents = [(), *((str(n),) for n in range(len(messages)))]
    conversation = Conversation(
        Node(id=str(n), parent_ids=parents[n], data=message) for n, message in enumerate(messages)
    )
    where = find_cut(conversation)
    if where is None:
        return
    kept = [conversation.graph.nodes[each].data for each in (*where.before, *where.after)]
    typed = [m for m in messages if m.role is Role.USER and not m.synthetic and not m.tool_results]
    assert [m for m in kept if m in typed] == typed
    tail = [conversation.graph.nodes[each].data for each in where.after]
    assert sum(isinstance(m, Message) and m.role is Role.ASSISTANT for m in tail) == KEPT_STEPS
    assert not tail[0].tool_results
    assert tail == messages[-len(tail) :]
