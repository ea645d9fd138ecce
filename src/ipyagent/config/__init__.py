"""Settings: their keys, sources, precedence and trust."""

from ipyagent.config.keys import values_by_name
from ipyagent.config.partial_settings import resolve_readable
from ipyagent.config.profiles import has_profile_tools
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
    base_layers,
    from_assignment,
    resolve_config,
    resolve_layers,
    setting_rows,
)
from ipyagent.config.sources import (
    Layer,
    from_environment,
    from_file,
    late_variables,
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
    "base_layers",
    "distrust",
    "from_assignment",
    "from_environment",
    "from_file",
    "has_profile_tools",
    "is_trusted",
    "late_variables",
    "merge",
    "resolve_config",
    "resolve_layers",
    "resolve_readable",
    "setting_rows",
    "trust",
    "user_file",
    "user_layer",
    "values_by_name",
    "workspace_layers",
]
