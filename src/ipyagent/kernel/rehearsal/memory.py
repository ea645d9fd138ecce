"""The memory of a rehearsal: what it shares with other processes, and the secrets in it.

The keys with which this kernel signs its messages are such secrets: whoever has one can speak for
it.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import struct
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ipyagent.kernel.rehearsal import system_calls
from ipyagent.kernel.variables.arrays import is_array
from ipyagent.kernel.variables.columns import PANDAS, find_memory, kind_of

Stretch = tuple[int, int]
"""Where memory begins and ends."""

Needle = tuple[int, int]
"""Where something lies that is looked for, and its length."""

_MAPS = Path("/proc/self/maps")
_LOCK, _INDEX = "/dev/shm/sem.", "-shm"  # noqa: S108
"""Shared memory without data of the user's: a progress bar's lock, the index of a SQLite file."""
_CHUNK = 1 << 18
"""Bytes that are searched for all secrets in turn: they stay in the processor's cache."""
_LARGEST_COPY = 1 << 24
_USED = re.compile(rb"[\x40-\xff]+")
"""Flags of pages that are there (bit 63), or swapped out (bit 62)."""
_LARGE, _NUMBERS = 1 << 20, "bfcmM"
_ENVIRONMENT = (50, 51)  # fields of /proc/self/stat: where the first environment lies


class Mapping(NamedTuple):
    """A stretch of a process's memory."""

    start: int
    end: int
    permissions: str
    path: str


def list_mappings() -> list[Mapping]:
    """Return the mappings of this process."""
    found = []
    for line in _MAPS.read_text(errors="surrogateescape").splitlines():
        where, permissions, _, _, _, *path = line.split(None, 5)
        start, _, end = where.partition("-")
        found.append(Mapping(int(start, 16), int(end, 16), permissions, (path or [""])[0]))
    return found


def describe_shared_memory() -> str | None:
    """Return why this process's memory cannot be copied, or None."""
    for each in list_mappings():
        name = each.path.removesuffix(" (deleted)") or "without a name"
        is_plain = name.startswith(_LOCK) or name.endswith(_INDEX)
        if each.permissions[1::2] == "ws" and not is_plain:
            return f"memory is shared with other processes ({Path(name).name})"
    return None


def leave_shared_memory() -> None:
    """Replace all shared memory that could be written by a private copy.

    Raises OSError if that is too much.
    """
    for start, end, permissions, _ in list_mappings():
        length = end - start
        if permissions[3] != "s":
            continue
        try:
            system_calls.make_writable(start, length)
        except PermissionError:
            continue  # mapped from a file that was opened for reading
        if length > _LARGEST_COPY:
            raise OSError(f"{length:,} bytes of memory are shared with other processes")
        content = ctypes.string_at(start, length)
        system_calls.replace_mapping(start, length)
        ctypes.memmove(start, content, length)


def clean_environment(kept: Collection[str]) -> None:
    """Remove all variables but those `kept`, from where processes get them as well."""
    for name in list(os.environ):
        if name not in kept:
            del os.environ[name]
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = (int(fields[number - 3]) for number in _ENVIRONMENT)
    ours = dict(os.environ)
    if start and end > start:
        ctypes.memset(start, 0, end - start)
    for name, value in ours.items():  # some of them lay there
        os.environ[name] = value


def wipe(secrets: Collection[str], skipped: Sequence[Stretch] = ()) -> None:
    """Overwrite the secrets wherever they lie in memory, but for what is skipped.

    They are looked for in UTF-8, UTF-16, UTF-32 and as Python keeps text.
    """
    wanted = [each for each in secrets if each]
    if not wanted:
        return
    forms = [form for each in wanted for form in _forms(each)]
    overlap = max(4 * max(map(len, wanted)), *map(len, forms))
    with _place_needles(forms) as narrow, _place_wide(wanted) as wide:
        forms.clear()
        for start, end in _stretches(overlap, skipped):
            for address, length in narrow:
                for found in _find_all(start, end, address, length):
                    ctypes.memset(found, ord("*"), length)
            for each in wide:
                _wipe_wide(start, end, each)


@contextlib.contextmanager
def _place_needles(forms: Iterable[bytes]) -> Iterator[list[Needle]]:
    """Yield where the forms lie: in shared memory, which is not searched.

    Else the first that is found would be the one that is looked for.
    """
    known = list(forms)
    with mmap.mmap(-1, sum(map(len, known))) as hidden:
        hidden.write(b"".join(known))
        first = ctypes.addressof(ctypes.c_char.from_buffer(hidden))
        needles: list[Needle] = []
        for form in known:
            needles.append((first, len(form)))
            first += len(form)
        known.clear()
        yield needles
        hidden[:] = bytes(len(hidden))


def _forms(secret: str) -> Iterator[bytes]:
    """Yield a text with one byte for each character, or two; without zeros at its ends.

    So it is that of both orders of bytes, and memory full of zeros is passed over quickly.
    """
    yield secret.encode("utf-8", "surrogatepass")
    yield secret.encode("utf-16-le", "surrogatepass").strip(b"\0")
    if not secret.isascii() and all(ord(letter) < 256 for letter in secret):
        yield secret.encode("latin-1")


class WideNeedle(NamedTuple):
    """The place of a secret of four bytes for each character, and its rarest character."""

    address: int
    length: int
    rarest: int
    before: int
    """Bytes before that character."""


@contextlib.contextmanager
def _place_wide(secrets: Sequence[str]) -> Iterator[list[WideNeedle]]:
    """Yield where the secrets lie in that form: in shared memory alone, which is not searched.

    Nothing else is kept of them: they are overwritten where Python keeps them.
    """
    with mmap.mmap(-1, 4 * sum(map(len, secrets))) as hidden:
        struct.pack_into(f"<{len(hidden) // 4}I", hidden, 0, *map(ord, "".join(secrets)))
        address = ctypes.addressof(ctypes.c_char.from_buffer(hidden))
        needles: list[WideNeedle] = []
        for each in secrets:
            rarest = max(each)
            place = 4 * each.index(rarest)
            needles.append(WideNeedle(address, 4 * len(each), ord(rarest), place))
            address += 4 * len(each)
        yield needles
        hidden[:] = bytes(len(hidden))


def _wipe_wide(start: int, end: int, needle: WideNeedle) -> None:
    """Overwrite a secret of four bytes for each character, the lowest first, in a stretch.

    To search for so many zeros takes minutes; its character with the highest number is looked for,
    which is a rare number in memory.
    """
    address, length, rarest, before = needle
    for found in _find_character(start + -start % 4, end, rarest):
        first = found - before
        if start <= first <= end - length and system_calls.is_same(first, address, length):
            # No number that is no character: Python's own text may lie here.
            ctypes.memmove(first, ("*" * (length // 4)).encode("utf-32-le"), length)


def _find_character(start: int, end: int, number: int) -> Iterator[int]:
    while (found := system_calls.find_wide(start, (end - start) // 4, number)) is not None:
        yield found
        start = found + 4


def _find_all(start: int, end: int, wanted: int, length: int) -> Iterator[int]:
    found = system_calls.find_bytes(start, end - start, wanted, length)
    while found is not None:
        yield found
        start = found + length
        found = system_calls.find_bytes(start, end - start, wanted, length)


def _stretches(overlap: int, skipped: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield stretches of private memory; each continues into the next."""
    for each in list_mappings():
        if each.permissions not in ("rw-p", "rwxp"):
            continue
        for first, last in _without(each.start, each.end, skipped):
            for start in range(first, last, _CHUNK):
                chunk = start, min(start + _CHUNK + overlap, last)
                # A part of a file that was not read yet can be read later.
                for part in (chunk,) if each.path.startswith("/") else list_used(*chunk):
                    if not system_calls.is_uniform(part[0], part[1] - part[0]):
                        yield part


def list_used(start: int, end: int) -> Iterator[Stretch]:
    """Yield the parts of a stretch that hold something: not what was never touched, or is gone."""
    first, last = start // mmap.PAGESIZE, -(-end // mmap.PAGESIZE)
    for run in _USED.finditer(read_page_flags(first, last)):
        begin, stop = ((first + page) * mmap.PAGESIZE for page in run.span())
        yield max(start, begin), min(end, stop)


def read_page_flags(first: int, last: int) -> bytes:
    """Return the highest byte of each page's entry in /proc/self/pagemap. Raises OSError."""
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        entries = os.pread(pagemap, 8 * (last - first), 8 * first)
    finally:
        os.close(pagemap)
    if len(entries) < 8 * (last - first):
        raise OSError("the system does not tell which memory is in use")
    return entries[7::8]


def _without(start: int, end: int, skipped: Iterable[Stretch]) -> Iterator[Stretch]:
    """Yield the parts of a stretch outside of others, which are in order."""
    for first, last in skipped:
        if last <= start or first >= end:
            continue
        if first > start:
            yield start, first
        start = max(start, last)
    if start < end:
        yield start, end


def find_numeric_memory(values: Iterable[object]) -> list[Stretch]:
    """Return the memory of large arrays of numbers, in order: to search it would take seconds.

    Integers of four bytes and more are such numbers: smaller ones may be the bytes of a file.
    """
    tables = (each for each in values if is_array(each) or kind_of(each) in PANDAS)
    found = set()
    for array in (part for each in tables for part in find_memory(each) if is_array(part)):
        while is_array(array.base):
            array = array.base
        kind, size = array.dtype.kind, array.dtype.itemsize
        if (kind in _NUMBERS or (kind in "iu" and size >= 4)) and array.flags.forc:
            start = array.__array_interface__["data"][0]
            found.add((start, start + array.nbytes))
    return sorted(each for each in found if each[1] - each[0] >= _LARGE)


def signing_keys() -> tuple[str, ...]:
    """Return the keys of the running kernel, a character for each byte; none outside of one."""
    key = getattr(_find_session(), "key", b"")
    return (key.decode("latin-1"),) if isinstance(key, bytes) and key else ()


def drop_signing_keys() -> None:
    """Let this process sign nothing any more: it is a copy of the kernel."""
    if (session := _find_session()) is not None:
        session.auth = None


def _find_session() -> Any:
    """Return what signs the messages of the running kernel; None outside of one."""
    app = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    return app.instance().session if app is not None and app.initialized() else None
