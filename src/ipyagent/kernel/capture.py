"""Run code in the user's namespace and capture everything that it does as a `ToolResult`.

Text, displays, figures and errors are all recorded; only what a card cannot hold and a page can
draw reaches the cell. An exception of the code becomes part of the result; nothing is raised here.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import inspect
import itertools
import linecache
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, NoReturn, Self, TypeVar

from ipyagent.json_types import JsonDict
from ipyagent.kernel import displays, error_reports
from ipyagent.kernel.outputs import PRINTED, Outputs, TableBundle, offer_output, output_so_far
from ipyagent.kernel.shell import CellResult, DisplayPublisher, Shell, Surface, detect
from ipyagent.kernel.streams import Stream, open_descriptors
from ipyagent.kernel.threads import without_interrupts, without_reminders
from ipyagent.plaintext import strip_escapes
from ipyagent.schema import ToolResult
from ipyagent.schema.tables import table_in
from ipyagent.syntax import parse
from ipyagent.values import Variables
from ipyagent.values.describe import compact_value
from ipyagent.values.describe.safe_inspect import is_of_library

T = TypeVar("T")
_Formatted = tuple[JsonDict, JsonDict]

NO_AWAIT = "top-level await is not possible in this cell; write the code without it"

_ROWS, _COLUMNS = 60, 30  # of a table that is the last value, despite the user's options

_numbers = itertools.count(1)


_running: ContextVar[Recording | None] = ContextVar("running", default=None)


class Recording:
    """A context that records everything that code prints, draws and raises."""

    def __init__(self, outputs: Outputs | None = None) -> None:
        self.outputs = Outputs() if outputs is None else outputs
        self.value: object = None
        self.error: BaseException | None = None
        self._recorded: list[BaseException] = []
        self._cleanup = contextlib.ExitStack()

    @without_interrupts  # no descriptor stays a pipe that leads nowhere
    def __enter__(self) -> Self:
        offer_output(lambda: output_so_far(self.outputs), self.outputs.recent_text)
        self._strangers = weakref.WeakSet(threading.enumerate())
        self._started = weakref.WeakSet[threading.Thread]()
        self._figures = displays.open_figures()
        with contextlib.ExitStack() as stack:
            stack.callback(_running.reset, _running.set(self))
            for owner, name, value in self.patches():
                replace_attribute(owner, name, value, stack)
            open_descriptors(self.outputs.descriptors.values())
            self._cleanup = stack.pop_all()
        return self

    @without_interrupts
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self.outputs.descriptors["stdout"].is_worker:
            self._end_worker(error)
        with self._cleanup:
            if error is not None:
                self.error = error
            for descriptor in self.outputs.descriptors.values():
                descriptor.close()
            self._show_figures()
        return True

    @without_reminders
    def _show_figures(self) -> None:
        for figure in displays.take_figures(self._figures):
            self.outputs.show({"image/png": figure})

    def patches(self) -> list[tuple[object, str, object]]:
        """Return the attributes replaced while the code runs: owner, name, value."""
        patches: list[tuple[object, str, object]] = [
            (threading.Thread, "start", self._follow(threading.Thread.start)),
            (ThreadPoolExecutor, "submit", self._follow_pool(ThreadPoolExecutor.submit)),
        ]
        for channel in PRINTED:
            past = getattr(sys, channel)
            record = functools.partial(self.outputs.write, channel)
            stream = Stream(self.outputs.descriptors[channel], record, past, self.mine)
            patches.append((sys, channel, stream))
            if hasattr(past, "__dict__"):  # a log's handler may have kept it
                write = functools.partial(stream.write_instead, past.write)
                patches.append((past, "write", write))
        return patches

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
            trace = error_reports.format_error(error, self.title)
            kind, text = map(strip_escapes, error_reports.name_error(error))
            self.outputs.error(kind, text, trace)
            self.outputs.abbreviate(error_reports.brief_error(error, self.title))

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
            why = strip_escapes(error_reports.summarize_error(self.error))
        return ToolResult(
            success=why is None,
            output=self.outputs.text(),
            for_model=self.outputs.text_for_model(),
            error=why,
            failed_line=error_reports.find_line(self.error) if self.error else 0,
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


def replace_attribute(owner: object, name: str, value: object, stack: contextlib.ExitStack) -> None:
    """Replace an attribute until the stack ends."""
    old = getattr(owner, name)
    from_class = name not in vars(owner) and inspect.isroutine(getattr(type(owner), name, None))
    setattr(owner, name, value)
    if from_class:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, old)


def run(shell: Shell, code: str, outputs: Outputs | None = None) -> ToolResult:
    """Run `code` as a cell that leaves no trace in history, `_` or `Out`."""
    if loop_is_running() and needs_await(shell, code):
        return ToolResult.failure(NO_AWAIT)
    with _Cell(shell, code, outputs) as recording, _without_exit_advice():
        recording.outcome(shell.run_cell(code, store_history=False))
    return recording.result()


async def run_async(shell: Shell, code: str, outputs: Outputs | None = None) -> ToolResult:
    """Run code with top-level `await` the same way; raises only asyncio.CancelledError."""
    with _Cell(shell, code, outputs) as recording, _without_exit_advice():
        done = None
        try:
            done = await shell.run_cell_async(
                code, transformed_cell=shell.transform_cell(code), store_history=False
            )
        finally:
            # run_cell_async leaves these to its caller; the first one shows figures.
            shell.events.trigger("post_execute")
            shell.events.trigger("post_run_cell", done)
        recording.outcome(done)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        # The shell took the cancellation for the code's own error.
        raise asyncio.CancelledError
    return recording.result()


def run_plain(namespace: Variables, code: str, outputs: Outputs | None = None) -> ToolResult:
    """Run `code` as Python, without a shell; the last expression's value is the result's."""
    with Recording(outputs) as recording:
        recording.value = _execute(namespace, code)
        if recording.value is not None:
            with _limit_tables(recording.value):
                plain = repr(recording.value)
                recording.outputs.value({"text/plain": plain})
                recording.abbreviate_value(plain)
    return recording.result()


def needs_await(shell: Shell, code: str) -> bool:
    """Return whether `code` has a top-level `await`."""
    try:
        transformed = shell.transform_cell(code)
    except Exception:
        return False  # the code is not even a cell; running it will say why
    return bool(shell.should_run_async(code, transformed_cell=transformed))


def runs_as_written(shell: Shell, code: str) -> bool:
    """Return whether the shell runs `code` as Python reads it.

    IPython and the user's own transformers rewrite lines, and IPython ends lines at characters at
    which Python does not: in a comment there may be a line that only the shell sees.
    """
    if shell.ast_transformers:
        return False
    try:
        return _dump_tree(shell.transform_cell(code)) == _dump_tree(code)
    except Exception:  # a transformer of the user's may raise anything
        return False


def loop_is_running() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _dump_tree(code: str) -> str:
    return ast.dump(parse(code))


def _execute(namespace: Variables, code: str) -> object:
    name = f"<code {next(_numbers)}>"
    # Tracebacks find the source here, even that of functions that outlive the run.
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    awaiting = compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if awaiting.co_flags & inspect.CO_COROUTINE:
        raise SyntaxError(NO_AWAIT)
    tree = parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)  # noqa: S102
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307


class _Cell(Recording):
    """Records an IPython shell's displays, last values, errors and `!commands`."""

    def __init__(self, shell: Shell, code: str, outputs: Outputs | None) -> None:
        super().__init__(outputs)
        # Callbacks at the end of a cell show figures, which may take longer than interrupted code
        # gets.
        without_reminders(type(shell.events).trigger)
        self.shell = shell
        self._quiet = _ends_in_semicolon(shell, code)
        self._show = shell.display_pub.publish
        front_end = detect(shell)
        if front_end.surface is Surface.NOTEBOOK and not self.outputs.place:
            # Without a live page the card comes last.
            self.outputs.place = "below" if front_end.can_input else "above"

    def __exit__(self, *error: Any) -> bool:
        try:
            return super().__exit__(*error)
        finally:
            self.outputs.publish(self.show_page)

    def show_page(self, bundle: displays.PageBundle) -> None:
        """Show the page a bundle beside the card."""
        transient = {"display_id": bundle.display_id} if bundle.display_id else {}
        self._show(bundle.data, bundle.metadata, transient=transient)

    def patches(self) -> list[tuple[object, str, object]]:
        shell, hook = self.shell, _DisplayHook(self, sys.displayhook)
        formatter = shell.display_formatter
        patches = [
            *super().patches(),
            (shell, "display_pub", _Publisher(self, shell.display_pub)),
            (formatter, "format", self._with_tables(formatter.format)),
            (sys, "displayhook", hook),
            # Outside of a running cell the trap would set a hook of its own.
            (shell.display_trap, "hook", hook),
        ]
        for name in ("showtraceback", "showsyntaxerror", "_showtraceback"):
            if hasattr(shell, name):
                patches.append((shell, name, self._shell_shows_error))
        if hasattr(shell, "system_piped"):  # a terminal's own writes past sys.stdout
            patches.append((shell, "system", shell.system_piped))
        if hasattr(shell, "hooks"):
            patches.append((shell.hooks, "show_in_pager", self._show_page))
        if hasattr(shell, "ask_exit"):
            patches.append((shell, "ask_exit", _refuse_exit))
        return patches

    def outcome(self, done: CellResult) -> None:
        """Take over the outcome of the cell."""
        self.error = done.error_before_exec or done.error_in_exec

    def title(self, filename: str) -> str:
        """Return a cell's number instead of its temporary file's name."""
        format_name = getattr(self.shell.compile, "format_code_name", lambda name: None)
        return (format_name(filename) or ("", filename))[1]

    def record_value(self, value: object) -> None:
        """Record the value of an expression that the shell displays."""
        self.value = value
        if value is not None and not self._quiet:
            with _limit_tables(value):
                bundle, metadata = self.shell.display_formatter.format(value)
            self.outputs.value(bundle, metadata)
            self.abbreviate_value(bundle.get("text/plain"))

    def _with_tables(self, past: Callable[..., _Formatted]) -> Callable[..., _Formatted]:
        """Return a formatter whose bundles hold the tables they show."""

        def format_value(value: object, *args: object, **kwargs: object) -> _Formatted:
            bundle, metadata = past(value, *args, **kwargs)
            if not bundle or not self.mine():
                return bundle, metadata
            if is_of_library(type(value)):
                bundle = displays.improve_bundle(bundle, value, past)
            else:
                bundle = displays.without_markup(bundle)
            table = table_in(value)
            return (bundle if table is None else TableBundle(bundle, table)), metadata

        return format_value

    def _show_page(self, page: str | JsonDict, *args: object, **kwargs: object) -> None:
        self.outputs.show(page if isinstance(page, dict) else {"text/plain": page})

    def _shell_shows_error(self, *args: object, **kwargs: object) -> None:
        candidates = [
            *(args[0] if args and isinstance(args[0], tuple) else args),
            sys.exc_info()[1],
        ]
        error = next((each for each in candidates if isinstance(each, BaseException)), None)
        if error is not None:
            self.show_error(error)


class _DisplayHook:
    """Replaces `sys.displayhook`."""

    def __init__(self, recording: _Cell, past: Callable[[object], None]) -> None:
        self.recording, self.past = recording, past

    def __call__(self, value: object = None) -> None:
        show = self.recording.record_value if self.recording.mine() else self.past
        show(value)


class _Publisher:
    """Replaces the shell's display publisher."""

    # This output belongs to no cell: IPython must not store it with the user's outputs.
    is_publishing = True

    def __init__(self, recording: _Cell, past: DisplayPublisher) -> None:
        self._recording, self._past = recording, past

    def __getattr__(self, name: str) -> Any:
        return getattr(self._past, name)

    def publish(self, data: JsonDict, metadata: JsonDict | None = None, **how: Any) -> None:
        """Record a display. An update of a display that the code did not make is passed on."""
        outputs, shown_as = self._recording.outputs, (how.get("transient") or {}).get("display_id")
        if not self._recording.mine():
            self._past.publish(data, metadata, **how)
        elif not how.get("update"):
            outputs.show(data, shown_as, metadata)
            if displays.page_kind(data) == "widget":
                outputs.publish(self._recording.show_page, only_widgets=True)
        elif not outputs.update(data, shown_as, metadata):
            self._past.publish(data, metadata, **how)

    def clear_output(self, wait: bool = False) -> None:
        """Clear the recorded output, as a cell's would be."""
        clear = self._recording.outputs.clear if self._recording.mine() else self._past.clear_output
        clear(wait)


def _refuse_exit() -> None:
    raise SystemExit("exit() was ignored: it would end the user's kernel")


def _ends_in_semicolon(shell: Shell, code: str) -> bool:
    try:
        return bool(shell.displayhook.semicolon_at_end_of_expression(code))
    except Exception:
        return False  # not Python as it stands: a magic, or a mistake that running will show


@contextlib.contextmanager
def _without_exit_advice() -> Iterator[None]:
    """Silence "To exit: use 'exit'", which IPython prints at SystemExit."""
    # Not warnings.catch_warnings: filters that the code sets are the user's to keep.
    warnings.filterwarnings("ignore", "To exit: use")
    our_filter = warnings.filters[0]
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            warnings.filters.remove(our_filter)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _limit_tables(value: object) -> Iterator[None]:
    """Keep a table's text short, even if the user's options ask for all of it."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.DataFrame, pandas.Series)):
        yield
        return
    limits = {"display.max_rows": _ROWS, "display.max_columns": _COLUMNS}
    wanted = {name: pandas.get_option(name) for name in limits}
    options = {n: limits[n] if w is None else min(w, limits[n]) for n, w in wanted.items()}
    with pandas.option_context(*itertools.chain.from_iterable(options.items())):
        yield
