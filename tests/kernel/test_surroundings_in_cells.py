"""Kernels in a broken environment: one line or card, no traceback, and the next cell works."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import Kernel, Reply, kernel

pytestmark = pytest.mark.kernel

CELL = "%%agent -m scripted/hello.yaml\nGo on."


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text("- Hello.\n")


def reply_text(reply: Reply) -> str:
    """Return the text of a reply; fail if it has a traceback of more than a line."""
    for error in reply.of("error"):
        assert len(error["traceback"]) == 1, error
    text = str([reply.of("display_data"), reply.of("error"), reply.stdout, reply.stderr])
    assert "Traceback" not in text
    return text


def test_the_extension_loads_in_a_folder_that_was_deleted(fresh: Kernel) -> None:
    fresh.run(
        "%unload_ext ipyagent\nimport os\nhome = os.getcwd()\nos.mkdir('gone')\n"
        "os.chdir('gone')\nos.rmdir('../gone')"
    )
    assert fresh.run("%load_ext ipyagent").status == "ok"
    assert "is not there any more" in reply_text(fresh.run(CELL))
    assert "is not there any more" in reply_text(fresh.run("%agent status"))
    fresh.run("os.chdir(home)")
    assert fresh.run(CELL).run["status"] == "done"


def test_modules_that_were_removed_are_loaded_again(fresh: Kernel) -> None:
    assert fresh.run(CELL).run["status"] == "done"
    fresh.run(
        "import sys\nfor name in [n for n in sys.modules if n.startswith('ipyagent')]:\n"
        "    del sys.modules[name]"
    )
    for cell in (CELL, f"%%time\n{CELL}", "%agent status"):
        assert "%reload_ext ipyagent" in reply_text(fresh.run(cell))
    assert fresh.run("%reload_ext ipyagent").status == "ok"
    assert fresh.run(CELL).run["status"] == "done"


def test_a_failed_import_says_what_to_install(tmp_path: Path) -> None:
    old = tmp_path / "old"
    (old / "nh3").mkdir(parents=True)
    (old / "nh3" / "__init__.py").write_text("clean = None\n")
    (old / "nh3-0.2.20.dist-info").mkdir()
    (old / "nh3-0.2.20.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: nh3\nVersion: 0.2.20\n"
    )
    with kernel(tmp_path, PYTHONPATH=str(old)) as started:
        for cell in (CELL, CELL, f"%%time\n{CELL}"):
            text = reply_text(started.run(cell))
            assert "nh3" in text
            assert "%pip install --upgrade" in text
            assert "has no attribute 'run'" not in text


TAKE_ALL = """
import resource, os
usual = resource.getrlimit(resource.RLIMIT_NOFILE)
most = max(map(int, os.listdir('/proc/self/fd'))) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (most, usual[1]))
held = []
def take_all(*_):
    try:
        while True: held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError: pass  # also the numbers between are taken now
take_all()
# What an earlier cell still held may be free by now.
get_ipython().events.register('pre_run_cell', take_all)
"""
GIVE_BACK = """
get_ipython().events.unregister('pre_run_cell', take_all)
resource.setrlimit(resource.RLIMIT_NOFILE, usual)
for fd in held: os.close(fd)
"""


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_kernel_without_descriptors_reports_it_and_recovers(
    tmp_path: Path, is_warm: bool
) -> None:
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
            text = reply_text(reply)
            assert "oo many open files" in text
            assert "raise the limit" in text
        assert [reply_text(reply) and reply.stderr for reply in replies] == [""] * 4
        started.run(GIVE_BACK)
        if is_warm:
            assert started.run(CELL).run["status"] == "done"
