"""Characters that JSON escapes as surrogate pairs, and that services send in halves."""

from __future__ import annotations

from collections.abc import Hashable

from ipyagent.json_arguments import well_formed


class Joiner:
    """Joins characters that were cut in two; each `place` is a text of its own."""

    def __init__(self) -> None:
        self._halves: dict[Hashable, str] = {}

    def __call__(self, place: Hashable, piece: str) -> str:
        """Return the text that is complete after `piece`: half a character is held back."""
        if piece.isascii() and not self._halves:
            return piece
        text = self._halves.pop(place, "") + piece
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[place], text = text[-1], text[:-1]
        return well_formed(text)
