"""The checks of a call, before anybody is asked: arguments, permission, preview, effects."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ipyagent.agent.policy import Effect, Verdict
from ipyagent.agent.tool_context import ToolContext, is_run_cancellation
from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.redaction import HIDDEN
from ipyagent.schema import Preview, ToolCall, ToolExecution
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
                "covers": self._describe_coverage() if verdict.scopes else None,
                "source": tool.source(**self.arguments) if tool.source else None,
                "decision": verdict.decision if allowed else None,
                "decided_by": verdict.by if allowed else None,
            }
        )

    def _describe_coverage(self) -> str | None:
        """Return the reach of an approval beyond this call; "" if it covers all calls."""
        return describe_coverage(self.effects.subject, self.effects.kinds) if self.effects else None


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
    preview = await _run_own_checks(context, call, calls, tool, arguments)
    read = tool.effects
    if read is None or preview is None:
        return CheckedCall(tool, arguments, preview, verdict)
    # The call that is checked is the one that is shown and runs.
    job = partial(read, preview)
    effects = await asyncio.get_running_loop().run_in_executor(context.threads, job)
    verdict = context.policy.evaluate(tool, arguments, effects)
    return CheckedCall(tool, arguments, preview, verdict, effects)


async def _run_own_checks(
    context: ToolContext,
    call: ToolCall,
    calls: Sequence[ToolCall],
    tool: Tool,
    arguments: JsonDict,
) -> Preview | None:
    """Run the tool's own checks of a call, the same for every run; return its preview."""
    loop, pool = asyncio.get_running_loop(), context.threads
    if validate := tool.validate:
        await loop.run_in_executor(pool, lambda: validate(**arguments))
    if context.planning and _follows_change(context, call, calls):
        return None
    if requires := tool.requires:
        job = partial(requires, **arguments)
        post = context.main.post if tool.where is Where.MAIN else pool.submit
        await asyncio.wrap_future(post(job))
    if show := tool.preview:
        preview = await loop.run_in_executor(pool, lambda: show(**arguments))
        return None if context.planning else preview
    return None


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
