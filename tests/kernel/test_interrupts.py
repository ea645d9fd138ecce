"""Interrupts of cells, and of agents that run beside each other."""

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

from kernels import Kernel, Message, Page, Reply, kernel, python, run_code, script
from patience import wait_until

pytestmark = pytest.mark.kernel


# Interrupts at any moment of an agent cell, in a real kernel: one quiet line, nothing left behind -

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
    """Return whether the cell was interrupted, and reported it on its card or in one line."""
    if reply.status in ("ok", "lost"):
        return False
    assert reply.content["ename"] in ("AgentInterrupted", "AgentStopped"), reply.content
    lines = [line for each in reply.of("error") for line in each["traceback"]]
    assert len(lines) == (reply.content["ename"] == "AgentInterrupted")
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
        ("ipyagent.magic", "import_or_explain"),
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
    awaited = "await __import__('ipyagent.magic', fromlist=['run']).run"
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


# Agents that a cell runs beside each other: one signal ends all, a Stop button its own ------------

SET_UP = """
import asyncio, ipyagent, os, signal, time
FOREVER = [{"calls": [{"name": "nap", "arguments": {}}]}, "Done."]

@ipyagent.tool
async def nap() -> str:
    "Sleep until stopped."
    open(f"napping.{len(os.listdir())}", "w").close()
    await asyncio.sleep(60)

def agent(replies, **options):
    model = ipyagent.Scripted(replies)
    return ipyagent.Agent(model, tools=[nap], persist=False, **options)

def watched():
    "Return whether SIGINT and its wakeup are as they were."
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return descriptor, signal.getsignal(signal.SIGINT)
before = watched()
"""

GATHER = """
outcomes = await asyncio.gather(
    *(agent(FOREVER).aask("Go.") for _ in range(3)), agent(["Calm."]).aask("Go."),
    return_exceptions=True,
)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Kernel]:
    with kernel(tmp_path) as each:
        assert each.run(SET_UP).status == "ok"
        yield each


class OwnPage(Page):
    """Sees the next card that comes, and leaves the others to others."""

    def __call__(self, message: Message) -> None:
        if message["msg_type"] != "comm_open" or self.comm is None:
            super().__call__(message)


class Pages:
    """Sees every card. Of runs beside each other, any may come first."""

    def __init__(self, started: Kernel, on_moment: Callable[[Page, Message], None]) -> None:
        self.started, self.on_moment = started, on_moment
        self.pages: list[Page] = []

    def __call__(self, message: Message) -> None:
        opened = message["content"].get("data", {}).get("state", {})
        if message["msg_type"] == "comm_open" and "_esm" in opened:
            page = OwnPage(self.started)
            page.on_moment = self.on_moment
            self.pages.append(page)
        for page in self.pages:
            page(message)


def when_napping(folder: Path, count: int, act: object) -> None:
    """Act as soon as that many naps have begun."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while len([*folder.glob("napping.*")]) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        act()

    threading.Thread(target=wait).start()


@pytest.mark.spec("P26", "H25")
def test_one_interrupt_ends_all_agents_of_a_cell_and_leaves_the_signal_as_it_was(
    started: Kernel, tmp_path: Path
) -> None:
    pid = int(started.value("os.getpid()"))
    when_napping(tmp_path, 1, lambda: os.kill(pid, signal.SIGINT))
    assert started.run(GATHER, page=Page(started)).status == "ok"
    names = ast.literal_eval(started.value("[type(each).__name__ for each in outcomes]"))
    assert names[:3] == ["CancelledError"] * 3
    assert started.value("watched() == before") == "True"
    assert started.value("agent(['Fine.']).ask('Go.').output") == "'Fine.'"


@pytest.mark.spec("P26", "H25")
def test_a_stop_button_ends_its_own_run_while_the_other_goes_on(
    started: Kernel, tmp_path: Path
) -> None:
    code = "open('napping.code', 'w').close()\nawait asyncio.sleep(60)"
    call = {"name": "run_python", "arguments": {"code": code}}
    started.run(f"busy = [{{'calls': [{call!r}]}}, 'No.']")

    def stop_the_busy(page: Page, moment: Message) -> None:
        if moment["type"] == "running":
            when_napping(tmp_path, 1, lambda: page.say({"type": "stop"}))

    reply = started.run(
        "outcomes = await asyncio.gather(\n"
        "    agent(busy, confirm_mode='yolo').aask('Go.'),\n"
        "    agent([{'text': 'calm ' * 200, 'delay': 0.01}]).aask('Go.'),\n"
        "    return_exceptions=True,\n)",
        page=Pages(started, stop_the_busy),
    )
    assert reply.status == "ok"
    kinds = ast.literal_eval(started.value("[type(each).__name__ for each in outcomes]"))
    assert kinds == ["CancelledError", "Run"]
    assert started.value("outcomes[1].outcome") == "<Outcome.SUCCESS: 'success'>"
    assert started.value("watched() == before") == "True"
