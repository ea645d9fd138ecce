"""Rehearsals as an ordinary user: the same ways out, tried in a process of such a user."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = [pytest.mark.alone, pytest.mark.slow]

TESTS = Path(__file__).parent
PROJECT = TESTS.parents[1]
NOBODY = 65534


def as_nobody(command: list[str], spare: Path) -> list[str]:
    """Return a command that runs another one as an ordinary user, wherever the project is."""
    changed = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    mounts = list(uncover([Path(sys.base_prefix), PROJECT], spare))
    if not mounts:
        return changed
    script = "; ".join(["set -e", *mounts, 'exec "$@"'])
    return ["unshare", "--mount", "sh", "-c", script, "sh", *changed]


def uncover(folders: list[Path], spare: Path) -> Iterator[str]:
    """Yield shell commands that show everybody folders in others that only root may enter."""
    tops = {each: closed[-1] for each in folders if (closed := [*filter(is_closed, each.parents)])}
    kept = {each: spare / str(number) for number, each in enumerate(tops)}
    for folder, place in kept.items():
        place.mkdir(parents=True)
        yield shlex.join(["mount", "--bind", str(folder), str(place)])
    for top in {*tops.values()}:
        yield shlex.join(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(top)])
    for folder, place in kept.items():
        yield shlex.join(["mkdir", "-p", str(folder)])
        yield shlex.join(["mount", "--bind", str(place), str(folder)])


def is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & 0o001


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests here run as an ordinary user anyway")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.timeout(600)
def test_the_ways_out_are_closed_for_an_ordinary_user_too(tmp_path: Path) -> None:
    folder = Path("/tmp", f"ipyagent-{os.getpid()}")
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    pytest_options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder}/base"]
    command = [sys.executable, "-B", "-m", "pytest", *pytest_options]
    files = [str(TESTS / "test_break_outs.py"), str(TESTS / "test_limits.py")]
    try:
        done = subprocess.run(
            as_nobody([*command, *files], tmp_path),
            cwd=PROJECT,
            env={**os.environ, "HOME": str(folder), "REHEARSAL_TEST_COUNT": "10"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
        assert " skipped" not in done.stdout
    finally:
        shutil.rmtree(folder)
