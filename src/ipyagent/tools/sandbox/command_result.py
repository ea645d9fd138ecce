"""The outcome of a command as a result for the model."""

from __future__ import annotations

import signal
from collections.abc import Callable

from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.schema import ToolResult
from ipyagent.tools.path_rules import human_size
from ipyagent.tools.sandbox import SandboxResult, process
from ipyagent.tools.sandbox.process import MAX_HEAD, MAX_PRINTED, BoundedOutput
from ipyagent.tools.sandbox.supervisor import MAX_TASKS

UNSANDBOXED = "not sandboxed"

_MAX_WHOLE = 1_000_000  # bytes that are given as they are; what cuts results saves them as well
_EXCERPT_CHARS = (
    12_000  # characters, in as many lines, of the beginning and of the end of more than that
)
_EXCERPT_LINES = 400


def resolve_timeout(timeout: float | None, default: float, most: float) -> float:
    """Return the time limit of a call; raises InvalidArgumentsError if it is too long."""
    if timeout is not None and timeout > most:
        raise InvalidArgumentsError(f"timeout is {timeout:g} s; at most {most:g} s are allowed")
    return min(default, most) if timeout is None else timeout


def build_result(ran: SandboxResult, timeout: float, save: Callable[[str], str]) -> ToolResult:
    """Return the result of a command that had `timeout` seconds; `save` saves a long text."""
    label = "" if ran.sandboxed else f"({UNSANDBOXED})"
    problem = _describe_failure(ran, timeout)
    printed = _format_printed(ran.outcome.output, save)
    notes = [f"({note})" for note in ran.notes]
    parts = (label, printed or "(no output)", *notes, problem)
    output = "\n".join(part.removesuffix("\n") for part in parts if part)
    return ToolResult(success=not problem, output=output, error=problem or None)


def _describe_failure(ran: SandboxResult, timeout: float) -> str:
    """Return why it failed; empty if it succeeded."""
    if ran.outcome.code is None:
        return "its exit status is unknown; processes may still be running"
    match ran.outcome.stop_reason:
        case "time":
            return f"ended after {timeout:g} s, its time limit; name a longer timeout, or do less"
        case "tasks":
            return f"ended because it had more than {MAX_TASKS:,} processes and threads"
        case "memory":
            return (
                f"ended because it used more than {human_size(process.MAX_MEMORY)} of memory, "
                "all its processes together; work in parts, or start fewer processes"
            )
        case "printed":
            return f"ended because it printed more than {human_size(MAX_PRINTED)}"
    code = ran.outcome.code
    if code < 0:
        return f"ended by {_describe_signal(-code)}"
    # A shell and bubblewrap report so that their command was ended by a signal.
    by_signal = (
        f", as after {_describe_signal(code - 128)}"
        if code > 128 and _describe_signal(code - 128)
        else ""
    )
    return f"exit code {code}{by_signal}" if code else ""


def _describe_signal(number: int) -> str:
    """Return a signal's name and likely cause; empty if it is no signal."""
    if number not in set(signal.Signals):
        return ""
    memory = " (there may not be enough memory)" if number == signal.SIGKILL else ""
    return signal.Signals(number).name + memory


def _format_printed(output: BoundedOutput, save: Callable[[str], str]) -> str:
    """Return all of the output, or its beginning and end and where the rest is."""
    if output.size <= _MAX_WHOLE:
        return output.head() + output.tail()
    kept = output.head()
    try:
        part = f"the first {human_size(MAX_HEAD)}" if output.size > MAX_HEAD else "all"
        where = f"read_file {save(kept)} has {part} of it"
    except (AgentError, OSError):
        where = "it could not be saved"
    head = "\n".join(kept[:_EXCERPT_CHARS].split("\n")[:_EXCERPT_LINES])
    tail = "\n".join(
        (kept[-_EXCERPT_CHARS:] + output.tail())[-_EXCERPT_CHARS:].split("\n")[-_EXCERPT_LINES:]
    )
    return f"({human_size(output.size)} of output; {where})\n{head}\n…\n{tail}"
