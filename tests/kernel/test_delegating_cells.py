"""Cells whose agent delegates tasks, in a real kernel with a model on loopback."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels import Kernel, Message, Page, asking, kernel
from patience import PATIENCE
from servers.model_server import Meeting, ModelServer, Reply, Request, answer, play

pytestmark = pytest.mark.kernel

SQL = "SELECT goal, status, error FROM runs"


def delegate(*tasks: str, **arguments: Any) -> Reply:
    return answer(calls=[("delegate", {"task": task, **arguments}) for task in tasks])


def python(code: str) -> Reply:
    return answer(calls=[("run_python", {"code": code})])


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer([]) as server:
        yield server


@pytest.fixture(scope="module")
def lab(model: ModelServer, folder: Path) -> Iterator[Kernel]:
    with kernel(folder, **asking(model)) as started:
        yield started


class Decider(Page):
    """A page whose user allows what one task asks, and denies what the other does."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, decision="")
        self.on_moment = self.decide_on
        self.concerns: list[str] = []

    def decide_on(self, page: Page, moment: Message) -> None:
        if moment["type"] == "asked":
            concern = moment["call"]["text"]
            self.concerns.append(concern)
            page.decide(moment["approval_id"], "approve" if "Task A" in concern else "deny")


def test_two_tasks_run_beside_each_other_and_each_asks(lab: Kernel, model: ModelServer) -> None:
    for _ in ("fresh", "warm"):
        meeting = Meeting(2)
        play(
            model,
            The_boss=[delegate("Task A", "Task B"), answer("One did it.")],
            Task_A=[meeting.of(python("x = 1")), answer("Did it.")],
            Task_B=[meeting.of(python("y = 1")), answer("I could not.")],
        )
        page = Decider(lab)
        reply = lab.run("%%agent --fresh --tools delegate,run_python\nThe boss", page=page)
        assert reply.status == "ok", reply
        assert reply.stderr == ""
        assert len(set(page.concerns)) == 2
        first, second = reply.results
        assert (first["for_model"], second["for_model"]) == ("Did it.", "I could not.")
        assert lab.value("(x, 'y' in globals())") == "(1, False)"
        lab.run("del x")


def test_stop_ends_a_run_and_its_tasks(lab: Kernel, model: ModelServer) -> None:
    begun, over = threading.Event(), threading.Event()

    def begin(_request: Request) -> Reply:
        begun.set()
        return answer("Never.").pause(over)

    play(
        model,
        The_boss=[delegate("Task A", "Task B"), answer("Never.")],
        Task_A=[python("kept = 1"), begin],
        Task_B=[answer("B.")],
    )
    request = lab.client.execute(
        "%%agent --fresh --tools delegate,run_python --confirm yolo\nThe boss"
    )
    assert begun.wait(PATIENCE)
    lab.interrupt()
    reply = lab.finish(request)
    assert reply.status == "error"
    assert reply.run["status"] == "cancelled"
    lab.run("import ipyagent")
    states = "[each.value.status.value for each in ipyagent.last.results]"
    assert lab.value(states) == "['cancelled', 'done']"
    assert lab.value("kept") == "1"
    assert "kept" in lab.run("%agent undo").stdout
    assert lab.value("'kept' in globals()") == "False"


@pytest.mark.slow
def test_a_killed_kernel_loses_the_tasks_with_their_run(model: ModelServer, tmp_path: Path) -> None:
    begun, over = threading.Event(), threading.Event()

    def begin(_request: Request) -> Reply:
        begun.set()
        return answer("Never.").pause(over)

    play(model, The_boss=[delegate("Task A")], Task_A=[begin])
    with kernel(tmp_path, **asking(model)) as first:
        first.client.execute("%%agent --tools delegate,run_python\nThe boss")
        assert begun.wait(PATIENCE)
        first.manager.signal_kernel(signal.SIGKILL)  # a shutdown would interrupt it first
    over.set()
    with kernel(tmp_path, **asking(model)) as second:
        second.run("%agent runs")
        runs = "sorted((goal, status, error) for goal, status, error in db.execute(SQL))"
        second.run(f"import sqlite3; db = sqlite3.connect('.ipyagent/state.db'); SQL = {SQL!r}")
        gone = "the kernel ended during the run; its work until then is kept"
        assert second.value(runs) == repr(
            [(name, "error", gone) for name in ("Task A", "The boss")]
        )


def test_tasks_are_listed_below_their_run_shown_and_taken_back_alone(
    lab: Kernel, model: ModelServer
) -> None:
    play(
        model,
        The_boss=[delegate("Task A", "Task B"), answer("Done.")],
        Task_A=[python("one = 1"), answer("A.")],
        Task_B=[python("two = 2"), answer("B.")],
    )
    lab.run("%%agent --fresh --tools delegate,run_python --confirm yolo\nThe boss")
    first, second = (each.split()[1] for each in lab.run("%agent runs").stdout.splitlines()[-2:])
    assert lab.run(f"%agent show {first}").run["prompt"] == "Task A"
    assert "two" in lab.run(f"%agent undo {second}").stdout
    assert lab.value("(one, 'two' in globals())") == "(1, False)"
    lab.run("%agent undo")
    assert lab.value("'one' in globals()") == "False"
