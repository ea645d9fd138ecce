"""Text for people: others' made safe, so that it cannot act or hide, and small pieces of English.

strip_escapes   no terminal escapes: as a terminal would leave the text
visible         nothing hidden: invisible characters are spelled out, ⟨U+202E⟩
clean_text      both, for output of programs and servers
cite            exactly the text, on one line inside of our own: line breaks are spelled out too
flatten         visible, on one line: blanks and line breaks become one blank
excerpt         clean_text, flattened and cut
spell           names of files, with the escapes of Python, as code would write them
reveal_prose    visible, except what the script of a prose needs
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_STRING_BODY = r"[^\x07\x18\x1a\x1b\x80-\x9f]*"

_ERASED = re.compile(r"^[^\n]*(?:(?:\x1b\[|\x9b)2K|\r(?:\x1b\[|\x9b)0?K)", re.MULTILINE)
"""The text of a line before it was erased: progress bars do that before they redraw."""

_ESCAPE = re.compile(
    rf"""
      (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?              # CSI: colours, cursor, modes
    | (?:\x1b\]|\x9d)                                   # OSC: title, links, clipboard
        (?: {_STRING_BODY} (?:\x07|\x1b\\|\x9c|[\x18\x1a]|(?=[\x1b\x80-\x9f])) | [^\n]* )
    | (?:\x1b[PX^_]|[\x90\x98\x9e\x9f])                 # DCS, SOS, PM, APC
        (?: [^\x18\x1a\x1b\x80-\x9f]* (?:\x1b\\|\x9c|[\x18\x1a]|(?=[\x1b\x80-\x9f])) | [^\n]* )
    | \x1b [ -/]+ [0-~]?                                # charsets and other nF sequences
    | \x1b [0-~]?                                       # two characters, or a lone ESC
    | [\x07\x18\x1a\x7f-\x9f]                           # the rest of BEL, CAN, SUB, DEL, C1
    """,
    re.VERBOSE,
)

# A terminal acts on these even inside a sequence, so they go before sequences are looked for.
_INERT = dict.fromkeys(set(range(0x20)) - set(map(ord, "\t\n\r\x07\x18\x1a\x1b")))

_BLANK = {
    *"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0",
    *map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))),
}
"""Characters that count as letters, marks or symbols and yet show nothing."""


def strip_escapes(text: str) -> str:
    """Return the text as a terminal would leave it on the screen, without escape sequences.

    All of ECMA-48 is removed, in 7-bit and 8-bit form, and every other control character but
    newline and tab. Lines overwritten after a carriage return show their last state. An
    unterminated string takes the rest of its line with it, never more. Lone surrogates become
    U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(r"(?<!\r)\r+\n", "\n", text.translate(_INERT))
    text = _ESCAPE.sub("", _ERASED.sub("", text))
    if "\r" in text:
        text = "\n".join(map(_overwritten, text.split("\n")))
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _overwritten(line: str) -> str:
    screen: list[str] = []
    for part in line.split("\r"):
        screen[: len(part)] = part
    return "".join(screen)


def visible(text: str) -> str:
    """Return the text with every character spelled out that hides itself or others: ⟨U+202E⟩.

    Those are controls but newline and tab, bidirectional and zero-width marks, tags, variation
    selectors, fillers, private and unassigned code points, and lone surrogates.
    """
    return text if _hides_nothing(text) else re.sub(r"[^\n\t -~]", _spell_out, text)


def _hides_nothing(text: str) -> bool:
    """Return whether all of a text is plainly there, as of most texts."""
    is_printable = text.replace("\n", "").replace("\t", "").isprintable()
    return is_printable and (text.isascii() or _BLANK.isdisjoint(text))


def _spell_out(match: re.Match[str]) -> str:
    char = match[0]
    hidden = not char.isprintable() and unicodedata.category(char) != "Zs"
    return f"⟨U+{ord(char):04X}⟩" if hidden or char in _BLANK else char


def clean_text(text: str) -> str:
    """Return the text without escapes and with its hidden characters spelled out."""
    return visible(strip_escapes(text))


def cite(text: str) -> str:
    """Return others' text for use inside of ours: on one line, nothing hidden, nothing lost."""
    return visible(text).replace("\n", "↵")


def flatten(text: str) -> str:
    """Return the text on one line, hidden characters spelled out, each white space as one blank."""
    return " ".join(visible(text).split())


def excerpt(text: object, width: int) -> str:
    """Return others' text as one line of at most `width` characters; nothing acts or hides."""
    return ellipsize(flatten(strip_escapes(str(text)[: 4 * width])), width)


def spell(name: str) -> str:
    """Return a file's name with everything unprintable escaped as in Python's literals."""
    if name.isprintable():
        return name
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name
    )


_FLAG = "\U0001f3f4\U000e0067\U000e0062(?:{})\U000e007f".format(
    "|".join(
        "".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("eng", "sct", "wls")
    )
)
_HIDDEN_IN_PROSE = re.compile(rf"(?P<flag>{_FLAG})|[^\n\t -~]")
_MARKS = "\u200e\u200f\u061c"
_RTL = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_NEAR = 40  # characters between a directional mark and the script that needs it
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_KEYCAPS = "#*0123456789"


def reveal_prose(text: str, before: str = "") -> str:
    """Return prose with hidden characters spelled out, except those that its script needs.

    Those are joiners and variation selectors in emoji and in scripts that join letters, directional
    marks beside right-to-left text, zero-width spaces in scripts without spaces, and the flags of
    England, Scotland and Wales. `before` is the text before it.
    """
    if _hides_nothing(text):
        return text
    whole = before + text

    def spell(match: re.Match[str]) -> str:
        char = match[0]
        if match["flag"] or _is_needed(char, whole, match.start() + len(before)):
            return char
        return visible(char)

    return _HIDDEN_IN_PROSE.sub(spell, text)


def _is_needed(char: str, text: str, at: int) -> bool:
    """Return whether the script around a hidden character cannot do without it."""
    last = text[at - 1 : at]
    if char in _MARKS:
        return bool(_RTL.search(text, max(0, at - _NEAR), at + _NEAR))
    if char == "\u200b":
        return bool(_UNSPACED.match(last))
    if char in "\u200c\u200d":
        joins = unicodedata.category(last or " ") in ("Lo", "Lm", "Mn", "Mc", "So", "Sk")
        return joins and last >= "\u0590" and visible(last) in (last, "⟨U+FE0F⟩")
    if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        symbol = unicodedata.category(last or " ")[0] in "SPL" and visible(last) == last
        return bool(last) and (last in _KEYCAPS or (symbol and last > "\u00a8"))
    if "\u180b" <= char <= "\u180f":
        return "\u1800" <= last <= "\u18af"
    # Blank in Braille, and emoji that are newer than this Python's tables.
    return char == "\u2800" or "\U0001f000" <= char <= "\U0001fbff"


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


def image_text(width: int | None, height: int | None) -> str:
    """Return the text for an image where none can be drawn; sizes are in pixels."""
    return f"[image, {width}×{height} pixels]" if width and height else "[image]"  # noqa: RUF001
