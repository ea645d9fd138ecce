"""Events that were appended to the journal are read again, in order, once."""

import gc
import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest
from hypothesis import given, settings, strategies as st

from harness import at_once
from ipyagent import schema as s
from ipyagent.errors import JournalError, SessionError
from ipyagent.schema import fold
from ipyagent.store.journal import Journal
from ipyagent.store.runs import Decoder, Encoder
from patience import PATIENCE
from schema.strategies import executions, messages
from stories import (
    IN_FILE,
    OPEN,
    Place,
    append,
    asked,
    begun,
    called,
    deltas,
    doing,
    done,
    ended,
    plan,
    raw,
    reopened,
    started,
    tell,
    types,
    whole_run,
)


@pytest.mark.spec("P10", "H23")
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_a_sessions_runs_are_rebuilt_from_its_events(where: str, path: Place) -> None:
    journal = Journal.open(path if where == "disk" else None)
    session = begun(journal)
    tell(journal, session, "r1", whole_run("r1"))
    tell(journal, session, "r2", whole_run("r2", steps=3))
    expected = []
    for run_id, steps in (("r1", 2), ("r2", 3)):
        run = None
        for event in whole_run(run_id, steps):
            run = fold(run, event)
        expected.append(run)
    if where == "disk":
        journal = reopened(path, journal)
    runs = journal.runs(session.id)
    assert [(r.id, r.status, r.output, len(r.results)) for r in runs] == [
        (r.id, r.status, r.output, len(r.results)) for r in expected
    ]
    assert journal.run("r2") == runs[1]
    journal.close()


def test_events_come_back_equal_and_numbered_in_order(journal: Journal) -> None:
    session, events = begun(journal), whole_run()
    tell(journal, session, "r1", events)
    records = list(journal.events(session.id))
    assert [r.event for r in records] == events
    assert [r.seq for r in records] == sorted({r.seq for r in records})
    assert {r.run_id for r in records} == {"r1"}
    assert all(r.at.tzinfo for r in records)


def test_appended_events_can_be_read_before_a_flush(journal: Journal) -> None:
    session = begun(journal)
    journal.append(session.id, "r1", started())
    assert types(journal, session) == ["run_started"]


@given(st.lists(executions, max_size=3), messages)
@settings(max_examples=60, deadline=None)
def test_any_calls_survive_the_compact_encoding(
    said: list[s.ToolExecution], message: s.Message
) -> None:
    events: list[s.Event] = [s.MessageFinished(step=1, message=message)]
    for execution in said:
        events.append(s.ToolStarted(step=1, execution=execution))
        changed = execution.model_copy(update={"duration": 2.0, "reason": "why"})
        events.append(s.ToolFinished(step=1, execution=changed))
    encoder, decoder = Encoder(), Decoder()
    at = datetime.now(UTC).isoformat()
    records = [decoder.decode(n, "r1", at, encoder.encode("r1", e)) for n, e in enumerate(events)]
    assert [r and r.event.to_dict() for r in records] == [e.to_dict() for e in events]


@IN_FILE
def test_texts_are_written_only_once(journal: Journal, path: Place) -> None:
    content, preview = "line of text\n" * 8_000, "+line of text\n" * 8_000
    session = begun(journal)
    journal.close()
    empty = path.stat().st_size
    journal = Journal.open(path)
    events = whole_run(content=content, preview=preview)
    tell(journal, session, "r1", events)
    journal.close()
    naive = sum(len(event.model_dump_json()) for event in events)
    size = len(json.dumps(content)) + len(json.dumps(preview))
    assert naive > 2 * size
    assert path.stat().st_size - empty < 1.2 * size


def test_events_are_only_ever_added(journal: Journal, path: Place) -> None:
    session = begun(journal)
    tell(journal, session, "r1", whole_run())
    with raw(path) as other:
        for change in ("DELETE FROM events", "UPDATE events SET data = ''"):
            with pytest.raises((sqlite3.Error, psycopg.Error), match="only ever added"):
                other.execute(change)


def test_an_event_of_a_newer_version_is_skipped_but_kept(
    journal: Journal, path: Place, caplog: pytest.LogCaptureFixture
) -> None:
    session = begun(journal)
    tell(journal, session, "r1", [started(), s.StepStarted(step=1)])
    newer = [
        '{"v":1,"event":{"type":"dreamt","of":"sheep"}}',
        '{"v":2,"event":{"type":"notice","text":"from afar"}}',
        '{"v":1,"event":{"type":"notice","text":"kept","urgency":3}}',
        "no JSON",
        "[]",
    ]
    with raw(path) as other:
        for data in newer:
            values = (session.id, "r1", datetime.now(UTC).isoformat(), data)
            other.execute(
                "INSERT INTO events (session_id, run_id, at, data) VALUES (?,?,?,?)", values
            )
    tell(journal, session, "r1", [asked(1), s.StepFinished(step=1), ended()])
    with caplog.at_level(logging.WARNING, "ipyagent"):
        (run,) = journal.runs(session.id)
    assert (run.status, run.output, run.notes) == (s.RunStatus.DONE, "I will.", ("kept",))
    assert len(caplog.records) == len(newer)
    assert "urgency" in caplog.text
    with raw(path) as other:
        rows = [row["data"] for row in other.execute("SELECT data FROM events ORDER BY seq")]
    assert set(newer) <= set(rows)


def test_events_that_do_not_fit_are_skipped(journal: Journal) -> None:
    session = begun(journal)
    tell(journal, session, "r0", [s.StepStarted(step=1)])
    misplaced = [asked(1), *doing(1, called())]
    tell(journal, session, "r1", [started(), *misplaced, s.StepStarted(step=1), ended()])
    (run,) = journal.runs(session.id)
    assert (run.status, len(run.steps)) == (s.RunStatus.DONE, 1)


# -- commits


@IN_FILE
def test_a_step_costs_a_bounded_number_of_commits(journal: Journal) -> None:
    session, calls = begun(journal), [called(n) for n in range(5)]
    statements: list[str] = []
    journal._writer.store.connection.set_trace_callback(statements.append)
    tell(journal, session, "r1", [started(), s.StepStarted(step=1), s.MessageStarted(step=1)])
    tell(journal, session, "r1", [asked(1, *calls), *(e for c in calls for e in doing(1, c))])
    tell(journal, session, "r1", [*(done(1, c) for c in calls), s.StepFinished(step=1)])
    assert statements.count("COMMIT") == journal.commits == 3


def test_a_flush_with_nothing_to_write_makes_no_commit(journal: Journal) -> None:
    session = begun(journal)
    tell(journal, session, "r1", [started()])
    before = journal.commits
    for _ in range(100):
        assert journal.flush().done()
    assert journal.commits == before


def test_a_long_reply_costs_few_commits_and_is_kept_while_it_streams(path: Place) -> None:
    journal = Journal.open(path)
    session, text = begun(journal), "word " * 20_000
    tell(journal, session, "r1", [started(), s.StepStarted(step=1), s.MessageStarted(step=1)])
    before = journal.commits
    append(journal, session, "r1", deltas(text, size=5))
    journal.sessions()  # all that was due is written by now
    assert journal.commits - before <= 10  # log2(100,000 / 256)
    with raw(path) as other:
        saved = other.execute("SELECT text FROM replies").fetchone()["text"]
    assert text.startswith(saved)
    assert len(saved) > len(text) / 2
    tell(journal, session, "r1", [asked(1, text=text)])
    with raw(path) as other:
        assert other.execute("SELECT * FROM replies").fetchone() is None
    assert "message_delta" not in types(journal, session)
    journal.close()


def test_a_reply_that_restarts_after_an_error_is_not_mixed_with_the_old_one(
    journal: Journal,
) -> None:
    session = begun(journal)
    events = [started(), s.StepStarted(step=1), s.MessageStarted(step=1), *deltas("old " * 200)]
    tell(journal, session, "r1", events)
    tell(journal, session, "r1", [s.MessageStarted(step=1)])
    journal.claim(session.id)
    (run,) = journal.recover(session.id)
    assert run.output == ""


def test_many_threads_append_and_each_thread_s_order_is_kept(journal: Journal) -> None:
    session = begun(journal)

    def work(name: int) -> None:
        tell(journal, session, f"r{name}", [started(f"r{name}")])
        for number in range(50):
            journal.append(session.id, f"r{name}", s.Notice(text=str(number)))
            if number % 10 == 0:
                journal.flush().result()

    at_once([partial(work, n) for n in range(8)])
    journal.flush().result()
    notes = [run.notes for run in journal.runs(session.id)]
    assert notes == [tuple(map(str, range(50)))] * 8


# -- sessions


def test_a_session_is_found_by_id_name_or_the_beginning_of_its_id(journal: Journal) -> None:
    old, new = begun(journal, "same"), begun(journal, "same")
    other = begun(journal, "other")
    stored = journal.session("same")
    assert stored.id == new.id
    tell(journal, old, "r1", [started()])
    stored = journal.session("same")
    assert stored.id == old.id
    for reference in (other.id, other.id[:4], other.id[:8].upper(), "other"):
        stored = journal.session(reference)
        assert stored.id == other.id
    for reference in ("", other.id[:3], "nobody", "%", "____"):
        assert journal.session(reference) is None


def test_an_ambiguous_beginning_of_an_id_is_an_error(journal: Journal) -> None:
    for end in "12":
        journal.create(s.Session(id=f"abcdef00-0000-4000-8000-00000000000{end}", name=f"n{end}"))
    with pytest.raises(SessionError, match=r"several sessions begin with 'abcdef': .*n2.*n1"):
        journal.session("abcdef")


def test_sessions_come_with_the_newest_activity_first(journal: Journal) -> None:
    one, two, three = (begun(journal, name) for name in ("one", "two", "three"))
    assert [each.name for each in journal.sessions()] == ["three", "two", "one"]
    tell(journal, one, "r1", [started()])
    tell(journal, two, "r2", [started("r2")])
    assert [each.id for each in journal.sessions()] == [two.id, one.id, three.id]


@pytest.mark.spec("P15", "P16")
def test_a_session_s_state_follows_its_runs(journal: Journal) -> None:
    session = begun(journal)

    def state() -> dict[str, object]:
        stored = journal.session(session.id)
        data = stored.to_dict(exclude_none=True)
        return {key: value for key, value in data.items() if "run" in key}

    assert state() == {}
    tell(journal, session, "r1", [started()])
    assert state() == {"active_run_id": "r1"}
    tell(journal, session, "r1", [ended(s.RunStatus.ERROR, "no")])
    last = state()
    assert last.pop("last_run_at")
    assert last == {"last_run_id": "r1", "last_run_status": "error"}


def test_an_update_changes_the_users_fields_and_not_the_state_of_the_runs(
    journal: Journal,
) -> None:
    session = begun(journal)
    tell(journal, session, "r1", [started()])
    stale = session.move(s.SessionState.ACTIVE).model_copy(
        update={"name": "new", "metadata": {"profile": "ada"}, "active_run_id": None}
    )
    journal.update(stale)
    stored = journal.session("new")
    assert stored == stale.model_copy(update={"active_run_id": "r1"})
    with pytest.raises(SessionError, match="not in the journal"):
        journal.update(s.Session())
    with pytest.raises(SessionError, match="in the journal already"):
        journal.create(session)


def test_an_imported_history_is_kept(journal: Journal) -> None:
    nodes = [s.Node(id="a", data=s.SystemPrompt(content="Be brief."))]
    greeting = s.Message.of(s.Role.USER, "Hi.")
    nodes.append(s.Node(id="b", parent_ids=("a",), data=greeting, metadata={"k": [1]}))
    session = s.Session(name="imported", origin=("other", "n1"))
    journal.create(session.model_copy(update={"messages": (greeting,)}), nodes)
    assert journal.nodes(session.id) == nodes
    assert journal.session("imported") == session


def test_sessions_stay_readable_after_the_clock_was_set_back(journal: Journal, path: Place) -> None:
    session = begun(journal)
    with raw(path) as other:
        record = json.dumps({"id": session.id, "started_at": "2199-01-01T00:00:00Z"})
        other.execute("UPDATE sessions SET record = ?", (record,))
    stored = journal.session(session.id)
    assert stored.started_at <= datetime.now(UTC)


# -- what can't be


def test_an_unreadable_record_is_reported_and_hides_no_other(
    journal: Journal, path: Place, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = begun(journal, "good"), begun(journal, "bad")
    journal.draft(plan(), good.id)
    journal.create(s.Session(name="old"), [s.Node(id="a", data=s.SystemPrompt(content="Hi."))])
    with raw(path) as other:
        other.execute("UPDATE sessions SET record = '{\"id\": 1}' WHERE id = ?", (bad.id,))
        other.execute("UPDATE runs SET record = 'none'")
        other.execute("UPDATE nodes SET node = '[]'")
    assert [each.name for each in journal.sessions()] == ["old", "good"]
    assert journal.runs(good.id) == []
    assert "'bad'" in caplog.text
    old = journal.session("old")
    assert old is not None
    for read in (
        lambda: journal.session("bad"),
        lambda: journal.nodes(old.id),
        lambda: journal.confirm(good.id),
    ):
        with pytest.raises(SessionError, match="cannot be read: "):
            read()


def test_calls_of_a_reply_that_was_not_recorded_are_written_whole() -> None:
    journal = Journal.open(None, max_queued=1_500)
    session, call = begun(journal), called(1, content="x" * 400)
    tell(journal, session, "r1", [started(), s.StepStarted(step=1)])
    journal.append(session.id, "r1", asked(1, call, text="y" * 1_500))
    with pytest.raises(JournalError, match="too many events"):
        journal.flush().result()
    tell(journal, session, "r1", doing(1, call))
    (execution,) = journal.run("r1").executions
    assert execution.call == call
    journal.close()


def test_an_event_of_an_unknown_session_is_reported_and_blocks_no_other(
    journal: Journal,
) -> None:
    session = begun(journal)
    for first in (started("r9"), s.Notice(text="x")):
        stranger = s.Session()
        journal.append(stranger.id, f"r-{first.type}", first)
        journal.append(session.id, "r1", s.Notice(text="mine"))
        with pytest.raises(JournalError, match="is not in it"):
            journal.flush().result()
        journal.append(stranger.id, f"r-{first.type}", s.Notice(text="more"))
        journal.flush().result()
    assert types(journal, session) == ["notice", "notice"]


def test_an_event_that_json_cannot_express_is_reported_and_blocks_no_other(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    session = begun(journal)
    odd = called().model_copy(update={"arguments": {"value": object()}})
    journal.append(session.id, "r1", started())
    journal.append(session.id, "r1", s.ToolStarted(step=1, execution=s.ToolExecution(call=odd)))
    with pytest.raises(JournalError, match=r"tool_started.* cannot be written"):
        journal.flush().result()
    tell(journal, session, "r1", [ended()])
    assert types(journal, session) == ["run_started", "run_finished"]
    assert "could not be recorded" in caplog.text


def test_a_missing_run_is_an_error(journal: Journal) -> None:
    with pytest.raises(SessionError, match="no run is called 'r7'"):
        journal.run("r7")


def test_using_a_closed_journal_is_an_error(path: Place) -> None:
    journal = Journal.open(path)
    session = begun(journal)
    journal.append(session.id, "r1", started())
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="was closed"):
        journal.sessions()
    again = Journal.open(path)
    assert types(again, session) == ["run_started"]
    again.close()


def test_unflushed_events_are_written_when_the_journal_is_garbage_collected(path: Place) -> None:
    journal = Journal.open(path)
    session = begun(journal)
    journal.append(session.id, "r1", started())
    worker = journal._writer._worker
    del journal
    with pytest.raises(JournalError, match="was closed"):
        worker.submit(lambda: None).result(PATIENCE)
    again = Journal.open(path)
    assert types(again, session) == ["run_started"]
    again.close()


def test_a_journal_may_be_garbage_collected_at_any_moment() -> None:
    """The garbage collector runs in any thread, with any locks held."""
    journal = Journal.open(None)
    session = begun(journal)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for number in range(30):
            forgotten = Journal.open(None)
            forgotten.circle = forgotten
            del forgotten
            tell(journal, session, "r1", [s.Notice(text=str(number))])
    finally:
        gc.set_threshold(*before)
    journal.close()


def test_unflushed_events_are_written_when_the_process_ends(path: Place) -> None:
    code = f"""{OPEN}
from ipyagent import schema as s
journal = opened(sys.argv[1])
session = s.Session(name="short")
journal.create(session)
journal.append(session.id, "r1", s.RunStarted(run=s.Run(id="r1")))
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=PATIENCE)
    journal = Journal.open(path)
    session = journal.session("short")
    assert session is not None
    assert types(journal, session) == ["run_started"]
    journal.close()


def test_journals_in_memory_share_a_thread_and_close_one_by_one() -> None:
    first, second = Journal.open(None), Journal.open(None)
    session = begun(second)
    first.close()
    first.close()
    with pytest.raises(JournalError):
        first.sessions()
    tell(second, session, "r1", [started()])
    assert types(second, session) == ["run_started"]
    running = set(threading.enumerate())
    more = [Journal.open(None) for _ in range(3)]
    assert set(threading.enumerate()) <= running
    for each in (second, *more):
        each.close()


def test_a_fork_does_not_write_through_its_parent_s_connection(journal: Journal) -> None:
    session = begun(journal)
    child = os.fork()
    if child == 0:
        journal.append(session.id, "r1", s.Notice(text="from the child"))
        refused = "forked" in str(journal.flush().exception(timeout=PATIENCE))
        try:
            journal.sessions()
        except JournalError:
            os._exit(0 if refused else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tell(journal, session, "r1", [started()])
    assert types(journal, session) == ["run_started"]
