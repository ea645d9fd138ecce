"""Read-only access to a journal."""

import sqlite3
from pathlib import Path

import pytest

from ipyagent.schema import RunStatus
from ipyagent.store.journal import Journal, JournalSummary, read_summary
from stories import IN_FILE, Place, begun, ended, plan, raw, started, tell


def test_the_summary_has_sessions_and_waiting_plans(journal: Journal, path: Place):
    older, newer = begun(journal, "older"), begun(journal, "newer")
    journal.draft(plan("r1"), older.id)
    seen = read_summary(path)
    assert {each.id for each in seen.sessions} == {older.id, newer.id}
    assert list(seen.plans) == [older.id]
    assert seen.plans[older.id].plan == plan().plan
    assert seen.plans[older.id].status is RunStatus.DRAFT


def test_the_summary_has_the_first_prompt_of_each_session(journal: Journal, path: Place):
    session, other = begun(journal, "one"), begun(journal, "100% other")
    tell(journal, session, "r1", [started("r1", "Plot it"), ended(RunStatus.CANCELLED)])
    tell(journal, session, "r2", [started("r2", "Then SUM all_of the Ötzi")])
    tell(journal, other, "r3", [started("r3", "Now")])
    first, second = {session.id: "Plot it"}, {other.id: "Now"}
    assert read_summary(path).prompts == journal.prompts() == first | second
    found = {
        each: journal.prompts(each) for each in ("sum ALL_", "Ötz", "0% O", "n", "l%t", "allxof")
    }
    assert found == {
        "sum ALL_": first,
        "Ötz": first,
        "0% O": second,
        "n": first | second,
        "l%t": {},
        "allxof": {},
    }


def test_the_summary_has_no_plan_that_was_decided_on(journal: Journal, path: Place):
    session = begun(journal)
    journal.draft(plan("r1"), session.id)
    journal.cancel(session.id)
    assert read_summary(path).plans == {}


def test_reading_a_missing_journal_creates_nothing(path: Place):
    for _ in range(2):
        assert read_summary(path) == JournalSummary()
    assert isinstance(path, str) or not path.parent.exists()


@IN_FILE
def test_other_files_are_not_read_as_a_journal(path: Path):
    path.parent.mkdir()
    path.write_text("hello")
    assert read_summary(path) == JournalSummary()
    path.unlink()
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE sessions (id TEXT)")
    foreign.close()
    assert read_summary(path) == JournalSummary()


@IN_FILE
def test_a_link_is_not_followed(journal: Journal, path: Place, tmp_path: Path):
    begun(journal)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert len(read_summary(path).sessions) == 1
    assert read_summary(link) == JournalSummary()


@pytest.mark.parametrize("column", ["record", "plan_json"])
def test_a_plan_that_cannot_be_read_is_skipped(journal: Journal, path: Place, column: str):
    session = begun(journal)
    journal.draft(plan("r1"), session.id)
    journal.close()
    with raw(path) as damaged:
        damaged.execute(f"UPDATE runs SET {column} = '{{'")
    assert read_summary(path).plans == {}
    assert len(read_summary(path).sessions) == 1
