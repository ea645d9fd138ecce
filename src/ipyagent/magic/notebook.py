"""The agent's side of a kernel: one place, one conversation, and settings made with `%agent`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from ipyagent import config
from ipyagent.config import Config, Layer
from ipyagent.kernel.frontend import detect
from ipyagent.kernel.namespace import ShellNamespace
from ipyagent.llm.environment import start_environ
from ipyagent.llm.resolve import Resolved, fetch, resolve
from ipyagent.llm.warmup import dotenv_warning
from ipyagent.magic import home_of
from ipyagent.ui import formatters
from ipyagent.ui.asking import choose
from ipyagent.wiring import Place, workspace_at


@dataclass
class Notebook:
    """What `%%agent` cells of one kernel share."""

    shell: Any
    home: Path
    """The folder the kernel was in at `%load_ext`: the notebook's. A later chdir is ignored."""
    settings: dict[str, Any] = field(default_factory=dict)
    _introduced: str | None = None

    def config(self, options: Layer | None = None) -> Config:
        """The settings in force; raises ConfigError."""
        standing = config.standing(os.environ, start_environ())
        session = Layer("%agent", self.settings)
        return config.combine(*standing, session, *([options] if options else []))

    @cached_property
    def place(self) -> Place:
        """Workspace, namespace and conversation."""
        root = self.home / self.config().workspace.root
        return Place(workspace_at(root.resolve()), ShellNamespace(self.shell))

    def set(self, layer: Layer) -> None:
        """Put a setting in force for the rest of the session."""
        self.settings = config.merge(self.settings, layer.values)

    def resolve(self, settings: Config) -> Resolved:
        """Which model answers."""
        return resolve(settings.llm, os.environ, probe=fetch)

    def choose(self, settings: Config) -> Resolved:
        """Which model answers; where several could, the person chooses, once for the session."""
        resolved = self.resolve(settings)
        if not resolved.others or not detect(self.shell).can_input:
            return resolved
        model = choose(
            "Several providers' API keys are set. Which model should answer?",
            (resolved.model, *resolved.others),
        )
        self.set(config.from_assignment(f"llm.model={model}"))
        return Resolved(model, "you chose it")

    def notices(self, resolved: Resolved) -> tuple[str, ...]:
        """What the person should know before a run; about a model, only at its first."""
        if self._introduced == resolved.model:
            return self._warnings()
        self._introduced = resolved.model
        return (*self._warnings(), *resolved.notes)

    def _warnings(self) -> tuple[str, ...]:
        warnings = [
            f"{name} was set after this kernel started, perhaps by a .env file, and is ignored. "
            "To set it on purpose: %agent config KEY=VALUE."
            for name in config.late(os.environ, start_environ())
        ]
        if warning := dotenv_warning():
            warnings.append(warning)
        return tuple(warnings)


_notebooks: dict[int, Notebook] = {}


def notebook() -> Notebook:
    """That of the running shell."""
    shell = get_ipython()
    if id(shell) not in _notebooks:
        formatters.register(shell)
        _notebooks[id(shell)] = Notebook(shell, home_of(shell))
    return _notebooks[id(shell)]
