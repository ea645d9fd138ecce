"""Graphs with several heads: loaded, saved, fanned out and merged."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from harness import Lab
from ipyagent.agent.session.conversation import Conversation
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.errors import SessionError
from ipyagent.store.journal import Journal

FILE_ID = "0b0e7d4a-8b5c-4f57-9f0a-0d6f2b6a3c11"


def entry(name: str, parents: list[str], data: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"timestamp": 1_740_821_400.25, "metadata": {"of": name}}
    return {"id": name, "parent_ids": parents, "data": data, **about, **more}


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def two_heads(path: Path, **changes: Any) -> dict[str, Any]:
    """A file as nano-agent writes it: one question, two answers, and what is unknown here."""
    nodes = [
        entry("sys", [], {"type": "system_prompt", "content": "Be brief."}),
        entry("ask", ["sys"], said("user", "Which way?")),
        entry("left", ["ask"], said("assistant", "Left.")),
        entry("right", ["ask"], said("assistant", "Right.")),
        entry("odd", ["left"], {"type": "checkpoint", "of": ["left"]}, colour="red"),
        entry("end", ["odd"], {"type": "stop_reason", "reason": "end_turn", "usage": {}}),
    ]
    content = {
        "session_id": FILE_ID,
        "created_at": 1_740_821_400.5,
        "metadata": {"task": "crossroads", "name": "its own", "notebook": "theirs"},
        "head_ids": ["end", "right"],
        "version": 7,
        "nodes": {each["id"]: each for each in nodes},
        **changes,
    }
    path.write_text(json.dumps(content))
    return content


def meaning(path: Path) -> dict[str, Any]:
    """What nano-agent would read from a file."""
    content: dict[str, Any] = json.loads(path.read_text())
    for node in content["nodes"].values():
        data = node["data"]
        if "role" in data:
            node["data"] = {"role": data["role"], "content": data["content"]}
        if data.get("type") == "stop_reason":
            node["data"] = {"type": "stop_reason", "reason": data["reason"]}
    return content


def texts(session: Session) -> list[str]:
    return [message.text for message in session.conversation.messages if not message.synthetic]


pytestmark = pytest.mark.filterwarnings("ignore:.*that this version does not know:UserWarning")


@pytest.mark.spec("N28")
@pytest.mark.parametrize("session_id", [FILE_ID, "session_1a2b3c4d"])
def test_a_graph_is_saved_as_it_was_loaded(session_id: str, tmp_path: Path) -> None:
    two_heads(tmp_path / "a.json", session_id=session_id)
    session = Session.load(tmp_path / "a.json")
    assert session.heads == ("end", "right")
    assert session.metadata["task"] == "crossroads"
    assert session.started_at.timestamp() == 1_740_821_400.5
    assert (session.id == session_id) == (session_id == FILE_ID)
    session.save(tmp_path / "b.json")
    assert meaning(tmp_path / "b.json") == meaning(tmp_path / "a.json")


TEXTS = st.sampled_from(["Which way?", "Left.", " ", "⟨é⟩\n"])
ARGUMENTS = {"command": "ls", "deep": [{"a": None}]}
BLOCKS = {
    "user": st.builds(
        lambda text, name: {
            "type": "tool_result",
            "tool_use_id": name,
            "content": [{"type": "text", "text": text}],
        },
        TEXTS,
        TEXTS,
    ),
    "assistant": st.builds(
        lambda text: {"type": "tool_use", "id": text, "name": text, "input": ARGUMENTS}, TEXTS
    ),
}
MESSAGES = st.sampled_from(["user", "assistant"]).flatmap(
    lambda role: st.fixed_dictionaries(
        {
            "role": st.just(role),
            "content": TEXTS
            | st.lists(
                BLOCKS[role]
                | st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS})
                | st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS})
                | st.fixed_dictionaries({"type": st.just("hologram"), "beam": st.integers()}),
                max_size=3,
            ),
        }
    )
)
DATA = MESSAGES | st.sampled_from(
    [
        {"type": "system_prompt", "content": "Be brief."},
        {"type": "tool_definitions", "tools": [{"name": "Bash", "input_schema": {}, "x": 1}]},
        {"type": "tool_execution", "tool_name": "Bash", "tool_use_id": "t", "result": []},
        {"type": "stop_reason", "reason": "end_turn", "usage": {"input_tokens": 3}},
        {"type": "stop_reason", "reason": "pause_turn", "usage": {}},
        {"type": "checkpoint", "of": ["n0"]},
    ]
)
UNKNOWN = st.dictionaries(st.sampled_from(["colour", "mood", "tags"]), st.integers(), max_size=2)
SECONDS = st.floats(0, 4e9)
"""Finer than microseconds, and with the whole seconds of a file that another program wrote."""


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """A file with branches, merges and heads within, in any order."""
    nodes = list[dict[str, Any]]()
    for number, data in enumerate(draw(st.lists(DATA, min_size=1, max_size=6))):
        parents = draw(st.lists(st.sampled_from(range(number)), max_size=2)) if number else []
        more = {"timestamp": draw(SECONDS), "metadata": draw(UNKNOWN), **draw(UNKNOWN)}
        nodes.append(entry(f"n{number}", [f"n{each}" for each in {*parents}], data, **more))
    names = [node["id"] for node in nodes]
    return {
        **draw(UNKNOWN),
        "session_id": draw(st.sampled_from([FILE_ID, "session_1a2b", "", 7])),
        "created_at": draw(SECONDS | st.just("2025-03-01T09:30:00Z")),
        "metadata": draw(UNKNOWN),
        "head_ids": draw(st.lists(st.sampled_from(names), min_size=1, unique=True)),
        "nodes": {each["id"]: each for each in draw(st.permutations(nodes))},
    }


@pytest.mark.spec("N28")
@given(graphs())
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_file_is_saved_exactly_as_it_was_loaded_and_a_prompt_changes_no_old_node(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    first, second, third = (tmp_path / f"{name}.json" for name in "abc")
    first.write_text(json.dumps(content))
    lab = Lab(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab.session = Session.load(first)
        lab.session.save(second)
        again = json.loads(second.read_text())
        assert again.pop("session_id") == (content["session_id"] or lab.session.id)
        assert again == {key: each for key, each in content.items() if key != "session_id"}
        lab.run(["Straight on."], "And then?")
        lab.session.save(third)
        assert texts(Session.load(third)) == texts(lab.session)
    later = json.loads(third.read_text())
    assert {name: later["nodes"][name] for name in content["nodes"]} == content["nodes"]
    assert later["head_ids"] == [*lab.session.heads]
    kept = ("session_id", "nodes", "head_ids")
    assert all(later[key] == each for key, each in content.items() if key not in kept)


@pytest.mark.spec("N28")
def test_a_graph_survives_the_journal_and_a_restart(tmp_path: Path) -> None:
    two_heads(tmp_path / "a.json")
    sessions = Sessions(Journal.open(tmp_path / "state.db"))
    sessions.load(tmp_path / "a.json", "crossing").save(tmp_path / "b.json")
    sessions.close()
    again = Sessions(Journal.open(tmp_path / "state.db")).resume("crossing").session
    again.annotate(notebook="mine.ipynb")
    again.save(tmp_path / "c.json")
    for name in "bc":
        assert meaning(tmp_path / f"{name}.json") == meaning(tmp_path / "a.json")
    assert texts(again) == ["Which way?", "Left."]


@pytest.mark.spec("N28")
def test_what_is_said_later_takes_the_place_of_the_head_that_it_follows(
    lab: Lab, tmp_path: Path
) -> None:
    two_heads(tmp_path / "a.json")
    lab.session = Session.load(tmp_path / "a.json")
    lab.run(["Then straight on."], "And then?")
    assert lab.session.heads == (lab.session.conversation.head, "right")
    lab.session.save(tmp_path / "b.json")
    again = Session.load(tmp_path / "b.json")
    assert again.heads == lab.session.heads
    assert texts(again) == ["Which way?", "Left.", "And then?", "Then straight on."]


@pytest.mark.spec("N29")
def test_branches_go_on_by_themselves_and_are_merged(lab: Lab, tmp_path: Path) -> None:
    sessions = Sessions(Journal.open(tmp_path / "state.db"))
    trunk = lab.session = sessions.begin("trip")
    lab.run(["To the sea."], "Where to?")
    branches = []
    for way in ("train", "boat"):
        lab.session = trunk.branch(name=way)
        lab.run([f"The {way} takes a day."], f"How long by {way}?")
        branches.append(lab.session)
    assert texts(trunk) == ["Where to?", "To the sea."]
    assert texts(branches[1])[2:] == ["How long by boat?", "The boat takes a day."]

    merged = lab.session = trunk.merge(branches)
    run = lab.run(["Both take a day."], "Which is faster?")
    sent = [m.text for m in lab.client.requests[0].messages]
    wanted = ["To the sea.", "The train takes a day.", "The boat takes a day.", "Which is faster?"]
    assert [each for each in sent if each in wanted] == wanted
    heads = {branch.conversation.head for branch in branches}
    assert any(set(node.parent_ids) == heads for node in merged.graph)
    assert merged.heads == (merged.conversation.head,)
    expected = texts(merged)
    assert run.outcome == "success"

    merged.save(tmp_path / "merged.json")
    assert texts(Session.load(tmp_path / "merged.json")) == expected
    sessions.close()
    again = Sessions(Journal.open(tmp_path / "state.db")).resume(merged.id).session
    assert again.conversation.messages == merged.conversation.messages


@pytest.mark.spec("N29")
def test_the_heads_of_a_file_are_chosen_or_merged(lab: Lab, tmp_path: Path) -> None:
    two_heads(tmp_path / "a.json")
    session = Session.load(tmp_path / "a.json")
    assert texts(session.branch("right")) == ["Which way?", "Right."]
    for merged in (session.merge(), session.merge(["right", "end"]), session.merge().branch()):
        assert texts(merged) == ["Which way?", "Left.", "Right."]
        assert set(merged.heads) == {"end", "right"}
    lab.session = session.merge()
    lab.run(["Left, I think."], "Now?")
    assert lab.session.heads == (lab.session.conversation.head,)
    for wrong in (["nowhere"], []):
        with pytest.raises(SessionError, match=r"no step is called 'nowhere'|nothing to merge"):
            session.merge(wrong)


@pytest.mark.spec("N29")
def test_a_summary_stands_only_for_its_own_branch(lab: Lab) -> None:
    for number in range(6):
        lab.run([f"Answer {number}."], f"Question {number}?")
    trunk, branches = lab.session, []
    for way in ("train", "boat"):
        lab.session = trunk.branch()
        lab.session.compact_next = way == "boat"
        summary = ["We talked about the sea."] if way == "boat" else []
        lab.run([*summary, f"By {way}."], f"How? {way}")
        branches.append(lab.session)
    merged = trunk.merge(branches)
    lab.session = merged
    lab.run(["Both."], "So?")
    said = merged.conversation
    for messages in (said.messages, Conversation(said.graph, str(said.head)).messages):
        sent = [message.text for message in messages if not message.synthetic]
        assert sent[:2] == ["How? train", "By train."]
        assert sent[-4:] == ["How? boat", "By boat.", "So?", "Both."]
        assert any("We talked about the sea." in message.text for message in messages)
        assert "Answer 0." not in sent


def test_a_session_is_made_current_only_where_there_is_a_notebook() -> None:
    with pytest.raises(SessionError, match="no notebook"):
        Session().make_current()
