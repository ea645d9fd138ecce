"""Line endings of Unix, Windows and old Macintoshes, alone or mixed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

MIXED = "mixed"
ENDING_NAMES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR", MIXED: MIXED}

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def normalize_newlines(text: str) -> str:
    """Return the text with a newline at the end of each line."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def detect_line_ending(text: str) -> str:
    """Return the line ending, MIXED for several, "" for a text of one line."""
    found = [end for end, count in _count_endings(text).items() if count]
    return MIXED if len(found) > 1 else "".join(found)


def most_common_ending(text: str) -> str:
    """Return the most common line ending."""
    counts = _count_endings(text)
    return max(counts, key=lambda end: counts[end])


def split_keeping_ends(text: str) -> list[str]:
    """Return the lines with their own endings."""
    return _LINE.findall(text)


def replace_keeping_endings(text: str, old: str, new: str) -> str:
    """Return the text with `old` replaced by `new`, both with newlines; its line endings stay.

    New lines end like the first of the lines they replace, else like most of the text.
    """
    plain = normalize_newlines(text)
    if plain == text:
        return text.replace(old, new)
    pairs = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]
    usual, parts, done = most_common_ending(text), [], 0
    for start in _find_all(plain, old):
        end = start + len(old)
        first, last = start + bisect_left(pairs, start), end + bisect_left(pairs, end)
        ended = re.search(r"\r\n|\r|\n", text[first:last])
        parts += [text[done:first], new.replace("\n", ended[0] if ended else usual)]
        done = last
    return "".join([*parts, text[done:]])


def _find_all(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _count_endings(text: str) -> dict[str, int]:
    both = text.count("\r\n")
    return {"\n": text.count("\n") - both, "\r\n": both, "\r": text.count("\r") - both}
