"""Functions that an interrupt does not end halfway."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_UNINTERRUPTIBLE: set[CodeType] = set()
_NOT_REMINDED: set[CodeType] = set()


def without_interrupts(function: F) -> F:
    """Let no interrupt end `function` halfway: it takes effect when that is done."""
    _UNINTERRUPTIBLE.add(function.__code__)
    return function


def without_reminders(function: F) -> F:
    """Let no reminder end `function`, which saves the output of code; the user still can."""
    _NOT_REMINDED.add(function.__code__)
    return function


def is_uninterruptible(frame: FrameType | None) -> bool:
    """Return whether `frame` must not end halfway; a half-made import stays broken."""
    while frame is not None:
        code = frame.f_code
        if code in _UNINTERRUPTIBLE or code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def is_not_reminded(frame: FrameType | None) -> bool:
    """Return whether only the user may end `frame` halfway."""
    while frame is not None:
        if frame.f_code in _NOT_REMINDED:
            return True
        frame = frame.f_back
    return False
