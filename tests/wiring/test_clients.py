from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path

import pytest

from ipyagent import Scripted
from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError
from ipyagent.explorer import ExplorerClient
from ipyagent.llm.client import Client
from ipyagent.llm.destinations import Resolved, resolve
from ipyagent.llm.direct.client import DirectClient
from ipyagent.llm.gateway import LiteLLMClient
from ipyagent.wiring import client_for, find_problem, list_served
from ipyagent.wiring.environment import GROUP, warm_up
from servers.model_server import ModelServer, Reply


def test_the_client_fits_the_model(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("- Hello\n")
    script = client_for("scripted/s.yaml", LLMConfig(), tmp_path)
    assert isinstance(script, Scripted)
    assert script.model == "scripted/s.yaml"
    explorer = client_for(resolve(LLMConfig(), {}), LLMConfig(), tmp_path)
    assert isinstance(explorer, ExplorerClient)
    assert explorer.model == "offline/explorer"
    assert isinstance(client_for("openai/gpt-4o", LLMConfig(), tmp_path), DirectClient)
    assert isinstance(client_for("bedrock/nova", LLMConfig(), tmp_path), LiteLLMClient)


def test_the_client_is_the_one_that_the_settings_choose(tmp_path: Path) -> None:
    by_litellm = LLMConfig(client="litellm")
    assert isinstance(client_for("openai/gpt-4o", by_litellm, tmp_path), LiteLLMClient)
    with pytest.raises(ConfigError, match=r"reached through LiteLLM only: set llm\.client to auto"):
        client_for("bedrock/nova", LLMConfig(client="direct"), tmp_path)


def test_a_model_that_needs_litellm_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ConfigError, match=r"run `%pip install 'ipyagent\[litellm\]'`"):
        client_for("bedrock/nova", LLMConfig(), tmp_path)
    assert isinstance(client_for("openai/gpt-4o", LLMConfig(), tmp_path), DirectClient)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no script"):
        client_for("scripted/missing.yaml", LLMConfig(), tmp_path)


def test_a_service_keeps_its_client_while_it_is_asked_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def following(model: str, config: LLMConfig) -> Client:
        return client_for(model, config, tmp_path, last=first)

    first = client_for("openai/gpt-4o", LLMConfig(), tmp_path)
    assert following("openai/gpt-4o", LLMConfig()) is first
    assert following("openai/gpt-4o-mini", LLMConfig()) is not first
    assert following("openai/gpt-4o", LLMConfig(timeout=5)) is not first
    assert isinstance(following("openai/gpt-4o", LLMConfig(client="litellm")), LiteLLMClient)
    first = client_for("azure/gpt-4o", LLMConfig(), tmp_path)
    assert following("azure/gpt-4o", LLMConfig()) is first
    monkeypatch.setenv("AZURE_API_BASE", "https://here.openai.azure.com/openai/v1")
    monkeypatch.setenv("AZURE_API_KEY", "sk-canary-0123456789")
    assert isinstance(following("azure/gpt-4o", LLMConfig()), DirectClient)


def test_a_script_begins_again_with_each_prompt(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("- Hello\n")
    first = client_for("scripted/s.yaml", LLMConfig(), tmp_path)
    assert client_for("scripted/s.yaml", LLMConfig(), tmp_path, last=first) is not first


CLIENT = """
class Oracle:
    context_window = None

    def __init__(self, model):
        self.model = model
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with a client of its own, as if it were installed."""
    (tmp_path / "acme_client.py").write_text(CLIENT)
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    points = [f"[{GROUP}]", "acme = acme_client:Oracle", "openai = acme_client:Oracle"]
    (info / "entry_points.txt").write_text("\n".join(points))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_client", raising=False)
    return tmp_path


def test_an_installed_distribution_adds_a_client(distribution: Path) -> None:
    model = Resolved("acme/oracle-1", "")
    warm_up(model, LLMConfig())
    assert "acme_client" not in sys.modules
    oracle = client_for(model, LLMConfig(), distribution)
    assert (type(oracle).__name__, oracle.model) == ("Oracle", "acme/oracle-1")
    assert isinstance(client_for("openai/gpt-4o", LLMConfig(), distribution), DirectClient)
    assert isinstance(client_for("offline/explorer", LLMConfig(), distribution), ExplorerClient)


def test_the_explorer_is_an_entry_point_as_others_are() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, name = declared["project"]["entry-points"][GROUP]["offline"].partition(":")
    assert getattr(importlib.import_module(module), name) is ExplorerClient


def listing(*names: str) -> dict[str, object]:
    """The pages of a service that has these models."""
    return {"/v1/models": {"object": "list", "data": [{"id": name} for name in names]}}


@pytest.mark.parametrize("model", ["openai/mine", "anthropic/mine", "proxy"])
def test_the_models_that_the_service_has_are_listed_the_known_ones_first(
    tmp_path: Path, model: str
) -> None:
    with ModelServer(pages=listing("another", "gpt-4o")) as server:
        base = server.origin if model.startswith("anthropic") else server.url
        mode = "proxy" if model == "proxy" else "direct"
        settings = {"api_base": base, "api_key": "sk-mine", "mode": mode}
        config = LLMConfig.model_validate(settings)
        found = list_served(client_for(model, config, tmp_path))
        (asked,) = server.requests
    prefix = model.removesuffix("mine").removesuffix("proxy")
    assert sorted(found) == [f"{prefix}another", f"{prefix}gpt-4o"]
    if model != "anthropic/mine":  # the map knows none of that name there
        assert found[0] == f"{prefix}gpt-4o"
    assert "sk-mine" in asked.headers.get("x-api-key", asked.headers.get("authorization", ""))


def test_a_chosen_model_that_its_server_does_not_have_is_named_with_what_is_there(
    tmp_path: Path,
) -> None:
    with ModelServer(pages=listing("qwen3:8b", "mistral:latest")) as server:
        config = LLMConfig(api_base=server.url)
        problem = find_problem("ollama/gemma9", config, tmp_path)
        there = "ollama/qwen3:8b, ollama/mistral:latest"
        assert problem == f"ollama/gemma9 is not there. What is there: {there}."
        assert find_problem("ollama/mistral", config, tmp_path) == ""


def test_a_chosen_model_that_cannot_call_tools_is_named_at_once(tmp_path: Path) -> None:
    shown = Reply((json.dumps({"capabilities": ["completion"]}).encode(),))
    with ModelServer([shown], pages=listing("gemma3")) as server:
        problem = find_problem("ollama/gemma3", LLMConfig(api_base=server.url), tmp_path)
    assert problem == "ollama/gemma3 cannot call tools, so it cannot work on your data."


def test_no_other_machine_is_asked_when_a_model_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    elsewhere = LLMConfig(api_base="http://models.invalid/v1")
    assert find_problem("openai/mine", elsewhere, tmp_path) == ""
    assert find_problem("offline/explorer", LLMConfig(), tmp_path) == ""
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "set the environment variable OPENAI_API_KEY" in find_problem(
        "openai/mine", LLMConfig(), tmp_path
    )
