"""The checks of a call: before anybody is asked, and after it has run.

Before: its arguments, permission, preview and effects. After: whether an approved call did what its
rehearsal had shown.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath

from ipyagent.agent.policy import Effect, Verdict
from ipyagent.agent.tool_context import ToolContext, is_run_cancellation
from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.namespace import MOST_FILES, Surroundings
from ipyagent.plaintext import ellipsize, spell
from ipyagent.redaction import HIDDEN
from ipyagent.rehearsal.on_copy import MOST_FILES as MOST_REHEARSED
from ipyagent.schema import (
    Preview,
    Rehearsal,
    RehearsalOutcome,
    ToolCall,
    ToolExecution,
    ToolResult,
    VariableChange,
)
from ipyagent.tools.base import Tool, Where
from ipyagent.tools.static_analysis import Effects, describe_coverage


@dataclass(frozen=True)
class CheckedCall:
    """A call that passed its checks and can be decided on."""

    tool: Tool
    arguments: JsonDict
    preview: Preview | None
    verdict: Verdict
    effects: Effects | None = None

    @property
    def may_be_tried(self) -> bool:
        """True if the call need not be asked about should it turn out to change nothing."""
        return self.verdict.may_look and self.tool.make_rehearser is not None

    def add_details(self, execution: ToolExecution) -> ToolExecution:
        """Return the call with all details that the user should know."""
        tool, verdict = self.tool, self.verdict
        allowed = verdict.effect is Effect.ALLOW
        question = tool.question(**self.arguments) if tool.question else None
        return execution.model_copy(
            update={
                "sensitive": tool.sensitive,
                "preview": self.preview,
                "question": question,
                "concern": None if allowed else verdict.reason,
                "scopes": () if question else verdict.scopes,
                "touches": self.effects.summary() if self.effects and not allowed else None,
                "covers": describe_coverage(self.effects.subject, self.effects.kinds)
                if verdict.scopes and self.effects
                else None,
                "source": tool.source(**self.arguments) if tool.source else None,
                "decision": verdict.decision if allowed else None,
                "decided_by": verdict.by if allowed else None,
            }
        )


_NOTHING = ""
"""The target of calls that only read."""


def group_calls(context: ToolContext, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
    """Yield the calls that are dealt with beside each other: they read, or change other things."""
    group: list[ToolCall] = []
    targets: set[str | None] = set()
    for call in calls:
        target = _target_of(context, call)
        others = {_NOTHING, None, target}
        fits = targets == {target} if target == _NOTHING else targets.isdisjoint(others)
        if group and not (fits and target is not None):
            yield group
            group, targets = [], set()
        group.append(call)
        targets.add(target)
    if group:
        yield group


def _target_of(context: ToolContext, call: ToolCall) -> str | None:
    """Return what a call changes; _NOTHING if it only reads, None if it is dealt with alone."""
    if call.parse_error or call.name not in context.toolbox or call.id in context.recorded:
        return None
    tool = context.toolbox.get(call.name)
    target = tool.target if getattr(context.asker, "asks_together", False) else None
    if not tool.parallel and target is None:
        return None
    try:
        arguments = tool.check_arguments(call.arguments)
        if target is not None:
            return target(**arguments)
        is_allowed = context.policy.evaluate(tool, arguments).effect is Effect.ALLOW
        return _NOTHING if is_allowed else None
    except Exception:  # a reply of the tool's own code comes later
        return None


async def check_call(
    context: ToolContext, call: ToolCall, calls: Sequence[ToolCall]
) -> CheckedCall | BaseException:
    """Return a call that can be decided on, or the error that it fails with.

    `calls` are all of its step.
    """
    try:
        return await _check_call(context, call, calls)
    except BaseException as error:  # a preview and a validator are a tool's own code too
        if is_run_cancellation(error):
            raise
        return error


async def _check_call(
    context: ToolContext, call: ToolCall, calls: Sequence[ToolCall]
) -> CheckedCall:
    if call.parse_error is not None:
        raise AgentError(f"{call.name} was not run: {call.parse_error}")
    tool = context.toolbox.get(call.name)
    arguments = tool.check_arguments(call.arguments)
    check_unredacted(tool, call)
    verdict = context.policy.evaluate(tool, arguments)
    if verdict.effect is Effect.DENY:
        return CheckedCall(tool, arguments, None, verdict)
    preview, effects = await _run_own_checks(context, call, calls, tool, arguments)
    if effects is not None:
        verdict = context.policy.evaluate(tool, arguments, effects)
    return CheckedCall(tool, arguments, preview, verdict, effects)


async def _run_own_checks(
    context: ToolContext,
    call: ToolCall,
    calls: Sequence[ToolCall],
    tool: Tool,
    arguments: JsonDict,
) -> tuple[Preview | None, Effects | None]:
    """Run the tool's own checks of a call, the same for every run; return what shows it."""
    loop, pool = asyncio.get_running_loop(), context.threads
    if validate := tool.validate:
        await loop.run_in_executor(pool, lambda: validate(**arguments))
    if context.planning and _follows_change(context, call, calls):
        return None, None
    if requires := tool.requires:
        job = partial(requires, **arguments)
        post = context.main.post if tool.where is Where.MAIN else pool.submit
        await asyncio.wrap_future(post(job))
    if tool.preview is None:
        return None, None
    shown = await loop.run_in_executor(pool, partial(_show, tool, arguments))
    return (None, None) if context.planning else shown


def _show(tool: Tool, arguments: JsonDict) -> tuple[Preview | None, Effects | None]:
    """Return the preview and the effects of a call, both of what is shown and runs."""
    preview = tool.preview(**arguments) if tool.preview else None
    if preview is None or tool.effects is None:
        return preview, None
    return preview, replace(tool.effects(preview), code=preview.code_beside(arguments))


async def show_code(context: ToolContext, call: ToolCall) -> str:
    """Return the code that a planned call would run now and its arguments only name."""
    tool = context.toolbox.get(call.name)
    if tool.preview is None or tool.effects is None:
        return ""
    with suppress(AgentError):  # the calls before it may make the cell
        arguments = tool.check_arguments(call.arguments)
        job = partial(tool.preview, **arguments)
        preview = await asyncio.get_running_loop().run_in_executor(context.threads, job)
        return preview.code_beside(arguments) if preview else ""
    return ""


def _follows_change(context: ToolContext, call: ToolCall, calls: Sequence[ToolCall]) -> bool:
    """Return whether an earlier call of this step changes something."""
    toolbox = context.toolbox
    earlier = itertools.takewhile(lambda each: each.id != call.id, calls)
    return any(each.name in toolbox and toolbox.get(each.name).sensitive for each in earlier)


def check_unredacted(tool: Tool, call: ToolCall) -> None:
    """Raise AgentError for a call whose command or code contains a redacted part."""
    if tool.sensitive and HIDDEN in json.dumps(call.arguments, ensure_ascii=False):
        raise AgentError(
            f"{call.name} was not run: its arguments hold {HIDDEN}, which stands for what looks "
            "like a secret and would be lost. Leave that text as it is and change what is around "
            "it, or let code read the secret from where it is, such as an environment variable"
        )


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
