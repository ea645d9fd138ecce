"""The only import of litellm: its environment first, then the import, in the background.

Nothing else in this package may import it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipyagent.llm.environment import prepare
from ipyagent.llm.litellm.silence import silence

log = logging.getLogger(__name__)

_lock = threading.Lock()
_thread: threading.Thread | None = None


def litellm() -> Any:
    """Return the litellm module, with its environment and its warnings filter set."""
    # The filter that litellm sets at its import. Set again for each call: code that restores
    # filters in between (as pytest does) would show warnings that litellm ignores on purpose.
    warnings.filterwarnings("ignore", "Accessing the .* on the instance", DeprecationWarning)
    prepare()
    if (module := sys.modules.get("litellm")) is not None and hasattr(module, "acompletion"):
        return module
    with _suppress_logs():
        import litellm
    return litellm


def warm_up() -> None:
    """Import litellm in a daemon thread, unless that was started before; returns at once."""
    global _thread
    prepare()
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_warm, name="ipyagent-warm-up", daemon=True)
            _thread.start()


def wait_until_loaded(timeout: float | None = 0.0) -> bool:
    """Return whether the warm-up has ended, after waiting up to `timeout` seconds (None: ever)."""
    if _thread is None:
        return False
    _thread.join(timeout)
    return not _thread.is_alive()


def _warm() -> None:
    try:
        module = litellm()
        with silence(module):
            asyncio.run(_mock_call(module))
    except Exception:
        # The first real call will meet the same trouble and can tell the user.
        log.info("warming up litellm failed", exc_info=True)


async def _mock_call(module: Any) -> None:
    """Make one streamed call without a network: litellm imports much of itself only then."""
    function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
    stream = await module.acompletion(
        model="openai/warm-up",
        messages=[{"role": "user", "content": "hello"}],
        tools=[{"type": "function", "function": function}],
        stream=True,
        mock_response="hello",
        api_key="none",
        _skip_mcp_handler=True,
    )
    async for _ in stream:
        pass


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
