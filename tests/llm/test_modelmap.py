from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ipyagent.config import LLMConfig
from ipyagent.llm import gateway, modelmap
from ipyagent.llm.modelmap import facts_of, price, sees, window
from ipyagent.providers import default_models
from ipyagent.schema import TokenUsage
from ipyagent.wiring.environment import service_client
from repository import load_script
from servers.model_server import ModelServer

MAP = {
    "claude-x": {"litellm_provider": "anthropic", "max_input_tokens": 200_000},
    "gemini/x": {"litellm_provider": "gemini", "max_input_tokens": 1_000_000},
    "nova": {"litellm_provider": "bedrock_converse", "max_input_tokens": 300_000},
    "old": {"litellm_provider": "openai", "max_tokens": 4096},
    "odd": {"litellm_provider": "openai", "max_input_tokens": "many", "supports_vision": True},
}


@pytest.fixture(scope="module")
def model_facts() -> ModuleType:
    """The script that writes the file."""
    return load_script("packaging/model_facts.py")


def test_the_file_holds_what_is_used_of_models_that_chat(model_facts: ModuleType) -> None:
    used = {"litellm_provider": "openai", "input_cost_per_token_above_128k_tokens": 1e-6}
    models = {
        "x": used | {"mode": "chat", "supports_vision": False, "rpm": 3},
        "y": used | {"mode": "responses"},
        "drawing": used | {"mode": "image_generation"},
        "elsewhere": used | {"mode": "chat", "litellm_provider": "unheard-of"},
    }
    assert model_facts.select(models) == {"x": used, "y": used | {"mode": "responses"}}


@pytest.fixture(params=["file", "imported"])
def source(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model_facts: ModuleType,
) -> Iterator[None]:
    """The map in each place where it may be."""
    modelmap._read.cache_clear()
    if request.param == "imported":
        monkeypatch.setattr(gateway.import_litellm(), "model_cost", MAP)
        yield
        return
    monkeypatch.setattr(gateway.import_litellm(), "model_cost", {})
    (tmp_path / "models.json").write_text(model_facts.write(MAP, "a test", "today"))
    monkeypatch.setattr(modelmap, "_FILE", tmp_path / "models.json")
    yield
    modelmap._read.cache_clear()


@pytest.mark.usefixtures("source")
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
    assert window(facts_of(model)) == tokens


@pytest.mark.usefixtures("source")
def test_sight_is_what_the_map_says() -> None:
    assert sees(facts_of("openai/odd"))
    assert not sees(facts_of("anthropic/claude-x"))


@pytest.mark.parametrize("engine", ["direct", "litellm"])
def test_the_models_chosen_by_key_have_a_window(engine: str) -> None:
    routers = {"openrouter"}  # chooses a model for each request
    for model in default_models().values():
        if model.partition("/")[0] not in routers:
            config = LLMConfig.model_validate({"client": engine})
            assert service_client(model, config).context_window > 50_000, model


def test_no_server_is_asked_what_its_model_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setenv("OLLAMA_API_BASE", server.origin)
        assert gateway.import_litellm().supports_vision("ollama/some-model") is False
        assert [request.path for request in server.requests] == ["/api/show"]
        client = service_client("ollama/some-model", LLMConfig(api_base=server.origin))
        assert client.context_window is None
        assert not client.vision
        assert len(server.requests) == 1


FEW = TokenUsage(prompt_tokens=1_000, completion_tokens=500)
CACHED = TokenUsage(
    prompt_tokens=90_000,
    completion_tokens=500,
    cache_read_tokens=60_000,
    cache_creation_tokens=20_000,
)
LONG = TokenUsage(prompt_tokens=300_000, completion_tokens=500, cache_read_tokens=100_000)


@pytest.mark.parametrize("usage", [FEW, CACHED, LONG], ids=["few", "cached", "long"])
@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-4o",
        "openai/gpt-5.2",
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-sonnet-5-5",
        "gemini/gemini-2.5-pro",
        "gemini/gemini-2.5-flash",
        "mistral/mistral-large-latest",
        "groq/openai/gpt-oss-120b",
        "deepseek/deepseek-chat",
        "xai/grok-4.7",
    ],
)
def test_prices_are_those_that_litellm_computes(model: str, usage: TokenUsage) -> None:
    litellm = gateway.import_litellm()
    counts = litellm.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        prompt_tokens_details={"cached_tokens": usage.cache_read_tokens},
        cache_creation_input_tokens=usage.cache_creation_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
    )
    theirs = sum(litellm.cost_per_token(model=model, usage_object=counts))
    assert price(facts_of(model), usage) == pytest.approx(theirs)


def test_facts_are_read_without_importing_litellm() -> None:
    code = (
        "import sys; from ipyagent.llm.modelmap import facts_of, window\n"
        "assert window(facts_of('anthropic/claude-sonnet-4-5')) == 200_000\n"
        "assert 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
