"""How tests wait for a state: long, since it costs nothing when things go well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds, for every wait on a state: whatever else the machine does, more than that is a fault."""


def wait_until(holds: Callable[[], Any], told: Callable[[], object] = lambda: "") -> Any:
    """Wait until `holds()` is true, and return it; `told()` says what there is instead."""
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not in {PATIENCE} s: {told()}"
        time.sleep(0.01)
    return found


async def until(holds: Callable[[], Any], told: Callable[[], object] = lambda: "") -> Any:
    """The same on an event loop."""
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not in {PATIENCE} s: {told()}"
        await asyncio.sleep(0.01)
    return found
