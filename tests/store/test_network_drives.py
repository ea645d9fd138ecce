"""A journal on a network drive, which several computers use and whose memory they do not share."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ipyagent import schema as s
from ipyagent.atomic_files import find_network_drive, open_lock
from ipyagent.errors import JournalError
from ipyagent.store import database
from ipyagent.store.answers import AnswerStore
from ipyagent.store.journal import Journal, JournalSummary, read_summary
from patience import PATIENCE
from servers import network_drive
from stories import OPEN, begun, ended, started, tell


@pytest.fixture
def drive(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Path]]:
    """The folder of the server, and the places where two computers have mounted it."""
    folders = [tmp_path / name for name in ("server", "here", "there")]
    with network_drive.mount(*folders, forgets=getattr(request, "param", False)):
        yield folders


def journal_mode(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as other:
        return str(other.execute("PRAGMA journal_mode").fetchone()[0])


def count_events(journal: Journal, session: s.Session) -> int:
    return len([*journal.events(session.id)])


def test_a_network_drive_is_told_from_the_disks_of_this_computer(drive: list[Path]) -> None:
    server, here, _ = drive
    assert find_network_drive(here / "state.db") == network_drive.TYPE
    (here / "inner").mkdir()
    (server / "link").symlink_to(here / "inner")
    assert find_network_drive(server / "link" / "state.db") == network_drive.TYPE
    assert find_network_drive(here / "removed" / "state.db") == network_drive.TYPE
    assert find_network_drive(server / "state.db") is None
    assert find_network_drive(Path("/dev/shm/state.db")) is None


def test_two_computers_see_what_the_other_one_writes_as_they_do_not_with_a_wal(
    drive: list[Path],
) -> None:
    naive = [sqlite3.connect(each / "naive.db", isolation_level=None) for each in drive[1:]]
    for connection in naive:
        connection.execute("PRAGMA journal_mode=WAL")
    naive[0].execute("CREATE TABLE events (data TEXT)")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        naive[1].execute("SELECT * FROM events")

    journals = [Journal.open(each / "state.db") for each in drive[1:]]
    sessions = [begun(journal) for journal in journals]
    for number in range(20):
        for journal, session in zip(journals, sessions, strict=True):
            tell(journal, session, f"r-{session.id}", [s.Notice(text=str(number))])
        for journal in journals:
            assert [count_events(journal, each) for each in sessions] == [number + 1] * 2
    for each in (*naive, *journals):
        each.close()


HALF = """
import os, signal, sys
from pathlib import Path
from ipyagent.store.database import SqliteStore
other = SqliteStore(Path(sys.argv[1])).connection
if sys.argv[2:]:
    other.execute(f"PRAGMA journal_mode={sys.argv[2]}")
other.execute("PRAGMA cache_size=1")
other.execute("BEGIN IMMEDIATE")
other.execute("UPDATE rows SET data = zeroblob(3000) WHERE number > 20")
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A kernel that dies while its transaction is half in the database."""


@pytest.mark.parametrize("naive", [[], ["DELETE"], ["TRUNCATE"]])
def test_a_half_written_transaction_of_a_dead_kernel_is_taken_back_on_another_computer(
    naive: list[str], drive: list[Path]
) -> None:
    """With other modes it is not noticed: a computer remembers that there was nothing to read."""
    _, here, there = drive
    used = database.SqliteStore(here / "state.db").connection
    for mode in naive:
        used.execute(f"PRAGMA journal_mode={mode}")
    used.execute("CREATE TABLE rows (number INTEGER, data BLOB)")
    for number in range(40):
        used.execute("INSERT INTO rows VALUES (?, ?)", (number, b"x" * 3000))
    used.close()
    found = None
    with contextlib.closing(sqlite3.connect(here / "state.db")) as before:
        before.execute("SELECT * FROM rows").fetchall()
    command = [sys.executable, "-c", HALF, str(there / "state.db"), *naive]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with (
        contextlib.suppress(sqlite3.DatabaseError),  # it is malformed
        contextlib.closing(sqlite3.connect(here / "state.db")) as after,
    ):
        query = "SELECT count(*) FROM rows WHERE data = ?"
        (found,) = after.execute(query, (b"x" * 3000,)).fetchone()
    assert (found == 40) is not bool(naive)


def test_a_journal_from_a_disk_loses_nothing_on_a_network_drive_and_stays_fit_for_it(
    drive: list[Path],
) -> None:
    server, here, there = drive
    journal = Journal.open(server / "state.db")
    session = begun(journal)
    tell(journal, session, "r1", [started(), s.Notice(text="on the disk")])
    assert journal_mode(server / "state.db") == "wal"
    copy = {each: (server / each).read_bytes() for each in ("state.db", "state.db-wal")}
    journal.close()
    for name, content in copy.items():  # as a kernel leaves it that was killed
        (server / name).write_bytes(content)

    journal = Journal.open(here / "state.db")
    assert [event.event.type for event in journal.events(session.id)] == ["run_started", "notice"]
    assert journal_mode(here / "state.db") != "wal"
    assert not [*server.glob("*-shm")]
    local = Journal.open(server / "state.db")
    other = Journal.open(there / "state.db")
    for each in (local, journal, other):
        tell(each, session, "r1", [s.Notice(text="more")])
    assert [count_events(each, session) for each in (local, journal, other)] == [5] * 3
    for each in (local, journal, other):
        each.close()
    assert journal_mode(server / "state.db") != "wal"


def test_a_kernel_for_which_the_drive_is_a_disk_is_named_and_then_joined(
    drive: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    server, here, _ = drive
    local = Journal.open(server / "state.db")
    session = begun(local)
    tell(local, session, "r1", [started()])
    before = (server / "state.db-shm").read_bytes()
    wanted = rf"on this network drive \({network_drive.TYPE}\) a kernel uses it .* End that kernel"
    with pytest.raises(JournalError, match=wanted):
        Journal.open(here / "state.db")
    assert read_summary(here / "state.db") == JournalSummary()
    assert (server / "state.db-shm").read_bytes() == before
    tell(local, session, "r1", [ended()])
    local.close()
    journal = Journal.open(here / "state.db")
    assert count_events(journal, session) == 2
    assert [each.id for each in read_summary(here / "state.db").sessions] == [session.id]
    journal.close()


def test_a_database_that_is_only_locked_is_not_said_to_be_used_as_on_a_disk(
    drive: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    _, here, there = drive
    Journal.open(here / "state.db").close()
    other = sqlite3.connect(there / "state.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(JournalError, match="another program has kept it locked"):
        Journal.open(here / "state.db")
    other.close()
    Journal.open(here / "state.db").close()


@pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN IMMEDIATE", "SELECT * FROM events"])
def test_a_journal_waits_for_who_reads_or_writes_on_another_computer(
    lock: str, drive: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than SQLite itself, which would soon look too seldom."""
    monkeypatch.setattr(database, "BUSY_SECONDS", PATIENCE)
    _, here, there = drive
    journal = Journal.open(here / "state.db")
    session = begun(journal)
    tell(journal, session, "r1", [s.Notice(text=str(number)) for number in range(3)])
    other = sqlite3.connect(there / "state.db", isolation_level=None)
    half_read = other.execute(lock)
    half_read.fetchone()
    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(count_events, journal, session)]
        if lock != "BEGIN EXCLUSIVE":
            assert waiting.pop().result(PATIENCE) == 3
            journal.append(session.id, "r1", s.Notice(text="more"))
            waiting.append(journal.flush())
        with pytest.raises(TimeoutError):
            waiting[0].result(0.5)
        half_read.close()
        other.close()
        waiting[0].result(PATIENCE)
    journal.close()


def test_answers_on_a_network_drive_are_found_on_both_computers(drive: list[Path]) -> None:
    stores = [AnswerStore(each / "answers.db") for each in drive[1:]]
    for number, store in enumerate(stores):
        store.add(f"key {number}", "text", None, "r1")
    for store in stores:
        assert store.find("key 0") == store.find("key 1") == ("text", None, "r1")
    assert not [*drive[0].glob("*-wal")]
    for store in stores:
        store.close()


@pytest.mark.parametrize("drive", [False, True], indirect=True, ids=["kept", "forgotten"])
def test_a_session_is_claimed_by_one_computer_also_while_another_one_releases_it(
    drive: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, here, there = drive
    mine, theirs = Journal.open(here / "state.db"), Journal.open(there / "state.db")
    session = begun(mine)
    assert mine.claim(session.id)
    assert not theirs.claim(session.id)

    def open_late(lock: Path) -> int:
        handle = open_lock(lock)
        monkeypatch.undo()
        mine.release(session.id)
        assert mine.claim(session.id)
        return handle

    monkeypatch.setattr("ipyagent.atomic_files.open_lock", open_late)
    assert not theirs.claim(session.id)
    mine.close()
    assert theirs.claim(session.id)
    theirs.close()


WRITE = f"""{OPEN}
from ipyagent import schema as s
path, session_id, run_id, count = sys.argv[1:]
journal = opened(path)
assert journal.claim(session_id)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(count)):
    journal.append(session_id, run_id, s.Notice(text=str(number)))
    journal.flush().result()
    print(number, flush=True)
os.kill(os.getpid(), 9)
""".replace("import sys", "import os, sys", 1)


@pytest.mark.slow
def test_kernels_of_two_computers_that_write_at_once_and_are_killed_lose_nothing(
    drive: list[Path],
) -> None:
    journal = Journal.open(drive[1] / "state.db")
    sessions = [begun(journal) for _ in range(4)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(place / "state.db"), session.id, "r1", "25"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for place, session in zip(drive[1:] * 2, sessions, strict=True)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        assert child.communicate()[0].split() == [str(n) for n in range(25)]
    for session in sessions:
        assert journal.claim(session.id)
        texts = [each.event.text for each in journal.events(session.id)]
        assert texts == [str(n) for n in range(25)]
    journal.close()


@pytest.mark.slow
def test_the_status_says_that_the_record_is_on_a_network_drive(drive: list[Path]) -> None:
    _, here, _ = drive
    told = subprocess.check_output(
        [sys.executable, "-m", "IPython", "--no-banner", "-c", "%load_ext ipyagent\n%agent status"],
        cwd=here,
        env=os.environ | {"IPYTHONDIR": str(here)},
        text=True,
    )
    (row,) = [line for line in told.splitlines() if line.startswith("record ")]
    assert row.endswith(
        f"{here}/.ipyagent/state.db (fuse.sshfs, as on a network drive: with a rollback journal "
        "instead of a WAL)"
    )
