"""The settings: sections, keys by dotted name, meanings and defaults."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AliasChoices,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from ipyagent.config.rules import (
    PARTIAL,
    Address,
    ImportPaths,
    Names,
    PolicyConfig,
    Rule,
    Secret,
    Section,
    UserPath,
    Variable,
)
from ipyagent.json_types import JsonDict
from ipyagent.plaintext import cite
from ipyagent.redaction import is_secret_name, url_passwords


def _move_to(
    values: dict[str, object], name: str, key: str, value: object, problem: str
) -> dict[str, object]:
    """Return the values with one put into a section; raises ValueError if another is there."""
    section = values.get(name, {})
    if isinstance(section, Section):
        section = section.model_dump(exclude_unset=True)
    if not isinstance(section, Mapping):
        return values
    # Lists that contain each other, as YAML allows, would be compared endlessly.
    if key in section and not (isinstance(value, str | int | Path) and section[key] == value):
        raise ValueError(problem)
    return {**values, name: {**section, key: value}}


ConfirmMode = Literal["confirm-sensitive", "confirm-all", "yolo"]


class RetryConfig(Section):
    """Retries of transient model failures: after min(initial·base^n, max) seconds."""

    enabled: bool = True
    """Whether transient failures are retried at all."""
    max_retries: NonNegativeInt = 3
    """Retries after the first failure."""
    initial_delay: NonNegativeFloat = 1.0
    """Seconds before the first retry."""
    max_delay: NonNegativeFloat = 60.0
    """The longest delay in seconds."""
    exponential_base: PositiveFloat = 2.0
    """The factor by which the delay grows."""


_MODEL_RETRY = RetryConfig(max_retries=2)


def _with_model_default(value: object, validate: ValidatorFunctionWrapHandler) -> RetryConfig:
    """Return the validated retries; by default a model is retried twice."""
    retry: RetryConfig = validate(value)
    if isinstance(value, Mapping) and "max_retries" not in retry.model_fields_set:
        values = dict(retry) | {"max_retries": _MODEL_RETRY.max_retries}
        return RetryConfig.model_construct(retry.model_fields_set, **values)
    return retry


_OWN_PREFIXES = ("offline/", "scripted/")  # models that no provider has


class LLMConfig(Section):
    """The model and how it is reached. `retries` is short for `retry.max_retries`."""

    provider: Literal["litellm", "anthropic", "openai"] = "litellm"
    """The provider of the model ids; `litellm`: each id names its provider."""
    mode: Literal["direct", "proxy"] = "direct"
    """`proxy`: `api_base` is a proxy that takes any model id in OpenAI's format."""
    client: Literal["auto", "direct", "litellm"] = "auto"
    """How services are asked: `direct` over HTTP by ipyagent itself, `litellm` by LiteLLM; `auto`:
    directly where the provider speaks OpenAI's or Anthropic's format, else by LiteLLM."""
    model: str | None = None
    """A LiteLLM model id, `offline/explorer` or `scripted/PATH`; unset: by the keys there are."""
    api_base: Address | None = None
    """Base URL of the service, if it is not the provider's own."""
    api_key_env: Variable = "LITELLM_API_KEY"
    """Name of the environment variable that holds the key."""
    api_key: Secret | None = Field(default=None, exclude=True)
    """The key itself, for code that has it from elsewhere; a variable is the better place."""
    timeout: PositiveFloat = 60.0
    """Seconds to wait for the first chunk, and between chunks."""
    stream: bool = True
    """Whether replies are shown while they stream in."""
    vision: bool | None = None
    """True if the model can see images; None: by what is known of it."""
    retry: Annotated[RetryConfig, WrapValidator(_with_model_default)] = _MODEL_RETRY

    @property
    def model_id(self) -> str | None:
        """The model's id in LiteLLM's format."""
        prefix = f"{self.provider}/"
        if not self.model or self.provider == "litellm" or self.mode == "proxy":
            return self.model
        return (
            self.model if self.model.startswith((prefix, *_OWN_PREFIXES)) else prefix + self.model
        )

    @model_validator(mode="before")
    @classmethod
    def _expand_retries(cls, values: object) -> object:
        if not isinstance(values, Mapping) or "retries" not in values:
            return values
        others = {key: value for key, value in values.items() if key != "retries"}
        problem = "retries and retry.max_retries say different things; keep one"
        return _move_to(others, "retry", "max_retries", values["retries"], problem)

    @model_validator(mode="after")
    def _check_proxy_address(self, info: ValidationInfo) -> LLMConfig:
        if self.mode == "proxy" and not self.api_base and info.context != PARTIAL:
            raise ValueError("llm.mode is proxy, so llm.api_base must say where the proxy is")
        return self


class AgentConfig(Section):
    """The work of the agent. A named agent is such a section, applied over `agent`."""

    system_prompt: str | None = None
    """The user's own instructions."""
    system_prompt_path: str | None = None
    """A file in the workspace with the user's own instructions."""
    confirm_mode: ConfirmMode = "confirm-sensitive"
    """Which calls are asked about: sensitive ones, all, or none (`yolo`)."""
    max_steps: PositiveInt = 20
    """Requests to the model in one run."""
    max_seconds: PositiveFloat | None = None
    """Seconds of one run, without the time in which you are asked."""
    step_seconds: PositiveFloat | None = None
    """Time limit of one step in seconds, its calls included."""
    max_tokens: PositiveInt | None = None
    """Tokens of one run, sent and received."""
    max_usd: PositiveFloat | None = None
    """US dollars of one run, by the prices that are known."""
    allowed_tools: Names = ()
    """The only tools that may be used; empty: all."""
    look_freely: bool = True
    """True: code runs unasked if, on an isolated copy of the kernel, it changes nothing, or only
    makes variables of plain data and changes those that the same run has made."""
    adopt_new: bool = True
    """True: variables of plain data that code makes on the copy are taken from there, unasked;
    False: they are asked about."""
    rehearse_seconds: NonNegativeFloat = 2.0
    """Processor seconds for trying code that is asked about meanwhile; 0: code is never tried."""
    plan: bool = False
    """Whether the model proposes a plan first, as with `--plan`."""
    replay: Literal["auto", "always", "never"] = "auto"
    """Whether a cell repeats its recorded calls, without a model: `auto`, when it is first run in a
    kernel and has a recording; `always`, as with `--replay`; `never`, as with `--fresh`."""
    on_difference: Literal["ask", "live", "stop", "keep"] = "ask"
    """What follows when a replayed call comes to another result: `live`, the model goes on from
    there; `stop`; `keep`, it is noted; `ask`: you are asked, and it stops if nobody can be."""
    numbers: Literal["show", "off", "ask"] = "show"
    """The numbers of an answer are looked up in what the model had read: `show`, with what came of
    it; `off`; `ask`, and the model is asked, once, to check the ones that are in no
    result."""

    @model_validator(mode="after")
    def _check_single_prompt(self) -> AgentConfig:
        if self.system_prompt is not None and self.system_prompt_path is not None:
            raise ValueError("system_prompt and system_prompt_path are both set; keep one")
        return self


class ContextConfig(Section):
    """The length of conversations sent to the model."""

    token_limit: PositiveInt = 80_000
    """Conversations longer than this are compacted: the oldest part is summarized."""


class ToolsConfig(Section):
    """Groups of built-in tools that are switched on."""

    files: bool = Field(default=True, validation_alias=AliasChoices("files", "enable_file_tools"))
    """Whether files can be read and changed."""
    python: bool = True
    """Whether code can be run in the kernel."""
    namespace: bool = True
    """Whether variables can be inspected."""
    notebook: bool = True
    """Whether notebooks can be read and changed, cell by cell."""
    scripts: bool = True
    """Whether scripts can be saved and run, in a process of their own; set to true, the model is
    always offered to do so."""
    shell: bool = Field(default=False, validation_alias=AliasChoices("shell", "enable_bash"))
    """Whether shell commands can be run."""
    notes: bool = Field(default=True, validation_alias=AliasChoices("notes", "enable_note"))
    """Whether notes for later sessions can be written and read."""
    skills: bool = Field(default=True, validation_alias=AliasChoices("skills", "enable_skills"))
    """Whether skills can be read."""
    mcp: bool = Field(default=True, validation_alias=AliasChoices("mcp", "enable_mcp"))
    """Whether services, such as MCP servers, bring tools."""
    offer: Literal["auto", "core", "small", "all"] = "auto"
    """The built-in tools that the model is offered: `core`, and others where they are of use;
    `small`, the few that a small model can handle; `all`; `auto`: `small` for small models, else
    `core`."""
    timeout: PositiveFloat = 120.0
    """Default time limit in seconds of a script or shell command."""
    max_timeout: PositiveFloat = 600.0
    """The largest time limit in seconds that a call may set."""


class WorkspaceConfig(Section):
    """The files that the agent can reach."""

    root: UserPath = Path()
    """The folder that all file tools are confined to."""
    allow_delete: bool = False
    """Whether delete_file works at all; even then it asks."""
    edit_seconds: PositiveFloat = 300.0
    """Seconds from the approval of a change until it must have begun."""


class MCPServerConfig(Section):
    """A service that brings tools: an address, or a program to start."""

    name: str = Field(min_length=1)
    kind: Literal["mcp", "openapi"] = "mcp"
    url: Address | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, Secret] = Field(default_factory=dict, exclude=True)
    """Variables for the program beyond the few that every program gets."""
    cwd: UserPath | None = None
    transport: Literal["stdio", "http", "sse"] | None = Field(
        default=None, validation_alias=AliasChoices("transport", "type")
    )
    """The transport; None: stdio for a command, http for an address."""
    disabled: bool = False
    connect_timeout: PositiveFloat = 10.0
    execute_timeout: PositiveFloat = 60.0
    read_timeout: PositiveFloat = 120.0
    """Seconds of silence allowed on an open stream."""
    get_unasked: bool = False
    """Whether GET requests to an OpenAPI service run without asking."""
    header_env: dict[str, Variable] = Field(default_factory=dict)
    """Headers and the names of the environment variables that hold their values."""
    token_env: Variable | None = None
    """Name of the environment variable that holds the bearer token."""
    token: Secret | None = Field(default=None, exclude=True)
    headers: dict[str, Secret] = Field(default_factory=dict, exclude=True)

    def secrets(self) -> Iterator[str]:
        """Yield its secrets."""
        for name, value in {"token": self.token, **self.headers, **self.env}.items():
            if value is not None and is_secret_name(name):
                yield value.get_secret_value()

    @model_validator(mode="after")
    def _check_connection(self) -> MCPServerConfig:
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
    """The servers; `%agent mcp add` and `%agent api register` add to them."""

    @field_validator("servers")
    @classmethod
    def _check_unique_names(
        cls, servers: tuple[MCPServerConfig, ...]
    ) -> tuple[MCPServerConfig, ...]:
        if len({each.name for each in servers}) < len(servers):
            raise ValueError("two servers have the same name")
        return servers


class ChatConfig(Section):
    """Keeping and observing a conversation."""

    max_messages: PositiveInt = 50
    """The length, in messages, above which a conversation gets a warning."""
    persist: bool = True
    """Whether runs are recorded on disk."""
    validators: ImportPaths = ()
    """Functions that check each prompt first, as `package.module:function`."""
    enable_observability: bool = False
    """Whether runs are traced with OpenTelemetry."""


class StoreConfig(Section):
    """The record of a folder's sessions."""

    url: Secret | None = Field(default=None, exclude=True)
    """A PostgreSQL database, as `postgresql://USER@HOST/DATABASE`; unset: a file in the folder."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url and not url.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("write postgresql://USER@HOST/DATABASE")
        return url


class UndoConfig(Section):
    """Taking back what runs changed."""

    memory: NonNegativeInt | None = None
    """Megabytes kept to take back changes of variables; 0: none. Unset: the smaller of 1,000 and a
    tenth of this machine's memory."""


class ReplayConfig(Section):
    """Replays of agent cells."""

    repeat_services: bool = False
    """Whether calls of services, and commands that can reach the network, are repeated; else their
    recorded results stand."""


class LoggingConfig(Section):
    """Logging of runs, and how much of a run is expanded."""

    level: Literal["debug", "info", "warn", "error"] = "info"
    """The least severe messages that are logged by the logger `ipyagent`."""
    file: UserPath | None = None
    """A .jsonl file that gets one line for each event; relative to the workspace."""
    verbose: NonNegativeInt = 0
    """How much of a run is expanded: 0, 1, 2 or 3."""


class Config(Section):
    """All settings."""

    llm: LLMConfig = LLMConfig()
    agent: AgentConfig = AgentConfig()
    agents: dict[str, AgentConfig] = Field(default_factory=dict)
    """Named agents: their settings replace those of `agent`."""
    context: ContextConfig = ContextConfig()
    chat: ChatConfig = ChatConfig()
    logging: LoggingConfig = LoggingConfig()
    tools: ToolsConfig = ToolsConfig()
    workspace: WorkspaceConfig = WorkspaceConfig()
    store: StoreConfig = StoreConfig()
    undo: UndoConfig = UndoConfig()
    replay: ReplayConfig = ReplayConfig()
    mcp: MCPConfig = MCPConfig()
    policy: PolicyConfig = PolicyConfig()

    def secrets(self) -> Iterator[str]:
        """Yield the secrets in the settings, except those of services."""
        if self.llm.api_key:
            yield self.llm.api_key.get_secret_value()
        yield from url_passwords(self.store.url.get_secret_value() if self.store.url else "")

    @model_validator(mode="before")
    @classmethod
    def _move_workspace_dir(cls, values: object) -> object:
        """Accept `agent.workspace_dir` as another name of `workspace.root`."""
        if not isinstance(values, Mapping):
            return values
        agent = values.get("agent")
        if not isinstance(agent, Mapping) or "workspace_dir" not in agent:
            return values
        others = {**values, "agent": {k: v for k, v in agent.items() if k != "workspace_dir"}}
        problem = "agent.workspace_dir and workspace.root differ; keep workspace.root"
        return _move_to(others, "workspace", "root", agent["workspace_dir"], problem)


AppConfig = Config


Key = tuple[str, ...]
"""The names on the path to a setting; the name of an agent may contain dots."""

_MISPLACED: Mapping[Key, str] = {
    ("chat", "agent_config_path"): "--config PATH",
    ("chat", "verbose"): "logging.verbose",
}
"""Names that are often taken for settings, and what to use instead."""


def iter_settings(
    section: Section, prefix: Key = (), *, only_set: bool = False
) -> Iterator[tuple[Key, object]]:
    """Yield each setting and its value; `only_set`: only those that were set (agents always so)."""
    for name in type(section).model_fields:
        if only_set and name not in section.model_fields_set:
            continue
        key, value = (*prefix, name), getattr(section, name)
        if isinstance(value, Section):
            yield from iter_settings(value, key, only_set=only_set)
        elif isinstance(value, dict):
            for agent, profile in value.items():
                yield from iter_settings(profile, (*key, agent), only_set=True)
                if not profile.model_fields_set:
                    yield (*key, agent), {}
        else:
            yield key, value


UNSET = "not set"

MAX_PROBLEMS = 5  # problems in one message

DEFAULTS: Mapping[Key, object] = dict(iter_settings(Config()))

SETTING_NAMES = [".".join(key) for key in DEFAULTS]

SECTIONS = sorted({name.rpartition(".")[0] for name in SETTING_NAMES} | {"agents"})


def nest(values: Iterable[tuple[Key, object]]) -> JsonDict:
    """Return the settings as nested sections."""
    sections: JsonDict = {}
    for key, value in sorted(values, key=lambda item: len(item[0])):
        put_value(sections, key, dict(value) if value == {} else value)
    return sections


def put_value(sections: JsonDict, key: Key, value: object) -> None:
    """Set one key; raises TypeError if a section's place holds a value."""
    for name in key[:-1]:
        sections = sections.setdefault(name, {})
    sections[key[-1]] = value


def explain_error(error: ValidationError) -> str:
    """Return the errors by key, without the values, which may be secrets."""
    problems = []
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    for each in errors[:MAX_PROBLEMS]:
        key = tuple(str(part) for part in each["loc"])
        if key in _MISPLACED:
            problems.append(f"{'.'.join(key)} is not a setting; use {_MISPLACED[key]}")
        elif each["type"] in {"extra_forbidden", "invalid_key"}:
            dotted = ".".join(key)[:100]
            problems.append(f"{cite(dotted)} is not a setting; {_suggest_names(key, dotted)}")
        else:
            message = each["msg"].removeprefix("Value error, ")
            problems.append(f"{cite('.'.join(key))}: {message}" if key else message)
    if len(errors) > MAX_PROBLEMS:
        problems.append(f"and {len(errors) - MAX_PROBLEMS} more")
    return "; ".join(problems)


def _suggest_names(key: Key, dotted: str) -> str:
    """Return the setting that is most similar to one that there is not."""
    known = _rule_names(key) or [*_profile_names(key), *SETTING_NAMES, *SECTIONS]
    if dotted in known:  # a name with dots in it
        *sections, name = dotted.split(".")
        return f"write {name} inside of the section {'.'.join(sections)}"
    nearest = max(known, key=lambda name: _similarity(name, dotted.lower()))
    if _similarity(nearest, dotted.lower())[1] >= 0.6:
        return f"did you mean {nearest}?"
    section = ".".join(key[:-1])
    siblings = [name for name in known if name.rpartition(".")[0] == section]
    return f"there are: {', '.join(siblings or SECTIONS)}"


def _similarity(one: str, other: str) -> tuple[bool, float, float]:
    """Return how similar two keys are: same letters, last names, whole keys."""
    pairs = ((one.rpartition(".")[2], other.rpartition(".")[2]), (one, other))
    last, whole = (difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    return sorted(one) == sorted(other), last, whole


def _profile_names(key: Key) -> list[str]:
    """Return the settings that a named agent can have, if the key is about one."""
    if key[0] != "agents" or len(key) < 3:
        return []
    return [f"agents.{key[1]}.{name[6:]}" for name in SETTING_NAMES if name.startswith("agent.")]


def _rule_names(key: Key) -> list[str]:
    """Return the fields of a rule, if the key is about one."""
    if key[:2] != ("policy", "rules") or len(key) != 4:
        return []
    return [f"policy.rules.{key[2]}.{name}" for name in Rule.model_fields if name != "source"]


def format_value(value: object) -> str:
    """Format a value as the user would write it; secrets appear as stars."""
    if value is None:
        return UNSET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        each = (v.name if isinstance(v, MCPServerConfig) else str(v) for v in value)
        return cite(", ".join(each)) or UNSET
    return cite(str(value))
