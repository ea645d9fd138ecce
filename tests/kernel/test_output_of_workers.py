"""What threads, workers, child processes and C code put out is the output of their code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ipyagent.kernel.outputs import KEPT, Outputs
from kernels import Kernel, python, run_code, script
from patience import PATIENCE

REUSED_IDENTS = """\
ended.set()
for old in older: old.join()
for number in range(20):
    new = threading.Thread(target=print, args=[f"line {number}"])
    new.start()
    new.join()
reused = sum(each in idents for each in (new.ident,))"""


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
    reply, result = run_code(fresh, tmp_path, REUSED_IDENTS)
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


def test_threads_of_the_user_and_what_they_start_stay_theirs(fresh: Kernel, tmp_path: Path) -> None:
    fresh.run(OLDER)
    reply, result = run_code(
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


def test_prints_of_forked_workers_reach_the_model(fresh: Kernel, tmp_path: Path) -> None:
    for name, code in FORKS.items():
        reply, result = run_code(fresh, tmp_path, code)
        lines = result["output"].splitlines()
        assert lines[0] == "before", (name, result)
        assert lines[-1] == "after", (name, result)
        assert sorted(lines[1:-1]) == [f"worker {n}" for n in range(3)], (name, result)
        assert reply.stdout == "", name
    assert fresh.value("codes") == "[0, 0, 0]"
    assert fresh.run("print('still here')").stdout == "still here\n"


def test_errors_of_workers_and_their_stderr_do_not_harm_the_run(
    fresh: Kernel, tmp_path: Path
) -> None:
    _, result = run_code(
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


def run_alone(program: str) -> str:
    """Return the output of a script."""
    command = [sys.executable, "-u", "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout


def test_a_script_gets_what_its_workers_print_and_they_do_not_run_its_rest() -> None:
    program = (
        "import os\n"
        "from ipyagent.kernel.namespace import PlainNamespace\n"
        "code = 'import os\\nchild = os.fork()\\nif not child: print(7, end=str())\\n'\n"
        "code += 'else: done = os.waitpid(child, 0)'\n"
        "result = PlainNamespace({}).run(code)\n"
        "print([result.output, result.error])"
    )
    assert run_alone(program) == "['7', None]\n"


PAST_PYTHON = {
    "subprocess.run(['echo', 'one'])": "one",
    "subprocess.run(['echo', 'one'], stdout=sys.stdout)": "one",
    "subprocess.run('echo one >&2', shell=True, stderr=subprocess.STDOUT)": "one",
    "subprocess.check_call([sys.executable, '-c', 'print(4)'])": "4",
    "os.system('echo one; echo two >&2')": "one\n[stderr]\ntwo",
    "os.write(1, b'one\\n'); os.write(2, b'two\\n')": "one\n[stderr]\ntwo",
    "os.write(sys.stdout.fileno(), b'one\\n')": "one",
    "print('one', file=sys.__stdout__)": "one",
    "ctypes.CDLL(None).printf(b'one\\n')": "one",
    "os.posix_spawnp('echo', ['echo', 'one'], os.environ); os.wait()": "one",
    "await (await asyncio.create_subprocess_exec('echo', 'one')).wait()": "one",
    "with ProcessPoolExecutor(1, get_context('spawn')) as p: p.submit(print, 'one')": "one",
    "with ProcessPoolExecutor(1, get_context('forkserver')) as p: p.submit(print, 'one')": "one",
    "if not (child := os.fork()): os.write(1, b'one\\n'); os._exit(0)\n"
    "child = os.waitpid(child, 0)": "one",
    "mine.info('one')": "[stderr]\none",
    "print('one', file=kept)": "one",
    "await asyncio.get_running_loop().run_in_executor(pool, print, 'one')": "one",
    "pool.submit(print, 'one').result()": "one",
}
"""Code, and what it puts out between two lines."""

OTHERS = """\
import asyncio, ctypes, logging, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
mine, kept, __spec__ = logging.getLogger("mine"), sys.stdout, None
mine.setLevel("INFO")
mine.addHandler(logging.StreamHandler())
pool = ThreadPoolExecutor(1)
pool.submit(int).result()"""


def test_what_passes_by_the_streams_of_python_is_told_in_its_place(
    fresh: Kernel, tmp_path: Path
) -> None:
    fresh.run(OTHERS)
    for code, text in PAST_PYTHON.items():
        reply, result = run_code(fresh, tmp_path, f"print('before')\n{code};\nprint('after')")
        told = result["output"].replace("[stdout]\n", "")
        assert told == f"before\n{text}\nafter", (code, result)
        assert reply.stdout + reply.stderr == "", code
    assert fresh.run("os.write(1, b'still here'); mine.info('too')").status == "ok"


def test_a_process_that_outlives_its_code_prints_in_a_later_cell(
    fresh: Kernel, tmp_path: Path
) -> None:
    starts = "child = subprocess.Popen('read go; echo late', shell=True, stdin=subprocess.PIPE)"
    _, result = run_code(fresh, tmp_path, f"import subprocess\n{starts}")
    assert "late" not in result["output"]
    _, result = run_code(
        fresh, tmp_path, "child.communicate(b'go\\n'); import time\ntime.sleep(0.5)"
    )
    assert result["output"] == "late"


def test_endless_output_of_a_process_is_read_and_its_middle_dropped(
    fresh: Kernel, tmp_path: Path
) -> None:
    code = "import os\nos.system('yes 2>/dev/null | head -c 20000000; echo end')"
    _, result = run_code(fresh, tmp_path, code)
    (kept,) = (tmp_path / ".ipyagent" / "outputs").iterdir()
    text = kept.read_text()
    assert len(text) < 2 * KEPT
    assert "characters were not kept" in text
    assert text.endswith("end\n0")
    assert kept.name in result["output"]


def test_what_a_look_writes_past_python_is_told_too(fresh: Kernel, tmp_path: Path) -> None:
    fresh.run("%agent config agent.look_freely=true")
    reply = fresh.run(f"%%agent {script(tmp_path, python(LOOK), 'Done.')}\nBegin.")
    assert reply.results[0]["output"] == "before\none\nafter"
    fresh.run("%agent config agent.look_freely=false")


LOOK = "import os\nprint('before')\nnumber = os.write(1, b'one\\n')\nprint('after')"


def test_help_of_a_name_is_told(fresh: Kernel, tmp_path: Path) -> None:
    reply, result = run_code(fresh, tmp_path, "len?")
    assert "Return the number of items" in result["output"]
    assert not reply.content["payload"]


def test_a_script_keeps_its_own_descriptors() -> None:
    program = (
        "import os, sys, threading\n"
        "from ipyagent.kernel.namespace import PlainNamespace\n"
        "def other(): go.wait(); print('not of the code'); done.set()\n"
        "go, done, kept = threading.Event(), threading.Event(), sys.stdout\n"
        "threading.Thread(target=other).start()\n"
        'code = \'os.system("echo one")\\nprint("two", file=kept)\\ngo.set(); done.wait()\'\n'
        "result = PlainNamespace(globals()).run(code)\n"
        "print([result.output, result.error])\n"
        "os.system('echo last')"
    )
    assert run_alone(program) == "not of the code\n['one\\ntwo\\nTrue', None]\nlast\n"


def test_characters_in_two_pieces_stay_whole() -> None:
    outputs = Outputs()
    _, descriptor = outputs.descriptors.values()
    descriptor.open()
    try:
        os.write(2, b"\xc3")
        outputs.read_descriptors()
        os.write(2, b"\xa9")
    finally:
        descriptor.close()
    assert outputs.text() == "[stderr]\né"
