"""Writes into the memory of tables: a capture that shares it does not notice what passes pandas.

In a fork, a page of memory is shared with the kernel until one of both writes to it. The system
tells which pages are this process's own, so that nothing has to be copied or read.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import zlib
from collections.abc import Mapping
from typing import Any

from ipyagent.kernel.variables.arrays import views_of_same_memory
from ipyagent.kernel.variables.columns import find_memory

_PAGE = mmap.PAGESIZE
_SMALL = 8 * _PAGE
"""Bytes up to which all of an array is kept and compared."""
_OWN = bytes(flags & 0b100001 == 1 for flags in range(256))
"""By the highest byte of a page's entry in /proc/self/pagemap: whether the page is mapped only here
(bit 56) and not one of a file (bit 61), which was only read."""


class TableMemory:
    """The memory of tables, columns and their labels, as it was when each was added."""

    def __init__(self) -> None:
        # The arrays are kept: a table may get others, which is no write.
        self._arrays: list[tuple[str, Any, object]] = []

    def add(self, name: str, value: object) -> None:
        """Watch the memory of an object of pandas, to which a variable leads."""
        self._arrays += [(name, each, _read(each)) for each in find_memory(value)]

    def list_written(self, variables: Mapping[str, object]) -> list[str]:
        """Return the variables whose memory was written, and those that share it.

        Raises OSError.
        """
        written = [(name, array) for name, array, before in self._arrays if _read(array) != before]
        others = (
            (name, part)
            for name, value in variables.items()
            if type(name) is str and name[:1] != "_"
            for part in find_memory(value)
        )
        sharing = views_of_same_memory([array for _, array in written], others)
        return [*dict.fromkeys([*(name for name, _ in written), *sharing])]


def _read(array: Any) -> object:
    """Return what is different once something was written into an array, or a buffer of Arrow."""
    if not hasattr(array, "strides"):
        return read_pages(array.address, array.address + array.size)
    if array.nbytes < _SMALL:
        return array.flags.writeable, array.tobytes()
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    start = array.__array_interface__["data"][0]
    end = start + sum(each for each in steps if each > 0) + array.itemsize
    start += sum(each for each in steps if each < 0)
    return array.flags.writeable, read_pages(start, end)


def read_pages(start: int, end: int) -> tuple[list[int], int]:
    """Return which whole pages are this process's own, and a checksum of these and the edges.

    Raises OSError.
    """
    first, last = -(-start // _PAGE), end // _PAGE
    pages = _list_own_pages(first, last) if first < last else []
    edges = [(start, min(first * _PAGE, end)), (max(last * _PAGE, first * _PAGE), end)]
    checksum = 0
    for begin, stop in [*edges, *((page * _PAGE, (page + 1) * _PAGE) for page in pages)]:
        checksum = zlib.crc32(ctypes.string_at(begin, max(0, stop - begin)), checksum)
    return pages, checksum


def _list_own_pages(first: int, last: int) -> list[int]:
    """Return the pages of a stretch that this process has written, or made."""
    pagemap = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        entries = os.pread(pagemap, 8 * (last - first), 8 * first)
    finally:
        os.close(pagemap)
    if len(entries) < 8 * (last - first):
        raise OSError("the system does not tell which memory is written")
    return [first + each.start() for each in re.finditer(b"\1", entries[7::8].translate(_OWN))]
