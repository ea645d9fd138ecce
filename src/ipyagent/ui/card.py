"""The live card: a widget that draws the run's events as they happen, and takes clicks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import anywidget
from ipywidgets import Layout

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.json_types import JsonDict
from ipyagent.kernel.quiet_comms import handle_quietly
from ipyagent.schema import Event, Run
from ipyagent.ui.feed import Feed

_STATIC = Path(__file__).parent / "static"


class CardWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """The page's side of a card; all traffic is custom messages, no synced state."""

    _esm = _STATIC / "widget.js"
    _css = _STATIC / "widget.css"


class LiveCard:
    """A listener that shows a run in the cell while it is on; `feed` is what it says."""

    def __init__(
        self, approvals: Approvals, stop: Callable[[], object], cell_id: str | None = None
    ) -> None:
        self.feed = Feed(approvals, stop, cell_id)
        _lasting().open()
        self.widget = CardWidget()
        self._send = self.widget.send
        self.feed.followers.append(self._send)
        self.widget.on_msg(self._heard)
        handle_quietly(self.widget.comm)
        _answer_while_blocked(self.widget)
        self._present = threading.Event()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.feed(event)

    async def present(self, seconds: float, approval: Approval) -> bool:
        """Whether the page has spoken during this cell, waiting up to `seconds` for it.

        A panel may answer before the card is drawn; then nobody has to be asked any more.
        """
        for _ in range(int(seconds / 0.05)):
            if self._present.is_set() or approval.answer.done():
                return True
            await asyncio.sleep(0.05)
        return self._present.is_set()

    @property
    def run(self) -> Run:
        """The run as far as it was told."""
        return self.feed.run

    def close(self) -> None:
        """Free the widget's connections."""
        self.feed.leave(self._send)
        self.widget.layout.close()
        self.widget.close()

    def _heard(self, _widget: object, message: JsonDict, _buffers: object) -> None:
        """A message from the page; it may come on any thread."""
        if message.get("kind") == "init":
            self._present.set()
        self.feed.heard(message, self._send)


@cache
def _lasting() -> Layout:
    """A widget that outlives every card.

    JupyterLab 4.6 ends the subshell of all widgets with the last of them, and one that is opened
    while that subshell is still being made is given it, dead: what is clicked there is lost.
    """
    return Layout()


def _answer_while_blocked(widget: CardWidget) -> None:
    """Let clicks arrive while a tool or a sync cell occupies the main thread.

    ipykernel 7.4 routes a comm's messages to the shell that last published on it, here the blocked
    main one, over the subshell that JupyterLab names. Where the hook exists, JupyterLab wins.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda _data, default: default
