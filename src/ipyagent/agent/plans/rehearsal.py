"""Plans are tried before the user decides on them: each step on top of those before it.

A reply of nothing but code that changes nothing is no plan: the model looks before it proposes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from ipyagent.agent.tool_context import ToolContext
from ipyagent.errors import AgentError
from ipyagent.schema import PlanStep, Rehearsal, RehearsalOutcome, ToolCall
from ipyagent.tools.base import get_command
from ipyagent.tools.rehearsed import RehearsalContext, Rehearsed

_PATIENCE = 0.4
"""Seconds that a question waits for a rehearsal, which is shown in it once it ends."""
Rehearsals = tuple[Rehearsal | None, ...]


@asynccontextmanager
async def rehearsing(
    context: ToolContext, plan: Sequence[PlanStep], show: Callable[[Rehearsals], object]
) -> AsyncIterator[None]:
    """Try a plan while the user is asked about it; `show` gets what its steps would change.

    The context begins once that is known, or the question need wait no longer.
    """
    rehearsal = context.rehearsal
    steps = [place for place, step in enumerate(plan) if _may_try(context, step.call)]
    if rehearsal is None or not steps:
        yield
        return
    beside = rehearsal.beside_question()
    task = asyncio.create_task(_rehearse(context, beside or rehearsal, plan, steps))
    try:
        await asyncio.wait([task], timeout=_PATIENCE if beside else None)
        if task.done():
            show(task.result())
        else:
            task.add_done_callback(lambda done: done.cancelled() or show(done.result()))
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def only_look(context: ToolContext, calls: Sequence[ToolCall]) -> bool:
    """Return whether all calls are code that changes nothing, tried in turn on a copy."""
    rehearsal = context.rehearsal
    if rehearsal is None or not all(_may_try(context, call) for call in calls):
        return False
    tried = await _try(context, rehearsal, calls)
    return all(each.rehearsal.outcome is RehearsalOutcome.LOOKED for each in tried)


def _may_try(context: ToolContext, call: ToolCall) -> bool:
    if call.parse_error is not None or call.name not in context.toolbox:
        return False
    tool = context.toolbox.get(call.name)
    try:
        arguments = tool.check_arguments(call.arguments)
    except AgentError:
        return False
    return tool.make_rehearser is not None and context.policy.evaluate(tool, arguments).may_look


async def _try(
    context: ToolContext, rehearsal: RehearsalContext, calls: Sequence[ToolCall]
) -> Sequence[Rehearsed]:
    """Try calls that may be tried, in turn."""
    tools = [context.toolbox.get(call.name) for call in calls]
    assert tools[0].make_rehearser is not None  # noqa: S101 - it may be tried
    codes = [
        get_command(tool.check_arguments(call.arguments), tool.command or "") or ""
        for tool, call in zip(tools, calls, strict=True)
    ]
    return await tools[0].make_rehearser().rehearse(codes, rehearsal)


async def _rehearse(
    context: ToolContext,
    rehearsal: RehearsalContext,
    plan: Sequence[PlanStep],
    steps: Sequence[int],
) -> Rehearsals:
    """Try those of the steps that nothing comes before but reading and other code."""
    found: list[Rehearsal | None] = [None] * len(plan)
    tools = [context.toolbox.get(step.call.name) for step in plan]
    obstacle = next(
        (n for n, tool in enumerate(tools) if tool.sensitive and n not in steps), len(plan)
    )
    reason = f"step {obstacle + 1} comes first, and is no code that can be tried"
    for place in steps:
        found[place] = Rehearsal(outcome=RehearsalOutcome.SKIPPED, reason=reason)
    tried = [place for place in steps if place < obstacle]
    if tried:
        rehearsed = await _try(context, rehearsal, [plan[place].call for place in tried])
        for place, each in zip(tried, rehearsed, strict=True):
            asked = each.as_asked().rehearsal
            shown = asked.model_copy(update={"result": asked.result or each.result})
            found[place] = context.prepare_rehearsal(tools[place].name, shown)
    return tuple(found)
