"""The one way to make a run, for cells, commands, scripts and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ipyagent.agent.approvals import Answer
from ipyagent.agent.session.session import Session
from ipyagent.agent.validation import (
    VALIDATORS,
    Validator,
    configured_validators,
    installed_validators,
    validate,
)
from ipyagent.kernel.drivers import Cell
from ipyagent.llm.client import Client
from ipyagent.tools.base import Tool
from ipyagent.ui.views import View
from ipyagent.wiring.environment import Environment
from ipyagent.wiring.run_task import RunFunction, RunRequest, RunTask


@dataclass(frozen=True)
class RunFactory:
    """Makes runs in an environment for a session.

    `open_view` opens a view; `own_tools` are offered beside those of the environment.
    """

    environment: Environment
    session: Session
    client: Client
    cell: Cell
    open_view: Callable[[], View]
    own_tools: Iterable[Tool] = ()

    def build(
        self, request: RunRequest, validators: Iterable[Validator] = VALIDATORS
    ) -> RunFunction:
        """Return the run that answers the prompt.

        Raises AgentError for a prompt that cannot be answered, before anything is shown.
        """
        checks = (*validators, *self._extra_validators(request))
        validate(request.prompt, checks)
        self.session.check_ready()
        task = self._create_task(request)
        context = self.environment.prompt_context(request.prompt, task.may_read, self._is_known)
        return partial(task.answer_prompt, context, checks)

    def _is_known(self, text: str) -> bool:
        """Return whether a text is among the messages that the model gets anyway."""
        return any(text in message.text for message in self.session.conversation.messages)

    def build_decision(
        self, request: RunRequest, answer: Answer, reference: str = ""
    ) -> RunFunction:
        """Return the run that carries out the user's decision on a waiting plan."""
        return partial(self._create_task(request).carry_out_decision, answer, reference)

    def _create_task(self, request: RunRequest) -> RunTask:
        return RunTask(
            self.environment,
            self.session,
            request,
            self.client,
            self.cell,
            self.open_view,
            self.own_tools,
        )

    def _extra_validators(self, request: RunRequest) -> Iterator[Validator]:
        """Yield the validators that packages, settings and the session add."""
        yield from installed_validators()
        folder = self.environment.home or self.environment.workspace.root
        yield from configured_validators(request.config.chat.validators, folder)
        yield from self.session.validators
