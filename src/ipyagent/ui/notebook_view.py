"""The views of a run in a notebook: a live card where pages are, its static form elsewhere."""

from __future__ import annotations

import uuid

from IPython.display import publish_display_data

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.frontend import running_shell
from ipyagent.schema import Event, PlanWaiting, Run, RunFinished, RunState
from ipyagent.ui import static_html
from ipyagent.ui.card import LiveCard
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.questions import InputAsker, NoAsker, print_approval

HANDSHAKE = 3.0
"""Seconds for the page to show that clicks arrive, before the question goes to `input()`."""

DRAWING = 30.0
"""The same if a page with the extension is open: it is there, and only busy."""


class NotebookView:
    """A live card that is replaced by the static view under the same display id at the end."""

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
        data = self.card.widget._repr_mimebundle_()
        data = data[0] if isinstance(data, tuple) else data
        publish_display_data(
            {**data, "text/plain": "ipyagent is running…"}, transient=self.transient
        )
        self.publisher = getattr(running_shell(), "display_pub", None)
        if desk is not None:
            desk.begin(self.card.feed)

    def __call__(self, event: Event, state: RunState) -> None:
        """Show an event."""
        self.card(event, state)
        if isinstance(event, RunFinished | PlanWaiting):
            self._replace(state.run)

    def _replace(self, run: Run) -> None:
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

    def __call__(self, event: Event, state: RunState) -> None:
        """Publish the run at the end."""
        if isinstance(event, RunFinished | PlanWaiting):
            publish_display_data(static_html.saved_bundle(state.run))


def publish_run(run: Run) -> None:
    """Publish a run that has ended."""
    publish_display_data(static_html.saved_bundle(run))
