"""Delegated tasks: runs that a call of `delegate` begins, within the limits and rights of its run.

    parent ── delegate ──▶ child: a session of its own, a part of the budget, no more tools
       ▲                     │ its questions, asked by the parent's view
       └── answer, changes ──┘

Parts that the two share: policy and permissions, approvals, the client, the namespace, undo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from ipyagent import schema
from ipyagent.agent.answers import find_invented
from ipyagent.agent.approvals import Approval
from ipyagent.agent.budgets import share
from ipyagent.agent.loop import AgentLoop
from ipyagent.agent.policy import Arguments, CallPolicy, Effect, Verdict
from ipyagent.agent.recordings import Recording
from ipyagent.agent.session.conversation import InitialGraph
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.config import AgentConfig
from ipyagent.errors import AgentError, SessionError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.outputs import offer_output
from ipyagent.llm.client import NoClient
from ipyagent.plaintext import ellipsize, flatten
from ipyagent.store.journal import list_effects
from ipyagent.store.sessions import CHILD
from ipyagent.tools.base import Tool, Toolbox, tool
from ipyagent.tools.static_analysis import Effects
from ipyagent.ui.views import View
from ipyagent.wiring.run_request import RunRequest

NAME = "delegate"
MOST_DEPTH = 2
"""A child may delegate, and its child may not."""
_EARLY = "The delegated task ended early: {}"
_MANY = "{} tasks were delegated, as many as agent.max_steps allows: do this one yourself."
_ELSEWHERE = "this delegated task was recorded in another folder, and its run was not saved here"
_NAMED = 60
"""Characters of a task that name it."""

Delegate = Callable[[str, list[str] | None], Awaitable[schema.ToolResult]]
"""Carries out a task with these tools."""


async def refuse_task(task: str, tools: list[str] | None) -> schema.ToolResult:
    """Refuse a task, where no run is on."""
    raise AgentError(f"No run is on that could delegate {task!r}.")


def delegate_tool(carry_out: Delegate) -> Tool:
    """Return the tool by which a model delegates."""

    @tool(gives_way=True)
    async def delegate(task: str, tools: list[str] | None = None) -> schema.ToolResult:
        """Have another agent do a large, independent task; it knows nothing else.

        Several in one reply run in parallel. tools: yours that it may use; default: all.
        """
        return await carry_out(task, tools)

    return delegate


Begun = Callable[[], Coroutine[object, object, schema.Run]]
"""A run that is ready to be driven."""


class Parent(Protocol):
    """The run that delegates."""

    session: Session
    request: RunRequest
    toolbox: Toolbox
    cell: Cell
    loop: AgentLoop
    view: View
    recording: Recording | None
    depth: int
    tasks: list[str]
    """The tasks that were delegated from the top, by whichever run."""

    def begin_child(self, request: RunRequest, session: Session, view: View) -> Begun:
        """Return the run of a task; on the main thread."""


@dataclass
class Delegation:
    """The tasks that one run delegates."""

    parent: Parent
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a question of a child waits for a line that is typed."""
    _repeated: set[str] = field(default_factory=set)

    async def delegate(self, task: str, tools: list[str] | None = None) -> schema.ToolResult:
        """Let a child do a task; return its answer, and what it changed."""
        parent, run = self.parent, self.parent.loop.stream.run
        agent = parent.request.config.agent
        if len(parent.tasks) >= agent.max_steps:
            raise AgentError(_MANY.format(agent.max_steps))
        parts = _count_open(run, parent.toolbox) + 1
        limits = share(run, agent, parts, parent.loop.time_limits.seconds_left)
        parent.tasks.append(task)
        progress = Progress(parent, task, self._turn)
        offer_output(lambda: schema.ToolResult(output=progress.text), progress.take)
        sessions, sources = Sessions(parent.session.journal), parent.session.conversation.sources
        session = sessions.begin(CHILD, metadata=InitialGraph(origins=(*sources,)).to_metadata())
        session.invented = find_invented(task, run, parent.session)
        session.grants, session.validators = parent.session.grants, parent.session.validators
        begun = parent.cell.main.post(partial(self._begin, session, task, tools, limits, progress))
        try:
            run = await (await asyncio.wrap_future(begun))()
        finally:  # also if a stop came while it began
            begun.add_done_callback(lambda _: sessions.close())
        if run.stop_reason is schema.StopReason.UNATTENDED and run.error:
            parent.loop.unattended.append(run.error)
        source = "\n".join(each for each in session.conversation.sources if each not in sources)
        return _result_of(run).model_copy(update={"source": source})

    def _begin(
        self,
        session: Session,
        task: str,
        tools: list[str] | None,
        limits: AgentConfig,
        progress: Progress,
    ) -> Begun:
        """Return the child's run; on the main thread."""
        parent = self.parent
        allowed = parent.request.config.agent.allowed_tools
        names = [name for name in allowed if name in parent.toolbox]
        if tools is not None:
            names = [parent.toolbox.get(name).name for name in tools]
        if parent.depth + 1 == MOST_DEPTH:
            names = [name for name in names if name != NAME]
        if not names and (allowed or tools is not None):  # empty would be all of them
            raise AgentError("A task needs at least one tool; leave `tools` out for all of yours.")
        agent = limits.model_copy(update={"allowed_tools": tuple(names)})
        request = RunRequest(
            task.strip(),
            parent.request.config.model_copy(update={"agent": agent}),
            agent=parent.request.agent,
            trace_id=parent.request.trace_id,
            recording=self._find_recorded(task, tools),
            is_attended=parent.request.is_attended,
        )
        return parent.begin_child(request, session, progress)

    def _find_recorded(self, task: str, tools: list[str] | None) -> Recording | None:
        """Return the child's run that a replay repeats; raises SessionError if it is not here."""
        parent, recording = self.parent, self.parent.recording
        if not isinstance(parent.loop.client, NoClient):  # a model goes on from here
            return None
        for each in recording.run.executions if recording else ():
            given, child = each.call.arguments, recording and recording.find_child(each.child_id)
            is_same = (given.get("task"), given.get("tools")) == (task, tools)
            if child and is_same and each.child_id not in self._repeated:
                self._repeated.add(each.child_id)
                return child
        raise SessionError(_ELSEWHERE)


@dataclass
class Progress:
    """The view of a child: its newest line is its parent's, and its questions are asked there."""

    parent: Parent
    task: str
    turn: asyncio.Lock
    text: str = ""
    _told: str = ""

    def __call__(self, event: schema.Event, state: schema.RunState) -> None:
        """Note how far it is, and let the parent's view show its questions."""
        run = state.run
        calls = [each.call.name for step in run.steps[-1:] for each in step.executions[-1:]]
        self.text = " · ".join([f"step {len(run.steps)}/{run.max_steps}", *calls])
        self.show_child(event, state)

    def show_child(self, event: schema.Event, state: schema.RunState) -> None:
        """Let the parent's view show what it asks, or what a task that it delegates does."""
        if show := getattr(self.parent.view, "show_child", None):
            show(event, state)

    def take(self) -> str | None:
        """Return the text; None if it is as it was last time."""
        before, self._told = self._told, self.text
        return None if before == self.text else self.text

    async def ask(self, approval: Approval) -> None:
        """Ask as the parent does, one after the other."""
        async with self.turn:
            if not approval.answer.done():
                await self.parent.view.ask(approval)


@dataclass(frozen=True)
class ChildPolicy:
    """The parent's policy, whose questions name the task that they are about."""

    policy: CallPolicy
    task: str

    def evaluate(self, tool: Tool, arguments: Arguments, effects: Effects | None = None) -> Verdict:
        """Return the verdict on a call."""
        verdict = self.policy.evaluate(tool, arguments, effects)
        if verdict.effect is not Effect.ASK:
            return verdict
        name = f"for the delegated task “{ellipsize(flatten(self.task), _NAMED)}”"
        return replace(verdict, reason="; ".join(filter(None, (name, verdict.reason))))

    def grant(self, tool: Tool, scope: schema.Scope, effects: Effects | None = None) -> None:
        """Remember the user's approval of a call."""
        self.policy.grant(tool, scope, effects)


def _count_open(run: schema.Run, toolbox: Toolbox) -> int:
    """Return the calls of the newest reply that delegate, and have no result so far."""
    step = run.steps[-1]
    calls = map(toolbox.redirect, step.message.tool_calls if step.message else ())
    done = {each.call.id for each in step.executions if each.result}
    return sum(each.name == NAME and each.id not in done for each in calls)


def _result_of(run: schema.Run) -> schema.ToolResult:
    """Return the result of a task: the answer for the model, its steps for the user.

    Its changes are those of the call, and its figures are shown.
    """
    results, is_done, answer = (
        run.results,
        run.outcome is schema.Outcome.SUCCESS,
        run.output.strip(),
    )
    error = None if is_done else _EARLY.format(run.error or f"{run.stop_reason}")
    figures = [
        schema.Display(data={each.media_type: each.data}) for r in results for each in r.images
    ]
    return schema.ToolResult(
        success=is_done,
        error=error,
        output=_render_steps(run),
        for_model="\n".join(filter(None, (error, answer))),
        value=run,
        displays=(*(each for r in results for each in r.displays), *figures),
    ).model_copy(update=list_effects(run))


def _render_steps(run: schema.Run) -> str:
    """Return all that a run did, as text."""
    from ipyagent.ui.plain_text import render_steps
    from ipyagent.ui.transcribe import transcribe
    from ipyagent.ui.transcribe.call import OPEN

    return render_steps(transcribe(run.model_copy(update={"verbose": OPEN})), "value")
