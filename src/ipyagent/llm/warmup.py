"""The one way to litellm: its environment first, then its import, in the background if possible.

Left alone, litellm's import reads the `.env` of the working folder into the process (which may
redirect a key to whoever wrote that file) and fetches a price list from the network. Both are
switched off here before the import; nothing else in this package may import it.
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
from pathlib import Path
from typing import Any

from ipyagent.llm.origins import late_bases

log = logging.getLogger(__name__)

ENVIRONMENT = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

_lock = threading.Lock()
_thread: threading.Thread | None = None
_snapshot = dict(os.environ)
_imported_before_us = "litellm" in sys.modules


def start_environ() -> Mapping[str, str]:
    """The environment that this process was started with.

    Where the system does not tell, the one that this module found when it was imported.
    """
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return _snapshot
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def litellm() -> Any:
    """The litellm module, with its environment and its warnings filter as it needs them."""
    # The filter that litellm sets at its import. Set again for each call, since whoever restores
    # filters in between (pytest does) would be told of what litellm itself has chosen to ignore.
    warnings.filterwarnings("ignore", "Accessing the .* on the instance", DeprecationWarning)
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if (module := sys.modules.get("litellm")) is not None and hasattr(module, "acompletion"):
        return module
    with _hushed():
        import litellm
    return litellm


def warm_up() -> None:
    """Import litellm in a daemon thread, unless that was begun before; returns at once."""
    global _thread
    for name, value in ENVIRONMENT.items():  # also for an import by the person meanwhile
        os.environ.setdefault(name, value)
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
        log.warning("warming up litellm failed", exc_info=True)


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
