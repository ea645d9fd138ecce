"""Numbers, durations and one-line summaries for people."""

from __future__ import annotations

import unicodedata

from ipyagent.phrases import plural
from ipyagent.plaintext import strip_escapes, visible
from ipyagent.ui.reveal import reveal

LINE = 60
"""Characters of arguments, and of output, that fit into a summary line."""

MAX_CHARS, MAX_LINES = 5_000, 40
"""How much of an output a terminal shows at once."""


def clean_output(text: str) -> str:
    """Return a program's output as a terminal leaves it, hidden characters made visible.

    Only for output: in a call it would hide overwritten text, which runs all the same.
    """
    return visible(strip_escapes(text))


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


def first_line(text: str, width: int = LINE) -> str:
    """Return the first line of an output with something on it, cut to fit."""
    text = strip_escapes(text)
    return shorten(next((line for line in text.split("\n") if line.strip()), ""), width)


def shorten(text: str, width: int = LINE) -> str:
    """Return text in one line of at most `width` characters."""
    head = text[: 8 * width]
    line = " ".join(reveal(head).split())
    return line if len(line) <= width and head == text else f"{line[: width - 1]}…"


def cell_width(text: str) -> int:
    """Return how many cells of a terminal the text takes."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def clip_output(text: str, where: str) -> str:
    """Return text cut to one screen, with a note on how much more there is and where."""
    kept = "\n".join(text[:MAX_CHARS].split("\n")[:MAX_LINES])
    if kept == text:
        return text
    rest = text[len(kept) :]
    lines = rest.count("\n")
    more = plural(lines, "more line") if lines else f"{len(rest):,} more characters"
    return f"{kept}\n… {more}; the full text is {where}"
