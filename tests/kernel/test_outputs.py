"""The outputs of code: in a notebook's cell, of worker processes, and while it runs."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ipyagent.agent.tool_context import last_lines
from ipyagent.kernel.outputs import KEPT, CellOutputs, Channel, Outputs
from ipyagent.redaction import Redactor
from kernels import Kernel, Message, Page, Reply, python, run_code, script
from patience import PATIENCE

# The outputs of code as a notebook's cell holds them ----------------------------------------------

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def validated(outputs: CellOutputs) -> list[dict[str, Any]]:
    """Return the outputs, validated by nbformat."""
    cell = nbformat.v4.new_code_cell(outputs=nbformat.from_dict(outputs.cell()))
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    return outputs.cell()


def test_text_of_one_stream_is_one_output_until_another_comes():
    outputs = CellOutputs(1)
    for channel, text in (("stdout", "a"), ("stdout", "b\n"), ("stderr", "c"), ("stdout", "d")):
        outputs.write(channel, text)
    assert [(each["name"], each["text"]) for each in validated(outputs)] == [
        ("stdout", "ab\n"),
        ("stderr", "c"),
        ("stdout", "d"),
    ]


def printed(*texts: tuple[Channel, str]) -> Outputs:
    outputs = Outputs()
    for channel, text in texts:
        outputs.write(channel, text)
    return outputs


def test_a_bar_beside_printed_lines_is_one_line_below_them():
    """As tqdm writes it: each state begins with a carriage return, only the last ends its line."""
    bar: list[tuple[Channel, str]] = [("stderr", "warning\n"), ("stderr", "\r  0%|     |")]
    for n in range(1, 5):
        bar += [("stdout", f"epoch {n}\n"), ("stderr", f"\r {25 * n}%|{'#' * n:5}|")]
    outputs = printed(*bar, ("stderr", "\n"))
    epochs = ["epoch 1", "epoch 2", "epoch 3", "epoch 4"]
    lines = ["[stderr]", "warning", "[stdout]", *epochs, "[stderr]", " 100%|#### |"]
    assert outputs.text().split("\n") == lines
    live = last_lines(outputs.recent_text() or "", Redactor())
    assert live.split("\n") == ["warning", *epochs, " 100%|#### |"]


def test_channels_that_alternate_often_are_told_once_in_their_order():
    alternating: list[tuple[Channel, str]] = [("stdout", "a\n"), ("stderr", "b\n")] * 2
    assert printed(*alternating).text() == "a\n[stderr]\nb\n[stdout]\na\n[stderr]\nb"
    often = printed(*alternating, *alternating)
    assert often.text() == "[stdout and stderr]\n" + "\n".join("abababab")


def test_an_image_is_kept_whole_with_its_metadata():
    outputs = CellOutputs(1)
    size = {"image/png": {"width": 3}}
    outputs.show({"image/png": PNG, "text/plain": "f"}, None, size)
    (output,) = validated(outputs)
    assert base64.b64decode(output["data"]["image/png"]) == PNG
    assert (output["output_type"], output["metadata"]) == (
        "display_data",
        {"image/png": {"width": 3}},
    )


def test_json_stays_json_and_other_objects_become_text():
    outputs = CellOutputs(1)
    view = {"model_id": "abc"}
    outputs.show({"application/vnd.jupyter.widget-view+json": view, "text/html": {1}})
    data = validated(outputs)[0]["data"]
    assert data == {"application/vnd.jupyter.widget-view+json": view, "text/html": '"{1}"'}


def test_a_display_is_updated_where_it_was_shown():
    outputs = CellOutputs(1)
    outputs.show({"text/plain": "0 %"}, "bar")
    outputs.write("stdout", "x")
    assert outputs.update({"text/plain": "100 %"}, "bar")
    assert not outputs.update({"text/plain": "?"}, "other")
    assert validated(outputs)[0]["data"] == {"text/plain": "100 %"}


@pytest.mark.parametrize(("wait", "left"), [(False, []), (True, ["a"])])
def test_outputs_are_cleared_at_once_or_when_more_arrives(wait: bool, left: list[str]):
    outputs = CellOutputs(1)
    outputs.write("stdout", "a")
    outputs.clear(wait)
    assert [each["text"] for each in outputs.cell()] == left
    outputs.write("stdout", "b")
    assert [each["text"] for each in validated(outputs)] == ["b"]


def test_output_too_large_for_a_notebook_is_mentioned_once_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("ipyagent.kernel.outputs.CELL_ROOM", 10)
    outputs = CellOutputs(1)
    outputs.write("stdout", "12345678")
    for _ in range(3):
        outputs.write("stdout", "90123")
        outputs.show({"text/plain": "large"})
    assert [each["text"] for each in validated(outputs)] == [
        "12345678",
        "[more output is not kept here: it is too large]\n",
    ]


# What threads, workers, child processes and C code put out is the output of their code ------------

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
        "from ipyagent.kernel.namespace import Namespace\n"
        "code = 'import os\\nchild = os.fork()\\nif not child: print(7, end=str())\\n'\n"
        "code += 'else: done = os.waitpid(child, 0)'\n"
        "result = Namespace({}).run(code)\n"
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
        "from ipyagent.kernel.namespace import Namespace\n"
        "def other(): go.wait(); print('not of the code'); done.set()\n"
        "go, done, kept = threading.Event(), threading.Event(), sys.stdout\n"
        "threading.Thread(target=other).start()\n"
        'code = \'os.system("echo one")\\nprint("two", file=kept)\\ngo.set(); done.wait()\'\n'
        "result = Namespace(globals()).run(code)\n"
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


# What code prints is on the card while it runs, though it occupies the main thread ----------------

TRAINING = f"""\
import pathlib, sys, time
print("loaded")
for done in range(101):
    print(f"\\r{{done:3}}%|", end="", file=sys.stderr)
until = time.monotonic() + {PATIENCE}
while not pathlib.Path("seen").exists() and time.monotonic() < until:
    time.sleep(0.02)"""


def run(kernel: Kernel, folder: Path, seen: Callable[[], object]) -> tuple[Reply, list[str], Page]:
    """Run the code; act once its last line is on the card."""
    page, lines = Page(kernel), list[str]()

    def look(message: Message) -> None:
        page(message)
        live = "".join(each["live"] for each in page.card.calls())
        if live and live not in lines:
            lines.append(live)
            if live.endswith("100%|"):
                seen()

    cell = f"%%agent {script(folder, python(TRAINING), 'Done.')} --confirm yolo\nBegin."
    return kernel.run(cell, page=look), lines, page


def test_the_card_shows_what_code_prints_while_it_runs(fresh: Kernel, tmp_path: Path) -> None:
    reply, lines, page = run(fresh, tmp_path, (tmp_path / "seen").touch)
    assert lines[-1] == "loaded\n100%|"
    assert page.card.calls()[0]["live"] == ""
    assert reply.results[0]["output"] == "loaded\n[stderr]\n100%|"


def test_what_was_shown_before_an_interrupt_is_in_the_result_and_on_the_card(
    fresh: Kernel, tmp_path: Path
) -> None:
    reply, lines, page = run(fresh, tmp_path, fresh.interrupt)
    assert "loaded\n100%|" in lines
    (call,) = page.card.calls()
    assert call["status"] == "cancelled"
    assert "loaded\n[stderr]\n100%|" in call["text"]
    assert "loaded\n[stderr]\n100%|" in reply.results[0]["output"]
