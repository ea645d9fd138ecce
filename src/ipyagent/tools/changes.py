"""A change of one file, and how it is shown: as a diff that leaves nothing out."""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ipyagent.errors import PathValidationError
from ipyagent.schema import PendingEdit
from ipyagent.tools.names import human_size, shown
from ipyagent.tools.reading import text_of

_CONTEXT = 3
_COSTLY = 4_000  # lines; difflib's time grows with the square
_HEADER = re.compile(r"@@ -(\d+)(.*) \+(\d+)(.*) @@")


@dataclass(frozen=True)
class Change:
    """A file's content before and after; None: no file. `done` says it once it has happened."""

    path: str
    before: bytes | None
    after: bytes | None
    done: str
    edit: PendingEdit | None = None
    """The place of an edit."""

    def diff(self) -> str:
        """A unified diff with nothing left out."""
        old, new = _lines_of(self.before, self.path), _lines_of(self.after, self.path)
        if old is None or new is None:
            return self._binary_diff(new or [])
        name = shown(self.path)
        source = "/dev/null" if self.before is None else f"a/{name}"
        target = "/dev/null" if self.after is None else f"b/{name}"
        lines = list(_hunks(old, new)) or [f"(no line differs, {size_of(self.after)})\n"]
        return f"--- {source}\n+++ {target}\n" + "".join(_ended(line) for line in lines)

    def _binary_diff(self, new: list[str]) -> str:
        note = f"binary file {shown(self.path)}, {size_of(self.before)}"
        if self.after is None:
            return f"{note}, would be deleted\n"
        return f"{note}, would be replaced by\n" + "".join(_ended(f"+{line}") for line in new)


def size_of(data: bytes | None) -> str:
    """The size of a content, as people write it."""
    return human_size(len(data or b""))


def _lines_of(data: bytes | None, path: str) -> list[str] | None:
    """The lines as a diff counts them; None for what is not text."""
    try:
        return list(io.StringIO(text_of(data or b"", path), newline="\n"))
    except PathValidationError:
        return None


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """The lines of a unified diff, worked out between the first and the last difference only."""
    if old == new:
        return
    head = _common(old, new)
    tail = _common(reversed(old[head:]), reversed(new[head:]))
    start = max(0, head - _CONTEXT)
    a = old[start : min(len(old), len(old) - tail + _CONTEXT)]
    b = new[start : min(len(new), len(new) - tail + _CONTEXT)]
    if max(len(a), len(b)) > _COSTLY:
        yield f"@@ -{start + bool(a)},{len(a)} +{start + bool(b)},{len(b)} @@\n"
        yield from (f"-{line}" for line in a)
        yield from (f"+{line}" for line in b)
        return
    for line in list(difflib.unified_diff(a, b))[2:]:
        yield _shifted(line, start) if line.startswith("@@") else line


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _shifted(header: str, by: int) -> str:
    return _HEADER.sub(lambda m: f"@@ -{int(m[1]) + by}{m[2]} +{int(m[3]) + by}{m[4]} @@", header)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
