"""Rehearsals as an ordinary user: the same ways out, tried in a process of such a user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = [pytest.mark.alone, pytest.mark.slow]

TESTS = Path(__file__).parent
NOBODY = 65534
UNCOVER = """set -e
mount --bind "$1" "$3"
mount -t tmpfs -o mode=755 none "$2"
mkdir -p "$1"
mount --bind "$3" "$1"
shift 3
exec "$@"
"""
"""Shows everybody the Python in $1, although nobody else may look into the folder $2."""


def as_nobody(command: list[str], spare: Path) -> list[str]:
    """Return a command that runs another one as an ordinary user, whatever Python's folder is."""
    changed = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    python = Path(sys.base_prefix)
    closed = [each for each in (python, *python.parents) if not each.stat().st_mode & 0o001]
    if not closed:
        return changed
    folders = [str(python), str(closed[-1]), str(spare)]
    return ["unshare", "--mount", "sh", "-c", UNCOVER, "sh", *folders, *changed]


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests here run as an ordinary user anyway")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.timeout(600)
def test_the_ways_out_are_closed_for_an_ordinary_user_too(tmp_path: Path) -> None:
    folder, spare = Path("/tmp", f"ipyagent-{os.getpid()}"), tmp_path / "spare"
    folder.mkdir()
    spare.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    pytest_options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder}/base"]
    command = [sys.executable, "-B", "-m", "pytest", *pytest_options]
    files = [str(TESTS / "test_break_outs.py"), str(TESTS / "test_limits.py")]
    try:
        done = subprocess.run(
            as_nobody([*command, *files], spare),
            cwd=TESTS.parents[1],
            env={**os.environ, "HOME": str(folder), "REHEARSAL_TEST_COUNT": "10"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
        assert " skipped" not in done.stdout
    finally:
        shutil.rmtree(folder)
