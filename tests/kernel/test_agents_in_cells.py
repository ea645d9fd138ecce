"""Agents that a cell runs beside each other: one signal ends all, a Stop button its own."""

from __future__ import annotations

import ast
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels import Kernel, Message, Page, kernel

pytestmark = pytest.mark.kernel

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
