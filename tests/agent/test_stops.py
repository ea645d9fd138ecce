"""A stop always stops, and what was put out before it is kept."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import YES, Clock, Lab, call
from ipyagent.agent import tool_context
from ipyagent.errors import AgentInterrupted
from ipyagent.kernel import drivers
from ipyagent.kernel.threads import EngineThread
from ipyagent.schema import Event, Run, ToolStatus
from ipyagent.tools.base import tool
from ipyagent.wiring.undo import find_undo
from patience import PATIENCE, wait_until

SLOW = {"text": "word " * 2000, "delay": 0.02}


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def python(code: str) -> dict[str, Any]:
    return {"calls": [call("run_python", code=code)]}


def once(kind: str, when: Callable[[], bool], act: Callable[[], object]) -> Callable[[Event], None]:
    """Act once, soon after an event of that kind, when that holds."""
    begun: list[Event] = []

    def wait() -> None:
        wait_until(when)
        act()

    def hear(event: Event) -> None:
        if event.type == kind and not begun:
            begun.append(event)
            threading.Thread(target=wait, daemon=True).start()

    return hear


def interrupting(kind: str, when: Callable[[], bool] = lambda: True) -> Callable[[Event], None]:
    """Interrupt this process once, soon after an event of that kind, when that holds."""
    return once(kind, when, lambda: os.kill(os.getpid(), signal.SIGINT))


def stopped(lab: Lab, replies: list[Any], heard: Callable[[Event], None], **more: Any) -> Run:
    with pytest.raises(AgentInterrupted):
        lab.run(replies, heard=heard, confirm_mode="yolo", **more)
    return lab.session.runs[-1]


HANDLERS = {
    "SIG_IGN": signal.SIG_IGN,
    "SIG_DFL": signal.SIG_DFL,
    "default_int_handler": signal.default_int_handler,
}


@pytest.mark.parametrize("handler", HANDLERS)
def test_code_that_sets_a_handler_of_its_own_does_not_disarm_the_stop(
    lab: Lab, handler: str
) -> None:
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.{handler})"
    run = stopped(lab, [python(code), SLOW], interrupting("message_delta"))
    assert run.executions[0].status is ToolStatus.SUCCESS
    assert signal.getsignal(signal.SIGINT) is HANDLERS[handler]  # as after a cell


def test_a_handler_that_code_had_kept_does_not_swallow_interrupts_after_the_run(lab: Lab) -> None:
    code = "import signal\nkept = signal.getsignal(signal.SIGINT)"
    lab.run([python(code), "Done."], confirm_mode="yolo")
    signal.signal(signal.SIGINT, lab.variables["kept"])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_stop_waits_a_moment_for_what_another_thread_writes(lab: Lab) -> None:
    engine = EngineThread.current()

    async def turn() -> None:
        await asyncio.sleep(0)

    @tool(where="thread")
    def save() -> str:
        """Save."""
        lab.cell.stop()
        for _ in range(20):  # until the loop has come to the stop
            engine.wait_for(turn())
        return "Saved."

    run = stopped(lab, [{"calls": [call("save")]}, "Never."], lambda event: None, tools=[save])
    (saved,) = run.executions
    assert (saved.status, saved.result.output) == (ToolStatus.SUCCESS, "Saved.")


class Late:
    """A stream whose last text is written while a signal arrives."""

    def __init__(self, stream: Any) -> None:
        self.fileno, self.stream = stream.fileno, stream

    def flush(self) -> None:
        signal.raise_signal(signal.SIGINT)
        self.stream.flush()


def test_a_stop_while_output_is_saved_leaves_no_descriptor_in_its_place(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(sys.__stdout__)
    lab.variables["begin"] = lambda: monkeypatch.setattr(sys, "__stdout__", late)
    before = [os.fstat(number).st_ino for number in (1, 2)]
    stopped(lab, [python("begin()"), "Never."], lambda event: None)
    assert [os.fstat(number).st_ino for number in (1, 2)] == before


SWALLOWING = """
swallowed = []
while len(swallowed) < 4:
    try:
        while True:
            started = True
    except BaseException as error:
        swallowed.append(error)
"""


def test_code_that_swallows_interrupts_is_interrupted_again_and_the_run_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drivers.REMINDER <= 1 < tool_context.PATIENCE
    monkeypatch.setattr(drivers, "REMINDER", 0.05)
    monkeypatch.setattr(tool_context, "PATIENCE", 0.05)
    heard = interrupting("tool_running", lambda: "started" in lab.variables)
    run = stopped(lab, [python(SWALLOWING), "Never."], heard)
    assert len(lab.variables["swallowed"]) == 4
    assert lab.cell.interrupt.requests == 1
    assert [n for step in run.steps for n in step.notes] + list(run.notes) == [
        "Stopping: the code still runs although it was interrupted. It is interrupted again "
        "every second; restarting the kernel ends it in any case."
    ]
    assert run.is_finished
    assert lab.run(["Back."]).output == "Back."


def test_a_run_that_is_stopped_at_once_does_not_say_that_it_waits(lab: Lab) -> None:
    heard = interrupting("tool_running", lambda: "started" in lab.variables)
    run = stopped(lab, [python("started = True\nwhile True: pass")], heard)
    assert [*run.notes, *run.steps[0].notes] == []


PRINTING = "import time\nfor i in range(13): print('epoch', i)\nprinted = True\ntime.sleep(30)"


def told(lab: Lab) -> str:
    """What the model reads of the last call."""
    lab.run(["I see."], "And now?")
    messages = lab.client.requests[-1].messages
    return next(m for m in reversed(messages) if m.tool_results).tool_results[0].text


@pytest.mark.spec("H25")
def test_what_code_printed_before_a_stop_is_kept_and_told(lab: Lab) -> None:
    heard = interrupting("tool_running", lambda: "printed" in lab.variables)
    run = stopped(lab, [python(PRINTING)], heard)
    (execution,) = run.executions
    assert execution.status is ToolStatus.CANCELLED
    result = run.results[-1]
    assert re.match(r"stopped by the user after \d+ s", result.error or "")
    assert "Output so far:\nepoch 0\nepoch 1\n" in result.output
    assert "epoch 12" in result.output
    assert execution.duration is not None
    assert [(v.name, v.change) for v in result.variables][-1] == ("printed", "created")
    assert "epoch 12" in lab.session.journal.runs(lab.session.id)[-1].results[-1].output
    assert "epoch 12" in told(lab)
    find_undo(lab.environment, [run], "").run()
    assert "printed" not in lab.variables


@pytest.mark.parametrize("limit", ["step_seconds", "max_seconds"])
def test_what_code_printed_before_the_time_was_up_is_kept(
    lab: Lab, clock: Clock, limit: str
) -> None:
    ended = threading.Event()
    lab.variables.update(clock=clock, ended=ended)

    def hear(event: Event) -> None:
        if event.type == "tool_finished":
            ended.set()

    code = f"print('epoch 1')\nclock.advance(601)\nended.wait({PATIENCE})\nprint('later')"
    run = lab.run([python(code), "Late."], heard=hear, confirm_mode="yolo", **{limit: 600})
    assert run.executions[0].status is ToolStatus.UNKNOWN
    assert run.results[0].output.startswith("unknown outcome: run_python was still running")
    assert run.results[0].output.endswith("Output so far:\nepoch 1")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_shell", {"command": "echo one; echo two > begun; sleep 30"}),
        (
            "python_script",
            {
                "action": "run",
                "content": "import time\nprint('one', flush=True)\n"
                "open('begun', 'w').close()\ntime.sleep(30)",
            },
        ),
    ],
)
@pytest.mark.parametrize("how", ["stop", "time"])
def test_what_a_command_printed_is_kept(
    lab: Lab, clock: Clock, tool: str, arguments: dict[str, Any], how: str
) -> None:
    begun = lab.environment.workspace.root / "begun"
    replies = [{"calls": [call(tool, **arguments)]}]
    ways: dict[str, Any] = {"answer": YES, "settings": {"tools": {"shell": True}}}
    if how == "stop":
        run = stopped(lab, replies, interrupting("tool_running", begun.exists), **ways)
        assert (run.results[0].error or "").startswith("stopped by the user after")
    else:
        late = once("tool_running", begun.exists, lambda: clock.advance(601))
        run = lab.run(replies, heard=late, confirm_mode="yolo", step_seconds=600, **ways)
        assert (run.results[0].error or "").startswith("stopped because its time was up")
    assert run.executions[0].status is ToolStatus.CANCELLED
    assert "Output so far:\none" in run.results[0].output
