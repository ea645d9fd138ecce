from __future__ import annotations

import pytest

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.destinations import NO_KEY, destination, late_bases
from ipyagent.llm.gateway import LiteLLMClient
from ipyagent.providers import PROVIDERS, PROXY
from servers.model_server import ModelServer, answer

EVIL = "http://attacker.example/steal"
KEY = {"OPENAI_API_KEY": "sk-real"}


MINE = {"OPENAI_BASE_URL": "http://mine.example/v1"}


@pytest.mark.spec("A06")
@pytest.mark.parametrize(
    ("settings", "variables", "start", "base"),
    [
        ({}, {}, {}, "https://api.openai.com/v1"),
        ({}, MINE, MINE, "http://mine.example/v1"),
        (
            {"api_base": "http://chosen.example/v1"},
            {"OPENAI_BASE_URL": EVIL},
            {},
            "http://chosen.example/v1",
        ),
    ],
)
def test_a_key_goes_to_its_providers_address_or_to_the_one_that_was_chosen(
    settings: dict[str, str], variables: dict[str, str], start: dict[str, str], base: str
) -> None:
    where = destination("openai", LLMConfig.model_validate(settings), KEY | variables, start)
    assert (where.base, where.key) == (base, "sk-real")
    assert "sk-real" not in repr(where)


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_a_base_url_that_appeared_later_gets_nothing(variable: str) -> None:
    environ = KEY | {variable: EVIL}
    with pytest.raises(ModelRefusedError, match=r"IPYAGENT_LLM__API_BASE") as caught:
        destination("openai", LLMConfig(), environ, {})
    assert variable in str(caught.value)
    assert EVIL in str(caught.value)
    with pytest.raises(ModelRefusedError):  # changed counts as late, too
        destination("openai", LLMConfig(), environ, {variable: "http://mine.example"})


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


ANY = {"LITELLM_API_KEY": "any-0123456789"}
HERE = "http://localhost:9999/v1"


@pytest.mark.spec("A06")
@pytest.mark.parametrize(
    ("provider", "settings", "environ", "key"),
    [
        ("openai", {}, ANY | KEY, "sk-real"),
        ("openai", {"api_base": HERE}, ANY | KEY, "any-0123456789"),
        ("openai", {"api_base": HERE}, KEY, "sk-real"),
        ("openai", {"api_base": HERE}, {}, NO_KEY),
        ("ollama", {}, ANY, NO_KEY),
        ("ollama", {"api_base": HERE}, ANY, "any-0123456789"),
        ("hosted_vllm", {"api_base": HERE}, ANY, "any-0123456789"),
        ("hosted_vllm", {"api_base": HERE}, {}, NO_KEY),
        (PROXY, {"api_base": HERE, "mode": "proxy"}, ANY | KEY, "any-0123456789"),
        (PROXY, {"api_base": HERE, "mode": "proxy"}, KEY, "sk-real"),
        (PROXY, {"api_base": HERE, "mode": "proxy"}, {}, NO_KEY),
        ("openai", {"api_key": "mine", "api_base": HERE}, ANY | KEY, "mine"),
        ("openai", {"api_key": "mine", "api_key_env": "NOT_SET"}, KEY, "mine"),
        ("bedrock", {}, ANY, None),
        ("azure", {"api_base": HERE}, {}, None),
    ],
)
def test_which_key_goes_where(
    provider: str, settings: dict[str, str], environ: dict[str, str], key: str | None
) -> None:
    where = destination(provider, LLMConfig.model_validate(settings), environ, {})
    assert where.key == key
    if "api_base" in settings:
        assert where.base == settings["api_base"]
    elif key is None:
        assert where.base is None, "LiteLLM builds it"


@pytest.mark.spec("A06")
@pytest.mark.parametrize("settings", [{}, {"api_key_env": "LITELLM_API_KEY"}])
def test_the_key_for_all_services_is_never_sent_to_a_providers_own_address(
    settings: dict[str, str],
) -> None:
    config = LLMConfig.model_validate(settings)
    with pytest.raises(ModelRefusedError, match="set the environment variable OPENAI_API_KEY"):
        destination("openai", config, ANY, {})
    start = {"OPENAI_BASE_URL": HERE}
    with pytest.raises(ModelRefusedError, match="OPENAI_API_KEY"):
        destination("openai", config, ANY | start, start)


@pytest.mark.spec("A06")
def test_a_key_that_is_given_is_sent_to_no_address_that_turned_up_later() -> None:
    config = LLMConfig.model_validate({"api_key": "mine"})
    assert destination("openai", config, {}, {}).base == "https://api.openai.com/v1"
    with pytest.raises(ModelRefusedError, match="OPENAI_BASE_URL"):
        destination("openai", config, {"OPENAI_BASE_URL": EVIL}, {})


def test_an_unknown_provider_without_an_address_is_refused() -> None:
    with pytest.raises(ModelRefusedError, match=r"Set llm\.api_base"):
        destination("some_startup", LLMConfig(), {}, {})


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
