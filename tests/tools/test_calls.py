"""From a model's call to what it reads back, through the whole engine: a tool never raises."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from harness import NO, YES, Lab, call
from ipyagent.errors import AgentError
from ipyagent.schema import Outcome, Preview, ToolStatus, TruncationConfig
from ipyagent.tools.base import BaseTool, Tool, Where, tool


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def dig() -> None:
    dig()


def thrower(error: BaseException | None, where: str) -> Tool:
    """A tool that raises `error`; None: what Python raises by itself when it digs too deep."""

    def throw() -> None:
        """Fail."""
        if error is None:
            dig()
        else:
            raise error

    async def throw_later() -> None:
        """Fail."""
        throw()

    return tool(name="throw", where=where)(throw_later if where == "loop" else throw)


RAISED = [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
RAISED += [StopIteration(), StopAsyncIteration(), UnreadableError(), AgentError()]


@pytest.mark.spec("A36", "A37", "A38", "D10", "D26")
@pytest.mark.parametrize("where", ["main", "thread", "loop"])
@pytest.mark.parametrize("error", [*RAISED, None], ids=lambda error: type(error).__name__)
def test_whatever_a_tool_raises_wherever_it_runs_is_its_failed_result(
    lab: Lab, error: BaseException | None, where: str
) -> None:
    made = thrower(error, where)
    with pytest.raises(type(error) if error else RecursionError):
        thrower(error, "main")()
    run = lab.run([{"calls": [call("throw")]}, "Still here."], tools=[made])
    (execution,) = run.executions
    assert execution.status is ToolStatus.FAILED
    name = type(error).__name__ if error else "RecursionError"
    assert name in (execution.result.error or "")
    assert name in execution.result.output
    assert (run.output, run.outcome) == ("Still here.", Outcome.SUCCESS)
    told = lab.client.requests[-1].messages[-1].tool_results[0]
    assert (told.is_error, name in told.text) == (True, True)


class Shouting(str):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit


@pytest.mark.spec("A36")
def test_a_value_that_fights_back_is_a_failed_result(lab: Lab) -> None:
    @tool
    def give() -> str:
        """Give."""
        return Shouting("x")

    run = lab.run([{"calls": [call("give")]}, "Still here."], tools=[give])
    assert run.output == "Still here."
    assert len(run.results) == 1


@pytest.mark.spec("A11", "A48", "H14")
def test_only_allowed_tools_are_offered_and_answer(lab: Lab) -> None:
    calls = [call("list_files"), call("read_file", path="x"), call("fly")]
    run = lab.run([{"calls": calls}, "Ok."], allowed_tools=["list_files"])
    offered = lab.client.requests[0].tools
    assert [each.name for each in offered] == ["list_files"]
    assert [result.success for result in run.results] == [True, False, False]
    for result, name in zip(run.results[1:], ["read_file", "fly"], strict=True):
        assert result.error == f"no tool is named {name!r}; available: list_files"
    assert run.outcome is Outcome.SUCCESS


@pytest.mark.spec("A18")
@pytest.mark.parametrize(
    ("allowed", "answer", "mode", "gone", "says"),
    [
        (False, YES, "confirm-sensitive", False, "disabled; set workspace.allow_delete=true"),
        (False, YES, "yolo", False, "disabled; set workspace.allow_delete=true"),
        (True, YES, "confirm-sensitive", True, "deleted a.txt"),
        (True, NO, "confirm-sensitive", False, "denied"),
        (True, None, "confirm-sensitive", False, "delete_file was not run"),
    ],
)
def test_deleting_needs_the_setting_and_an_approval(
    lab: Lab, allowed: bool, answer: Any, mode: str, gone: bool, says: str
) -> None:
    path = lab.environment.workspace.root / "a.txt"
    path.write_text("x")
    run = lab.run(
        [{"calls": [call("delete_file", path="a.txt")]}, "Ok."],
        answer=answer,
        settings={"workspace": {"allow_delete": allowed}},
        confirm_mode=mode,
    )
    assert says in run.results[0].output
    assert path.exists() is not gone
    assert bool(lab.watcher.asked) is (allowed and mode != "yolo")
    offered = lab.client.requests[0].tools
    assert "delete_file" in {each.name for each in offered}, "it is listed either way"


@pytest.mark.spec("N21", "N22")
def test_the_model_pages_through_what_was_cut(lab: Lab) -> None:
    text = "".join(f"row {number}\n" for number in range(2_000))

    @tool
    def long() -> str:
        """Say much."""
        return text

    @tool(truncate=TruncationConfig(max_chars=300))
    def short() -> str:
        """Say less."""
        return text

    @tool(truncate=TruncationConfig(enabled=False))
    def whole() -> str:
        """Say all."""
        return text

    @tool
    def wail() -> str:
        """Fail at length."""
        raise ValueError("woe " * 20_000)

    calls = [call(each) for each in ("long", "short", "whole", "wail")]
    run = lab.run([{"calls": calls}, "Ok."], tools=[long, short, whole, wail])
    assert [result.full_output for result in run.results[:3]] == [text] * 3
    assert len(run.results[3].error or "") <= 2_000
    assert run.results[2].output == text
    assert len(run.results[1].output) <= 300
    assert len(run.results[0].output.splitlines()) <= 1_000
    cut = run.results[0].truncated
    again = lab.run([{"calls": [call("read_file", path=cut.path, offset=1_500, limit=1)]}, "Ok."])
    assert again.results[0].output.startswith("  1500\trow 1499")


@pytest.mark.spec("A36", "D10")
@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, KeyError])
def test_a_preview_or_a_validator_that_raises_is_a_failed_call_too(
    lab: Lab, raised: type[BaseException]
) -> None:
    def show() -> Preview:
        raise raised("no preview")

    class Arguments(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def refuse(cls, value: int) -> int:
            raise raised("no value")

    class Refusing(BaseTool):
        name = "refusing"
        args_model = Arguments

        def execute(self, x: int) -> int:
            return x

    @tool(sensitive=True, preview=show)
    def shown() -> str:
        return "ran"

    replies = [{"calls": [call("shown"), call("refusing", x=1)]}, "Ok."]
    run = lab.run(replies, tools=[shown, tool(Refusing())])
    assert run.output == "Ok."
    assert [e.status for e in run.executions] == [ToolStatus.FAILED] * 2


def test_calls_beside_each_other_begin_in_the_order_of_the_model(lab: Lab) -> None:
    """However long their checks take."""

    def check(n: int) -> None:
        time.sleep(0.02 * (5 - n))

    @tool(validate=check, where=Where.THREAD)
    def look(n: int) -> int:
        """Look."""
        return n

    calls = [call("look", n=n) for n in range(5)]
    run = lab.run([{"calls": calls}, "Ok."], tools=[look])
    assert [result.output for result in run.results] == ["0", "1", "2", "3", "4"]
