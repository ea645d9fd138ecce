"""A notebook's settings, read again only when a source has changed, and the model by them."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ipyagent import config
from ipyagent.config import Config, Layer, LLMConfig, Settings
from ipyagent.config.settings import Snapshot, snapshot
from ipyagent.errors import AgentError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.shell import Shell, detect
from ipyagent.llm import start_environ
from ipyagent.llm.destinations import Resolved, dotenv_warning, fetch, list_models, resolve
from ipyagent.ui.questions import choose
from ipyagent.wiring import add_served, warm_up

REMEMBERED = 2
"""Cached settings: those of cells with the usual options, and those between cells."""


class NotebookSettings:
    """The settings of a folder and its user; None: of the user alone.

    Settings made with `%agent config` are applied over them.
    """

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self._made = Layer("%agent", {})
        self._read: tuple[Snapshot, tuple[Layer, ...]] | None = None
        self._listed: list[LLMConfig] = []
        self._resolved: list[tuple[object, Settings]] = []
        """The newest, with their sources."""

    def resolve(self, *layers: Layer, agent: str | None = None) -> Settings:
        """Return the settings in force, those of a cell above all others; raises ConfigError."""
        given = (*self._layers(), *layers)
        for known, settings in self._resolved:
            if known == (given, agent):
                return settings
        settings = config.resolve_layers(*given, agent=agent)
        self._resolved = [((given, agent), settings), *self._resolved[: REMEMBERED - 1]]
        return settings

    @property
    def config(self) -> Config:
        """The settings between cells; raises ConfigError."""
        return self.resolve().config

    def set(self, assignment: str) -> None:
        """Apply `section.key=value` from now on; raises ConfigError."""
        layer = config.from_assignment(assignment, *self._layers())
        values: JsonDict = config.merge(self._made.values, layer.values)
        self._made = Layer("%agent", values)
        self.prepare_model()

    def list_models(self) -> dict[str, str]:
        """Return the models that can answer, and why; asks servers on this machine.

        Those that were current when this was called before, or are named in files, stay listed.
        """
        current = self.config.llm
        self._listed = [current, *(each for each in self._listed if each != current)]
        before = config.resolve_layers(*self._layers()[:-1]).config.llm
        found = list_models(*self._listed, before, environ=os.environ, probe=fetch)
        return add_served(found, current, self.home or Path())

    def prepare_model(self) -> None:
        """Start to import the current model's dependencies."""
        with suppress(AgentError):  # the next cell reports it
            warm_up(resolve(self.config.llm, os.environ), self.config.llm)

    def warnings(self) -> tuple[str, ...]:
        """Return peculiarities of the environment."""
        warnings = [
            f"{name} was set after this kernel started, perhaps by a .env file, and is ignored. "
            "To set it on purpose: %agent config KEY=VALUE."
            for name in config.late_variables(os.environ, start_environ())
        ]
        if warning := dotenv_warning():
            warnings.append(warning)
        return tuple(warnings)

    def _layers(self) -> tuple[Layer, ...]:
        now = snapshot(os.environ, self.home)
        if self._read is None or self._read[0] != now:
            self._read = now, config.base_layers(os.environ, start_environ(), self.home)
        return (*self._read[1], self._made)


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
