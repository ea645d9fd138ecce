"""Settings: their keys, sources, precedence and trust."""

from ipyagent.config.rules import (
    Example as Example,
    Examples as Examples,
    PolicyConfig as PolicyConfig,
    Rule as Rule,
    Subject as Subject,
)
from ipyagent.config.sections import (
    AgentConfig as AgentConfig,
    AppConfig as AppConfig,
    ChatConfig as ChatConfig,
    Config as Config,
    ConfirmMode as ConfirmMode,
    ContextConfig as ContextConfig,
    LLMConfig as LLMConfig,
    LoggingConfig as LoggingConfig,
    MCPConfig as MCPConfig,
    MCPServerConfig as MCPServerConfig,
    RetryConfig as RetryConfig,
    ToolsConfig as ToolsConfig,
    WorkspaceConfig as WorkspaceConfig,
)
from ipyagent.config.settings import (
    Settings as Settings,
    base_layers as base_layers,
    from_assignment as from_assignment,
    has_profile_tools as has_profile_tools,
    resolve_config as resolve_config,
    resolve_layers as resolve_layers,
    setting_rows as setting_rows,
)
from ipyagent.config.sources import (
    Layer as Layer,
    from_environment as from_environment,
    from_file as from_file,
    late_variables as late_variables,
    merge as merge,
    user_file as user_file,
)
from ipyagent.config.trust import (
    is_trusted as is_trusted,
    trust as trust,
    workspace_layers as workspace_layers,
)
