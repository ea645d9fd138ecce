"""Events of a finished flush survive `kill -9` and a power cut."""

import ctypes
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ipyagent import schema as s
from ipyagent.store.journal import Journal
from stories import (
    IN_FILE,
    OPEN,
    Place,
    asked,
    begun,
    called,
    doing,
    done,
    ended,
    raw,
    started,
    tell,
    types,
)

KILLS = int(os.environ.get("JOURNAL_TEST_KILLS", "6"))
CUTS = int(os.environ.get("JOURNAL_TEST_CUTS", "20"))

APPEND = f"""{OPEN}
from ipyagent import schema as s

path, session_id, run_id, count = sys.argv[1:]
journal = opened(path)
journal.append(session_id, run_id, s.RunStarted(run=s.Run(id=run_id)))
journal.flush().result()
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(count)):
    journal.append(session_id, run_id, s.Notice(text=str(number)))
    journal.flush().result()
    print(number, flush=True)
"""


def appender(path: Place, session: s.Session, run_id: str, count: int) -> subprocess.Popen[str]:
    """A process that reports each number once it is acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-c", APPEND, str(path), session.id, run_id, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    return child


def go(child: subprocess.Popen[str]) -> None:
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.mark.parametrize("seed", range(KILLS))
def test_no_acknowledged_event_is_lost_when_the_process_is_killed(
    seed: int, journal: Journal, path: Place
) -> None:
    session = begun(journal)
    child = appender(path, session, "r1", 100_000)
    go(child)
    for _ in range(random.Random(seed).randint(1, 40)):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    lines = child.stdout.read().splitlines(keepends=True)
    child.communicate()
    acknowledged = [int(line) for line in lines if line.endswith("\n")]
    (run,) = journal.recover(session.id)
    assert run.notes == tuple(map(str, range(len(run.notes))))
    assert len(run.notes) > max(acknowledged, default=0)


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 4])
def test_processes_that_write_at_once_lose_nothing_and_keep_their_order(
    writers: int, journal: Journal, path: Place
) -> None:
    sessions = [begun(journal, f"s{n % 2}") for n in range(writers)]
    children = [appender(path, session, f"r{n}", 60) for n, session in enumerate(sessions)]
    for child in children:
        go(child)
    for child in children:
        assert child.communicate()[0].split() == [str(n) for n in range(60)]
    for session in sessions:
        (run,) = journal.runs(session.id)
        assert run.notes == tuple(map(str, range(60)))
    with raw(path) as other:
        assert len(other.execute("SELECT seq FROM events").fetchall()) == 61 * writers


# -- power cuts: what the system has not been made to write is gone


class Range(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint64), ("length", ctypes.c_uint64))


class Cached(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writing", "evicted", "recent")
    )


def unsynced_pages(path: Path) -> int:
    """Return how many pages of a file are only in memory: cachestat(2), since Linux 6.5."""
    if not sys.platform.startswith("linux"):
        pytest.skip("cachestat is Linux'")
    libc, cached = ctypes.CDLL(None, use_errno=True), Cached()
    file = os.open(path, os.O_RDONLY)
    try:
        failed = libc.syscall(451, file, ctypes.byref(Range(0, 0)), ctypes.byref(cached), 0)
    finally:
        os.close(file)
    if failed:
        pytest.skip(f"no cachestat here: {os.strerror(ctypes.get_errno())}")
    return int(cached.dirty + cached.writing)


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


@IN_FILE
def test_an_acknowledged_event_is_on_the_disk_where_a_naive_store_leaves_it_in_memory(
    journal: Journal, path: Path, tmp_path: Path
) -> None:
    naive = sqlite3.connect(tmp_path / "naive.db", isolation_level=None)
    naive.execute("PRAGMA journal_mode=WAL")
    naive.execute("PRAGMA synchronous=NORMAL")
    naive.execute("CREATE TABLE events (data TEXT)")
    session = begun(journal)
    in_memory = 0
    for number in range(10):
        naive.execute("INSERT INTO events VALUES (?)", (str(number),))
        in_memory += unsynced_pages(wal(tmp_path / "naive.db"))
        tell(journal, session, "r1", [s.Notice(text=str(number))])
        assert unsynced_pages(wal(path)) == 0
        assert unsynced_pages(path) == 0
    naive.close()
    if not in_memory:
        pytest.skip("this file system keeps nothing in memory, so nothing is shown")


@IN_FILE
@pytest.mark.parametrize("seed", range(CUTS))
def test_all_acknowledged_events_survive_a_power_cut(
    seed: int, journal: Journal, path: Path, tmp_path: Path
) -> None:
    """The files as they were at an acknowledgement, plus a torn piece of what came after."""
    chance = random.Random(seed)
    session, call = begun(journal), called(1, content="x" * chance.randint(1, 20_000))
    story = [started(), s.StepStarted(step=1), s.MessageStarted(step=1), asked(1, call)]
    story += [*doing(1, call), done(1, call), s.StepFinished(step=1), ended()]
    cut = chance.randrange(1, len(story))
    for event in story[:cut]:
        tell(journal, session, "r1", [event])
    safe = wal(path).stat().st_size
    tell(journal, session, "r1", story[cut:])
    written = wal(path).read_bytes()
    torn = bytearray(written[: chance.randint(safe, len(written))])
    for at in range(safe, len(torn), 512):  # sectors that came late, or not at all
        if chance.random() < 0.5:
            torn[at : at + 512] = bytes(len(torn[at : at + 512]))
    after = tmp_path / "after.db"
    shutil.copy(path, after)
    wal(after).write_bytes(torn)

    revived = Journal.open(after)
    kinds = types(revived, session)
    assert kinds == [event.type for event in story][: len(kinds)]
    assert len(kinds) >= cut
    revived.recover(session.id)
    (run,) = revived.runs(session.id)
    assert run.is_finished
    tell(revived, session, "r2", [started("r2"), ended()])
    revived.close()


def test_without_the_sync_the_same_power_cut_loses_acknowledged_events(tmp_path: Path) -> None:
    """The test above is able to fail: bytes that were never synced are dropped here."""
    path, after = tmp_path / "naive.db", tmp_path / "after.db"
    naive = sqlite3.connect(path, isolation_level=None)
    naive.execute("PRAGMA journal_mode=WAL")
    naive.execute("PRAGMA synchronous=NORMAL")
    naive.execute("CREATE TABLE events (data TEXT)")
    naive.execute("PRAGMA wal_checkpoint")  # the only moment at which NORMAL syncs
    acknowledged = 5
    for number in range(acknowledged):
        naive.execute("INSERT INTO events VALUES (?)", (str(number),))
    if not unsynced_pages(wal(path)):
        pytest.skip("this file system keeps nothing in memory")
    shutil.copy(path, after)
    naive.close()
    with sqlite3.connect(after) as revived:
        assert revived.execute("SELECT count(*) FROM events").fetchone() < (acknowledged,)
    revived.close()
