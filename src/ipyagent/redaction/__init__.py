"""The redactor: it finds the secrets in everything that is shown, stored or logged, and hides them.

A text is searched with its encoded parts decoded. Base64 and hexadecimal are decoded at every
possible start, so the surroundings of an encoded secret do not matter; nor do line breaks inside of
it. Streaming text is redacted as well.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import Enum
from functools import cache, lru_cache, partial
from operator import is_
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from ipyagent.redaction.secret_patterns import (
    MASK as MASK,
    PLACES,
    SHORTEST,
    TOKENS,
    Check,
    Secrecy as Secrecy,
    is_ordinary_key,
    is_secret_name as is_secret_name,
    known_secrets as known_secrets,
    mask_arguments as mask_arguments,
    secrecy as secrecy,
    url_passwords as url_passwords,
)

Back = Callable[[int, int], tuple[int, int]]
"""Maps a span in the decoded text to its span in the original, in bytes."""

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64 = bytes(c if c in _ALPHABET else {45: 43, 95: 47}.get(c, 65) for c in range(256))
"""Maps to the standard alphabet; other characters become A."""
_HEX = bytes(c if c in b"0123456789abcdefABCDEF" else 48 for c in range(256))
_BREAK = re.compile(rb"[\r\n]")
_PADDING = re.compile(rb"={1,2}")

_ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{10}")
_HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{16}")
_ESCAPE = re.compile(rb"(%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[nrt\"'/\\])")
_CHARS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def decode_all(text: bytes) -> Iterator[tuple[bytes, Back]]:
    """Yield the UTF-8 text read as base64, as hexadecimal, and with its escapes resolved."""
    found = _ENCODED.search(text)
    if found:
        yield from _in_groups(text, _BASE64, 4, 3, binascii.a2b_base64)
    if found and _HEXADECIMAL.search(text):
        yield from _in_groups(text, _HEX, 2, 1, binascii.unhexlify)
    if _ESCAPE.search(text):
        yield _unescape(text)
        if b"+" in text and b"%" in text:
            yield _unescape(text.replace(b"+", b" "))  # as forms write blanks


def _in_groups(
    text: bytes, table: bytes, wide: int, narrow: int, decode: Callable[[bytes], bytes]
) -> Iterator[tuple[bytes, Back]]:
    """Yield the text decoded in groups of `wide` characters to `narrow` bytes, at each offset."""
    joined = text.translate(table, b"\r\n") + table[:1] * (wide - 1)

    @cache  # seldom needed
    def breaks() -> list[int]:
        return [match.start() - nth for nth, match in enumerate(_BREAK.finditer(text))]

    def back(start: int, left: int, right: int) -> tuple[int, int]:
        first, last = start + left * wide // narrow, start - (-right * wide // narrow) - 1
        first, last = (place + bisect_right(breaks(), place) for place in (first, last))
        padding = _PADDING.match(text, last + 1)
        return first, min(padding.end() if padding else last + 1, len(text))

    for start in range(wide):
        end = start + (len(joined) - start) // wide * wide
        yield decode(joined[start:end]), partial(back, start)


def _unescape(text: bytes) -> tuple[bytes, Back]:
    r"""Return the text with %20, \u0020, \x20 and \n resolved."""
    parts = _ESCAPE.split(text)
    escapes = parts[1::2]
    resolved = {each: _resolve_escape(each) for each in set(escapes)}
    parts[1::2] = map(resolved.__getitem__, escapes)

    @cache  # seldom needed
    def places() -> tuple[list[int], list[int]]:
        ours, theirs, shift = [0], [0], 0
        for match in _ESCAPE.finditer(text):
            shift += len(match[0]) - len(resolved[match[0]])
            ours.append(match.end())
            theirs.append(match.end() - shift)
        return ours, theirs

    def place(position: int) -> int:
        ours, theirs = places()
        index = bisect_right(theirs, position) - 1
        return ours[index] + position - theirs[index]

    return b"".join(parts), lambda left, right: (place(left), place(right))


def _resolve_escape(escape: bytes) -> bytes:
    if escape.startswith(b"%"):
        return bytes([int(escape[1:], 16)])
    kind, digits = escape[1:2], escape[2:]
    if not digits:
        return _CHARS.get(kind, kind)
    number = int(digits, 16)
    return bytes([number]) if kind == b"x" else chr(number).encode("utf-8", "surrogatepass")


Span = tuple[int, int]
_NAME = 100  # bytes that a name may have
_MEMORY = 256 << 20  # bytes; RE2 refuses patterns beyond two thirds of it


class _Pattern(Protocol):
    """A pattern of RE2's."""

    def search(self, text: bytes, start: int = 0, /) -> re.Match[bytes] | None: ...
    def finditer(self, text: bytes, /) -> Iterator[re.Match[bytes]]: ...


class SecretFinder:
    """Finds the `values`, and everything that looks like a secret."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        # NUL marks earlier finds.
        stripped = (value.strip().strip("\0") for value in values)
        self.values = frozenset(value for value in stripped if len(value) >= SHORTEST)
        self._known: _Pattern | None = None

    def spans(self, text: str) -> list[Span]:
        """Return the spans of secrets in the text, in order and without overlaps."""
        if len(text) < SHORTEST:
            return []
        raw = text.encode("utf-8", "surrogatepass")
        found = self._in_bytes(raw)
        return found if len(raw) == len(text) else list(_in_characters(raw, found))

    def _in_bytes(self, raw: bytes) -> list[Span]:
        found: list[Span] = []
        # Without a secret its neighbour may stand out: a token begins where a word begins.
        while spans := self._all_in(raw):
            found += spans
            blanked = bytearray(raw)
            for start, end in spans:
                blanked[start:end] = bytes(end - start)
            raw = bytes(blanked)
        return _unite_spans(found)

    def _all_in(self, raw: bytes) -> list[Span]:
        """Return the spans in the text and in what it encodes."""
        spans = self._here(raw)
        for text, back in decode_all(raw):
            spans += [back(*span) for span in self._here(text)]
        # An empty one would be found again and again.
        return [(start, end) for start, end in spans if end > start]

    def _here(self, raw: bytes) -> list[Span]:
        spans = self._values_in(raw) if self.values else []
        tokens, a_place = _patterns()
        spans += [match.span(1) for match in tokens.finditer(raw)]
        if not a_place.search(raw):
            return spans
        for place, check in _places():
            for match in place.finditer(raw):
                name = match[0][:_NAME].decode("utf-8", "replace")
                if check(match[1].decode("utf-8", "replace")) and not is_ordinary_key(name):
                    spans.append(match.span(1))
        return spans

    def _values_in(self, raw: bytes) -> list[Span]:
        self._known = self._known or _any_of(self.values)
        spans = []
        match = self._known.search(raw)
        while match:
            spans.append(match.span())
            match = self._known.search(raw, match.start() + 1)  # two may overlap
        return spans


@cache
def _patterns() -> tuple[_Pattern, _Pattern]:
    """Return patterns of tokens, and of any place where secrets are."""
    tokens = rf"(?:\b|_)({'|'.join(TOKENS)})"
    a_place = "|".join(f"(?:{place})" for place, _ in PLACES)
    return _compile(tokens), _compile(a_place)


@cache
def _places() -> list[tuple[_Pattern, Check]]:
    """Return the pattern of each place, and the check of what stands there."""
    return [(_compile(place), check) for place, check in PLACES]


def _any_of(values: Iterable[str]) -> _Pattern:
    import re2  # costs a few milliseconds, and most texts of a kernel are never looked at

    return _compile("|".join(map(re2.escape, sorted(values))), longest_match=True)


def _compile(pattern: str, *, longest_match: bool = False) -> _Pattern:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY
    options.longest_match = longest_match
    compiled: _Pattern = re2.compile(pattern, options)
    return compiled


def _unite_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, with adjacent ones joined."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        elif end > start:
            united.append((start, end))
    return united


def _in_characters(raw: bytes, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans in UTF-8 as spans in its text."""
    read, characters = 0, 0
    for start, end in spans:
        first = characters + len(raw[read:start].decode("utf-8", "surrogatepass"))
        characters = first + len(raw[start:end].decode("utf-8", "surrogatepass"))
        read = end
        yield first, characters


HIDDEN = "\u2039hidden\u203a"
"""Shown in a secret's place."""

_WORD = re.compile(r"[!-~\u00a1-\u0dff]*")
"""Scripts without spaces between words have no words here: their text need not wait."""
_CONTEXT = 512  # characters before a secret that may give it away
_LONG = 8_192
_ENDLESS = 65_536
_BEGINNING = 4
"""Characters of a known secret that count as its beginning."""
_CAPITALS = "A1B2C3D4E5F6G7H8"
_CONTINUATIONS = (
    *("0a1b2c3d4e5f6789" * 5, _CAPITALS * 2, "aZ0bY1cX2dW3eV4f" * 6),
    *(_CAPITALS[:count] for count in range(1, len(_CAPITALS) + 1)),
)
"""Continuations of tokens: hexadecimal digits, capitals and digits, letters and digits.

Some tokens of capitals and digits have a length of their own, so none that is longer is one.
"""
_REST = re.compile(r"[\w.~+/=%-]*", re.ASCII)
"""The rest of a secret that is longer than any."""


class StreamRedactor:
    """Shows text as it arrives: each word when it is over, a secret when it is hidden.

    Words of more than 8,192 characters are shown in parts; of a secret of more than 65,536 the rest
    is dropped.
    """

    def __init__(self, finder: SecretFinder) -> None:
        self._finder = finder
        self._phrases = [value for value in finder.values if not _WORD.fullmatch(value)]
        self._long = max(_LONG, 4 * max(map(len, finder.values), default=0))
        self._patience = self._long
        self._shown = ""  # raw, for the context that it gives
        self._held = ""
        self._is_hiding = False  # the last shown text is HIDDEN
        self._endless = False

    def add(self, text: str) -> str:
        """Return the text that can be shown after this piece."""
        if self._endless:
            rest = _REST.match(text)
            text = text[rest.end() :] if rest else text
            self._endless = not text
        self._held += text
        if _WORD.fullmatch(text) and len(self._held) < self._patience:
            return ""
        return self._show(final=False)

    def pause(self) -> str:
        """Return the text held back, before text of another kind; more may follow all the same.

        A possible beginning of a secret stays held back, and so does the rest of a word that was
        shown in part: a secret could come in single letters, with text of another kind between.
        """
        is_rest = bool(_word_length(self._shown[::-1]) and _word_length(self._held))
        if not self._held or is_rest or self._may_go_on():
            return ""
        return self._show(final=True)

    def end(self) -> str:
        """Return the text still held back."""
        return self._show(final=True)

    def _may_go_on(self) -> bool:
        text = self._shown + self._held
        if len(text) - _find_beginning(text, self._finder.values) >= _BEGINNING:
            return True
        so_far = self._finder.spans(text)
        return any(self._finder.spans(text + more) != so_far for more in _CONTINUATIONS)

    def _show(self, *, final: bool) -> str:
        text = self._shown + self._held
        spans = self._finder.spans(text)
        safe = len(text) if final else max(len(self._shown), self._safe(text, spans))
        redacted = self._redact(text, safe, spans)
        if len(text) - safe > _ENDLESS:
            redacted, safe = redacted + HIDDEN, len(text)
            self._endless = self._is_hiding = True
        self._keep(text, safe)
        return redacted

    def _safe(self, text: str, spans: list[Span]) -> int:
        """Return how far the text is certain: to the last word, or an unfinished secret."""
        word = len(text) - _word_length(text[::-1])
        begun = _find_beginning(text, self._phrases)
        is_open = spans and not text[spans[-1][1] :].strip()
        safe = min(word, begun, spans[-1][0] if is_open else len(text))
        if is_open or begun < len(text) or len(text) - safe < self._long:
            return safe
        middle = len(text) - self._long // 2
        return next((end for start, end in spans if start < middle < end), middle)

    def _redact(self, text: str, safe: int, spans: list[Span]) -> str:
        parts, done = [], len(self._shown)
        for start, end in spans:
            if done < end and start < safe:
                parts.append(text[done:start])
                # The continuation of a secret that is hidden already.
                parts.append("" if self._is_hiding and start <= done else HIDDEN)
                done, self._is_hiding = min(end, safe), True
        parts.append(text[done:safe])
        self._is_hiding = self._is_hiding and done == safe
        return "".join(parts)

    def _keep(self, text: str, safe: int) -> None:
        """Hold unsafe text, and remember some of the safe text, from a word's beginning."""
        start = max(0, safe - _CONTEXT)
        rest = _word_length(text[start:safe])
        if start and start + rest < safe:
            start += rest
        self._shown, self._held = text[start:safe], text[safe:]
        self._patience = max(self._long, 2 * len(self._held))


def _word_length(text: str) -> int:
    word = _WORD.match(text)
    return word.end() if word else 0


def _find_beginning(text: str, phrases: Iterable[str]) -> int:
    """Return where a phrase begins that the end of the text may begin, or the text's length."""
    return min((_begins_at(text, each) for each in phrases), default=len(text))


def _begins_at(text: str, phrase: str) -> int:
    place = text.find(phrase[0], max(0, len(text) - len(phrase) + 1))
    while place >= 0 and not phrase.startswith(text[place:]):
        place = text.find(phrase[0], place + 1)
    return place if place >= 0 else len(text)


AnyModel = TypeVar("AnyModel", bound=BaseModel)

_WINDOW = 10_000
_DEPTH = 200
_WORDLESS = {bool, int, float, datetime, type(None)}
_PLAIN = {str, tuple, list, dict}
_RECENT_TEXTS, _RECENT_LENGTH = 500, 2_000  # redacted texts that are remembered, and their length
_CLEAN_TEXTS = 4  # longer ones without a secret: a reply comes again in several records


class Redactor:
    """Hides the known `values` of at least 8 characters, and everything that looks like a secret.

    Plain or encoded: in URLs, in JSON, as base64 and hexadecimal. Only the secret itself becomes
    HIDDEN, and redacting twice changes nothing more.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._finder = SecretFinder(values)
        # Names, words and arguments come again in every event and every view of a run.
        self._redact_short = lru_cache(_RECENT_TEXTS)(self._redact)
        self._clean: dict[str, None] = {}

    @property
    def values(self) -> frozenset[str]:
        """The known values."""
        return self._finder.values

    def learn(self, values: Iterable[str]) -> None:
        """Hide these values too, from now on."""
        known = {*self.values, *values}
        if SecretFinder(known).values != self.values:
            self.__init__(known)  # type: ignore[misc]

    def forget(self) -> None:
        """Forget all values."""
        self.__init__()  # type: ignore[misc]

    def text(self, text: str) -> str:
        """Return the text without its secrets."""
        if len(text) < SHORTEST:
            return text
        if len(text) <= _RECENT_LENGTH:
            clean = self._redact_short(text)
            return text if clean == text else clean
        if text in self._clean:
            return text
        clean = self._redact(text)
        if clean is text:
            self._clean[text] = None
            if len(self._clean) > _CLEAN_TEXTS:
                del self._clean[next(iter(self._clean))]
        return clean

    def _redact(self, text: str) -> str:
        parts: list[str] = []
        end_of_last = 0
        for start, end in self._finder.spans(text):
            parts += text[end_of_last:start], HIDDEN
            end_of_last = end
        return "".join((*parts, text[end_of_last:])) if parts else text

    def data(self, data: object) -> Any:
        """Return JSON data without secrets in texts and keys; the same object if there are none.

        Bitmaps in MIME bundles stay as they are; values nested more than 200 deep are hidden.
        """
        return self._data(data, _DEPTH)

    def record(self, model: AnyModel) -> AnyModel:
        """Return the record without secrets in its texts, however deep; itself if there are none.

        Ids, and fields that are not in a record's repr (images, signatures), stay as they are.
        """
        return self._record(model, _DEPTH)

    def stream(self) -> StreamRedactor:
        """Return a redactor for text in pieces: the end result is `text` of the whole."""
        return StreamRedactor(self._finder)

    def _data(self, data: object, depth: int) -> object:
        if not depth:
            return HIDDEN
        match data:
            case str():
                return self.text(data)
            case BaseModel():
                return self._record(data, depth)
            case dict():
                return self._mapping(data, depth - 1)
            case list() | tuple():
                items = type(data)([self._data(each, depth - 1) for each in data])
                return data if all(map(is_, items, data)) else items
        return data

    def _mapping(self, data: dict[object, object], depth: int) -> dict[object, object]:
        clean = {}
        is_clean = True
        for key, value in data.items():
            clean_key = self._data(key, depth)
            clean_value = value if _is_bitmap(key) else self._data(value, depth)
            is_clean = is_clean and clean_key is key and clean_value is value
            clean[clean_key] = clean_value
        return data if is_clean else clean

    def _record(self, model: AnyModel, depth: int) -> AnyModel:
        changed = {}
        for name in (*_fields(type(model)), *(model.model_extra or ())):
            value = getattr(model, name)
            kind = type(value)
            if kind in _WORDLESS or issubclass(kind, Enum) or (kind in _PLAIN and not value):
                continue
            clean = self.text(value) if kind is str else self._data(value, depth - 1)
            if clean is not value:
                changed[name] = clean
        return model.model_copy(update=changed) if changed else model


@cache
def _fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the fields with texts. A field of any type that is not serialized is an object."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if name != "id"
        and not name.endswith("_id")
        and (field.repr or (field.exclude and field.annotation is not Any))
    )


def _is_bitmap(mime: object) -> bool:
    return isinstance(mime, str) and mime.startswith("image/") and not mime.endswith("xml")


@cache
def _by_looks() -> SecretFinder:
    return SecretFinder()


def is_secret_value(text: str) -> bool:
    """Return whether the first 10,000 characters look like a key, token or password."""
    return bool(_by_looks().spans(text[:_WINDOW]))
