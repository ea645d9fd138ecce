"""A change of one file, its complete diff, and previews: valid for one run, that file.

Checkpoints hold the contents of files before the agent changed them, for undo. Encoding and line
endings of a text are read from its bytes, guessed else, and kept.
"""

from __future__ import annotations

import codecs
import difflib
import mimetypes
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq
from stat import S_IMODE
from time import time

from ipyagent.digests import digest_content
from ipyagent.errors import (
    AgentError,
    InvalidArgumentsError,
    PathValidationError,
)
from ipyagent.plaintext import human_size, spell
from ipyagent.schema import FileChange
from ipyagent.tools.workspace import Workspace

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


_CONTEXT = 3
_MAX_DIFF_LINES = 4_000  # lines; difflib's time grows with the square
_HEADER = re.compile(r"@@ -(\d+)(.*) \+(\d+)(.*) @@")


@dataclass(frozen=True)
class Change:
    """A file's content before and after; None: no file. `summary` is its message once applied."""

    path: str
    before: bytes | None
    after: bytes | None
    summary: str
    encoding: str = "utf-8"
    """The encoding of the new content: its bytes alone may be ambiguous."""

    def diff(self) -> str:
        """Return a unified diff with nothing left out."""
        before, after = _decode_if_text(self.before, self.path), self._text_after()
        if before is None or after is None:
            return self._binary_diff(after)
        name = spell(self.path)
        was, becomes = _format_differences(before, after)
        source = "/dev/null" if self.before is None else f"a/{name}{was}"
        target = "/dev/null" if self.after is None else f"b/{name}{becomes}"
        old, new = _diff_lines(before, after)
        lines = list(_diff_hunks(old, new)) or [f"(no line differs, {size_of(self.after)})\n"]
        return f"--- {source}\n+++ {target}\n" + "".join(
            _mark_missing_newline(line) for line in lines
        )

    def _text_after(self) -> TextFile | None:
        try:
            return TextFile((self.after or b"").decode(self.encoding), self.encoding)
        except UnicodeDecodeError:
            return None

    def _binary_diff(self, after: TextFile | None) -> str:
        note = f"binary file {spell(self.path)}, {size_of(self.before)}"
        if self.after is None:
            return f"{note}, would be deleted\n"
        new = split_keeping_ends(normalize_newlines(after.text)) if after else []
        return f"{note}, would be replaced by\n" + "".join(
            _mark_missing_newline(f"+{line}") for line in new
        )


def size_of(data: bytes | None) -> str:
    """Return the size of a content in words."""
    return human_size(len(data or b""))


def _decode_if_text(data: bytes | None, path: str) -> TextFile | None:
    """Return the content as text; None if it is not text."""
    try:
        return decode_file(data or b"", path)
    except PathValidationError:
        return None


def _diff_lines(before: TextFile, after: TextFile) -> tuple[list[str], list[str]]:
    """Return both sides' lines, with carriage returns if line endings are mixed or change."""
    texts = before.text, after.text
    ends = {detect_line_ending(text) for text in texts} - {""}
    if len(ends) > 1 or MIXED in ends:
        rows = [split_keeping_ends(text) for text in texts]
        old, new = ([f"{row}\n" if row[-1] == "\r" else row for row in side] for side in rows)
    else:
        old, new = (split_keeping_ends(normalize_newlines(text)) for text in texts)
    return old, new


def _format_differences(before: TextFile, after: TextFile) -> tuple[str, str]:
    """Describe encoding and line endings of each side if they differ but the lines do not."""
    names: tuple[list[str], list[str]] = [], []
    ends = detect_line_ending(before.text), detect_line_ending(after.text)
    differ = ends[0] != ends[1] and (all(ends) or not before.text)
    if differ and {*ends} & {"\r", "\r\n"}:
        for end, name in zip(ends, names, strict=True):
            name += [f"line ends {ENDING_NAMES[end]}"] if end else []
    if before.text and after.text and before.encoding != after.encoding:
        names[0].append(before.encoding)
        names[1].append(after.encoding)
    was, becomes = (f" ({', '.join(name)})" if name else "" for name in names)
    return was, becomes


def _diff_hunks(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff, computed from the first to the last difference."""
    if old == new:
        return
    head = _common_prefix(old, new)
    tail = _common_prefix(reversed(old[head:]), reversed(new[head:]))
    start = max(0, head - _CONTEXT)
    a = old[start : min(len(old), len(old) - tail + _CONTEXT)]
    b = new[start : min(len(new), len(new) - tail + _CONTEXT)]
    if max(len(a), len(b)) > _MAX_DIFF_LINES:
        yield f"@@ -{start + bool(a)},{len(a)} +{start + bool(b)},{len(b)} @@\n"
        yield from (f"-{line}" for line in a)
        yield from (f"+{line}" for line in b)
        return
    for line in list(difflib.unified_diff(a, b))[2:]:
        yield _shift_header(line, start) if line.startswith("@@") else line


def _common_prefix(one: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(bool, map(eq, one, other)))


def _shift_header(header: str, by: int) -> str:
    return _HEADER.sub(lambda m: f"@@ -{int(m[1]) + by}{m[2]} +{int(m[3]) + by}{m[4]} @@", header)


def _mark_missing_newline(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


class Previews:
    """Previews of calls, kept in memory: calls that wait for an answer end with the kernel too."""

    def __init__(self) -> None:
        self._previews: dict[str, list[str | None]] = {}
        """The digests of the files that were shown (None: there was none), by calls."""
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all previews: a run begins."""
        with self._lock:
            self._previews.clear()

    def add(self, call: str, before: bytes | None) -> None:
        """Remember the preview of a call, by the digest of its arguments, and what it changes."""
        with self._lock:
            self._previews.setdefault(call, []).append(digest_content(before))

    def consume(self, call: str, path: str, current: bytes | None) -> None:
        """Use up the preview of a call; raises AgentError if the file has changed since.

        `current` is the content of the file. A call without a preview passes: nobody was asked.
        """
        with self._lock:
            shown = self._previews.get(call)
            # The newest: an older one belongs to a call that was denied.
            if not shown or shown.pop() == digest_content(current):
                return
        raise PathValidationError(
            f"{spell(path)}: changed since preview, so nothing was done; read it and call again"
        )


_FOLDER = "checkpoints"


@dataclass
class UndoResult:
    """The result of an undo: the restored files, and why others were not restored."""

    restored: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    changes: list[FileChange] = field(default_factory=list, compare=False)
    """The changes that the undo itself made."""


class Checkpoints:
    """File contents in `.ipyagent/checkpoints/`, each under its SHA-256."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def save(self, change: Change) -> FileChange:
        """Save the content that is about to be changed; raises AgentError if that is impossible."""
        self._save_content(change.before)
        return FileChange(
            path=change.path,
            before=digest_content(change.before),
            after=digest_content(change.after),
            mode=self._mode_of(change.path),
            folder=self._missing_folder(change.path),
            at=time(),
        )

    def _missing_folder(self, path: str) -> str:
        """Return the topmost folder above a path that does not exist yet; "" if all do."""
        names = path.split("/")
        above = ("/".join(names[:count]) for count in range(1, len(names)))
        return next((each for each in above if self._workspace.stat(each) is None), "")

    def _mode_of(self, path: str) -> int | None:
        status = self._workspace.stat(path)
        return status and S_IMODE(status.st_mode)

    def _save_content(self, content: bytes | None) -> None:
        """Save what a file holds, under its digest."""
        if content is not None:
            state, name = self._workspace.state_folder(), f"{_FOLDER}/{digest_content(content)}"
            if state.stat(name) is None:
                state.write_atomic(name, content)

    def undo(self, changes: Iterable[FileChange], *, dry_run: bool = False) -> UndoResult:
        """Undo changes; a file that was changed again since is left alone.

        `dry_run`: only find out what would be done.
        """
        result, merged = UndoResult(), _merge_changes(changes)
        for change in merged:
            try:
                result.changes += self._revert(change, dry_run=dry_run)
            except AgentError as error:
                result.skipped[change.path] = str(error)
            else:
                result.restored.append(change.path)
        for top in {each.folder for each in merged if each.folder and not dry_run}:
            for path in result.restored:
                self._workspace.remove_folders(path, top)
        return result

    def are_undone(self, changes: Iterable[FileChange]) -> bool:
        """Return whether all these files hold what they did before the changes."""
        read = self._workspace.read_if_exists
        try:
            merged = _merge_changes(changes)
            return all(digest_content(read(each.path)) == each.before for each in merged)
        except AgentError:
            return False

    def _revert(self, change: FileChange, *, dry_run: bool) -> list[FileChange]:
        """Undo a change, and return the changes that this makes."""
        now = self._workspace.read_if_exists(change.path)
        if digest_content(now) == change.before:
            return []
        if digest_content(now) != change.after:
            raise PathValidationError(
                f"{spell(change.path)} has changed since, so it is left as it is"
            )
        before = self._load_content(change.before, change.path) if change.before else None
        mode = self._mode_of(change.path)
        if not dry_run:
            self._save_content(now)
            if before is not None:
                self._workspace.compare_and_swap(change.path, now, before, change.mode)
            elif now is not None:
                self._workspace.delete(change.path, now)
        back = {"before": change.after, "after": change.before, "mode": mode, "at": time()}
        return [change.model_copy(update=back)]

    def _load_content(self, content: str, path: str) -> bytes:
        data = self._workspace.state_folder().read_if_exists(f"{_FOLDER}/{content}")
        if digest_content(data) != content:
            raise PathValidationError(f"what {spell(path)} held before is no longer kept")
        return data or b""


def _merge_changes(changes: Iterable[FileChange]) -> list[FileChange]:
    """Return one change for each file: the newest, merged with those it directly follows.

    Changes by others in between are not undone.
    """
    merged: dict[str, FileChange] = {}
    for change in sorted(changes, key=lambda each: each.at):
        before = merged.get(change.path)
        follows = before is not None and before.after == change.before
        first = before.before if before and follows else change.before
        folder = before.folder if before and follows else change.folder
        merged[change.path] = change.model_copy(update={"before": first, "folder": folder})
    return list(merged.values())
