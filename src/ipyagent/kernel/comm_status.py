"""Keeps the person's own widgets alive while an agent cell awaits.

ipykernel 7.4 handles comm messages beside an awaiting cell without publishing busy and idle for
them. ipywidgets in the page holds back further changes of a widget until it has seen that idle, so
one keystroke during the cell would leave a text field dead, even after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def comm_status(shell: Any) -> Iterator[None]:
    """Publish busy and idle around each comm message that comes meanwhile."""
    kernel: Any = getattr(shell, "kernel", None)
    handlers = getattr(kernel, "shell_handlers", {})
    handle = handlers.get("comm_msg")
    if handle is None or not hasattr(kernel, "_publish_status"):
        yield
        return

    def told(stream: Any, ident: Any, message: Any) -> Any:
        kernel._publish_status("busy", "shell", message)
        try:
            return handle(stream, ident, message)
        finally:
            kernel._publish_status("idle", "shell", message)

    handlers["comm_msg"] = told
    try:
        yield
    finally:
        handlers["comm_msg"] = handle
