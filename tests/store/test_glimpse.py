"""Looking at a journal that is not opened."""

import sqlite3
from pathlib import Path

import pytest

from ipyagent.schema import RunStatus
from ipyagent.store.glimpse import Glimpse, glimpse
from ipyagent.store.journal import Journal
from stories import begun, plan


def test_sessions_and_plans_that_wait_are_seen(journal: Journal, path: Path):
    older, newer = begun(journal, "older"), begun(journal, "newer")
    journal.draft(plan("r1"), older.id)
    seen = glimpse(path)
    assert {each.id for each in seen.sessions} == {older.id, newer.id}
    assert list(seen.plans) == [older.id]
    assert seen.plans[older.id].plan == plan().plan
    assert seen.plans[older.id].status is RunStatus.DRAFT


def test_a_plan_that_was_decided_on_is_not(journal: Journal, path: Path):
    session = begun(journal)
    journal.draft(plan("r1"), session.id)
    journal.cancel(session.id)
    assert glimpse(path).plans == {}


def test_nothing_is_made_where_there_is_no_journal(path: Path):
    assert glimpse(path) == Glimpse()
    assert not path.parent.exists()


def test_what_is_no_journal_is_not_read(path: Path):
    path.parent.mkdir()
    path.write_text("hello")
    assert glimpse(path) == Glimpse()
    path.unlink()
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE sessions (id TEXT)")
    foreign.close()
    assert glimpse(path) == Glimpse()


def test_a_link_is_not_followed(journal: Journal, path: Path, tmp_path: Path):
    begun(journal)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert len(glimpse(path).sessions) == 1
    assert glimpse(link) == Glimpse()


@pytest.mark.parametrize("column", ["record", "plan_json"])
def test_a_plan_that_cannot_be_read_is_left_out(journal: Journal, path: Path, column: str):
    session = begun(journal)
    journal.draft(plan("r1"), session.id)
    journal.close()
    with sqlite3.connect(path) as damaged:
        damaged.execute(f"UPDATE runs SET {column} = '{{'")
    damaged.close()
    assert glimpse(path).plans == {}
    assert len(glimpse(path).sessions) == 1
