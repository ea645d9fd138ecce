"""Which models are asked directly: those whose provider's row says so."""

from __future__ import annotations

from typing import Any

import pytest

from ipyagent.config import LLMConfig
from ipyagent.llm.destinations import find_route, insists_on_responses
from ipyagent.llm.modelmap import facts_of
from ipyagent.providers import PROVIDERS, default_models

PROXY = {"mode": "proxy", "api_base": "http://p"}
AZURE = {"AZURE_API_KEY": "k", "AZURE_API_BASE": "https://x.openai.azure.com/openai/v1"}
ROUTES: list[tuple[str, dict[str, Any], dict[str, str], tuple[str, str] | None]] = [
    ("openai/gpt-5.2", {}, {}, ("openai", "gpt-5.2")),
    ("gpt-4o", {}, {}, ("openai", "gpt-4o")),
    ("claude-sonnet-4-5", {}, {}, ("anthropic", "claude-sonnet-4-5")),
    ("openrouter/anthropic/claude-x", {}, {}, ("openrouter", "anthropic/claude-x")),
    ("ollama_chat/qwen3", {}, {}, ("ollama", "qwen3")),
    ("any thing", PROXY, {}, ("proxy", "any thing")),
    ("openai/x", PROXY, {}, ("proxy", "openai/x")),
    ("azure/mine", {}, AZURE, ("azure", "mine")),
    ("azure/mine", {}, {"AZURE_API_BASE": AZURE["AZURE_API_BASE"]}, None),
    ("azure/mine", {}, AZURE | {"AZURE_API_BASE": "https://x.openai.azure.com"}, None),
    ("minimax/MiniMax-M2", {}, {}, ("minimax", "MiniMax-M2")),
    ("minimax/MiniMax-M2", {}, {"MINIMAX_API_BASE": "https://api.minimax.io/v1"}, None),
    ("zai/glm-5", {}, {}, ("zai", "glm-5")),
    ("bedrock/nova", {}, {}, None),
    ("vertex_ai/gemini-2.5-pro", {}, {}, None),
    ("cohere/command-a", {}, {}, None),
    ("gemini-2.5-pro", {}, {}, None),  # LiteLLM takes it for Vertex AI's
    ("no-such-model", {}, {}, None),
    ("no-such-provider/x", {}, {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("model", "settings", "environ", "route"), ROUTES)
def test_a_model_has_a_route_or_is_left_to_litellm(
    model: str,
    settings: dict[str, Any],
    environ: dict[str, str],
    route: tuple[str, str] | None,
) -> None:
    found = find_route(model, LLMConfig.model_validate(settings), environ)
    assert (found and (found.provider_name, found.id)) == route


def test_the_models_that_keys_choose_are_asked_directly() -> None:
    for model in default_models().values():
        assert find_route(model, LLMConfig(), {}) is not None, model


@pytest.mark.parametrize(
    ("model", "base", "responses"),
    [
        ("openai/gpt-4o", "https://api.openai.com/v1", False),
        ("openai/gpt-5.2", "https://api.openai.com/v1", False),
        ("openai/gpt-5.6", "http://localhost:9/v1", False),
        ("openai/gpt-5.6", "https://api.openai.com/v1", True),
        ("openai/gpt-6", "https://us.privatelink.api.openai.com/v1", True),
        ("openai/gpt-5.2-pro", "https://api.openai.com/v1", True),
        ("openai/o1-pro", "https://api.openai.com/v1", True),
        ("openai/responses/x", "http://localhost:9/v1", True),
        ("groq/openai/gpt-6", "https://api.openai.com/v1", False),
    ],
)
def test_newer_models_of_openai_are_asked_by_responses(
    model: str, base: str, responses: bool
) -> None:
    route = find_route(model, LLMConfig(api_base=base), {})
    assert route is not None
    assert insists_on_responses(route, base, facts_of(model)) is responses


def test_a_row_without_a_deviation_is_asked_as_openai_is() -> None:
    plain = {n for n, row in PROVIDERS.items() if row.format == "chat" and row.base}
    assert {"openai", "groq", "ollama", "hosted_vllm"} <= plain
