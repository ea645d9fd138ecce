"""Find secrets in a text, also encoded ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from ipyagent.redaction.encodings import decode_all
from ipyagent.redaction.names import is_ordinary_key
from ipyagent.redaction.secret_patterns import PLACES, TOKENS, Check

Span = tuple[int, int]
SHORTEST = 8
"""Characters; a shorter value would be found in ordinary words."""
_NAME = 100  # bytes that a name may have
_MEMORY = 256 << 20  # bytes; RE2 refuses patterns beyond two thirds of it


class SecretFinder:
    """Finds the `values`, and everything that looks like a secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # NUL marks earlier finds.
        stripped = (value.strip().strip("\0") for value in values)
        self.values = frozenset(value for value in stripped if len(value) >= SHORTEST)
        self._known: Any = None

    def spans(self, text: str) -> list[Span]:
        """Return the spans of secrets in the text, in order and without overlaps."""
        if len(text) < SHORTEST:
            return []
        raw = text.encode("utf-8", "surrogatepass")
        found = self._in_bytes(raw)
        if len(raw) == len(text):
            return found
        return list(_in_characters(raw, found))

    def _in_bytes(self, raw: bytes) -> list[Span]:
        found: list[Span] = []
        # Without a secret its neighbour may stand out: a token begins where a word begins.
        while spans := self._all_in(raw):
            more = _unite_spans(spans)
            found += more
            blanked = bytearray(raw)
            for start, end in more:
                blanked[start:end] = bytes(end - start)
            raw = bytes(blanked)
        return _unite_spans(found) if found else found

    def _all_in(self, raw: bytes) -> list[Span]:
        """Return the spans in the text and in what it encodes."""
        spans = self._here(raw)
        for text, back in decode_all(raw):
            spans += [back(*span) for span in self._here(text)]
        # An empty one would be found again and again.
        return [(start, end) for start, end in spans if end > start]

    def _here(self, raw: bytes) -> list[Span]:
        spans = self._values_in(raw) if self.values else []
        tokens, a_place = _patterns()
        spans += [match.span(1) for match in tokens.finditer(raw)]
        if not a_place.search(raw):
            return spans
        for place, check in _places():
            for match in place.finditer(raw):
                name = match[0][:_NAME].decode("utf-8", "replace")
                if check(match[1].decode("utf-8", "replace")) and not is_ordinary_key(name):
                    spans.append(match.span(1))
        return spans

    def _values_in(self, raw: bytes) -> list[Span]:
        self._known = self._known or _any_of(self.values)
        spans = []
        match = self._known.search(raw)
        while match:
            spans.append(match.span())
            match = self._known.search(raw, match.start() + 1)  # two may overlap
        return spans


@cache
def _patterns() -> tuple[Any, Any]:
    """Return patterns of tokens, and of any place where secrets are."""
    tokens = rf"(?:\b|_)({'|'.join(TOKENS)})"
    a_place = "|".join(f"(?:{place})" for place, _ in PLACES)
    return _compile(tokens), _compile(a_place)


@cache
def _places() -> list[tuple[Any, Check]]:
    """Return the pattern of each place, and the check of what stands there."""
    return [(_compile(place), check) for place, check in PLACES]


def _any_of(values: Iterable[str]) -> Any:
    import re2  # costs a few milliseconds, and most texts of a kernel are never looked at

    return _compile("|".join(map(re2.escape, sorted(values))), longest_match=True)


def _compile(pattern: str, *, longest_match: bool = False) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY
    options.longest_match = longest_match
    return re2.compile(pattern, options)


def _unite_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, with adjacent ones joined."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        elif end > start:
            united.append((start, end))
    return united


def _in_characters(raw: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans in UTF-8 as spans in its text."""
    read, characters = 0, 0
    for span in spans:
        bounds = []
        for bound in span:
            characters += len(raw[read:bound].decode("utf-8", "surrogatepass"))
            read = bound
            bounds.append(characters)
        yield bounds[0], bounds[1]
