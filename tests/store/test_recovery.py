"""Runs whose kernel died: they are ended, every call has one result, and nothing runs again."""

from typing import ClassVar

import pytest

from ipyagent import schema as s
from ipyagent.store.journal import KERNEL_GONE, Journal
from ipyagent.store.sessions import CHILD
from ipyagent.store.tables import Row
from stories import (
    PLAN,
    Place,
    asked,
    begun,
    called,
    deltas,
    doing,
    done,
    plan,
    raw,
    reopened,
    started,
    tell,
    types,
    whole_run,
)


def journal_after_death(path: Place, events: list[s.Event]) -> tuple[Journal, s.Session, s.Run]:
    """Return the journal of a kernel that follows one that died after these events."""
    journal = Journal.open(path)
    session = begun(journal)
    tell(journal, session, "r1", events)
    journal = reopened(path, journal)
    assert journal.claim(session.id)
    (run,) = journal.recover(session.id)
    return journal, session, run


@pytest.mark.spec("P06")
def test_a_call_that_had_begun_has_an_unknown_outcome_and_one_that_had_not_is_cancelled(
    path: Place,
) -> None:
    one, two, three, four = (called(n) for n in (1, 2, 3, 4))
    events = [started(), s.StepStarted(step=1), asked(1, one, two, three, four), *doing(1, one)]
    events += [done(1, one), *doing(1, two), next(iter(doing(1, three)))]
    journal, session, run = journal_after_death(path, events)
    assert [e.status for e in run.executions] == ["success", "unknown", "cancelled", "cancelled"]
    unknown, cancelled = run.results[1], run.results[2]
    assert str(unknown.error).startswith("unknown outcome: the kernel ended while write_file ran")
    assert "check before you repeat it" in unknown.output
    assert "was not run" in cancelled.output
    assert (run.status, run.stop_reason, run.error) == ("error", "error", KERNEL_GONE)
    assert run.duration is not None
    assert types(journal, session)[-6:] == [
        "tool_finished",
        "tool_finished",
        "tool_started",
        "tool_finished",
        "step_finished",
        "run_finished",
    ]
    journal.close()


@pytest.mark.spec("P06")
@pytest.mark.parametrize("length", range(1, len(whole_run(steps=3))))
def test_after_any_interruption_every_call_has_one_result_and_nothing_is_active(
    length: int, path: Place
) -> None:
    journal, session, run = journal_after_death(path, whole_run(steps=3)[:length])
    assert run.is_finished
    for step in run.steps:
        calls = step.message.tool_calls if step.message else ()
        assert [e.call.id for e in step.executions] == [c.id for c in calls]
        assert all(e.result for e in step.executions)
    kinds = types(journal, session)
    assert kinds.count("step_started") == kinds.count("step_finished")
    stored = journal.session(session.id)
    assert (stored.active_run_id, stored.last_run_id) == (None, "r1")
    assert stored.last_run_status is s.RunStatus.ERROR
    assert journal.recover(session.id) == []
    assert types(journal, session) == kinds
    tell(journal, session, "r2", whole_run("r2"))
    assert journal.run("r2").status is s.RunStatus.DONE
    journal.close()


def test_the_text_of_a_partial_reply_is_kept(path: Place) -> None:
    text = "Once upon a time. " * 100
    events = [started(), s.StepStarted(step=1), s.MessageStarted(step=1), *deltas(text)]
    journal, _, run = journal_after_death(path, events)
    assert text.startswith(run.output)
    assert len(run.output) > len(text) / 2
    journal.close()


def test_a_finished_reply_is_not_repeated(path: Place) -> None:
    events = [started(), s.StepStarted(step=1), s.MessageStarted(step=1), *deltas("x" * 1000)]
    journal, session, run = journal_after_death(path, [*events, asked(1, text="All of it.")])
    assert run.output == "All of it."
    assert types(journal, session).count("message_finished") == 1
    journal.close()


@pytest.mark.spec("P06", "D20")
def test_an_approved_plan_that_had_not_begun_is_ended_and_a_draft_still_waits(path: Place) -> None:
    journal = Journal.open(path)
    approved, waiting = begun(journal, "approved"), begun(journal, "waiting")
    journal.draft(plan("r1"), approved.id)
    journal.confirm(approved.id)
    journal.draft(plan("r2"), waiting.id)
    journal = reopened(path, journal)
    (run,) = journal.recover(approved.id)
    assert (run.status, run.plan, run.error) == ("error", PLAN, KERNEL_GONE)
    assert types(journal, approved) == ["run_started", "run_finished"]
    assert journal.recover(waiting.id) == []
    assert journal.confirm(waiting.id).plan == PLAN
    journal.close()


def test_a_run_whose_beginning_cannot_be_read_blocks_nothing(path: Place) -> None:
    journal = Journal.open(path)
    session = begun(journal)
    tell(journal, session, "r1", [started()])
    journal.close()
    with raw(path) as other:
        of_table = " ON events" if isinstance(path, str) else ""
        other.execute(f"DROP TRIGGER events_are_not_changed{of_table}")
        other.execute("UPDATE events SET data = '{}'")
    journal = Journal.open(path)
    assert journal.recover(session.id) == []
    stored = journal.session(session.id)
    assert stored.active_run_id is None
    journal.close()


def test_other_sessions_are_not_recovered(journal: Journal) -> None:
    mine, other = begun(journal, "mine"), begun(journal, "theirs")
    for session, run_id in zip((mine, other), ("r1", "r2"), strict=True):
        tell(journal, session, run_id, [started(run_id)])
    assert [run.id for run in journal.recover(mine.id)] == ["r1"]
    assert journal.run("r2").status is s.RunStatus.RUNNING


class Watched(Journal):
    """A journal that notes which sessions it holds while it ends their runs."""

    held: ClassVar[list[bool]] = []

    def _recover(self, row: Row) -> None:
        self.held.append(self._locks.holds(row["session_id"]))
        super()._recover(row)


def test_a_delegated_task_is_claimed_while_it_is_ended(path: Place) -> None:
    Watched.held.clear()
    dead, next_one = Journal.open(path), Watched.open(path)
    session, task = begun(next_one), s.Session(name=CHILD)
    dead.create(task)
    tell(dead, task, "lost", [started("lost")])
    dead.close()
    next_one.recover(session.id)
    assert Watched.held == [True]
    other = Journal.open(path)
    assert other.claim(task.id)
    for journal in (next_one, other):
        journal.close()


def test_delegated_tasks_are_ended_once_no_kernel_has_them(path: Place) -> None:
    dead, living, next_one = Journal.open(path), Journal.open(path), Journal.open(path)
    session = begun(next_one)
    for journal, name in ((dead, "lost"), (living, "alive")):
        task = s.Session(name=CHILD)
        journal.create(task)
        assert journal.claim(task.id)
        tell(journal, task, name, [started(name)])
    dead.close()
    assert next_one.recover(session.id) == []
    assert next_one.run("lost").error == KERNEL_GONE
    assert next_one.run("alive").status is s.RunStatus.RUNNING
    living.recover(session.id)
    assert living.run("alive").status is s.RunStatus.RUNNING
    for journal in (living, next_one):
        journal.close()


@pytest.mark.spec("P06")
@pytest.mark.parametrize("has_other_kernel", [False, True])
def test_what_a_lost_task_changed_is_that_of_the_call_that_began_it(
    path: Place, has_other_kernel: bool
) -> None:
    dead, next_one = Journal.open(path), Journal.open(path)
    session, other = begun(dead), begun(next_one, "another")
    parents = [("r1", None, session)]
    for name, above in (("r2", "r1"), ("r3", "r2")):
        parents.append((name, above, s.Session(name=CHILD)))
        dead.create(parents[-1][2])
    for name, above, own in parents:
        run = s.Run(id=name, parent_id=above, prompt=f"Do {name}.", model="m")
        wrote, delegated = called(), called(2, task=f" Do r{int(name[1]) + 1}. ")
        change = s.FileChange(path=name, after=name)
        written = done(1, wrote)
        result = s.ToolResult(output="ok", files=(change,))
        written = written.model_copy(
            update={"execution": written.execution.model_copy(update={"result": result})}
        )
        events = [s.RunStarted(run=run), s.StepStarted(step=1), asked(1, wrote, delegated)]
        tell(dead, own, name, [*events, *doing(1, wrote), written, *doing(1, delegated)])
    dead.close()
    if has_other_kernel:
        next_one.recover(other.id)
    assert next_one.claim(session.id)
    (run,) = next_one.recover(session.id)
    written, delegated = run.results
    assert [each.path for each in delegated.files] == ["r2", "r3"]
    assert delegated.child == s.ChildRun(runs=("r2", "r3"))
    next_one.close()
