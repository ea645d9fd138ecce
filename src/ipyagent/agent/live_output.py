"""The last lines of what a running call puts out, told as they come.

They are read from outside, a few times a second: code that prints waits for nothing, and what it
prints faster than that is never looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import NoReturn

from ipyagent.kernel.outputs import RECENT, Recent
from ipyagent.plaintext import strip_escapes
from ipyagent.redaction import Redactor

LINES, CHARS = 10, 2_000
"""The most that is told at once."""
INTERVAL = 0.1
"""Seconds between two looks."""
_SHARE = 20
"""How many times as long as a look the pause after it is, at least."""
_CONTEXT = 8_000
"""Characters before the last lines that are searched for the beginning of a secret."""


async def tell_output(
    recent: Recent, redactor: Redactor, tell: Callable[[str], object]
) -> NoReturn:
    """Tell the last lines each time they have changed, until cancelled."""
    told, pause = "", INTERVAL
    while True:
        await asyncio.sleep(pause)
        begun = time.monotonic()
        # Variables in which secrets are looked for may change meanwhile: next time, then.
        with contextlib.suppress(Exception):
            text = recent()
            if text is not None and (lines := last_lines(text, redactor)) != told:
                told = lines
                tell(lines)
        pause = max(INTERVAL, _SHARE * (time.monotonic() - begun))


def last_lines(text: str, redactor: Redactor) -> str:
    """Return the last lines of raw text as a terminal shows them, without any part of a secret."""
    raw, text = text, strip_escapes(text)
    body = text.rstrip("\n")
    start = len(body) - len("\n".join(body.split("\n")[-LINES:])[-CHARS:])
    if len(raw) >= RECENT and start < _CONTEXT:
        # What a progress bar has overwritten takes the room, and the text before it is cut.
        text = strip_escapes(raw.rstrip("\n").rpartition("\n")[2].partition("\r")[2])
        start = max(0, len(text) - CHARS)
    stream = redactor.stream()
    stream.add(text[max(0, start - _CONTEXT) : start])
    return (stream.add(text[start:]) + stream.pause()).rstrip("\n")
