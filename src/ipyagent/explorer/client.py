"""`offline/explorer` as a client: the reply to a conversation, streamed word by word."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ipyagent.errors import ModelRefusedError
from ipyagent.explorer import errands
from ipyagent.explorer.markdown import UnreadableError, code, fence
from ipyagent.explorer.snippets import with_imports
from ipyagent.explorer.understanding import next_step
from ipyagent.explorer.workspace import Look, Say, Step, Task, Workspace, choose_sheets, of_context
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import (
    Message,
    Role,
    StreamChunk,
    TextContent,
    ToolCall,
    ToolResultContent,
)

_CONTEXT = re.compile(r"\n?<context>\n(.*)\n</context>\s*\Z", re.DOTALL)

_REASON = re.compile(
    r"Their reason: (.*?)(?: Do not repeat it; ask or find another way\.)?$"
    r"|^\w+ was not run: (.*)$",
    re.DOTALL,
)
_DENIED = re.compile(r"\b(denied|not run|not approved)\b", re.IGNORECASE)
_ABSENT = re.compile(r"No module named '([\w.]+)'|Missing optional dependency '([\w.]+)'")

_DATA = ("matplotlib", "pandas")
"""The packages of the extra `data`: who lacks one for the explorer will soon need the other."""

_STRANGE = "This conversation holds a call that I did not ask for; please ask again."


@dataclass(frozen=True)
class ExplorerReply:
    """One reply: the rule as `thinking`, and either calls or an answer."""

    thinking: str
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


class ExplorerClient:
    """A client whose answers follow fixed rules, in this process: no key, no network, no cost."""

    gives_up = True
    """It ends at the first failed call, and the run counts as failed."""

    reads_whole_context = True
    """It takes the workspace from the newest context alone."""

    context_window = None

    def __init__(self, model: str = "offline/explorer") -> None:
        self.model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request` word by word; raises ModelRefusedError for a bug of ours."""
        offered = {tool.name for tool in request.tools} if request.may_call else set[str]()
        try:
            answer = reply(request.messages, offered)
        except Exception as error:
            # Final: another attempt would meet the same bug.
            raise ModelRefusedError(
                f"{self.model}: the explorer failed: {type(error).__name__}: {error}"
            ) from error
        turn = 1 + sum(message.role is Role.ASSISTANT for message in request.messages)
        for chunk in chunks_of(answer, turn):
            yield chunk
            await asyncio.sleep(0)  # for others to have their turn, and for a stop


def chunks_of(answer: ExplorerReply, turn: int) -> Iterator[StreamChunk]:
    """Yield the pieces of a reply; the turn makes the ids of its calls unique."""
    for word in _words(answer.thinking):
        yield StreamChunk(type="thinking", data=word)
    for word in _words(answer.text):
        yield StreamChunk(type="content", data=word)
    for index, (name, arguments) in enumerate(answer.calls):
        id_ = f"call_{turn}_{index + 1}"
        text = json.dumps(arguments)
        yield StreamChunk(type="tool_call", data=text, index=index, id=id_, name=name)
    yield StreamChunk(type="finish", data="tool_calls" if answer.calls else "stop")


def _words(text: str) -> list[str]:
    """Split into words, each with the space around it."""
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])


def reply(messages: Iterable[Message], offered: Collection[str]) -> ExplorerReply:
    """Return the explorer's reply to a conversation; `offered` are the names of the tools.

    Pure: the same conversation gives the same reply. The calls made since the newest prompt are
    followed from the start, so nothing has to be remembered between replies.
    """
    asked, calls, results = list[str](), list[ToolCall](), dict[str, ToolResultContent]()
    for role, turn in groupby(messages, key=lambda message: message.role):
        blocks = [block for message in turn for block in message.content]
        said = "\n".join(b.text for b in blocks if isinstance(b, TextContent)).strip()
        if role is Role.USER and said:
            asked.insert(0, said)
            calls.clear()
        calls += [b for b in blocks if isinstance(b, ToolCall)]
        results |= {b.tool_use_id: b for b in blocks if isinstance(b, ToolResultContent)}
    newest = asked or [""]
    prompts = [_CONTEXT.sub("", each).strip() for each in newest]
    contexts = [found and found[1] for found in map(_CONTEXT.search, newest)]
    workspace = of_context(contexts[0] or "", *filter(None, contexts[1:]))
    prompts[0], workspace = choose_sheets(prompts[0], workspace)
    unseen = [] if contexts[0] is not None else [errands.at_variables, errands.at_files]
    for call in (each for each in calls if each.id in results):
        result, step = results[call.id], _step(prompts, workspace, unseen)
        if isinstance(step, Say) or (step.tool, step.arguments) != (call.name, call.arguments):
            return ExplorerReply("a call that I did not ask for", _STRANGE)
        if result.is_error:
            return _explain_stop(call, result)
        try:
            if isinstance(step, Task):
                text = step.answer(result.text)
                return ExplorerReply("Put what the tool returned into words.", text)
            workspace = step.learn(result.text)
        except (UnreadableError, ValueError, KeyError):
            return _explain_stop(call, result)
        unseen = [see for see in unseen if see(workspace).tool != step.tool]
    return _next(_step(prompts, workspace, unseen), offered)


def _step(
    prompts: Sequence[str], workspace: Workspace, unseen: Sequence[Callable[[Workspace], Look]]
) -> Step:
    """Return the next step; a look at the workspace, if it was not shown, before it is needed."""
    step = next_step(prompts[0], workspace, prompts[1:])
    if isinstance(step, Say):
        return unseen[0](workspace) if unseen and step.declined else step
    if step.tool == "run_python" and errands.at_variables in unseen:
        return errands.at_variables(workspace)
    if step.tool == "run_python":
        return replace(step, arguments={"code": with_imports(step.arguments["code"], workspace)})
    return step


def _next(step: Step, offered: Collection[str]) -> ExplorerReply:
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


def _explain_stop(call: ToolCall, result: ToolResultContent) -> ExplorerReply:
    """End honestly: the call was denied, it failed, or its result is unreadable."""
    output = result.text.removeprefix("Error: ")
    if "dry run" in output[:200].lower():
        return ExplorerReply("a dry run", "This was a dry run: the call is shown, nothing was run.")
    called, reason = code(call.name), fence(output, lines=15)
    if not result.is_error:
        text = f"**{called} returned something that I can't read**, so I draw no conclusion:"
        return ExplorerReply("unreadable output", f"{text}\n\n{reason}")
    if _DENIED.search(output[:400]):
        known = _REASON.search(output)  # without the words that are meant for a model
        why = next(filter(None, known.groups()), "").strip() if known else ""
        text = f"**The call of {called} was not approved, so I stopped;** it was not run."
        return ExplorerReply("denied", "\n\n".join([text, *[fence(why, lines=15)] * bool(why)]))
    parts = [f"**{called} failed, so I stopped.**", reason]
    if absent := _ABSENT.search(output):
        package = absent[1] or absent[2]
        wanted = "'ipyagent[data]'" if package.partition(".")[0] in _DATA else package
        parts.append(f"Install it with {code(f'%pip install {wanted}')}, then ask again.")
    return ExplorerReply("the call failed", "\n\n".join(parts))
