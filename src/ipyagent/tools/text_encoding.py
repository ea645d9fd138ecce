"""Encoding and line endings of a text file: read from its bytes, guessed else, kept in edits."""

from __future__ import annotations

import codecs
import mimetypes
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from ipyagent.errors import InvalidArgumentsError, PathValidationError
from ipyagent.plaintext import human_size, spell

BOM = "\ufeff"

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins as UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CANDIDATES = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("cp932", "euc_jp", "cp949", "gb18030", "big5", "tis_620", "cp866", "cp850", "mac_roman"),
]
_WESTERN, _WITH_EURO, _OLD_MAC = "cp1252", "iso8859_15", "mac_roman"
_OLD_MAC_WORD = re.compile(rb"[A-Za-z][\x80-\x9f][a-z](?s:.)*\r")
"""A letter within a word that Western European has elsewhere, above the line end of old Macs."""
_EASTERN = "cp1250"
_MISREAD = re.compile(r"[^\W\d][\xa3\xa5\xb3\xb9\xbf\xb6\xbc\xbe][^\W\d]|\b\xa3[^\W\d]")
"""Signs within words, where letters of Central Europe were taken for those of Western Europe."""
_SIGNS_ONLY = re.compile(
    rb"(?:[\t\n\r -~]|(?<![A-Za-z\x80-\xff])[\x80\xa0\xa3]+(?![A-Za-z\x80-\xff]))*"
)
"""Only currency signs and blanks of Western European are not ASCII, and none is part of a word."""
_PROBE = 1 << 20  # bytes that are looked at for a guess
_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f\x7f-\x9f]|\x1a.", re.DOTALL)


@dataclass(frozen=True)
class TextFile:
    """A file's text, byte order mark included, and its encoding."""

    text: str
    encoding: str
    guessed: bool = False

    @property
    def encoding_note(self) -> str:
        """The remark on the encoding; "" for UTF-8."""
        if self.encoding == "utf-8":
            return ""
        return f"{self.encoding}, guessed from its bytes" if self.guessed else self.encoding

    def encode(self, text: str, path: str) -> bytes:
        """Return another text in the file's encoding; raises InvalidArgumentsError."""
        try:
            return encode_text(text) if self.encoding == "utf-8" else text.encode(self.encoding)
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            raise InvalidArgumentsError(
                f"{spell(path)} is encoded as {self.encoding}, which has no {char!r} "
                f"(U+{ord(char):04X}); write it in other characters, or convert the file with code"
            ) from None


def encode_text(text: str) -> bytes:
    """Return a text in UTF-8; raises InvalidArgumentsError for half of a character."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(f"the text is not valid Unicode: {error.reason}") from None


def decode_file(data: bytes, path: str) -> TextFile:
    """Return a file's text; raises PathValidationError if it is not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark) and (text := _try_decode(data, encoding)) is not None:
            return TextFile(text, encoding)
    if b"\0" in data[:8192]:
        wide = _decode_utf16(data)
        if wide is None:
            raise PathValidationError(_binary_file_message(data, path))
        return wide
    try:
        return TextFile(data.decode(), "utf-8")
    except UnicodeDecodeError as error:
        guess = _guess_encoding(data)
        if guess is None:
            raise PathValidationError(
                f"{spell(path)} is not UTF-8 text ({human_size(len(data))}; byte {error.start} is "
                f"0x{data[error.start]:02x}) nor in any encoding that is known here; open it with "
                "code that names its encoding"
            ) from None
        return guess


def decode_utf8(data: bytes, path: str) -> str:
    """Return the text of a file that must be UTF-8; raises PathValidationError for others."""
    file = decode_file(data, path)
    if file.encoding != "utf-8":
        raise PathValidationError(
            f"{spell(path)} is not UTF-8 text, as it has to be, but {file.encoding_note}; "
            "convert it first"
        )
    return file.text


def _decode_utf16(data: bytes) -> TextFile | None:
    """Decode UTF-16 without a mark: every other byte of Latin text is zero, and no other one.

    A text of single bytes with a zero in each line has lines that are none in UTF-16.
    """
    first, second = data[0:8192:2].count(0), data[1:8192:2].count(0)
    if min(first, second) or max(first, second) < len(data[:8192]) // 8:
        return None
    encoding = "utf-16-be" if first else "utf-16-le"
    text = _try_decode(data, encoding)
    if text is None or _NO_TEXT.search(text) or text.count("\n") * 2 < data.count(b"\n"):
        return None
    return TextFile(text, encoding)


def _guess_encoding(data: bytes) -> TextFile | None:
    from charset_normalizer import from_bytes  # costs as much as a file to read

    if _SIGNS_ONLY.fullmatch(data[:_PROBE]):
        return TextFile(data.decode(_WESTERN), _WESTERN, guessed=True)
    matches = from_bytes(data[:_PROBE], cp_isolation=_CANDIDATES, enable_fallback=False)
    names = [name for match in matches for name in match.could_be_from_charset] or [_WESTERN]
    # Of Western European and its look-alikes, which have most letters in common, the usual one.
    ordered = [_WESTERN, *names] if _WESTERN in names else names
    if _WESTERN in names and b"\n" not in data and _OLD_MAC_WORD.search(data):
        ordered = [_OLD_MAC, *ordered]
    for name in ordered:
        text = _try_decode(data, name)
        if name == _WESTERN and text and "\N{CURRENCY SIGN}" in text:  # few have ever typed one
            text, name = _try_decode(data, _WITH_EURO), _WITH_EURO
        if text is not None and not _NO_TEXT.search(text) and text.encode(name) == data:
            eastern = _MISREAD.search(text) and _try_decode(data, _EASTERN)
            return TextFile(eastern, _EASTERN, True) if eastern else TextFile(text, name, True)
    return None


def _try_decode(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _binary_file_message(data: bytes, path: str) -> str:
    kind = mimetypes.guess_type(path)[0] or "unknown type"
    return (
        f"{spell(path)} is a binary file ({kind}, {human_size(len(data))}), not text; "
        "open it with code"
    )


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
