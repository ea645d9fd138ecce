"""What a command did, as a result for the model."""

from __future__ import annotations

import signal
from collections.abc import Callable

from ipyagent.errors import AgentError, InvalidArgumentsError
from ipyagent.schema import ToolResult
from ipyagent.tools.names import human_size
from ipyagent.tools.sandbox import Ran, job
from ipyagent.tools.sandbox.job import MAX_PRINTED
from ipyagent.tools.sandbox.keeper import MAX_TASKS
from ipyagent.tools.sandbox.output import KEPT, Output

UNBOXED = "not sandboxed"

_WHOLE = 1_000_000  # bytes that are given as they are; what cuts results saves them as well
_EXCERPT = 12_000  # characters, in as many lines, of the beginning and of the end of more than that
_LINES = 400


def seconds(timeout: float | None, default: float, most: float) -> float:
    """How long a call may take; raises InvalidArgumentsError for longer than that."""
    if timeout is not None and timeout > most:
        raise InvalidArgumentsError(f"timeout is {timeout:g} s; at most {most:g} s are allowed")
    return min(default, most) if timeout is None else timeout


def result_of(ran: Ran, timeout: float, save: Callable[[str], str]) -> ToolResult:
    """The result of a command that had `timeout` seconds; `save` keeps a long text."""
    label = "" if ran.boxed else f"({UNBOXED})"
    problem = _problem(ran, timeout)
    printed = _printed(ran.ended.output, save)
    notes = [f"({note})" for note in ran.notes]
    parts = (label, printed or "(no output)", *notes, problem)
    output = "\n".join(part.removesuffix("\n") for part in parts if part)
    return ToolResult(success=not problem, output=output, error=problem or None)


def _problem(ran: Ran, timeout: float) -> str:
    """Why it is no success; empty if it is one."""
    if ran.ended.code is None:
        return "its end was not seen; some of it may still be at work"
    match ran.ended.why:
        case "time":
            return f"ended after {timeout:g} s, its time limit; name a longer timeout, or do less"
        case "tasks":
            return f"ended because it had more than {MAX_TASKS:,} processes and threads"
        case "memory":
            return (
                f"ended because it used more than {human_size(job.MAX_MEMORY)} of memory, all its "
                "processes together; work in parts, or start fewer processes"
            )
        case "printed":
            return f"ended because it printed more than {human_size(MAX_PRINTED)}"
    code = ran.ended.code
    if code < 0:
        return f"ended by {_signal(-code)}"
    # A shell and bubblewrap say so that what they ran was ended by a signal.
    by_signal = f", as after {_signal(code - 128)}" if code > 128 and _signal(code - 128) else ""
    return f"exit code {code}{by_signal}" if code else ""


def _signal(number: int) -> str:
    """A signal's name and what it may mean; empty if it is none."""
    if number not in set(signal.Signals):
        return ""
    memory = " (there may not be enough memory)" if number == signal.SIGKILL else ""
    return signal.Signals(number).name + memory


def _printed(output: Output, save: Callable[[str], str]) -> str:
    """All of it, or what it begins and ends with and where more is."""
    if output.size <= _WHOLE:
        return output.beginning() + output.end()
    kept = output.beginning()
    try:
        part = f"the first {human_size(KEPT)}" if output.size > KEPT else "all"
        where = f"read_file {save(kept)} has {part} of it"
    except (AgentError, OSError):
        where = "it could not be saved"
    head = "\n".join(kept[:_EXCERPT].split("\n")[:_LINES])
    tail = "\n".join((kept[-_EXCERPT:] + output.end())[-_EXCERPT:].split("\n")[-_LINES:])
    return f"({human_size(output.size)} of output; {where})\n{head}\n…\n{tail}"
