"""Tracebacks cut to the user's own code."""

from __future__ import annotations

import linecache
import site
import sysconfig
import traceback
import types
from collections.abc import Callable
from pathlib import Path

from ipyagent.kernel.error_hints import find_hint
from ipyagent.phrases import ellipsize

CODE = "<code>"
"""The name of the code that was run, in tracebacks."""

_FRAMES = 40
_LINES, _LINE, _MESSAGE = 6, 120, 1_000  # of a brief error: lines, and characters
_LONGEST = 100_000
"""Characters of a message that are kept."""
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
    line = " ".join(_shorten(text).split())
    return f"{kind}: {line}" if line else kind


def format_error(error: BaseException, title: Callable[[str], str] = str) -> str:
    """Format the traceback in the user's own files; `title` gives their names.

    The frames of libraries are left out, except for the one that raised the error.
    """
    report = traceback.TracebackException.from_exception(error, compact=True)
    first = next((f.filename for f in report.stack if _own(f.filename)), None)
    _trim(report, lambda name: CODE if first in (name, None) else title(name))
    return "".join(map(_shorten, report.format())).rstrip("\n")


def brief_error(error: BaseException, title: Callable[[str], str] = str) -> str:
    """Return the error as short as a model needs it: the user's lines, the error, and a hint."""
    if isinstance(error, SyntaxError | BaseExceptionGroup):
        return format_error(error, title)
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _own(frame.f_code.co_filename)
    ]
    first = frames[0][0].f_code.co_filename if frames else ""
    shown = frames if len(frames) <= _LINES else [frames[0], *frames[1 - _LINES :]]
    lines = [_format_line(frame, line, first, title) for frame, line in shown]
    hint = find_hint(error, *frames[-1]) if frames else ""
    last = ellipsize(summary(error), _MESSAGE)
    return "\n".join([*lines, f"{last.rstrip('.')}. {hint}" if hint else last, *_cause(error)])


def _shorten(text: str) -> str:
    """Return a text without its middle if it is very long: a message can be any data."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters …\n{text[-half:]}"


def _format_line(frame: types.FrameType, line: int, first: str, title: Callable[[str], str]) -> str:
    name, function = frame.f_code.co_filename, frame.f_code.co_name
    text = ellipsize(linecache.getline(name, line, frame.f_globals).strip(), _LINE)
    place = "" if name == first else f"{title(name)}, "
    inside = "" if function == "<module>" else f" in {function}"
    return f"{place}line {line}{inside}: {text}"


def _cause(error: BaseException) -> list[str]:
    """Return the error that the user's code turned into this one, if it did."""
    cause = error.__cause__
    own = cause is not None and any(
        _own(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(cause.__traceback__)
    )
    return [f"caused by {ellipsize(summary(cause), _MESSAGE)}"] if cause and own else []


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
    compiled = filename.endswith((".pyx", ".pxd", ".pxi"))  # a library's, by a relative name
    return not compiled and not filename.startswith(("<frozen", *_LIBRARIES))
