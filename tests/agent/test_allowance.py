"""A reply is ended where a budget is used up, or where it is too large, while it streams."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from harness import Lab, call
from ipyagent.agent import budgets
from ipyagent.config import LLMConfig
from ipyagent.errors import AgentInterrupted
from ipyagent.llm.client import Client
from ipyagent.llm.scripted import Scripted
from ipyagent.schema import Event, Outcome, StopReason
from ipyagent.wiring.environment import service_client
from patience import PATIENCE
from servers.model_server import (
    Flood,
    ModelServer,
    Reply,
    answer,
    delta,
    failure,
    sse,
)

SAYS: dict[str, Callable[[str], dict[str, Any]]] = {
    "text": lambda said: {"content": said},
    "thinking": lambda said: {"reasoning_content": said},
    "arguments": lambda said: {
        "tool_calls": [
            {"index": 0, "id": "c", "function": {"name": "write_file", "arguments": said}}
        ]
    },
}


def endless(kind: str = "text", size: int = 400) -> Reply:
    """A model that writes for ever, never twice the same."""

    def frame(number: int) -> bytes:
        return sse(delta(**SAYS[kind](f"{number} ".ljust(size, "x") + "\n")))

    return Reply((Flood(frame),), headers={"Content-Type": "text/event-stream"})


def model(server: ModelServer, name: str = "openai/gpt-4o") -> Client:
    config = LLMConfig.model_validate({"api_base": server.url, "timeout": 20})
    return service_client(
        name, config, environ={"OPENAI_API_KEY": "sk-canary-0123456789abcdef"}, start={}
    )


@pytest.mark.spec("A53")
@pytest.mark.parametrize("kind", SAYS)
@pytest.mark.parametrize(
    ("budget", "reason"),
    [({"max_tokens": 1_000}, StopReason.MAX_TOKENS), ({"max_usd": 0.01}, StopReason.MAX_USD)],
)
def test_a_budget_ends_a_reply_that_would_never_end(
    lab: Lab, server: ModelServer, kind: str, budget: dict[str, Any], reason: StopReason
) -> None:
    server.replies = [endless(kind)]
    run = lab.run([], model=model(server), **budget)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, reason)
    assert server.requests[0].closed.wait(PATIENCE)
    assert run.output.startswith("0 x") is (kind == "text")
    assert run.executions == ()
    assert len(run.output) <= 4_000
    # Nobody told how much it was, so it is estimated.
    assert run.usage.completion_tokens >= 250
    assert run.cost_usd is not None
    assert lab.run(["Back."]).output == "Back."


@pytest.mark.spec("A53")
def test_a_budget_that_earlier_steps_used_up_leaves_a_reply_less(lab: Lab) -> None:
    usage = {"prompt_tokens": 9_000, "completion_tokens": 0}
    first = {"calls": [call("list_files")], "usage": usage}
    run = lab.run([first, "word " * 10_000], max_tokens=9_300)
    assert run.stop_reason is StopReason.MAX_TOKENS
    assert 1_000 <= len(run.output) <= 4 * (300 + budgets.SLACK_TOKENS)


def test_a_request_leaves_its_reply_less_where_there_is_more_than_a_little(lab: Lab) -> None:
    run = lab.run(["word " * 10_000], "y" * 10_000, max_tokens=8_000)
    assert 4 * 1_000 <= len(run.output) <= 4 * 5_500
    assert run.usage.total_tokens <= 8_000 + 2 * budgets.SLACK_TOKENS


@pytest.mark.parametrize("name", ["openai/gpt-4o", "openai/my-own-model", "lm_studio/qwen3"])
def test_the_provider_is_told_what_is_left_of_the_budget(
    lab: Lab, server: ModelServer, name: str
) -> None:
    server.replies = [answer("Done.")] * 3
    assert lab.run([], model=model(server, name), max_tokens=50_000).output == "Done."
    lab.run([], model=model(server, name), max_tokens=1_000_000_000)
    lab.run([], model=model(server, name))
    few, many, free = (request.body for request in server.requests)
    assert 10_000 < few["max_tokens"] < 50_000
    if name == "openai/gpt-4o":
        assert many["max_tokens"] == 16_384  # it would refuse to give more
    assert "max_tokens" not in free


def test_a_service_that_refuses_the_limit_is_asked_without(lab: Lab, server: ModelServer) -> None:
    server.replies = [
        failure(400, "Unsupported parameter: 'max_tokens' is not supported with this model."),
        endless(),
    ]
    run = lab.run([], model=model(server, "openai/my-own-model"), max_tokens=2_000)
    assert (run.stop_reason, run.error) == (StopReason.MAX_TOKENS, None)
    assert "max_tokens" in server.requests[0].body
    assert "max_tokens" not in server.requests[1].body


@pytest.mark.spec("A53")
def test_a_reply_that_the_provider_cut_at_the_budget_is_not_continued(
    lab: Lab, server: ModelServer
) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 256, "total_tokens": 266}
    server.replies = [answer("Half an", finish_reason="length", usage=usage)]
    run = lab.run([], model=model(server), max_tokens=300)
    assert (run.stop_reason, run.output) == (StopReason.MAX_TOKENS, "Half an")
    assert server.requests[0].body["max_tokens"] == 256


def test_a_reply_that_the_model_cut_by_itself_is_continued(lab: Lab) -> None:
    replies = [{"text": "Half ", "finish_reason": "length"}, "a loaf."]
    assert lab.run(replies, max_tokens=50_000).output == "Half a loaf."


@pytest.mark.spec("A53")
@pytest.mark.parametrize("kind", SAYS)
def test_a_reply_of_any_kind_is_ended_where_it_is_too_large(
    lab: Lab, server: ModelServer, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert budgets.MAX_BYTES == 4 * 1024**2
    monkeypatch.setattr(budgets, "MAX_BYTES", 1024**2)
    server.replies = [endless(kind, 8_000)]
    run = lab.run([], model=model(server))
    assert run.outcome is Outcome.PARTIAL
    assert "The reply was ended at 1 MB" in (run.error or "")
    assert server.requests[0].closed.wait(PATIENCE)
    assert len(json.dumps(run.to_dict())) < 1.1 * 1024**2
    assert (len(run.output) > 1_000_000) is (kind == "text")


def test_one_piece_of_any_size_is_taken_in_a_little_at_a_time(lab: Lab) -> None:
    sizes: list[int] = []

    def measure(event: Event) -> None:
        if event.type == "message_delta":
            sizes.append(len(event.text))

    huge = Scripted(["word " * 2_000_000], chunk_size=10_000_000)
    run = lab.run(huge, heard=measure)
    assert "4 MB" in (run.error or "")
    assert max(sizes) <= 2 * budgets.PIECE_LENGTH
    assert sum(sizes) == len(run.output) <= budgets.MAX_BYTES + budgets.PIECE_LENGTH


@pytest.mark.spec("H25")
def test_a_reply_without_a_pause_can_be_stopped(lab: Lab) -> None:
    stopped = threading.Event()

    def stop(event: Event) -> None:
        if event.type == "message_delta" and not stopped.is_set():
            stopped.set()
            lab.cell.stop()

    with pytest.raises(AgentInterrupted):
        lab.run(Scripted(["word " * 800_000], chunk_size=40), heard=stop)
    assert len(lab.session.runs[-1].output) < 1_000_000


@pytest.mark.spec("A53")
def test_a_summary_that_would_never_end_is_ended_too(lab: Lab, server: ModelServer) -> None:
    lab.run([{"calls": [call("list_files")]}] * 6 + ["Done."])
    lab.session.compact_next = True
    server.replies = [endless()]
    run = lab.run([], model=model(server), max_tokens=2_000)
    assert (run.outcome, run.stop_reason) == (Outcome.PARTIAL, StopReason.MAX_TOKENS)
    assert len(server.requests) == 1
