"""The one way to litellm: its environment first, then its import, in the background if possible.

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

from ipyagent.llm.environment import prepare, start_environ
from ipyagent.llm.origins import late_bases

log = logging.getLogger(__name__)

_lock = threading.Lock()
_thread: threading.Thread | None = None
_imported_before_us = "litellm" in sys.modules


def litellm() -> Any:
    """The litellm module, with its environment and its warnings filter as it needs them."""
    # The filter that litellm sets at its import. Set again for each call, since whoever restores
    # filters in between (pytest does) would be told of what litellm itself has chosen to ignore.
    warnings.filterwarnings("ignore", "Accessing the .* on the instance", DeprecationWarning)
    prepare()
    if (module := sys.modules.get("litellm")) is not None and hasattr(module, "acompletion"):
        return module
    with _hushed():
        import litellm
    return litellm


def warm_up() -> None:
    """Import litellm in a daemon thread, unless that was begun before; returns at once."""
    global _thread
    prepare()
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_warm, name="ipyagent-warm-up", daemon=True)
            _thread.start()


def loaded(timeout: float | None = 0.0) -> bool:
    """Whether the warm-up has ended, after waiting up to `timeout` seconds (None: for ever)."""
    if _thread is None:
        return False
    _thread.join(timeout)
    return not _thread.is_alive()


def dotenv_warning(
    environ: Mapping[str, str] | None = None, start: Mapping[str, str] | None = None
) -> str | None:
    """What to tell a person whose own import of litellm has let a `.env` choose a base URL."""
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
        asyncio.run(_mock_call(litellm()))
    except Exception:
        # The first real call will meet the same trouble and can tell the person.
        log.info("warming up litellm failed", exc_info=True)


async def _mock_call(module: Any) -> None:
    """One streamed call without a network, since litellm imports much of itself only then."""
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
def _hushed() -> Iterator[None]:
    """Keep what litellm logs in this thread out of the notebook; other threads stay audible."""
    here = threading.get_ident()
    logger = logging.getLogger("LiteLLM")

    def elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(elsewhere)
