"""The context of tool calls, the same for all calls of a run, and the task of one call.

A tool runs on the thread that it needs, and has an outcome also if it is abandoned. The last lines
of its output are read from outside, a few times a second: code that prints waits for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.policy import CallPolicy
from ipyagent.json_types import JsonDict
from ipyagent.kernel.outputs import RECENT, PartialOutput, Recent
from ipyagent.kernel.threads import MainThread, Post, logs_of
from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Redactor
from ipyagent.schema import (
    STANDARD,
    Rehearsal,
    Run,
    ToolExecution,
    ToolResult,
    ToolStatus,
)
from ipyagent.schema.results import SO_FAR
from ipyagent.tools.base import Tool, Toolbox, Where
from ipyagent.tools.rehearsed import RehearsalContext
from ipyagent.tools.result_conversion import as_result, error_result, truncate_result

PATIENCE = 1.5
"""Seconds after which the user is told that code keeps running despite an interrupt."""

INTERRUPTED = "(The user interrupted this while it ran; it finished all the same.)"


Watch = Callable[[object], Callable[[ToolResult], ToolResult]]
"""Takes a function that is about to run; returns what adds to its result the changed variables."""


@dataclass
class ToolTask:
    """One tool with its checked arguments. `post` runs a job on the main thread."""

    tool: Tool
    arguments: JsonDict
    post: Post
    pool: Executor
    watch: Watch | None = None
    _partial: PartialOutput = field(default_factory=PartialOutput, init=False)
    _future: Future[ToolResult | Awaitable[ToolResult]] | None = field(default=None, init=False)
    _start_time: float | None = field(default=None, init=False)

    async def run(self) -> ToolResult:
        """Run the tool; an exception becomes its failed result."""
        match self.tool.where:
            case Where.MAIN:
                self._future = self.post(self._call_function)
            case Where.THREAD:
                self._future = self.pool.submit(self._call_function)
            case Where.LOOP | Where.RELAY:
                with logs_of(self.tool.function):
                    return await _await_result(self._call_function())
        try:
            return await _await_result(await asyncio.wrap_future(self._future))
        except RuntimeError as error:  # the main thread cannot await here
            return error_result(error)

    async def end(self, announce: Callable[[], object]) -> None:
        """Wait until an interrupt has ended what runs on the main thread, if anything does.

        `announce` is called if that takes long: code can ignore interrupts. Another thread gets a
        moment, since what it has done by then can be taken back.
        """
        job = self._partial.job or self._future
        if job is None or job.done():
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE)
        except TimeoutError:
            if self.tool.where is not Where.THREAD:
                announce()
                await ended.wait()

    def recent_text(self) -> str | None:
        """Return the end of what it has put out; None if that is as it was last time."""
        return self._partial.recent()

    def outcome_if_abandoned(self, *, interrupted: bool) -> tuple[ToolStatus, ToolResult]:
        """Return the status and partial result of a tool that nobody waits for any longer.

        `interrupted`: the user stopped the run, which interrupts the main thread too.
        """
        result = self._late_result()
        on_main = self.tool.where in (Where.MAIN, Where.RELAY)
        if result is not None and result.success:
            note = INTERRUPTED if interrupted and on_main else ""
            return ToolStatus.SUCCESS, result.with_note(note) if note else result
        if self._start_time is None:
            return ToolStatus.CANCELLED, ToolResult.failure("cancelled before it had begun")
        if self.tool.where is Where.LOOP or (interrupted and on_main):
            seconds = f"{max(0.0, time.monotonic() - self._start_time):.0f} s"
            who = "by the user" if interrupted else "because its time was up,"
            note = f"stopped {who} after {seconds}; part of it may have been done"
            return ToolStatus.CANCELLED, self._partial_failure(note, result)
        note = (
            f"unknown outcome: {self.tool.name} was still running when the run stopped "
            "waiting for it, and may continue"
        )
        return ToolStatus.UNKNOWN, self._partial_failure(note, result, "Look before you repeat it.")

    def _partial_failure(
        self, note: str, result: ToolResult | None, advice: str = ""
    ) -> ToolResult:
        """Return its output so far, and why there is no more."""
        partial = result or self._partial.result()
        output = f"{note}{SO_FAR}{partial.output}" if partial.output.strip() else f"{note}."
        return ToolResult(
            success=False,
            error=note,
            output=output,
            advice=advice,
            images=partial.images,
            displays=partial.displays,
            frames=partial.frames,
            variables=partial.variables,
            lasting=partial.lasting,
            undo=partial.undo,
        )

    def _call_function(self) -> ToolResult | Awaitable[ToolResult]:
        """Call the function; any exception, even SystemExit, becomes its failed result."""
        self._start_time = time.monotonic()
        add_changes = None
        try:
            if self.watch and self.tool.where is Where.MAIN and not self.tool.is_built_in:
                add_changes = self.watch(self.tool.function)
            with self._partial.collect():
                value = self.tool.function(**self.arguments)
            if inspect.isawaitable(value):
                return self._await_safely(value, add_changes)
            result = as_result(value)
        except BaseException as error:
            result = error_result(error)
        return add_changes(result) if add_changes else result

    async def _await_safely(
        self, value: Awaitable[object], add_changes: Callable[[ToolResult], ToolResult] | None
    ) -> ToolResult:
        try:
            with self._partial.collect():
                result = as_result(await value)
        except BaseException as error:
            if is_run_cancellation(error):
                raise
            result = error_result(error)
        return add_changes(result) if add_changes else result

    def _late_result(self) -> ToolResult | None:
        """Return a result that came too late to be waited for."""
        future = self._future
        if future is None or not future.done() or future.cancelled() or future.exception():
            return None
        result = future.result()
        return result if isinstance(result, ToolResult) else None


async def _await_result(result: ToolResult | Awaitable[ToolResult]) -> ToolResult:
    return result if isinstance(result, ToolResult) else await result


def is_run_cancellation(error: BaseException) -> bool:
    """Return whether the run is being cancelled; a tool's own CancelledError is its failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


DRY_RUN = "Dry run: not executed."


class Asker(Protocol):
    """Puts questions to the user; one with `asks_together` shows several of them at once."""

    async def ask(self, approval: Approval) -> None:
        """Get an answer to `approval`; raises NoFrontendError if there is nobody to ask."""


@dataclass(frozen=True)
class ToolContext:
    """Everything that the calls of a run share."""

    toolbox: Toolbox
    policy: CallPolicy
    approvals: Approvals
    asker: Asker
    stream: EventStream
    main: MainThread
    """Runs work that needs the notebook's main thread."""
    threads: Executor
    """Runs blocking tools that may run on any thread."""
    save_output: Callable[[str], str] | None = None
    """Saves an output that is too long for the model; returns the file's path."""
    dry_run: str | None = None
    """The result of every call when calls are only checked."""
    rehearsal: RehearsalContext | None = None
    """The parts of the run that a rehearsal needs; None: code is not tried on a copy."""
    max_chars: int | None = None
    """Characters of a result at most, if the model's context is short."""
    watch: Watch | None = None
    """Watches the variables while a tool of the user's runs on the main thread."""
    sign: Callable[[Run, ToolExecution], str] = lambda run, execution: ""
    """Returns the signature of a call that the user approved."""
    recorded: Mapping[str, ToolExecution] = field(default_factory=dict)
    """The results of calls that a replay does not repeat, by the ids of the calls."""
    edit_seconds: float = 300.0
    """Seconds from an approval until its call must have begun."""
    planning: bool = False
    """True if calls are steps of a plan, so that one may depend on what another will have made."""

    def prepare_rehearsal(self, tool: str, rehearsal: Rehearsal) -> Rehearsal:
        """Return a rehearsal as the user is shown it: without secrets, its output cut."""
        if rehearsal.result is not None:
            result = self.prepare_result(tool, rehearsal.result)
            rehearsal = rehearsal.model_copy(update={"result": result})
        return self.stream.redactor.record(rehearsal)

    def prepare_result(self, tool: str, result: ToolResult) -> ToolResult:
        """Return the result without secrets, cut to the size that a model should read at once."""
        limits = self.toolbox.get(tool).truncate if tool in self.toolbox else STANDARD
        if self.max_chars is not None and self.max_chars < limits.max_chars:
            limits = limits.model_copy(update={"max_chars": self.max_chars})
        clean = self.stream.redactor.record(result)
        return truncate_result(clean, tool=tool, save=self.save_output, limits=limits)


LINES, CHARS = 10, 2_000
"""The most that is told at once."""
INTERVAL = 0.1
"""Seconds between two looks."""
_SHARE = 20
"""How many times as long as a look the pause after it is, at least."""
_CONTEXT = 8_000
"""Characters before the last lines that are searched for the beginning of a secret."""


async def tell_output(
    recent: Recent, redactor: Redactor, tell: Callable[[str], object]
) -> NoReturn:
    """Tell the last lines each time they have changed, until cancelled."""
    told, pause = "", INTERVAL
    while True:
        await asyncio.sleep(pause)
        begun = time.monotonic()
        # Variables in which secrets are looked for may change meanwhile: next time, then.
        with contextlib.suppress(Exception):
            text = recent()
            if text is not None and (lines := last_lines(text, redactor)) != told:
                told = lines
                tell(lines)
        pause = max(INTERVAL, _SHARE * (time.monotonic() - begun))


def last_lines(text: str, redactor: Redactor) -> str:
    """Return the last lines of raw text as a terminal shows them, without any part of a secret."""
    raw, text = text, strip_escapes(text)
    body = text.rstrip("\n")
    start = len(body) - len("\n".join(body.split("\n")[-LINES:])[-CHARS:])
    if len(raw) >= RECENT and start < _CONTEXT:
        # What a progress bar has overwritten takes the room, and the text before it is cut.
        text = strip_escapes(raw.rstrip("\n").rpartition("\n")[2].partition("\r")[2])
        start = max(0, len(text) - CHARS)
    stream = redactor.stream()
    stream.add(text[max(0, start - _CONTEXT) : start])
    return (stream.add(text[start:]) + stream.pause()).rstrip("\n")
