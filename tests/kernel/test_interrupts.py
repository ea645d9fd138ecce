"""Interrupts at any moment of an agent cell, in a real kernel: one quiet line, nothing left behind.

`make test-all` asks for some random moments, `make soak` for a thousand (INTERRUPT_TEST_MOMENTS).
"""

from __future__ import annotations

import ast
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels import Kernel, Page, Reply, kernel, python, run_code, script
from patience import wait_until

pytestmark = pytest.mark.kernel

MOMENTS = int(os.environ.get("INTERRUPT_TEST_MOMENTS", "12"))
HELD = "[__import__('threading').active_count(), len(__import__('os').listdir('/proc/self/fd'))]"
SPARE = 4
"""Threads of pools and descriptors of SQLite that come and go."""
REPLIES = [
    {"text": "Let me see. " * 20, "thinking": "Hm. " * 10, "delay": 0.001},
    python("import time; time.sleep(0.2)"),
    {"calls": [{"name": "run_shell", "arguments": {"command": "sleep 0.1"}}]},
    {"calls": [{"name": "list_files", "arguments": {}}]},
    {"text": "Done. " * 30, "delay": 0.001},
]


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Kernel]:
    replies = [{"calls": REPLIES[1]["calls"] + REPLIES[2]["calls"] + REPLIES[3]["calls"]}]
    script(folder, REPLIES[0] | replies[0], REPLIES[4], name="all")
    script(folder, python("1 + 1"), "Done.", name="brief")
    with kernel(folder) as started:
        started.run("%%agent -m scripted/brief.yaml --confirm yolo\nBegin.", page=Page(started))
        yield started


def is_quiet(reply: Reply) -> bool:
    """Return whether the cell was interrupted, and reported it in one line."""
    if reply.status in ("ok", "lost"):
        return False
    assert reply.content["ename"] == "AgentInterrupted", reply.content
    assert len(reply.of("error")[0]["traceback"]) == 1
    return True


def count_resources(kernel: Kernel) -> tuple[int, int]:
    """Return the number of threads and of descriptors of the kernel."""
    threads, descriptors = ast.literal_eval(kernel.value(HELD))
    return threads, descriptors


def assert_nothing_is_left(kernel: Kernel, before: tuple[int, int]) -> None:
    def is_gone() -> bool:
        now = count_resources(kernel)
        return all(b - a <= SPARE for a, b in zip(before, now, strict=True))

    wait_until(is_gone, lambda: f"{before} threads and descriptors, now {count_resources(kernel)}")


@pytest.mark.slow
def test_an_interrupt_at_a_random_moment_is_one_line_and_leaves_nothing_behind(
    shared: Kernel,
) -> None:
    cell = "%%agent -m scripted/all.yaml --confirm {}\nBegin."
    seconds = []
    for mode in ("yolo", "confirm-all"):
        begun = time.monotonic()
        shared.run(cell.format(mode), page=Page(shared))
        seconds.append(time.monotonic() - begun)
    pid = int(shared.value("__import__('os').getpid()"))
    before, waits, stopped = count_resources(shared), [], 0
    rng = random.Random(MOMENTS)
    for number in range(MOMENTS):
        moment = rng.uniform(0, max(seconds)) if number % 3 else rng.uniform(0, 0.05)
        at: list[float] = []

        def interrupt(at: list[float] = at) -> None:
            at.append(time.monotonic())
            os.kill(pid, signal.SIGINT)

        timer = threading.Timer(moment, interrupt)
        timer.start()
        sent = shared.client.execute(
            cell.format("yolo" if number % 2 else "confirm-all"), allow_stdin=True
        )
        reply = shared.finish(sent, page=Page(shared), may_be_lost=True)
        if at and reply.status != "lost":
            waits.append(time.monotonic() - at[0])
        timer.cancel()
        timer.join()
        shared.run("0")
        stopped += is_quiet(reply)
    after = shared.run(cell.format("yolo"), page=Page(shared))
    assert after.run["status"] == "done"
    assert_nothing_is_left(shared, before)
    waits.sort()
    p50, p99 = waits[len(waits) // 2], waits[-1 - len(waits) // 100]
    print(f"{stopped} of {MOMENTS} stopped; back after {p50:.3f} s (p50), {p99:.3f} s (p99)")


def patch_code(where: str, name: str) -> str:
    """Return code that has the kernel interrupt itself once, when that function is called."""
    *owner, attribute = name.split(".")
    return f"""
import os, signal, {where}
_holder = {".".join([where, *owner])}
_original = _holder.{attribute}
def _interrupted(*args, **kwargs):
    _holder.{attribute} = _original
    os.kill(os.getpid(), signal.SIGINT)
    return _original(*args, **kwargs)
_holder.{attribute} = _interrupted
"""


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("ipyagent.magic.entry", "import_or_explain"),
        ("ipyagent.magic.cells", "parse"),
        ("ipyagent.wiring.run_task", "RunFactory.build"),
        ("ipyagent.kernel.threads", "EngineTask.start"),
        ("ipyagent.ui.card", "NotebookView.__init__"),
        ("ipyagent.magic.cells", "_Job.finish"),
    ],
)
def test_an_interrupt_before_and_after_the_run_is_one_line_as_well(
    shared: Kernel, where: str, name: str, blocking: bool
) -> None:
    options = "-m scripted/brief.yaml --confirm yolo"
    cell = f"get_ipython().run_cell_magic('agent', '{options}', 'Begin.')"
    if not blocking:
        cell = f"%%agent {options}\nBegin."
    before = count_resources(shared)
    shared.run(patch_code(where, name))
    assert is_quiet(shared.run(cell, page=Page(shared)))
    assert_nothing_is_left(shared, before)
    assert shared.run(f"%%agent {options}\nBegin.", page=Page(shared)).run["status"] == "done"


def test_an_interrupt_handled_by_ipykernel_before_the_cell_is_one_line(shared: Kernel) -> None:
    before = count_resources(shared)
    awaited = "await __import__('ipyagent.magic.entry', fromlist=['run']).run"
    cell = (
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
        f"{awaited}('-m scripted/brief.yaml --confirm yolo', 'Begin.')"
    )
    for _ in range(3):
        assert is_quiet(shared.run(cell, page=Page(shared)))
    assert_nothing_is_left(shared, before)


SHOWN = """
import time, asyncio
from IPython.display import HTML, display
import matplotlib.pyplot as plt
for i in range(13): print('epoch', i)
_ = plt.plot([1, 2]); plt.show()
_ = plt.plot([2, 1])
print('ready', flush=True)
open('shown.ready', 'w').close()
"""


def interrupt_when(path: Path, pid: int) -> Callable[[Page, dict[str, Any]], None]:
    """Interrupt the process as soon as the code that is about to run has written that file."""
    path.unlink(missing_ok=True)

    def wait() -> None:
        wait_until(path.exists)
        os.kill(pid, signal.SIGINT)

    def on_moment(page: Page, moment: dict[str, Any]) -> None:
        if moment["type"] == "running":
            threading.Thread(target=wait).start()

    return on_moment


@pytest.mark.spec("H25")
@pytest.mark.parametrize("wait", ["time.sleep(60)", "await asyncio.sleep(60)"])
def test_text_and_figures_before_a_stop_are_in_the_card(
    shared: Kernel, folder: Path, wait: str
) -> None:
    page, pid = Page(shared), int(shared.value("__import__('os').getpid()"))
    page.on_moment = interrupt_when(folder / "shown.ready", pid)
    option = script(folder, python(SHOWN + wait), "Done.")
    reply = shared.run(f"%%agent {option} --confirm yolo\nBegin.", page=page)
    assert is_quiet(reply)
    (execution,) = reply.executions
    assert execution["status"] == "cancelled"
    result = execution["result"]
    assert result["error"].startswith("stopped by the user after ")
    for text in ("epoch 0\n", "epoch 12\n", "ready"):
        assert text in result["output"]
    assert len(result["images"]) == 2
    assert shared.value("len(__import__('ipyagent').last.results[-1].images)") == "2"
    assert "CancelledError" not in result["output"]


UNSEEN = """
import os, signal, time
told = signal.set_wakeup_fd(-1)
signal.set_wakeup_fd(told)
os.write(told, bytes([signal.SIGINT]))
time.sleep(60)
"""


def test_an_interrupt_just_before_the_main_thread_sleeps_is_not_lost(
    shared: Kernel, folder: Path
) -> None:
    """Python has recorded it, and checks its records only when the sleep is over."""
    option = script(folder, python(UNSEEN), "Done.")
    reply = shared.run(f"%%agent {option} --confirm yolo\nBegin.", page=Page(shared))
    assert is_quiet(reply)
    assert reply.run["stop_reason"] == "interrupted"
    assert shared.value("__import__('signal').set_wakeup_fd(-1)") == "-1"


FORKED = """
import os, signal, time
child = os.fork()
if child == 0:
    try:
        time.sleep(60)
    finally:
        os._exit(0)
time.sleep(0.2)
os.kill(child, signal.SIGINT)
os.waitpid(child, 0)
time.sleep(0.5)
print('went on')
"""


def test_an_interrupt_of_a_forked_process_does_not_stop_the_run(
    shared: Kernel, folder: Path
) -> None:
    reply, result = run_code(shared, folder, FORKED)
    assert reply.run["status"] == "done"
    assert "went on" in result["output"]


SLOW_TO_SHOW = """
import asyncio, time
def show_slowly():
    get_ipython().events.unregister('post_execute', show_slowly)
    time.sleep(1)
    print('shown at last')
try:
    open('slow.ready', 'w').close()
    {wait}
finally:  # not before: while code awaits, a page's message calls what is registered, too
    get_ipython().events.register('post_execute', show_slowly)
"""


@pytest.mark.parametrize("wait", ["time.sleep(60)", "await asyncio.sleep(60)"])
def test_displays_at_the_end_of_stopped_code_may_take_long(
    shared: Kernel, folder: Path, wait: str
) -> None:
    page, pid = Page(shared), int(shared.value("__import__('os').getpid()"))
    page.on_moment = interrupt_when(folder / "slow.ready", pid)
    option = script(folder, python(SLOW_TO_SHOW.format(wait=wait)), "Done.")
    reply = shared.run(f"%%agent {option} --confirm yolo\nBegin.", page=page)
    assert is_quiet(reply)
    assert "shown at last" in reply.results[0]["output"]
