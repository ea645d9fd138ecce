"""The choice of a notebook's model, and notices about it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ipyagent.config import Config
from ipyagent.kernel.frontend import detect
from ipyagent.kernel.protocols import Shell
from ipyagent.llm.resolve import Resolved, fetch, resolve
from ipyagent.magic.notebook_settings import NotebookSettings
from ipyagent.ui.questions import choose


@dataclass
class ModelChoice:
    """The model by the settings; the user is asked once if several are possible."""

    shell: Shell
    settings: NotebookSettings
    _introduced: str | None = None

    def resolve(self, config: Config) -> Resolved:
        """Return the model that answers, and why."""
        return resolve(config.llm, os.environ, probe=fetch)

    def choose(self, config: Config) -> Resolved:
        """Return the model that answers; if several could, the user chooses, for all cells."""
        resolved = self.resolve(config)
        if not resolved.others or not detect(self.shell).can_input:
            return resolved
        model = choose(
            "Several providers' API keys are set. Which model should answer?",
            (resolved.model, *resolved.others),
        )
        self.settings.set(f"llm.model={model}")
        return Resolved(model, "you chose it")

    def introduce(self, resolved: Resolved) -> tuple[str, ...]:
        """Return notices about a model, at its first run only."""
        if self._introduced == resolved.model:
            return ()
        self._introduced = resolved.model
        return resolved.notes
