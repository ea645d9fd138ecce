"""Tracebacks cut to the person's own code."""

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
    """The error in one line: `ValueError: bad`."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return f"{kind}: interrupted"
    # Asked through traceback because an error's own __str__ may fail as well.
    said = traceback.TracebackException(type(error), error, None)
    text = str(getattr(said, "msg", said)) if isinstance(error, SyntaxError) else str(said)
    line = " ".join(text.split())
    return f"{kind}: {line}" if line else kind


def formatted(error: BaseException, title: Callable[[str], str] = str) -> str:
    """The traceback in the person's own files; `title` gives their names.

    The frames of libraries are left out, but for the one that raised the error.
    """
    said = traceback.TracebackException.from_exception(error, compact=True)
    first = next((f.filename for f in said.stack if _own(f.filename)), None)
    _trim(said, lambda name: CODE if first in (name, None) else title(name))
    return "".join(said.format()).rstrip("\n")


def _trim(said: traceback.TracebackException, title: Callable[[str], str]) -> None:
    frames = list(said.stack)
    while frames and not _own(frames[0].filename):
        frames.pop(0)
    kept = [f for i, f in enumerate(frames) if _own(f.filename) or i == len(frames) - 1]
    for frame in kept:
        _ = frame.line  # looked up under the file's real name, before that is replaced
        frame.filename = title(frame.filename)
    kept = kept if len(kept) <= _FRAMES else kept[: _FRAMES // 2] + kept[-_FRAMES // 2 :]
    said.stack = traceback.StackSummary.from_list(kept)
    if isinstance(getattr(said, "filename", None), str):  # a syntax error
        said.filename = title(said.filename)
    for other in (said.__cause__, said.__context__, *(said.exceptions or ())):
        if other is not None:
            _trim(other, title)


def _own(filename: str) -> bool:
    return not filename.startswith(("<frozen", *_LIBRARIES))
