"""`%%agent --plan --background` in kernels: the cell ends, the plan continues."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels import RUN_JSON, Kernel, Message, Page, Reply, kernel, script
from patience import PATIENCE

pytestmark = [pytest.mark.kernel, pytest.mark.spec("P25")]

ENVIRONMENT = {"IPYAGENT_TOOLS__SHELL": "true"}

BEGUN, GO = "begun.txt", "go.txt"

WAIT = f"echo > {BEGUN}; while [ ! -e {GO} ]; do sleep 0.05; done; echo gone on"
"""A command that says that it has begun, and waits until the test lets it go on."""

WRITE = {"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}}

PLAN = {
    "text": "1. Wait.\n2. Write it.",
    "calls": [{"name": "run_shell", "arguments": {"command": WAIT}}, WRITE],
}
FAILS = {"calls": [{"name": "run_shell", "arguments": {"command": "cat missing"}}, WRITE]}
INSTEAD = {"calls": [{"name": "run_shell", "arguments": {"command": "echo instead"}}]}
TIED = {"calls": [{"name": "run_python", "arguments": {"code": "x = 1"}}, WRITE]}

CELL = "%%agent -m scripted/plan.yaml --plan --background --confirm yolo\nMake a file."


class Watching(Page):
    """A page that approves plans, and keeps listening when their cells have ended."""

    plan: str = ""
    asked: str = ""
    mirror: Message | None = None

    def __call__(self, message: Message) -> None:
        super().__call__(message)
        if message["msg_type"] == "update_display_data":
            run = message["content"]["data"].get(RUN_JSON)
            self.mirror = run if run and run["plan"] else self.mirror

    def _hear(self, message: Message) -> None:
        known = len(self.moments)
        super()._hear(message)
        for moment in self.moments[known:]:
            if moment["type"] == "asked":
                self.asked = moment["approval_id"]
            if moment["type"] == "plan asked":
                self.plan = re.findall(r"hash (\w+)", moment["html"])[0]
                self.decide(moment["approval_id"], "approve")

    def until(self, holds: Callable[[], Any]) -> None:
        """Listen until the condition is true."""
        self.kernel.listen(self, holds)

    @property
    def ended(self) -> Message:
        """The run in the card, once it has ended there and in the kernel."""
        self.until(lambda: self.mirror)
        self.until(lambda: "no plan runs" in self.kernel.run("%agent stop").stdout)
        assert self.mirror is not None
        return self.mirror


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    script(tmp_path, PLAN, name="plan")
    script(tmp_path, TIED, name="tied")
    yield tmp_path
    (tmp_path / GO).touch()  # whatever happened, the command ends


@contextlib.contextmanager
def background_plan(started: Kernel, folder: Path) -> Iterator[tuple[Kernel, Watching, Reply]]:
    """Start a plan, and wait until it is at its first step, its cell over; then it ends."""
    page = Watching(started)
    reply = started.run(CELL, page=page)
    page.until((folder / BEGUN).exists)
    yield started, page, reply


def test_the_cell_ends_and_other_cells_run_during_the_plan(fresh: Kernel, folder: Path) -> None:
    with background_plan(fresh, folder) as (started, page, reply):
        assert reply.status == "ok", reply.content
        assert not (folder / "made.txt").exists()
        assert started.run("x = 41").status == "ok"
        assert started.value("x + 1") == "42"
        second = started.run("%%agent -m scripted/plan.yaml\nSomething else.").run
        assert f"({page.plan})" in second["error"]
        assert "%agent stop" in second["error"]
        for command in ("%agent undo", "%agent session new"):
            assert "in the background" in started.run(command).stdout
        assert "* " in started.run("%agent session list").stdout
        assert "saved" in started.run("%agent session save now.json").stdout
        assert started.run("%agent session graph").of("display_data")
        assert page.plan in started.run("%agent status").stdout
        (folder / GO).touch()
        run = page.ended
        assert (run["status"], run["plan_id"]) == ("done", page.plan)
        assert (folder / "made.txt").read_text() == "made\n"
        assert started.value("__import__('ipyagent').last.output") == "'2 of 2 steps done.'"
        assert started.run("%agent session new").status == "ok"
        assert "2 of 2" not in started.run("x").stdout


def test_an_interrupt_or_captured_output_of_another_cell_does_not_affect_the_plan(
    fresh: Kernel,
    folder: Path,
) -> None:
    with background_plan(fresh, folder) as (started, page, _reply):
        request = started.client.execute("import time; print('in'); time.sleep(60)")
        reply = started.finish(
            request,
            on=lambda m: started.interrupt() if m["msg_type"] == "stream" else None,
        )
        assert reply.content["ename"] == "KeyboardInterrupt"
        captured = (
            "from IPython.utils.capture import capture_output\nimport pathlib, time\n"
            f"with capture_output() as caught:\n    pathlib.Path({GO!r}).touch()\n"
            "    while not __import__('ipyagent').last.plan: time.sleep(0.01)\n"
            "len(caught.outputs), caught.stdout"
        )
        assert "(0, '')" in str(started.run(captured, page=page).of("execute_result"))
        assert page.ended["status"] == "done"


@pytest.mark.spec("P25", "P35", "A12")
def test_calls_that_the_plan_does_not_cover_are_asked_about_after_the_cell(
    fresh: Kernel, folder: Path
) -> None:
    script(folder, FAILS, INSTEAD, INSTEAD, name="plan")
    page = Watching(fresh, decision="")
    fresh.run(CELL.replace(" --confirm yolo", ""), page=page)
    page.until(lambda: page.asked)
    assert fresh.value("'free'") == "'free'"
    assert page.asked in fresh.run("%agent status").stdout
    assert "approved" in fresh.run("%agent approve", page=page).stdout
    run = page.ended
    assert (run["status"], len(run["steps"])) == ("done", 4)
    assert run["steps"][1]["executions"][0]["decided_by"] == "magic"


@pytest.mark.parametrize("how", ["card", "command"])
def test_a_plan_in_the_background_can_be_stopped(fresh: Kernel, folder: Path, how: str) -> None:
    with background_plan(fresh, folder) as (started, page, _reply):
        if how == "card":
            page.say({"type": "stop"})
        else:
            assert page.plan in started.run("%agent stop", page=page).stdout
        run = page.ended
        assert (run["status"], run["stop_reason"]) == ("cancelled", "interrupted")
        assert run["steps"][0]["executions"][0]["status"] == "cancelled"
        (folder / GO).touch()
        assert not (folder / "made.txt").exists()
        after = started.run(f"%%agent {script(folder, 'Here.')}\nAre you there?").run
        assert after["status"] == "done"


def test_a_plan_that_the_kernels_end_cut_off_is_recorded(folder: Path) -> None:
    with kernel(folder, **ENVIRONMENT) as started, background_plan(started, folder):
        process = started.manager.provisioner.process
        started.manager.shutdown_wait_time = PATIENCE  # then it is killed
        started.manager.shutdown_kernel(now=False)
        assert process.returncode == 0
    with kernel(folder, **ENVIRONMENT) as again:
        assert "no plan runs" in again.run("%agent stop").stdout
        run = again.run("%agent show").run
        assert (run["status"], len(run["plan"])) == ("error", 2)
        assert "the kernel ended during the run" in run["error"]


def test_a_waiting_plan_is_approved_to_run_in_the_background(fresh: Kernel, folder: Path) -> None:
    page = Watching(fresh)
    fresh.run("%%agent -m scripted/tied.yaml --plan\nSet x.")
    refused = fresh.run("%agent approve --background", page=page)
    assert "cannot run in the background" in refused.stderr + str(refused.stdout), refused
    fresh.run("%agent deny")
    waiting = fresh.run("%%agent -m scripted/plan.yaml --plan\nMake a file.")
    assert "%agent approve" in waiting.of("display_data")[-1]["data"]["text/plain"]
    unseen = fresh.run("%agent approve --background")
    assert "needs somebody at the notebook" in unseen.stderr + str(unseen.stdout), unseen
    fresh.run("%agent approve --background", page=page)
    page.until((folder / BEGUN).exists)
    (folder / GO).touch()
    assert page.ended["status"] == "done"


def test_a_plan_in_the_background_is_refused_if_nobody_could_see_it(
    fresh: Kernel, folder: Path
) -> None:
    for cell, says in (
        (CELL, "needs somebody at the notebook"),
        (CELL.replace("--plan ", ""), "add --plan"),
        (CELL.replace("--plan ", "--plan --json "), "--json is about how the run ended"),
    ):
        reply = fresh.run(cell, page=Page(fresh) if says == "add --plan" else None)
        assert says in reply.run["error"]
