"""Plans in the background: their cell ends when they are approved, and they run on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import YES, call
from ipyagent.agent.plan_runner import check_background_plan
from ipyagent.config import Config
from ipyagent.errors import AgentInterrupted, BusyError, SessionError
from ipyagent.kernel import drivers
from ipyagent.kernel.drivers import Cell
from ipyagent.schema import Run, RunStatus, StopReason
from ipyagent.tools.base import Tool, tool
from ipyagent.wiring import runtime
from patience import PATIENCE
from planning import PlanLab

pytestmark = pytest.mark.spec("P25")

PLAN = {"calls": [call("hold"), call("write_file", path="made.txt", content="made")]}
TIED = {"calls": [call("write_file", path="made.txt", content="made"), call("live")]}


class Gate:
    """A tool that waits until the test lets it go on, and one that needs the main thread."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    @property
    def tools(self) -> list[Tool]:
        @tool(where="thread", sensitive=True)
        def hold() -> str:
            """Wait."""
            self.begun.set()
            assert self.go.wait(PATIENCE)
            return "held"

        @tool
        def live() -> str:
            """Look at the variables."""
            return threading.current_thread().name

        return [hold, live]


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.go.set()


@pytest.fixture(autouse=True)
def _in_background(lab: PlanLab) -> None:
    lab.release = Cell.release


def ended(lab: PlanLab) -> Run:
    """The run that went on, as it ended."""
    run: Run = lab.cell.background.done.result(PATIENCE)
    return run


def test_the_cell_ends_when_the_plan_is_approved_and_the_plan_runs_on(
    lab: PlanLab, gate: Gate, tmp_path: Path
) -> None:
    left = lab.plan([PLAN], tools=gate.tools, answer=YES)
    assert left.status is RunStatus.RUNNING
    assert gate.begun.wait(PATIENCE)
    assert not (tmp_path / "made.txt").exists()
    gate.go.set()
    run = ended(lab)
    assert (run.id, run.status, run.output) == (left.id, RunStatus.DONE, "2 of 2 steps done.")
    assert "in the background" in run.notes[-1]
    assert lab.session.runs[-1] == run
    assert lab.types[-1][-1] == "run_finished"


def test_it_is_stopped_as_a_run_in_a_cell_is(lab: PlanLab, gate: Gate, tmp_path: Path) -> None:
    lab.plan([PLAN], tools=gate.tools, answer=YES)
    assert gate.begun.wait(PATIENCE)
    lab.cell.stop()
    run = ended(lab)
    assert (run.status, run.stop_reason) == (RunStatus.CANCELLED, StopReason.INTERRUPTED)
    assert "Not run: step 2 (write_file)." in run.output
    assert not (tmp_path / "made.txt").exists()


def test_a_step_that_does_not_end_when_it_is_stopped_does_not_keep_the_kernel_busy(
    lab: PlanLab, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(sensitive=True)
    async def go_on() -> str:
        """Ignore who wants it to end."""
        gate.begun.set()
        while not gate.go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return "at last"

    monkeypatch.setattr(drivers, "GRACE", 0.1)
    left = lab.plan([{"calls": [call("go_on")]}], tools=[go_on], answer=YES)
    assert gate.begun.wait(PATIENCE)
    lab.cell.stop()
    with pytest.raises(asyncio.CancelledError):
        ended(lab)
    with runtime().run_lock.hold() as turn:
        turn.keep_for_background(lab.cell, left)
    with runtime().run_lock.hold():
        pass


def test_an_interrupt_while_the_cell_ends_is_an_interrupt_of_the_plan(
    lab: PlanLab, gate: Gate
) -> None:
    def release(cell: Cell, run: Run) -> None:
        cell.release(run)
        cell.interrupt.stop()

    lab.release = release
    with pytest.raises(AgentInterrupted):
        lab.plan([PLAN], tools=gate.tools, answer=YES)
    assert lab.cell.background is None
    assert lab.session.runs[-1].stop_reason is StopReason.INTERRUPTED


def test_a_plan_that_needs_the_main_thread_runs_in_its_cell(lab: PlanLab, gate: Gate) -> None:
    run = lab.plan([TIED], tools=gate.tools, answer=YES)
    assert (run.status, lab.cell.background) == (RunStatus.DONE, None)
    assert run.executions[1].result.output == threading.main_thread().name
    waiting = lab.plan([TIED], tools=gate.tools)
    assert "because step 2 (live) works with" in waiting.notes[0]
    with pytest.raises(SessionError, match=r"step 2 \(live\).*`%agent approve"):
        check_background_plan(lab.environment.toolset.build(Config(), gate.tools), waiting)


def test_after_the_cell_nothing_waits_for_the_main_thread(lab: PlanLab, gate: Gate) -> None:
    lab.plan([PLAN], tools=gate.tools, answer=YES)
    job = lab.cell.main.post(lambda: None)
    with pytest.raises(RuntimeError, match="the cell that served"):
        job.result(0)


@pytest.mark.spec("P26")
def test_it_is_the_only_run_until_it_has_ended(lab: PlanLab, gate: Gate) -> None:
    with runtime().run_lock.hold() as turn:
        left = lab.plan([PLAN], tools=gate.tools, answer=YES)
        turn.keep_for_background(lab.cell, left)
    with (
        pytest.raises(BusyError, match=f"{left.plan_id}.*`%agent stop`"),
        runtime().run_lock.hold(),
    ):
        pass
    behind = runtime().run_lock.background
    behind.stop()
    assert ended(lab).stop_reason is StopReason.INTERRUPTED
    assert runtime().run_lock.background is None
    with runtime().run_lock.hold():
        pass
