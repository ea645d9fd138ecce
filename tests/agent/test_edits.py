"""Edited nodes begin a branch, and two branches are compared."""

from pathlib import Path
from typing import Any

import pytest

from harness import Lab, call
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.errors import AgentError, SessionError
from ipyagent.schema import Message, Node, Role, SystemPrompt, ToolExecution
from ipyagent.schema.graph import EDITED
from ipyagent.store.journal import Journal
from ipyagent.ui.static_html import graph_text


def texts(session: Session) -> list[str]:
    said = [each for each in session.messages if not each.synthetic]
    return [each.text or " ".join(one.text for one in each.tool_results) for each in said]


def find(session: Session, text: str) -> str:
    """Return the id of the message with that text."""
    (found,) = (
        each.id
        for each in session.graph
        if isinstance(each.data, Message) and each.data.text == text
    )
    return found


def calls(session: Session) -> list[Node]:
    """Return the two calls, the one that reads of the sea first."""
    nodes = [each for each in session.graph if isinstance(each.data, ToolExecution)]
    return sorted(nodes, key=lambda node: node.data.call.id)


@pytest.fixture
def trip(lab: Lab, tmp_path: Path) -> Session:
    """Two prompts, the first with two calls."""
    for name in ("sea", "hills"):
        (tmp_path / f"{name}.txt").write_text(f"the {name}")
    lab.session = Sessions(Journal.open(tmp_path / "state.db")).begin("trip")
    both = [call("read_file", path=f"{name}.txt") for name in ("sea", "hills")]
    lab.run([{"calls": both, "text": "I look."}, "To the sea."], "Where to?")
    lab.run(["By train."], "How?")
    return lab.session


@pytest.mark.spec("N24")
def test_an_edited_prompt_is_asked_from_there_and_the_session_stays_as_it_is(
    lab: Lab, trip: Session
) -> None:
    before = trip.graph.to_dict()
    lab.session = edited = trip.edit(find(trip, "How?"), "How long?")
    assert (edited.name, edited.branch().name) == ("trip-2", "trip-3")
    assert texts(edited)[-2:] == ["To the sea.", "How long?"]
    lab.run(["A day."], "")
    assert texts(edited)[-2:] == ["How long?", "A day."]
    assert [each.text for each in lab.client.requests[0].messages].count("How long?") == 1
    assert edited.runs[-1].prompt == "How long?"
    assert trip.graph.to_dict() == before
    with pytest.raises(AgentError, match="The prompt is empty"):
        lab.run(["Never."], "")


def test_an_id_from_before_an_edit_is_named_with_what_became_of_it(trip: Session) -> None:
    old = find(trip, "How?")
    edited = trip.edit(old, "How long?")
    now = find(edited, "How long?")
    for each in (old, trip.heads[0]):
        with pytest.raises(SessionError, match=rf"{old[:4]}-1 is {now[:8]}. What came after it"):
            edited.edit(each, "No.")
    with pytest.raises(SessionError, match=r"shows their ids$"):
        trip.edit("zzzz", "No.")


@pytest.mark.spec("N24")
def test_another_prompt_may_follow_an_edited_one_and_an_edited_answer(
    lab: Lab, trip: Session
) -> None:
    lab.session = trip.edit(find(trip, "How?"), "How long?")
    lab.run(["By train, a day."], "And by what?")
    assert texts(lab.session)[-3:] == ["How long?", "And by what?", "By train, a day."]
    lab.session = trip.edit(find(trip, "I look."), "To the hills.")
    lab.run(["Why not."], "Why?")
    assert texts(lab.session) == ["Where to?", "To the hills.", "Why?", "Why not."]


@pytest.mark.spec("N24")
def test_an_edited_result_is_what_the_model_reads_beside_the_other_results(
    lab: Lab, trip: Session
) -> None:
    first, second = calls(trip)
    edited = lab.session = trip.edit(second.id, "the mountains")
    assert texts(edited)[-1] == f"{first.data.result.output} the mountains"
    assert [each.data.result.output for each in calls(edited)][1] == "the mountains"
    assert calls(edited)[0] == first
    lab.run(["To the mountains."], "So?")
    assert texts(lab.session)[-1] == "To the mountains."
    (results,) = (each.id for each in trip.graph if getattr(each.data, "tool_results", ()))
    for node in (results, trip.heads[0]):
        with pytest.raises(SessionError, match="cannot be edited; edit a prompt, an answer"):
            trip.edit(node, "No.")


@pytest.mark.spec("N24")
def test_an_edited_system_prompt_is_in_force(trip: Session) -> None:
    (node,) = (each for each in trip.graph if isinstance(each.data, SystemPrompt))
    edited = trip.edit(node.id, "Speak Latin.")
    assert edited.conversation.system_prompt == "Speak Latin."
    assert len(edited.graph) == 1


@pytest.mark.spec("N24", "N28")
def test_an_edit_is_seen_in_the_graph_and_survives_a_restart_and_a_file(
    lab: Lab, trip: Session, tmp_path: Path
) -> None:
    old = find(trip, "How?")
    lab.session = edited = trip.edit(old, "How long?", "long")
    lab.run(["A day."], "")
    edited.save(tmp_path / "a.json")
    loaded = Session.load(tmp_path / "a.json")
    trip.journal.close()
    restored = Sessions(Journal.open(tmp_path / "state.db")).resume("long").session
    for each in (edited, loaded, restored):
        node = each.graph.nodes[find(each, "How long?")]
        assert node.metadata == {EDITED: old}
        assert f"(edited from {old[:4]}-" in graph_text(each.graph, each.head)
        assert texts(each) == texts(edited)
    assert loaded.id != trip.id


def test_what_may_not_be_said_may_not_be_edited_in(
    trip: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-live-4f9d8c7b6a5e4d3c2b1a")
    edited = trip.edit(find(trip, "How?"), "Is it sk-live-4f9d8c7b6a5e4d3c2b1a?")
    assert "4f9d8c7b" not in texts(edited)[-1]

    def refuse(text: str) -> None:
        raise ValueError(f"not {text}")

    trip.validators.append(refuse)
    with pytest.raises(AgentError, match=r"not How long\?"):
        trip.edit(find(trip, "How?"), "How long?")
    assert trip.branch().validators == [refuse]
    trip.validators.clear()
    for text, problem in ((" ", "is empty"), ("x" * 10_001, "at most 10,000 can be typed")):
        with pytest.raises(AgentError, match=problem):
            trip.edit(find(trip, "How?"), text)


def change(code: str) -> dict[str, Any]:
    return {"calls": [call("run_python", code=code)], "text": "I compute."}


@pytest.mark.spec("N29")
def test_a_diff_shows_where_branches_part_and_how_their_calls_differ(lab: Lab) -> None:
    trunk = lab.session
    lab.run(["To the sea."], "Where to?")
    branches = []
    for name, days in (("train", 1), ("boat", 3)):
        lab.session = trunk.branch(name=name)
        code = f"days = {days}\nkey = 'x'\nprint(days)"
        lab.run([change(code), "That many."], "How long?", confirm_mode="yolo")
        branches.append(lab.session)
    said = str(branches[0].diff(branches[1]))
    assert said.splitlines() == [
        "train and boat part after assistant: To the sea.",
        "--- train",
        "+++ boat",
        " user:",
        "   How long?",
        " assistant:",
        "   I compute.",
        " run_python:",
        "-  code = days = 1",
        "+  code = days = 3",
        "          key = 'x'",
        "          print(days)",
        "-  → 1",
        "+  → 3",
        " assistant:",
        "   That many.",
    ]
    assert str(trunk.diff(trunk.branch(name="twin"))).endswith("and twin say the same")
    assert "-  How long?" in str(branches[0].diff(find(branches[0], "To the sea.")))
    assert "part at the beginning" in str(branches[0].diff(Session()))


def test_a_diff_acts_on_no_terminal_and_no_page(lab: Lab) -> None:
    trunk = lab.session
    lab.run(["Yes."], "One?")
    other = lab.session = trunk.branch(name="other")
    lab.run(["\x1b[2J<script>$x$</script>\u202e"], "Two?")
    diff = trunk.diff(other)
    assert "\x1b" not in str(diff)
    assert "⟨U+202E⟩" in str(diff)
    assert "<script>" not in diff._repr_html_()
    assert {Role.USER, Role.ASSISTANT} == {
        each.data.role
        for each in diff.nodes[1]
        if isinstance(each.data, Message) and not each.data.synthetic
    }
