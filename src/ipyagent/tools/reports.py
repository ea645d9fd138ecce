"""Reports of rehearsals, and what they mean.

A report was written by a process that has run hostile code, so nothing is taken on trust. A forged
one can only say what the code could have printed as well, or bind new names to data.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import glob
import keyword
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unicodedata import normalize

from pydantic import ValidationError

from ipyagent import schema
from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.displays import PageBundle, as_chart, as_image
from ipyagent.rehearsal.in_kernel import is_in_text, is_random_state, load_libraries, resolve_names
from ipyagent.rehearsal.on_copy import digest_file
from ipyagent.rehearsal.plain_data import read_all
from ipyagent.rehearsal.plain_parts import NotPlainError
from ipyagent.rehearsal.process import NotRehearsedError
from ipyagent.tools.file_change import Change
from ipyagent.tools.rehearsed import Rehearsed
from ipyagent.tools.workspace import Workspace
from ipyagent.values import Variables
from ipyagent.values.variables.reach import Adoption

_TEXTS, _TEXT, _PATH = 30, 300, 4_096
"""Texts of a list that are taken, characters of each, and of a path."""
_IMAGES, _DISPLAYS, _CHANGES, _FILES, _DIFF = 20, 50, 200, 100, 100_000
_SHOWN = frozenset({"text/html", "text/markdown", "text/latex", "image/svg+xml"}) | {
    "application/json",
    "text/plain",
}
REACHES = "reaches for what is hidden from it: "
UNKEPT = "(Tried on a copy of the kernel: nothing that it did before the error was kept.)"


_ISOLATED = re.compile(
    "|".join(
        [
            *map(os.strerror, (errno.EROFS, errno.EPERM, errno.EACCES, errno.EBADF)),
            *map(os.strerror, (errno.ENETUNREACH, errno.ENOSYS)),
            *("name resolution", "readonly database", "disk I/O error", "unable to open database"),
            *("can't start new thread", "cannot allocate memory", "MemoryError"),
        ]
    ),
    re.IGNORECASE,
)
"""Errors of code that met the isolation, and was not seen to: code in C."""
_PATHS = re.compile(r"/[^\s'\"`:,;()<>]+")


def judge_report(
    report: JsonDict,
    buffers: Sequence[memoryview],
    workspace: Workspace,
    code: str,
    bindings: Variables,
    own: Collection[str] = (),
    sees: Callable[[str], bool] = lambda path: True,
) -> Rehearsed:
    """Return what a report means; raises NotRehearsedError if it makes no sense.

    `bindings` are the variables that its data may refer to, `own` those that the run has made.
    `sees` tells of a path whether the code saw it as it is.
    """
    try:
        found, result, is_isolated = _read_report(report, workspace)
        charts = tuple(as_chart(each) for each in report["charts"][:_DISPLAYS])
        drawn = tuple(PageBundle(each, {}, None) for each in charts if each)
        if len(drawn) < len(charts):
            raise ValueError
        resolved = [str(each) for each in report["resolved"][:_CHANGES]]
        nodes, left = dict(report["adoption"]), frozenset(map(str, report["left"]))
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError):
        raise NotRehearsedError("its report makes no sense") from None
    if not result.success:
        return _judge_failure(found, result, sees, drawn, is_isolated=is_isolated)
    is_allowed = all(
        is_bindable(each.name) if each.change == "created" else each.name in own
        for each in found.variables
    )
    if found.files or found.texts or not is_allowed:
        shown = found.model_copy(update={"result": None}) if is_isolated else found
        return Rehearsed(shown, left=left)
    names = [*nodes, *resolved]
    if not all(_is_free(n, bindings, own) and is_in_text(n, code) for n in names):
        raise NotRehearsedError("its report makes no sense")
    adoption = _read_data(nodes, buffers, bindings)
    adoption.values.update(resolve_names(code, resolved, bindings))
    adoption.gone.extend(each.name for each in found.variables if each.change == "deleted")
    bound = {*adoption.values, *adoption.gone}
    kept = tuple(each for each in found.variables if each.name in bound)
    missing = tuple(name for name in resolved if name not in bound)
    outcome = schema.RehearsalOutcome.ADOPTED if kept else schema.RehearsalOutcome.LOOKED
    judged = schema.Rehearsal(outcome=outcome, variables=kept, left=(*missing, *found.left))
    return Rehearsed(judged, result, adoption, asked=found, charts=drawn, left=left)


def _read_report(
    report: JsonDict, workspace: Workspace
) -> tuple[schema.Rehearsal, schema.ToolResult, bool]:
    """Return what a report says; and whether the code met its isolation. Raises ValidationError."""
    result = _read_result(report["result"], has_charts=bool(report["charts"]))
    attempts = [(str(kind), str(detail)) for kind, detail in report["attempts"][:_TEXTS]]
    met = [each for each in attempts if _makes_difference(*each)]
    said = [t if k == "says" else f"{REACHES}{t}" for k, t in met if k in ("says", "reaches")]
    # Where nothing can be written on the copy, that is all that is known of a file.
    refused = [{"path": t, "kind": k} for k, t in met if k in ("changes", "deletes")]
    left = [*(f"{name} ({kind})" for name, kind in report["left"].items()), *report["touched"]]
    found = schema.Rehearsal(
        outcome=schema.RehearsalOutcome.CHANGES,
        variables=tuple(_read_variables(report["variables"])),
        files=tuple(_read_files([*refused, *report["files"]], workspace)),
        result=result,
        texts=_cut([*report["unclear"][:_TEXTS], *said]),
        left=_cut(left[:_TEXTS]),
        settings=_cut(report["settings"][:_TEXTS]),
    )
    return found, result, bool(met)


def _cut(texts: list[object]) -> tuple[str, ...]:
    return tuple(str(each)[:_TEXT] for each in texts)


def _read_data(nodes: JsonDict, buffers: Sequence[memoryview], bindings: Variables) -> Adoption:
    """Return the data of a report; raises NotRehearsedError.

    A library may have loaded, on the copy, another one whose objects these are.
    """
    for library in ("", "import numpy", "import pandas"):
        load_libraries(library)
        with contextlib.suppress(NotPlainError):
            found = read_all(nodes, buffers, bindings)
            random = {name: each for name, each in found.values.items() if is_random_state(name)}
            values = {name: each for name, each in found.values.items() if name not in random}
            return replace(found, values=values, random=random)
    raise NotRehearsedError("its data makes no sense")


def _makes_difference(kind: str, detail: str) -> bool:
    """Return whether code would do otherwise outside: not for a path at which nothing is."""
    if kind == "says" or os.path.lexists(detail):
        return True
    if kind == "reaches":
        return bool(glob.glob(detail))  # noqa: PTH207
    return kind == "changes" and Path(detail).parent.is_dir()


def _judge_failure(
    found: schema.Rehearsal,
    result: schema.ToolResult,
    sees: Callable[[str], bool],
    charts: tuple[PageBundle, ...],
    *,
    is_isolated: bool,
) -> Rehearsed:
    """Return what it means that the code raised: its own error, or one of the isolation."""
    if not is_isolated and _meets_isolation(result.error or "", sees):
        is_isolated, reason = True, f"fails where it is isolated: {result.error}"[:_TEXT]
        found = found.model_copy(update={"texts": (*found.texts, reason)})
    if is_isolated:
        # Not with the error of right code that met the isolation.
        return Rehearsed(found.model_copy(update={"result": None}), has_failed=True)
    has_changed = found.files or found.texts or found.variables
    result = result.with_note(UNKEPT) if has_changed else result
    failed = schema.Rehearsal(outcome=schema.RehearsalOutcome.FAILED)
    return Rehearsed(failed, result, has_failed=True, charts=charts)


def _meets_isolation(error: str, sees: Callable[[str], bool]) -> bool:
    """Return whether an error would not come outside, where more can be reached."""
    if _ISOLATED.search(error):
        return True
    paths = map(os.path.realpath, _PATHS.findall(error))
    return any(os.path.lexists(path) and not sees(path) for path in paths)


def _is_free(name: str, bindings: Mapping[str, object], own: Collection[str]) -> bool:
    """Return whether a report may bind a name: it is new, or the run's own."""
    if is_random_state(name):
        return True
    return is_bindable(name) and (name not in bindings or name in own)


def _read_result(data: JsonDict, *, has_charts: bool) -> schema.ToolResult:
    images = (as_image(str(i["data"])) for i in data["images"][:_IMAGES])
    displays = (
        schema.Display(
            data={kind: text for kind, text in each["data"].items() if kind in _SHOWN},
            beside=has_charts and bool(each.get("beside")),
            images_before=each["images_before"],
        )
        for each in data["displays"][:_DISPLAYS]
    )
    return schema.ToolResult(
        success=data["success"],
        output=str(data["output"]),
        error=None if data["success"] else str(data["error"]),
        for_model=data.get("for_model"),
        truncated=data.get("truncated"),
        images=tuple(each for each in images if each is not None),
        displays=tuple(displays),
    )


def _read_variables(changes: list[JsonDict]) -> Iterator[schema.VariableChange]:
    for change in changes[:_CHANGES]:
        if len(change["name"]) > _TEXT or len(change["type"]) > _TEXT:
            raise ValueError("a name is too long")
        limits = dict.fromkeys(change, _TEXT) | {"cells": 3 * _TEXT}
        cut = {key: str(text)[: limits[key]] for key, text in change.items()}
        yield schema.VariableChange.model_validate(cut)


def _read_files(entries: list[JsonDict], workspace: Workspace) -> Iterator[schema.FileEffect]:
    """Yield the files and folders that would differ from what is there now."""
    root = workspace.root
    for entry in entries[:_FILES]:
        path, kind = Path(str(entry["path"])[:_PATH]), entry["kind"]
        is_refused = kind in ("changes", "deletes")
        exists = path.exists() and (is_refused or path.is_relative_to(root))
        if kind == "folder" and exists and path.is_dir():
            if stat.S_IMODE(entry["mode"]) == stat.S_IMODE(path.stat().st_mode):
                continue
        elif kind == "file" and exists and _is_same_file(entry, path):
            continue  # it was only opened for writing, as databases are
        elif kind == "deleted" and not exists:
            continue  # an overlay has it for what is in it, or it was made there before
        change: Literal["created", "changed", "deleted"] = (
            "deleted" if kind in ("deleted", "deletes") else "changed" if exists else "created"
        )
        name = path.relative_to(root) if path.is_relative_to(root) else path
        diff = _diff(str(name), entry.get("text"), workspace, is_new=not exists)
        end = "/" if kind in ("folder", "new folder") else ""
        yield schema.FileEffect(path=f"{name}{end}", change=change, diff=diff)


def _is_same_file(entry: JsonDict, path: Path) -> bool:
    status, digest = path.lstat(), entry["digest"]
    is_alike = (entry["mode"], entry["time"]) == (status.st_mode, status.st_mtime_ns)
    return is_alike and digest is not None and digest == digest_file(path)


def _diff(path: str, text: object, workspace: Workspace, *, is_new: bool) -> str:
    """Return how a text file in the workspace would differ; "" if that cannot be told."""
    if not isinstance(text, str) or Path(path).is_absolute():
        return ""
    try:
        before = None if is_new else workspace.read_bytes(path)
    except AgentError:
        return ""
    return Change(path, before, text.encode(), "").diff()[:_DIFF]


def is_bindable(name: str) -> bool:
    """Return whether a name may be bound to data: none that hides or is a part of the language."""
    is_special = name.startswith("__") or keyword.iskeyword(name) or hasattr(builtins, name)
    # Another spelling of a name, which Python reads as that one, would not be the one shown.
    return name.isidentifier() and not is_special and normalize("NFKC", name) == name
