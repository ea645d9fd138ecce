"""The reply to a conversation: the next call, or the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipyagent.explorer import lookups
from ipyagent.explorer.conversation import Exchange, FinishedCall, read
from ipyagent.explorer.markdown import code, fence
from ipyagent.explorer.spared_names import spare_names_in
from ipyagent.explorer.steps import Look, Say, Step, Task, UnreadableError
from ipyagent.explorer.understanding import next_step
from ipyagent.explorer.workspace import Workspace, of_context

MAX_CALLS = 6

_REASON = re.compile(
    r"Their reason: (.*?)(?: Do not repeat it; ask or find another way\.)?$"
    r"|^Error: \w+ was not run: (.*)$",
    re.DOTALL,
)
_DENIED = re.compile(r"\b(denied|not run|not approved)\b", re.IGNORECASE)
_ABSENT = re.compile(r"No module named '([\w.]+)'|Missing optional dependency '([\w.]+)'")

_STRANGE = "This conversation holds a call that I did not ask for; please ask again."


@dataclass(frozen=True)
class ExplorerReply:
    """One reply: the rule as `thinking`, and either calls or an answer."""

    thinking: str
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def reply(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> ExplorerReply:
    """Return the explorer's reply to a conversation in OpenAI's chat format.

    Pure: the same conversation gives the same reply. The calls made since the newest prompt are
    followed from the start, so nothing has to be remembered between replies.
    """
    conversation = read(messages)
    offered = {tool.get("function", {}).get("name") for tool in tools}
    workspace = of_context(conversation.context or "", *conversation.earlier)
    unseen = [] if conversation.context is not None else [lookups.at_variables, lookups.at_files]
    for done in conversation.done[:MAX_CALLS]:
        step = _step(conversation, workspace, unseen)
        if not isinstance(step, Look):
            return _answer(step, done)
        learned = _apply_lookup(step, done)
        if isinstance(learned, ExplorerReply):
            return learned
        workspace = learned
        unseen = [see for see in unseen if see(workspace).tool != step.tool]
    if len(conversation.done) >= MAX_CALLS:
        text = f"I stopped after {MAX_CALLS} calls without an answer. Please ask for less at once."
        return ExplorerReply("too many calls", text)
    return _next(_step(conversation, workspace, unseen), offered)


def _step(
    conversation: Exchange, workspace: Workspace, unseen: Sequence[Callable[[Workspace], Look]]
) -> Step:
    """Return the next step; a look at the workspace, if it was not shown, before it is needed."""
    step = next_step(conversation.prompt, workspace, conversation.prompts)
    if isinstance(step, Say):
        return unseen[0](workspace) if unseen and step.declined else step
    if step.tool == "run_python" and lookups.at_variables in unseen:
        return lookups.at_variables(workspace)
    return spare_names_in(step, workspace)


def _next(step: Step, offered: set[str | None]) -> ExplorerReply:
    """Return the call that a step needs, if its tool is available, or its words."""
    if isinstance(step, Say):
        return ExplorerReply(f"Rule: {step.rule}.", step.text)
    if step.tool not in offered:
        text = (
            f"**I would need {code(step.tool)}**, which is not on offer here, so I did nothing. "
            f"Allow that tool (for example by leaving out `--tools`) and ask again."
        )
        return ExplorerReply(f"Rule: {step.rule}. The tool is not on offer.", text)
    kind = "Look first" if isinstance(step, Look) else "Rule"
    return ExplorerReply(f"{kind}: {step.rule}.", "", ((step.tool, step.arguments),))


def _answer(step: Task | Say, done: FinishedCall) -> ExplorerReply:
    if isinstance(step, Say) or (step.tool, step.arguments) != (done.tool, done.arguments):
        return ExplorerReply("a call that I did not ask for", _STRANGE)
    if _has_failed(done):
        return _explain_stop(done)
    try:
        return ExplorerReply("Put what the tool returned into words.", step.answer(done.output))
    except (UnreadableError, ValueError, KeyError):
        return _explain_stop(done)


def _apply_lookup(step: Look, done: FinishedCall) -> Workspace | ExplorerReply:
    if (step.tool, step.arguments) != (done.tool, done.arguments):
        return ExplorerReply("a call that I did not ask for", _STRANGE)
    if _has_failed(done):
        return _explain_stop(done)
    try:
        return step.learn(done.output)
    except (UnreadableError, ValueError):
        return _explain_stop(done)


def _has_failed(done: FinishedCall) -> bool:
    return done.output.startswith("Error")


def _explain_stop(done: FinishedCall) -> ExplorerReply:
    """End honestly: the call was denied, it failed, or its result is unreadable."""
    output = done.output
    if "dry run" in output[:200].lower():
        return ExplorerReply("a dry run", "This was a dry run: the call is shown, nothing was run.")
    reason = fence(output.removeprefix("Error: "), lines=15)
    if _has_failed(done) and _DENIED.search(output[:400]):
        why = _reason(output)
        text = (
            f"**The call of {code(done.tool)} was not approved, so I stopped;** it was not run."
            + (f"\n\n{fence(why, lines=15)}" if why else "")
        )
        return ExplorerReply("denied", text)
    if not _has_failed(done):
        text = (
            f"**{code(done.tool)} returned something that I can't read**, so I draw no conclusion:"
        )
        return ExplorerReply("unreadable output", f"{text}\n\n{reason}")
    hint = ""
    if absent := _ABSENT.search(output):
        hint = (
            f"\n\nInstall it with {code(f'%pip install {absent[1] or absent[2]}')}, then ask again."
        )
    text = f"**{code(done.tool)} failed, so I stopped.**\n\n{reason}{hint}"
    return ExplorerReply("the call failed", text)


def _reason(output: str) -> str:
    """Return why a call was denied, without the words that are meant for a model."""
    known = _REASON.search(output)
    return next(filter(None, known.groups()), "").strip() if known else ""
