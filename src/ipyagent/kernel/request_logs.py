"""The logs of our own work: they stay out of the user's log, unless they asked for them.

Libraries that the user's code uses too write these logs, so only records of our own work are
dropped: it runs in a context that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context

_PACKAGES = {
    *("aiohttp", "anyio", "asyncio", "client", "httpcore", "httpcore2", "httpx", "httpx2"),
    *("markdown_it", "mcp", "openai", "opentelemetry", "PIL", "requests", "sse_starlette"),
    *("traitlets", "urllib3"),
}

_EARLY = [
    *("asyncio", "httpx", "httpx2", "openai._base_client", "PIL.Image", "PIL.PngImagePlugin"),
    *(
        f"{package}.{part}"
        for package in ("httpcore", "httpcore2")
        for part in ("connection", "http11", "http2", "proxy", "socks")
    ),
]
"""Loggers that libraries make while they already work for us."""

_ours: ContextVar[bool] = ContextVar("ipyagent_works", default=False)
_known = 0


def own_context() -> Context:
    """Return a copy of this context for work of our own."""
    _add_filters()
    context = copy_context()
    context.run(_ours.set, True)
    return context


@contextmanager
def logs_of(function: object) -> Iterator[None]:
    """Let what a tool's function does be logged as the user set it, unless the tool is ours."""
    module = getattr(function, "__module__", None) or ""
    token = _ours.set(_ours.get() and module.partition(".")[0] == "ipyagent")
    try:
        yield
    finally:
        _ours.reset(token)


def _add_filters() -> None:
    """Add the filter to the loggers of all libraries that our requests use, each once."""
    global _known
    loggers = logging.root.manager.loggerDict
    if len(loggers) == _known:
        return
    for name in [*_EARLY, *loggers]:
        if name.partition(".")[0] in _PACKAGES:
            logging.getLogger(name).addFilter(is_wanted)
    _known = len(loggers)


def is_wanted(record: logging.LogRecord) -> bool:
    """Return whether the user wants to see a record: the filter of the libraries' loggers."""
    return not _ours.get() or record.levelno >= logging.WARNING or _is_asked_for(record.name)


def _is_asked_for(name: str) -> bool:
    """Return whether the user has set a level or a handler for this library."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger is not logging.root:
        if logger.level or any(type(each) is not logging.NullHandler for each in logger.handlers):
            return True
        logger = logger.parent
    return False
