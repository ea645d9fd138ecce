"""Changes that turn a page's transcript into the newer one."""

from __future__ import annotations

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
    changes: list[JsonDict] = []
    if old != new:
        _collect(old, new, (), changes)
    return changes


def _collect(old: object, new: object, path: Path, changes: list[JsonDict]) -> None:
    """Add the changes between two unequal values."""
    if isinstance(new, BaseModel) and type(old) is type(new):
        before = vars(old)
        for name, value in vars(new).items():
            # A block that has not changed is the same object, most of the time: see `Transcriber`.
            if before[name] is not value and before[name] != value:
                _collect(before[name], value, (*path, name), changes)
    elif isinstance(new, tuple) and isinstance(old, tuple) and len(new) >= len(old):
        # Of a long list the beginning stays, and comparing two objects that are one is quick.
        start = max(0, len(old) - 1)
        start = start if old[:start] == new[:start] else 0
        for index, (each, value) in enumerate(zip_longest(old[start:], new[start:]), start):
            if each is not value and each != value:
                _collect(each, value, (*path, index), changes)
    elif isinstance(new, str) and isinstance(old, str) and old and new.startswith(old):
        if len(new) > len(old):
            changes.append({"path": list(path), "append": new[len(old) :]})
    else:
        changes.append({"path": list(path), "value": to_jsonable_python(new)})
