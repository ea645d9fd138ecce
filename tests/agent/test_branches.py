"""Graphs with several heads: loaded, saved, fanned out and merged."""

import json
from pathlib import Path
from typing import Any

import pytest

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
