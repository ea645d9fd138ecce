"""Kernels whose surroundings are broken: one line or card, no traceback, and a next cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import Kernel, Reply, kernel

pytestmark = pytest.mark.kernel

CELL = "%%agent -m scripted/hello.yaml\nGo on."


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Kernel]:
    (tmp_path / "hello.yaml").write_text("- Hello.\n")
    with kernel(tmp_path) as started:
        yield started


def said(reply: Reply) -> str:
    """What a reply shows, without a traceback of more than a line."""
    for error in reply.of("error"):
        assert len(error["traceback"]) == 1, error
    shown = str([reply.of("display_data"), reply.of("error"), reply.stdout, reply.stderr])
    assert "Traceback" not in shown
    return shown


def test_a_folder_that_was_deleted_before_the_extension_is_loaded(fresh: Kernel) -> None:
    fresh.run(
        "%unload_ext ipyagent\nimport os\nhome = os.getcwd()\nos.mkdir('gone')\n"
        "os.chdir('gone')\nos.rmdir('../gone')"
    )
    assert fresh.run("%load_ext ipyagent").status == "ok"
    assert "is not there any more" in said(fresh.run(CELL))
    assert "is not there any more" in said(fresh.run("%agent status"))
    fresh.run("os.chdir(home)")
    assert fresh.run(CELL).run["status"] == "done"


def test_modules_that_were_taken_away_are_loaded_again(fresh: Kernel) -> None:
    assert fresh.run(CELL).run["status"] == "done"
    fresh.run(
        "import sys\nfor name in [n for n in sys.modules if n.startswith('ipyagent')]:\n"
        "    del sys.modules[name]"
    )
    for cell in (CELL, f"%%time\n{CELL}", "%agent status"):
        assert "%reload_ext ipyagent" in said(fresh.run(cell))
    assert fresh.run("%reload_ext ipyagent").status == "ok"
    assert fresh.run(CELL).run["status"] == "done"


def test_an_import_that_fails_names_the_package_and_what_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text("- Hello.\n")
    old = tmp_path / "old"
    (old / "nh3").mkdir(parents=True)
    (old / "nh3" / "__init__.py").write_text("clean = None\n")
    (old / "nh3-0.2.20.dist-info").mkdir()
    (old / "nh3-0.2.20.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nh3\nVersion: 0.2.20\n"
    )
    with kernel(tmp_path, PYTHONPATH=str(old)) as started:
        for cell in (CELL, CELL, f"%%time\n{CELL}"):
            told = said(started.run(cell))
            assert "nh3 0.2.20 is installed, needed is nh3>=" in told
            assert "%pip install --upgrade" in told
            assert "has no attribute 'run'" not in told


TAKE_ALL = """
import resource, os
usual = resource.getrlimit(resource.RLIMIT_NOFILE)
most = max(map(int, os.listdir('/proc/self/fd'))) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (most, usual[1]))
held = []
try:
    while True: held.append(os.open(os.devnull, os.O_RDONLY))
except OSError: pass  # also the numbers between are taken now
"""
GIVE_BACK = """
resource.setrlimit(resource.RLIMIT_NOFILE, usual)
for fd in held: os.close(fd)
"""


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_kernel_without_descriptors_says_so_and_goes_on_with_more(
    tmp_path: Path, is_warm: bool
) -> None:
    (tmp_path / "hello.yaml").write_text("- Hello.\n")
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    # IPython's own thread for the history prints a traceback for want of a descriptor.
    (profile / "ipython_config.py").write_text("c.HistoryManager.enabled = False\n")
    with kernel(tmp_path, IPYTHONDIR=str(tmp_path / "ipython")) as started:
        if is_warm:
            assert started.run(CELL).run["status"] == "done"
        started.run(TAKE_ALL)
        cells = (CELL, "%%agent -m scripted/hello.yaml -s other\nAsk.", CELL, "%agent status")
        replies = [started.run(cell) for cell in cells]
        for reply in replies[:3]:
            told = said(reply)
            assert "oo many open files" in told
            assert "raise the limit" in told
        assert [said(reply) and reply.stderr for reply in replies] == [""] * 4
        started.run(GIVE_BACK)
        if is_warm:
            assert started.run(CELL).run["status"] == "done"
