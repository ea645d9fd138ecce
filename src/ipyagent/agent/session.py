"""A conversation: what was said so far, and what the person allowed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from ipyagent.schema import Message, Role, Run


@dataclass
class Session:
    """The conversation of a notebook, continued by every prompt."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    messages: list[Message] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    always_allowed: set[str] = field(default_factory=set)

    def add(self, message: Message) -> None:
        """Append a message."""
        self.messages.append(message)

    def close_turn(self, note: str) -> None:
        """Leave the conversation ready for the next prompt, however the turn ended.

        Providers want turns to alternate, so a turn without an answer is closed by a note.
        """
        if self.messages and self.messages[-1].role is not Role.ASSISTANT:
            self.add(Message.of(Role.ASSISTANT, f"[{note}]"))


_newest: list[Run] = []


def remember(run: Run) -> None:
    """Make `run` the newest one, `ipyagent.last`."""
    _newest[:] = [run]


def newest_run() -> Run | None:
    """The newest run of this process; None before the first."""
    return _newest[0] if _newest else None
