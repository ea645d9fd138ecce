"""How large a model is: by its name, by the map of models, and by Ollama's own word."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from harness import Lab, call
from ipyagent.config import LLMConfig
from ipyagent.llm import modelmap
from ipyagent.llm.client import ModelSize, Sized
from ipyagent.llm.modelmap import ask_ollama, size_in_name
from ipyagent.llm.scripted import Scripted
from ipyagent.llm.service_client import ServiceClient
from ipyagent.schema import TruncationConfig
from ipyagent.tools.base import tool
from ipyagent.wiring.toolset import SHORT_RESULT, SMALL
from patience import PATIENCE
from servers.model_server import ModelServer, Reply

SHOWN = {
    "details": {"parameter_size": "8.2B"},
    "model_info": {"general.parameter_count": 8_190_735_360, "qwen3.context_length": 40_960},
}


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("ollama/qwen3:8b", 8),
        ("ollama/qwen2.5-coder:1.5b", 1.5),
        ("openai/gpt-oss-20b", 20),
        ("ollama/qwen3:30b-a3b", 30),
        ("groq/llama-3.1-8b-instant", 8),
        ("together/Mixtral-8x7B-Instruct", None),
        ("anthropic/claude-sonnet-4", None),
        ("openai/gpt-4b2", None),
        ("7b/unknown", None),
    ],
)
def test_a_name_may_tell_the_parameters(model: str, billions: float | None) -> None:
    assert size_in_name(model) == billions


@pytest.mark.parametrize(
    ("size", "is_small"),
    [
        (ModelSize(14, 128_000), True),
        (ModelSize(14.8, 128_000), False),
        (ModelSize(None, 16_384), True),
        (ModelSize(70, 32_768), False),
        (ModelSize(), False),
    ],
)
def test_few_parameters_or_a_short_context_make_a_model_small(
    size: ModelSize, is_small: bool
) -> None:
    assert size.is_small is is_small


def ollama(shown: Any, status: int = 200) -> ModelServer:
    """A server that shows a model as Ollama does."""
    return ModelServer([Reply((json.dumps(shown).encode(),), status)])


def sized(server: ModelServer, name: str) -> ServiceClient:
    return ServiceClient(name, LLMConfig(api_base=server.origin), environ={}, start={})


def test_ollama_is_asked_once_about_a_model_and_without_a_key() -> None:
    with ollama(SHOWN) as server:
        client = sized(server, "ollama/qwen3")
        assert isinstance(client, Sized)
        assert client.size() == client.size() == ModelSize(8.2, 40_960)
        (asked,) = server.requests
    assert (asked.path, asked.body) == ("/api/show", {"model": "qwen3"})
    assert "authorization" not in asked.headers


def test_the_context_that_ollama_is_set_to_counts() -> None:
    with ollama({**SHOWN, "parameters": "stop x\nnum_ctx    4096\n"}) as server:
        assert ask_ollama(server.url, "qwen3") == ModelSize(8.2, 4_096)


@pytest.mark.parametrize(
    ("shown", "status"), [({"error": "no such model"}, 404), ([], 200), ("text", 200)]
)
def test_another_answer_leaves_the_name_to_decide(shown: Any, status: int) -> None:
    with ollama(shown, status) as server:
        assert sized(server, "ollama/odd:3b").size().parameters == 3


def test_a_server_that_is_away_leaves_the_name_to_decide() -> None:
    config = LLMConfig(api_base="http://127.0.0.1:1")
    client = ServiceClient("ollama/away:4b", config, environ={}, start={})
    assert client.size().parameters == 4


def test_an_answer_may_take_longer_than_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelmap, "ANSWER_SECONDS", PATIENCE)
    ready = threading.Event()
    reply = Reply((json.dumps(SHOWN).encode(),)).pause(ready)
    timer = threading.Timer(2 * modelmap.CONNECT_SECONDS, ready.set)
    with ModelServer([reply]) as server:
        timer.start()
        assert ask_ollama(server.url, "qwen3") == ModelSize(8.2, 40_960)


def test_a_small_model_gets_few_tools_and_short_results_and_the_card_says_so(lab: Lab) -> None:
    code = "print('x' * 20_000)"
    replies: list[Any] = [{"calls": [call("run_python", code=code)]}, "Ok."]
    client = Scripted(replies, context_window=16_000)
    run = lab.run([], model=client, confirm_mode="yolo")
    assert {each.name for each in client.requests[0].tools} <= SMALL
    assert len(run.results[0].output) <= SHORT_RESULT
    assert any("a context of 16,000 tokens" in note for note in run.notes)
    again = lab.run([], model=Scripted(["Ok."], context_window=16_000))
    assert not any("small model" in note for note in again.notes)


def test_the_setting_gives_a_small_model_the_usual_tools(lab: Lab) -> None:
    client = Scripted(["Ok."], context_window=16_000)
    run = lab.run([], model=client, settings={"tools": {"offer": "core"}})
    assert "edit_file" in {each.name for each in client.requests[0].tools}
    assert not any("small model" in note for note in run.notes)


def test_a_large_context_keeps_long_results(lab: Lab) -> None:
    @tool(truncate=TruncationConfig(max_chars=300))
    def preview() -> str:
        """Say little."""
        return "x" * 20_000

    calls = [call("run_python", code="print('x' * 20_000)"), call("preview")]
    for window, most in ((200_000, 30_000), (32_000, SHORT_RESULT)):
        client = Scripted([{"calls": calls}, "Ok."], context_window=window)
        run = lab.run([], model=client, confirm_mode="yolo", tools=[preview])
        assert len(run.results[1].output) <= 300
        assert (len(run.results[0].output) > SHORT_RESULT) == (most > SHORT_RESULT)
        assert not any("small model" in note for note in run.notes)
