"""Shell commands in processes of their own; none of them is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from ipyagent.schema import Preview, ToolResult
from ipyagent.tools.base import Tool, tool
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.sandbox.command_result import UNSANDBOXED, build_result, resolve_timeout
from ipyagent.tools.static_analysis import analyze_command


def shell_tools(
    sandbox: Sandbox, *, save: Callable[[str], str], timeout: float, max_timeout: float
) -> list[Tool]:
    """Return `run_shell`. `save` saves a long output and returns its path."""

    def preview_command(command: str, timeout: float | None) -> Preview:
        time_limit(timeout)
        return Preview(kind="code", language="bash", text=command)

    def time_limit(given: float | None) -> float:
        return resolve_timeout(given, timeout, max_timeout)

    @tool(
        sensitive=True,
        preview=preview_command,
        validate=lambda command, timeout: time_limit(timeout),
        command="command",
        effects=lambda preview: analyze_command(preview.text),
        reaches_out=lambda: not sandbox.available,
        always_asks=lambda **_: (
            sandbox.unavailable_reason and f"{UNSANDBOXED}: {sandbox.unavailable_reason}"
        ),
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
        most = time_limit(timeout)
        ran = await sandbox.run(["/bin/sh", "-c", command], seconds=most)
        return build_result(ran, most, save)

    return [run_shell]
