"""Changes that were shown and wait for a person: good for one run, for a while, for that file."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from time import monotonic

from ipyagent.errors import ApprovalExpiredError, PathValidationError
from ipyagent.schema import PendingEdit
from ipyagent.tools.changes import Change
from ipyagent.tools.names import shown

_CONTEXT = 3  # lines


@dataclass(frozen=True)
class _Preview:
    file: str | None
    """The hash of the file that was shown; None: there was none."""
    at: float
    edit: PendingEdit | None


class Pending:
    """What was shown and may be run within `seconds`.

    It is kept in memory: the calls that wait for an answer end with the kernel as well.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._previews: dict[str, list[_Preview]] = {}
        self._lock = threading.Lock()

    def add(self, call: str, change: Change) -> None:
        """Remember what is shown for a call."""
        preview = _Preview(_hash(change.before), monotonic(), change.edit)
        with self._lock:
            self._previews.setdefault(call, []).append(preview)

    def take(self, call: str, path: str, now: bytes | None) -> None:
        """Use up what was shown for a call; raises AgentError if it holds no longer.

        `now` is what the file holds. A call that was never shown passes: nobody was asked.
        """
        with self._lock:
            previews = self._previews.get(call)
            # The newest: an older one belongs to a call that was denied.
            preview = previews.pop() if previews else None
        if preview is None:
            return
        if monotonic() - preview.at > self._seconds:
            raise ApprovalExpiredError(
                f"{shown(path)}: the preview is too old ({self._seconds:g} s), so nothing was "
                "done; call it again"
            )
        if preview.file != _hash(now):
            raise PathValidationError(
                f"{shown(path)}: changed since preview, so nothing was done; read it and call again"
            )

    def edits(self) -> tuple[PendingEdit, ...]:
        """The edits that wait, the oldest first."""
        with self._lock:
            waiting = [each for previews in self._previews.values() for each in previews]
        fresh = (each for each in waiting if monotonic() - each.at <= self._seconds)
        return tuple(each.edit for each in sorted(fresh, key=lambda p: p.at) if each.edit)


def digest(*call: object) -> str:
    """A short name for a call with these arguments."""
    return hashlib.sha256(repr(call).encode()).hexdigest()


def located(edit: PendingEdit, text: str) -> PendingEdit:
    """The edit with the lines around its first place in a text."""
    lines = text.removesuffix("\n").split("\n")
    first = edit.match_line - 1
    end = edit.match_line + edit.old_string.removesuffix("\n").count("\n")
    around = {
        "context_before": tuple(lines[max(0, first - _CONTEXT) : first]),
        "context_after": tuple(lines[end : end + _CONTEXT]),
    }
    return edit.model_copy(update=around)


def _hash(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()
