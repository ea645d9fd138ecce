"""Shell commands, each in processes of its own; nothing of them stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from ipyagent.schema import Preview, ToolResult
from ipyagent.tools.base import Tool, tool
from ipyagent.tools.reach import read_program
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.sandbox.told import UNBOXED, result_of, seconds


def shell_tools(
    sandbox: Sandbox, *, save: Callable[[str], str], timeout: float, max_timeout: float
) -> list[Tool]:
    """`run_shell`. `save` keeps a long output and returns where."""

    def preview(command: str, timeout: float | None) -> Preview:
        allowed(timeout)
        return Preview(kind="code", language="bash", text=command)

    def allowed(given: float | None) -> float:
        return seconds(given, timeout, max_timeout)

    @tool(
        sensitive=True,
        preview=preview,
        validate=lambda command, timeout: allowed(timeout),
        command="command",
        reach=lambda preview: read_program(preview.text),
        reaches_out=not sandbox.available,
        always_asks=lambda **_: sandbox.why and f"{UNBOXED}: {sandbox.why}",
        source=lambda **_: "the output of a command",
    )
    async def run_shell(
        command: str,
        timeout: Annotated[float | None, Field(gt=0)] = None,  # noqa: ASYNC109
    ) -> ToolResult:
        """Run a command with /bin/sh in the workspace; returns what it printed.

        `timeout` is in seconds. There is no input, and background processes end with the command.
        In the sandbox there is no network, secret files cannot be read, and files that are
        executed or loaded automatically later cannot be changed.
        """
        most = allowed(timeout)
        ran = await sandbox.run(["/bin/sh", "-c", command], limit=most)
        return result_of(ran, most, save)

    return [run_shell]
