"""Small pieces of English: truncated texts, lists of words, counts, sizes, durations, prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def ellipsize(text: str, limit: int) -> str:
    """Return the text, cut to `limit` characters of which the last is then `…`."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank; "" if there is none."""
    return text.strip().partition("\n")[0].rstrip()


def join_words(words: Iterable[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`; "" for no words."""
    *others, last = [*words] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def join_some(words: Sequence[str], most: int) -> str:
    """Return at most `most` words with commas, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def limit_lines(lines: Sequence[str], most: int, more: str = "… and {} more") -> list[str]:
    """Return at most `most` lines, and one with the number of the others."""
    left_out = len(lines) - most
    return [*lines[:most], *[more.format(left_out)] * (left_out > 0)]


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list that is written as a text."""
    return frozenset(text.split())


def plural(number: int, noun: str) -> str:
    """Return a count of things: `1 line`, `2,000 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def human_size(size: float) -> str:
    """Return a number of bytes in words: `512 B`, `4.1 MB`."""
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


def seconds(value: float) -> str:
    """Format a duration: 0.01 s, 12.3 s, 2 min 5 s."""
    if value < 10:
        return f"{max(value, 0.01):.2f} s"
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"


def dollars(cost: float) -> str:
    """Format a price: $0.006, $1.25, <$0.001."""
    if 0 < cost < 0.001:
        return "<$0.001"
    return f"${cost:.3f}" if cost < 1 else f"${cost:,.2f}"
