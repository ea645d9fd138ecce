"""Contexts that record everything that code prints, draws or raises.

Tracebacks are cut to the user's own code.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import linecache
import os
import site
import sys
import sysconfig
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn, Self, TypeVar

from ipyagent.kernel.displays import open_figures, take_figures
from ipyagent.kernel.error_hints import find_hint
from ipyagent.kernel.outputs import PRINTED, Outputs, offer_output, output_so_far
from ipyagent.kernel.streams import Stream
from ipyagent.kernel.threads import without_reminders
from ipyagent.phrases import ellipsize
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import ToolResult
from ipyagent.values.describe.compact import compact_value

T = TypeVar("T")

CODE = "<code>"
"""The name of the code that was run, in tracebacks."""

_FRAMES = 40
_LINES, _LINE, _MESSAGE = 6, 120, 1_000  # of a brief error: lines, and characters
_LONGEST = 100_000
"""Characters of a message that are kept."""
_LIBRARIES = {
    *(sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(),
    site.getusersitepackages(),
    str(Path(__file__).parents[1]),
}


def summary(error: BaseException) -> str:
    """Return the error in one line: `ValueError: bad`."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return f"{kind}: interrupted"
    # Asked through traceback because an error's own __str__ may fail as well.
    report = traceback.TracebackException(type(error), error, None)
    text = str(getattr(report, "msg", report)) if isinstance(error, SyntaxError) else str(report)
    line = " ".join(_shorten(text).split())
    return f"{kind}: {line}" if line else kind


def format_error(error: BaseException, title: Callable[[str], str] = str) -> str:
    """Format the traceback in the user's own files; `title` gives their names.

    The frames of libraries are left out, except for the one that raised the error.
    """
    report = traceback.TracebackException.from_exception(error, compact=True)
    first = next((f.filename for f in report.stack if _own(f.filename)), None)
    _trim(report, lambda name: CODE if first in (name, None) else title(name))
    return "".join(map(_shorten, report.format())).rstrip("\n")


def brief_error(error: BaseException, title: Callable[[str], str] = str) -> str:
    """Return the error as short as a model needs it: the user's lines, the error, and a hint."""
    if isinstance(error, SyntaxError | BaseExceptionGroup):
        return format_error(error, title)
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _own(frame.f_code.co_filename)
    ]
    first = frames[0][0].f_code.co_filename if frames else ""
    shown = frames if len(frames) <= _LINES else [frames[0], *frames[1 - _LINES :]]
    lines = [_format_line(frame, line, first, title) for frame, line in shown]
    hint = find_hint(error, *frames[-1]) if frames else ""
    last = ellipsize(summary(error), _MESSAGE)
    return "\n".join([*lines, f"{last.rstrip('.')}. {hint}" if hint else last, *_cause(error)])


def _shorten(text: str) -> str:
    """Return a text without its middle if it is very long: a message can be any data."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters …\n{text[-half:]}"


def _format_line(frame: types.FrameType, line: int, first: str, title: Callable[[str], str]) -> str:
    name, function = frame.f_code.co_filename, frame.f_code.co_name
    text = ellipsize(linecache.getline(name, line, frame.f_globals).strip(), _LINE)
    place = "" if name == first else f"{title(name)}, "
    inside = "" if function == "<module>" else f" in {function}"
    return f"{place}line {line}{inside}: {text}"


def _cause(error: BaseException) -> list[str]:
    """Return the error that the user's code turned into this one, if it did."""
    cause = error.__cause__
    own = cause is not None and any(
        _own(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(cause.__traceback__)
    )
    return [f"caused by {ellipsize(summary(cause), _MESSAGE)}"] if cause and own else []


def _trim(report: traceback.TracebackException, title: Callable[[str], str]) -> None:
    frames = list(report.stack)
    while frames and not _own(frames[0].filename):
        frames.pop(0)
    kept = [f for i, f in enumerate(frames) if _own(f.filename) or i == len(frames) - 1]
    for frame in kept:
        _ = frame.line  # looked up under the file's real name, before that is replaced
        frame.filename = title(frame.filename)
    kept = kept if len(kept) <= _FRAMES else kept[: _FRAMES // 2] + kept[-_FRAMES // 2 :]
    report.stack = traceback.StackSummary.from_list(kept)
    if isinstance(getattr(report, "filename", None), str):  # a syntax error
        report.filename = title(report.filename)
    for other in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if other is not None:
            _trim(other, title)


def _own(filename: str) -> bool:
    compiled = filename.endswith((".pyx", ".pxd", ".pxi"))  # a library's, by a relative name
    return not compiled and not filename.startswith(("<frozen", *_LIBRARIES))


_running: ContextVar[Recording | None] = ContextVar("running", default=None)


class Recording:
    """A context that records everything that code prints, draws and raises."""

    def __init__(self, outputs: Outputs | None = None) -> None:
        self.outputs = Outputs() if outputs is None else outputs
        self.value: object = None
        self.error: BaseException | None = None
        self._recorded: list[BaseException] = []
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        offer_output(lambda: output_so_far(self.outputs), self.outputs.recent_text)
        self._strangers = weakref.WeakSet(threading.enumerate())
        self._started = weakref.WeakSet[threading.Thread]()
        self._figures = open_figures()
        with contextlib.ExitStack() as stack:
            stack.callback(_running.reset, _running.set(self))
            for owner, name, value in self.patches():
                stack.enter_context(patch_attribute(owner, name, value))
            for descriptor in self.outputs.descriptors.values():
                descriptor.open()
            self._cleanup = stack.pop_all()
        return self

    @without_reminders
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self.outputs.descriptors["stdout"].is_worker:
            self._end_worker(error)
        with self._cleanup:
            if error is not None:
                self.error = error
            for descriptor in self.outputs.descriptors.values():
                descriptor.close()
            for figure in take_figures(self._figures):
                self.outputs.show({"image/png": figure})
        return True

    def patches(self) -> Iterator[tuple[object, str, object]]:
        """Yield the attributes replaced while the code runs: owner, name, value."""
        for channel in PRINTED:
            past = getattr(sys, channel)
            record = functools.partial(self.outputs.write, channel)
            stream = Stream(self.outputs.descriptors[channel], record, past, self.mine)
            yield sys, channel, stream
            if hasattr(past, "__dict__"):  # a log's handler may have kept it
                yield past, "write", functools.partial(stream.write_instead, past.write)

        yield threading.Thread, "start", self._follow(threading.Thread.start)
        yield ThreadPoolExecutor, "submit", self._follow_pool(ThreadPoolExecutor.submit)

    def _follow(self, start: Callable[[threading.Thread], None]) -> Callable[..., None]:
        """Return a way to start a thread that remembers those of the code."""

        @functools.wraps(start)
        def start_thread(thread: threading.Thread) -> None:
            if self.mine():
                self._started.add(thread)
            start(thread)

        return start_thread

    def _follow_pool(self, submit: Callable[..., T]) -> Callable[..., T]:
        """Return a way to submit work of the code's to threads that others may have started."""

        @functools.wraps(submit)
        def submit_work(pool: object, function: object, /, *args: object, **options: object) -> T:
            work = (self._work, function) if self.mine() else (function,)
            return submit(pool, *work, *args, **options)

        return submit_work

    def _work(self, function: Callable[..., T], /, *args: object, **options: object) -> T:
        token = _running.set(self)
        try:
            return function(*args, **options)
        finally:
            _running.reset(token)

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
            trace = format_error(error, self.title)
            kind, _, text = strip_escapes(summary(error)).partition(": ")
            self.outputs.error(kind, text, trace)
            self.outputs.abbreviate(brief_error(error, self.title))

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
            why = strip_escapes(summary(self.error))
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
    from_class = name not in vars(owner) and inspect.isroutine(getattr(type(owner), name, None))
    setattr(owner, name, value)
    try:
        yield
    finally:
        if from_class:
            delattr(owner, name)
        else:
            setattr(owner, name, old)
