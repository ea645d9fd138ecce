"""An intent is on the disk before the act; what cannot be recorded does not happen."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import YES, Clock, Lab, Watcher, call
from ipyagent import schema
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.session.session import Session
from ipyagent.errors import AgentInterrupted
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Event, Outcome, RunStatus, ToolStatus
from ipyagent.store.journal import Journal
from ipyagent.tools.base import Tool, tool
from patience import PATIENCE


@pytest.fixture
def database(lab: Lab, tmp_path: Path) -> Iterator[Path]:
    """The file that the lab's session is recorded in."""
    path = tmp_path / "state.db"
    journal = Journal.open(path)
    record = schema.Session(name="recorded")
    journal.create(record)
    lab.session = Session(record, journal)
    yield path
    journal.close()


def recorded(path: Path) -> list[str]:
    """The types of the events that a process which starts now would find."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as reader:
        rows = reader.execute("SELECT data FROM events ORDER BY seq").fetchall()
    reader.close()
    return [event for (data,) in rows for event in TYPES if f'"{event}"' in data]


TYPES = (
    "run_started",
    "approval_requested",
    "tool_running",
    "tool_finished",
    "compacted",
    "step_finished",
    "run_finished",
)


def execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def break_at(path: Path, event_type: str) -> None:
    """From now on writing an event of that type fails, as on a disk that is full."""
    execute(
        path,
        f"CREATE TRIGGER broken BEFORE INSERT ON events WHEN NEW.data LIKE '%\"{event_type}\"%' "
        "BEGIN SELECT abs(-9223372036854775808); END",
    )


@pytest.mark.spec("P07")
@pytest.mark.parametrize("where", ["main", "thread"])
def test_all_is_recorded_before_what_follows_from_it(lab: Lab, database: Path, where: str) -> None:
    seen: list[list[str]] = []

    def look(*_: object) -> str:
        seen.append(recorded(database))
        return "Done."

    def ask(request: ModelRequest) -> object:
        look()
        return {"calls": [call("act")]}

    @tool(where=where)
    def act() -> None:
        """Act."""
        look()

    def end(event: Event) -> None:
        if event.type == "run_finished":
            look()

    lab.run([ask, look], tools=[act], heard=end)
    steps = ["run_started", "tool_running", "tool_finished", "step_finished"]
    assert seen == [steps[:1], steps[:2], steps, [*steps, "step_finished", "run_finished"]]


@pytest.mark.spec("P07")
def test_a_result_is_recorded_before_a_summary_is_made_of_it(lab: Lab, database: Path) -> None:
    seen: list[list[str]] = []

    def answer(request: ModelRequest) -> str:
        seen.append(recorded(database))
        return "All of it."

    lab.run([{"calls": [call("list_variables")]}] * 6 + ["Done."])
    lab.session.compact_next = True
    lab.run([answer, answer], "And now?")
    assert [each[-1] for each in seen] == ["run_started", "compacted"]


def test_what_led_to_a_question_is_recorded_while_the_user_thinks(lab: Lab, database: Path) -> None:
    def think(approval: Approval) -> Answer:
        while "approval_requested" not in recorded(database):
            time.sleep(0.01)
        return YES

    calls = [call("list_variables"), call("write_file", path="x", content="y")]
    lab.run([{"calls": calls}, "Done."], answer=think)
    assert recorded(database).count("tool_finished") == 2


def test_a_step_costs_two_commits(lab: Lab, database: Path) -> None:
    steps = 40
    lab.run([{"text": "So.", "calls": [call("list_variables")]}] * steps + ["."], max_steps=50)
    # The start with the first request, each intent, each result, the answer, the end.
    assert lab.session.journal.commits == 2 * steps + 3


def test_calls_beside_each_other_share_one_flush(
    lab: Lab, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes: list[int] = []
    journal = lab.session.journal
    flush = journal.flush
    monkeypatch.setattr(journal, "flush", lambda: flushes.append(1) or flush())

    @tool(where="thread")
    def look() -> None:
        """Look."""

    def flushes_of(calls: int) -> int:
        flushes.clear()
        lab.run([{"calls": [call("look")] * calls}, "Done."], tools=[look])
        return len(flushes)

    assert flushes_of(8) == flushes_of(1)


def spy(ran: list[str]) -> Tool:
    @tool
    def act() -> None:
        """Act."""
        ran.append("act")

    return act


@pytest.mark.spec("H26")
def test_what_cannot_be_recorded_is_not_run_and_the_next_prompt_works(
    lab: Lab, database: Path
) -> None:
    ran: list[str] = []
    break_at(database, "tool_running")
    run = lab.run([{"calls": [call("act"), call("act")]}, "Never asked."], tools=[spy(ran)])
    assert ran == []
    assert (run.status, run.outcome) == (RunStatus.ERROR, Outcome.FAILED)
    assert "integer overflow" in (run.error or "")
    first, second = run.executions
    assert first.status is ToolStatus.FAILED
    assert "was not run, because its intent could not be recorded" in first.result.output
    assert second.status is ToolStatus.CANCELLED
    assert len(lab.client.requests) == 1

    execute(database, "DROP TRIGGER broken")
    again = lab.run([{"calls": [call("act")]}, "Done."], tools=[spy(ran)])
    assert (again.output, ran) == ("Done.", ["act"])
    types = recorded(database)
    assert types.count("run_started") == types.count("run_finished") == 2


def test_read_only_calls_that_cannot_be_recorded_are_all_not_run(lab: Lab, database: Path) -> None:
    ran: list[str] = []

    @tool(where="thread")
    def look() -> None:
        """Look."""
        ran.append("look")

    break_at(database, "tool_running")
    run = lab.run([{"calls": [call("look")] * 3}], tools=[look])
    assert ran == []
    assert [e.status for e in run.executions] == [ToolStatus.FAILED] * 3


def test_no_question_stays_open_beside_a_change_that_cannot_be_recorded(
    lab: Lab, database: Path
) -> None:
    class Reviewer(Watcher):
        asks_together = True

        async def ask(self, approval: Approval) -> None:
            if self.asked:  # the second one stays open
                self.environment.approvals.decide(self.asked[0].id, YES)
            self.asked.append(approval)

    lab.view_class = Reviewer
    break_at(database, "tool_running")
    calls = [call("write_file", path=f"{each}.txt", content="new") for each in "ab"]
    run = lab.run([{"calls": calls}, "Never asked."])
    assert [e.status for e in run.executions] == [ToolStatus.FAILED, ToolStatus.CANCELLED]
    assert "integer overflow" in (run.error or "")
    assert lab.environment.approvals.pending() == []


def test_a_question_that_cannot_be_recorded_is_not_asked(lab: Lab, database: Path) -> None:
    break_at(database, "run_started")
    run = lab.run(["Never asked."])
    assert run.outcome is Outcome.FAILED
    assert "integer overflow" in (run.error or "")
    assert lab.client.requests == []
    execute(database, "DROP TRIGGER broken")
    assert lab.run(["Fine."]).output == "Fine."


def test_an_answer_that_cannot_be_recorded_is_shown_and_said_to_be_lost(
    lab: Lab, database: Path
) -> None:
    break_at(database, "message_finished")
    run = lab.run(["Here it is."])
    assert (run.outcome, run.output) == (Outcome.FAILED, "Here it is.")
    assert "integer overflow" in (run.error or "")


@pytest.mark.spec("M26", "M14")
def test_a_thread_that_goes_on_after_a_stop_has_an_unknown_outcome(lab: Lab) -> None:
    leave, left = threading.Event(), threading.Event()

    @tool(where="thread")
    def dig() -> str:
        """Dig for long."""
        leave.wait(PATIENCE)
        left.set()
        return "deep"

    def stop(event: Event) -> None:
        if event.type == "tool_running":
            threading.Timer(0.2, lab.cell.stop).start()

    with pytest.raises(AgentInterrupted):
        lab.run([{"calls": [call("dig"), call("list_variables")]}], tools=[dig], heard=stop)
    assert not left.is_set()
    leave.set()
    digging, other = lab.session.runs[-1].executions
    assert (digging.status, other.status) == (ToolStatus.UNKNOWN, ToolStatus.CANCELLED)
    assert digging.result.output.startswith("unknown outcome: dig was still running")
    answers = [m for m in lab.session.conversation.messages if m.tool_results][-1].tool_results
    assert [a.is_error for a in answers] == [True, True]
    assert left.wait(PATIENCE)
    assert lab.run(["Back."]).output == "Back."


@pytest.mark.spec("A51")
def test_a_thread_that_outlives_its_step_has_an_unknown_outcome(lab: Lab, clock: Clock) -> None:
    leave = threading.Event()

    @tool(where="thread")
    def dig() -> None:
        """Dig for long."""
        clock.advance(601)
        leave.wait(PATIENCE)

    run = lab.run([{"calls": [call("dig")]}], tools=[dig], step_seconds=600)
    leave.set()
    assert run.executions[0].status is ToolStatus.UNKNOWN


@pytest.mark.spec("A51")
def test_only_a_person_can_end_what_runs_on_the_main_thread(lab: Lab, clock: Clock) -> None:
    ended = threading.Event()

    @tool
    def work() -> None:
        """Work in the person's own thread."""
        clock.advance(601)
        ended.wait(PATIENCE)

    def hear(event: Event) -> None:
        if event.type == "tool_finished":
            ended.set()

    run = lab.run([{"calls": [call("work")]}], tools=[work], heard=hear, step_seconds=600)
    assert run.executions[0].status is ToolStatus.UNKNOWN

    @tool
    def wait() -> None:
        """Wait in the person's own thread until the person stops it."""
        lab.cell.stop()
        threading.Event().wait(PATIENCE)

    with pytest.raises(AgentInterrupted):
        lab.run([{"calls": [call("wait")]}], tools=[wait])
    stopped = lab.session.runs[-1].executions[0]
    assert stopped.status is ToolStatus.CANCELLED
    assert "part of it may have been done" in stopped.result.output


def test_a_call_that_still_waits_for_a_thread_never_runs(lab: Lab) -> None:
    leave, ran = threading.Event(), []
    all_begun = threading.Barrier(32, lambda: lab.cell.stop())  # the pool has 32 threads

    @tool(where="thread")
    def dig(n: int) -> None:
        """Dig for long."""
        ran.append(n)
        all_begun.wait(PATIENCE)
        leave.wait(PATIENCE)

    with pytest.raises(AgentInterrupted):
        lab.run([{"calls": [call("dig", n=n) for n in range(40)]}], tools=[dig])
    leave.set()
    states = [e.status for e in lab.session.runs[-1].executions]
    assert states.count(ToolStatus.UNKNOWN) == len(ran) == 32
    assert states.count(ToolStatus.CANCELLED) == 8
