"""Text that cannot act: terminal escapes taken out, invisible characters made visible."""

from __future__ import annotations

import re
import unicodedata

_STRING_BODY = r"[^\x07\x18\x1a\x1b\x80-\x9f]*"

_ERASED = re.compile(r"^[^\n]*(?:(?:\x1b\[|\x9b)2K|\r(?:\x1b\[|\x9b)0?K)", re.MULTILINE)
"""What stood on a line before it was erased: progress bars do that before they redraw."""

_ESCAPE = re.compile(
    rf"""
      (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?              # CSI: colours, cursor, modes
    | (?:\x1b\]|\x9d)                                   # OSC: title, links, clipboard
        (?: {_STRING_BODY} (?:\x07|\x1b\\|\x9c|[\x18\x1a]|(?=[\x1b\x80-\x9f])) | [^\n]* )
    | (?:\x1b[PX^_]|[\x90\x98\x9e\x9f])                 # DCS, SOS, PM, APC
        (?: [^\x18\x1a\x1b\x80-\x9f]* (?:\x1b\\|\x9c|[\x18\x1a]|(?=[\x1b\x80-\x9f])) | [^\n]* )
    | \x1b [ -/]+ [0-~]?                                # charsets and other nF sequences
    | \x1b [0-~]?                                       # two characters, or a lone ESC
    | [\x07\x18\x1a\x7f-\x9f]                           # what is left of BEL, CAN, SUB, DEL, C1
    """,
    re.VERBOSE,
)

# A terminal acts on these even inside a sequence, so they go before sequences are looked for.
_INERT = dict.fromkeys(set(range(0x20)) - set(map(ord, "\t\n\r\x07\x18\x1a\x1b")))

_BLANK = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
_BLANK |= {*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
"""Characters that count as letters, marks or symbols and yet show nothing."""


def strip_escapes(text: str) -> str:
    """The text as a terminal would leave it on the screen, without any escape sequence.

    All of ECMA-48 goes, in 7-bit and 8-bit form, and every other control character but newline and
    tab. Lines overwritten after a carriage return show what was written last. An unterminated
    string takes the rest of its line with it, never more. Lone surrogates become U+FFFD.
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
    """The text with every character that hides itself or its neighbours spelt out: ⟨U+202E⟩.

    Those are controls but newline and tab, bidirectional and zero-width marks, tags, variation
    selectors, fillers, private and unassigned code points, and lone surrogates.
    """
    return re.sub(r"[^\n\t -~]", _shown, text)


def _shown(match: re.Match[str]) -> str:
    char = match[0]
    hidden = not char.isprintable() and unicodedata.category(char) != "Zs"
    return f"⟨U+{ord(char):04X}⟩" if hidden or ord(char) in _BLANK else char
