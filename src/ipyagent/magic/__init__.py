"""`%%agent` and `%agent`: registration. Their code is imported when first used.

A cell magic cannot await, so an input transformer turns an `%%agent` cell into an awaited call of
`magic.entry.run`, before IPython turns it into a call of the magic. Such a cell leaves the kernel's
loop free for clicks. Where a cell cannot await (inside `%%time`, a direct `run_cell_magic`,
`%autoawait off`), the plain magic blocks instead.
"""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from IPython.core.magic import no_var_expand

from ipyagent.agent import current_session
from ipyagent.errors import ConfigError
from ipyagent.kernel.cell_notes import CellNote, CellNotes
from ipyagent.kernel.protocols import Shell, kernel_of
from ipyagent.llm import environment
from ipyagent.magic import entry, matcher
from ipyagent.magic.installation import import_or_explain
from ipyagent.telemetry import logs
from ipyagent.ui import ipython_display

_AWAITED = "await __import__('ipyagent.magic.entry', fromlist=['run']).run({!r}, {!r})\n"


class Extension:
    """The parts that loading adds to a shell, and unloading removes."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.home = _working_folder()
        self.pages: Any = None
        self.notes = CellNotes(shell)
        self._depth = 0
        self.idle = threading.Event()
        self.idle.set()

    def add(self) -> None:
        """Register magics, transformer and completion, and start to import their dependencies."""
        environment.prepare()
        logs.setup()
        current_session.provider = self
        ipython_display.register(self.shell)
        self.shell.register_magic_function(_agent, "line_cell", "agent")
        self.shell.input_transformers_cleanup.append(self.make_awaitable)
        self.shell.Completer.custom_matchers.append(matcher.match)
        self.shell.events.register("pre_run_cell", self._enter)
        self.shell.events.register("post_run_cell", self._leave)
        if (kernel := kernel_of(self.shell)) is not None:
            self.pages = import_module("ipyagent.kernel.pages").Pages(_on_page_message)
            self.pages.open(kernel)
        entry.import_in_background(self.home)

    def remove(self) -> None:
        """Undo `add`."""
        for kind in ("line", "cell"):
            self.shell.magics_manager.magics[kind].pop("agent", None)
        self.shell.input_transformers_cleanup.remove(self.make_awaitable)
        self.shell.Completer.custom_matchers.remove(matcher.match)
        self.shell.events.unregister("pre_run_cell", self._enter)
        self.shell.events.unregister("post_run_cell", self._leave)
        if self.pages is not None:
            self.pages.close()
        current_session.provider = None

    def get_session(self) -> object:
        """Return the notebook's session, for `Session.current()`."""
        return import_module("ipyagent.magic.notebook").notebook().sessions.get()

    def use_session(self, session: object) -> None:
        """Continue with that session in the notebook's next cells, for `Session.make_current()`."""
        import_module("ipyagent.magic.notebook").notebook().sessions.use(session)

    def make_awaitable(self, lines: list[str]) -> list[str]:
        """Return a cell's lines, with an `%%agent` cell as one that awaits its run if it can.

        Line and text are split as IPython splits them for every cell magic.
        """
        first = lines[0].rstrip() if lines else ""
        name, _, line = first.partition(" ")
        if name != "%%agent" or not self._can_await():
            return lines
        return [_AWAITED.format(line, "".join(lines[1:]))]

    # IPython skips it when it checks whether a cell that is being typed is complete.
    make_awaitable.has_side_effects = True  # type: ignore[attr-defined]

    def _can_await(self) -> bool:
        runs_asyncio = str(self.shell.loop_runner) == "asyncio"
        return bool(self.shell.autoawait) and runs_asyncio and self._depth == 0

    def _enter(self, info: object) -> None:
        self._depth += 1
        if self._depth == 1:
            self.notes.enter(info)
        self.idle.clear()

    def _leave(self, result: object) -> None:
        if self._depth == 1:
            self.notes.leave(result)
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self.idle.set()


NO_FOLDER = (
    "the folder that this kernel works in is not there any more. Make it again, or go to another "
    "one with `%cd FOLDER`, and run this cell again"
)


def _working_folder() -> Path | None:
    """Return the working folder of the process; None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


_extensions: dict[int, Extension] = {}


def load(shell: Shell) -> None:
    """Add `%%agent` and `%agent` to a shell; loading twice changes nothing."""
    if id(shell) not in _extensions:
        _extensions[id(shell)] = Extension(shell)
        _extensions[id(shell)].add()


def unload(shell: Shell) -> None:
    """Remove them again."""
    if extension := _extensions.pop(id(shell), None):
        extension.remove()


def pages_of(shell: Shell) -> Any:
    """Return the pages that show this kernel's notebooks; None outside of a kernel."""
    return _extension(shell).pages


def notes_of(shell: Shell) -> list[CellNote]:
    """Return the notes of what the user's own cells changed, oldest first."""
    return _extension(shell).notes.notes


def wait_until_idle(shell: Shell, seconds: float) -> bool:
    """Wait until no cell is running; return whether that came in time. Not for the main thread."""
    return _extension(shell).idle.wait(seconds)


def home_of(shell: Shell) -> Path:
    """Return the folder in which the kernel was when the extension was loaded."""
    extension = _extension(shell)
    extension.home = extension.home or _working_folder()
    if extension.home is None:
        raise ConfigError(NO_FOLDER)
    return extension.home


def _extension(shell: Shell) -> Extension:
    try:
        return _extensions[id(shell)]
    except KeyError:
        raise ConfigError(entry.NOT_LOADED) from None


@no_var_expand  # type: ignore[untyped-decorator]
def _agent(line: str, cell: str | None = None) -> None:
    """Run an agent in this kernel: `%%agent [options]` and a prompt; `%agent` for help."""
    if cell is None:
        with entry.explaining():
            import_or_explain("ipyagent.magic.commands").run(line)
    else:
        entry.run_blocking(line, cell)


def _on_page_message(page: object, message: object) -> None:
    """Pass a page's message to the notebook's desk."""
    import_module("ipyagent.magic.notebook").notebook().desk.on_message(page, message)
