"""Threads of a kernel: the engine's, with one event loop, and jobs for the main thread.

The loop lives as long as the kernel, and keeps the connection to the model open between cells. Each
run is a task in a copy of the cell's context, so that its displays land in that cell. That context
also keeps the logs of our own work out of the user's log, unless they asked for them: libraries
that the user's code uses too write these logs.

The user's variables, figures and connections belong to the main thread, and `input()` works only
there. During a run, the thread that waits for it serves these jobs. Of all runs of a process one
job is on at a time, also while it awaits; only a run that a job has started comes before it ends.
An interrupt does not end its own functions halfway.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, InvalidStateError
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, ClassVar, Generic, Self, TypeVar

_PACKAGES = {
    *("aiohttp", "anyio", "asyncio", "client", "httpcore", "httpcore2", "httpx", "httpx2"),
    *("markdown_it", "mcp", "openai", "opentelemetry", "PIL", "requests", "sse_starlette"),
    *("traitlets", "urllib3"),
}

_EARLY = [
    *("asyncio", "httpx", "httpx2", "openai._base_client", "PIL.Image", "PIL.PngImagePlugin"),
    *(
        f"{package}.{part}"
        for package in ("httpcore", "httpcore2")
        for part in ("connection", "http11", "http2", "proxy", "socks")
    ),
]
"""Loggers that libraries make while they already work for us."""

_ours: ContextVar[bool] = ContextVar("ipyagent_works", default=False)
_known = 0


def own_context() -> Context:
    """Return a copy of this context for work of our own."""
    _add_filters()
    context = copy_context()
    context.run(_ours.set, True)
    return context


@contextlib.contextmanager
def logs_of(function: object) -> Iterator[None]:
    """Let what a tool's function does be logged as the user set it, unless the tool is ours."""
    module = getattr(function, "__module__", None) or ""
    token = _ours.set(_ours.get() and module.partition(".")[0] == "ipyagent")
    try:
        yield
    finally:
        _ours.reset(token)


def _add_filters() -> None:
    """Add the filter to the loggers of all libraries that our requests use, each once."""
    global _known
    loggers = logging.root.manager.loggerDict
    if len(loggers) == _known:
        return
    for name in [*_EARLY, *loggers]:
        if name.partition(".")[0] in _PACKAGES:
            logging.getLogger(name).addFilter(is_wanted)
    _known = len(loggers)


def is_wanted(record: logging.LogRecord) -> bool:
    """Return whether the user wants to see a record: the filter of the libraries' loggers."""
    return not _ours.get() or record.levelno >= logging.WARNING or _is_asked_for(record.name)


def _is_asked_for(name: str) -> bool:
    """Return whether the user has set a level or a handler for this library."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger is not logging.root:
        if logger.level or any(type(each) is not logging.NullHandler for each in logger.handlers):
            return True
        logger = logger.parent
    return False


T = TypeVar("T")


class LoopThread:
    """A daemon thread with an event loop; a process has one of each subclass at a time."""

    thread_name: ClassVar[str]

    _current: ClassVar[LoopThread | None] = None
    _lock: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self.loop, self.process = own_context().run(asyncio.new_event_loop), os.getpid()
        self.thread = threading.Thread(target=self._serve, name=self.thread_name, daemon=True)
        self.thread.start()

    @classmethod
    def current(cls) -> Self:
        """Return this class's thread, started when first needed; a forked process gets its own."""
        with cls._lock:
            instance = cls._current
            is_here = instance is not None and instance.process == os.getpid()
            if not is_here or not isinstance(instance, cls) or not instance.thread.is_alive():
                instance = cls()
                cls._current = instance
            return instance

    def submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Start a coroutine in the loop, from any thread."""
        return own_context().run(asyncio.run_coroutine_threadsafe, work, self.loop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class EngineThread(LoopThread):
    """The thread of all runs."""

    thread_name = "ipyagent-engine"

    def wait_for(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a short coroutine in the loop, and block until it is done."""
        return self.submit(coroutine).result()

    def retire(self) -> None:
        """Let the next run have a new thread; this one ends when its tasks have ended."""
        with self._lock:
            if EngineThread._current is self:
                EngineThread._current = None
        self.submit(self._end())

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        await self.loop.shutdown_asyncgens()
        self.loop.stop()


class EngineTask(Generic[T]):
    """A coroutine in the engine's loop; `done` completes when it has ended."""

    def __init__(self, engine: EngineThread) -> None:
        self.engine = engine
        self.done: Future[T] = Future()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def start(self, make: Callable[[], Coroutine[object, object, T]]) -> None:
        """Start the coroutine, in a copy of the caller's context."""
        context = own_context()
        self.engine.loop.call_soon_threadsafe(self._start, make, context)

    def cancel(self) -> None:
        """Ask the coroutine to stop, from any thread or a signal handler; it may clean up first."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            self.engine.loop.call_soon_threadsafe(self._cancel)

    def end(self, grace: float) -> None:
        """Ask the coroutine to stop; after `grace` seconds it counts as ended, from any thread.

        One that does not end keeps its thread to itself from then on.
        """
        self.cancel()
        timer = threading.Timer(grace, self._give_up)
        timer.daemon = True
        timer.start()

    def _give_up(self) -> None:
        with contextlib.suppress(InvalidStateError):  # it has ended meanwhile
            self.done.set_exception(asyncio.CancelledError())
            self.engine.retire()

    def _start(self, make: Callable[[], Coroutine[object, object, T]], context: Context) -> None:
        self._task = self.engine.loop.create_task(make(), context=context)
        self._task.add_done_callback(self._complete)
        if self._cancelled:
            self._task.cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _complete(self, task: asyncio.Task[T]) -> None:
        with contextlib.suppress(InvalidStateError):  # its caller gave up waiting
            if task.cancelled():
                self.done.set_exception(asyncio.CancelledError())
            elif error := task.exception():
                self.done.set_exception(error)
            else:
                self.done.set_result(task.result())


FunctionT = TypeVar("FunctionT", bound=Callable[..., object])

_WHOLE = {
    "<frozen importlib._bootstrap>",  # a half-made import stays broken
    weakref.WeakValueDictionary.__init__.__code__.co_filename,
    weakref.WeakSet.__init__.__code__.co_filename,
}
"""Files whose code must not end halfway. What is raised in a callback of the last two, which runs
whenever an object goes, is printed and lost."""

_LOGGING = logging.getLogger.__code__.co_filename
"""Before Python 3.13, an interrupt in its own code can leave the lock of all loggers held."""

_UNINTERRUPTIBLE: set[CodeType] = set()
_NOT_REMINDED: set[CodeType] = set()


def without_interrupts(function: FunctionT) -> FunctionT:
    """Let no interrupt end `function` halfway: it takes effect when that is done."""
    _UNINTERRUPTIBLE.add(function.__code__)
    return function


def without_reminders(function: FunctionT) -> FunctionT:
    """Let no reminder end `function`, which saves the output of code; the user still can."""
    _NOT_REMINDED.add(function.__code__)
    return function


def is_uninterruptible(frame: FrameType | None) -> bool:
    """Return whether `frame` must not end halfway."""
    if frame is not None and frame.f_code.co_filename == _LOGGING:
        return True
    for code in _list_running(frame):
        if code in _UNINTERRUPTIBLE or code.co_filename in _WHOLE:
            return True
        if code in _NOT_REMINDED:  # the user may end it, also within the others
            return False
    return False


def is_not_reminded(frame: FrameType | None) -> bool:
    """Return whether only the user may end `frame` halfway."""
    return not _NOT_REMINDED.isdisjoint(_list_running(frame))


def _list_running(frame: FrameType | None) -> Iterator[CodeType]:
    """Yield the code at `frame` and that of its callers."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


Job = Callable[[], object]
Post = Callable[[Job], Future[Any]]
"""Runs a job on the main thread."""
Outcome = tuple[object, BaseException | None]

CLOSED = "the cell that served the main thread has ended"


@dataclass(frozen=True)
class _Posted:
    """A job that waits, and what gets its outcome."""

    job: Job
    future: Future[Any]
    alone: bool


@dataclass
class MainThread:
    """A queue of jobs. `ring` wakes the thread that serves it; `busy` is set while a job runs.

    Once stopped, it runs no more jobs, not even queued ones. `after_job` is called in the main
    thread when one has ended.
    """

    ring: Callable[[], object] = lambda: None
    after_job: Callable[[], object] = lambda: None
    busy: bool = False
    stopped: bool = False
    closed: bool = False
    outer: MainThread | None = field(default_factory=lambda: _current.get(), repr=False)
    """The one in a job of which this run was started."""
    _jobs: deque[_Posted] = field(default_factory=deque)
    _awaited: asyncio.Task[object] | None = None

    def post(self, job: Job, *, alone: bool = True) -> Future[Any]:
        """Queue a job; the future gets its result or exception.

        `alone`: no job of another run is on meanwhile.
        """
        future: Future[Any] = Future()
        self._jobs.append(_Posted(job, future, alone))
        if self.closed:  # checked after queueing, so that no job is left there
            self._refuse()
        self.ring()
        return future

    def serve(self) -> None:
        """Run the queued jobs whose turn it is (sync driver); rings if the others' comes."""
        while (posted := self._take()) is not None:
            with self._inside():
                value, error = self._run(posted.job)
                if inspect.iscoroutine(value):
                    value.close()
                    error = RuntimeError("this cell cannot await")
            self._complete(posted, value, error)

    async def serve_async(self) -> None:
        """Run the queued jobs whose turn it is, awaiting awaitable results (async driver)."""
        while (posted := self._take()) is not None:
            with self._inside():
                value, error = self._run(posted.job)
                if inspect.isawaitable(value):
                    value, error = await self._await(value)
            self._complete(posted, value, error)

    def is_within(self, other: MainThread) -> bool:
        """Return whether a job of the other one started the run that this one serves."""
        outer = self.outer
        while outer is not None and outer is not other:
            outer = outer.outer
        return outer is other

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def holds(self, frame: FrameType | None) -> bool:
        """Return whether a job's code runs at `frame`, so that an exception there reaches it.

        A job that awaits leaves the thread to the kernel's loop, which an exception would end.
        """
        within = {MainThread._call.__code__, _awaiting.__code__}
        return not within.isdisjoint(_list_running(frame))

    def close(self) -> None:
        """Refuse all jobs from now on: nobody serves them any more. On the main thread."""
        self.closed, self.ring = True, lambda: None
        self._refuse()

    def stop(self) -> None:
        """Run no more jobs, and cancel one that awaits; from any thread or a signal handler."""
        self.stopped = True
        if (awaited := self._awaited) is not None:
            awaited.get_loop().call_soon_threadsafe(awaited.cancel)

    def _refuse(self) -> None:
        """Fail all queued jobs, from any thread."""
        with contextlib.suppress(IndexError):
            while True:
                future = self._jobs.popleft().future
                if future.set_running_or_notify_cancel():
                    future.set_exception(RuntimeError(CLOSED))

    def _run(self, job: Job) -> Outcome:
        try:
            return self._call(job), None
        except BaseException as error:
            return None, error

    def _call(self, job: Job) -> object:
        # Checked here, so that an interrupt comes either before this check or out of the job.
        if self.stopped:
            raise KeyboardInterrupt
        return job()

    async def _await(self, value: Awaitable[object]) -> Outcome:
        self._awaited = task = asyncio.ensure_future(_awaiting(value))
        if self.stopped:
            task.cancel()
        await asyncio.wait([task])
        self._awaited = None
        try:
            return task.result(), None
        except BaseException as error:
            return None, error

    def _take(self) -> _Posted | None:
        """Return the next job; None if there is none, or if it is another run's turn."""
        while self._jobs:
            if self._jobs[0].alone and not _turn.take(self):
                return None
            posted = self._jobs.popleft()
            # A job whose caller was cancelled meanwhile must not run.
            if posted.future.set_running_or_notify_cancel():
                self.busy = True
                return posted
            _turn.give_back(self)
        return None

    def _complete(self, posted: _Posted, value: object, error: BaseException | None) -> None:
        self.busy = False
        if posted.alone:
            _turn.give_back(self)
        self.after_job()
        if error is None:
            posted.future.set_result(value)
        else:
            posted.future.set_exception(_harmless(error))


class _Turn:
    """The turn to run a job, which one has at a time, or runs within each other's jobs have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: list[MainThread] = []
        self._waiting: dict[int, MainThread] = {}

    @without_interrupts
    def take(self, main: MainThread) -> bool:
        """Take the turn, or be rung when there is one to take."""
        with self._lock:
            if not self._holders or main.is_within(self._holders[-1]):
                self._holders.append(main)
                return True
            self._waiting[id(main)] = main
            return False

    @without_interrupts
    def give_back(self, main: MainThread) -> None:
        """End a turn, and those of runs within it; whoever waits is rung."""
        with self._lock:
            if main in self._holders:
                del self._holders[self._holders.index(main) :]
            waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            with contextlib.suppress(RuntimeError):  # its loop is closed, nobody waits there
                each.ring()


_turn = _Turn()

_current: ContextVar[MainThread | None] = ContextVar("current", default=None)


async def _awaiting(value: Awaitable[object]) -> object:
    return await value


def _harmless(error: BaseException) -> Exception:
    """Return the error in a form that cannot end the engine's loop, as SystemExit would."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__} on the main thread: {error}")
