"""The sessions of a workspace."""

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest

from growth import LINEAR, growth
from harness import Lab
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.errors import SessionError
from ipyagent.schema import Message, PlanStep, Role, Run, RunStatus, SessionState, ToolCall
from ipyagent.store.journal import Journal


def texts(messages: list[Message]) -> list[str]:
    return [m.text for m in messages if not m.synthetic and m.role is not Role.SYSTEM]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.mark.spec("H01", "P10")
def test_a_session_comes_back_as_it_was(lab: Lab, path: Path) -> None:
    journal = Journal.open(path)
    sessions = Sessions(journal)
    lab.session = sessions.begin("one")
    lab.run(["Hello.", "unused"], "First.")
    lab.run([{"calls": [{"name": "list_files", "arguments": {}}]}, "Two."], "Second.")
    before = lab.session
    sessions.close()
    journal.close()
    after = Sessions(Journal.open(path)).resume("one").session
    assert after.conversation.messages == before.conversation.messages
    assert list(after.graph.nodes.values()) == list(before.graph.nodes.values())
    assert [r.to_dict() for r in after.runs] == [r.to_dict() for r in before.runs]
    assert after.record.state is SessionState.ACTIVE


def test_a_session_is_revived_in_one_pass_and_its_runs_are_read_when_asked_for(
    lab: Lab, path: Path
) -> None:
    journal = Journal.open(path)
    sessions = Sessions(journal)
    lab.session = sessions.begin("one")
    look = {"calls": [{"name": "list_files", "arguments": {}}]}
    for number in range(8):
        lab.run([look, "Done."], f"Prompt {number}.")
    sessions.close()
    journal.close()

    journal = Journal.open(path)
    recorded = len(list(journal.events(lab.session.id)))
    every_run = journal.runs(lab.session.id)
    journal.events_read = 0
    after = Sessions(journal).resume("one").session
    assert journal.events_read < recorded
    journal.events_read = 0
    assert after.runs.ids == tuple(run.id for run in every_run)
    assert after.runs[2] == every_run[2]
    assert journal.events_read == recorded / 8
    assert list(after.runs) == every_run
    assert after.conversation.messages == lab.session.conversation.messages


def test_a_run_that_never_began_is_not_in_a_revived_session(lab: Lab, path: Path) -> None:
    journal = Journal.open(path)
    sessions = Sessions(journal)
    lab.session = session = sessions.begin("one")
    lab.run(["One."], "A.")
    columns = "id, session_id, status, goal, updated_at"
    lost = f"INSERT INTO runs ({columns}) VALUES ('lost', ?, 'error', 'B.', '')"
    journal._writer.change(lambda db: db.execute(lost, (session.id,)))
    planned = Run(
        id="planned",
        session_id=session.id,
        prompt="C.",
        status=RunStatus.DRAFT,
        plan=(PlanStep(call=ToolCall(id="1", name="list_files")),),
    )
    journal.draft(planned, session.id)
    sessions.close()
    journal.close()
    journal = Journal.open(path)
    after = Sessions(journal).resume("one").session
    assert list(after.runs) == journal.runs(session.id)
    assert planned.id in after.runs.ids


def test_a_branch_of_a_branch_has_the_whole_line(lab: Lab, path: Path) -> None:
    sessions = Sessions(Journal.open(path))
    lab.session = trunk = sessions.begin("trunk")
    lab.run(["One."], "A.")
    lab.run(["Two."], "B.")
    heads = [n.id for n in trunk.graph if isinstance(n.data, Message) and n.data.text == "One."]
    lab.session = twig = sessions.branch(trunk, heads[0])
    lab.run(["Three."], "C.")
    lab.session = leaf = sessions.branch(twig)
    lab.run(["Four."], "D.")
    assert texts(leaf.conversation.messages) == ["A.", "One.", "C.", "Three.", "D.", "Four."]
    assert texts(trunk.conversation.messages) == ["A.", "One.", "B.", "Two."]
    sessions.close()
    again = Sessions(Journal.open(path)).resume(leaf.id).session
    assert again.conversation.messages == leaf.conversation.messages


def test_names_are_unique_and_a_session_can_be_found_by_the_beginning_of_its_id(
    path: Path,
) -> None:
    sessions = Sessions(Journal.open(path))
    first, second = sessions.begin("a"), sessions.begin("a")
    third = sessions.begin("a-b")
    assert [each.name for each in (first, second, third)] == ["a", "a-2", "a-b"]
    assert sessions.resume(first.id[:8]).session is first
    with pytest.raises(SessionError, match=r"no session is called 'b'; there are: a, a-2, a-b"):
        sessions.resume("b")
    assert len({sessions.begin("a").name for _ in range(9)} - {"a", "a-2"}) == 9


def test_a_session_begins_as_fast_among_many() -> None:
    def begin(count: int) -> None:
        sessions = Sessions(Journal.open(None))
        for _ in range(count):
            sessions.begin("map")

    assert growth(begin, 100) < LINEAR


def test_a_session_that_another_kernel_holds_is_branched_and_nothing_is_lost(
    lab: Lab, path: Path
) -> None:
    mine, theirs = Sessions(Journal.open(path)), Sessions(Journal.open(path))
    lab.session = held = mine.get_or_begin("shared").session
    lab.run(["One."], "A.")
    opened = theirs.get_or_begin("shared")
    assert opened.session.name == "shared-2"
    assert "branch" in opened.notices[0]
    lab.session = opened.session
    lab.run(["Two."], "B.")
    lab.session = held
    lab.run(["Three."], "C.")
    assert texts(held.conversation.messages) == ["A.", "One.", "C.", "Three."]
    assert texts(opened.session.conversation.messages) == ["A.", "One.", "B.", "Two."]
    mine.close()
    assert texts(theirs.resume("shared").session.conversation.messages) == [
        "A.",
        "One.",
        "C.",
        "Three.",
    ]


@pytest.mark.spec("N24", "D24")
def test_a_saved_session_is_loaded_with_everything(lab: Lab, path: Path, tmp_path: Path) -> None:
    sessions = Sessions(Journal.open(path))
    lab.session = sessions.begin("one")
    lab.run([{"thinking": "hm", "calls": [{"name": "list_files"}]}, "Done."], "List.")
    lab.session.save(tmp_path / "one.json")
    loaded = sessions.load(tmp_path / "one.json")
    assert loaded.name == "one-2"
    assert loaded.conversation.messages == lab.session.conversation.messages
    sessions.close()
    again = Sessions(Journal.open(path)).resume("one-2").session
    assert again.conversation.messages == lab.session.conversation.messages
    assert list(again.graph.nodes.values()) == list(lab.session.graph.nodes.values())


@pytest.mark.spec("H02")
def test_an_ended_session_takes_no_prompts_and_the_notebook_gets_a_new_one(
    lab: Lab, path: Path
) -> None:
    sessions = Sessions(Journal.open(path))
    opened = sessions.get_for_notebook("book.ipynb")
    assert opened.session.record.state is SessionState.INITIALIZING
    lab.session = opened.session
    lab.run(["One."], "A.")
    assert opened.session.record.state is SessionState.ACTIVE
    assert [each.state for each in sessions.journal.sessions()] == [SessionState.ACTIVE]
    for _ in range(2):
        opened.session.end()
        assert [each.state for each in sessions.journal.sessions()] == [SessionState.TERMINATED]
    with pytest.raises(SessionError, match="has ended"):
        lab.run(["Two."], "B.")
    assert sessions.get_for_notebook("book.ipynb").session.id != opened.session.id


def test_who_opens_a_session_that_is_open_here_gets_the_same_one(lab: Lab, path: Path) -> None:
    journal = Journal.open(path)
    one, other = Sessions(journal), Sessions(journal)
    lab.session = one.get_or_begin("shared").session
    lab.run(["One."], "A.")
    assert other.get_or_begin("shared").session is lab.session
    assert len(journal.sessions()) == 1


def test_a_session_that_nobody_uses_any_more_is_read_back_by_the_next(lab: Lab, path: Path) -> None:
    journal = Journal.open(path)
    lab.session = Sessions(journal).get_or_begin("shared").session
    lab.run(["One."], "A.")
    lab.session = Session()
    gc.collect()
    again = Sessions(journal).get_or_begin("shared").session
    assert (again.name, texts(again.conversation.messages)) == ("shared", ["A.", "One."])


def test_a_name_that_looks_like_the_beginning_of_an_id_is_a_name(path: Path) -> None:
    sessions = Sessions(Journal.open(path))
    first = sessions.begin("one")
    assert sessions.get_or_begin(first.id[:6]).session.name == first.id[:6]
    assert sessions.get_or_begin(first.id).session is first


TOGETHER = """
import json, multiprocessing, os, sys
from pathlib import Path
from ipyagent.agent.session.sessions import Sessions
from ipyagent.store.journal import Journal

fork = multiprocessing.get_context("fork")
barrier = fork.Barrier(20)

def begin():
    barrier.wait()
    opened = getattr(Sessions(Journal.open(Path(sys.argv[1]))), sys.argv[2])("shared")
    said = [opened.session.name, opened.session.id, *opened.notices]
    os.write(1, json.dumps(said).encode() + b"\\n")
    barrier.wait()  # a kernel that had ended would leave its session to the next one
    os._exit(0)

kernels = [fork.Process(target=begin) for _ in range(20)]
for each in kernels:
    each.start()
for each in kernels:
    each.join()
"""


@pytest.mark.spec("P10")
@pytest.mark.parametrize("how", ["get_or_begin", "get_for_notebook"])
def test_kernels_that_begin_a_session_at_the_same_time_share_no_name(how: str, path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, path, how], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    opened = [json.loads(line) for line in done.stdout.splitlines()]
    names = {"shared", *(f"shared-{n}" for n in range(2, 21))}
    assert {name for name, *_ in opened} == names
    (first,) = (each for each in opened if each[0] == "shared")
    assert len(first) == 2
    assert all("Another kernel has just begun" in each[2] for each in opened if each is not first)
    sessions = Sessions(Journal.open(path))
    assert {each.name for each in sessions.journal.sessions()} == names
    locks = {each.stem for each in (path.parent / "locks").iterdir()}
    assert locks == {each.id for each in sessions.journal.sessions()}
    assert sessions.get_or_begin("shared").session.id == first[1]


def test_a_session_of_which_nothing_was_said_is_not_branched_but_begun(
    lab: Lab, path: Path
) -> None:
    mine, theirs = Sessions(Journal.open(path)), Sessions(Journal.open(path))
    held = mine.get_for_notebook("a.ipynb").session
    opened = theirs.get_for_notebook("a.ipynb")
    assert (held.name, opened.session.name) == ("a.ipynb", "a.ipynb-2")
    assert "Another kernel has just begun the session 'a.ipynb'" in opened.notices[0]
    lab.session = opened.session
    assert lab.run(["Fine."]).output == "Fine."
