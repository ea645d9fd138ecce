"""Settings: what can be set, where a value may come from, which source wins, and who is trusted."""

from ipyagent.config.keys import values_of
from ipyagent.config.profiles import is_lenient
from ipyagent.config.readable import readable
from ipyagent.config.rules import Example, Examples, PolicyConfig, Rule, Subject
from ipyagent.config.sections import (
    AgentConfig,
    AppConfig,
    ChatConfig,
    Config,
    ConfirmMode,
    ContextConfig,
    LLMConfig,
    LoggingConfig,
    MCPConfig,
    MCPServerConfig,
    RetryConfig,
    ToolsConfig,
    WorkspaceConfig,
)
from ipyagent.config.settings import (
    Settings,
    combine,
    from_assignment,
    settle,
    shown,
    standing,
)
from ipyagent.config.sources import (
    Layer,
    from_environment,
    from_file,
    late,
    merge,
    user_file,
    user_layer,
)
from ipyagent.config.trust import distrust, is_trusted, trust, workspace_layers

__all__ = [
    "AgentConfig",
    "AppConfig",
    "ChatConfig",
    "Config",
    "ConfirmMode",
    "ContextConfig",
    "Example",
    "Examples",
    "LLMConfig",
    "Layer",
    "LoggingConfig",
    "MCPConfig",
    "MCPServerConfig",
    "PolicyConfig",
    "RetryConfig",
    "Rule",
    "Settings",
    "Subject",
    "ToolsConfig",
    "WorkspaceConfig",
    "combine",
    "distrust",
    "from_assignment",
    "from_environment",
    "from_file",
    "is_lenient",
    "is_trusted",
    "late",
    "merge",
    "readable",
    "settle",
    "shown",
    "standing",
    "trust",
    "user_file",
    "user_layer",
    "values_of",
    "workspace_layers",
]
