"""One request from end to end: its tools, and the way of its events to the views."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ipyagent import imports, telemetry
from ipyagent.agent import prompts
from ipyagent.agent.answers import check_all, parse_expectation
from ipyagent.agent.approvals import Answer
from ipyagent.agent.event_stream import EventStream
from ipyagent.agent.loop import AgentLoop, UserPrompt
from ipyagent.agent.plan_runner import (
    PlanRunner,
    check_background_plan,
    find_plan,
    propose_plan,
    resolve_plan,
)
from ipyagent.agent.policy import CallPolicy, Effect, FolderPermissions, Policy
from ipyagent.agent.recordings import Recording, Signer
from ipyagent.agent.replay import ReplayLoop
from ipyagent.agent.session.session import Session
from ipyagent.agent.tool_context import DRY_RUN, ToolContext
from ipyagent.config import Config, has_profile_tools
from ipyagent.config.rules import forget_secrets
from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.drivers import Cell
from ipyagent.kernel.namespace import installed_packages
from ipyagent.kernel.threads import without_interrupts
from ipyagent.llm import forget_environment
from ipyagent.llm.client import Client, ModelSize, NoClient
from ipyagent.llm.modelmap import size_of
from ipyagent.redaction import Redactor, known_secrets, mask_arguments
from ipyagent.rehearsal.confinement import Limits
from ipyagent.schema import Asked, Decision, Expectation, Run, StopReason
from ipyagent.schema.events import Listener
from ipyagent.services.skills import Skills, personal_folder
from ipyagent.telemetry.eventlog import EventLog
from ipyagent.tools.base import Tool, Toolbox
from ipyagent.tools.file_change import decode_utf8
from ipyagent.tools.notebook_tools import NotebookTools
from ipyagent.tools.notes import NOTES_PATH
from ipyagent.tools.rehearsed import RehearsalContext
from ipyagent.tools.result_conversion import OutputStore
from ipyagent.tools.workspace import Workspace
from ipyagent.ui.views import View
from ipyagent.wiring import toolset
from ipyagent.wiring.delegation import MOST_DEPTH, ChildPolicy, Delegation
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.replays import prepare_replay
from ipyagent.wiring.run_request import RunRequest
from ipyagent.wiring.runtime import runtime

T = TypeVar("T")

RunFunction = Callable[[], Coroutine[object, object, Run]]
"""A run that is ready to be driven."""

HIDDEN_FROM_PROMPT = (
    "The prompt held what looks like a secret. It is hidden from the model, the record and this "
    "transcript; name the environment variable that holds it instead."
)


class RunTask:
    """One request, from its tools to its last event; made on the main thread.

    Namespaces are read on the main thread. `show` opens a view.
    """

    def __init__(
        self,
        environment: Environment,
        session: Session,
        request: RunRequest,
        client: Client | Callable[[], Client],
        cell: Cell,
        open_view: Callable[[], View],
        parent: RunTask | None = None,
    ) -> None:
        self.environment, self.session, self.request = environment, session, request
        self._make_client, self.cell, self.show = client, cell, open_view
        self.client: Client
        self.loop: AgentLoop
        self.view: View
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.tasks: list[str] = parent.tasks if parent else []
        self.asked: Asked | None = None
        self.recording: Recording | None = None
        config, workspace = request.config, environment.workspace
        self.services = environment.services_for_run(config)
        self.servers = self.services.find_servers(config)
        runtime().enter(environment)
        environment.limit_undo(config.undo.memory)
        self.folder_permissions = FolderPermissions(workspace.root)
        signer = Signer(workspace.root)
        self.signer: Signer = parent.signer.enter(parent.loop.stream.run, -1) if parent else signer
        self.redactor = self._create_redactor()
        telemetry.setup_logging(config.logging.level, self.redactor)
        self.instructions, self.notes = _load_instructions(config, workspace)
        self.skills = Skills(workspace, personal_folder()) if config.tools.skills else None
        own = [*environment.tools(), *self._load_skills()]
        may_delegate = self.depth < MOST_DEPTH and not request.plan
        delegate = Delegation(self).delegate if may_delegate else None
        self.toolbox = environment.toolset.build(
            config, own, self.redactor, cell.main.post, session, delegate
        )
        self.size = ModelSize()
        notebooks = environment.toolset.open_notebooks() if request.about else None
        self.about = NotebookTools(workspace, notebooks) if notebooks else None
        self.prompt = self.redactor.text(request.prompt)
        self.notes += self.toolbox.notices

    def may_read(self, path: str) -> bool:
        """Return whether read_file would read this file without asking."""
        if "read_file" not in self.toolbox:
            return False
        tool = self.toolbox.get("read_file")
        try:
            arguments = tool.check_arguments({"path": path})
        except AgentError:
            return False
        return self._create_policy().evaluate(tool, arguments).effect is Effect.ALLOW

    def connect(self) -> Client:
        """Return the model's client, made now if it was not given; raises AgentError."""
        make = self._make_client
        return make() if callable(make) else make

    def find_recording(self) -> None:
        """Find the run that this one repeats, if it does; raises AgentError."""
        self.asked, self.recording = prepare_replay(
            self.environment, self.session, self.request, self.prompt, self.toolbox
        )
        self.client = NoClient(self.recording.run.model) if self.recording else self.connect()

    async def answer_prompt(
        self,
        context: prompts.Context,
        read: tuple[str, ...],
        validators: tuple[prompts.Validator, ...],
    ) -> Run:
        """Answer the prompt; its context is from the files in `read`, too.

        `validators` check what the user adds meanwhile.
        """
        request = self.request
        if self.about is not None and self.recording is None:
            cell = await asyncio.to_thread(self.about.describe_cell, request.about)
            context = replace(context, remarks=[*context.remarks, cell])
            read = (*read, "this notebook")
        await self._load_services()
        tool_context = self._create_tool_context(await self._open_view(self.show))
        prompt = UserPrompt(
            self.prompt,
            context,
            request.trace_id,
            self._collect_notices(),
            read,
            agent=request.agent,
            cell_id=request.cell_id,
            validators=validators,
            asked=self.asked,
            parent_id=self.parent.loop.run_id if self.parent else None,
        )
        loop = self.loop = self._create_loop(tool_context)
        if (above := self.parent.loop if self.parent else None) is not None:
            loop.time_limits.outer, loop.has_differed = above.time_limits, above.has_differed
        with self.environment.namespace.own.during_run():
            run = await loop.run(prompt)
        if above is not None:
            above.has_differed |= loop.has_differed
        if run.stop_reason is not StopReason.PLANNED:
            return run
        return await propose_plan(loop, partial(self._open_view, self._create_plan_runner))

    def _create_loop(self, tool_context: ToolContext) -> AgentLoop:
        request = self.request
        parts = request.config, self.client, tool_context, self.instructions
        check = self._check_expectations if request.expected else None
        if self.recording is None:
            return AgentLoop(
                *parts,
                planning=request.plan and not request.dry_run,
                window=self.size.window,
                answer=request.answer,
                check=check,
            )
        return ReplayLoop(
            *parts,
            answer=request.answer,
            check=check,
            recording=self.recording,
            connect=self.connect,
            is_attended=request.is_attended,
        )

    async def _check_expectations(self, run: Run) -> tuple[Expectation, ...]:
        job = partial(check_all, self.request.expected, run, self.environment.namespace)
        return await asyncio.wrap_future(self.cell.main.post(job))

    async def carry_out_decision(self, answer: Answer, reference: str) -> Run:
        """Carry out the user's decision on a waiting plan."""
        await self._load_services()
        if self.request.background and answer.decision is Decision.APPROVED:
            check_background_plan(self.toolbox, find_plan(self.session, reference))
        make = partial(self._open_view, self._create_plan_runner)
        return await resolve_plan(self.session, answer, reference, make)

    def begin_child(self, request: RunRequest, session: Session, view: View) -> RunFunction:
        """Return the run of a task that this one delegates; on the main thread."""
        client = self.connect if self.recording else self.client
        runs = RunFactory(self.environment, session, client, self.cell, lambda: view, parent=self)
        return runs.build(request)

    async def _load_services(self) -> None:
        # A replay reaches no service: its servers need not be there. A task has its parent's.
        connects = not self.parent and (not self.recording or self.recording.repeats_services)
        config, settings = self.request.config, self.request.config.agent
        self.size = await asyncio.to_thread(size_of, self.client)
        own, servers = self.toolbox, self.servers if connects else None
        tools, notes = await self.services.load_tools(
            servers, lambda: self._offer_tools(own).unoffered_tools()
        )
        merged = own.merge_services(tools)
        if self.parent is not None:
            merged = self.parent.toolbox.lend(merged)
        lenient = has_profile_tools(self.request.agent, settings)
        self.toolbox = self._offer_tools(merged.select(settings.allowed_tools, lenient=lenient))
        idle = () if self.parent else toolset.find_idle_rules(config.policy.rules, merged)
        self.notes += (*notes, *merged.notices, *idle)
        if self._has_small_set and config.tools.offer == "auto":
            self.notes += (toolset.describe_small_set(self.client.model, self.size),)

    def _offer_tools(self, toolbox: Toolbox) -> Toolbox:
        of_parent = self.parent.toolbox.offered_tools() if self.parent else ()
        earlier = [each.name for each in of_parent or self.session.conversation.tools]
        return toolset.offer_tools(toolbox, self.request.config, self._describe_occasion(), earlier)

    @property
    def _has_small_set(self) -> bool:
        return toolset.wants_small_set(self.request.config, self.size.is_small)

    def _describe_occasion(self) -> toolset.Occasion:
        return toolset.Occasion(
            prompt=self.prompt,
            page_is_open=self.environment.page_is_open,
            model_is_small=self.size.is_small,
            has_notes=self.environment.workspace.has(NOTES_PATH),
        )

    def _create_redactor(self) -> Redactor:
        """Return a redactor that knows the secrets of variables, environment and settings."""
        own = {*known_secrets(os.environ), *self.request.config.secrets()}
        return self.environment.toolset.redactor(own | {*self.services.secrets(self.servers)})

    def _load_skills(self) -> list[Tool]:
        """Tell the model which skills there are, if any; return the tool that reads them."""
        if self.skills is None:
            return []
        self.notes += self.skills.notices()
        if not self.skills.all():
            return []
        self.instructions += f"\n\n{self.skills.prompt()}"
        return [self.skills.tool()]

    async def _on_main(self, job: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self.cell.main.post(partial(_run_uninterrupted, job)))

    async def _open_view(self, make: Callable[[], T]) -> T:
        """Open a view. If the run is stopped meanwhile, this view shows it."""
        opening = asyncio.ensure_future(self._on_main(make))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            try:
                opened = await opening
            except RuntimeError:  # the cell was stopped first, and nothing was shown
                raise asyncio.CancelledError from None
            if task := asyncio.current_task():
                task.cancel()  # the run meets the error again
            return opened

    def _create_plan_runner(self) -> PlanRunner:
        """Return a plan's runner, with a view of its own; on the main thread."""
        return PlanRunner(
            self.request.config,
            self.client,
            self._create_tool_context(self.show()),
            release=self.cell.release if self.request.background else None,
        )

    def _create_event_stream(self, view: View) -> EventStream:
        self.environment.undo.sessions.add(self.session)
        watchers = _observers(self.request.config, self.environment.workspace)
        first: list[Listener] = [] if self.parent else [runtime().remember]
        listeners: list[Listener] = [*first, self.environment.undo.listen, view, *watchers]
        self.view = view
        return EventStream(self.session, listeners, self.redactor)

    def _create_tool_context(self, view: View) -> ToolContext:
        return ToolContext(
            toolbox=self.toolbox,
            policy=self._create_policy(),
            approvals=self.environment.approvals,
            asker=view,
            stream=self._create_event_stream(view),
            main=self.cell.main,
            threads=runtime().tool_threads,
            save_output=OutputStore(self.environment.workspace).save,
            dry_run=DRY_RUN if self.request.dry_run else None,
            watch=self.environment.toolset.track().watch,
            rehearsal=self._create_rehearsal_context(),
            sign=self.signer.sign,
            edit_seconds=self.request.config.workspace.edit_seconds,
            max_chars=toolset.SHORT_RESULT
            if self._has_small_set or self.size.has_short_window
            else None,
        )

    def _create_rehearsal_context(self) -> RehearsalContext | None:
        agent = self.request.config.agent
        if not agent.rehearse_seconds or not agent.look_freely:
            return None
        return RehearsalContext(
            self.cell.main.post,
            runtime().tool_threads,
            Limits(seconds=self.request.config.tools.max_timeout),
            runtime().isolation,
            agent.rehearse_seconds if self.environment.page_is_open else None,
            self._forget_keys,
            agent.adopt_new,
        )

    def _forget_keys(self) -> None:
        """Empty our own objects that hold keys: this is a copy of the kernel."""
        forget_environment()
        self.redactor.forget()
        forget_secrets()

    def _create_policy(self) -> CallPolicy:
        config = self.request.config
        policy = Policy(
            config.agent.confirm_mode,
            self.session.grants,
            self.session.conversation.sources,
            rules=config.policy.rules,
            folder_permissions=self.folder_permissions,
            allowed_tools=config.agent.allowed_tools,
            refusal=self.refuses,
            root=self.environment.workspace.root,
            looks=config.agent.look_freely,
        )
        return ChildPolicy(policy, self.prompt) if self.parent else policy

    def refuses(self, tool: str) -> str | None:
        """Return why a tool may not be used: a loaded skill, of a parent too, does not allow it."""
        own = self.skills.refuses(tool) if self.skills else None
        return own or (self.parent.refuses(tool) if self.parent else None)

    def _collect_notices(self) -> tuple[str, ...]:
        hidden_notices = () if self.prompt == self.request.prompt else (HIDDEN_FROM_PROMPT,)
        own = (*self.request.notices, *self.notes, *self.folder_permissions.notices())
        standing = (*own, *imports.shadowing_notices())
        lasting = self.session.take_notices(standing)
        return (*self.request.one_time_notices, *lasting, *hidden_notices)


@without_interrupts
def _run_uninterrupted(job: Callable[[], T]) -> T:
    """Run a job without interruption: a half-made view would stay in the cell."""
    return job()


def _observers(config: Config, workspace: Workspace) -> Iterator[Listener]:
    """Yield the listeners beside the view that are switched on: the event log and traces."""
    if config.logging.file:
        yield EventLog(workspace.root / config.logging.file, mask=mask_arguments)
    if config.chat.enable_observability:
        yield telemetry.span_listener(os.environ)


def _load_instructions(config: Config, workspace: Workspace) -> tuple[str, tuple[str, ...]]:
    """Return the system prompt, and a notice if the user's own could not be read."""
    own, path = config.agent.system_prompt, config.agent.system_prompt_path
    notes: tuple[str, ...] = ()
    if path:
        try:
            own = decode_utf8(workspace.read_bytes(path), path)
        except AgentError as error:
            notes = (f"agent.system_prompt_path: {error}; the standard instructions are used.",)
    standard = prompts.system_prompt(installed_packages())
    return f"{standard}\n\n{own.strip()}" if own else standard, notes


def extra_validators(environment: Environment, config: Config) -> Iterator[prompts.Validator]:
    """Yield the validators that packages and settings add."""
    yield from prompts.installed_validators()
    yield from prompts.configured_validators(config.chat.validators, environment.settings_folder)


@dataclass(frozen=True)
class RunFactory:
    """Makes runs in an environment for a session.

    `open_view` opens a view; `parent` is the run within which it is begun.
    """

    environment: Environment
    session: Session
    client: Client | Callable[[], Client]
    cell: Cell
    open_view: Callable[[], View]
    parent: RunTask | None = None

    def build(
        self,
        request: RunRequest,
        validators: Iterable[prompts.Validator] = prompts.VALIDATORS,
        context: prompts.Context | None = None,
    ) -> RunFunction:
        """Return the run that answers the prompt; with a `context` of its own, if that is given.

        Raises AgentError for a prompt that cannot be answered, before anything is shown.
        """
        prompt = request.prompt or self.session.conversation.open_prompt
        request = replace(request, prompt=prompt)
        checks = self.check(request, validators)
        task = self._create_task(request)
        task.find_recording()
        read: tuple[str, ...] = ()
        if context is None:
            with_facts = getattr(task.client, "reads_facts", False)
            context, read = self.environment.prompt_context(
                request.prompt, task.may_read, with_facts=with_facts
            )
        return partial(task.answer_prompt, context, read, checks)

    def check(
        self, request: RunRequest, validators: Iterable[prompts.Validator] = prompts.VALIDATORS
    ) -> tuple[prompts.Validator, ...]:
        """Raise AgentError for a prompt that cannot be answered; return the checks of prompts."""
        if request.plan and (request.answer or request.expected):
            option = "--result" if request.answer else "--expect"
            why = "is about an answer, and --plan has none: leave one of them out"
            raise ConfigError(f"{option} {why}")
        for each in request.expected:
            parse_expectation(each)
        extra = extra_validators(self.environment, request.config)
        checks = (*validators, *extra, *self.session.validators)
        prompts.validate(request.prompt, checks)
        self.session.check_ready()
        return checks

    def build_decision(
        self, request: RunRequest, answer: Answer, reference: str = ""
    ) -> RunFunction:
        """Return the run that carries out the user's decision on a waiting plan."""
        task = self._create_task(replace(request, plan=True))
        task.client = task.connect()
        return partial(task.carry_out_decision, answer, reference)

    def _create_task(self, request: RunRequest) -> RunTask:
        what = self.environment, self.session, request
        return RunTask(*what, self.client, self.cell, self.open_view, self.parent)
