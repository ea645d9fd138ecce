"""The performance: run the code where it can change nothing, and report what it did."""

from __future__ import annotations

import ast
import builtins
import contextlib
import gc
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any, Literal

from ipyagent.digests import digest_content
from ipyagent.json_types import JsonDict
from ipyagent.kernel.describe import kind
from ipyagent.kernel.describe.safe_inspect import ancestors, module_name
from ipyagent.kernel.namespace import Namespace
from ipyagent.kernel.outputs import Outputs
from ipyagent.kernel.rehearsal.attempts import Attempts
from ipyagent.kernel.rehearsal.confinement import Confinement, Limits
from ipyagent.kernel.rehearsal.databases import reconnect
from ipyagent.kernel.rehearsal.isolation import CACHE, SHARED, TEMPORARY, UPPER
from ipyagent.kernel.rehearsal.memory import drop_signing_keys
from ipyagent.kernel.rehearsal.opaque_values import is_closed_file
from ipyagent.kernel.rehearsal.plain_cells import NotPlainError
from ipyagent.kernel.rehearsal.plain_data import is_same_data, write_all
from ipyagent.kernel.rehearsal.rehearser import (
    Act,
    Rehearsing,
    Report,
    load_libraries,
    start_isolated,
)
from ipyagent.kernel.rehearsal.surroundings import (
    Surroundings,
    choose_backend,
    list_lasting_effects,
)
from ipyagent.kernel.rehearsal.watched_values import TOO_MUCH, WatchedValues
from ipyagent.kernel.variables.arrays import is_array
from ipyagent.kernel.variables.captures import is_atom
from ipyagent.kernel.variables.columns import kind_of
from ipyagent.kernel.variables.reach import (
    is_of_shell,
    list_definitions,
    list_names,
    loaded_names,
    names_of_loops,
    stored_names,
    without_shell,
)
from ipyagent.schema import ToolResult, VariableChange

_RESULT = {"success", "output", "error", "for_model", "images", "displays", "truncated"}
"""Fields of a result that are reported."""

_BY_SHELL = re.compile(r"_{1,3}|_i{1,3}|_i?[0-9]+|_oh|_dh|_ih|_exit_code|In|Out")
"""Names that the shell binds anew; what they hold are objects that others hold, too."""
_BY_PYTHON = frozenset({"__builtins__", "__warningregistry__", "__annotations__"})
_DRAWINGS = re.compile(r"(matplotlib|mpl_toolkits|seaborn)(\.|$)")
"""Modules whose objects serve the code that makes them, even if it does not use them."""
_MOST_FILES, _LARGEST, _DIGESTED = 100, 50_000, 64 << 20
"""Files that are reported, and bytes of one whose text is, or a digest."""


def start_rehearsal(
    namespace: Namespace,
    codes: Sequence[str],
    confinement: Confinement,
    limits: Limits,
    definitions: str = "",
) -> Rehearsing:
    """Start a rehearsal of codes, each on top of those before, on the kernel's main thread.

    Only the data of a single one can be adopted, and of those that follow it. `definitions` are
    made on the copy before.
    """
    bindings, attempts, may_adopt = namespace.bindings(), Attempts(confinement), len(codes) == 1
    own, modules = namespace.own.names(bindings) if may_adopt else (), {*sys.modules}
    kernel, kept = Kernel(bindings, own, modules), list[object]()

    def acts() -> Iterator[Act]:
        _be_quiet()
        kept.extend(reconnect(bindings))
        attempts.install()  # which replaces functions: what is watched is what is there then
        _define(namespace, definitions)
        for code in codes:
            yield partial(_perform, namespace, code, attempts, kernel, may_adopt=may_adopt)

    def follow(request: JsonDict) -> Act:
        load_libraries(request["code"])  # as in the kernel: what an import changes is no change
        choose_backend()
        _define(namespace, request["definitions"])
        kernel = Kernel({*request["names"]}, request["own"], modules.union(request["modules"]))
        return partial(_perform, namespace, request["code"], attempts, kernel, may_adopt=True)

    return start_isolated(acts(), confinement, limits, bindings.values(), follow)


def _define(namespace: Namespace, definitions: str) -> None:
    """Make functions and classes that are not there yet."""
    known = namespace.bindings()
    missing = [node for node in list_definitions(definitions) if node.name not in known]
    if missing:
        namespace.run("\n".join(map(ast.unparse, missing)), Outputs())


@dataclass(frozen=True)
class Kernel:
    """The kernel as it is when code runs on a copy of it, where earlier code may have run."""

    names: Collection[str]
    own: Collection[str]
    """Variables that the run has made: changed, they can be adopted like new ones."""
    modules: Collection[str]
    """Those that are loaded."""


def _perform(
    namespace: Namespace, code: str, attempts: Attempts, kernel: Kernel, *, may_adopt: bool
) -> Report:
    """Run the code; return a report of what it did, and the data in it."""
    own, loaded = kernel.own, kernel.modules
    shared = _list_shared(code, namespace.bindings())
    before, outputs = dict(namespace.bindings()), Outputs()
    only_here = {name for name in before if type(name) is str and name not in kernel.names}
    names = list_names(code, before)
    # What is only here may lead to any of the others.
    every = names if only_here.isdisjoint(names) else without_shell(before)
    watched = WatchedValues(before, every, only_here)
    written_before = [*list_written_files(attempts.confinement)]
    is_python, around = namespace.runs_as_written(code), Surroundings()
    with attempts.watch():
        result = namespace.run(code, outputs)
    if not isinstance(result, ToolResult):
        raise OSError("it awaits")
    after = dict(namespace.bindings())
    told = {each.name: each for each in result.variables}
    written = watched.list_written()
    inside = {*watched.list_changed(), *written}
    changes = [*list_changes(before, after, inside, told, shared)]
    changes = [*_without_left(changes, only_here, before, after)]
    bound = names_of_loops(code).difference(inside, own)
    loops = [each for each in changes if each.name in bound]
    again = [each.name for each in loops if each.change == "changed"]
    items = [e.name for e in loops if e.change == "created" and not is_atom(after[e.name])]
    new = {each.name: after[each.name] for each in changes if each.change == "created"}
    changed = {each.name for each in changes if each.change == "changed" and each.name in own}
    passing = [name for name, value in new.items() if _is_drawing(value)]
    adoption: JsonDict | None = None
    buffers: list[memoryview] = []
    with contextlib.suppress(NotPlainError):
        if may_adopt and changed.isdisjoint(watched.list_changed_elsewhere()):
            watched.let_go(changed)
            others = {name: before[name] for name in before.keys() - changed - only_here}
            # What a loop binds anew may be left on the copy.
            known = _list_known(others, {**after, **{name: before[name] for name in again}})

            def write(names: Iterable[str]) -> tuple[JsonDict, list[memoryview]]:
                values = {name: after[name] for name in names}
                return write_all(values, known, watched.is_old, watched.is_in_table)

            kept = [name for name in new if name not in {*passing, *items}]
            special = [name for name in kept if _is_special(name, after[name], loaded, write)]
            # Else they may be what the code is for.
            passing += special if not loaded_names(code).isdisjoint(special) else []
            adoption, buffers = write([*(name for name in kept if name not in passing), *changed])
    past = [f"writes into the memory of {name}, past pandas" for name in written]
    unclear = [
        f"may change {name}, in which is a {what}"
        for name, what in watched.unseen.items()
        if name in {*names, *watched.led_to} and (name not in only_here or what == TOO_MUCH)
    ]
    foreign = [] if is_python else ["IPython makes other code of it"]
    foreign += ["shows what only a page can draw"] if outputs.page_bundles else []
    lasting = dict.fromkeys(list_lasting_effects(code, before, after))
    if may_adopt:  # the kernel keeps its own, and what refers to a name there must be the same
        namespace.bindings().update({name: before[name] for name in again})
    return {
        "adoption": adoption,
        "passing": passing,
        "loops": [*again, *items],
        "result": result.model_dump(mode="json", include=_RESULT),
        "variables": [each.to_dict() for each in changes],
        "around": [*around.list_changes(), *past, *unclear, *lasting, *foreign],
        "written": written,
        "attempts": attempts.texts(),
        "files": [*list_written_files(attempts.confinement, written_before)][:_MOST_FILES],
    }, buffers


def _without_left(
    changes: Iterable[VariableChange],
    only_here: Collection[str],
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> Iterator[VariableChange]:
    """Yield the changes of what the kernel has; what is only here can be new there."""
    for each in changes:
        if each.name not in only_here:
            yield each
        elif each.name in after and after[each.name] is not before[each.name]:
            yield each.model_copy(update={"change": "created"})


def _is_special(
    name: str,
    value: object,
    loaded: Collection[str],
    write: Callable[[Iterable[str]], object],
) -> bool:
    """Return whether a value is no data that the kernel could have, however little it is."""
    if is_array(value) or kind_of(value) is not None:
        return False
    if not _is_only_here(value, loaded):
        with contextlib.suppress(NotPlainError):
            write([name])
            return False
    return True


def _list_known(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """Return the variables that the kernel has as well: not what the shell bound anew."""
    return {
        name: now
        for name, value in before.items()
        if (now := after.get(name, value)) is value or not _BY_SHELL.fullmatch(name)
    }


def _is_drawing(value: Any, depth: int = 3) -> bool:
    """Return whether a value is of a module in `_DRAWINGS`, or holds only values that are."""
    if any(_DRAWINGS.match(module_name(each)) for each in ancestors(type(value))):
        return True
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray and value.dtype.hasobject:
        value = value.ravel().tolist()
    is_filled = isinstance(value, list | tuple) and value and depth
    return bool(is_filled) and all(_is_drawing(each, depth - 1) for each in value)


def _list_shared(code: str, variables: Mapping[str, object]) -> set[str]:
    """Return the tables and arrays that code binds anew, and that something else holds, too.

    A copy is not that one, even if it is equal: what is done to it must leave that one as it is.
    """
    return {
        name
        for name in stored_names(code) & variables.keys()
        if (is_array(variables[name]) or kind_of(variables[name]) is not None)
        and _is_held_elsewhere(name, variables)
    }


def _is_held_elsewhere(name: str, variables: Mapping[str, object]) -> bool:
    """Return whether something but its name and the shell's history holds a variable's value."""
    value, nothing = variables[name], object()
    others = sys.getrefcount(value) - sys.getrefcount(nothing)
    holders = [each for each in gc.get_referrers(value) if type(each) is not FrameType]
    held = [one for each in holders for one in gc.get_referents(each)]
    names = [each for each in variables if variables[each] is variables[name]]
    return (
        any(each != name and not _BY_SHELL.fullmatch(each) for each in names)
        or not all(_is_the_shells(each, variables) for each in holders)
        # A container of nothing but arrays and numbers is not found.
        or others > sum(one is variables[name] for one in held)
    )


def _is_the_shells(holder: object, variables: Mapping[str, object]) -> bool:
    """Return whether this is where the shell keeps variables, outputs and the last result."""
    if type(holder) is not dict:
        return is_of_shell(holder)
    outputs = variables.get("Out", variables)
    return (
        holder is variables
        or holder is outputs
        or holder.get("Out") is outputs
        or any(is_of_shell(each) and vars(each) is holder for each in gc.get_referrers(holder))
    )


def _is_only_here(value: object, loaded: Collection[str]) -> bool:
    """Return whether a value is a module that is not `loaded` in the kernel, or defined in one.

    Functions and classes of the notebook's own are defined here as well.
    """
    if isinstance(value, ModuleType):
        return value.__name__ not in loaded
    home = str(getattr(value, "__module__", ""))
    is_definition = isinstance(value, FunctionType | BuiltinFunctionType | type)
    return is_definition and (home == "__main__" or home not in loaded)


def _be_quiet() -> None:
    """Let nothing that was going on in the kernel go on here."""
    drop_signing_keys()
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc,assignment]
    sys.dont_write_bytecode = True
    choose_backend()


def list_changes(
    before: Mapping[str, object],
    after: Mapping[str, object],
    inside: set[str],
    told: Mapping[str, VariableChange],
    shared: Collection[str] = (),
) -> Iterator[VariableChange]:
    """Yield the variables that are new, hold something else, were changed inside, or are gone.

    To read the same table once more is no change unless the first is `shared`, and a file that was
    closed is none to keep. `told` are the changes that a snapshot has noticed, with what is
    different in words.
    """
    change: Literal["created", "changed", "deleted"]
    noticed = inside | told.keys()
    for name, value in {**before, **after}.items():
        if type(name) is not str or name in _BY_PYTHON:
            continue
        is_kept = name in before and name in after and before[name] is value
        if (is_kept or _BY_SHELL.fullmatch(name)) and name not in noticed:
            continue
        if name not in before and vars(builtins).get(name, before) is value:
            continue  # as `display` in notebooks: it has this name anyway
        is_settled = name not in before or name in inside or name in shared
        if not is_settled and is_same_data(before[name], after.get(name)):
            continue
        if is_closed_file(value) and (name not in before or is_closed_file(before[name])):
            continue
        change = "created" if name not in before else "changed" if name in after else "deleted"
        found = told.get(name) or VariableChange(name=name, change=change, type=kind(value))
        yield found.model_copy(update={"change": change})


def list_written_files(
    confinement: Confinement, known: Collection[JsonDict] = ()
) -> Iterator[JsonDict]:
    """Yield the files and folders that were written or deleted, but for those `known`.

    Before code runs, there are only folders of the isolation's own.
    """
    if confinement.way == "Landlock":
        return  # nothing can be written
    root = confinement.root
    for top, seen_as in ((UPPER, root), (TEMPORARY, TEMPORARY), (SHARED, SHARED)):
        own, waiting = os.stat(top).st_dev, [top]  # noqa: PTH116
        while waiting:
            for entry in sorted(os.scandir(waiting.pop()), key=lambda each: each.name):
                status = entry.stat(follow_symlinks=False)
                path = seen_as + entry.path[len(top) :]
                # A mount from elsewhere cannot be written.
                if entry.path in (CACHE, root) or status.st_dev != own:
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder:
                    kind = "new folder" if _is_opaque(entry.path) else "folder"
                else:  # an overlay marks what is gone as a device
                    kind = "deleted" if stat.S_ISCHR(status.st_mode) else "file"
                text = _read_text(entry.path, status)
                found = {"path": path, "kind": kind, "text": text, "mode": status.st_mode}
                found |= {"time": status.st_mtime_ns, "digest": digest_file(Path(entry.path))}
                if found not in known:
                    yield found
                waiting += [entry.path] if is_folder else []


def digest_file(path: Path) -> str | None:
    """Return the digest of a regular file that is not too large; None for anything else."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _DIGESTED:
            return digest_content(path.read_bytes())
    return None


def _is_opaque(folder: str) -> bool:
    """Return whether an overlay shows a folder without what lies below: it was made anew."""
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "user.overlay.opaque") == b"y"
    return False


def _read_text(path: str, status: os.stat_result) -> str | None:
    """Return the text of a small file; None for anything else."""
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        return None
    try:
        return Path(path).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
