"""Texts that run other lines than a careless view shows, by the trick that they play."""

from __future__ import annotations

EVIL, HARMLESS = (
    "import os; os.remove('a.csv')",
    "print('The mean of the column price, nothing else')",
)

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]

_OPENERS = {
    "CSI": "\x1b[",
    "OSC": "\x1b]",
    "DCS": "\x1bP",
    "SOS": "\x1bX",
    "PM": "\x1b^",
    "APC": "\x1b_",
    "C1 CSI": "\x9b",
    "C1 OSC": "\x9d",
    "C1 DCS": "\x90",
    "C1 SOS": "\x98",
    "C1 PM": "\x9e",
    "C1 APC": "\x9f",
    "nF": "\x1b(",
    "nF with two intermediates": "\x1b$(",
}
_CLOSERS = {
    "BEL": "\x07",
    "ST": "\x1b\\",
    "C1 ST": "\x9c",
    "CAN": "\x18",
    "SUB": "\x1a",
    "another sequence": "\x1b[m",
    "nothing": "",
}
_BEFORE_THE_LINE = {
    "erase line": "\x1b[2K",
    "erase line in C1": "\x9b2K",
    "return and erase": "\r\x1b[K",
    "cursor up": "\x1b[1A\x1b[2K\r",
    "clear screen": "\x1b[2J\x1b[H",
    "backspaces": "\x08" * len(EVIL),
    "two returns": "\r\r",
    "conceal": "\x1b[8m",
}
_FLOODS = {
    "empty lines": "\n" * 3_000,
    "lines of blanks": "\n   " * 3_000,
    "blanks": " " * 4_000,
    "tabs": "\t" * 4_000,
    "no-break spaces": "\u00a0" * 4_000,
    "em quads": "\u2001" * 6_000,
    "zero-width spaces": "\u200b" * 3_000,
    "two zero-width characters in turn": "\u200b\u2060" * 1_500,
    "lines of zero-width spaces": "\n\u200b" * 3_000,
    "fillers": "\u3164" * 4_000,
    "combining marks": "\u0336" * 4_000,
}
_INVISIBLE = [
    *"\u00ad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202b\u202c",
    *"\u202d\u202e\u2060\u2061\u2066\u2067\u2068\u2069\u206a\u2800\u3164\ufe0f\ufeff\uffa0",
    *"\U000e0041\U000e0100\ue000",
]


def deceptions() -> dict[str, str]:
    """All texts by name."""
    texts = {f"U+{ord(c):04X} within": f"{EVIL}{c}{HARMLESS}" for c in [*CONTROLS, *_INVISIBLE]}
    texts |= {
        f"U+{ord(c):04X} in comments": f"# {c}\n{EVIL}\n# {c} harmless\n{HARMLESS}"
        for c in [*CONTROLS, *_INVISIBLE]
    }
    for opener, begins in _OPENERS.items():
        for closer, ends in _CLOSERS.items():
            text = f"# {begins}0;\n{EVIL}\n#{ends} harmless\n{HARMLESS}"
            texts[f"{opener} ended by {closer}"] = text
    texts |= {name: f"{EVIL}{escape}{HARMLESS}" for name, escape in _BEFORE_THE_LINE.items()}
    texts |= {name: f"{HARMLESS}{flood}{EVIL}" for name, flood in _FLOODS.items()}
    texts["one long line"] = f"{HARMLESS}; " + "x = 1; " * 2_000 + EVIL
    texts["an override"] = f"{HARMLESS} # \u202e{EVIL[::-1]}\u202c\n{EVIL}"
    texts["another heading"] = f"{HARMLESS}\n? read_file wants to run:\n  │ path: a.csv\n{EVIL}"
    return texts
