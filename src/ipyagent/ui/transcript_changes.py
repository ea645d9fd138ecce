"""Changes that turn a page's transcript into the newer one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ipyagent.json_types import JsonDict
from ipyagent.ui.transcript import Transcript

Path = tuple[str | int, ...]


def find_changes(old: Transcript, new: Transcript) -> list[JsonDict]:
    """Return the changes from `old` to `new`, in order.

    Each has the `path` of a value, from the top, and the new `value`, or the text to `append`. An
    index just past the end of a list extends it.
    """
    return list(_changes(old, new, ()))


def _changes(old: object, new: object, path: Path) -> Iterator[JsonDict]:
    # A block that has not changed is the same object, most of the time: see `Transcriber`.
    if isinstance(new, BaseModel) and type(old) is type(new):
        for name in type(new).model_fields:
            before, after = getattr(old, name), getattr(new, name)
            if before is not after:
                yield from _changes(before, after, (*path, name))
    elif isinstance(new, tuple) and isinstance(old, tuple) and len(new) >= len(old):
        for index, (before, after) in enumerate(zip_longest(old, new)):
            if before is not after:
                yield from _changes(before, after, (*path, index))
    elif isinstance(new, str) and isinstance(old, str) and old and new.startswith(old):
        if len(new) > len(old):
            yield {"path": list(path), "append": new[len(old) :]}
    elif old != new:
        yield {"path": list(path), "value": to_jsonable_python(new)}
