"""What a test starts ends with it: a left process fails the run, and a killed run leaves none.

Every process that tests start inherits a variable of its pytest process. By it they are found at
the end of the run, and by a guard process once the pytest process is gone, however it ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest

MARK = "STARTED_BY_TESTS"
GRACE = 10.0
"""Seconds that processes get to end by themselves."""

PR_SET_PDEATHSIG = 1


def find_started(mark: str) -> list[psutil.Process]:
    """Return the processes that carry this mark, but for zombies, which have ended."""
    return [each for each in psutil.process_iter() if _has_mark(each, mark)]


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        # The tracker of multiprocessing's (or loky's) resources ends with the process it is for.
        is_tracker = any("resource_tracker import" in each for each in process.cmdline())
        return process.environ().get(MARK) == mark and not is_tracker
    except (psutil.Error, OSError):
        return False


def end_started(mark: str) -> None:
    """Kill all processes that carry this mark, also those that they start meanwhile."""
    while started := find_started(mark):
        for process in started:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.05)


def pytest_sessionstart() -> None:
    """End with `make`, and with the pytest process that distributes the tests."""
    if sys.platform == "linux" and {"MAKELEVEL", "PYTEST_XDIST_WORKER"} & os.environ.keys():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fail the run if a process that a test started is still there at the end."""
    mark = uuid.uuid4().hex
    command = [sys.executable, __file__, mark]
    # Out of the reach of what ends this process and its group.
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    os.environ[MARK] = mark
    yield
    _, left = psutil.wait_procs(find_started(mark), GRACE)
    lines = [f"{process.pid} {process.cmdline()}" for process in left if process.is_running()]
    guard.stdin.close()
    guard.wait()
    if lines:
        pytest.fail("tests left processes behind:\n" + "\n".join(lines), pytrace=False)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    end_started(sys.argv[1])
