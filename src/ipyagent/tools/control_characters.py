"""Control characters in the arguments of calls: they hide what would run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ipyagent.errors import InvalidArgumentsError
from ipyagent.json_types import JsonDict

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]|\r(?!\n)")
_NAMES = {
    "\0": "NUL",
    "\a": "bell",
    "\b": "backspace",
    "\v": "vertical tab",
    "\f": "form feed",
    "\r": "carriage return without a newline",
    "\x1b": "escape",
    "\x7f": "delete",
    "\x85": "next line",
    "\u2028": "line separator",
    "\u2029": "paragraph separator",
}


def check_control_characters(arguments: JsonDict) -> None:
    """Raise InvalidArgumentsError for text with controls other than tab, newline and CRLF.

    Terminals act on them, Python ends a line at a carriage return, and IPython at every character
    at which `str.splitlines` does, so the user would not read what runs.
    """
    for place, text in _walk_texts("", arguments):
        if match := _CONTROL.search(text):
            raise InvalidArgumentsError(_refusal_message(place, text, match))


def _walk_texts(place: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield place, value
        case dict():
            for key, each in value.items():
                yield f"a name in {place}" if place else "an argument's name", str(key)
                yield from _walk_texts(f"{place}.{key}" if place else str(key), each)
        case list() | tuple():
            for number, each in enumerate(value):
                yield from _walk_texts(f"{place}[{number}]", each)


def _refusal_message(place: str, text: str, match: re.Match[str]) -> str:
    char, at = match[0], match.start()
    before = text[:at].replace("\r\n", "\n")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    name = f" ({_NAMES[char]})" if char in _NAMES else ""
    escape = char.encode("unicode_escape").decode("ascii")
    return (
        f"{place} holds the control character U+{ord(char):04X}{name} at line {line}, column "
        f"{column}, so nobody was asked and nothing was done. Lines end with a newline; in a "
        f"string of source code write the escape sequence {escape} instead. Where a file needs "
        "the character itself, let code write it"
    )
