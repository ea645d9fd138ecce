"""Settings: what can be set, where a value may come from, and which source wins."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from ipyagent.schema import Model

ConfirmMode = Literal["confirm-sensitive", "confirm-all", "yolo"]


class RetryConfig(Model):
    """When a transient failure of the model is tried again: min(initial·base^n, max) seconds."""

    max_retries: NonNegativeInt = 3
    initial_delay: NonNegativeFloat = 1.0
    max_delay: NonNegativeFloat = 60.0
    exponential_base: PositiveFloat = 2.0


class LLMConfig(Model):
    """Which model answers and how it is reached."""

    model: str | None = None
    """Any LiteLLM model id, `offline/explorer` or `scripted/PATH`; None: resolved (llm/resolve)."""
    api_base: str | None = None
    """Base URL of the service, when it is not the provider's own."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; None: the provider's usual one."""
    timeout: PositiveFloat = 60.0
    """Seconds to wait for the first chunk, and between chunks."""
    vision: bool | None = None
    """Whether the model can see images; None: as LiteLLM's model map says."""
    retry: RetryConfig = RetryConfig(max_retries=2)


class AgentConfig(Model):
    """How the agent works."""

    confirm_mode: ConfirmMode = "confirm-sensitive"
    """Which calls are asked about: sensitive ones, all, or none (`yolo`)."""
    max_steps: PositiveInt = 20
    max_seconds: PositiveFloat | None = None
    max_tokens: PositiveInt | None = None
    max_usd: PositiveFloat | None = None
    allowed_tools: tuple[str, ...] = ()
    """Only these tools; empty: all."""


class WorkspaceConfig(Model):
    """Which files the agent can reach."""

    root: str = "."
    """The folder that all file tools are confined to."""
    allow_delete: bool = False
    """Whether delete_file works at all; it is asked about even then."""


class Config(Model):
    """All settings."""

    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()


AppConfig = Config
