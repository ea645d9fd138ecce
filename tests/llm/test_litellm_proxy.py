"""Answers of a real LiteLLM proxy (1.110.2, with keys, budgets and limits), byte for byte."""

from __future__ import annotations

import json

import pytest
from asking import EVENTS, ONLY_DIRECT, ask, client_of, failed

from harness import Lab
from ipyagent.errors import ModelRefusedError, ModelUnavailableError
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import StopReason
from servers.model_server import ModelServer, Reply

pytestmark = pytest.mark.usefixtures("engine")

_CHUNK = b'data: {"id":"c","created":1796061203,"model":"team/default","object":'
CALL = Reply(
    (
        _CHUNK + b'"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant",'
        b'"tool_calls":[{"id":"call_1","function":{"arguments":"","name":"list_variables"},"type":'
        b'"function","index":0}]}}]}\n\n',
        _CHUNK
        + b'"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"function":'
        b'{"arguments":"{}"},"type":"function","index":0}]}}]}\n\n',
        _CHUNK + b'"chat.completion.chunk","choices":[{"finish_reason":"tool_calls","index":0,'
        b'"delta":{}}]}\n\n',
        _CHUNK + b'"chat.completion.chunk","choices":[],"usage":{"completion_tokens":90,'
        b'"prompt_tokens":120,"total_tokens":210,"cost":0.0012000000000000001}}\n\n',
        b"data: [DONE]\n\n",
    ),
    headers=EVENTS,
)
WHOLE = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"team/default","choices":[{"index":'
    b'0,"finish_reason":"stop","message":{"content":"It is 42.","role":"assistant"},'
    b'"provider_specific_fields":{}}],"usage":{"completion_tokens":90,"prompt_tokens":120,'
    b'"total_tokens":210}}'
)
PRICE = {"x-litellm-response-cost": "0.0012000000000000001", "Content-Type": "application/json"}


def refusal(
    status: int, message: str, kind: str, param: str | None = None, **headers: str
) -> Reply:
    error = {"message": message, "type": kind, "param": param, "code": str(status)}
    body = json.dumps({"error": error}, separators=(",", ":")).encode()
    sent = {"Content-Type": "application/json", **headers}
    return Reply((body,), status, {name.replace("_", "-"): text for name, text in sent.items()})


USED_UP = refusal(
    422,
    "Budget has been exceeded! Key=8fe37735603b21746fc3c1ffd6d8f03e730b6af0a923fa3380bc36d19f852d3f"
    " Current cost: 0.16586, Max budget: 0.002",
    "budget_exceeded",
)
REFUSED = {
    "Ask whoever gave you the key for more, or wait until its budget is renewed": USED_UP,
    "Check the key in OPENAI_API_KEY": refusal(
        401, "Authentication Error, Invalid key", "auth_error"
    ),
    "`%agent model` lists those that the key may use": refusal(
        403,
        "The requested model 'forbidden' is not available for this API key, or the model name is"
        " invalid. Check the models available to you and try again.",
        "key_model_access_denied",
        "model",
    ),
}
LIMITED = {
    60.0: refusal(
        429,
        "Rate limit exceeded for api_key: 4f8da3fa3dc3dcbaa57c703c1eced0afe512bbe479cad2d8fbd1c18e"
        "9a87156c. Limit type: requests. Current limit: 2, Remaining: 0. Limit resets at:"
        " 2026-11-30 17:52:07 UTC",
        "throttling_error",
        retry_after="60",
    ),
    7.0: refusal(
        429,
        "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for gpt-4o\n"
        "\nLiteLLM: model group 'team/default' failed with the error above. No fallback was"
        " attempted.",
        "throttling_error",
    ),
}
LIMITED[7.0] = Reply(
    LIMITED[7.0].frames, 429, LIMITED[7.0].headers | {"llm_provider-retry-after": "7"}
)


@ONLY_DIRECT
@pytest.mark.parametrize("advice", REFUSED)
async def test_what_a_key_may_not_do_is_final_and_says_what_to_do(
    advice: str, request_: ModelRequest
) -> None:
    with ModelServer([REFUSED[advice]]) as server:
        error, _ = await failed(client_of(server, "team/default", mode="proxy"), request_)
    assert isinstance(error, ModelRefusedError)
    assert advice in str(error)
    assert json.loads(REFUSED[advice].body)["error"]["message"] in str(error)


@ONLY_DIRECT
@pytest.mark.parametrize("seconds", LIMITED)
async def test_a_limit_is_waited_for_as_long_as_the_proxy_or_its_service_says(
    seconds: float, request_: ModelRequest
) -> None:
    with ModelServer([LIMITED[seconds]]) as server:
        error, _ = await failed(client_of(server, "team/default", mode="proxy"), request_)
    assert isinstance(error, ModelUnavailableError)
    assert error.retry_after == seconds


@ONLY_DIRECT
@pytest.mark.parametrize(
    ("reply", "streamed"), [(CALL, True), (Reply((WHOLE,), 200, PRICE), False)]
)
async def test_the_price_is_the_proxy_s(
    reply: Reply, streamed: bool, request_: ModelRequest
) -> None:
    with ModelServer([reply]) as server:
        client = client_of(server, "team/default", mode="proxy", stream=streamed)
        built = await ask(client, request_)
    assert built.cost_usd == pytest.approx(0.0012)


@ONLY_DIRECT
@pytest.mark.parametrize(
    ("most", "replies", "reason"),
    [(0.001, [CALL], StopReason.MAX_USD), (1.0, [CALL, USED_UP], StopReason.ERROR)],
)
def test_a_run_keeps_to_max_usd_and_does_not_ask_again_when_the_budget_is_used_up(
    most: float, replies: list[Reply], reason: StopReason, lab: Lab
) -> None:
    """The map knows no price of a proxy's models."""
    with ModelServer(replies) as server:
        client = client_of(server, "team/default", mode="proxy")
        run = lab.run([], model=client, max_usd=most)
    assert len(server.requests) == len(replies)
    assert run.stop_reason is reason
    assert run.cost_usd == pytest.approx(0.0012)
    assert len(run.results) == 1
    assert ("whoever gave you the key" in str(run.error)) == (reason is StopReason.ERROR)
