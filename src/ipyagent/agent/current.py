"""Which session is the notebook's: whoever lives in a notebook says how to find it.

A module of its own, so that loading the extension need not import what a session is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipyagent.agent.session import Session

_finders: list[Callable[[], Session]] = []
_choosers: list[Callable[[Session], object]] = []


def found_by(finder: Callable[[], Session], chooser: Callable[[Session], object]) -> None:
    """Ask `finder` from now on, and tell `chooser` which session is to go on."""
    _finders[:], _choosers[:] = [finder], [chooser]


def forget() -> None:
    """There is no notebook any more."""
    _finders.clear()
    _choosers.clear()


def choose(session: Session) -> bool:
    """Make a session the notebook's; return whether there is a notebook. Raises JournalError."""
    for chooser in _choosers:
        chooser(session)
    return bool(_choosers)


def find() -> Session | None:
    """The notebook's session; None where there is no notebook. Raises JournalError."""
    return _finders[0]() if _finders else None
