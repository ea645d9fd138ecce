"""The only import of litellm: its environment first, then the import, in the background.

Its prints and logs about our calls do not belong in a cell: `silence` keeps them out.

Nothing else in this package may import it.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, cast

from ipyagent.llm import prepare_environment

log = logging.getLogger(__name__)

_lock = threading.Lock()
_thread: threading.Thread | None = None


def litellm() -> Any:
    """Return the litellm module, with its environment and its warnings filter set."""
    # The filter that litellm sets at its import. Set again for each call: code that restores
    # filters in between (as pytest does) would show warnings that litellm ignores on purpose.
    warnings.filterwarnings("ignore", "Accessing the .* on the instance", DeprecationWarning)
    prepare_environment()
    if (module := sys.modules.get("litellm")) is not None and hasattr(module, "acompletion"):
        return module
    with _suppress_logs():
        import litellm
    return litellm


def warm_up() -> None:
    """Import litellm in a daemon thread, unless that was started before; returns at once."""
    global _thread
    prepare_environment()
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_warm, name="ipyagent-warm-up", daemon=True)
            _thread.start()


def _warm() -> None:
    try:
        litellm()
    except Exception:
        # The first real call will meet the same trouble and can tell the user.
        log.debug("warming up litellm failed", exc_info=True)


@contextmanager
def _suppress_logs() -> Iterator[None]:
    """Keep litellm's logs in this thread out of the notebook; other threads stay audible.

    It silences httpx for everybody: that level is the user's.
    """
    here = threading.get_ident()
    logger, httpx = logging.getLogger("LiteLLM"), logging.getLogger("httpx")
    level = httpx.level

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(elsewhere)
        httpx.setLevel(level)


_ours: ContextVar[str | None] = ContextVar("ipyagent_asks", default=None)
"""The key of the current request, "" for one without; None outside of our requests."""

_silence_lock = threading.Lock()
_depth = 0
_before = False
_filter: object = None


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
    with _silence_lock:
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
        with _silence_lock:
            _depth -= 1
            if not _depth:
                litellm.suppress_debug_info = _before
                with suppress(ValueError):  # somebody has restored filters meanwhile
                    cast("list[Any]", warnings.filters).remove(_filter)
