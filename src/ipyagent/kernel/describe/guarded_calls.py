"""Calls of compiled functions that may run no Python code: such code is refused, not run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Generic, TypeVar

T = TypeVar("T")

_HARMLESS = "<frozen abc>"  # how `isinstance` asks whether something is a file


class ForeignCodeError(Exception):
    """Python code would have been run."""


class _GuardedCall(threading.Thread, Generic[T]):
    """A call in a thread of its own, where each Python function that is entered is looked at.

    A profile function belongs to its thread: the user's own one, in theirs, stays.
    """

    def __init__(self, call: Callable[[], T], allowed: tuple[str, ...]) -> None:
        super().__init__(name="ipyagent-describe", daemon=True)
        self._call, self._allowed = call, (_HARMLESS, *allowed)
        self.result: T | None = None

    def run(self) -> None:
        """Call the function; a failure leaves no result."""
        sys.setprofile(self._check)
        try:
            self.result = self._call()
        except BaseException:  # what Rust code panics with is no Exception
            self.result = None
        finally:
            sys.setprofile(None)

    def _check(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and not frame.f_code.co_filename.startswith(self._allowed):
            raise ForeignCodeError


def call_guarded(call: Callable[[], T], seconds: float, *allowed: str) -> T | None:
    """Return what a compiled function returns; None if it fails, or takes too long.

    It fails where it would run Python code of files whose path begins with none of `allowed`.
    """
    thread = _GuardedCall(call, allowed)
    thread.start()
    thread.join(seconds)
    return thread.result
