"""The views of a run: each listens to its events and sees to it that approvals get an answer."""

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
from ipyagent.schema import Event, Run, RunFinished, fold
from ipyagent.ui import mirror
from ipyagent.ui.asking import Nobody, Prompt
from ipyagent.ui.calls import asked_text
from ipyagent.ui.card import LiveCard
from ipyagent.ui.desk import Desk
from ipyagent.ui.formatters import session_bundle
from ipyagent.ui.plain import PlainView, render

HANDSHAKE = 3.0
"""Seconds for the page to show that clicks arrive, before the question goes to `input()`."""

DRAWING = 30.0
"""The same where a page with the extension is open: it is there, and only busy."""


class View(Protocol):
    """Shows a run and asks its questions."""

    def __call__(self, event: Event) -> object:
        """Show an event."""
        ...

    async def ask(self, approval: Approval) -> None:
        """Put a question to the person; raises NoFrontendError if nobody is there."""
        ...

    def leave(self) -> None:
        """The plan goes on waiting when the cell is over: say how it is decided on later."""
        ...


class NotebookView:
    """A live card that is replaced by the static mirror under the same display id at the end."""

    def __init__(
        self, cell: Cell, approvals: Approvals, cell_id: str | None = None, desk: Desk | None = None
    ) -> None:
        self.cell = cell
        self.card = LiveCard(approvals, lambda: cell.stop(), cell_id)
        self.desk = desk
        self.prompt = Prompt(cell.main, approvals, _print_approval)
        self.transient = {"display_id": uuid.uuid4().hex}
        data = self.card.widget._repr_mimebundle_()
        data = data[0] if isinstance(data, tuple) else data
        publish_display_data(
            {**data, "text/plain": "ipyagent is running…"}, transient=self.transient
        )
        self.publisher = getattr(running_shell(), "display_pub", None)
        if desk is not None:
            desk.begin(self.card.feed)

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.card(event)
        if isinstance(event, RunFinished):
            self.leave()

    def leave(self) -> None:
        """What can be read without a kernel takes the place of the card."""
        data, how = mirror.bundle(self.card.run), {"transient": self.transient, "update": True}
        if self.cell.is_released and self.publisher is not None:
            # Its own cell's: the one that runs now may be captured.
            self.publisher.publish(data=data, **how)
        else:
            publish_display_data(data, **how)
        self.card.close()
        if self.desk is not None:
            self.desk.end(self.card.feed)

    async def ask(self, approval: Approval) -> None:
        """By buttons if clicks arrive, else by `input()`.

        Behind a cell that has ended the question waits for a click or `%agent approve`.
        """
        if self.cell.is_released:
            return
        if not await self.card.present(patience(self.desk), approval):
            await self.prompt.ask(approval)


def patience(desk: Desk | None) -> float:
    """Seconds in which the page has to draw its card."""
    return DRAWING if desk is not None and desk.pages.answering() else HANDSHAKE


class MirrorView(Nobody):
    """For kernels without a front end: the static mirror, once, when the run is over."""

    def __init__(self) -> None:
        self.run: Run | None = None

    def __call__(self, event: Event) -> None:
        """Take note; publish at the end."""
        self.run = fold(self.run, event)
        if isinstance(event, RunFinished):
            self.leave()

    def leave(self) -> None:
        """Publish the run as far as it is known."""
        if self.run is not None:
            publish_display_data(mirror.bundle(self.run))


class TerminalView(PlainView):
    """Plain text as it happens, and questions by `input()`."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        # https://no-color.org
        color = frontend.can_input and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        super().__init__(_write, color=color)
        # The stream of events has shown the call already.
        self.asker = _asker(frontend, Prompt(cell.main, approvals, lambda approval: None))

    async def ask(self, approval: Approval) -> None:
        """At the terminal, if there is one."""
        await self.asker.ask(approval)


class SilentView:
    """Shows nothing but the calls that have to be approved: for `--json` and for scripts."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        self.asker = _asker(frontend, Prompt(cell.main, approvals, _print_approval))

    def __call__(self, event: Event) -> None:
        """Show nothing."""

    def leave(self) -> None:
        """Show nothing."""

    async def ask(self, approval: Approval) -> None:
        """By `input()`, if anybody is there."""
        await self.asker.ask(approval)


def view_for(
    cell: Cell, approvals: Approvals, frontend: Frontend, desk: Desk | None = None
) -> View:
    """The view that suits the front end; its pages learn of the run by the `desk`."""
    if frontend.surface is Surface.TERMINAL:
        return TerminalView(cell, approvals, frontend)
    if not frontend.can_input:
        return MirrorView()
    return NotebookView(cell, approvals, frontend.cell_id, desk)


def show_run(frontend: Frontend, run: Run) -> None:
    """Show a run that has ended."""
    if frontend.surface is Surface.TERMINAL:
        _write(render(run))
    else:
        publish_display_data(mirror.bundle(run))


def show_graph(frontend: Frontend, session: Session) -> None:
    """Draw a session's conversation."""
    bundle = session_bundle(session)
    if frontend.surface is Surface.TERMINAL:
        _write(bundle["text/plain"] + "\n")
    else:
        publish_display_data(bundle)


def _asker(frontend: Frontend, prompt: Prompt) -> Prompt | Nobody:
    return prompt if frontend.can_input else Nobody()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print_approval(approval: Approval) -> None:
    _write(asked_text(approval.shown, color=False) + "\n")
