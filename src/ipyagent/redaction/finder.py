"""Find secrets in a text, also encoded ones, and those of the environment.

A text is searched with its encoded parts decoded. Base64 and hexadecimal are decoded at every
possible start, so the surroundings of an encoded secret do not matter; nor do line breaks inside of
it.
"""

from __future__ import annotations

import binascii
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Protocol

from ipyagent.redaction.secret_patterns import (
    PLACES,
    TOKENS,
    Check,
    Secrecy,
    is_identifier,
    is_ordinary_key,
    secrecy,
)

Back = Callable[[int, int], tuple[int, int]]
"""Maps a span in the decoded text to its span in the original, in bytes."""

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64 = bytes(c if c in _ALPHABET else {45: 43, 95: 47}.get(c, 65) for c in range(256))
"""Maps to the standard alphabet; other characters become A."""
_HEX = bytes(c if c in b"0123456789abcdefABCDEF" else 48 for c in range(256))
_BREAK = re.compile(rb"[\r\n]")
_PADDING = re.compile(rb"={1,2}")

_ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{10}")
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{16}")
_ESCAPE = re.compile(rb"(%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[nrt\"'/\\])")
_CHARS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def decode_all(text: bytes) -> Iterator[tuple[bytes, Back]]:
    """Yield the UTF-8 text read as base64, as hexadecimal, and with its escapes resolved."""
    found = _ENCODED.search(text)
    if found:
        yield from _in_groups(text, _BASE64, 4, 3, binascii.a2b_base64)
    if found and _HEXADECIMAL.search(text):
        yield from _in_groups(text, _HEX, 2, 1, binascii.unhexlify)
    if _ESCAPE.search(text):
        yield _unescape(text)
        if b"+" in text and b"%" in text:
            yield _unescape(text.replace(b"+", b" "))  # as forms write blanks


def _in_groups(
    text: bytes, table: bytes, wide: int, narrow: int, decode: Callable[[bytes], bytes]
) -> Iterator[tuple[bytes, Back]]:
    """Yield the text decoded in groups of `wide` characters to `narrow` bytes, at each offset."""
    joined = text.translate(table, b"\r\n") + table[:1] * (wide - 1)

    @cache  # seldom needed
    def breaks() -> list[int]:
        return [match.start() - nth for nth, match in enumerate(_BREAK.finditer(text))]

    def back(start: int, left: int, right: int) -> tuple[int, int]:
        first, last = start + left * wide // narrow, start - (-right * wide // narrow) - 1
        first, last = (place + bisect_right(breaks(), place) for place in (first, last))
        padding = _PADDING.match(text, last + 1)
        return first, min(padding.end() if padding else last + 1, len(text))

    for start in range(wide):
        end = start + (len(joined) - start) // wide * wide
        yield decode(joined[start:end]), partial(back, start)


def _unescape(text: bytes) -> tuple[bytes, Back]:
    r"""Return the text with %20, \u0020, \x20 and \n resolved."""
    parts = _ESCAPE.split(text)
    escapes = parts[1::2]
    resolved = {each: _resolve_escape(each) for each in set(escapes)}
    parts[1::2] = map(resolved.__getitem__, escapes)

    @cache  # seldom needed
    def places() -> tuple[list[int], list[int]]:
        ours, theirs, shift = [0], [0], 0
        for match in _ESCAPE.finditer(text):
            shift += len(match[0]) - len(resolved[match[0]])
            ours.append(match.end())
            theirs.append(match.end() - shift)
        return ours, theirs

    def place(position: int) -> int:
        ours, theirs = places()
        index = bisect_right(theirs, position) - 1
        return ours[index] + position - theirs[index]

    return b"".join(parts), lambda left, right: (place(left), place(right))


def _resolve_escape(escape: bytes) -> bytes:
    if escape.startswith(b"%"):
        return bytes([int(escape[1:], 16)])
    kind, digits = escape[1:2], escape[2:]
    if not digits:
        return _CHARS.get(kind, kind)
    number = int(digits, 16)
    return bytes([number]) if kind == b"x" else chr(number).encode("utf-8", "surrogatepass")


Span = tuple[int, int]
SHORTEST = 8
"""Characters; a shorter value would be found in ordinary words."""
_NAME = 100  # bytes that a name may have
_MEMORY = 256 << 20  # bytes; RE2 refuses patterns beyond two thirds of it


class _Pattern(Protocol):
    """A pattern of RE2's."""

    def search(self, text: bytes, start: int = 0, /) -> re.Match[bytes] | None: ...
    def finditer(self, text: bytes, /) -> Iterator[re.Match[bytes]]: ...


class SecretFinder:
    """Finds the `values`, and everything that looks like a secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # NUL marks earlier finds.
        stripped = (value.strip().strip("\0") for value in values)
        self.values = frozenset(value for value in stripped if len(value) >= SHORTEST)
        self._known: _Pattern | None = None

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
def _patterns() -> tuple[_Pattern, _Pattern]:
    """Return patterns of tokens, and of any place where secrets are."""
    tokens = rf"(?:\b|_)({'|'.join(TOKENS)})"
    a_place = "|".join(f"(?:{place})" for place, _ in PLACES)
    return _compile(tokens), _compile(a_place)


@cache
def _places() -> list[tuple[_Pattern, Check]]:
    """Return the pattern of each place, and the check of what stands there."""
    return [(_compile(place), check) for place, check in PLACES]


def _any_of(values: Iterable[str]) -> _Pattern:
    import re2  # costs a few milliseconds, and most texts of a kernel are never looked at

    return _compile("|".join(map(re2.escape, sorted(values))), longest_match=True)


def _compile(pattern: str, *, longest_match: bool = False) -> _Pattern:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY
    options.longest_match = longest_match
    compiled: _Pattern = re2.compile(pattern, options)
    return compiled


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


_PLAIN = re.compile(r"[+-]?[\d.,_]+(?:e[+-]?\d+)?|true|false|enabled|disabled", re.IGNORECASE)
# Names of secrets here, but of ordinary columns in tables.
_SESSION = re.compile(r"(?:^|_)session(?:_?id)?$|snmp_?community$", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^@]*", re.IGNORECASE)


def known_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables called key, token, password and the like.

    Addresses of webhooks count if a part looks random: whoever has one may write there. Left out
    are values of less than 8 characters, numbers, switches, existing files and folders, addresses
    without credentials, values that repeat the variable's name (`POSTGRES_PASSWORD=postgres`), and
    words if the name does not clearly say that they are secret (`JUPYTER_TOKEN=datascience`): they
    would be hidden everywhere.
    """
    # Names first: reading all values as well takes twice as long.
    named = [
        (name, secret)
        for name in environ
        if (secret := secrecy(name) or (_SESSION.search(name) and Secrecy.MAYBE))
    ]
    secrets = [(name, environ.get(name, "").strip(), secret) for name, secret in named]
    return frozenset(
        [
            value
            for name, value, secret in secrets
            if len(value) >= SHORTEST and _tells(name, value, secret)
        ]
    )


def _tells(name: str, value: str, secret: Secrecy) -> bool:
    if secret is Secrecy.MAYBE and (is_identifier(value) or value[0] in "/~"):
        return False
    if "webhook" in name.lower() and _ADDRESS.fullmatch(value):
        return any(
            len(part) >= 2 * SHORTEST and not is_identifier(part) for part in value.split("/")
        )
    is_ordinary = (
        _PLAIN.fullmatch(value) or _ADDRESS.fullmatch(value) or value.lower() in name.lower()
    )
    return not is_ordinary and not os.path.exists(value)  # noqa: PTH110 - Path.exists raises for long ones
