"""Numbers, durations and one-line summaries as people read them."""

from __future__ import annotations

from ipyagent.plaintext import strip_escapes, visible

LINE = 60
"""Characters of arguments, and of output, that fit into a summary line."""

MAX_CHARS, MAX_LINES = 5_000, 40
"""How much of an output a terminal shows at once."""


def shown(text: str) -> str:
    """Text as it is shown where every character counts: nothing acts, nothing hides."""
    return visible(strip_escapes(text))


def seconds(value: float) -> str:
    """A duration: 0.01 s, 12.3 s, 2 min 5 s."""
    if value < 10:
        return f"{max(value, 0.01):.2f} s"
    return f"{value:.1f} s" if value < 60 else f"{int(value // 60)} min {int(value % 60)} s"


def dollars(cost: float) -> str:
    """A price: $0.006, $1.25, <$0.001."""
    if 0 < cost < 0.001:
        return "<$0.001"
    return f"${cost:.3f}" if cost < 1 else f"${cost:,.2f}"


def plural(number: int, noun: str) -> str:
    """A count of things: 1 line, 2,000 lines."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_line(text: str) -> str:
    """The first line with something on it, cut to fit."""
    return shorten(next((line for line in text.split("\n") if line.strip()), ""))


def shorten(text: str, width: int = LINE) -> str:
    """Text in one line of at most `width` characters."""
    line = " ".join(shown(text[: 8 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def clipped(text: str, where: str) -> str:
    """Text cut to what a terminal should show at once, saying how much more there is and where."""
    kept = "\n".join(text[:MAX_CHARS].split("\n")[:MAX_LINES])
    if kept == text:
        return text
    rest = text[len(kept) :]
    lines = rest.count("\n")
    more = plural(lines, "more line") if lines else f"{len(rest):,} more characters"
    return f"{kept}\n… {more}; the full text is {where}"
