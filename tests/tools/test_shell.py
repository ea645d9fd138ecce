"""Shell commands as the model gives them and reads of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from boxes import CANARY, needs_bubblewrap

from harness import YES, Clock, Lab, call
from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.schema import ToolResult, ToolStatus
from ipyagent.tools import sandbox as processes
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.result_conversion import OutputStore
from ipyagent.tools.sandbox import Sandbox, bubblewrap
from ipyagent.tools.scripts import shell_tools
from ipyagent.tools.workspace import Workspace
from patience import until

pytestmark = pytest.mark.spec("M27")


def shell_of(workspace: Workspace, **limits: float) -> Tool:
    """`run_shell` for a workspace."""
    given: dict[str, float] = {"timeout": 120.0, "max_timeout": 600.0, **limits}
    (tool,) = shell_tools(Sandbox(workspace), save=OutputStore(workspace).save, **given)
    return tool


async def run(tool: Tool, command: str, **more: Any) -> ToolResult:
    result = await tool(**tool.check_arguments({"command": command, **more}))
    assert isinstance(result, ToolResult)
    return result


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without bubblewrap."""
    why = "bubblewrap is not installed (package bubblewrap)"
    monkeypatch.setattr(
        bubblewrap, "detect_sandbox", lambda: bubblewrap.SandboxSupport(problem=why)
    )


@pytest.fixture
def shell(tmp_path: Path) -> Tool:
    return shell_of(Workspace(tmp_path))


@needs_bubblewrap
async def test_a_command_runs_in_the_workspace_without_a_way_out(shell: Tool, tmp_path: Path):
    (tmp_path / ".env").write_text(CANARY)
    result = await run(shell, "pwd; echo made > made.txt; cat .env")
    assert result.error == "exit code 1"
    assert result.output == f"{tmp_path}\ncat: .env: Permission denied\nexit code 1"
    assert (tmp_path / "made.txt").read_text() == "made\n"
    assert (shell.sensitive, shell.where, shell.command) == (True, Where.LOOP, "command")
    assert not shell.can_reach_out()
    assert shell.always_asks(command="x", timeout=None) is None


async def test_without_a_sandbox_it_is_labelled_and_asked_about_each_time(
    bare: None, tmp_path: Path
):
    shell = shell_of(Workspace(tmp_path))
    assert shell.can_reach_out()
    why = "not sandboxed: bubblewrap is not installed (package bubblewrap)"
    assert shell.always_asks(command="x", timeout=None) == why
    assert (await run(shell, "echo hi")).output == "(not sandboxed)\nhi"
    assert (await run(shell, "exit 3")).output == "(not sandboxed)\n(no output)\nexit code 3"


@pytest.mark.parametrize("mode", ["yolo", "confirm-sensitive"])
def test_unsandboxed_commands_are_asked_about_in_every_mode(bare: None, lab: Lab, mode: str):
    tools = [shell_of(lab.environment.workspace)]
    calls = [call("run_shell", command="echo hi"), call("run_shell", command="echo hi")]
    ran = lab.run([{"calls": calls}, "Ok."], tools=tools, answer=YES, confirm_mode=mode)
    assert len(lab.watcher.asked) == 2
    assert [each.output for each in ran.results] == ["(not sandboxed)\nhi"] * 2
    ran = lab.run([{"calls": calls[:1]}, "Ok."], tools=tools, confirm_mode=mode)
    assert ran.executions[-1].status is ToolStatus.DENIED, "nobody is there"


@needs_bubblewrap
def test_sandboxed_commands_are_asked_about_like_other_sensitive_calls(lab: Lab):
    tools = [shell_of(lab.environment.workspace)]
    replies = [{"calls": [call("run_shell", command="echo hi")]}, "Ok."]
    lab.run(replies, tools=tools, answer=YES)
    assert len(lab.watcher.asked) == 1
    ran = lab.run(replies, tools=tools, confirm_mode="yolo")
    assert (lab.watcher.asked, ran.results[0].output) == ([], "hi")


async def test_the_card_shows_the_command_and_the_session_knows_whose_words_follow(shell: Tool):
    command = "echo 1 &&\n  rm -rf x # all of it\n" * 50
    shown = shell.preview(**shell.check_arguments({"command": command}))
    assert (shown.kind, shown.language, shown.text) == ("code", "bash", command)
    assert shell.source(command=command, timeout=None) == "the output of a command"


async def test_time_is_what_the_call_says_within_limits(tmp_path: Path, own_clock: Clock):
    shell = shell_of(Workspace(tmp_path), timeout=500, max_timeout=2_000)
    mark = tmp_path / "begun"

    async def run_for(seconds: float, command: str, **more: Any) -> ToolResult:
        mark.unlink(missing_ok=True)
        ran = asyncio.create_task(run(shell, command, **more))
        await until(mark.exists)
        own_clock.advance(seconds)
        return await ran

    result = await run_for(501, "echo begun; echo 1 > begun; sleep 60")
    assert "begun" in result.output
    said = "ended after 500 s, its time limit; name a longer timeout, or do less"
    assert result.error == said
    assert (await run_for(501, "echo 1 > begun; sleep 0.1", timeout=1_900)).success
    assert shell.preview is not None
    for refuse in (shell.preview, shell):
        with pytest.raises(InvalidArgumentsError, match=r"timeout is 3000 s; at most 2000 s"):
            await refuse(**shell.check_arguments({"command": "true", "timeout": 3_000}))
    for wrong in (0, -1, "soon", float("nan")):
        with pytest.raises(InvalidArgumentsError):
            shell.check_arguments({"command": "true", "timeout": wrong})
    shell = shell_of(Workspace(tmp_path), timeout=500, max_timeout=200)
    result = await run_for(201, "echo 1 > begun; sleep 60")
    assert (result.error or "").startswith("ended after 200 s")


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("exit 3", "exit code 3"),
        ("exit 250", "exit code 250"),
        ("no-such-program", "exit code 127"),
        ("sh -c 'kill -9 $$'", "exit code 137, as after SIGKILL (there may not be enough memory)"),
    ],
)
async def test_a_failure_says_how_it_ended(shell: Tool, command: str, error: str):
    result = await run(shell, f"echo out; echo err >&2; {command}")
    assert (result.success, result.error) == (False, error)
    assert "out\nerr\n" in result.output
    assert result.output.endswith(error)


async def test_silence_is_told_and_is_no_failure(shell: Tool):
    result = await run(shell, "true")
    assert result.success
    assert result.output.endswith("(no output)")


async def test_a_command_that_is_none_is_refused(shell: Tool):
    with pytest.raises(AgentError, match=r"U\+0000 at"):
        await run(shell, "a\0b")


@pytest.mark.parametrize(("count", "part"), [(1_000_000, "all"), (4_000_000, "the first 8.0 MB")])
async def test_very_long_output_is_an_excerpt_of_a_file(
    shell: Tool, tmp_path: Path, count: int, part: str
):
    result = await run(shell, f"seq {count}")
    assert len(result.output) < 30_000
    assert len(result.output.splitlines()) < 1_000
    assert result.output.endswith(f"{count - 1}\n{count}")
    first = next(line for line in result.output.splitlines() if "of output" in line)
    path = first.split("read_file ")[1].split(" ")[0]
    assert first.endswith(f"has {part} of it)")
    saved = (tmp_path / path).read_text().splitlines()
    assert saved[:3] == ["1", "2", "3"]
    assert len(saved) == min(count, len(saved))
    assert len("\n".join(saved)) > 6_800_000


async def test_endless_output_says_why_it_was_ended(shell: Tool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "MAX_PRINTED", 5_000_000)
    result = await run(shell, "yes")
    assert result.error.startswith("ended because it printed more than")


async def test_too_many_processes_are_told(shell: Tool):
    result = await run(shell, "for n in $(seq 1500); do sleep 30 & done; wait")
    assert result.error == "ended because it had more than 1,024 processes and threads"


@needs_bubblewrap
async def test_what_was_set_aside_is_told(shell: Tool, tmp_path: Path):
    result = await run(shell, "git init -q . 2>&1; mkdir -p .git/hooks; echo ok")
    assert result.success
    assert not (tmp_path / ".git").exists()
    assert "(.git, made while it ran, was set aside to .ipyagent/set_aside/" in result.output
