"""A secret in the settings, or where it does not belong, is in no text that we make."""

import copy
import json
import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ipyagent.config import (
    Config,
    Layer,
    LLMConfig,
    MCPServerConfig,
    from_assignment,
    from_environment,
    from_file,
    resolve_layers,
    setting_rows,
    workspace_layers,
)
from ipyagent.config.sections import iter_settings
from ipyagent.errors import ConfigError

SECRET = "sk-canary-0123456789"

PLACED: dict[str, Any] = {
    "llm": {"api_key": SECRET, "model": "x"},
    "store": {"url": f"postgresql://ada:{SECRET}@h/d"},
    "mcp": {
        "servers": [
            {"name": "a", "url": "http://h", "token": SECRET},
            {"name": "b", "url": "http://h", "headers": {"Authorization": SECRET}},
        ]
    },
}


@pytest.mark.spec("A06")
def test_settings_with_secrets_show_none() -> None:
    layer = Layer("here", PLACED)
    settings = resolve_layers(layer)
    config = settings.config
    assert config.llm.api_key.get_secret_value() == SECRET
    assert {SECRET} == {*config.secrets()}
    assert SECRET in json.dumps(PLACED)
    texts = [
        repr(layer),
        repr(settings),
        repr(config),
        str(config),
        f"{config.llm} {config.mcp.servers}",
        json.dumps(config.to_dict()),
        config.model_dump_json(),
        repr(config.model_dump()),
        repr([*iter_settings(config)]),
        repr(setting_rows(settings)),
        repr(copy.deepcopy(config)),
        repr(from_environment({"IPYAGENT_LLM__API_KEY": SECRET})),
        repr(from_assignment(f"llm.api_key={SECRET}")),
        repr(from_assignment(f"store.url=postgresql://ada:{SECRET}@h/d")),
    ]
    assert [text for text in texts if SECRET in text] == []


WRONG: list[dict[str, Any]] = [
    {"llm": {"timeout": SECRET}},
    {"llm": {"api_key_env": SECRET}},
    {"llm": {"api_base": f"http://me:{SECRET}@host"}},
    {"llm": {"api_base": SECRET}},
    {"llm": {"api_kee": SECRET}},
    {"llm": {"api_key": [SECRET]}},
    {"llm": {"api_key": {"key": SECRET}}},
    {"llm": {"provider": SECRET}},
    {"llm": {"retry": SECRET}},
    {"llm": {"retries": SECRET, "retry": {"max_retries": SECRET + "x"}}},
    {"llm": SECRET},
    {"agent": {"confirm_mode": SECRET}},
    {"agent": {"max_usd": SECRET, "allowed_tools": {"a": SECRET}}},
    {"agents": {"a": SECRET}},
    {"chat": {"agent_config_path": SECRET}},
    {"logging": {"verbose": SECRET, "level": SECRET}},
    {"workspace": {"root": [SECRET]}},
    {"mcp": {"servers": [{"name": "a", "url": SECRET}]}},
    {"mcp": {"servers": [{"name": "a", "url": "http://h", "token": SECRET, "command": SECRET}]}},
    {"mcp": {"servers": [{"name": "a", "url": "http://h", "headers": [SECRET]}]}},
    {"mcp": {"servers": [{"name": "a", "url": "http://h", "token_env": SECRET}]}},
    {"mcp": {"servers": SECRET}},
    {"store": {"url": f"ada:{SECRET}@h/d"}},
    {"store": SECRET},
]


@pytest.mark.spec("A06")
@pytest.mark.parametrize("values", WRONG)
def test_a_secret_in_the_wrong_place_is_not_told(values: dict[str, Any], folder: Path) -> None:
    (folder / "ipyagent.yaml").write_text(json.dumps(values))
    with pytest.raises(ConfigError) as caught:
        resolve_layers(Layer("here", values))
    assert SECRET not in _all_that_is_told(caught.value)
    notices = resolve_layers(*workspace_layers(folder)).notices
    assert notices
    assert SECRET not in "".join(notices)


@pytest.mark.spec("A06")
def test_an_error_that_pydantic_words_does_not_tell_it_either() -> None:
    class Naive(BaseModel):
        timeout: float

    with pytest.raises(ValidationError) as naive:
        Naive.model_validate({"timeout": SECRET})
    assert SECRET in str(naive.value)
    for section, values in (
        (LLMConfig, {"timeout": SECRET}),
        (MCPServerConfig, {"name": "a", "token": SECRET}),
        (Config, {"llm": {"api_kee": SECRET}}),
    ):
        with pytest.raises(ValidationError) as ours:
            section.model_validate(values)
        assert SECRET not in _all_that_is_told(ours.value)


@pytest.mark.spec("A06")
@pytest.mark.parametrize(
    "text",
    [f"llm: {{api_key: {SECRET}", f"api_key: {SECRET}: x", f"k: *{SECRET}", f"k: !{SECRET} x"],
)
def test_a_broken_file_is_not_quoted(text: str, folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        from_file(path)
    assert SECRET not in _all_that_is_told(caught.value)
    (folder / "pyproject.toml").write_text(f"[tool.ipyagent.llm]\napi_key = {SECRET}\n")
    notices = resolve_layers(*workspace_layers(folder)).notices
    assert notices
    assert SECRET not in "".join(notices)


@pytest.mark.spec("A06")
@pytest.mark.parametrize(
    "line", [SECRET, f"llm.timeout={SECRET}", f"llm.api_kee={SECRET}", f"mcp.servers={SECRET}"]
)
def test_a_secret_typed_in_the_wrong_place_is_not_told(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_assignment(line)
    assert SECRET not in _all_that_is_told(caught.value)


def _all_that_is_told(error: Exception) -> str:
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"
