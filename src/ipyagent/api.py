"""The agent for Python code: the same engine as `%%agent`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from ipyagent import config as settings, telemetry
from ipyagent.agent.answers import AnswerType
from ipyagent.agent.approvals import Answer, Approvals
from ipyagent.agent.prompts import VALIDATORS, Validator
from ipyagent.agent.session.session import Session
from ipyagent.agent.session.sessions import Sessions
from ipyagent.config import Config, Layer
from ipyagent.errors import AgentError, BusyError, ConfigError
from ipyagent.imports import working_folder
from ipyagent.kernel.drivers import Cell, drive_async_in_any_task, drive_sync, stoppable
from ipyagent.kernel.namespace import Namespace, ShellNamespace
from ipyagent.kernel.shell import Frontend, detect, running_shell
from ipyagent.llm import start_environ
from ipyagent.llm.client import Client
from ipyagent.llm.destinations import resolve
from ipyagent.schema import Run
from ipyagent.tools.base import BaseTool, Tool, tool
from ipyagent.ui.views import SilentView, View, show_run, view_for
from ipyagent.wiring import (
    Environment,
    RunFactory,
    RunFunction,
    RunRequest,
    failed_run,
    replay_run,
    runtime,
)


class Agent:
    """An agent with a conversation of its own.

    `model` is a model id or a client such as `Scripted`; `tools` are added to the built-in ones;
    `profile` names an agent of the settings; `session` is a name to continue or start, or a
    `Session`; `persist=False` keeps everything in memory. Agents with sessions of their own may run
    beside each other, in tasks and threads. The other arguments override the settings
    of the same name, and `layers` override those. In IPython the agent works in the user's
    namespace and shows its runs; in a plain script it works in `__main__` and prints only
    questions.

    `validators` check each prompt first, and raise ValueError to refuse it; `session.validators`
    and the setting `chat.validators` add others.
    """

    def __init__(
        self,
        model: str | Client | None = None,
        *,
        tools: Iterable[Tool | BaseTool | Callable[..., object]] = (),
        profile: str | None = None,
        session: str | Session | None = None,
        persist: bool | None = None,
        root: str | Path | None = None,
        layers: Iterable[Layer] = (),
        **agent: object,
    ) -> None:
        self._shell = running_shell()
        overrides: dict[str, object] = {"agent": agent}
        if isinstance(model, str):
            overrides["llm"] = {"model": model}
        if root is not None:
            overrides["workspace"] = {"root": str(root)}
        if persist is not None:
            overrides["chat"] = {"persist": persist}
        # A script's environment is its author's; a kernel's may have been written to by a `.env`.
        start = None if self._shell is None else start_environ()
        folder = working_folder() if root is None else Path(root)
        if folder is None:
            raise ConfigError(
                "the folder that this process works in is not there any more; go to another one "
                "with os.chdir, or give root="
            )
        self.profile = profile
        resolved = settings.resolve_layers(
            *settings.base_layers(os.environ, start, folder),
            Layer("Agent(…)", overrides),
            *(replace(each, binding=False) for each in layers),  # an administrator's are files
            agent=profile,
        )
        self.config: Config = resolved.config
        self._bound = resolved.bound
        self._notices = [*resolved.notices]
        """Notices for the first run."""
        self._introduced = False
        self.tools = [tool(each) for each in tools]
        self.validators: list[Validator] = list(VALIDATORS)
        workspace = runtime().workspace(Path(self.config.workspace.root).resolve())
        self.environment = Environment(
            workspace,
            self._namespace(),
            approvals=runtime().approvals,
            switches=lambda: self.session.services,
            tools=lambda: self.tools,
            settings=lambda: self.config,
            connect=lambda: self._client or self._resolve_settings(),
        )
        self._given = session
        self._client = model if model is not None and not isinstance(model, str) else None

    @cached_property
    def session(self) -> Session:
        """Return the conversation; started, or opened, when it is first needed."""
        if isinstance(self._given, Session):
            if self._bound.get(("chat", "persist")) and self._given.journal.place is None:
                raise ConfigError("chat.persist is set for everybody: use Agent.load(PATH) instead")
            return self._given
        sessions = self._sessions()
        if self._given is None:
            return sessions.begin("agent")
        opened = sessions.get_or_begin(self._given)
        self._notices += opened.notices
        return opened.session

    def ask(
        self,
        prompt: str,
        *,
        result: object = None,
        plan: bool | None = None,
        dry_run: bool = False,
        trace_id: str | None = None,
    ) -> Run:
        """Answer `prompt` and return the run, with its `outcome`.

        `result` is a type (a pydantic model, dataclass, TypedDict, Literal, Enum, `list[str]`, …):
        the answer is an instance of it, `run.value`, or the run fails. `plan`: the model proposes
        everything first (None: as the settings say); `dry_run`: each call is checked and none runs.
        A refused prompt gives a failed run, with the reason in `run.error`. Raises BusyError while
        its session answers another prompt, and AgentInterrupted when it is stopped.
        """
        cell = Cell()
        with stoppable(cell), ExitStack() as turn:
            build = partial(self._engine, cell, prompt, result, plan, dry_run, trace_id)
            begun = self._begin(turn, prompt, build)
            return begun if isinstance(begun, Run) else drive_sync(cell, begun)

    async def aask(
        self,
        prompt: str,
        *,
        result: object = None,
        plan: bool | None = None,
        dry_run: bool = False,
        trace_id: str | None = None,
    ) -> Run:
        """Answer a prompt like `ask`, for async code.

        In a notebook, an interrupt cancels a task that awaits this; a cell that awaits it raises
        AgentInterrupted.
        """
        cell = Cell()
        with ExitStack() as turn:
            build = partial(self._engine, cell, prompt, result, plan, dry_run, trace_id)
            begun = self._begin(turn, prompt, build)
            if isinstance(begun, Run):
                return begun
            return await drive_async_in_any_task(cell, begun)

    def replay(self, run: Run) -> Run:
        """Run the calls of any run again with this agent's tools and settings; ask no model."""
        return replay_run(run, self.environment, self.session)

    def save(self, path: str | Path) -> None:
        """Write the conversation to a JSON file, as a graph."""
        self.session.save(path)

    def load(self, path: str | Path) -> None:
        """Continue with the conversation in a file that `save` wrote, or in a notebook's runs."""
        self.session = self._sessions().load(Path(path))

    def _sessions(self) -> Sessions:
        persist, url = self.config.chat.persist, self.config.store.url
        return Sessions(runtime().journal(self.environment.workspace, persist=persist, url=url))

    def _begin(
        self, turn: ExitStack, prompt: str, build: Callable[[], RunFunction]
    ) -> RunFunction | Run:
        """Hold the session for a `turn`; return what answers, or the run of a refused prompt."""
        try:
            turn.enter_context(runtime().run_lock.hold_session(self.session.id))
            return build()
        except BusyError:
            raise
        except AgentError as error:
            return self._refuse(prompt, error)

    def _engine(
        self,
        cell: Cell,
        prompt: str,
        result: object,
        plan: bool | None,
        dry_run: bool,
        trace_id: str | None,
    ) -> RunFunction:
        session, client = self.session, self.environment.connect()
        if plan is None or self._bound.get(("agent", "plan")):
            plan = self.config.agent.plan
        request = RunRequest(
            prompt.strip(),
            self.config,
            agent=self.profile,
            trace_id=trace_id or telemetry.new_trace_id(),
            dry_run=dry_run,
            plan=bool(plan),
            answer=None if result is None else AnswerType(result),
            notices=tuple(self._notices),
        )
        view = partial(self._view(), cell, self.environment.approvals, detect(self._shell))
        runs = RunFactory(self.environment, session, client, cell, view)
        if (decision := self._decision(prompt)) is not None:
            return runs.build_decision(request, decision)
        engine = runs.build(request, self.validators)
        self._notices.clear()
        return engine

    def _decision(self, prompt: str) -> Answer | None:
        """Return a prompt's decision on a waiting plan: here none, it is a prompt."""
        return None

    def _view(self) -> Callable[[Cell, Approvals, Frontend], View]:
        """Return a function that opens the view of a run."""
        return SilentView if self._shell is None else view_for

    def _namespace(self) -> Namespace:
        if self._shell is not None:
            return ShellNamespace(self._shell)
        return Namespace(vars(sys.modules["__main__"]))

    def _refuse(self, prompt: str, error: AgentError) -> Run:
        """Return the failed run of a prompt that was not sent."""
        run = failed_run(prompt.strip(), error)
        runtime().last_run = run
        if self._shell is not None:
            show_run(detect(self._shell), run)
        return run

    def _resolve_settings(self) -> Client:
        resolved = resolve(self.config.llm, os.environ)
        if not self._introduced:
            self._notices += resolved.notes
            self._introduced = True
        return self.environment.client_for(resolved, self.config.llm)
