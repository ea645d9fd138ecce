"""The sessions that are open in this process: whoever opens one again gets the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from ipyagent.store.journal import Journal

if TYPE_CHECKING:
    from ipyagent.agent.session import Session

_open: WeakKeyDictionary[Journal, WeakValueDictionary[str, Session]] = WeakKeyDictionary()


def open_sessions(journal: Journal) -> WeakValueDictionary[str, Session]:
    """Return the open sessions of a journal, by id."""
    return _open.setdefault(journal, WeakValueDictionary())


def register(session: Session) -> Session:
    """Make a session known, and return it."""
    open_sessions(session.journal)[session.id] = session
    return session
