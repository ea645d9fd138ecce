"""The views of a run in a notebook: a live card where pages are, its static form elsewhere.

The card is a widget that draws a run as it happens, and receives clicks.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path

import anywidget
from IPython.display import publish_display_data
from ipywidgets import Layout
from traitlets import Unicode

from ipyagent import schema
from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.digests import digest_bytes
from ipyagent.json_types import JsonDict
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.pages import handle_quietly
from ipyagent.kernel.shell import running_shell
from ipyagent.ui import static_html
from ipyagent.ui.feed import Feed
from ipyagent.ui.messages import CardModule
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.questions import InputAsker, NoAsker, print_approval

_STATIC = Path(__file__).parent / "static"


@cache
def card_module() -> CardModule:
    """Return the module that draws cards."""
    source, style = (_STATIC / name for name in ("widget.js", "widget.css"))
    digest = digest_bytes(source.read_bytes() + style.read_bytes())
    return CardModule(hash=digest, source=source.read_text("utf-8"), style=style.read_text("utf-8"))


class CardWidget(anywidget.AnyWidget):  # type: ignore[misc]
    """The page's side of a card; all traffic is custom messages.

    Widgets are sent with their code, and this one's is 60 kB. So it is a loader: the page's
    extension has the code, or the page asks for it once.
    """

    _esm = _STATIC / "loader.js"
    module_hash = Unicode().tag(sync=True)


class LiveCard:
    """A widget that shows a current run in the cell; `feed` listens to the run."""

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


HANDSHAKE = 3.0
"""Seconds for the page to show that clicks arrive, before the question goes to `input()`."""

DRAWING = 30.0
"""The same if a page with the extension is open: it is there, and only busy."""


class NotebookView:
    """A live card that is replaced by the static view under the same display id at the end."""

    asks_together = True

    def __init__(
        self,
        cell: Cell,
        approvals: Approvals,
        cell_id: str | None = None,
        desk: PageBridge | None = None,
    ) -> None:
        self.cell = cell
        self.card = LiveCard(approvals, lambda: cell.stop(), cell_id)
        self.desk = desk
        self.prompt = InputAsker(cell.main, approvals, print_approval)
        self.transient = {"display_id": uuid.uuid4().hex}
        self.card.feed.display_id = self.transient["display_id"]
        self.card.feed.main = cell.main
        data = self.card.widget._repr_mimebundle_()
        data = data[0] if isinstance(data, tuple) else data
        publish_display_data(
            {**data, "text/plain": "ipyagent is running…"}, transient=self.transient
        )
        shell = running_shell()
        self.publisher = getattr(shell, "display_pub", None)
        self.card.feed.number = shell.displayhook.prompt_count if shell else None
        if desk is not None:
            desk.begin(self.card.feed)

    def __call__(self, event: schema.Event, state: schema.RunState) -> None:
        """Show an event."""
        self.card.feed(event, state)
        if isinstance(event, schema.RunFinished | schema.PlanWaiting):
            self._replace(state.run)

    def show_child(self, event: schema.Event, state: schema.RunState) -> None:
        """Show an event of a run that a call has begun."""
        self.card.feed.show_child(event, state)

    def _replace(self, run: schema.Run) -> None:
        """Replace the card by a copy that needs no kernel."""
        data, how = static_html.saved_bundle(run), {"transient": self.transient, "update": True}
        if self.cell.is_released and self.publisher is not None:
            # Its own cell's: the one that runs now may be captured.
            self.publisher.publish(data=data, **how)
        else:
            publish_display_data(data, **how)
        self.card.close()
        if self.desk is not None:
            self.desk.end(self.card.feed)

    async def ask(self, approval: Approval) -> None:
        """Ask by buttons if clicks arrive, else by `input()`.

        After its cell has ended the question waits for a click or `%agent approve`.
        """
        if self.cell.is_released:
            return
        if not await self.card.wait_for_page(patience(self.desk), approval):
            await self.prompt.ask(approval)


def patience(desk: PageBridge | None) -> float:
    """Return the seconds in which the page has to draw its card."""
    return DRAWING if desk is not None and desk.pages.answering() else HANDSHAKE


class MirrorView(NoAsker):
    """The static view for kernels without a front end: published when the run is over."""

    def __call__(self, event: schema.Event, state: schema.RunState) -> None:
        """Publish the run at the end."""
        if isinstance(event, schema.RunFinished | schema.PlanWaiting):
            publish_run(state.run)


def publish_run(run: schema.Run) -> None:
    """Publish a run that has ended."""
    publish_display_data(static_html.saved_bundle(run), transient={"display_id": run.id})
