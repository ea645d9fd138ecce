"""Silence around LiteLLM: its prints and logs about our calls do not belong in a cell."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, cast

_ours: ContextVar[str | None] = ContextVar("ipyagent_asks", default=None)
"""The key of the current request, "" for one without; None outside of our requests."""

_lock = threading.Lock()
_depth = 0
_before = False
_filter: Any = None


def _discreet(record: logging.LogRecord) -> bool:
    """Drop LiteLLM's log messages about our calls that show in a cell or repeat a key."""
    key = _ours.get()
    is_asked_for = logging.getLogger(record.name).level and record.levelno < logging.WARNING
    if key is not None and not is_asked_for:
        return False
    if key and key in (message := record.getMessage()):
        record.msg, record.args = message.replace(key, "(key)"), ()
    return True


@contextmanager
def silence(litellm: Any, key: str | None = None) -> Iterator[None]:
    """Suppress what LiteLLM prints: advertisements, tracebacks, Pydantic's warnings.

    The errors themselves reach the user through us. This cannot be set for one call: the switch and
    the warnings filter are on during our calls, and as the user left them before and after. The
    log's filter stays, and passes everything that is not ours.
    """
    global _depth, _before, _filter
    logging.getLogger("LiteLLM").addFilter(_discreet)
    with _lock:
        if not _depth:
            _before, litellm.suppress_debug_info = litellm.suppress_debug_info, True
            # Of LiteLLM's own types, and of replies with wrong types that it serializes.
            warnings.filterwarnings("ignore", category=UserWarning, module="pydantic")
            _filter = warnings.filters[0]
        _depth += 1
    token = _ours.set(key or "")
    try:
        yield
    finally:
        with suppress(ValueError):  # a reply that was given up is closed in another context
            _ours.reset(token)
        with _lock:
            _depth -= 1
            if not _depth:
                litellm.suppress_debug_info = _before
                with suppress(ValueError):  # somebody has restored filters meanwhile
                    cast("list[Any]", warnings.filters).remove(_filter)
