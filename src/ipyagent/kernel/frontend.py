"""The front end of the running cell: Jupyter, a terminal, or none."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum

from ipyagent.kernel.protocols import Shell, kernel_of


class Surface(StrEnum):
    """The kind of output on which a run is drawn."""

    NOTEBOOK = "notebook"
    TERMINAL = "terminal"


@dataclass(frozen=True)
class Frontend:
    """The front end of the running cell.

    `can_input` says whether `input()` would reach a user. In a kernel, standard input is never a
    tty, so the request itself is asked: nbclient, papermill and nbval forbid stdin. `cell_id` and
    `client` are the notebook's cell and the page that asked to run it, if known.
    """

    surface: Surface
    can_input: bool
    cell_id: str | None = None
    client: str | None = None


def detect(shell: Shell | None) -> Frontend:
    """Return the front end of the running cell; `shell` is IPython's, or None in a script."""
    if shell is not None and kernel_of(shell) is not None:
        parent = shell.get_parent()
        return Frontend(
            Surface.NOTEBOOK,
            can_input=bool(parent.get("content", {}).get("allow_stdin", False)),
            cell_id=parent.get("metadata", {}).get("cellId"),
            client=parent.get("header", {}).get("session"),
        )
    return Frontend(Surface.TERMINAL, can_input=_is_tty())


def _is_tty() -> bool:
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # no stdin at all, or a closed one
        return False


def running_shell() -> Shell | None:
    """Return IPython's shell if there is one, without importing IPython into plain scripts."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None
