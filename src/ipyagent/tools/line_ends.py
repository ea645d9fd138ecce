"""Lines that end as on Unix, on Windows or on old Macintoshes, alone or mixed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

MIXED = "mixed"
NAMES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR", MIXED: MIXED}

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def with_newlines(text: str) -> str:
    """Return the text with a newline at the end of each line, however it ended."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def line_ends(text: str) -> str:
    """Return what its lines end with, MIXED if with several things, "" without a line end."""
    found = [end for end, count in _counts(text).items() if count]
    return MIXED if len(found) > 1 else "".join(found)


def usual_end(text: str) -> str:
    """Return what most of its lines end with."""
    counts = _counts(text)
    return max(counts, key=lambda end: counts[end])


def lines_with_ends(text: str) -> list[str]:
    """Return the lines with their own ends."""
    return _LINE.findall(text)


def replace_text(text: str, old: str, new: str) -> str:
    """Return the text with `old` replaced by `new`, both with newlines, and its own line ends.

    Lines that come in end like the first of those that go, else like most of the text.
    """
    plain = with_newlines(text)
    if plain == text:
        return text.replace(old, new)
    pairs = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]
    usual, parts, done = usual_end(text), [], 0
    for start in _places(plain, old):
        end = start + len(old)
        first, last = start + bisect_left(pairs, start), end + bisect_left(pairs, end)
        ended = re.search(r"\r\n|\r|\n", text[first:last])
        parts += [text[done:first], new.replace("\n", ended[0] if ended else usual)]
        done = last
    return "".join([*parts, text[done:]])


def _places(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _counts(text: str) -> dict[str, int]:
    both = text.count("\r\n")
    return {"\n": text.count("\n") - both, "\r\n": both, "\r": text.count("\r") - both}
