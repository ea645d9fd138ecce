"""A place where plans are proposed, decided on and run, beside the harness for ordinary runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from harness import Lab, Watcher
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.loop import AgentLoop, UserPrompt
from ipyagent.agent.plan_runner import (
    STEP_RETRY,
    PlanRunner,
    carry_out,
    decide_plan,
    find_plan,
    propose_plan,
)
from ipyagent.agent.policy import CallPolicy, Policy
from ipyagent.agent.prompts import Context, system_prompt
from ipyagent.agent.tool_context import ToolContext
from ipyagent.config import Config, Layer, resolve_config
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.kernel.namespace import installed_packages
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import Event, Run, StopReason
from ipyagent.tools.base import Tool, tool

AT_ONCE = STEP_RETRY.model_copy(update={"initial_delay": 0.0})
"""As many attempts as the product makes, without its pauses."""

Deciding = Answer | Callable[[Approval], Answer | None] | None

POOL = ThreadPoolExecutor(4)


class Doing:
    """Tools that note what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @property
    def tools(self) -> list[Tool]:
        @tool(where="thread")
        def look(what: str) -> str:
            """Look at it."""
            self.done.append(f"look {what}")
            return f"{what} is there"

        @tool(where="thread", sensitive=True)
        def act(what: str, times: int = 1) -> str:
            """Do it."""
            self.done.append(f"act {what}")
            if what == "badly":
                raise ValueError("it broke")
            return f"{what} done"

        return [look, act]


class PlanLab(Lab):
    """`plan` proposes and runs, `decide` is `%agent approve` in a later cell."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.views: list[Watcher] = []
        self.judge: CallPolicy | None = None
        self.retry = AT_ONCE
        self.tools: Iterable[Tool] = ()
        self.release: Callable[[Cell, Run], object] | None = None
        """`Cell.release` for plans in the background."""

    def plan(
        self,
        replies: Iterable[Any],
        prompt: str = "Tidy up.",
        *,
        tools: Iterable[Tool] = (),
        answer: Deciding = None,
        heard: Callable[[Event], None] = lambda event: None,
        **agent: Any,
    ) -> Run:
        """What `%%agent --plan` does; keyword arguments are `agent.…` settings."""
        self.session.check_ready()
        self.client, self.cell, self.views = Scripted(replies), Cell(), []
        self.tools = tuple(tools)
        agent = {"look_freely": False, **agent}
        config = resolve_config(Layer("the test", {"agent": agent}))
        answers = (lambda _: answer) if isinstance(answer, Answer) else answer
        first = self._runner(config, answers, heard)
        instructions = system_prompt(installed_packages())
        loop = AgentLoop(config, self.client, first.context, instructions, planning=True)

        async def again() -> PlanRunner:
            return self._runner(config, answers, heard)

        async def engine() -> Run:
            run = await loop.run(UserPrompt(prompt, Context(remarks=["Hello."]), "t" * 32))
            planned = run.stop_reason is StopReason.PLANNED
            return await propose_plan(loop, again) if planned else run

        return drive_sync(self.cell, engine)

    def decide(
        self, answer: Answer, replies: Iterable[Any] = (), reference: str = "", **agent: Any
    ) -> Run:
        """Decide on the plan that waits."""
        self.client, self.cell, self.views = Scripted(replies), Cell(), []
        plan = decide_plan(self.session, answer, find_plan(self.session, reference))
        runner = self._runner(resolve_config(Layer("the test", {"agent": agent})), None)
        return drive_sync(self.cell, partial(carry_out, runner, plan, answer))

    @property
    def types(self) -> list[list[str]]:
        """The types of the events, by view."""
        return [view.types() for view in self.views]

    def _runner(
        self,
        config: Config,
        answers: Callable[[Approval], Answer | None] | None,
        heard: Callable[[Event], None] = lambda event: None,
    ) -> PlanRunner:
        assert self.client is not None
        view = Watcher(self.environment, answers, heard=heard)
        self.views.append(view)
        stream = EventStream(self.session, [view])
        said = self.session.conversation
        policy = Policy(config.agent.confirm_mode, self.session.grants, said.sources)
        context = ToolContext(
            toolbox=self.environment.toolset.build(config, self.tools),
            policy=self.judge or policy,
            approvals=self.environment.approvals,
            asker=view,
            stream=stream,
            main=self.cell.main,
            threads=POOL,
        )
        return PlanRunner(
            config,
            self.client,
            context,
            self.retry,
            partial(self.release, self.cell) if self.release else None,
        )
