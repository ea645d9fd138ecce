"""Errors as the user and the model read them: tracebacks cut to the user's code, and hints.

Hints are made of the names that are there when an error is raised, and run no code of the user's
classes: variables are looked up in frames, never as properties, and only tables of libraries and
plain dictionaries are looked into.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import linecache
import re
import site
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ipyagent.plaintext import ellipsize
from ipyagent.syntax import root_name, try_parse
from ipyagent.values.describe.libraries import table_of
from ipyagent.values.describe.safe_inspect import class_dict, one_line

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


def name_error(error: BaseException) -> tuple[str, str]:
    """Return the name of the error's class, and its message on one line."""
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt):
        return kind, "interrupted"
    # Asked through traceback because an error's own __str__ may fail as well.
    report = traceback.TracebackException(type(error), error, None)
    text = str(getattr(report, "msg", report)) if isinstance(error, SyntaxError) else str(report)
    return kind, " ".join(_shorten(text).split())


def summarize_error(error: BaseException) -> str:
    """Return the error in one line: `ValueError: bad`."""
    return ": ".join(filter(None, name_error(error)))


def find_line(error: BaseException) -> int:
    """Return the line of the user's code that raised the error; 0 if none did."""
    return next((line for _, line in _list_frames(error)), 0)


def _list_frames(error: BaseException) -> list[tuple[types.FrameType, int]]:
    """Return the frames of the user's own files, each with its line."""
    frames = traceback.walk_tb(error.__traceback__)
    return [each for each in frames if _own(each[0].f_code.co_filename)]


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
    frames = _list_frames(error)
    first = frames[0][0].f_code.co_filename if frames else ""
    shown = frames if len(frames) <= _LINES else [frames[0], *frames[1 - _LINES :]]
    lines = [_format_line(frame, line, first, title) for frame, line in shown]
    hint = find_hint(error, *frames[-1]) if frames else ""
    last = ellipsize(summarize_error(error), _MESSAGE)
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
    own = _list_frames(cause) if cause else []
    return [f"caused by {ellipsize(summarize_error(cause), _MESSAGE)}"] if cause and own else []


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


# Hints --------------------------------------------------------------------------------------------

_NEAR = 3
_LIST = 140  # characters of a list of names
_MOST = 2_000  # names that are compared
_QUOTED = re.compile(r"name '(\w+)'")


@dataclass(frozen=True)
class Failure:
    """A statement that failed: its syntax, and the variables that it saw."""

    statement: ast.stmt
    variables: Mapping[str, object]

    def names(self) -> list[str]:
        """Return the variables in the statement, in order, each once."""
        nodes = (each.id for each in ast.walk(self.statement) if isinstance(each, ast.Name))
        return [name for name in dict.fromkeys(nodes) if name in self.variables]

    def owners(self, text: str) -> list[str]:
        """Return the variables in the order in which the text is likely to belong to them."""
        nearest = [
            root
            for node in ast.walk(self.statement)
            if isinstance(node, ast.Subscript | ast.Call) and _has_text(node, text)
            for root in [root_name(node)]
        ]
        names = self.names()
        return list(dict.fromkeys([*(name for name in nearest[::-1] if name in names), *names]))

    def texts(self) -> list[str]:
        """Return the text constants in the statement."""
        return [
            each.value
            for each in ast.walk(self.statement)
            if isinstance(each, ast.Constant) and type(each.value) is str
        ]


def _has_text(node: ast.Subscript | ast.Call, text: str) -> bool:
    """Return whether the text is in the brackets or the parentheses of the node."""
    inner = [node.slice] if isinstance(node, ast.Subscript) else [*node.args, *node.keywords]
    found = (each for part in inner for each in ast.walk(part) if isinstance(each, ast.Constant))
    return any(each.value == text for each in found)


def find_hint(error: BaseException, frame: types.FrameType, line: int) -> str:
    """Return what may help to repair the error, "" if nothing is known; never raises."""
    for kind, hint in _HINTS:
        if isinstance(error, kind):
            try:
                return hint(error, _find_failure(frame, line))
            except Exception:  # an object is not what it seems
                return ""
    return ""


def _find_failure(frame: types.FrameType, line: int) -> Failure:
    """Return the innermost statement at that line of the frame's file."""
    # The body of a class may have variables of a mapping of the user's own.
    own = type(frame.f_locals).__name__ in {"dict", "FrameLocalsProxy"}
    variables = {**frame.f_globals, **(frame.f_locals if own else {})}
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    tree = try_parse(source)  # None for a cell with magics
    nodes = [
        each
        for each in (ast.walk(tree) if tree else ())
        if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or 0)
    ]
    if not nodes:
        return Failure(_parse_line(linecache.getline(frame.f_code.co_filename, line)), variables)
    return Failure(min(nodes, key=lambda each: (each.end_lineno or 0) - each.lineno), variables)


def _parse_line(line: str) -> ast.stmt:
    tree = try_parse(line.strip())
    return tree.body[0] if tree and tree.body else ast.Pass()


# The errors ---------------------------------------------------------------------------------------


def _hint_key(error: BaseException, failure: Failure) -> str:
    message = _first_argument(error)
    wanted = [text for text in failure.texts() if text == message or repr(text) in message]
    if not wanted and type(message) is str:
        wanted = [message]
    for text in wanted:
        for name in failure.owners(text):
            keys, kind = _keys_of(failure.variables[name])
            if keys and text not in keys:
                return _compose_missing(name, kind, text, keys)
    return ""


def _field(error: BaseException, cls: type[BaseException], name: str) -> Any:
    """Return an attribute of an error as its built-in class keeps it."""
    return class_dict(cls)[name].__get__(error)


def _hint_column(missing: str, failure: Failure) -> str:
    for name in failure.names():
        keys, kind = _keys_of(failure.variables[name])
        if kind == "column" and missing not in keys:
            return _compose_missing(name, kind, missing, keys)
    return ""


def _first_argument(error: BaseException) -> str:
    args = _field(error, BaseException, "args")
    return str.__str__(args[0]) if args and isinstance(args[0], str) else ""


def _keys_of(value: object) -> tuple[list[str], str]:
    """Return the text keys of a table or a plain dictionary, and what they are called."""
    table = table_of(value)
    if table is not None and not table.is_series:
        return [each.label for each in table.columns if type(each.label) is str], "column"
    if type(value) is dict:
        return [key for key in islice(value, _MOST) if type(key) is str], "key"
    return [], ""


def _compose_missing(name: str, kind: str, missing: str, keys: list[str]) -> str:
    listed = ", ".join(islice((one_line(each, 40) for each in keys), 50))
    near = _quote_near(missing, keys)
    close = f"; near: {near}" if near else ""
    absent = f"{name} has no {kind} {one_line(repr(missing), 60)}{close}."
    return f"{absent} {kind.capitalize()}s: {ellipsize(listed, _LIST)}"


def _hint_attribute(error: BaseException, failure: Failure) -> str:
    missing, owner = _field(error, AttributeError, "name"), _field(error, AttributeError, "obj")
    keys, kind = _keys_of(owner)
    if type(missing) is not str or kind != "column" or not _close(missing, keys):
        return ""
    name = next((n for n in failure.names() if failure.variables[n] is owner), "the table")
    return _compose_missing(name, kind, missing, keys)


def _hint_name(error: BaseException, failure: Failure) -> str:
    missing = _field(error, NameError, "name")
    if type(missing) is not str:  # of a query, by pandas
        quoted = _QUOTED.search(_first_argument(error))
        return _hint_column(quoted[1], failure) if quoted else ""
    known = [n for n in failure.variables if type(n) is str and not n.startswith("_")]
    near = _quote_near(missing, [*known, *vars(builtins)])
    return f"Near: {near}" if near else ""


_HINTS: tuple[tuple[type[BaseException], Callable[[BaseException, Failure], str]], ...] = (
    (KeyError, _hint_key),
    (AttributeError, _hint_attribute),
    (NameError, _hint_name),
)


# Near names ---------------------------------------------------------------------------------------


def _quote_near(wanted: str, names: Iterable[str]) -> str:
    close = _close(wanted, list(islice(names, _MOST)))
    return ", ".join(repr(one_line(each, 40)) for each in close)


def _close(wanted: str, names: list[str]) -> list[str]:
    """Return the names most like the wanted one; case, spaces and signs matter least."""
    folded: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        folded.setdefault(_fold(name), []).append(name)
    matches = difflib.get_close_matches(_fold(wanted), folded, n=_NEAR, cutoff=0.7)
    return [name for match in matches for name in folded[match]][:_NEAR]


def _fold(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold()) or name
