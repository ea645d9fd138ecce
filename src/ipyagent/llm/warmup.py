"""The only import of litellm: its environment first, then the import, in the background.

Nothing else in this package may import it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ipyagent.llm.destinations import late_bases
from ipyagent.llm.environment import prepare, start_environ
from ipyagent.llm.litellm_silence import silence

log = logging.getLogger(__name__)

_lock = threading.Lock()
_thread: threading.Thread | None = None
_imported_before_us = "litellm" in sys.modules


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


def dotenv_warning(
    environ: Mapping[str, str] | None = None, start: Mapping[str, str] | None = None
) -> str | None:
    """Return a warning if the user's own import of litellm let a `.env` choose a base URL."""
    if not _imported_before_us:
        return None
    late = late_bases(environ or os.environ, start or start_environ())
    if not late:
        return None
    names = ", ".join(f"{name}={value}" for name, value in late.items())
    return (
        f"litellm was imported before ipyagent, and {names} was not set when this process started "
        "(litellm reads the .env file of the working folder). ipyagent sends no key there; to use "
        "that address on purpose, set llm.api_base."
    )


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
