"""Code tried twice: in a plain fork, as a naive rehearsal would, and in a real one."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from harness import Lab, call
from ipyagent.kernel.namespace import Namespace
from ipyagent.rehearsal.confinement import Limits, Method
from ipyagent.rehearsal.on_copy import start_rehearsal
from ipyagent.schema import Run
from ipyagent.tools.rehearsal import build_confinement
from ipyagent.tools.rehearsed import Rehearsed
from ipyagent.tools.reports import judge_report
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE

SECONDS = 20.0
"""The time that a busy machine may take."""
ON = {"look_freely": True, "rehearse_seconds": SECONDS}
LIMITS = Limits(seconds=SECONDS, setup=PATIENCE)
WAYS = get_args(Method)


@dataclass
class Chosen:
    """The way in which the tests isolate, one after the other."""

    way: Method = "namespaces"


def steps(*codes: str) -> list[Any]:
    """Return the replies of a model that runs some code, one call after the other."""
    return [*({"calls": [call("run_python", code=code)]} for code in codes), "Done."]


def play(lab: Lab, *codes: str, **more: Any) -> Run:
    """Let the model run some code where looks are free."""
    run: Run = lab.run(steps(*codes), **{**ON, **more})
    return run


chosen = Chosen()
in_both_ways = pytest.mark.parametrize("isolation_way", WAYS, indirect=True)


def run_in_fork(code: str, variables: dict[str, Any], seconds: float = 5.0) -> str:
    """Run code in a plain fork of this process; return its output or error."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.setsid()
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                try:
                    exec(code, dict(variables))
                except BaseException as error:
                    print(type(error).__name__, error)
            os.write(writing, out.getvalue().encode(errors="replace")[:60_000])
        finally:
            os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], seconds)
        return os.read(reading, 60_000).decode() if ready else "(hangs)"
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def rehearse(
    code: str, variables: dict[str, Any], root: Path, limits: Limits = LIMITS
) -> dict[str, Any]:
    """Rehearse code; return the report, or why there is none as `problem`."""
    report, _ = _try(code, variables, root, limits)
    return report


def judge(code: str, variables: dict[str, Any], root: Path, **more: Any) -> Rehearsed:
    """Rehearse code; return what that means."""
    report, buffers = _try(code, variables, root, LIMITS)
    sees = build_confinement(root, chosen.way).sees
    return judge_report(report, buffers, Workspace(root), code, variables, sees=sees, **more)


def _try(
    code: str, variables: dict[str, Any], root: Path, limits: Limits
) -> tuple[dict[str, Any], list[memoryview]]:
    confinement = build_confinement(root, chosen.way)
    rehearsing = start_rehearsal(Namespace(variables), [code], confinement, limits)
    reports, problem = rehearsing.finish()
    nothing = {"problem": problem, "result": {"output": ""}, "attempts": []}
    return reports[0] if reports else (nothing, [])


@contextlib.contextmanager
def counted_signals(number: int = signal.SIGUSR1) -> Iterator[list[int]]:
    """Count the signals that this process gets."""
    came: list[int] = []
    before = signal.signal(number, lambda *_: came.append(1))
    try:
        yield came
    finally:
        signal.signal(number, before)


def children() -> list[str]:
    """The processes that this one has, zombies too, but for the tracker of shared memory."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            program = (each / "cmdline").read_text()
            if int(parent) == os.getpid() and "resource_tracker" not in program:
                found.append(each.name)
    return found
