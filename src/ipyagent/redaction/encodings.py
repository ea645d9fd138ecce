"""A text with its encoded parts decoded, and the positions of the originals.

Base64 and hexadecimal are decoded at every possible start, so the surroundings of an encoded secret
do not matter; nor do line breaks inside of it.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, partial

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
