"""A comparison of what an approved call did with what its rehearsal had shown."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import PurePath

from ipyagent.kernel.namespace import MOST_FILES, Surroundings
from ipyagent.phrases import ellipsize
from ipyagent.plaintext import spell
from ipyagent.rehearsal.on_copy import MOST_FILES as MOST_REHEARSED
from ipyagent.schema import Rehearsal, RehearsalOutcome, ToolResult, VariableChange
from ipyagent.tools.base import Tool

_LISTED, _LENGTH = 10, 200
"""Differences that are listed, of each kind, and characters of one."""


@dataclass(frozen=True)
class Comparison:
    """The state before an approved call runs, to be compared with that after it."""

    rehearsal: Rehearsal
    root: str
    before: Surroundings
    threads: Executor

    @classmethod
    async def begin(
        cls, tool: Tool, rehearsal: Rehearsal | None, threads: Executor
    ) -> Comparison | None:
        """Return the state now; None if the user was not shown what the call would change."""
        is_shown = rehearsal is not None and rehearsal.outcome is RehearsalOutcome.CHANGES
        if not is_shown or rehearsal is None or tool.make_rehearser is None:
            return None
        root = tool.make_rehearser().root
        return cls(rehearsal, root, await _observe(root, threads), threads)

    async def compare(self, result: ToolResult) -> Rehearsal:
        """Return the rehearsal that says how the call differed from it."""
        after = await _observe(self.root, self.threads)
        update = _compare(self.rehearsal, result, self.before, after)
        return self.rehearsal.model_copy(update=update)


async def _observe(root: str, threads: Executor) -> Surroundings:
    return await asyncio.get_running_loop().run_in_executor(threads, Surroundings.observe, root)


def _compare(
    rehearsal: Rehearsal, result: ToolResult, before: Surroundings, after: Surroundings
) -> dict[str, object]:
    """Return whether the call differed, and how, or what was compared."""
    shown, done = (
        {_name(each): each.summary for each in of.variables} for of in (rehearsal, result)
    )
    # A change inside of an object may be seen on the copy alone.
    missing = [each for each, summary in shown.items() if summary and each not in done]
    also = [each for each in done if each not in shown]
    other = [each for each, summary in done.items() if shown.get(each, summary) != summary]
    compared = "variables, working folder, environment"
    if None in (before.files, after.files) or len(rehearsal.files) >= MOST_REHEARSED:
        compared += f"; files not compared: more than {MOST_FILES:,}"
    else:
        compared = f"workspace files, {compared}"
        files = _list_files(rehearsal, before, after)
        also += files[0]
        missing += files[1]
    settings = [*after.list_settings(before)]
    also += [each for each in settings if each not in rehearsal.settings]
    missing += [each for each in rehearsal.settings if each not in settings]
    kinds = {"also ": also, "missing: ": missing, "different: ": other}
    parts = [f"{kind}{_join(each)}" for kind, each in kinds.items() if each]
    text = f"not as rehearsed: {'; '.join(parts)}" if parts else f"as rehearsed ({compared})"
    return {"compared": text, "differs": bool(parts)}


def _name(change: VariableChange) -> str:
    return f"{change.change} {change.name}"


def _list_files(
    rehearsal: Rehearsal, before: Surroundings, after: Surroundings
) -> tuple[list[str], list[str]]:
    """Return the files that were changed and not shown, and the other way around."""
    inside = [each for each in rehearsal.files if not PurePath(each.path).is_absolute()]
    shown = {(each.path.rstrip("/"), each.change) for each in inside}
    gone = {path for path, change in shown if change == "deleted"}
    done = {*after.list_files(before)}
    also = [
        (path, change)
        for path, change in sorted(done - shown)
        if not (change == "deleted" and gone & {*map(str, PurePath(path).parents)})
    ]
    return [_verb(*each) for each in also], [_verb(*each) for each in sorted(shown - done)]


def _verb(path: str, change: str) -> str:
    return f"{'deleted' if change == 'deleted' else 'wrote'} {path}"


def _join(differences: list[str]) -> str:
    more = f", … {len(differences) - _LISTED} more" if len(differences) > _LISTED else ""
    return ", ".join(ellipsize(spell(each), _LENGTH) for each in differences[:_LISTED]) + more
