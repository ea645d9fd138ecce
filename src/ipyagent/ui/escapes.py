"""Filters of terminal escapes and hidden characters in streaming text."""

from __future__ import annotations

from ipyagent.plaintext import reveal_prose, strip_escapes


class EscapeFilter:
    """Strips terminal escapes from text in pieces, including those that are split."""

    _INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
    _MAX_HELD = 4_096  # no valid sequence is longer, and held-back text is invisible

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now; an incomplete sequence is held back."""
        text = self._held + piece.replace("\r", "")
        cut = len(text)
        while cut > 0 and not _whole(text[:cut]):
            cut = max(text.rfind(char, 0, cut) for char in self._INTRODUCERS)
        if len(text) - cut > self._MAX_HELD:
            cut = len(text)
        self._held = text[cut:]
        return strip_escapes(text[:cut])

    def flush(self) -> str:
        """Return the text held back, now that nothing follows."""
        pending, self._held = self._held, ""
        return strip_escapes(pending)


class ProseFilter:
    """Strips terminal escapes from streaming prose and makes other hidden characters visible."""

    _CONTEXT = 40

    def __init__(self) -> None:
        self._escapes = EscapeFilter()
        self._before = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown now."""
        return self._reveal(self._escapes.feed(piece))

    def flush(self) -> str:
        """Return the text held back, now that nothing follows."""
        rest = self._reveal(self._escapes.flush())
        self._before = ""
        return rest

    def _reveal(self, text: str) -> str:
        revealed = reveal_prose(text, self._before)
        self._before = (self._before + text)[-self._CONTEXT :]
        return revealed


def _whole(text: str) -> bool:
    """Return whether no sequence is open at the end: it would swallow the next text."""
    return strip_escapes(text + "~") == strip_escapes(text) + "~"
