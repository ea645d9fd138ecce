"""One kernel at a time continues a session, and a dead one holds no lock."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ipyagent.atomic_files import open_lock
from ipyagent.errors import JournalError
from ipyagent.store.journal import Journal
from patience import wait_until
from stories import IN_FILE, OPEN, Place, begun

HOLD = f"""{OPEN}
import subprocess
journal = opened(sys.argv[1])
print(journal.claim(sys.argv[2]), flush=True)
if "with a child" in sys.argv:
    subprocess.Popen(["sleep", "60"], close_fds=False)
    print("started", flush=True)
sys.stdin.readline()
"""


def holder(path: Place, session_id: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), session_id, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def test_a_session_is_claimed_once_until_it_is_released(path: Place) -> None:
    mine, theirs = Journal.open(path), Journal.open(path)
    session, other = begun(mine), begun(mine)
    assert mine.claim(session.id)
    assert mine.claim(session.id)
    before = len([*Path("/dev/fd").iterdir()])
    assert not theirs.claim(session.id)
    assert len([*Path("/dev/fd").iterdir()]) == before
    assert theirs.claim(other.id)
    mine.release(session.id)
    assert theirs.claim(session.id)
    assert not mine.claim(session.id)
    theirs.close()
    assert mine.claim(session.id)
    mine.release("never claimed")
    mine.close()


@IN_FILE
def test_a_released_lock_is_removed_and_who_had_opened_it_takes_another(
    path: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = Journal.open(path), Journal.open(path)
    session = begun(mine)
    assert mine.claim(session.id)

    def open_late(lock: Path) -> int:
        handle = open_lock(lock)
        mine.release(session.id)
        return handle

    monkeypatch.setattr("ipyagent.atomic_files.open_lock", open_late)
    assert theirs.claim(session.id)
    monkeypatch.undo()
    assert not mine.claim(session.id)
    theirs.release(session.id)
    assert not [*(path.parent / "locks").iterdir()]


def test_journals_in_memory_share_nothing() -> None:
    journals = [Journal.open(None) for _ in range(2)]
    for journal in journals:
        assert journal.claim(begun(journal).id)
        journal.close()


@pytest.mark.parametrize("words", [(), ("with a child",)])
def test_a_killed_kernel_holds_no_lock_even_if_a_child_survives(
    words: tuple[str, ...], journal: Journal, path: Place
) -> None:
    session = begun(journal)
    child = holder(path, session.id, *words)
    assert child.stdout.readline() == "True\n"
    if words:
        assert child.stdout.readline() == "started\n"
    assert not journal.claim(session.id)
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: journal.claim(session.id))  # a server needs a moment to notice
    end(child)


def test_a_fork_does_not_hold_its_parents_locks(path: Place) -> None:
    mine, other = Journal.open(path), Journal.open(path)
    session = begun(mine)
    assert mine.claim(session.id)
    ready, is_ready = os.pipe()
    go, gone = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(gone)
        os.write(is_ready, b"x")
        os.read(go, 1)
        os._exit(0)
    os.read(ready, 1)
    mine.release(session.id)
    assert other.claim(session.id)
    for pipe in (ready, is_ready, go, gone):
        os.close(pipe)
    os.waitpid(child, 0)
    mine.close()
    other.close()


@IN_FILE
def test_a_lock_that_is_a_link_is_refused(journal: Journal, path: Place, tmp_path: Place) -> None:
    session = begun(journal)
    locks = path.parent / "locks"
    locks.mkdir()
    (locks / f"{session.id}.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="cannot be opened"):
        journal.claim(session.id)
    assert not (tmp_path / "elsewhere").exists()


@IN_FILE
def test_without_file_locks_sessions_are_shared_and_the_log_warns(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ipyagent.atomic_files.fcntl", None)
    assert journal.claim(begun(journal).id)
    assert "no locks" in caplog.text
