"""Comms whose messages do not count as code that has run."""

from __future__ import annotations

from ipyagent.json_types import JsonDict
from ipyagent.kernel.protocols import Comm, CommCallback


def handle_quietly(comm: Comm) -> None:
    """Have messages handled without `pre_execute` and `post_execute`.

    The package `comm` triggers both around each message. On the second one matplotlib shows and
    closes all figures, also those that the running cell has begun to draw; the picture belongs to
    the message and is drawn nowhere.
    """
    if not hasattr(comm, "_msg_callback"):
        return

    def handle(message: JsonDict) -> None:
        callback: CommCallback | None = getattr(comm, "_msg_callback", None)
        if callback is not None:
            callback(message)

    comm.handle_msg = handle  # type: ignore[method-assign]
