"""Silence around LiteLLM: what it prints and logs of our calls does not belong into a cell."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, cast

_ours: ContextVar[str | None] = ContextVar("ipyagent_asks", default=None)
"""The key of the request that waits here, "" for one without; None outside of ours."""

_lock = threading.Lock()
_depth = 0
_before = False
_filter: Any = None


def _discreet(record: logging.LogRecord) -> bool:
    """What LiteLLM may log: of ours nothing that shows in a cell, and no key that was told back."""
    key = _ours.get()
    if key is not None and record.levelno >= logging.WARNING:
        return False
    if key and key in (message := record.getMessage()):
        record.msg, record.args = message.replace(key, "(key)"), ()
    return True


@contextmanager
def quiet(litellm: Any, key: str | None = None) -> Iterator[None]:
    """Without what LiteLLM prints into the cell: advertisements, tracebacks, Pydantic's warnings.

    The errors themselves reach the person through us. There is no way to say so for one call: the
    switch and the warnings filter are on while one of ours waits, and as the person left them
    before and after; the log's filter stays, and lets everything pass that is not ours.
    """
    global _depth, _before, _filter
    logging.getLogger("LiteLLM").addFilter(_discreet)
    with _lock:
        if not _depth:
            _before, litellm.suppress_debug_info = litellm.suppress_debug_info, True
            # It serializes what a service sent with wrong types.
            warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
            _filter = warnings.filters[0]
        _depth += 1
    token = _ours.set(key or "")
    try:
        yield
    finally:
        _ours.reset(token)
        with _lock:
            _depth -= 1
            if not _depth:
                litellm.suppress_debug_info = _before
                with suppress(ValueError):  # somebody has restored filters meanwhile
                    cast("list[Any]", warnings.filters).remove(_filter)
