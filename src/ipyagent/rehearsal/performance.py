"""The performance: run the code where it can change nothing, and report what it did."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from ipyagent.digests import digest_content
from ipyagent.json_types import JsonDict
from ipyagent.kernel.displays import WRITTEN, as_chart, page_kind
from ipyagent.kernel.namespace import Namespace, Surroundings
from ipyagent.kernel.outputs import Outputs
from ipyagent.rehearsal.adoption import read_random_states
from ipyagent.rehearsal.attempts import Attempts
from ipyagent.rehearsal.confinement import Confinement, Limits
from ipyagent.rehearsal.isolation import CACHE, SHARED, TEMPORARY, UPPER
from ipyagent.rehearsal.libraries import prepare_libraries
from ipyagent.rehearsal.memory import drop_signing_keys
from ipyagent.rehearsal.rehearser import Act, Rehearsing, Report, start_isolated
from ipyagent.rehearsal.variable_effects import VariableEffects
from ipyagent.schema import ToolResult
from ipyagent.values.variables import snapshot as _snapshot  # noqa: F401 - imported by each copy else

_RESULT = {"success", "output", "error", "for_model", "images", "displays", "truncated"}
"""Fields of a result that are reported."""

_NAMED = re.compile(r"[\w.]+\(")
"""How the text of an object begins that only names it."""
_MOST_COPIED = 8 << 20
"""Bytes that are copied to say what is different in an array."""
MOST_FILES, _LARGEST, _DIGESTED = 100, 50_000, 64 << 20
"""Files that are reported, and bytes of one whose text is, or a digest."""


def start_rehearsal(
    namespace: Namespace,
    codes: Sequence[str],
    confinement: Confinement,
    limits: Limits,
    forget: Callable[[], object] = lambda: None,
) -> Rehearsing:
    """Start a rehearsal of codes, each on top of those before, on the kernel's main thread.

    On the copy, `forget` empties our own objects that hold keys.
    """
    attempts, own = Attempts(confinement), namespace.own.names(namespace.bindings())

    def acts() -> Iterator[Act]:
        forget()
        _be_quiet()
        namespace.undo_memory = _MOST_COPIED
        attempts.install()
        for code in codes:
            yield partial(_perform, namespace, code, attempts, own)

    return start_isolated(acts(), confinement, limits)


def _perform(namespace: Namespace, code: str, attempts: Attempts, own: Collection[str]) -> Report:
    """Run the code; return a report of what it did, and the data in it."""
    bindings = namespace.bindings()
    effects, outputs = VariableEffects(namespace.as_python(code), bindings, own), Outputs()
    written_before = [*list_written_files(attempts.confinement)]
    states, before = read_random_states(bindings), Surroundings.observe()
    outputs.find_kind = _find_kind
    with attempts.watch():
        result = namespace.run(code, outputs)
    if not isinstance(result, ToolResult):
        raise OSError("it awaits")
    charts = [as_chart(each.data) for each in outputs.page_bundles]
    drawn = ["shows what only a page can draw"] if None in charts else []
    effects.compare(bindings, result)
    # The kernel has no state of a library that only the code has loaded.
    known = {name: each for name, each in read_random_states(bindings).items() if name in states}
    adoption, buffers = effects.write_data(known, states)
    return {
        "adoption": adoption,
        "left": effects.left,
        "touched": effects.touched,
        "resolved": effects.resolved,
        "result": result.model_dump(mode="json", include=_RESULT),
        "variables": [each.to_dict() for each in effects.list_shown()],
        "unclear": [*effects.list_unclear(), *drawn],
        "written": effects.written,
        "attempts": [*attempts.found],
        "charts": [] if drawn else charts,
        "settings": [*Surroundings.observe().list_settings(before)],
        "files": [*list_written_files(attempts.confinement, written_before)][:MOST_FILES],
    }, buffers


def _find_kind(bundle: JsonDict) -> str | None:
    """Return what only a page draws of a bundle; None if there are words in its stead.

    As for a formula, and for the bar of progress that is a widget elsewhere.
    """
    kind, text = page_kind(bundle), str(bundle.get("text/plain", ""))
    is_written = kind in WRITTEN or (kind == "widget" and not _NAMED.match(text))
    return None if text and is_written else kind


def _be_quiet() -> None:
    """Let nothing that was going on in the kernel go on here."""
    drop_signing_keys()
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc,assignment]
    sys.dont_write_bytecode = True
    prepare_libraries()


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
