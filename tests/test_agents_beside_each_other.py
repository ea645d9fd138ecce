"""Agents with sessions of their own run beside each other, in tasks and threads."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ipyagent import Agent, Scripted, tool
from ipyagent.errors import BusyError
from ipyagent.llm.client import ModelRequest


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Gate:
    """Counts who is inside at once, and lets nobody out before `count` are."""

    def __init__(self, count: int) -> None:
        self.inside = self.most = 0
        self._count, self._open, self._lock = count, threading.Event(), threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            if self.inside == self._count:
                self._open.set()
        assert self._open.wait(60)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.inside -= 1


def python(code: str) -> dict[str, Any]:
    return {"calls": [{"name": "run_python", "arguments": {"code": code}}]}


@pytest.mark.spec("P26")
async def test_fifty_agents_that_are_gathered_all_answer() -> None:
    gate = Gate(20)

    @tool(where="thread")
    def meet() -> str:
        """Wait until others are here as well."""
        with gate:
            return "met"

    def agent(number: int) -> Agent:
        replies = [{"calls": [{"name": "meet", "arguments": {}}]}, f"I am {number}."]
        return Agent(Scripted(replies if number < 20 else replies[1:]), tools=[meet], persist=False)

    runs = await asyncio.gather(*(agent(number).aask("Who?") for number in range(50)))
    assert [run.output for run in runs] == [f"I am {number}." for number in range(50)]
    assert gate.most == 20


@pytest.mark.spec("P26")
def test_agents_answer_in_threads_beside_each_other() -> None:
    gate = Gate(6)

    @tool(where="thread")
    def meet() -> str:
        """Wait until others are here as well."""
        with gate:
            return "met"

    def ask(number: int) -> str:
        replies = [{"calls": [{"name": "meet", "arguments": {}}]}, f"I am {number}."]
        return Agent(Scripted(replies), tools=[meet], persist=False).ask("Who?").output

    with ThreadPoolExecutor(6) as pool:
        assert [*pool.map(ask, range(6))] == [f"I am {number}." for number in range(6)]


@pytest.mark.spec("P26")
async def test_two_prompts_of_one_session_are_refused_with_the_way_out() -> None:
    agent = Agent(Scripted([{"text": "Slowly. " * 20, "delay": 0.01}, "Second."]), persist=False)
    first = asyncio.ensure_future(agent.aask("One"))
    await asyncio.sleep(0)
    with pytest.raises(BusyError, match="sessions of their own run beside each other"):
        await agent.aask("Two")
    assert "Slowly" in (await first).output
    assert (await agent.aask("Three")).output == "Second."


@pytest.mark.spec("P26")
async def test_code_of_two_agents_runs_one_after_the_other_and_keeps_its_own_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "trail", [], raising=False)
    code = (
        "for step in range(3):\n"
        "    print({name!r}, step)\n"
        "    trail.append(({name!r}, step))\n"
        "    __import__('time').sleep(0.01)"
    )

    async def ask(name: str) -> str:
        agent = Agent(
            Scripted([python(code.format(name=name)), "Done."]),
            persist=False,
            confirm_mode="yolo",
        )
        return (await agent.aask("Go.")).results[0].output

    names = "abcd"
    outputs = await asyncio.gather(*map(ask, names))
    expected = {name: [(name, step) for step in range(3)] for name in names}
    for name, output in zip(names, outputs, strict=True):
        assert output.split() == [str(part) for pair in expected[name] for part in pair]
    trail = main.trail
    blocks = [trail[at : at + 3] for at in range(0, len(trail), 3)]
    assert sorted(blocks) == sorted(expected.values())


@pytest.mark.spec("P26")
async def test_stop_of_one_leaves_the_others_running() -> None:
    begun = asyncio.Event()

    def begin(_: ModelRequest) -> dict[str, Any]:
        begun.set()
        return {"text": "endless " * 500, "delay": 0.02}

    stopped = Agent(Scripted([begin]), persist=False)
    others = [
        Agent(Scripted([{"text": "calm " * 20, "delay": 0.01}]), persist=False) for _ in range(3)
    ]
    tasks = [asyncio.ensure_future(each.aask("Go.")) for each in (stopped, *others)]
    await begun.wait()
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert [run.outcome for run in await asyncio.gather(*tasks[1:])] == ["success"] * 3
    assert stopped.session.runs[-1].stop_reason == "interrupted"


@pytest.mark.spec("P26")
def test_a_tool_asks_an_agent_of_its_own_on_the_main_thread_and_in_a_thread() -> None:
    def ask_inner() -> str:
        """Ask another agent, which runs code."""
        inner = Agent(
            Scripted([python("deep = 6 * 7\nprint(deep)"), "It is 42."]),
            persist=False,
            confirm_mode="yolo",
        )
        run = inner.ask("Compute.")
        return f"{run.output} {run.results[0].output.strip()}"

    on_main = tool(name="ask_on_main")(ask_inner)
    beside = tool(name="ask_beside", where="thread")(ask_inner)
    calls = [{"name": name, "arguments": {}} for name in ("ask_on_main", "ask_beside")]
    agent = Agent(
        Scripted([{"calls": calls[:1]}, {"calls": calls[1:]}, "Both."]),
        tools=[on_main, beside],
        persist=False,
    )
    run = agent.ask("Go.")
    assert [result.output for result in run.results] == ["It is 42. 42"] * 2
    assert run.output == "Both."


@pytest.mark.spec("P26")
async def test_a_task_that_a_job_left_behind_can_ask_an_agent_when_the_job_is_over() -> None:
    left: list[asyncio.Task[Any]] = []
    is_over = asyncio.Event()

    async def later() -> str:
        await is_over.wait()
        inner = Agent(Scripted([python("print(1)"), "Late."]), persist=False, confirm_mode="yolo")
        return (await inner.aask("Go.")).output

    @tool(where="main")
    async def begin() -> str:
        """Leave a task behind."""
        left.append(asyncio.ensure_future(later()))
        return "begun"

    replies = [{"calls": [{"name": "begin", "arguments": {}}]}, "Done."]
    assert (await Agent(Scripted(replies), tools=[begin], persist=False).aask("Go.")).output
    is_over.set()
    assert await asyncio.wait_for(left[0], 60) == "Late."


@pytest.mark.spec("P26")
async def test_an_agent_that_is_forgotten_leaves_nothing_behind() -> None:
    agent = Agent(Scripted(["Fine."]), persist=False)
    await agent.aask("Go.")
    environment, session = weakref.ref(agent.environment), weakref.ref(agent.session)
    await Agent(Scripted(["Fine."]), persist=False).aask("Go.")
    del agent
    gc.collect()
    assert environment() is None
    assert session() is None
