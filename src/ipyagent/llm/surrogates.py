"""Texts that services send in pieces, and the halves of characters at their ends."""

from __future__ import annotations

from collections.abc import Hashable

from ipyagent.json_arguments import well_formed


class Joiner:
    """Joins characters that were cut in two; each `place` is a text of its own."""

    def __init__(self) -> None:
        self._halves: dict[Hashable, str] = {}
        self._texts: dict[Hashable, list[str]] = {}

    def __call__(self, place: Hashable, piece: str) -> str:
        """Return the text that is complete after `piece`: half a character is held back."""
        self._texts.setdefault(place, []).append(piece)
        if piece.isascii() and not self._halves:
            return piece
        text = self._halves.pop(place, "") + piece
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[place], text = text[-1], text[:-1]
        return well_formed(text)

    def rest(self, place: Hashable, whole: str) -> str:
        """Return the part of a text that has not come yet, of one that a service sends whole."""
        so_far = well_formed("".join(self._texts.get(place, ())))
        return well_formed(whole)[len(so_far) :] if well_formed(whole).startswith(so_far) else ""

    def has(self, place: Hashable) -> bool:
        """Return whether any of a text has come."""
        return any(self._texts.get(place, ()))
