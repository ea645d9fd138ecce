"""The sections: their keys, what holds by default, and what each seed's shape becomes."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from ipyagent.config import (
    AgentConfig,
    AppConfig,
    ChatConfig,
    Config,
    LLMConfig,
    LoggingConfig,
    MCPConfig,
    MCPServerConfig,
    PolicyConfig,
    RetryConfig,
    Rule,
    ToolsConfig,
    WorkspaceConfig,
)
from ipyagent.config.sections import iter_settings

SECTIONS = [AgentConfig, ChatConfig, Config, LLMConfig, LoggingConfig, MCPConfig, MCPServerConfig]
SECTIONS += [PolicyConfig, RetryConfig, Rule, ToolsConfig, WorkspaceConfig]

DEFAULTS = {
    "llm.provider": "litellm",
    "llm.mode": "direct",
    "llm.client": "auto",
    "llm.model": None,
    "llm.api_base": None,
    "llm.api_key_env": "LITELLM_API_KEY",
    "llm.api_key": None,
    "llm.timeout": 60,
    "llm.stream": True,
    "llm.vision": None,
    "llm.retry.enabled": True,
    "llm.retry.max_retries": 2,
    "llm.retry.initial_delay": 1,
    "llm.retry.max_delay": 60,
    "llm.retry.exponential_base": 2,
    "agent.system_prompt": None,
    "agent.system_prompt_path": None,
    "agent.confirm_mode": "confirm-sensitive",
    "agent.max_steps": 20,
    "agent.max_seconds": None,
    "agent.step_seconds": None,
    "agent.max_tokens": None,
    "agent.max_usd": None,
    "agent.allowed_tools": (),
    "agent.look_freely": True,
    "agent.adopt_new": True,
    "agent.rehearse_seconds": 2.0,
    "agent.plan": False,
    "agent.replay": "auto",
    "agent.on_difference": "ask",
    "agent.numbers": "show",
    "context.token_limit": 80_000,
    "chat.max_messages": 50,
    "chat.persist": True,
    "store.url": None,
    "chat.validators": (),
    "chat.enable_observability": False,
    "logging.level": "info",
    "logging.file": None,
    "logging.verbose": 0,
    "tools.files": True,
    "tools.python": True,
    "tools.namespace": True,
    "tools.notebook": True,
    "tools.scripts": True,
    "tools.shell": False,
    "tools.notes": True,
    "tools.skills": True,
    "tools.mcp": True,
    "tools.offer": "auto",
    "tools.timeout": 120,
    "tools.max_timeout": 600,
    "workspace.root": Path(),
    "workspace.allow_delete": False,
    "workspace.edit_seconds": 300,
    "undo.memory": None,
    "replay.repeat_services": False,
    "mcp.servers": (),
    "policy.rules": (),
}


@pytest.mark.spec("A05", "A06", "A07", "A08", "A09", "A10", "A11", "A12", "A13", "A14", "A16")
@pytest.mark.spec("A17", "A18", "A24", "H21", "M04", "M05", "M06", "M08", "M09", "M10")
def test_without_any_key_every_setting_has_its_default() -> None:
    settings = iter_settings(Config())
    assert {".".join(key): value for key, value in settings} == DEFAULTS
    assert AppConfig is Config
    assert Config().agents == {}


@pytest.mark.spec("A01")
@pytest.mark.parametrize("section", SECTIONS)
def test_no_section_takes_a_key_that_it_does_not_know(section: type[Config]) -> None:
    with pytest.raises(ValidationError, match="not permitted"):
        section.model_validate({"name": "x", "url": "http://h", "nonsense": 1, "command": None})


def test_sections_are_frozen_and_survive_json() -> None:
    config = Config(agents={"a": AgentConfig(max_steps=3)}, llm=LLMConfig(model="x", retries=4))
    assert Config.from_dict(config.to_dict()) == config
    with pytest.raises(ValidationError):
        config.llm.model = "y"


@pytest.mark.spec("A08", "M01", "M04")
@pytest.mark.parametrize(
    ("llm", "retries"),
    [
        ({}, 2),
        ({"retries": 5}, 5),
        ({"retries": 0}, 0),
        ({"retry": {"initial_delay": 0}}, 2),
        ({"retry": {"max_retries": 7}}, 7),
        ({"retry": {"max_delay": 9}, "retries": 1}, 1),
        ({"retry": {"max_retries": 4}, "retries": 4}, 4),
        ({"retries": "4"}, 4),
        ({"retries": 4.0}, 4),
        ({"retry": RetryConfig()}, 3),
        ({"retry": RetryConfig(max_delay=9), "retries": 6}, 6),
    ],
)
def test_a_model_is_tried_again_twice_unless_something_else_is_said(
    llm: dict[str, Any], retries: int
) -> None:
    assert RetryConfig().max_retries == 3
    config = LLMConfig.model_validate(llm)
    assert config.retry.max_retries == retries
    assert LLMConfig().retry == RetryConfig(max_retries=2)
    if isinstance(given := llm.get("retry"), dict):
        assert {k: getattr(config.retry, k) for k in given} == given


@pytest.mark.spec("M01")
@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": 5, "retry": {"max_retries": 3}},
        {"retries": 5, "retry": RetryConfig(max_retries=3)},
        {"retries": -1},
        {"retry": {"max_retries": -1}},
        {"retry": {"exponential_base": 0}},
        {"retry": {"initial_delay": -0.1}},
        {"retry": {"max_delay": "inf"}},
        {"retries": 1, "retry": "often"},
    ],
)
def test_contradictions_and_impossible_retries_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LLMConfig.model_validate(wrong)


@pytest.mark.spec("A02", "A03", "M03", "M10")
@pytest.mark.parametrize(
    ("llm", "model_id"),
    [
        ({"model": "gpt-4o"}, "gpt-4o"),
        ({"model": "ollama/qwen3"}, "ollama/qwen3"),
        ({"model": "claude-x", "provider": "anthropic"}, "anthropic/claude-x"),
        ({"model": "anthropic/claude-x", "provider": "anthropic"}, "anthropic/claude-x"),
        ({"model": "gpt-4o", "provider": "openai"}, "openai/gpt-4o"),
        ({"model": "org/name", "provider": "openai"}, "openai/org/name"),
        ({"model": "offline/explorer", "provider": "openai"}, "offline/explorer"),
        ({"model": "scripted/a.yaml", "provider": "anthropic"}, "scripted/a.yaml"),
        ({"provider": "anthropic"}, None),
        (
            {
                "model": "MiniMax-M2",
                "provider": "anthropic",
                "api_base": "https://api.minimax.io/anthropic",
                "api_key_env": "MINIMAX_API_KEY",
            },
            "anthropic/MiniMax-M2",
        ),
        ({"model": "x", "provider": "openai", "mode": "proxy", "api_base": "http://p"}, "x"),
    ],
)
def test_a_provider_only_prefixes_the_models_id(llm: dict[str, Any], model_id: str | None) -> None:
    assert LLMConfig.model_validate(llm).model_id == model_id


@pytest.mark.spec("A02", "A03", "A06", "A12", "A13", "A14", "A16", "M10", "H21")
@pytest.mark.parametrize(
    ("section", "wrong"),
    [
        (LLMConfig, {"provider": "google"}),
        (LLMConfig, {"mode": "tunnel"}),
        (LLMConfig, {"mode": "proxy"}),
        (LLMConfig, {"mode": "proxy", "api_base": ""}),
        (LLMConfig, {"api_base": "http://me:password@host/v1"}),
        (LLMConfig, {"api_base": "host:80"}),
        (LLMConfig, {"api_key_env": "sk-abc-123"}),
        (LLMConfig, {"api_key_env": ""}),
        (LLMConfig, {"timeout": 0}),
        (LLMConfig, {"timeout": float("nan")}),
        (AgentConfig, {"confirm_mode": "never"}),
        (AgentConfig, {"confirm_mode": "YOLO"}),
        (AgentConfig, {"max_steps": 0}),
        (AgentConfig, {"max_steps": 1.5}),
        (AgentConfig, {"max_steps": None}),
        (AgentConfig, {"max_usd": 0}),
        (AgentConfig, {"step_seconds": -1}),
        (AgentConfig, {"allowed_tools": [1]}),
        (LoggingConfig, {"level": "warning"}),
        (LoggingConfig, {"verbose": -1}),
        (ChatConfig, {"max_messages": 0}),
        (ChatConfig, {"max_messages": -1}),
        (WorkspaceConfig, {"root": "~nobody-has-this-name/x"}),
        (WorkspaceConfig, {"edit_seconds": 0}),
        (ToolsConfig, {"timeout": 0}),
        (ToolsConfig, {"max_timeout": -1}),
    ],
)
def test_a_value_outside_its_range_is_refused(section: type[Config], wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        section.model_validate(wrong)


@pytest.mark.spec("A14", "A16", "H21")
def test_verbosity_is_a_number_and_true_is_one() -> None:
    given = [False, True, 0, 1, 3, 9, "2"]
    assert [LoggingConfig.model_validate({"verbose": v}).verbose for v in given] == [
        0, 1, 0, 1, 3, 9, 2,
    ]  # fmt: skip
    for level in ("debug", "info", "warn", "error"):
        assert LoggingConfig.model_validate({"level": level}).level == level


@pytest.mark.spec("A10", "M07")
def test_the_system_prompt_is_given_once() -> None:
    assert AgentConfig(system_prompt="Be brief.").system_prompt_path is None
    assert AgentConfig(system_prompt_path="system_prompt.md").system_prompt is None
    assert AgentConfig(system_prompt=None, system_prompt_path="a.md").system_prompt_path == "a.md"
    with pytest.raises(ValidationError, match="both set"):
        AgentConfig(system_prompt="", system_prompt_path="a.md")


@pytest.mark.spec("A11")
@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([], ()),
        ("", ()),
        ("read_file", ("read_file",)),
        (" read_file , list_files,", ("read_file", "list_files")),
        (["a", "b"], ("a", "b")),
        (("a",), ("a",)),
    ],
)
def test_tools_are_named_in_a_list_or_by_commas(given: object, names: tuple[str, ...]) -> None:
    assert AgentConfig.model_validate({"allowed_tools": given}).allowed_tools == names


@pytest.mark.spec("M06", "M09", "A17", "A24")
def test_other_names_of_settings_are_understood(tmp_path: Path) -> None:
    config = Config.model_validate(
        {
            "llm": {"retries": 1},
            "agent": {"max_steps": 50, "workspace_dir": "data"},
            "tools": {"enable_file_tools": False},
        }
    )
    assert config.llm.retry.max_retries == 1
    assert config.agent.max_steps == 50
    assert config.workspace.root == Path("data")
    assert not config.tools.files
    assert not ToolsConfig(enable_file_tools=False).files
    assert WorkspaceConfig(root=tmp_path).root == tmp_path
    assert WorkspaceConfig(root=Path("~/x")).root == Path.home() / "x"
    both = {"agent": {"workspace_dir": "a"}, "workspace": {"root": "b"}}
    with pytest.raises(ValidationError, match="differ"):
        Config.model_validate(both)
    with pytest.raises(ValidationError):
        ToolsConfig.model_validate({"files": True, "enable_file_tools": False})


@pytest.mark.spec("M08")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("files", "enable_file_tools"),
        ("shell", "enable_bash"),
        ("notes", "enable_note"),
        ("skills", "enable_skills"),
        ("mcp", "enable_mcp"),
    ],
)
def test_groups_of_tools_are_switched_by_either_name(ours: str, theirs: str) -> None:
    for value in (True, False):
        for text in (value, str(value).lower()):
            assert getattr(ToolsConfig.model_validate({theirs: text}), ours) is value
            assert getattr(ToolsConfig.model_validate({ours: text}), ours) is value
    with pytest.raises(ValidationError):
        ToolsConfig.model_validate({ours: True, theirs: True})
    with pytest.raises(ValidationError):
        ToolsConfig.model_validate({ours: "perhaps"})


@pytest.mark.parametrize(
    "server",
    [
        {"name": "a", "url": "https://example.org/mcp", "token_env": "TOKEN"},
        {"name": "a", "url": "http://localhost:1", "kind": "openapi", "headers": {"X-A": "b"}},
        {"name": "a", "command": "serve", "args": ["--port", "1"]},
        {"name": "a", "command": "serve", "transport": "stdio", "env": {"A": "b"}, "cwd": "."},
        {"name": "a", "url": "http://h", "type": "sse", "header_env": {"X-Key": "KEY"}},
    ],
)
def test_a_server_has_an_address_or_a_command(server: dict[str, Any]) -> None:
    assert MCPConfig.model_validate({"servers": [server]}).servers[0].name == "a"


@pytest.mark.spec("A20", "A22")
@pytest.mark.parametrize(
    "server",
    [
        {"name": "a"},
        {"name": "", "url": "http://h"},
        {"name": "a", "url": "http://h", "command": "serve"},
        {"name": "a", "url": "http://h", "args": ["x"]},
        {"name": "a", "url": "file:///etc/passwd"},
        {"name": "a", "url": "http://user:pass@h"},
        {"name": "a", "command": "serve", "kind": "openapi"},
        {"name": "a", "url": "http://h", "kind": "soap"},
        {"name": "a", "url": "http://h", "token": "t", "token_env": "T"},
        {"name": "a", "url": "http://h", "token_env": "not a name"},
        {"name": "a", "url": "http://h", "header_env": {"X-Key": "not a name"}},
        {"name": "a", "url": "http://h", "env": {"A": "b"}},
        {"name": "a", "url": "http://h", "cwd": "."},
        {"name": "a", "url": "http://h", "transport": "stdio"},
        {"name": "a", "command": "serve", "transport": "http"},
        {"name": "a", "command": "serve", "connect_timeout": 0},
    ],
)
def test_a_server_that_cannot_be_reached_one_way_is_refused(server: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MCPServerConfig.model_validate(server)


def test_two_servers_of_one_name_are_refused() -> None:
    server = {"name": "a", "url": "http://h"}
    with pytest.raises(ValidationError, match="same name"):
        MCPConfig.model_validate({"servers": [server, server]})


@pytest.mark.spec("A06", "M02")
def test_a_key_can_be_given_and_is_in_no_dump() -> None:
    config = LLMConfig.model_validate({"api_key": "sk-canary"})
    assert config.api_key == SecretStr("sk-canary")
    assert "api_key" not in config.to_dict()
    assert LLMConfig().api_key is None
