"""IPython's shell as ipyagent uses it, its front end, and notes of what the user's cells changed.

It is loaded with the extension, so it imports next to nothing: names are compared by identity,
after every cell.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Protocol

from ipyagent.json_types import JsonDict, JsonMapping
from ipyagent.values import Variables

Transform = Callable[[list[str]], list[str]]
"""A transformer of a cell's lines."""

CommCallback = Callable[[JsonDict], object]
"""A function that takes a comm's message."""


class Comm(Protocol):
    """A channel to one page, as the package `comm` makes it."""

    comm_id: str

    def handle_msg(self, message: JsonDict) -> object:
        """Pass a message on to the function that takes them."""

    def send(self, data: JsonDict) -> object:
        """Send a message to the page."""

    def close(self) -> object:
        """Close it, at both ends."""

    def on_msg(self, callback: CommCallback | None) -> object:
        """Set the function that takes messages."""

    def on_close(self, callback: CommCallback | None) -> object:
        """Set the function that is called when the page closes it."""


class MessageSession(Protocol):
    """The session that writes a kernel's messages (`jupyter_client.session`)."""

    def send(self, stream: object, kind: str, content: JsonMapping, *, parent: object) -> object:
        """Send a message."""


class Kernel(Protocol):
    """ipykernel's kernel."""

    session: MessageSession
    iopub_socket: object
    shell_handlers: dict[str, Callable[[object, object, JsonDict], object]]

    def get_parent(self) -> JsonDict:
        """Return the request that is being answered."""


class Events(Protocol):
    """A shell's events."""

    def register(self, event: str, function: Callable[..., object]) -> None:
        """Have a function called at an event."""

    def unregister(self, event: str, function: Callable[..., object]) -> None:
        """Undo `register`."""

    def trigger(self, event: str, *details: object) -> None:
        """Call the functions of an event."""


class MimeFormatter(Protocol):
    """A formatter of values, by their type."""

    def for_type_by_name(self, module: str, name: str, function: Callable[..., object]) -> object:
        """Set the function for a class that need not be imported."""


class DisplayFormatter(Protocol):
    """Makes a bundle of MIME types of a value."""

    formatters: dict[str, MimeFormatter]
    mimebundle_formatter: MimeFormatter
    format: Callable[..., tuple[JsonDict, JsonDict]]


class DisplayPublisher(Protocol):
    """Publishes displays."""

    def publish(
        self, data: JsonDict, metadata: JsonDict | None = None, **details: object
    ) -> object:
        """Publish a bundle."""

    def clear_output(self, wait: bool = False) -> object:
        """Clear the cell's outputs."""


class DisplayHook(Protocol):
    """Shows the value of a cell's last expression."""

    prompt_count: int

    def semicolon_at_end_of_expression(self, code: str) -> object:
        """Return whether the code ends in a semicolon."""


class Matchers(Protocol):
    """A shell's completer."""

    custom_matchers: list[Callable[..., object]]


class MagicsManager(Protocol):
    """A shell's magics, by their kind and name."""

    magics: dict[str, dict[str, object]]


class CellResult(Protocol):
    """The outcome of a cell."""

    error_before_exec: BaseException | None
    error_in_exec: BaseException | None


class Shell(Protocol):
    """IPython's shell, in a kernel or a terminal."""

    autoawait: bool
    loop_runner: object
    meta: dict[object, Any]
    compile: object
    user_ns: Variables
    user_ns_hidden: JsonMapping
    events: Events
    display_formatter: DisplayFormatter
    display_pub: DisplayPublisher
    display_trap: object
    displayhook: DisplayHook
    ast_transformers: Sequence[object]
    input_transformer_manager: Any
    input_transformers_cleanup: list[Transform]
    magics_manager: MagicsManager
    Completer: Matchers

    def get_parent(self) -> JsonDict:
        """Return the request that the running cell answers; only in a kernel."""

    def register_magic_function(self, function: object, kind: str, name: str) -> None:
        """Add a magic."""

    def run_cell(self, code: str, *, store_history: bool) -> CellResult:
        """Run a cell."""

    def run_cell_async(
        self, code: str, *, transformed_cell: str, store_history: bool
    ) -> Awaitable[CellResult]:
        """Run a cell that awaits."""

    def should_run_async(self, code: str, *, transformed_cell: str) -> bool:
        """Return whether a cell awaits."""

    def set_next_input(self, text: str, replace: bool = False) -> None:
        """Begin the next cell or prompt with a text."""

    def transform_cell(self, code: str) -> str:
        """Return a cell as Python."""


def kernel_of(shell: object) -> Kernel | None:
    """Return the kernel that a shell runs in; None in a terminal."""
    kernel: Kernel | None = getattr(shell, "kernel", None)
    return kernel


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


MOST = 500
"""Cells that are remembered."""

MOST_NAMES = 200
"""Names of a cell whose sizes are compared."""

_WORD = re.compile(r"[^\W\d]\w*")
_OURS = re.compile(r"\s*%{1,2}agent\b")


@dataclass(frozen=True)
class CellNote:
    """A cell of the user's and the names that it changed: "created", "changed" or "deleted"."""

    number: int | None
    code: str
    changes: Mapping[str, str]
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class CellNotes:
    """The notes of one shell, oldest first."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.notes: list[CellNote] = []
        self._before: tuple[str, dict[str, int], dict[str, str]] | None = None

    def enter(self, info: object) -> None:
        """Remember what the names hold before a cell; on `pre_run_cell`."""
        code = getattr(info, "raw_cell", None) or ""
        self._before = None if _OURS.match(code) else (code, self._ids(), self._sizes(code))

    def leave(self, result: object) -> None:
        """Note what a cell changed; on `post_run_cell`."""
        before, self._before = self._before, None
        if before is None:
            return
        code, ids, sizes = before
        now, now_sizes = self._ids(), self._sizes(code)
        changes = {name: "created" for name in now if name not in ids}
        changes |= {name: "changed" for name in now if ids.get(name, now[name]) != now[name]}
        changes |= {n: "changed" for n in sizes if n in now and sizes[n] != now_sizes.get(n)}
        changes |= {name: "deleted" for name in ids if name not in now}
        if changes:
            note = CellNote(getattr(result, "execution_count", None), code, changes)
            self.notes = [*self.notes, note][-MOST:]

    def _ids(self) -> dict[str, int]:
        hidden = self._shell.user_ns_hidden
        return {
            name: id(value)
            for name, value in list(self._shell.user_ns.items())
            if type(name) is str and name[:1] != "_" and hidden.get(name, self) is not value
        }

    def _sizes(self, code: str) -> dict[str, str]:
        """Return types and sizes of what a cell names: what it changes in place often shows."""
        # Another thread imports it in the background: it may be there in part.
        kind = getattr(sys.modules.get("ipyagent.values.describe"), "kind", None)
        if kind is None:
            return {}
        names = [name for name in dict.fromkeys(_WORD.findall(code)) if name[:1] != "_"]
        known = self._shell.user_ns
        return {name: kind(known[name]) for name in names[:MOST_NAMES] if name in known}
