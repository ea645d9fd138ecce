"""The views of a run: each listens to its events and gets approvals answered."""

from __future__ import annotations

import os
import sys
import uuid
from typing import Protocol

from IPython.display import publish_display_data

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.agent.session import Session
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.frontend import Frontend, Surface, running_shell
from ipyagent.schema import Event, PlanWaiting, Run, RunFinished, RunState
from ipyagent.ui import static_html
from ipyagent.ui.call_text import request_text
from ipyagent.ui.card import LiveCard
from ipyagent.ui.formatters import session_bundle
from ipyagent.ui.page_bridge import PageBridge
from ipyagent.ui.plain_text import render
from ipyagent.ui.plain_view import PlainView
from ipyagent.ui.questions import InputAsker, NoAsker
from ipyagent.ui.transcribe.run import transcribe

HANDSHAKE = 3.0
"""Seconds for the page to show that clicks arrive, before the question goes to `input()`."""

DRAWING = 30.0
"""The same if a page with the extension is open: it is there, and only busy."""


class View(Protocol):
    """Shows a run and asks its questions."""

    def __call__(self, event: Event, state: RunState) -> object:
        """Show an event."""
        ...

    async def ask(self, approval: Approval) -> None:
        """Put a question to the user; raises NoFrontendError if there is nobody."""
        ...


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
        self.prompt = InputAsker(cell.main, approvals, _print_approval)
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
        """Replace the card by what can be read without a kernel."""
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


class TerminalView(PlainView):
    """Plain text as it happens, and questions by `input()`."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        # https://no-color.org
        color = frontend.can_input and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        super().__init__(_write, color=color)
        # The event stream has shown the call already.
        self.asker = _asker(frontend, InputAsker(cell.main, approvals, lambda approval: None))

    async def ask(self, approval: Approval) -> None:
        """Ask at the terminal, if there is one."""
        await self.asker.ask(approval)


class SilentView:
    """Shows only the calls to approve: for `--json` and for scripts."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        self.asker = _asker(frontend, InputAsker(cell.main, approvals, _print_approval))

    def __call__(self, event: Event, state: RunState) -> None:
        """Show nothing."""

    async def ask(self, approval: Approval) -> None:
        """Ask by `input()`, if there is anybody."""
        await self.asker.ask(approval)


def view_for(
    cell: Cell, approvals: Approvals, frontend: Frontend, desk: PageBridge | None = None
) -> View:
    """Return the view for the front end; its pages learn of the run through the `desk`."""
    if frontend.surface is Surface.TERMINAL:
        return TerminalView(cell, approvals, frontend)
    if not frontend.can_input:
        return MirrorView()
    return NotebookView(cell, approvals, frontend.cell_id, desk)


def show_run(frontend: Frontend, run: Run) -> None:
    """Show a run that has ended."""
    if frontend.surface is Surface.TERMINAL:
        _write(render(transcribe(run)))
    else:
        publish_display_data(static_html.saved_bundle(run))


def show_graph(frontend: Frontend, session: Session) -> None:
    """Draw a session's conversation."""
    bundle = session_bundle(session)
    if frontend.surface is Surface.TERMINAL:
        _write(bundle["text/plain"] + "\n")
    else:
        publish_display_data(bundle)


def _asker(frontend: Frontend, prompt: InputAsker) -> InputAsker | NoAsker:
    return prompt if frontend.can_input else NoAsker()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print_approval(approval: Approval) -> None:
    _write(request_text(approval.subject, color=False) + "\n")
