"""The members of IPython's shell, of ipykernel's kernel and of a comm that ipyagent uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from ipyagent.json_types import JsonDict, JsonMapping

Transform = Callable[[list[str]], list[str]]
"""A transformer of a cell's lines."""

Variables: TypeAlias = dict[str, Any]
"""A namespace's variables, which may be anything."""

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
