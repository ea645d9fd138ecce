"""The views of a run: each listens to its events and gets approvals answered.

What draws a run is imported when one is drawn: a script needs neither IPython nor widgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.agent.session.session import Session
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.shell import Frontend, Surface
from ipyagent.schema import Event, Run, RunState
from ipyagent.ui.questions import InputAsker, choose_asker, print_approval

if TYPE_CHECKING:
    from ipyagent.ui.page_bridge import PageBridge


class View(Protocol):
    """Shows a run and asks its questions."""

    def __call__(self, event: Event, state: RunState) -> object:
        """Show an event."""

    async def ask(self, approval: Approval) -> None:
        """Put a question to the user; raises NoFrontendError if there is nobody."""


class SilentView:
    """Shows only the calls to approve: for `--json` and for scripts."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        self.asker = choose_asker(frontend, InputAsker(cell.main, approvals, print_approval))

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
        from ipyagent.ui.plain_view import TerminalView

        return TerminalView(cell, approvals, frontend)
    from ipyagent.ui.card import MirrorView, NotebookView

    if not frontend.can_input:
        return MirrorView()
    return NotebookView(cell, approvals, frontend.cell_id, desk)


def show_run(frontend: Frontend, run: Run) -> None:
    """Show a run that has ended."""
    if frontend.surface is Surface.TERMINAL:
        from ipyagent.ui.plain_view import write_run

        write_run(run)
    else:
        from ipyagent.ui.card import publish_run

        publish_run(run)


def show_graph(frontend: Frontend, session: Session) -> None:
    """Draw a session's conversation."""
    from ipyagent.ui.static_html import session_bundle

    show_bundle(frontend, session_bundle(session))


def show_bundle(frontend: Frontend, bundle: dict[str, str]) -> None:
    """Show a text and its other formats."""
    if frontend.surface is Surface.TERMINAL:
        print(bundle["text/plain"], flush=True)  # noqa: T201 - this is the terminal's view
    else:
        from IPython.display import publish_display_data

        publish_display_data(bundle)
