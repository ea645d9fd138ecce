"""A part of a long table, the same at each run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from zlib import crc32

import pytest


def sample(texts: Iterable[str], share: int) -> list[str]:
    """Return about every `share`-th text, chosen by what it is and not by its place."""
    return [text for text in texts if crc32(text.encode("utf-8", "surrogatepass")) % share == 0]


def cases(texts: Collection[str], share: int = 6) -> list[Any]:
    """Return test cases: one of `share`, at least one, runs in the gate, the others are slow."""
    by_hash = sorted(texts, key=lambda text: crc32(text.encode("utf-8", "surrogatepass")))
    kept = set(by_hash[: max(1, len(by_hash) // share)])
    return [pytest.param(text, marks=[] if text in kept else pytest.mark.slow) for text in texts]
