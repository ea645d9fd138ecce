from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ipyagent import Scripted
from ipyagent.config import LLMConfig
from ipyagent.errors import ConfigError
from ipyagent.explorer.client import ExplorerClient
from ipyagent.llm.direct.client import DirectClient
from ipyagent.llm.litellm.gateway import LiteLLMClient
from ipyagent.llm.resolve import resolve
from ipyagent.wiring import client_for


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
