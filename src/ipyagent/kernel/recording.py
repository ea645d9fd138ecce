"""Contexts that record everything that code prints, draws or raises."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NoReturn, Self

from ipyagent.kernel import tracebacks
from ipyagent.kernel.describe.compact import compact_value
from ipyagent.kernel.images import open_figures, take_figures
from ipyagent.kernel.main_thread import without_reminders
from ipyagent.kernel.outputs import PRINTED, Outputs, Stream, offer_output, output_so_far
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import ToolResult

_running: ContextVar[Recording | None] = ContextVar("running", default=None)


class Recording:
    """A context that records everything that code prints, draws and raises."""

    def __init__(self, outputs: Outputs | None = None) -> None:
        self.outputs = Outputs() if outputs is None else outputs
        self.value: Any = None
        self.error: BaseException | None = None
        self._recorded: list[BaseException] = []
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        offer_output(lambda: output_so_far(self.outputs))
        self._strangers = weakref.WeakSet(threading.enumerate())
        self._started = weakref.WeakSet[threading.Thread]()
        self._figures = open_figures()
        with contextlib.ExitStack() as stack:
            stack.callback(_running.reset, _running.set(self))
            for owner, name, value in self.patches():
                stack.enter_context(patch_attribute(owner, name, value))
            self._cleanup = stack.pop_all()
        return self

    @without_reminders
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self.outputs.workers["stdout"].is_worker:
            self._end_worker(error)
        with self._cleanup:
            if error is not None:
                self.error = error
            self.outputs.read_workers()
            for worker in self.outputs.workers.values():
                worker.close()
            for figure in take_figures(self._figures):
                self.outputs.show({"image/png": figure})
        return True

    def patches(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield the attributes replaced while the code runs: owner, name, value."""
        for channel in PRINTED:
            past = getattr(sys, channel)
            yield sys, channel, Stream(self.outputs, channel, past, self.mine)

        yield threading.Thread, "start", self._follow(threading.Thread.start)

    def _follow(self, start: Callable[[threading.Thread], None]) -> Callable[..., None]:
        """Return a way to start a thread that remembers those of the code."""

        @functools.wraps(start)
        def start_thread(thread: threading.Thread) -> None:
            if self.mine():
                self._started.add(thread)
            start(thread)

        return start_thread

    def _end_worker(self, error: BaseException | None) -> NoReturn:
        """End a forked process that leaves the code: the kernel is its parent's."""
        for channel in PRINTED:
            getattr(sys, channel).flush()
        os._exit(int((error or self.error) is not None))

    def mine(self) -> bool:
        """Return whether this thread works for the code: in its context, or started by it.

        While the code awaits, other work goes on in this process (cards are redrawn, clicks are
        answered), and its output is not the code's.
        """
        if _running.get() is self:
            return True
        thread = threading.current_thread()
        if isinstance(thread, threading._DummyThread):  # started without the class Thread
            return thread not in self._strangers
        return thread in self._started

    def title(self, filename: str) -> str:
        """Return a file's name for tracebacks."""
        return filename

    def show_error(self, error: BaseException) -> None:
        """Record a traceback, once; awaiting code that was stopped raised no error of its own."""
        if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
            return
        if not any(error is recorded for recorded in self._recorded):
            self._recorded.append(error)
            trace = tracebacks.format_error(error, self.title)
            kind, _, text = strip_escapes(tracebacks.summary(error)).partition(": ")
            self.outputs.error(kind, text, trace)
            self.outputs.abbreviate(tracebacks.brief_error(error, self.title))

    def abbreviate_value(self, plain: object) -> None:
        """Give the model the last value in a form of its own, if that serves it better."""
        with contextlib.suppress(Exception):  # a library's object can be broken
            brief = compact_value(self.value, plain) if isinstance(plain, str) else None
            if brief is not None:
                self.outputs.abbreviate(strip_escapes(brief))

    def result(self) -> ToolResult:
        """Return the outcome of the code."""
        why = None
        if self.error is not None:
            self.show_error(self.error)
            why = strip_escapes(tracebacks.summary(self.error))
        return ToolResult(
            success=why is None,
            output=self.outputs.text(),
            for_model=self.outputs.text_for_model(),
            error=why,
            value=self.value,
            images=self.outputs.images,
            displays=self.outputs.displays,
            frames=self.outputs.frames,
        )


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return False
    return task is not None and task.cancelling() > 0


@contextlib.contextmanager
def patch_attribute(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute within the context."""
    old = getattr(owner, name)
    from_class = name not in vars(owner) and inspect.isfunction(getattr(type(owner), name, None))
    setattr(owner, name, value)
    try:
        yield
    finally:
        if from_class:
            delattr(owner, name)
        else:
            setattr(owner, name, old)
