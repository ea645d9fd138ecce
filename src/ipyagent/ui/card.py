"""The live card: a widget that draws a run as it happens, and receives clicks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

import anywidget
from ipywidgets import Layout
from traitlets import Unicode

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.digests import digest_bytes
from ipyagent.json_types import JsonDict
from ipyagent.kernel.pages import handle_quietly
from ipyagent.schema import Event, RunState
from ipyagent.ui.feed import Feed
from ipyagent.ui.messages import CardModule

_STATIC = Path(__file__).parent / "static"


@cache
def card_module() -> CardModule:
    """Return the module that draws cards."""
    source, style = (_STATIC / name for name in ("widget.js", "widget.css"))
    digest = digest_bytes(source.read_bytes() + style.read_bytes())
    return CardModule(hash=digest, source=source.read_text("utf-8"), style=style.read_text("utf-8"))


class CardWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """The page's side of a card; all traffic is custom messages.

    Widgets are sent with their code, and this one's is 400 kB. So it is a loader: the page's
    extension has the code, or the page asks for it once.
    """

    _esm = _STATIC / "loader.js"
    module_hash = Unicode().tag(sync=True)


class LiveCard:
    """A listener that shows a current run in the cell; `feed` has its transcript."""

    def __init__(
        self, approvals: Approvals, stop: Callable[[], object], cell_id: str | None = None
    ) -> None:
        self.feed = Feed(approvals, stop, cell_id)
        _lasting_widget().open()
        self.widget = CardWidget(module_hash=card_module().hash)
        self._send = self.widget.send
        self.feed.followers.append(self._send)
        self.widget.on_msg(self._on_message)
        handle_quietly(self.widget.comm)
        _answer_while_blocked(self.widget)
        self._present = threading.Event()

    def __call__(self, event: Event, state: RunState) -> None:
        """Show an event."""
        self.feed(event, state)

    async def wait_for_page(self, seconds: float, approval: Approval) -> bool:
        """Return whether the page has sent anything during this cell, waiting up to `seconds`.

        A panel may answer before the card is drawn; then nobody has to be asked any more.
        """
        for _ in range(int(seconds / 0.05)):
            if self._present.is_set() or approval.answer.done():
                return True
            await asyncio.sleep(0.05)
        return self._present.is_set()

    def close(self) -> None:
        """Close the widget's connections."""
        self.feed.unfollow(self._send)
        self.widget.layout.close()
        self.widget.close()

    def _on_message(self, _widget: object, message: JsonDict, _buffers: object) -> None:
        """Handle a message from the page; it may come on any thread."""
        if message.get("type") in ("init", "module"):
            self._present.set()
        if message.get("type") == "module":
            self._send(card_module().to_dict())
        else:
            self.feed.on_message(message, self._send)


@cache
def _lasting_widget() -> Layout:
    """Return a widget that outlives every card.

    JupyterLab 4.6 ends the subshell of all widgets with the last of them, and one that is opened
    while that subshell is still being created gets it, dead: its clicks are lost.
    """
    return Layout()


def _answer_while_blocked(widget: CardWidget) -> None:
    """Let clicks arrive while a tool or a sync cell occupies the main thread.

    ipykernel 7.4 routes a comm's messages to the shell that last published on it, here the blocked
    main one, over the subshell that JupyterLab names. With the hook, JupyterLab's choice wins.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda _data, default: default
