"""A page's copy of a transcript, kept as the front end keeps it: `labextension/src/channel.ts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PageTranscript:
    """Takes a run's messages; `now` is the transcript as JSON, None before the first snapshot."""

    def __init__(self) -> None:
        self.now: Any = None
        self.seq: int | None = None

    def receive(self, message: Mapping[str, Any]) -> None:
        """Take in a snapshot, or the changes that come next; others are a mistake."""
        match message:
            case {"type": "snapshot", "seq": seq, "transcript": transcript}:
                self.seq, self.now = seq, transcript
            case {"type": "changes", "seq": seq, "changes": changes}:
                assert self.seq is None or seq == self.seq + 1
                self.seq = seq
                for change in changes:
                    self._change(**change)

    def calls(self) -> list[Any]:
        """Return all calls, in order."""
        return [call for step in self.now["steps"] for call in step["calls"]] if self.now else []

    def _change(self, path: list[str | int], value: Any = None, append: str | None = None) -> None:
        if not path:
            self.now = value
            return
        parent = self.now
        *way, last = path
        for key in way:
            parent = parent[key]
        if append is not None:
            parent[last] += append
        elif isinstance(parent, list) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value
