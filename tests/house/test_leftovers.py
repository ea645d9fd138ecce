"""What a test starts ends with it, however the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from patience import wait_until
from repository import ROOT

STARTS = """
import subprocess, sys, time
from pathlib import Path

SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]

def test_that_starts_a_process():
    process = subprocess.Popen(SLEEP, start_new_session=True)
    Path("pid.tmp").write_text(str(process.pid))
    Path("pid.tmp").rename("pid")
    {then}
"""

PYTEST = "import leftovers, pytest, sys; leftovers.GRACE = 0.5; sys.exit(pytest.main())"


def start(folder: Path, then: str, *options: str) -> subprocess.Popen[str]:
    """Start pytest on a test that starts a process out of its group."""
    (folder / "test_it.py").write_text(STARTS.format(then=then))
    plain = ["-p", "leftovers", "-p", "xdist", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-c", PYTEST, *plain, *options, "test_it.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_pid(folder: Path) -> int:
    wait_until((folder / "pid").exists)
    return int((folder / "pid").read_text())


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_process_that_is_left_fails_the_run_and_is_ended(tmp_path: Path) -> None:
    run = start(tmp_path, "pass")
    told, _ = run.communicate()
    pid = read_pid(tmp_path)
    assert run.returncode == 1
    assert f"{pid} [" in told
    wait_until(lambda: not is_running(pid))


def test_a_process_that_has_ended_is_no_fault(tmp_path: Path) -> None:
    run = start(tmp_path, "process.kill(); process.wait()")
    told, _ = run.communicate()
    assert run.returncode == 0, told


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "with a worker"])
def test_a_killed_run_leaves_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = start(tmp_path, "time.sleep(3600)", *options)
    pid = read_pid(tmp_path)
    assert is_running(pid)
    run.kill()
    wait_until(lambda: not is_running(pid))
    run.communicate()
