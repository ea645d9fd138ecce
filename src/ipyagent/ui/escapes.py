"""Terminal escapes and hidden characters in text that streams."""

from __future__ import annotations

from ipyagent.plaintext import reveal_prose, strip_escapes


class EscapeFilter:
    """Strips terminal escapes from text that comes in pieces, also those that are cut in two."""

    _INTRODUCERS = "\x1b\x90\x98\x9b\x9d\x9e\x9f"
    _MAX_HELD = 4_096  # nothing honest is longer, and what is held back is not seen

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now; the beginning of a sequence is held back until it is whole."""
        text = self._held + piece.replace("\r", "")
        cut = len(text)
        while cut > 0 and not _whole(text[:cut]):
            cut = max(text.rfind(char, 0, cut) for char in self._INTRODUCERS)
        if len(text) - cut > self._MAX_HELD:
            cut = len(text)
        self._held = text[cut:]
        return strip_escapes(text[:cut])

    def flush(self) -> str:
        """What was held back, now that nothing follows."""
        held, self._held = self._held, ""
        return strip_escapes(held)


class ProseFilter:
    """Strips terminal escapes from prose that comes in pieces and spells out what else hides."""

    _CONTEXT = 40

    def __init__(self) -> None:
        self._escapes = EscapeFilter()
        self._before = ""

    def feed(self, piece: str) -> str:
        """Return what can be shown now."""
        return self._revealed(self._escapes.feed(piece))

    def flush(self) -> str:
        """Return what was held back, now that nothing follows."""
        rest = self._revealed(self._escapes.flush())
        self._before = ""
        return rest

    def _revealed(self, text: str) -> str:
        revealed = reveal_prose(text, self._before)
        self._before = (self._before + text)[-self._CONTEXT :]
        return revealed


def _whole(text: str) -> bool:
    """Whether no sequence is open at the end: it would swallow what comes next."""
    return strip_escapes(text + "~") == strip_escapes(text) + "~"
