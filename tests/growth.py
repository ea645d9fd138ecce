"""How cost grows with size: what a test may say of speed on whatever machine it runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

LINEAR = 8.0
"""Four times the size costs four times the time, on a busy machine twice that; squared it is 16."""

CONSTANT = 2.5


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how many times the CPU time of `size` four times that size takes.

    Choose a size that takes some milliseconds, or noise is measured.
    """
    return _seconds(work, 4 * size) / _seconds(work, size)


def _seconds(work: Callable[[int], object], size: int) -> float:
    times = []
    gc.collect()
    gc.disable()  # a collection looks at the objects of all tests before
    try:
        for _ in range(3):
            begun = time.process_time()
            work(size)
            times.append(time.process_time() - begun)
    finally:
        gc.enable()
    return max(min(times), 0.002)
