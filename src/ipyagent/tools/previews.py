"""Previewed changes that wait for the user: valid for one run, for a while, for that file."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic

from ipyagent.digests import digest_content
from ipyagent.errors import ApprovalExpiredError, PathValidationError
from ipyagent.plaintext import spell
from ipyagent.schema import PendingEdit
from ipyagent.tools.file_change import Change

_CONTEXT = 3  # lines


@dataclass(frozen=True)
class _RecordedPreview:
    file_digest: str | None
    """The hash of the file that was shown; None: there was none."""
    recorded_at: float
    edit: PendingEdit | None


class Previews:
    """Previews that may be run within `seconds`.

    They are kept in memory: calls that wait for an answer end with the kernel as well.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._previews: dict[str, list[_RecordedPreview]] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all previews: a run begins."""
        with self._lock:
            self._previews.clear()

    def add(self, call: str, change: Change) -> None:
        """Remember the preview of a call, which is identified by the digest of its arguments."""
        preview = _RecordedPreview(digest_content(change.before), monotonic(), change.edit)
        with self._lock:
            self._previews.setdefault(call, []).append(preview)

    def consume(self, call: str, path: str, current: bytes | None) -> None:
        """Use up the preview of a call; raises AgentError if it is no longer valid.

        `current` is the content of the file. A call without a preview passes: nobody was asked.
        """
        with self._lock:
            previews = self._previews.get(call)
            # The newest: an older one belongs to a call that was denied.
            preview = previews.pop() if previews else None
        if preview is None:
            return
        if monotonic() - preview.recorded_at > self._seconds:
            raise ApprovalExpiredError(
                f"{spell(path)}: the preview is too old ({self._seconds:g} s), so nothing was "
                "done; call it again"
            )
        if preview.file_digest != digest_content(current):
            raise PathValidationError(
                f"{spell(path)}: changed since preview, so nothing was done; read it and call again"
            )

    def pending_edits(self) -> tuple[PendingEdit, ...]:
        """Return the waiting edits, oldest first."""
        with self._lock:
            waiting = [each for previews in self._previews.values() for each in previews]
        fresh = (each for each in waiting if monotonic() - each.recorded_at <= self._seconds)
        return tuple(each.edit for each in sorted(fresh, key=lambda p: p.recorded_at) if each.edit)


def with_context(edit: PendingEdit, text: str) -> PendingEdit:
    """Return the edit with the lines around its first match in a text."""
    lines = text.removesuffix("\n").split("\n")
    first = edit.match_line - 1
    end = edit.match_line + edit.old_string.removesuffix("\n").count("\n")
    around = {
        "context_before": tuple(lines[max(0, first - _CONTEXT) : first]),
        "context_after": tuple(lines[end : end + _CONTEXT]),
    }
    return edit.model_copy(update=around)
