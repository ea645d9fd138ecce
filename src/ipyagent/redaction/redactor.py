"""The redactor: what is told, kept or logged passes through it, and secrets don't come out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any, TypeVar

from pydantic import BaseModel

from ipyagent.redaction.finding import Finder
from ipyagent.redaction.streaming import HIDDEN, StreamRedactor

AnyModel = TypeVar("AnyModel", bound=BaseModel)

_WINDOW = 10_000
_DEPTH = 200


class Redactor:
    """Hides the known `values` of at least 8 characters, and whatever looks like a secret.

    Plain or encoded: in URLs, in JSON, as base64 and hexadecimal. Only the secret itself becomes
    HIDDEN, and redacting twice changes nothing more.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._finder = Finder(values)

    def learn(self, values: Iterable[str]) -> None:
        """Hide these values too, from now on."""
        finder = Finder({*self._finder.values, *values})
        if finder.values != self._finder.values:
            self._finder = finder

    def text(self, text: str) -> str:
        """The text without its secrets."""
        parts: list[str] = []
        told = 0
        for start, end in self._finder.spans(text):
            parts += text[told:start], HIDDEN
            told = end
        return "".join((*parts, text[told:])) if parts else text

    def data(self, data: object) -> Any:
        """JSON data without secrets in its text and keys; the same object if there were none.

        Bitmaps in MIME bundles stay as they are; what is nested more than 200 deep is hidden.
        """
        return self._data(data, _DEPTH)

    def of(self, model: AnyModel) -> AnyModel:
        """The record without secrets in its text, however deep; itself if there were none.

        Ids, and what a record does not say in its repr (images, signatures), stay as they are.
        """
        return self._record(model, _DEPTH)

    def stream(self) -> StreamRedactor:
        """For text that comes in pieces: what it shows in the end is `text` of the whole."""
        return StreamRedactor(self._finder)

    def _data(self, data: object, depth: int) -> Any:
        if not depth:
            return HIDDEN
        clean = partial(self._data, depth=depth - 1)
        match data:
            case str():
                return self.text(data)
            case BaseModel():
                return self._record(data, depth)
            case dict():
                pairs = [
                    (clean(key), value if _is_bitmap(key) else clean(value))
                    for key, value in data.items()
                ]
                return data if _same(pairs, data.items()) else dict(pairs)
            case list() | tuple():
                items = type(data)(map(clean, data))
                return data if _same([items], [data]) else items
        return data

    def _record(self, model: AnyModel, depth: int) -> AnyModel:
        said = {name: getattr(model, name) for name in _fields(type(model))}
        said |= model.model_extra or {}
        clean = {name: self._data(value, depth - 1) for name, value in said.items()}
        changed = {name: value for name, value in clean.items() if value is not said[name]}
        return model.model_copy(update=changed) if changed else model


@cache
def _fields(model: type[BaseModel]) -> tuple[str, ...]:
    """The fields with words in them. A field of any type that is not serialised is an object."""
    return tuple(
        name
        for name, field in model.model_fields.items()
        if name != "id"
        and not name.endswith("_id")
        and (field.repr or (field.exclude and field.annotation is not Any))
    )


def _is_bitmap(mime: object) -> bool:
    return isinstance(mime, str) and mime.startswith("image/") and not mime.endswith("xml")


def _same(new: Iterable[Iterable[object]], old: Iterable[Iterable[object]]) -> bool:
    """Whether the rows are of the very same objects."""
    rows = zip(new, old, strict=True)
    return all(now is then for row in rows for now, then in zip(*row, strict=True))


@cache
def _by_looks() -> Finder:
    return Finder()


def secret_value(text: str) -> bool:
    """Whether the text's first 10,000 characters look like they hold a key, token or password."""
    return bool(_by_looks().spans(text[:_WINDOW]))
