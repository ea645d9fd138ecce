"""The registration of `%%agent` and `%agent`, and the entry of their cells.

What runs a cell is imported in the background. Failures before there is a run end in one clear
line; if ipyagent's own modules cannot be imported, it names what to install. The state is in
`shell.meta`, which IPython leaves to extensions, by its class, so that modules that are imported
again find nothing.

A magic cannot await, so input transformers turn an `%%agent` cell, and an `%agent` line that is a
prompt, into an awaited call of `run`, before IPython turns it into a call of the magic.
This leaves the kernel's loop free for clicks. Where a cell cannot await (inside `%%time`, a direct
`run_cell_magic`, `%autoawait off`, an indented line), the plain magic blocks instead.

In `%%agent` cells and on `%agent` lines only our completions are offered, even if there are none: a
prompt is prose, and Python's names, magics and files would only be in the way.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher
from IPython.core.getipython import get_ipython
from IPython.core.inputtransformer2 import EscapedCommand, HelpEnd
from IPython.core.magic import no_var_expand

from ipyagent import errors, llm, telemetry
from ipyagent.agent import session
from ipyagent.imports import working_folder
from ipyagent.kernel.drivers import STOPPED, Cell, stoppable
from ipyagent.kernel.pages import Pages
from ipyagent.kernel.shell import CellNotes, Shell, kernel_of
from ipyagent.ui import register_formatters

log = logging.getLogger("ipyagent")

NOT_LOADED = (
    "the extension is not loaded any more: ipyagent's modules were taken out of sys.modules. "
    "`%reload_ext ipyagent` loads them again; restarting the kernel does as well"
)

NO_FOLDER = (
    "the folder that this kernel works in is not there any more. Make it again, or go to another "
    "one with `%cd FOLDER`, and run this cell again"
)

# Below magics too that run the rest of their cell as a cell.
_CELL = re.compile(r"\s*(?:%%(?:time|capture|prun)(?!\w)[^\n]*\n\s*)*%%agent(?!\S)")
_OPTIONS = re.compile(r"\s*%%agent\s+(.*)\Z")
_LINE = re.compile(r"\s*%agent\s+(.*)\Z")

FIRST = 1_000
"""The priority: before all matchers of IPython's own, which then need not start."""


class Nothing(Sequence[object]):
    """No completions, and none from other matchers.

    IPython lets a matcher suppress the others only if it has found something, judged by length.
    """

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: object) -> NoReturn:
        raise IndexError(index)


@context_matcher(identifier="ipyagent", priority=FIRST)  # type: ignore[untyped-decorator]
def match(context: CompletionContext) -> SimpleMatcherResult:
    """Return completions at the cursor, in a cell or on a line of ours."""
    place = _place(context)
    if place is None:
        return SimpleMatcherResult(completions=[])
    where, text = place
    try:
        # Imported at the first use: it knows the whole notebook.
        fragment, found = import_module("ipyagent.magic.completions").complete(where, text)
    except Exception:
        # IPython would print a traceback between the user's keystrokes.
        log.debug("completion failed", exc_info=True)
        fragment, found = "", []
    return SimpleMatcherResult(
        completions=found or Nothing(), matched_fragment=fragment, suppress=True, ordered=True
    )


def _place(context: CompletionContext) -> tuple[str, str] | None:
    """Return `body`, `options` or `line`, and the text of that line up to the cursor."""
    text = context.text_until_cursor
    if cell := _CELL.match(context.full_text):
        first = context.full_text.count("\n", 0, cell.end())
        if context.cursor_line > first:
            return "body", text
        options = _OPTIONS.match(text)
        return ("options", options[1]) if options and context.cursor_line == first else None
    line = _LINE.match(text)
    return ("line", line[1]) if line else None


_MAGIC = "get_ipython().run_line_magic('agent', "
_AWAIT = "await __import__('ipyagent.magic', fromlist=['run']).run("


def _make_line_transformer(can_await: Callable[[], bool]) -> type[EscapedCommand]:
    """Return the transformer of `%agent` lines.

    IPython takes each line that ends with a question mark for a request for help.
    """

    class AgentLine(EscapedCommand):  # type: ignore[misc]
        priority = HelpEnd.priority - 1

        def transform(self, lines: list[str]) -> list[str]:
            line = _LINE.match(lines[self.start_line].rstrip())
            if line is None:
                raise SyntaxError  # another transformer's turn
            changed: list[str] = super().transform(lines)
            if self.start_col == 0 and can_await() and _is_prompt(line[1]):
                changed[self.start_line] = changed[self.start_line].replace(_MAGIC, _AWAIT, 1)
            return changed

    return AgentLine


def _is_prompt(line: str) -> bool:
    try:
        return bool(import_or_explain("ipyagent.magic.commands").is_prompt(line))
    except errors.InstallationError:  # the magic reports it
        return False


class Extension:
    """The parts that loading adds to a shell, and unloading removes, and what its cells use."""

    _depth = 0
    _has_lock = False
    imported: Future[None]
    """The import of what cells need, in the background."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.folder = working_folder()
        self.notes = CellNotes(shell)
        """The notes of what the user's own cells changed."""
        self.cell_lock = threading.Lock()
        """Held while a cell is running, and while a page's request needs the variables."""

    @property
    def home(self) -> Path:
        """The folder in which the kernel was when the extension was loaded."""
        self.folder = self.folder or working_folder()
        if self.folder is None:
            raise errors.ConfigError(NO_FOLDER)
        return self.folder

    def add(self) -> None:
        """Register magics, transformer and completion, and start to import their dependencies."""
        llm.prepare_environment()
        telemetry.setup_logging()
        session.provider = self
        register_formatters(self.shell)
        self.shell.register_magic_function(_agent, "line_cell", "agent")
        self.shell.input_transformers_cleanup.append(self.make_awaitable)
        self._lines = _make_line_transformer(self._can_await)
        self.shell.input_transformer_manager.token_transformers.append(self._lines)
        self.shell.Completer.custom_matchers.append(match)
        self.shell.events.register("pre_run_cell", self._enter)
        self.shell.events.register("post_run_cell", self._leave)
        if (kernel := kernel_of(self.shell)) is not None:
            pages = Pages(lambda *message: _notebook().desk.on_message(*message))
            self.shell.meta[Pages] = pages
            pages.open(kernel)
        self.imported = import_in_background(self.folder)

    def remove(self) -> None:
        """Undo `add`."""
        for kind in ("line", "cell"):
            self.shell.magics_manager.magics[kind].pop("agent", None)
        self.shell.input_transformers_cleanup.remove(self.make_awaitable)
        self.shell.input_transformer_manager.token_transformers.remove(self._lines)
        self.shell.Completer.custom_matchers.remove(match)
        self.shell.events.unregister("pre_run_cell", self._enter)
        self.shell.events.unregister("post_run_cell", self._leave)
        if pages := self.shell.meta.pop(Pages, None):
            pages.close()
        session.provider = None

    def get_session(self) -> object:
        """Return the notebook's session, for `Session.current()`."""
        return _notebook().sessions.get()

    def use_session(self, session: object) -> None:
        """Continue with that session in the notebook's next cells, for `Session.make_current()`."""
        _notebook().sessions.use(session)

    def make_awaitable(self, lines: list[str]) -> list[str]:
        """Return a cell's lines, with an `%%agent` cell as one that awaits its run if it can.

        Line and text are split as IPython splits them for every cell magic. It calls no cell magic
        without a text, so a prompt on the first line alone gets an empty second one.
        """
        first = lines[0].rstrip() if lines else ""
        name, _, line = first.partition(" ")
        if name != "%%agent":
            return lines
        if not self._can_await():
            return lines if lines[1:] else [*lines, "\n"]
        return [f"{_AWAIT}{line!r}, {''.join(lines[1:])!r})\n"]

    # IPython skips it when it checks whether a cell that is being typed is complete.
    make_awaitable.has_side_effects = True  # type: ignore[attr-defined]

    def _can_await(self) -> bool:
        runs_asyncio = str(self.shell.loop_runner) == "asyncio"
        return bool(self.shell.autoawait) and runs_asyncio and self._depth == 0

    def _enter(self, info: object) -> None:
        if self._depth == 0:
            self._has_lock = self.cell_lock.acquire()
        self._depth += 1
        if self._depth == 1:
            self.notes.enter(info)

    def _leave(self, result: object) -> None:
        if self._depth == 1:
            self.notes.leave(result)
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._has_lock:
            self._has_lock = False
            self.cell_lock.release()


def load(shell: Shell) -> None:
    """Add `%%agent` and `%agent` to a shell; loading twice changes nothing."""
    if Extension not in shell.meta:
        shell.meta[Extension] = extension = Extension(shell)
        extension.add()


def unload(shell: Shell) -> None:
    """Remove them again."""
    if extension := shell.meta.pop(Extension, None):
        extension.remove()


@no_var_expand  # type: ignore[untyped-decorator]
def _agent(line: str, cell: str | None = None) -> None:
    """Run an agent in this kernel: `%%agent [options]` and a prompt; `%agent` for help."""
    if cell is not None or _is_prompt(line):
        run_blocking(line, cell or "")
    else:
        with explaining():
            import_or_explain("ipyagent.magic.commands").run(line)


def _notebook() -> Any:
    from ipyagent.magic.notebook import notebook  # loading does not wait for it

    return notebook()


def state_of(shell: Shell) -> Extension:
    """Return the state of the extension in a shell; raises ConfigError if it is not loaded."""
    state: Extension | None = shell.meta.get(Extension)
    if state is None:
        raise errors.ConfigError(NOT_LOADED)
    return state


def finish_import() -> None:
    """Wait until what cells need is imported, if an extension is loaded.

    Of two threads that import a package and a module of it, each first, Python gives up one.
    """
    shell = get_ipython()
    if shell is not None and (state := shell.meta.get(Extension)):
        state.imported.result()


def import_or_explain(name: str) -> ModuleType:
    """Import one of ipyagent's modules; raises InstallationError naming the missing package."""
    try:
        return import_module(name)
    except Exception as error:
        raise errors.InstallationError(explain(error)) from None


def explain(error: BaseException) -> str:
    """Explain why an import failed, and what to install."""
    summary = f"ipyagent cannot be used: {type(error).__name__}: {' '.join(str(error).split())}."
    if errors.lacks_descriptors(error):
        return f"{summary} {errors.descriptor_advice()} If that does not help, restart the kernel."
    package = None
    with suppress(OSError, ImportError):  # the packages' own descriptions cannot be read
        package = _at_fault(error)
    packages = f"{package} ipyagent" if package else "ipyagent"
    return f"{summary} Run `%pip install --upgrade {packages}` and restart the kernel."


def _at_fault(error: BaseException) -> str | None:
    """Return the distribution that could not be imported, or in which the import failed."""
    from importlib import metadata

    names = [name] if (name := getattr(error, "name", None)) else []
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    for file in reversed(files):
        _, within, path = file.partition("site-packages/")
        if within:
            names.append(path.partition("/")[0].removesuffix(".py"))
    distributions = metadata.packages_distributions()
    for name in names:
        top = name.partition(".")[0]
        if top != "ipyagent" and top in distributions:
            return distributions[top][0]
    return None


def import_in_background(home: Path | None) -> Future[None]:
    """Start to import what cells need; the first cell meets a failure again and reports it."""
    imported: Future[None] = Future()
    threading.Thread(
        target=_import_all, args=(imported, home), name="ipyagent-import", daemon=True
    ).start()
    return imported


async def run(line: str, text: str = "") -> None:
    """Run an `%%agent` cell, or the prompt of a line, awaiting it: clicks can arrive."""
    cell, task = Cell(), asyncio.current_task()
    try:
        with explaining(), stoppable(cell):
            await _wait_for_import(cell)
            await import_or_explain("ipyagent.magic.cells").run(cell, line, text)
    except asyncio.CancelledError:
        # An interrupt that came before this cell's own handler was in force.
        if task is not None:
            task.uncancel()
        raise errors.AgentInterrupted(STOPPED) from None


def run_blocking(line: str, text: str) -> None:
    """Run the same where a cell cannot await."""
    cell = Cell()
    with explaining(), stoppable(cell):
        with cell.interrupt.raising():
            state_of(get_ipython()).imported.result()
        import_or_explain("ipyagent.magic.cells").run_blocking(cell, line, text)


@contextmanager
def explaining() -> Iterator[None]:
    """Turn a failure for want of descriptors into an error that is shown in one line."""
    try:
        yield
    except errors.AgentError:
        raise
    except Exception as error:
        if not errors.lacks_descriptors(error):
            raise
        raise errors.AgentError(errors.describe_error(error)) from None


async def _wait_for_import(cell: Cell) -> None:
    importing, task = state_of(get_ipython()).imported, asyncio.current_task()
    if importing.done() or task is None:
        return
    cancel, loop = task.cancel, asyncio.get_running_loop()
    cell.interrupt.on_stop = lambda: loop.call_soon_threadsafe(cancel)
    await asyncio.shield(asyncio.wrap_future(importing))


def _import_all(imported: Future[None], home: Path | None) -> None:
    """Import in the order of need; LiteLLM, if the model needs it, takes seconds."""
    # A traceback of this thread would appear in the cell that happens to run.
    with suppress(Exception):
        try:
            import_or_explain("ipyagent.magic.cells")
            import_or_explain("ipyagent.ui.card")
        finally:
            imported.set_result(None)
        import_or_explain("ipyagent.magic.completions")
        import_or_explain("ipyagent.magic.notebook_settings").NotebookSettings(home).prepare_model()
