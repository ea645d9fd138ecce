"""A session as it is lived."""

import gc
import json
from pathlib import Path

import pytest

from harness import Lab, call, new_session
from ipyagent import schema
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.schema import Node, Run, RunStatus, SessionState, Step, ToolExecution
from ipyagent.store.journal import Journal

LOOKING = {"calls": [call("list_files")]}


def test_the_record_says_which_run_is_on_and_which_was_last(lab: Lab) -> None:
    during: list[str | None] = []
    run = lab.run(["Hello."], heard=lambda _: during.append(lab.session.record.active_run_id))
    assert during[0] == run.id
    record = lab.session.record
    assert (record.active_run_id, record.last_run_id) == (None, run.id)
    assert record.last_run_status is RunStatus.DONE


@pytest.mark.spec("H01", "H04", "H29")
def test_a_live_session_has_its_record_s_fields_and_counts_what_was_said(lab: Lab) -> None:
    assert (lab.session.message_count, lab.session.history) == (0, ())
    for number in range(27):
        lab.run([{"calls": [call("list_files")]}, f"Answer {number}."], f"Question {number}.")
    lab.run([{"error": {"kind": "refused"}}], "The last question.")
    session, record = lab.session, lab.session.record
    assert session.message_count == len(session.history) == record.message_count == 55
    assert [m.text for m in session.history[-3:]] == [
        "Question 26.",
        "Answer 26.",
        "The last question.",
    ]
    assert session.session_id == session.id == record.session_id == record.id
    assert session.state is SessionState.ACTIVE
    assert session.started_at == record.started_at
    assert session.metadata == record.metadata == {}
    assert record.history == session.history


@pytest.mark.spec("H01", "H04")
def test_a_session_that_is_read_back_counts_the_same(lab: Lab, tmp_path: Path) -> None:
    for number in range(3):
        lab.run([{"calls": [call("list_files")]}, "Yes."], f"Number {number}.")
    lab.session.save(tmp_path / "talk.json")
    loaded = Session.load(tmp_path / "talk.json")
    revived = Sessions(lab.session.journal).resume(lab.session.id).session
    assert loaded.message_count == revived.message_count == lab.session.message_count == 6


def test_runs_keep_their_live_results(lab: Lab) -> None:
    lab.variables["answer"] = 42
    run = lab.run([{"calls": [call("inspect_variable", name="answer")]}, "It is 42."])
    assert lab.session.runs == [run]
    assert lab.session.runs[0].results[0] is run.results[0]


def test_what_is_noted_about_a_session_is_in_the_journal(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "state.db")
    record = schema.Session(name="mine")
    journal.create(record)
    session = Session(record, journal)
    session.annotate(notebook="a.ipynb")
    session.end()
    stored = journal.session(record.id)
    assert stored.metadata == {"notebook": "a.ipynb"}
    assert stored.state is SessionState.TERMINATED
    journal.close()


def test_a_saved_session_is_a_graph_that_goes_on_from_its_head(lab: Lab, tmp_path: Path) -> None:
    lab.run(["Hello."])
    lab.session.save(tmp_path / "talk.json")
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert saved["head_ids"] == [lab.session.conversation.head]
    assert len(saved["nodes"]) == len(lab.session.graph)


@pytest.mark.spec("H21")
def test_a_notice_is_told_once_until_it_changes() -> None:
    session = Session()
    assert session.take_notices(["a", "b", "a"]) == ("a", "b")
    assert session.take_notices(["b", "a"]) == ()
    assert session.take_notices(["b", "a2"]) == ("a2",)
    assert session.notices == ("b", "a2")
    assert session.take_notices([]) == ()
    assert session.take_notices(["b"]) == ("b",)
    assert Session().take_notices(["b"]) == ("b",)


@pytest.mark.slow
def test_old_runs_and_steps_are_not_held_as_objects(lab: Lab) -> None:
    """However long a session gets; what was said and done stays there to be read."""

    def count(kind: type) -> int:
        gc.collect()
        return sum(type(each) is kind for each in gc.get_objects())

    def work(runs: int) -> None:
        for _ in range(runs):
            lab.run([LOOKING] * 9 + ["Done."], "And on.")

    journal = Journal.open(None)
    lab.session = new_session(journal)
    kept = lab.run([LOOKING, "Done."])
    work(12)
    lab.session.conversation.messages.clear()  # as a summary does
    before = {kind: count(kind) for kind in (Run, Step, ToolExecution, Node)}
    work(24)
    lab.session.conversation.messages.clear()
    grown = {kind.__name__: count(kind) - number for kind, number in before.items()}
    assert max(grown.values()) <= 20, grown
    assert len(lab.session.runs) == 37
    assert lab.session.runs[0] is kept
    assert [len(run.results) for run in lab.session.runs[1:]] == [9] * 36
    assert lab.session.runs[5].results[0].output == kept.results[0].output
    assert len(lab.session.graph.nodes) > 36 * 20
    journal.close()
