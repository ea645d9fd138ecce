"""Keep the user's own widgets alive while an agent cell awaits.

ipykernel 7.4 handles comm messages beside an awaiting cell without publishing busy and idle for
them. ipywidgets in the page holds back further changes of a widget until it has seen that idle, so
one keystroke during the cell would leave a text field dead, even after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ipyagent.json_types import JsonDict
from ipyagent.kernel.protocols import Shell, kernel_of


@contextmanager
def comm_status(shell: Shell) -> Iterator[None]:
    """Publish busy and idle around each comm message that arrives meanwhile."""
    kernel = kernel_of(shell)
    handlers = getattr(kernel, "shell_handlers", {})
    handle = handlers.get("comm_msg")
    publish = getattr(kernel, "_publish_status", None)
    if handle is None or publish is None:
        yield
        return

    def publish_and_handle(stream: object, ident: object, message: JsonDict) -> object:
        publish("busy", "shell", message)
        try:
            return handle(stream, ident, message)
        finally:
            publish("idle", "shell", message)

    handlers["comm_msg"] = publish_and_handle
    try:
        yield
    finally:
        handlers["comm_msg"] = handle
