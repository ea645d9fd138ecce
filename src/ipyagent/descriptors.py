"""Errors that come of too many open files, with the line that says how to go on."""

from __future__ import annotations

import errno
from collections.abc import Iterator

_FULL = (errno.EMFILE, errno.ENFILE)
_ADVICE = (
    "This process has as many files and connections open as it may{}. Close some, or raise the "
    "limit (`ulimit -n` before the kernel starts), and run this again."
)


def has_none_left(error: BaseException) -> bool:
    """Whether an error, or one that led to it, says that no more files can be opened."""
    return any(getattr(each, "errno", None) in _FULL for each in _chain(error))


def describe(error: BaseException) -> str:
    """Return an error's text; where too many files are open, with the way out."""
    text = str(error)
    return f"{text.rstrip('.')}. {advice()}" if has_none_left(error) else text


def advice() -> str:
    """Say what to do where no more files can be opened."""
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
