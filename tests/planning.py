"""A place where plans are proposed, decided on and run, beside the harness for ordinary runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import Lab, Watcher
from ipyagent.agent.approvals import Answer, Approval
from ipyagent.agent.context import SYSTEM_PROMPT
from ipyagent.agent.dispatch import Dispatcher
from ipyagent.agent.loop import Loop
from ipyagent.agent.plan_runner import RETRY, PlanRunner
from ipyagent.agent.planning import decide, follow, found, propose_and_run
from ipyagent.agent.policy import Judge, Policy
from ipyagent.agent.stream import EventStream
from ipyagent.config import Config, Layer, combine
from ipyagent.kernel.drivers import Cell, drive_sync
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import Event, Run
from ipyagent.tools.base import Tool
from ipyagent.tools.results import tidied

AT_ONCE = RETRY.model_copy(update={"initial_delay": 0.0})
"""As many attempts as the product makes, without its pauses."""

Deciding = Answer | Callable[[Approval], Answer | None] | None

POOL = ThreadPoolExecutor(4)


@dataclass
class Leaving(Watcher):
    """It also notes whether it was left, before its run had ended."""

    left: bool = False

    def leave(self) -> None:
        self.left = True


class PlanLab(Lab):
    """`plan` proposes and runs, `decide` is `%agent approve` in a later cell."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.views: list[Leaving] = []
        self.judge: Judge | None = None
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
        config = combine(Layer("the test", {"agent": agent}))
        answers = (lambda _: answer) if isinstance(answer, Answer) else answer
        first = self._runner(config, answers, heard)
        loop = Loop(
            config, self.session, self.client, SYSTEM_PROMPT, first.dispatcher, first.stream, True
        )
        again = partial(self._runner, config, answers, heard)
        run = partial(propose_and_run, loop, prompt, "<context/>", again, trace_id="t" * 32)
        return drive_sync(self.cell, run)

    def decide(
        self, answer: Answer, replies: Iterable[Any] = (), reference: str = "", **agent: Any
    ) -> Run:
        """Decide on the plan that waits."""
        self.client, self.cell, self.views = Scripted(replies), Cell(), []
        plan = decide(self.session, answer, found(self.session, reference))
        runner = self._runner(combine(Layer("the test", {"agent": agent})), None)
        return drive_sync(self.cell, partial(follow, runner, plan, answer))

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
        view = Leaving(self.place, answers, heard=heard)
        self.views.append(view)
        stream = EventStream(self.session, [view])
        said = self.session.conversation
        policy = Policy(config.agent.confirm_mode, self.session.granted, said.sources)
        dispatcher = Dispatcher(
            toolbox=self.place.toolbox(config, self.tools),
            policy=self.judge or policy,
            approvals=self.place.approvals,
            asker=view,
            post=self.cell.main.post,
            pool=POOL,
            tidy=lambda name, result: tidied(result, tool=name, save=None),
            emit=stream.emit,
            recorded=self.session.recorded,
        )
        return PlanRunner(
            config,
            self.session,
            self.client,
            dispatcher,
            stream,
            view.leave,
            self.retry,
            partial(self.release, self.cell) if self.release else None,
        )
