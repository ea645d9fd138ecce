from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from ipyagent.config import LLMConfig, from_environment, resolve_config
from ipyagent.errors import ConfigError
from ipyagent.llm import gateway
from ipyagent.llm.destinations import OFFLINE, Probe, fetch, list_models, offers, resolve
from ipyagent.providers import default_models
from servers.model_server import ModelServer

KEYS = default_models()
OLLAMA = {"http://127.0.0.1:11434/api/tags": {"models": [{"name": "qwen3:8b"}]}}


def pages(answers: dict[str, Any]) -> Probe:
    return answers.get


@pytest.mark.spec("A04")
@pytest.mark.parametrize("model", ["gpt-4o", "groq/openai/gpt-oss-120b", "scripted/x.yaml"])
def test_a_chosen_model_wins_over_everything(model: str) -> None:
    resolved = resolve(LLMConfig(model=model), dict.fromkeys(KEYS, "k"))
    assert (resolved.model, resolved.notes) == (model, ())


@pytest.mark.parametrize("variable", KEYS)
def test_a_key_in_the_environment_chooses_its_provider_and_is_named(variable: str) -> None:
    def never(url: str) -> Any:
        raise AssertionError(f"{url} is probed although a key decides")

    resolved = resolve(LLMConfig(), {variable: "secret-value"}, probe=never)
    assert resolved.model == KEYS[variable]
    assert variable in resolved.why
    assert "secret-value" not in repr(resolved)


def test_of_several_keys_the_first_in_order_counts_and_the_notes_say_so() -> None:
    resolved = resolve(LLMConfig(), {"XAI_API_KEY": "k", "OPENAI_API_KEY": "k"})
    assert resolved.model == KEYS["OPENAI_API_KEY"]
    (note,) = resolved.notes
    assert resolved.others
    assert resolved.model not in resolved.others
    assert "XAI_API_KEY is set too" in note
    assert f"%agent model {KEYS['XAI_API_KEY']}" in note


@pytest.mark.spec("P09")
@pytest.mark.parametrize(
    ("named", "model"),
    [
        ("gpt-4o", "openai/gpt-4o"),
        ("openai/gpt-4o", "openai/gpt-4o"),
        (" ft:gpt-4o:me/x ", "openai/ft:gpt-4o:me/x"),
        (" ", KEYS["OPENAI_API_KEY"]),
    ],
)
def test_openais_own_variables_choose_the_model(named: str, model: str) -> None:
    resolved = resolve(LLMConfig(), {"OPENAI_API_KEY": "k", "OPENAI_MODEL": named})
    assert resolved.model == model
    assert ("OPENAI_MODEL" in resolved.why) == bool(named.strip())


@pytest.mark.spec("P09")
def test_a_model_that_is_named_comes_before_a_key_of_another_provider() -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENAI_MODEL": "gpt-4o"}
    assert resolve(LLMConfig(), environ).model == "openai/gpt-4o"
    without_its_key = {"ANTHROPIC_API_KEY": "k", "OPENAI_MODEL": "gpt-4o"}
    assert resolve(LLMConfig(), without_its_key).model == KEYS["ANTHROPIC_API_KEY"]
    assert resolve(LLMConfig(model="xai/grok-4.7"), environ).model == "xai/grok-4.7"


@pytest.mark.spec("A04")
def test_the_environment_overrides_the_default_model() -> None:
    layer = from_environment({"IPYAGENT_MODEL": "gpt-4o"})
    assert resolve(resolve_config(layer).llm, {"ANTHROPIC_API_KEY": "k"}).model == "gpt-4o"
    assert resolve(resolve_config().llm, {"OPENAI_API_KEY": "k"}).model == KEYS["OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"api_base": "http://localhost:1/v1"}, "api_base"),
        ({"api_key_env": "MY_KEY"}, "api_key_env"),
        ({"api_key": "sk-mine"}, "api_key"),
        ({"mode": "proxy", "api_base": "http://localhost:1/v1"}, "api_base"),
        ({"provider": "anthropic"}, "provider"),
    ],
)
def test_a_service_without_a_model_asks_for_the_model(settings: dict[str, str], named: str) -> None:
    config = LLMConfig.model_validate(settings)
    with pytest.raises(ConfigError, match=rf"llm\.{named} is set, .*set llm\.model"):
        resolve(config, {"OPENAI_API_KEY": "k"})


def test_without_anything_the_explorer_runs_and_says_what_it_is() -> None:
    resolved = resolve(LLMConfig(), {"OPENAI_API_KEY": "  "}, probe=pages({}))
    text = " ".join(resolved.notes)
    assert resolved.model == OFFLINE
    assert "not a language model" in text
    for looked_for in ("ANTHROPIC_API_KEY", "Ollama", "LM Studio", "llama.cpp", "%agent model"):
        assert looked_for in text


def test_a_server_on_this_machine_is_offered_and_not_used() -> None:
    resolved = resolve(LLMConfig(), {}, probe=pages(OLLAMA))
    assert resolved.model == OFFLINE
    assert "Ollama is running here: use it with `%agent model ollama/qwen3:8b`." in resolved.notes


def test_every_server_is_offered_by_name() -> None:
    models = {"data": [{"id": "m"}]}
    found = offers(
        pages(
            {
                **OLLAMA,
                "http://127.0.0.1:1234/v1/models": models,
                "http://127.0.0.1:8080/v1/models": models,
                "http://127.0.0.1:8080/props": {"chat_template": ""},
            }
        )
    )
    commands = [line.split("`")[1] for line in found]
    assert commands == [
        "%agent model ollama/qwen3:8b",
        "%agent model lm_studio/m",
        "%agent model llamafile/m",
    ]


def test_the_models_of_settings_keys_and_servers_can_be_chosen() -> None:
    configs = LLMConfig(model="openai/mine"), LLMConfig(model="xai/grok-4.7")
    found = list_models(*configs, environ={"ANTHROPIC_API_KEY": "k"}, probe=pages(OLLAMA))
    claude = KEYS["ANTHROPIC_API_KEY"]
    assert [*found] == ["openai/mine", "xai/grok-4.7", claude, "ollama/qwen3:8b", OFFLINE]
    assert found[claude] == "ANTHROPIC_API_KEY is set"


def test_no_other_providers_model_is_listed_where_all_would_be_asked_at_one_service() -> None:
    mine = LLMConfig(model="openai/mine", api_base="http://localhost:1/v1")
    environ = {"ANTHROPIC_API_KEY": "k"}
    before = mine.model_copy(update={"model": None})
    found = list_models(mine, before, environ=environ, probe=pages(OLLAMA))
    assert [*found] == ["openai/mine", OFFLINE]


def test_whatever_else_answers_on_8080_is_not_offered() -> None:
    assert offers(pages({"http://127.0.0.1:8080/v1/models": {"data": [{"id": "m"}]}})) == []


def test_a_chat_template_that_drops_tools_is_warned_of() -> None:
    props = {"chat_template": "", "chat_template_caps": {"supports_tools": False}}
    listing = {"data": [{"id": "m"}]}
    (line,) = offers(
        pages(
            {
                "http://127.0.0.1:8080/props": props,
                "http://127.0.0.1:8080/v1/models": listing,
            }
        )
    )
    assert "drops tools" in line


@pytest.mark.parametrize("junk", [[], "x", 3, {"models": 1}, {"models": [1, {"name": 2}]}])
def test_junk_on_a_known_port_is_no_model(junk: Any) -> None:
    assert "qwen" not in " ".join(offers(pages({"http://127.0.0.1:11434/api/tags": junk})))


def test_fetch_reads_json_from_a_server() -> None:
    with ModelServer(pages={"/api/tags": {"models": []}}) as server:
        assert fetch(f"{server.origin}/api/tags") == {"models": []}


def test_fetch_gives_up_quickly_on_closed_and_silent_ports() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/x") is None
        assert fetch("http://127.0.0.1:9/x") is None


def test_fetch_takes_no_other_protocol_for_json() -> None:
    with socket.socket() as odd:
        odd.bind(("127.0.0.1", 0))
        odd.listen()

        def greet() -> None:
            peer, _ = odd.accept()
            with peer:
                peer.sendall(b"SSH-2.0-x\r\n\xff\xff")

        thread = threading.Thread(target=greet)
        thread.start()
        assert fetch(f"http://127.0.0.1:{odd.getsockname()[1]}/x") is None
        thread.join()


def test_the_model_chosen_for_openai_takes_tools_without_the_package_mcp() -> None:
    check = gateway.import_litellm().main.responses_api_bridge_check
    tools = [{"type": "function", "function": {"name": "f"}}]

    def mode(model: str) -> Any:
        return check(model.removeprefix("openai/"), "openai", tools=tools)[0].get("mode")

    assert mode("openai/gpt-5.6") == "responses"
    assert mode(KEYS["OPENAI_API_KEY"]) == "chat"


def test_the_models_chosen_by_key_are_in_litellms_map_and_take_tools() -> None:
    litellm = gateway.import_litellm()
    routers = {"openrouter"}  # chooses a model for each request
    for model in KEYS.values():
        if model.partition("/")[0] not in routers:
            assert litellm.supports_function_calling(model), model
