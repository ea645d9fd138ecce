"""Tracebacks cut to the user's own code."""

from __future__ import annotations

import site
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path

CODE = "<code>"
"""The name of the code that was run, in tracebacks."""

_FRAMES = 40
_LIBRARIES = {
    *(sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")),
    *site.getsitepackages(),
    site.getusersitepackages(),
    str(Path(__file__).parents[1]),
}


def summary(error: BaseException) -> str:
    """Return the error in one line: `ValueError: bad`."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return f"{kind}: interrupted"
    # Asked through traceback because an error's own __str__ may fail as well.
    report = traceback.TracebackException(type(error), error, None)
    text = str(getattr(report, "msg", report)) if isinstance(error, SyntaxError) else str(report)
    line = " ".join(text.split())
    return f"{kind}: {line}" if line else kind


def format_error(error: BaseException, title: Callable[[str], str] = str) -> str:
    """Format the traceback in the user's own files; `title` gives their names.

    The frames of libraries are left out, except for the one that raised the error.
    """
    report = traceback.TracebackException.from_exception(error, compact=True)
    first = next((f.filename for f in report.stack if _own(f.filename)), None)
    _trim(report, lambda name: CODE if first in (name, None) else title(name))
    return "".join(report.format()).rstrip("\n")


def _trim(report: traceback.TracebackException, title: Callable[[str], str]) -> None:
    frames = list(report.stack)
    while frames and not _own(frames[0].filename):
        frames.pop(0)
    kept = [f for i, f in enumerate(frames) if _own(f.filename) or i == len(frames) - 1]
    for frame in kept:
        _ = frame.line  # looked up under the file's real name, before that is replaced
        frame.filename = title(frame.filename)
    kept = kept if len(kept) <= _FRAMES else kept[: _FRAMES // 2] + kept[-_FRAMES // 2 :]
    report.stack = traceback.StackSummary.from_list(kept)
    if isinstance(getattr(report, "filename", None), str):  # a syntax error
        report.filename = title(report.filename)
    for other in (report.__cause__, report.__context__, *(report.exceptions or ())):
        if other is not None:
            _trim(other, title)


def _own(filename: str) -> bool:
    return not filename.startswith(("<frozen", *_LIBRARIES))
