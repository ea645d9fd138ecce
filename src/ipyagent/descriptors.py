"""Errors caused by too many open files, with advice."""

from __future__ import annotations

import errno
from collections.abc import Iterator

_FULL = (errno.EMFILE, errno.ENFILE)
_ADVICE = (
    "This process has as many files and connections open as it may{}. Close some, or raise the "
    "limit (`ulimit -n` before the kernel starts), and run this again."
)


def has_none_left(error: BaseException) -> bool:
    """Return whether an error, or one that led to it, says that no more files can be opened."""
    return any(getattr(each, "errno", None) in _FULL for each in _chain(error))


def describe(error: BaseException) -> str:
    """Return an error's text, with advice if too many files are open."""
    text = str(error)
    return f"{text.rstrip('.')}. {advice()}" if has_none_left(error) else text


def advice() -> str:
    """Return advice for too many open files."""
    try:
        import resource  # not on Windows

        limit = f" ({resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
    except (ImportError, OSError):  # without a descriptor nothing more can be imported
        limit = ""
    return _ADVICE.format(limit)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
