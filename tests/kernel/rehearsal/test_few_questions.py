"""What changes nothing is not asked about, whatever objects there are and whatever words."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from ipyagent.kernel.rehearsal.memory import find_numeric_memory, list_mapped
from rehearsal_trial import rehearse

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = pytest.mark.alone


class Obliging:
    """Has every attribute that it is asked for."""

    asked: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> int:
        Obliging.asked.append(name)
        return 1


def test_an_object_that_has_every_attribute_does_not_stop_rehearsals(tmp_path: Path) -> None:
    given: dict[str, Any] = {"obliging": Obliging(), "numbers": [1, 2]}
    report = rehearse("sum(numbers)", given, tmp_path)
    assert report["result"]["output"] == "3", report
    assert find_numeric_memory(given.values()) == []
    assert Obliging.asked == []


def test_large_columns_of_numbers_are_found() -> None:
    numbers = pd.Series(np.arange(400_000))
    for value in (numbers, pd.DataFrame({"a": numbers}), np.zeros(400_000)):
        ((start, end),) = find_numeric_memory([value])
        assert end - start >= 400_000 * 8


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2"])
def test_a_secret_in_a_large_array_of_bytes_is_wiped(tmp_path: Path, dtype: str) -> None:
    secret = "canary-" + "in-bytes"
    data = np.frombuffer(bytearray(secret.encode() + b"." * (3 << 20) + b"."), dtype="u1").copy()
    given: dict[str, Any] = {"data": data.view(dtype).copy()}
    code = "bytes(data[:15].view('u1')[:15])"
    assert secret in rehearse(code, dict(given), tmp_path)["result"]["output"]
    assert rehearse(code, given, tmp_path, [secret])["result"]["output"] == f"b'{'*' * 15}'"


def test_memory_that_was_listed_and_is_gone_is_not_searched() -> None:
    """To search it ended each rehearsal of a process in which the list itself was large."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = libc.mmap(None, 6 * page, mmap.PROT_READ, flags, -1, 0)

    def unmap(first: int, count: int) -> None:
        assert libc.munmap(ctypes.c_void_p(start + first * page), count * page) == 0

    end = start + 6 * page
    assert [*list_mapped(start + 8, end)] == [(start + 8, end)]
    unmap(1, 1)
    unmap(4, 1)
    there = [(start + 8, start + page), (start + 2 * page, start + 4 * page), (end - page, end - 3)]
    assert [*list_mapped(start + 8, end - 3)] == there
    for first, count in ((0, 1), (2, 2), (5, 1)):
        unmap(first, count)
