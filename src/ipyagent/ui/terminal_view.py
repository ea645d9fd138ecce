"""The view of a run in a terminal."""

from __future__ import annotations

import os
import sys

from ipyagent.agent.approvals import Approval, Approvals
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.frontend import Frontend
from ipyagent.schema import Run
from ipyagent.ui.plain_text import render
from ipyagent.ui.plain_view import PlainView
from ipyagent.ui.questions import InputAsker, choose_asker
from ipyagent.ui.transcribe.run import transcribe


class TerminalView(PlainView):
    """Plain text as it happens, and questions by `input()`."""

    def __init__(self, cell: Cell, approvals: Approvals, frontend: Frontend) -> None:
        # https://no-color.org
        color = frontend.can_input and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        super().__init__(_write, color=color)
        # The event stream has shown the call already.
        self.asker = choose_asker(frontend, InputAsker(cell.main, approvals, lambda approval: None))

    async def ask(self, approval: Approval) -> None:
        """Ask at the terminal, if there is one."""
        await self.asker.ask(approval)


def write_run(run: Run) -> None:
    """Write a run that has ended."""
    _write(render(transcribe(run)))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
