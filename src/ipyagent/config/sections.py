"""The settings: their sections and keys, what they mean, and what holds when nobody sets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from ipyagent.config.kinds import PARTIAL, Address, ImportPaths, Names, OwnPath, Section, Variable
from ipyagent.config.rules import PolicyConfig
from ipyagent.redaction import secret_name


def _same(one: object, other: object) -> bool:
    # Lists that hold each other, as YAML can make them, take for ever to compare.
    return isinstance(one, str | int | Path) and bool(one == other)


ConfirmMode = Literal["confirm-sensitive", "confirm-all", "yolo"]


class RetryConfig(Section):
    """When a transient failure of the model is tried again: min(initial·base^n, max) seconds."""

    enabled: bool = True
    max_retries: NonNegativeInt = 3
    initial_delay: NonNegativeFloat = 1.0
    max_delay: NonNegativeFloat = 60.0
    exponential_base: PositiveFloat = 2.0


_TWICE = RetryConfig(max_retries=2)


def _retry(value: object, validate: ValidatorFunctionWrapHandler) -> RetryConfig:
    """A model is tried again twice, also where other keys of `retry` are set."""
    retry: RetryConfig = validate(value)
    if isinstance(value, Mapping) and "max_retries" not in retry.model_fields_set:
        values = dict(retry) | {"max_retries": _TWICE.max_retries}
        return RetryConfig.model_construct(retry.model_fields_set, **values)
    return retry


_OURS = ("offline/", "scripted/")  # models that no provider has


class LLMConfig(Section):
    """Which model answers and how it is reached. `retries` is short for `retry.max_retries`."""

    provider: Literal["litellm", "anthropic", "openai"] = "litellm"
    """Whose models the ids are; `litellm`: an id names its provider itself."""
    mode: Literal["direct", "proxy"] = "direct"
    """`proxy`: `api_base` is a proxy that takes any model id in OpenAI's format."""
    model: str | None = None
    """Any LiteLLM model id, `offline/explorer` or `scripted/PATH`; None: resolved (llm/resolve)."""
    api_base: Address | None = None
    """Base URL of the service, when it is not the provider's own."""
    api_key_env: Variable = "LITELLM_API_KEY"
    """Name of the environment variable that holds the key."""
    api_key: SecretStr | None = Field(default=None, exclude=True)
    """The key itself, for code that has it from elsewhere; a variable is the better place."""
    timeout: PositiveFloat = 60.0
    """Seconds to wait for the first chunk, and between chunks."""
    stream: bool = True
    """Whether replies are shown while they are written."""
    vision: bool | None = None
    """Whether the model can see images; None: as LiteLLM's model map says."""
    retry: Annotated[RetryConfig, WrapValidator(_retry)] = _TWICE

    @property
    def model_id(self) -> str | None:
        """The model's id as LiteLLM knows it."""
        prefix = f"{self.provider}/"
        if not self.model or self.provider == "litellm" or self.mode == "proxy":
            return self.model
        return self.model if self.model.startswith((prefix, *_OURS)) else prefix + self.model

    @model_validator(mode="before")
    @classmethod
    def _short_for_max_retries(cls, values: object) -> Any:
        if not isinstance(values, Mapping) or "retries" not in values:
            return values
        values = dict(values)
        retries, retry = values.pop("retries"), values.get("retry", {})
        if isinstance(retry, RetryConfig):
            retry = retry.model_dump(exclude_unset=True)
        if isinstance(retry, Mapping):
            if "max_retries" in retry and not _same(retry["max_retries"], retries):
                raise ValueError("retries and retry.max_retries say different things; keep one")
            values["retry"] = {**retry, "max_retries": retries}
        return values

    @model_validator(mode="after")
    def _proxy_has_an_address(self, info: ValidationInfo) -> LLMConfig:
        if self.mode == "proxy" and not self.api_base and info.context != PARTIAL:
            raise ValueError("llm.mode is proxy, so llm.api_base must say where the proxy is")
        return self


class AgentConfig(Section):
    """How the agent works. A named agent is a section like this, laid over `agent`."""

    system_prompt: str | None = None
    """The person's own instructions."""
    system_prompt_path: str | None = None
    """A file in the workspace that holds them."""
    confirm_mode: ConfirmMode = "confirm-sensitive"
    """Which calls are asked about: sensitive ones, all, or none (`yolo`)."""
    max_steps: PositiveInt = 20
    max_seconds: PositiveFloat | None = None
    step_seconds: PositiveFloat | None = None
    """How long one step may take, its calls included."""
    max_tokens: PositiveInt | None = None
    max_usd: PositiveFloat | None = None
    allowed_tools: Names = ()
    """Only these tools; empty: all."""
    plan: bool = False
    """Whether the model proposes a plan first, as with `--plan`."""

    @model_validator(mode="after")
    def _one_system_prompt(self) -> AgentConfig:
        if self.system_prompt is not None and self.system_prompt_path is not None:
            raise ValueError("system_prompt and system_prompt_path are both set; keep one")
        return self


class ContextConfig(Section):
    """What the model is told of a long conversation."""

    token_limit: PositiveInt = 80_000
    """Beyond this, what was said first is summarised."""


class ToolsConfig(Section):
    """Which groups of built-in tools there are."""

    files: bool = Field(default=True, validation_alias=AliasChoices("files", "enable_file_tools"))
    python: bool = True
    """Whether code can be run in the kernel."""
    namespace: bool = True
    """Whether variables can be looked at."""
    notebook: bool = True
    """Whether notebooks can be read and changed, cell by cell."""
    scripts: bool = True
    """Whether scripts can be kept and run, in a process of their own."""
    shell: bool = Field(default=False, validation_alias=AliasChoices("shell", "enable_bash"))
    """Whether shell commands can be run."""
    notes: bool = Field(default=True, validation_alias=AliasChoices("notes", "enable_note"))
    skills: bool = Field(default=True, validation_alias=AliasChoices("skills", "enable_skills"))
    mcp: bool = Field(default=True, validation_alias=AliasChoices("mcp", "enable_mcp"))
    """Whether there are tools from services, MCP servers and others."""
    timeout: PositiveFloat = 120.0
    """Seconds that a script or shell command may take where the call names no other time."""
    max_timeout: PositiveFloat = 600.0
    """The most seconds that a call may name."""


class WorkspaceConfig(Section):
    """Which files the agent can reach."""

    root: OwnPath = Path()
    """The folder that all file tools are confined to."""
    allow_delete: bool = False
    """Whether delete_file works at all; it is asked about even then."""
    edit_seconds: PositiveFloat = 300.0
    """How long the preview of a change can be approved."""


class MCPServerConfig(Section):
    """A service that brings tools: at an address, or a program that is started."""

    name: str = Field(min_length=1)
    kind: Literal["mcp", "openapi"] = "mcp"
    url: Address | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict, exclude=True)
    """Variables for the program beside the few that every program gets."""
    cwd: OwnPath | None = None
    transport: Literal["stdio", "http", "sse"] | None = Field(
        default=None, validation_alias=AliasChoices("transport", "type")
    )
    """How it is spoken to; None: stdio for a command, http for an address."""
    disabled: bool = False
    connect_timeout: PositiveFloat = 10.0
    execute_timeout: PositiveFloat = 60.0
    read_timeout: PositiveFloat = 120.0
    """Seconds without a sign of life on an open stream."""
    get_unasked: bool = False
    """Whether GET requests to an OpenAPI service run without asking."""
    header_env: dict[str, Variable] = Field(default_factory=dict)
    """Headers and the names of the environment variables that hold their values."""
    token_env: Variable | None = None
    """Name of the environment variable that holds the bearer token."""
    token: SecretStr | None = Field(default=None, exclude=True)
    headers: dict[str, SecretStr] = Field(default_factory=dict, exclude=True)

    def secrets(self) -> Iterator[str]:
        """What must not be told of it."""
        for name, value in {"token": self.token, **self.headers, **self.env}.items():
            if value is not None and secret_name(name):
                yield value.get_secret_value()

    @model_validator(mode="after")
    def _one_way_to_it(self) -> MCPServerConfig:
        if bool(self.url) == bool(self.command):
            raise ValueError("a server has either a url or a command")
        if self.url and (self.args or self.env or self.cwd):
            raise ValueError("args, env and cwd belong to a command")
        if self.transport is not None and (self.transport == "stdio") != bool(self.command):
            raise ValueError("a command is spoken to by stdio, an address by http or sse")
        if self.command and self.kind == "openapi":
            raise ValueError("an OpenAPI service has a url")
        if self.token is not None and self.token_env is not None:
            raise ValueError("token and token_env are both set; keep token_env")
        return self


class MCPConfig(Section):
    """Services that bring tools."""

    servers: tuple[MCPServerConfig, ...] = ()

    @field_validator("servers")
    @classmethod
    def _different_names(cls, servers: tuple[MCPServerConfig, ...]) -> tuple[MCPServerConfig, ...]:
        if len({each.name for each in servers}) < len(servers):
            raise ValueError("two servers have the same name")
        return servers


class ChatConfig(Section):
    """How a conversation is kept and watched."""

    max_messages: PositiveInt = 50
    """How many messages a conversation should have; there are warnings before and at that."""
    persist: bool = True
    """Whether runs are recorded on disk."""
    validators: ImportPaths = ()
    """Functions that look at each prompt first, as `package.module:function`."""
    enable_observability: bool = False
    """Whether runs are traced with OpenTelemetry."""
    agent_config_path: Path | None = None
    """The file of `--config PATH`."""
    verbose: NonNegativeInt = 0

    @field_validator("agent_config_path")
    @classmethod
    def _is_a_file(cls, path: Path | None) -> Path | None:
        if path is not None and not path.exists():
            raise ValueError(f"the agent's configuration is not found: {path}")
        if path is not None and not path.is_file():
            raise ValueError(f"the agent's configuration is not a file: {path}")
        return path


class LoggingConfig(Section):
    """What is written down about runs, and how much of a run is drawn open."""

    level: Literal["debug", "info", "warn", "error"] = "info"
    file: OwnPath | None = None
    """A .jsonl file that gets one line for each event, relative to the workspace."""
    verbose: NonNegativeInt = 0
    """0, 1, 2, 3: how much of a run is drawn open."""


class Config(Section):
    """All settings."""

    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    agents: dict[str, AgentConfig] = Field(default_factory=dict)
    """Named agents: what is set there replaces what `agent` says."""
    context: ContextConfig = ContextConfig()
    chat: ChatConfig = ChatConfig()
    logging: LoggingConfig = LoggingConfig()
    tools: ToolsConfig = ToolsConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()
    mcp: MCPConfig = MCPConfig()
    policy: PolicyConfig = PolicyConfig()

    @model_validator(mode="before")
    @classmethod
    def _workspace_dir(cls, values: Any) -> Any:
        """`agent.workspace_dir` is another name of `workspace.root`."""
        agent = values.get("agent") if isinstance(values, Mapping) else None
        if not isinstance(agent, Mapping) or "workspace_dir" not in agent:
            return values
        agent = dict(agent)
        root, workspace = agent.pop("workspace_dir"), values.get("workspace", {})
        if isinstance(workspace, WorkspaceConfig):
            workspace = workspace.model_dump(exclude_unset=True)
        if not isinstance(workspace, Mapping):
            return values
        if "root" in workspace and not _same(workspace["root"], root):
            raise ValueError("agent.workspace_dir and workspace.root differ; keep workspace.root")
        return {**values, "agent": agent, "workspace": {**workspace, "root": root}}


AppConfig = Config
