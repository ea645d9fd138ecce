"""Sessions: their conversations, and the hook by which `Session.current()` finds the notebook's.

The hook is here so that loading the extension does not import sessions.
"""

from __future__ import annotations

from typing import Protocol


class SessionProvider(Protocol):
    """A notebook: it has a session, and can continue with another one."""

    def get_session(self) -> object:
        """Return the notebook's session, started if necessary; raises JournalError."""

    def use_session(self, session: object) -> None:
        """Continue with `session` in the next cells; raises JournalError."""


provider: SessionProvider | None = None
"""Set while the extension is loaded."""
