"""Which session is the notebook's: whoever lives in a notebook says how to find it.

A module of its own, so that loading the extension need not import what a session is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipyagent.agent.session import Session

_finders: list[Callable[[], Session]] = []


def found_by(finder: Callable[[], Session]) -> None:
    """Ask `finder` from now on."""
    _finders[:] = [finder]


def forget() -> None:
    """There is no notebook any more."""
    _finders.clear()


def find() -> Session | None:
    """The notebook's session; None where there is no notebook. Raises JournalError."""
    return _finders[0]() if _finders else None
