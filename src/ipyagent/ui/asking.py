"""Asking the person: by buttons where clicks arrive, by `input()` elsewhere, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ipyagent.agent.approvals import Answer, Approval, Approvals
from ipyagent.errors import NoFrontendError
from ipyagent.kernel.main_thread import MainThread
from ipyagent.schema import DecidedBy, Decision

QUESTION = "Run {tool}? [y]es, [a]lways for this session, [n]o, or n and a reason: "


class Nobody:
    """Nobody can be asked: every question is declined at once, with the ways out."""

    async def ask(self, approval: Approval) -> None:
        """Decline."""
        raise NoFrontendError(
            "it needs a person's approval and nobody can be asked here. Ways out: run the "
            "notebook in a front end such as JupyterLab, or let it run unasked with "
            "`%%agent --confirm yolo` or IPYAGENT_AGENT__CONFIRM_MODE=yolo."
        )


class Prompt:
    """Questions by `input()`, on the main thread."""

    def __init__(
        self, main: MainThread, approvals: Approvals, show: Callable[[Approval], object]
    ) -> None:
        self.main, self.approvals, self.show = main, approvals, show

    async def ask(self, approval: Approval) -> None:
        """Show the whole call and wait for a clear answer."""
        self.show(approval)
        question = QUESTION.format(tool=approval.shown.call.name)
        while not approval.answer.done():
            try:
                text = await asyncio.wrap_future(self.main.post(lambda: input(question)))
            except EOFError:
                text = "n nobody answered (end of input)"
            if answer := understand(text):
                self.approvals.decide(approval.id, answer)


def understand(text: str) -> Answer | None:
    """A typed answer; None when it is neither yes nor no."""
    word, _, reason = text.strip().partition(" ")
    match word.lower().rstrip(",:;."):
        case "y" | "yes" | "ok" | "approve":
            return Answer(Decision.APPROVED, DecidedBy.PROMPT)
        case "a" | "always":
            return Answer(Decision.APPROVED, DecidedBy.PROMPT, always=True)
        case "n" | "no" | "deny":
            return Answer(Decision.DENIED, DecidedBy.PROMPT, reason.strip() or None)
    return None


def choose(question: str, choices: Sequence[str]) -> str:
    """One of `choices`, by number; the first one for an empty answer. On the main thread."""
    rows = "\n".join(f"  {number}  {choice}" for number, choice in enumerate(choices, 1))
    while True:
        text = input(f"{question}\n{rows}\nNumber [1]: ").strip() or "1"
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]
