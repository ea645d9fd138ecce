"""A change of one file, and how it is shown: as a diff that leaves nothing out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ipyagent.errors import PathValidationError
from ipyagent.schema import PendingEdit
from ipyagent.tools.encodings import TextFile, decode_file
from ipyagent.tools.line_ends import MIXED, NAMES, line_ends, lines_with_ends, with_newlines
from ipyagent.tools.names import human_size, shown

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
    encoding: str = "utf-8"
    """How the content after it is encoded: its bytes may allow other guesses than those before."""

    def diff(self) -> str:
        """A unified diff with nothing left out."""
        before, after = _text_before(self.before, self.path), self._text_after()
        if before is None or after is None:
            return self._binary_diff(after)
        name = shown(self.path)
        was, becomes = _forms(before, after)
        source = "/dev/null" if self.before is None else f"a/{name}{was}"
        target = "/dev/null" if self.after is None else f"b/{name}{becomes}"
        old, new = _rows(before, after)
        lines = list(_hunks(old, new)) or [f"(no line differs, {size_of(self.after)})\n"]
        return f"--- {source}\n+++ {target}\n" + "".join(_ended(line) for line in lines)

    def _text_after(self) -> TextFile | None:
        try:
            return TextFile((self.after or b"").decode(self.encoding), self.encoding)
        except UnicodeDecodeError:
            return None

    def _binary_diff(self, after: TextFile | None) -> str:
        note = f"binary file {shown(self.path)}, {size_of(self.before)}"
        if self.after is None:
            return f"{note}, would be deleted\n"
        new = lines_with_ends(with_newlines(after.text)) if after else []
        return f"{note}, would be replaced by\n" + "".join(_ended(f"+{line}") for line in new)


def size_of(data: bytes | None) -> str:
    """The size of a content, as people write it."""
    return human_size(len(data or b""))


def _text_before(data: bytes | None, path: str) -> TextFile | None:
    """What is there; None for what is not text."""
    try:
        return decode_file(data or b"", path)
    except PathValidationError:
        return None


def _rows(before: TextFile, after: TextFile) -> tuple[list[str], list[str]]:
    """The lines of both sides; where line ends are mixed or change, a return in them is kept."""
    texts = before.text, after.text
    ends = {line_ends(text) for text in texts} - {""}
    if len(ends) > 1 or MIXED in ends:
        rows = [lines_with_ends(text) for text in texts]
        old, new = ([f"{row}\n" if row[-1] == "\r" else row for row in side] for side in rows)
    else:
        old, new = (lines_with_ends(with_newlines(text)) for text in texts)
    return old, new


def _forms(before: TextFile, after: TextFile) -> tuple[str, str]:
    """How each side is written, where that differs and the lines do not tell."""
    names: tuple[list[str], list[str]] = [], []
    ends = line_ends(before.text), line_ends(after.text)
    differ = ends[0] != ends[1] and (all(ends) or not before.text)
    if differ and {*ends} & {"\r", "\r\n"}:
        for end, name in zip(ends, names, strict=True):
            name += [f"line ends {NAMES[end]}"] if end else []
    if before.text and after.text and before.encoding != after.encoding:
        names[0].append(before.encoding)
        names[1].append(after.encoding)
    was, becomes = (f" ({', '.join(name)})" if name else "" for name in names)
    return was, becomes


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
