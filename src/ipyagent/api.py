"""The agent for Python code: the same engine as `%%agent`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ipyagent import config as settings
from ipyagent.config import Config, Layer
from ipyagent.errors import ConfigError
from ipyagent.kernel.drivers import Cell, drive_async, drive_sync
from ipyagent.kernel.frontend import detect, running_shell
from ipyagent.kernel.namespace import PlainNamespace, ShellNamespace
from ipyagent.llm.client import Client
from ipyagent.llm.environment import start_environ
from ipyagent.llm.resolve import client_for, resolve
from ipyagent.schema import Run
from ipyagent.tools.base import Tool, tool
from ipyagent.ui.views import SilentView, view_for
from ipyagent.wiring import Engine, Place, engine, only_run, workspace_at


class Agent:
    """An agent with a conversation of its own.

    `model` is a model id or a client such as `Scripted`; `tools` are offered beside the built-in
    ones; the other arguments override the settings of the same name. In IPython the agent works
    in the person's namespace and shows its runs; in a plain script it works in `__main__` and is
    silent but for questions.
    """

    def __init__(
        self,
        model: str | Client | None = None,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        confirm_mode: str | None = None,
        allowed_tools: Iterable[str] = (),
        max_steps: int | None = None,
        root: str | Path | None = None,
    ) -> None:
        given = {
            "confirm_mode": confirm_mode,
            "allowed_tools": tuple(allowed_tools) or None,
            "max_steps": max_steps,
        }
        agent = {key: value for key, value in given.items() if value is not None}
        llm = {"model": model} if isinstance(model, str) else {}
        workspace = {} if root is None else {"root": str(root)}
        self._shell = running_shell()
        # A script's environment is its author's; a kernel's may have been written to by a `.env`.
        start = None if self._shell is None else start_environ()
        self.config: Config = settings.combine(
            *settings.standing(os.environ, start),
            Layer("Agent(…)", {"agent": agent, "llm": llm, "workspace": workspace}),
        )
        self.tools = [each if isinstance(each, Tool) else tool(each) for each in tools]
        namespace = (
            ShellNamespace(self._shell)
            if self._shell is not None
            else PlainNamespace(vars(sys.modules["__main__"]))
        )
        self.place = Place(workspace_at(Path(self.config.workspace.root).resolve()), namespace)
        self._client = model if model is not None and not isinstance(model, str) else None

    def ask(self, prompt: str) -> Run:
        """Answer `prompt` and return the run; how it went is in `run.outcome`."""
        with only_run():
            cell = Cell()
            return drive_sync(cell, self._engine(cell, prompt))

    async def aask(self, prompt: str) -> Run:
        """Like `ask`, for async code."""
        with only_run():
            cell = Cell()
            return await drive_async(cell, self._engine(cell, prompt))

    def _engine(self, cell: Cell, prompt: str) -> Engine:
        if not prompt.strip():
            raise ConfigError("the prompt is empty")
        show = view_for if self._shell is not None else SilentView
        view = show(cell, self.place.approvals, detect(self._shell))
        client = self._client or self._resolved()
        return engine(
            self.place, self.config, client, cell, view, prompt.strip(), own_tools=self.tools
        )

    def _resolved(self) -> Client:
        resolved = resolve(self.config.llm, os.environ)
        return client_for(resolved, self.config.llm, self.place.workspace.root)
