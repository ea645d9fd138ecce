from __future__ import annotations

import pytest

from ipyagent.config import LLMConfig
from ipyagent.llm import warmup
from ipyagent.llm.gateway import LiteLLMClient
from ipyagent.llm.modelmap import sees, window
from ipyagent.providers import default_models
from servers.model_server import ModelServer

MAP = {
    "claude-x": {"litellm_provider": "anthropic", "max_input_tokens": 200_000},
    "gemini/x": {"litellm_provider": "gemini", "max_input_tokens": 1_000_000},
    "nova": {"litellm_provider": "bedrock_converse", "max_input_tokens": 300_000},
    "old": {"litellm_provider": "openai", "max_tokens": 4096},
    "odd": {"litellm_provider": "openai", "max_input_tokens": "many", "supports_vision": True},
}


class Map:
    model_cost = MAP


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("anthropic/claude-x", 200_000),
        ("claude-x", 200_000),
        ("gemini/x", 1_000_000),
        ("bedrock/nova", 300_000),
        ("openai/claude-x", None),  # somebody else's model of that name
        ("openai/old", None),  # max_tokens is what the model may say
        ("openai/odd", None),
        ("ollama/unheard-of", None),
        ("", None),
    ],
)
def test_the_window_is_what_the_map_says_of_this_providers_model(
    model: str, tokens: int | None
) -> None:
    assert window(Map, model) == tokens


def test_sight_is_what_the_map_says() -> None:
    assert sees(Map, "openai/odd")
    assert not sees(Map, "anthropic/claude-x")


def test_the_models_chosen_by_key_have_a_window() -> None:
    routers = {"openrouter"}  # chooses a model for each request
    for model in default_models().values():
        if model.partition("/")[0] not in routers:
            assert LiteLLMClient(model).context_window > 50_000, model


@pytest.mark.parametrize("model", ["openai/my-own", "huggingface/some/model"])
def test_an_unknown_window_is_none(model: str) -> None:
    assert LiteLLMClient(model).context_window is None


def test_no_server_is_asked_what_its_model_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setenv("OLLAMA_API_BASE", server.origin)
        assert warmup.litellm().supports_vision("ollama/some-model") is False
        assert [request.path for request in server.requests] == ["/api/show"]
        client = LiteLLMClient("ollama/some-model", LLMConfig(api_base=server.origin))
        assert client.context_window is None
        assert not client.vision
        assert len(server.requests) == 1
