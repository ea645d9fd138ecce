from __future__ import annotations

import pytest

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.gateway import LiteLLMClient
from ipyagent.llm.origins import NO_KEY, PROVIDERS, destination, late_bases
from servers.model_server import ModelServer, answer

EVIL = "http://attacker.example/steal"
KEY = {"OPENAI_API_KEY": "sk-real"}


def test_a_key_goes_to_its_providers_own_address() -> None:
    where = destination("openai", LLMConfig(), KEY, {})
    assert (where.base, where.key) == ("https://api.openai.com/v1", "sk-real")


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_a_base_url_that_appeared_later_gets_nothing(variable: str) -> None:
    environ = KEY | {variable: EVIL}
    with pytest.raises(ModelRefusedError, match=r"IPYAGENT_LLM__API_BASE") as caught:
        destination("openai", LLMConfig(), environ, {})
    assert variable in str(caught.value)
    assert EVIL in str(caught.value)
    with pytest.raises(ModelRefusedError):  # changed counts as late, too
        destination("openai", LLMConfig(), environ, {variable: "http://mine.example"})


def test_a_base_url_that_was_there_from_the_start_is_used() -> None:
    environ = KEY | {"OPENAI_BASE_URL": "http://mine.example/v1"}
    where = destination("openai", LLMConfig(), environ, environ)
    assert (where.base, where.key) == ("http://mine.example/v1", "sk-real")


def test_a_configured_address_wins_over_any_variable() -> None:
    config = LLMConfig(api_base="http://chosen.example/v1")
    where = destination("openai", config, KEY | {"OPENAI_BASE_URL": EVIL}, {})
    assert (where.base, where.key) == ("http://chosen.example/v1", "sk-real")


def test_one_providers_key_is_never_sent_to_another() -> None:
    with pytest.raises(ModelRefusedError, match="GROQ_API_KEY"):
        destination("groq", LLMConfig(), KEY, {})
    local = destination("ollama", LLMConfig(), KEY, {})
    assert local.key == NO_KEY


@pytest.mark.spec("A06")
def test_a_missing_key_is_one_sentence_that_names_the_variable() -> None:
    with pytest.raises(ModelRefusedError, match="set the environment variable ANTHROPIC_API_KEY"):
        destination("anthropic", LLMConfig(), {"ANTHROPIC_API_KEY": " "}, {})
    with pytest.raises(ModelRefusedError, match="MY_KEY"):
        destination("anthropic", LLMConfig(api_key_env="MY_KEY"), KEY, {})


@pytest.mark.spec("A06")
def test_the_key_is_read_at_call_time_from_the_variable_that_is_named() -> None:
    environ = {"MY_KEY": "one"}
    config = LLMConfig(api_key_env="MY_KEY")
    assert destination("openai", config, environ, {}).key == "one"
    environ["MY_KEY"] = "two"
    assert destination("openai", config, environ, {}).key == "two"


def test_a_server_of_ones_own_needs_no_key() -> None:
    config = LLMConfig(api_base="http://localhost:9999/v1")
    assert destination("openai", config, {}, {}).key == NO_KEY
    assert destination("hosted_vllm", config, {}, {}).base == config.api_base


def test_an_unknown_provider_without_an_address_is_refused() -> None:
    with pytest.raises(ModelRefusedError, match=r"Set llm\.api_base"):
        destination("some_startup", LLMConfig(), {}, {})


def test_providers_that_build_addresses_are_left_to_litellm() -> None:
    where = destination("bedrock", LLMConfig(), {}, {})
    assert (where.base, where.key) == (None, None)


@pytest.mark.parametrize("base", ["http://box:11434", "http://box:11434/", "http://box:11434/v1"])
def test_ollamas_address_may_be_its_root(base: str) -> None:
    where = destination("ollama", LLMConfig(api_base=base), {}, {})
    assert where.base == "http://box:11434/v1"


def test_late_base_urls_are_listed() -> None:
    environ = KEY | {"OPENAI_BASE_URL": EVIL, "GROQ_API_BASE": "http://mine.example"}
    start = {"GROQ_API_BASE": "http://mine.example"}
    assert late_bases(environ, start) == {"OPENAI_BASE_URL": EVIL}


def test_every_official_address_is_https_or_this_machine() -> None:
    for provider in PROVIDERS.values():
        if provider.base is not None:
            assert provider.base.startswith("https://" if provider.keys else "http://localhost:")


async def test_a_late_base_url_receives_no_request(
    request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer([answer("stolen")]) as attacker:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
        monkeypatch.setenv("OPENAI_BASE_URL", attacker.url)
        with pytest.raises(ModelRefusedError, match="OPENAI_BASE_URL"):
            await anext(LiteLLMClient("openai/gpt-4o").stream(request_))
        assert attacker.requests == []
