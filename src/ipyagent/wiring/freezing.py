"""Runs frozen as plain cells: with the user's cells that they need, checked, and written to files.

journal, cells ─▶ agent.freezing ─▶ a fresh kernel in a copy of the workspace ─▶ .ipynb or .py
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from ipyagent.agent.freezing import Frozen, FrozenCell, freeze
from ipyagent.agent.recordings import compare_named, compare_outputs, list_content
from ipyagent.atomic_files import replace_file
from ipyagent.digests import digest_content
from ipyagent.errors import AgentError, ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.shell import Shell, running_shell
from ipyagent.kernel.threads import EngineThread
from ipyagent.plaintext import human_size, join_some, join_words, plural
from ipyagent.redaction import known_secrets
from ipyagent.schema import Run, ToolResult
from ipyagent.syntax import try_parse
from ipyagent.tools import fresh_kernel
from ipyagent.tools.file_change import Checkpoints
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.sandbox import Sandbox
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.environment import Environment

_OURS = re.compile(r"^\s*%{1,2}agent\b|\bipyagent\b", re.MULTILINE)
_SIGN = "Frozen by ipyagent"
_SECONDS = 600.0
_MOST_BYTES = 2_000_000_000
_MOST_RUNS = 100
_LEFT_OUT = (".git", ".ipynb_checkpoints", ".venv", "__pycache__", "node_modules", "venv")
_LAYOUTS = (("black", "-q", "-"), ("ruff", "format", "-"))
_MAGIC = re.compile(r"^(?=\s*[%!])", re.MULTILINE)
_JOB = "outputs/frozen.json"


def make_nodes(frozen: Frozen, *, with_own: bool = True) -> list[JsonDict]:
    """Return the cells as nbformat has them, with or without those of what ran before."""
    import nbformat

    new = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    return [new[each.kind](each.source) for each in frozen.cells if with_own or not each.is_own]


def make_script(frozen: Frozen, *, with_own: bool = True) -> str:
    """Return the cells as a script in the percent format, its magics as comments."""
    texts = []
    for cell in frozen.cells:
        source, mark = cell.source, "# %%"
        if cell.kind == "markdown":
            source, mark = re.sub(r"^", "# ", source, flags=re.MULTILINE), "# %% [markdown]"
        elif try_parse(source) is None:
            first = re.compile("^", re.MULTILINE) if source.startswith("%%") else _MAGIC
            source = first.sub("# ", source)
        if with_own or not cell.is_own:
            texts.append("\n".join([mark, *(line.rstrip() for line in source.splitlines())]))
    return "\n\n".join(texts) + "\n"


def write_file(frozen: Frozen, path: Path) -> None:
    """Write the cells to a file, headed by what they are; raises ConfigError."""
    import nbformat

    check_target(path)
    made = ", ".join(f"{run.id} ({run.started_at:%d %b %Y}, {run.model})" for run in frozen.runs)
    outcome = f"{frozen.outcome[:1].upper()}{frozen.outcome[1:]}"
    title = FrozenCell(f"{_SIGN}: {made}.\n\n{outcome}.", "markdown")
    whole = replace(frozen, cells=(title, *frozen.cells))
    if path.suffix == ".py":
        text = make_script(whole)
    else:
        text = nbformat.writes(nbformat.v4.new_notebook(cells=make_nodes(whole)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None


def check_target(path: Path) -> None:
    """Raise ConfigError for a file of another kind, or one that is there and was not frozen."""
    if path.suffix not in (".py", ".ipynb"):
        raise ConfigError(f"{path.name} is neither a .py nor an .ipynb")
    if path.exists() and _SIGN not in path.read_text(encoding="utf-8", errors="replace"):
        raise ConfigError(f"{path} exists and was not frozen; choose another name")


def freeze_runs(
    environment: Environment, chosen: Sequence[Run], saved: Path | None = None
) -> Frozen:
    """Freeze runs in their order, with what they need of the user's cells and runs before them.

    `saved` is the notebook's file, in which cells of earlier kernels are looked up.
    """
    last, sessions = max(each.started_at for each in chosen), environment.undo.sessions
    recent = (run for session in sessions for run in islice(reversed(session.runs), _MOST_RUNS))
    recent = (run for run in recent if not run.parent_id or run.plan)  # children: by their parents
    known = {run.id: run for run in (*recent, *chosen) if run.started_at <= last}
    in_order = sorted(known.values(), key=lambda run: run.started_at)
    history = [*_list_history(in_order, running_shell(), saved)]
    wanted = {each.id for each in chosen}
    frozen = freeze(history, wanted, environment.namespace.variables())
    return replace(frozen, cells=tuple(map(_lay_out, frozen.cells)))


def _list_history(
    runs: Sequence[Run], shell: Shell | None, saved: Path | None
) -> Iterator[Run | str]:
    """Yield the runs, each after the user's cells that ran before it."""
    manager = getattr(shell, "history_manager", None)
    cells = list[str](manager.input_hist_raw if manager else ())
    if saved and not any(each.prompt.strip() in cell for each in runs for cell in cells):
        with contextlib.suppress(OSError, ValueError):  # it is gone, or no notebook
            import nbformat

            found = nbformat.read(saved, as_version=4).cells
            cells = [each.source for each in found if each.cell_type == "code"]
    begin = 0
    for run in runs:
        asks = (n for n, cell in enumerate(cells) if _OURS.search(cell))
        end = next((n for n in asks if n >= begin and run.prompt.strip() in cells[n]), begin)
        yield from (cell for cell in cells[begin:end] if cell.strip() and not _OURS.search(cell))
        yield run
        begin = end + (end > begin)


def verify(environment: Environment, frozen: Frozen) -> Frozen:
    """Run the cells in a fresh kernel, in a copy of the workspace; say what is equal or differs.

    Raises AgentError if that cannot be tried.
    """
    root, home = environment.workspace.root, environment.settings_folder
    sessions = environment.undo.sessions
    is_own = all(any(run.id in each.runs.ids for each in sessions) for run in frozen.runs)
    is_own = is_own and not any(each.conversation.origins for each in sessions)
    if not is_own and (why := Sandbox(environment.workspace).unavailable_reason):
        raise AgentError(f"what others may have recorded is only tried in a sandbox: {why}")
    with tempfile.TemporaryDirectory(prefix="ipyagent-") as folder:
        workspace = _copy_workspace(root, Path(folder).resolve() / root.name)
        changes = [change for run in frozen.runs for each in run.results for change in each.files]
        Checkpoints(workspace).undo(changes)
        is_inside = home.is_relative_to(root)
        job = {
            "folder": str(workspace.root / home.relative_to(root) if is_inside else workspace.root),
            "cells": [each.source for each in frozen.cells if each.kind == "code"],
        }
        workspace.state_folder().write_atomic(_JOB, json.dumps(job).encode())
        command = [sys.executable, "-P", "-m", fresh_kernel.__name__, f"{STATE}/{_JOB}"]
        sandbox = Sandbox(workspace)
        task = EngineThread.current().submit(sandbox.run(command, seconds=_SECONDS))
        try:
            ran = task.result()
        finally:
            task.cancel()  # if it was interrupted
        printed = ran.outcome.output.head() + ran.outcome.output.tail()
        files = {path: digest_content(workspace.read_if_exists(path)) for path in frozen.files}
    if fresh_kernel.MARK not in printed:
        last = printed.strip().splitlines()[-1:] or [ran.outcome.stop_reason]
        raise AgentError(f"the frozen cells could not be tried in a fresh kernel: {last[0]}")
    try:
        found = json.loads(printed.rpartition(fresh_kernel.MARK)[2].splitlines()[0])
    except ValueError:
        raise AgentError("the frozen cells put out too much to compare") from None
    results = [ToolResult.model_validate(each) for each in found]
    outcome = environment.toolset.redactor(known_secrets(os.environ)).text(
        compare(frozen, results, files)
    )
    bare = "" if ran.sandboxed else f" (no sandbox: {sandbox.unavailable_reason})"
    return replace(frozen, outcome=f"{outcome}{bare}")


def _copy_workspace(root: Path, copy: Path) -> Workspace:
    """Copy a workspace without what is large and not its own; raises AgentError if it is large."""
    size = 0

    def copy_file(one: str, other: str) -> None:
        nonlocal size
        size += Path(one).lstat().st_size
        if size > _MOST_BYTES:
            most = human_size(_MOST_BYTES)
            raise AgentError(f"the workspace has more than {most}: too much to copy for a trial")
        shutil.copy2(one, other, follow_symlinks=False)

    def leave_out(folder: str, names: list[str]) -> Iterable[str]:
        kept = ("checkpoints",) if Path(folder) == root / STATE else names
        return {each for each in names if each in _LEFT_OUT or each not in kept}

    try:
        shutil.copytree(root, copy, symlinks=True, ignore=leave_out, copy_function=copy_file)
    except OSError as error:
        raise AgentError(f"the workspace cannot be copied for a trial: {error}") from None
    return Workspace(copy)


def compare(frozen: Frozen, results: Sequence[ToolResult], files: Mapping[str, str | None]) -> str:
    """Return what is equal in the fresh kernel, or what differs: results of code cells, files."""
    codes = [each for each in frozen.cells if each.kind == "code"]
    differences, outputs, figures = list[str](), 0, 0
    for number, (cell, result) in enumerate(zip(codes, results, strict=False), 1):
        if not result.success:
            differences.append(f"code cell {number} failed: {result.error}")
        elif cell.result and (
            changed := compare_outputs(list_content(cell.result), list_content(result))
        ):
            differences.append(f"code cell {number} put out something else: {changed}")
        elif cell.result:
            outputs += bool(cell.result.output and not cell.result.images)
            figures += len(cell.result.images)
    if len(results) < len(codes):
        differences.append(f"code cell {len(results) + 1} ended the kernel")
    known = {each.name: each.content for each in frozen.variables if each.content}
    now = {each.name: each.content for result in results[-1:] for each in result.variables}
    for wanted, given in ((known, now), (frozen.files, files)):
        found = (compare_named({n: wanted[n]}, {n: given.get(n, "missing")}) for n in wanted)
        differences += filter(None, found)
    if differences:
        return f"different in a fresh kernel: {join_some(differences, 5)}"
    counts = {"output": outputs, "figure": figures, "variable": len(known), "file": len(files)}
    equal = join_words(plural(count, noun) for noun, count in counts.items() if count)
    return f"verified in a fresh kernel: {equal} equal" if equal else "ran in a fresh kernel"


def _lay_out(cell: FrozenCell) -> FrozenCell:
    """Return code as `black` or `ruff` lays it out, if one of them is installed."""
    tool = next((each for each in _LAYOUTS if find_spec(each[0])), None)
    if tool is None or cell.kind != "code":
        return cell
    command = [sys.executable, "-I", "-m", *tool]
    ran = subprocess.run(command, input=cell.source, capture_output=True, text=True)  # noqa: S603
    return replace(cell, source=ran.stdout.strip("\n")) if ran.returncode == 0 else cell
