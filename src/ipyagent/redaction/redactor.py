"""The redactor: everything shown, stored or logged passes it, without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from operator import is_
from typing import Any, TypeVar

from pydantic import BaseModel

from ipyagent.redaction.finder import SecretFinder
from ipyagent.redaction.streaming import HIDDEN, StreamRedactor

AnyModel = TypeVar("AnyModel", bound=BaseModel)

_WINDOW = 10_000
_DEPTH = 200
_WORDLESS = {bool, int, float, datetime, type(None)}
_RECENT_TEXTS, _RECENT_LENGTH = 500, 2_000  # redacted texts that are remembered, and their length
_CLEAN_TEXTS = 4  # longer ones without a secret: a reply comes again in several records


class Redactor:
    """Hides the known `values` of at least 8 characters, and everything that looks like a secret.

    Plain or encoded: in URLs, in JSON, as base64 and hexadecimal. Only the secret itself becomes
    HIDDEN, and redacting twice changes nothing more.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._finder = SecretFinder(values)
        self._recent: dict[str, str] = {}
        self._clean: dict[str, None] = {}

    @property
    def values(self) -> frozenset[str]:
        """The known values."""
        return self._finder.values

    def learn(self, values: Iterable[str]) -> None:
        """Hide these values too, from now on."""
        finder = SecretFinder({*self._finder.values, *values})
        if finder.values != self._finder.values:
            self._finder = finder
            self._recent, self._clean = {}, {}

    def text(self, text: str) -> str:
        """Return the text without its secrets."""
        if len(text) > _RECENT_LENGTH:
            return text if text in self._clean else self._redact_long(text)
        # Names, words and arguments come again in every event and every view of a run.
        recent = self._recent
        clean = recent.get(text)
        if clean is None:
            if len(recent) >= _RECENT_TEXTS:
                recent.clear()
            clean = recent[text] = self._redact(text)
        return text if clean == text else clean

    def _redact_long(self, text: str) -> str:
        clean = self._redact(text)
        if clean is text:
            self._remember_clean(text)
        return clean

    def _remember_clean(self, text: str) -> None:
        if len(text) > _RECENT_LENGTH:
            self._clean[text] = None
            if len(self._clean) > _CLEAN_TEXTS:
                del self._clean[next(iter(self._clean))]

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
        finder = self._finder

        def remember(text: str) -> None:
            if finder is self._finder:  # else more values are known now
                self._remember_clean(text)

        return StreamRedactor(finder, remember)

    def _data(self, data: object, depth: int) -> Any:
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

    def _mapping(self, data: dict[Any, Any], depth: int) -> dict[Any, Any]:
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
            if type(value) in _WORDLESS:
                continue
            clean = self.text(value) if type(value) is str else self._data(value, depth - 1)
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
