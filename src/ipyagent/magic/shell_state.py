"""The state of the extension in one shell, in `shell.meta`, which IPython leaves to extensions.

It is kept there by its class, so that modules that are imported anew find nothing.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

from ipyagent.errors import ConfigError
from ipyagent.imports import working_folder
from ipyagent.kernel.cell_notes import CellNotes
from ipyagent.kernel.protocols import Shell

NOT_LOADED = (
    "the extension is not loaded any more: ipyagent's modules were taken out of sys.modules. "
    "`%reload_ext ipyagent` loads them again; restarting the kernel does as well"
)

NO_FOLDER = (
    "the folder that this kernel works in is not there any more. Make it again, or go to another "
    "one with `%cd FOLDER`, and run this cell again"
)


class ShellState:
    """The parts of a loaded extension that its cells use."""

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
            raise ConfigError(NO_FOLDER)
        return self.folder


def state_of(shell: Shell) -> ShellState:
    """Return the state of the extension in a shell; raises ConfigError if it is not loaded."""
    state: ShellState | None = shell.meta.get(ShellState)
    if state is None:
        raise ConfigError(NOT_LOADED)
    return state
