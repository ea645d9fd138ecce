"""Running code in the person's namespace, and everything that it does as a `ToolResult`.

Nothing of it reaches the cell: text, displays, figures and errors are all recorded. Whatever the
code raises, the result says so and nothing is raised here.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import itertools
import linecache
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.kernel.interrupt import unhurried
from ipyagent.kernel.outputs import Outputs, TableBundle
from ipyagent.kernel.protocols import CellResult, DisplayPublisher, Shell, Variables
from ipyagent.kernel.recording import Recording
from ipyagent.schema import ToolResult
from ipyagent.schema.live_tables import table_in

_Formatted = tuple[JsonDict, JsonDict]

NO_AWAIT = "top-level await is not possible in this cell; write the code without it"

_ROWS, _COLUMNS = 60, 30  # of a table that is the last value, whatever the person's options allow

_numbers = itertools.count(1)


def run(shell: Shell, code: str, outputs: Outputs | None = None) -> ToolResult:
    """Run `code` as a cell that leaves no trace in history, `_` or `Out`."""
    if loop_is_running() and needs_await(shell, code):
        return ToolResult.failure(NO_AWAIT)
    with _Cell(shell, code, outputs) as recording, _no_advice():
        recording.outcome(shell.run_cell(code, store_history=False))
    return recording.result()


async def run_async(shell: Shell, code: str, outputs: Outputs | None = None) -> ToolResult:
    """The same for code with top-level `await`; raises only asyncio.CancelledError."""
    with _Cell(shell, code, outputs) as recording, _no_advice():
        done = None
        try:
            done = await shell.run_cell_async(
                code, transformed_cell=shell.transform_cell(code), store_history=False
            )
        finally:
            # run_cell_async leaves these to its caller; on the first one figures are shown.
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
            with _sensible_tables(recording.value):
                recording.outputs.value({"text/plain": repr(recording.value)})
    return recording.result()


def needs_await(shell: Shell, code: str) -> bool:
    """Whether `code` has a top-level `await`."""
    try:
        transformed = shell.transform_cell(code)
    except Exception:
        return False  # the code is not even a cell; running it will say why
    return bool(shell.should_run_async(code, transformed_cell=transformed))


def loop_is_running() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _execute(namespace: Variables, code: str) -> Any:
    name = f"<code {next(_numbers)}>"
    # Tracebacks find the source here, even that of functions that outlive the run.
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    awaiting = compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if awaiting.co_flags & inspect.CO_COROUTINE:
        raise SyntaxError(NO_AWAIT)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)  # noqa: S102
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307


class _Cell(Recording):
    """Records what an IPython shell does besides: displays, last values, errors, `!commands`."""

    def __init__(self, shell: Shell, code: str, outputs: Outputs | None) -> None:
        super().__init__(outputs)
        # Figures are shown by callbacks at the end of a cell, which may take longer than code
        # that was interrupted is given.
        unhurried(type(shell.events).trigger)
        self.shell = shell
        self._quiet = _ends_in_semicolon(shell, code)

    def patches(self) -> Iterator[tuple[Any, str, Any]]:
        yield from super().patches()
        shell = self.shell
        hook = _DisplayHook(self, sys.displayhook)
        yield shell, "display_pub", _Publisher(self, shell.display_pub)
        yield shell.display_formatter, "format", self._with_tables(shell.display_formatter.format)
        yield sys, "displayhook", hook
        yield shell.display_trap, "hook", hook  # which it would set outside of a running cell
        for name in ("showtraceback", "showsyntaxerror", "_showtraceback"):
            if hasattr(shell, name):
                yield shell, name, self._shell_shows_error
        if hasattr(shell, "system_piped"):
            yield shell, "system", shell.system_piped  # a terminal's own writes past sys.stdout
        if hasattr(shell, "ask_exit"):
            yield shell, "ask_exit", _refuse_exit

    def outcome(self, done: CellResult) -> None:
        """Take over how the cell ended."""
        self.error = done.error_before_exec or done.error_in_exec

    def title(self, filename: str) -> str:
        """A cell's number instead of its temporary file's name."""
        format_name = getattr(self.shell.compile, "format_code_name", lambda name: None)
        return (format_name(filename) or ("", filename))[1]

    def displayed(self, value: object) -> None:
        """An expression's value that the shell displays."""
        self.value = value
        if value is not None and not self._quiet:
            with _sensible_tables(value):
                bundle, metadata = self.shell.display_formatter.format(value)
            self.outputs.value(bundle, metadata)

    def _with_tables(self, past: Callable[..., _Formatted]) -> Callable[..., _Formatted]:
        """Return a formatter whose bundles hold the tables they show, for those who record."""

        def format_value(value: object, *args: object, **kwargs: object) -> _Formatted:
            bundle, metadata = past(value, *args, **kwargs)
            table = table_in(value) if bundle and self.mine() else None
            return (bundle if table is None else TableBundle(bundle, table)), metadata

        return format_value

    def _shell_shows_error(self, *args: object, **kwargs: object) -> None:
        given = [*(args[0] if args and isinstance(args[0], tuple) else args), sys.exc_info()[1]]
        error = next((each for each in given if isinstance(each, BaseException)), None)
        if error is not None:
            self.show_error(error)


class _DisplayHook:
    """Stands in for `sys.displayhook`."""

    def __init__(self, recording: _Cell, past: Callable[[Any], None]) -> None:
        self.recording, self.past = recording, past

    def __call__(self, value: object = None) -> None:
        show = self.recording.displayed if self.recording.mine() else self.past
        show(value)


class _Publisher:
    """Stands in for the shell's display publisher."""

    # What is written now belongs to no cell: IPython must not file it under the person's outputs.
    is_publishing = True

    def __init__(self, recording: _Cell, past: DisplayPublisher) -> None:
        self._recording, self._past = recording, past

    def __getattr__(self, name: str) -> Any:
        return getattr(self._past, name)

    def publish(self, data: Any, metadata: Any = None, **how: Any) -> None:
        """Record a display. An update of one that the code didn't make goes where that one is."""
        outputs, shown_as = self._recording.outputs, (how.get("transient") or {}).get("display_id")
        if not self._recording.mine():
            self._past.publish(data, metadata, **how)
        elif not how.get("update"):
            outputs.show(data, shown_as, metadata)
        elif not outputs.update(data, shown_as, metadata):
            self._past.publish(data, metadata, **how)

    def clear_output(self, wait: bool = False) -> None:
        """Forget what was recorded, as a cell's output would be cleared."""
        clear = self._recording.outputs.clear if self._recording.mine() else self._past.clear_output
        clear(wait)


def _refuse_exit() -> None:
    raise SystemExit("exit() was ignored: it would end the person's kernel")


def _ends_in_semicolon(shell: Shell, code: str) -> bool:
    try:
        return bool(shell.displayhook.semicolon_at_end_of_expression(code))
    except Exception:
        return False  # not Python as it stands: a magic, or a mistake that running will show


@contextlib.contextmanager
def _no_advice() -> Iterator[None]:
    """Silence "To exit: use 'exit'", which IPython says to whoever raises SystemExit."""
    # Not warnings.catch_warnings: filters that the code sets are the person's to keep.
    warnings.filterwarnings("ignore", "To exit: use")
    ours = warnings.filters[0]
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            warnings.filters.remove(ours)  # type: ignore[attr-defined]


@contextlib.contextmanager
def _sensible_tables(value: object) -> Iterator[None]:
    """Keep a table's text short, also where the person's options ask for all of it."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.DataFrame, pandas.Series)):
        yield
        return
    limits = {"display.max_rows": _ROWS, "display.max_columns": _COLUMNS}
    wanted = {name: pandas.get_option(name) for name in limits}
    shown = {n: limits[n] if w is None else min(w, limits[n]) for n, w in wanted.items()}
    with pandas.option_context(*itertools.chain.from_iterable(shown.items())):
        yield
