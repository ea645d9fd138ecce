"""Programs that write into a file as it is: what they write is never lost with the old file."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from ipyagent.errors import PathValidationError
from ipyagent.tools import safe_open
from ipyagent.tools.workspace import Workspace

BEFORE, AFTER, THEIRS = b"before\n", b"after\n", b"theirs\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(BEFORE)
    return path


def test_a_file_that_a_program_is_writing_is_left_to_it(file: Path) -> None:
    workspace = Workspace(file.parent)
    with file.open("r+b") as theirs:
        with pytest.raises(PathValidationError, match="open for writing in some program"):
            workspace.compare_and_swap("a.txt", BEFORE, AFTER)
        theirs.write(THEIRS)
    assert file.read_bytes() == THEIRS
    assert list(file.parent.iterdir()) == [file]


def test_a_program_that_closes_the_file_soon_is_waited_for(file: Path) -> None:
    workspace = Workspace(file.parent)
    theirs = file.open("r+b")
    closing = threading.Timer(0.05, theirs.close)
    closing.start()
    workspace.compare_and_swap("a.txt", BEFORE, AFTER)
    closing.join()
    assert file.read_bytes() == AFTER


def test_what_it_wrote_by_then_is_kept_and_the_change_refused(file: Path) -> None:
    workspace = Workspace(file.parent)
    theirs = file.open("wb", buffering=0)

    def finish() -> None:
        theirs.write(THEIRS)
        theirs.close()

    writing = threading.Timer(0.05, finish)
    writing.start()
    with pytest.raises(PathValidationError, match="has changed meanwhile"):
        workspace.compare_and_swap("a.txt", BEFORE, AFTER)
    writing.join()
    assert file.read_bytes() == THEIRS


def test_what_is_written_while_a_change_is_put_back_is_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both files were written: the old one before, the new one while it had the name."""
    waits: list[str] = []

    def write_meanwhile(folder: int, name: str) -> bool:
        waits.append(name)
        if len(waits) == 2:
            for at, (each, text) in enumerate(((name, b"older"), ("a.txt", b"newest"))):
                (file.parent / each).write_bytes(text)
                os.utime(each, (at + 1, at + 1), dir_fd=folder)
        return True

    monkeypatch.setattr(safe_open, "_wait_for_writers", write_meanwhile)
    with pytest.raises(PathValidationError, match="has changed meanwhile"):
        Workspace(file.parent).compare_and_swap("a.txt", BEFORE, AFTER)
    assert file.read_bytes() == b"newest"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.slow
def test_one_that_opens_it_at_the_very_moment_loses_nothing(file: Path) -> None:
    """It opens and truncates the file again and again while it is changed."""
    workspace = Workspace(file.parent)
    over = threading.Event()
    writes = 0

    def write() -> None:
        nonlocal writes
        while not over.is_set():
            with file.open("r+b") as theirs:
                theirs.truncate()
                theirs.write(b"%d" % writes)
            writes += 1
            over.wait(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            before = file.read_bytes()
            with contextlib.suppress(PathValidationError):
                workspace.compare_and_swap("a.txt", before, before + b"!")
    finally:
        over.set()
        writer.join()
    # Its newest word is there, alone or with what was added to it.
    assert file.read_bytes().rstrip(b"!") == b"%d" % (writes - 1)


def test_readers_are_not_waited_for(file: Path) -> None:
    with file.open("rb"):
        Workspace(file.parent).compare_and_swap("a.txt", BEFORE, AFTER)
    assert file.read_bytes() == AFTER


def descriptors_within(folder: Path) -> int:
    """Descriptors of the folder and of files in it; others may be closed at any time."""
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(link).startswith(str(folder.resolve())) for link in links)


def test_looking_for_writers_leaves_no_descriptor_and_no_lease(file: Path) -> None:
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        before = descriptors_within(file.parent)
        assert not safe_open.has_writer(folder, "a.txt")
        assert not safe_open.has_writer(folder, "missing")
        with file.open("ab"):
            assert safe_open.has_writer(folder, "a.txt")
        assert descriptors_within(file.parent) == before == 1
    finally:
        os.close(folder)
