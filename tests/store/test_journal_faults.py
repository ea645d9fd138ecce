"""Disks that are full, read-only or broken, and foreign files: reported, and nothing is lost."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Lab, call, new_session
from ipyagent import schema as s
from ipyagent.agent import event_stream
from ipyagent.errors import JournalError, SessionError
from ipyagent.store import database
from ipyagent.store.database import APPLICATION
from ipyagent.store.journal import Journal
from ipyagent.store.tables import MIGRATIONS
from stories import append, begun, deltas, ended, plan, started, tell, types, whole_run

WAYS_OUT = (
    r"or continue without a record: `%agent config chat\.persist=false`, "
    r"or Agent\(persist=False\)\.$"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


@contextlib.contextmanager
def broken(path: Path) -> Iterator[None]:
    """This process can read the journal's log, and every write to it fails."""
    log = wal(path)
    (number,) = (int(each.name) for each in Path("/proc/self/fd").iterdir() if leads(each, log))
    kept, readable = os.dup(number), os.open(log, os.O_RDONLY)
    os.dup2(readable, number, inheritable=False)
    os.close(readable)
    try:
        yield
    finally:
        os.dup2(kept, number, inheritable=False)
        os.close(kept)


def leads(link: Path, path: Path) -> bool:
    with contextlib.suppress(OSError):
        return link.readlink() == path
    return False


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


@pytest.mark.parametrize("first", range(len(whole_run())))
def test_events_that_the_disk_refused_wait_for_the_next_flush(
    first: int, journal: Journal, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, story = begun(journal), whole_run()
    tell(journal, session, "r1", story[:first])
    problem = r"the disk failed to read or write it\. Check the disk and its space, "
    with broken(path):
        for event in story[first:]:
            journal.append(session.id, "r1", event)
            with pytest.raises(JournalError, match=f"{path}: {problem}{WAYS_OUT}"):
                journal.flush().result()
        with pytest.raises(JournalError):
            journal.create(s.Session())
        caplog.clear()
        assert len(types(journal, session)) == first
        assert "the disk failed" in caplog.text
    journal.flush().result()
    assert types(journal, session) == [event.type for event in story]
    (run,) = journal.runs(session.id)
    assert run.status is s.RunStatus.DONE


def test_what_happens_while_the_disk_refuses_events_comes_after_them(
    journal: Journal, path: Path
) -> None:
    session, later = begun(journal), [s.Notice(text="second")]

    def add_more(statement: str) -> None:
        if later and statement.startswith("BEGIN"):
            journal.append(session.id, "r1", later.pop())

    journal._writer.store.connection.set_trace_callback(add_more)
    journal.append(session.id, "r1", s.Notice(text="first"))
    with broken(path), pytest.raises(JournalError, match="the disk failed"):
        journal.flush().result()
    notes = [r.event.text for r in journal.events(session.id) if isinstance(r.event, s.Notice)]
    assert notes == ["first", "second"]


def test_a_decision_that_cannot_be_recorded_is_reported(journal: Journal, path: Path) -> None:
    session = begun(journal)
    journal.draft(plan(), session.id)
    for decide in (
        lambda: journal.confirm(session.id),
        lambda: journal.note_undo(session.id, plan(), (), ()),
    ):
        with broken(path), pytest.raises(JournalError, match="the disk failed"):
            decide()
    assert journal.confirm(session.id).id == "r1"


def test_a_reply_that_streams_during_a_disk_failure_is_saved_later(
    journal: Journal, path: Path
) -> None:
    session = begun(journal)
    tell(journal, session, "r1", [started(), s.StepStarted(step=1)])
    with broken(path):
        append(journal, session, "r1", deltas("word " * 100))
        journal.sessions()
    journal.flush().result()
    (run,) = journal.recover(session.id)
    assert run.output.startswith("word word")


def test_the_queue_for_a_broken_disk_is_limited(path: Path) -> None:
    journal = Journal.open(path, max_queued=2_000)
    session = begun(journal)
    with broken(path):
        for number in range(100):
            journal.append(session.id, "r1", s.Notice(text=f"{number:03}" + "x" * 97))
        with pytest.raises(JournalError, match="the disk failed"):
            journal.flush().result()
    with pytest.raises(
        JournalError, match=r"too many events wait to be written, and further ones are lost"
    ):
        journal.flush().result()
    events = [record.event for record in journal.events(session.id)]
    assert 10 < len(events) < 20
    assert [event.text[:3] for event in events if isinstance(event, s.Notice)] == [
        f"{number:03}" for number in range(len(events))
    ]
    for _ in range(100):
        tell(journal, session, "r2", [s.Notice(text="There is room again.")])
    journal.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a disk here")
    yield place
    # Lazily: a test that failed has left its journal open, and must not fail all that follow.
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_reported_and_nothing_is_lost_once_there_is_room(disk: Path) -> None:
    journal = Journal.open(disk / "state.db")
    session = begun(journal)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    count = 0
    with pytest.raises(JournalError, match=rf"the disk is full\. Make room, {WAYS_OUT}"):  # noqa: PT012
        while True:
            journal.append(session.id, "r1", s.Notice(text=f"{count} {'x' * 1000}"))
            count += 1
            journal.flush().result()
    copy = disk.parent / "copy"
    shutil.copytree(disk, copy)
    survivor = Journal.open(copy / "state.db")
    assert len(list(survivor.events(session.id))) == count - 1
    survivor.close()
    ballast.unlink()
    journal.flush().result()
    notes = [r.event.text for r in journal.events(session.id) if isinstance(r.event, s.Notice)]
    assert [int(text.split()[0]) for text in notes] == list(range(count))
    journal.close()


# -- places where nothing can be opened


OPENING = """
import os, sys
from pathlib import Path
from ipyagent.errors import JournalError
from ipyagent.store.journal import Journal
if os.geteuid() == 0:
    os.setuid(65534)
for path in map(Path, sys.argv[1:]):
    try:
        Journal.open(path)
    except JournalError as error:
        print(error)
"""
"""In a child, since root may write everywhere."""


def test_what_is_read_only_is_reported() -> None:
    place = Path(tempfile.mkdtemp())
    file = place / "kept.db"
    Journal.open(file).close()
    file.chmod(0o444)
    place.chmod(0o555)
    command = [sys.executable, "-c", OPENING, place / "state.db", place / "sub" / "state.db", file]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    place.chmod(0o755)
    shutil.rmtree(place)
    folder, sub, kept = lines
    assert f"{place}/state.db: it cannot be opened or created. Make its folder" in folder
    assert "its folder cannot be created (Permission denied)" in sub
    assert "writable" in kept
    assert all("chat.persist=false" in line for line in lines)


@pytest.mark.parametrize("where", ["folder", "under a file", "link"])
def test_an_unusable_path_is_reported(where: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "under a file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "outside.db")
    path = tmp_path / where
    with pytest.raises(JournalError, match=WAYS_OUT):
        Journal.open(path / "state.db" if where == "under a file" else path)
    assert not (tmp_path / "outside.db").exists()


# -- files that are not ours


def of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()


def of_a_newer_version(path: Path) -> None:
    Journal.open(path).close()
    with sqlite3.connect(path) as other:
        other.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    other.close()


def of_damage(path: Path) -> None:
    journal = Journal.open(path)
    tell(journal, begun(journal), "r1", whole_run())
    journal.close()
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("{}"), "not a database; it was left as it is. Move it away"),
        (lambda path: path.write_bytes(os.urandom(9_000)), "not a database"),
        (of_another_program, "a database of another program; it was left as it is"),
        (of_a_newer_version, "a newer ipyagent wrote it .version 3, this one knows 2.. Update"),
        (of_damage, "it is damaged; it was left as it is. Move it away"),
    ],
)
def test_an_unusable_file_is_not_changed(make: object, said: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(JournalError, match=f"{path}: .*{said}.*{WAYS_OUT}"):
        Journal.open(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    journal = Journal.open(path)
    begun(journal)
    journal.close()
    with sqlite3.connect(path) as other:
        assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert other.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


def test_damage_that_is_found_later_is_reported(path: Path) -> None:
    journal = Journal.open(path)
    session = begun(journal)
    for number in range(200):
        journal.append(session.id, "r1", s.Notice(text=f"{number}" + "x" * 500))
    journal.close()
    data = bytearray(path.read_bytes())
    for page in range(16, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = os.urandom(200)
    path.write_bytes(data)
    journal = Journal.open(path)
    with pytest.raises(JournalError, match="it is damaged; it was left as it is"):
        list(journal.events(session.id))
    journal.close()


def test_a_database_that_another_program_keeps_locked_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    journal = Journal.open(path)
    session = begun(journal)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    journal.append(session.id, "r1", started())
    with pytest.raises(JournalError, match="another program has kept it locked"):
        journal.flush().result()
    with pytest.raises(JournalError, match="locked"):
        Journal.open(path)
    other.execute("ROLLBACK")
    other.close()
    tell(journal, session, "r1", [ended()])
    assert types(journal, session) == ["run_started", "run_finished"]
    journal.close()


def test_a_run_says_once_that_it_waits_for_its_journal_and_goes_on(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "SLOW_SECONDS", 0.05)
    journal, lab = Journal.open(path), Lab(tmp_path)
    lab.session = new_session(journal)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def heard(event: s.Event) -> None:
        if isinstance(event, s.StepFinished) and event.step < 3:
            other.execute("BEGIN IMMEDIATE")
            if event.step == 2:  # for less than that, or once more, nothing is said
                other.execute("ROLLBACK")
        elif isinstance(event, s.Notice):
            other.execute("ROLLBACK")

    run = lab.run([{"calls": [call("list_files")]}] * 2 + ["Done."], heard=heard)
    assert (run.output, len(run.results)) == ("Done.", 2)
    waits = f"The journal {path} cannot be written at the moment; the run waits for it."
    assert [note for note in run.notes if "journal" in note] == [waits]
    assert journal.run(run.id).notes == run.notes
    other.close()
    journal.close()


def test_a_refusal_is_not_a_journal_error(journal: Journal) -> None:
    with pytest.raises(SessionError):
        journal.confirm(s.Session().id)
