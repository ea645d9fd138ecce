"""Prints of threads and forked workers that code starts are the code's, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ipyagent.kernel.outputs import LIMIT, ForkedOutput
from kernels import Kernel, Reply
from patience import PATIENCE


def agent(kernel: Kernel, folder: Path, code: str) -> tuple[Reply, dict[str, Any]]:
    call = {"calls": [{"name": "run_python", "arguments": {"code": code}}]}
    (folder / "script.yaml").write_text(yaml.safe_dump([call, "Done."]))
    reply = kernel.run("%%agent -m scripted/script.yaml --confirm yolo\nBegin.")
    assert reply.status == "ok", reply
    return reply, reply.run["steps"][0]["executions"][0]["result"]


REUSED_IDENTS = """\
ended.set()
for old in older: old.join()
for number in range(20):
    new = threading.Thread(target=print, args=[f"line {number}"])
    new.start()
    new.join()
reused = sum(each in idents for each in (new.ident,))"""


@pytest.mark.kernel
def test_threads_of_the_code_are_its_own_although_older_threads_have_ended(
    fresh: Kernel, tmp_path: Path
) -> None:
    fresh.run(
        "import threading\n"
        "ended = threading.Event()\n"
        "older = [threading.Thread(target=ended.wait) for _ in range(20)]\n"
        "for each in older: each.start()\n"
        "idents = {each.ident for each in older}"
    )
    reply, result = agent(fresh, tmp_path, REUSED_IDENTS)
    assert result["output"].splitlines() == [f"line {number}" for number in range(20)]
    assert reply.stdout == ""
    assert fresh.value("reused") == "1"


OLDER = """\
import threading
go, done = threading.Event(), threading.Event()
def work():
    go.wait()
    print("older")
    child = threading.Thread(target=print, args=["child of the older"])
    child.start(); child.join()
    done.set()
threading.Thread(target=work).start()"""


@pytest.mark.kernel
def test_threads_of_the_user_and_what_they_start_stay_theirs(fresh: Kernel, tmp_path: Path) -> None:
    fresh.run(OLDER)
    reply, result = agent(
        fresh,
        tmp_path,
        "go.set(); done.wait()\n"
        "def nested():\n"
        "    inner = threading.Thread(target=print, args=['inner'])\n"
        "    inner.start(); inner.join()\n"
        "    print('outer')\n"
        "mine = threading.Thread(target=nested); mine.start(); mine.join()\n"
        "import _thread\n"
        "raw = threading.Event()\n"
        "_thread.start_new_thread(lambda: (print('raw'), raw.set()), ())\n"
        "raw.wait()\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(2) as pool: list(pool.map(print, ['pooled']))\n"
        "timer = threading.Timer(0, print, ['timed']); timer.start(); timer.join()",
    )
    assert result["output"].splitlines() == ["inner", "outer", "raw", "pooled", "timed"]
    assert reply.stdout == "older\nchild of the older\n"
    assert fresh.value("threading.Thread.start.__module__") == "'threading'"


FORKS = {
    "multiprocessing": (
        "import multiprocessing\n"
        "context = multiprocessing.get_context('fork')\n"
        "print('before')\n"
        "processes = [context.Process(target=print, args=[f'worker {n}']) for n in range(3)]\n"
        "for each in processes: each.start()\n"
        "for each in processes: each.join()\n"
        "print('after')"
    ),
    "executor": (
        "import multiprocessing\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def work(n): print(f'worker {n}'); return n\n"
        "print('before')\n"
        "with ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool:\n"
        "    assert list(pool.map(work, range(3))) == [0, 1, 2]\n"
        "print('after')"
    ),
    "pool": (
        "import multiprocessing\n"
        "def work(n): print(f'worker {n}'); return n\n"
        "print('before')\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    assert pool.map(work, range(3)) == [0, 1, 2]\n"
        "print('after')"
    ),
    "fork in a thread": (
        "import os, threading\n"
        "def fork():\n"
        "    for n in range(3):\n"
        "        if not (child := os.fork()): print(f'worker {n}'); os._exit(0)\n"
        "        os.waitpid(child, 0)\n"
        "print('before')\n"
        "thread = threading.Thread(target=fork); thread.start(); thread.join()\n"
        "print('after')"
    ),
    "a child that leaves the code": (
        "import os\n"
        "print('before')\n"
        "codes = []\n"
        "for n in range(3):\n"
        "    if not (child := os.fork()): break\n"
        "    codes.append(os.waitpid(child, 0)[1])\n"
        "print('after' if child else f'worker {n}')"
    ),
}


@pytest.mark.kernel
def test_prints_of_forked_workers_reach_the_model(fresh: Kernel, tmp_path: Path) -> None:
    for name, code in FORKS.items():
        reply, result = agent(fresh, tmp_path, code)
        lines = result["output"].splitlines()
        assert lines[0] == "before", (name, result)
        assert lines[-1] == "after", (name, result)
        assert sorted(lines[1:-1]) == [f"worker {n}" for n in range(3)], (name, result)
        assert reply.stdout == "", name
    assert fresh.value("codes") == "[0, 0, 0]"
    assert fresh.run("print('still here')").stdout == "still here\n"


@pytest.mark.kernel
def test_errors_of_workers_and_their_stderr_do_not_harm_the_run(
    fresh: Kernel, tmp_path: Path
) -> None:
    _, result = agent(
        fresh,
        tmp_path,
        "import multiprocessing, os, sys\n"
        "context = multiprocessing.get_context('fork')\n"
        "def work(): print('printed'); raise ValueError('of a worker')\n"
        "one = context.Process(target=work); one.start(); one.join()\n"
        "if not (child := os.fork()): raise KeyError('left the code')\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "one.exitcode, status",
    )
    assert result["success"]
    assert "(1, 1)" in result["output"]
    assert "printed" in result["output"]
    assert "ValueError: of a worker" in result["output"]


def test_a_script_gets_what_its_workers_print_and_they_do_not_run_its_rest(tmp_path: Path) -> None:
    script = (
        "import os\n"
        "from ipyagent.kernel.namespace import PlainNamespace\n"
        "code = 'import os\\nchild = os.fork()\\nif not child: print(7, end=str())\\n'\n"
        "code += 'else: done = os.waitpid(child, 0)'\n"
        "result = PlainNamespace({}).run(code)\n"
        "print([result.output, result.error])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "['7', None]\n"


@pytest.fixture
def forked() -> Iterator[ForkedOutput]:
    output = ForkedOutput()
    output.open()
    yield output
    output.close()


def play_worker(output: ForkedOutput) -> None:
    output._process = -1


def test_text_is_read_once_and_characters_stay_whole(forked: ForkedOutput) -> None:
    assert forked.write("é\n")
    assert forked.read() == "é\n"
    assert forked.read() == ""
    os.write(forked._file or 0, b"\xc3")
    assert forked.read() == ""
    os.write(forked._file or 0, b"\xa9")
    assert forked.read() == "é"


def test_a_worker_that_outlives_the_run_is_told_that_nobody_reads(forked: ForkedOutput) -> None:
    copy = ForkedOutput()
    copy._file = os.dup(forked._file or 0)
    play_worker(copy)
    assert copy.write("read\n")
    assert forked.read() == "read\n"
    forked.close()
    assert not copy.write("unread\n")
    os.close(copy._file)


def test_workers_that_print_without_end_fill_no_disk(forked: ForkedOutput) -> None:
    for _ in range(20):
        assert forked.write("x" * 1_000_000 + "\n")
    assert len(forked.read()) <= LIMIT + 1_000_001
