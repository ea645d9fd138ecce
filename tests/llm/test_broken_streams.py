from __future__ import annotations

import json
import threading

import pytest
from asking import EVENTS, HELLO, ONLY_DIRECT, ONLY_LITELLM, ask, client_of, failed

from ipyagent.errors import ContextOverflowError, ModelRefusedError, ModelUnavailableError
from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.providers import is_too_long
from servers.model_server import (
    Cut,
    ModelServer,
    Reply,
    Silence,
    answer,
    delta,
    failure,
    stream,
)

pytestmark = pytest.mark.usefixtures("engine")


@ONLY_LITELLM
async def test_litellm_left_alone_advertises_itself_in_the_cell(
    request_: ModelRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    litellm = gateway.import_litellm()
    with ModelServer([failure(401), failure(401)]) as server:
        with pytest.raises(litellm.AuthenticationError):
            await litellm.acompletion(
                "openai/x", [{"role": "user", "content": ""}], api_base=server.url, api_key="k"
            )
        assert "Give Feedback" in capfd.readouterr().out
        await failed(client_of(server), request_)
    assert capfd.readouterr() == ("", "")


def refusal(http_status: int, **error: object) -> Reply:
    body = {"type": "error", "error": error}
    return Reply((json.dumps(body).encode(),), http_status, {"Content-Type": "application/json"})


OPENAI, CLAUDE = "openai/gpt-4o", "anthropic/claude-sonnet-4-5"
TOO_LONG = {
    "in words": (OPENAI, failure(400, "This model's maximum context length is 8192 tokens.")),
    "in a code": (OPENAI, failure(400, "too many words", code="context_length_exceeded")),
    "in a type": (OPENAI, failure(400, "no", type="exceed_context_size_error")),
    "as a fault of its own": (OPENAI, failure(500, "prompt too long; exceeded max context length")),
    "in mid-stream": (
        OPENAI,
        stream(delta(content="he"), {"error": {"code": "context_length_exceeded"}}),
    ),
    "Anthropic": (
        CLAUDE,
        refusal(400, type="invalid_request_error", message="prompt is too long: 21 tokens > 20"),
    ),
    "Anthropic's status": (CLAUDE, refusal(413, type="request_too_large", message="Too large")),
    "Gemini": (
        "gemini/gemini-2.5-flash",
        refusal(400, code=400, status="INVALID_ARGUMENT", message="The input token count (1196265) "
                "exceeds the maximum number of tokens allowed (9)."),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", TOO_LONG)
async def test_a_conversation_that_is_too_long_is_told_apart(
    kind: str, request_: ModelRequest
) -> None:
    model, reply = TOO_LONG[kind]
    with ModelServer([reply]) as server:
        error, _ = await failed(client_of(server, model), request_)
    assert type(error) is ContextOverflowError
    assert f"too long for {model}" in str(error)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (failure(429, "Too many tokens, the maximum context length is busy"), "Unavailable"),
        (failure(400, "Budget has been exceeded! Current cost: 2, Max budget: 1"), "Refused"),
        (failure(400, "max_tokens is too large: 100000"), "Refused"),
        (failure(400, "'user': string too long, at most 64", code="string_above_max_length"),
         "Refused"),
    ],
)  # fmt: skip
async def test_other_limits_are_not_taken_for_that(
    reply: Reply, kind: str, request_: ModelRequest
) -> None:
    with ModelServer([reply]) as server:
        error, _ = await failed(client_of(server), request_)
    assert type(error).__name__ == f"Model{kind}Error"


TOO_LONG_WORDS = [
    "Your input exceeds the context window of this model.",
    "This endpoint's maximum context length is 8192 tokens. However, you requested 9000.",
    "Prompt contains 130000 tokens, too large for model with 128000 maximum context length",
    "Please reduce the length of the messages or completion.",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce. Current length is 9001 while limit is 8192",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "the request exceeds the available context size, try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "litellm.ContextWindowExceededError: too long",
    "input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000",
    "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded "
    "with context length of only 4096 tokens, which is not enough. Try to load the model with a "
    "larger context length, or provide a shorter input",
    "`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000 `inputs` tokens and 100",
    "Input validation error: `inputs` must have less than 4095 tokens. Given: 9000",
    "prompt token count of 130000 exceeds the limit of 128000",
    "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "invalid params, context window exceeds limit (2013)",
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
    "tokens in request more than max tokens allowed",
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "max_tokens must be at least 1, got -1000.",
    "too many tokens: total number of tokens in the prompt cannot exceed 8192 - received 9000",
    "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
    "Input exceeds the model's context length",
    "model_context_window_exceeded",
    "the max length of current question is 11200",
    "Total tokens of image and text exceed max message tokens",
    "total message token length exceed model limit",
    "The number of input tokens exceeds the limit of 8192",
    "输入长度超过模型最大上下文长度",
    "prompt tokens 超出限制，最大 32768",
    "您的输入过长，请缩短",
    "上下文长度超限",
    "请求的 token 数超过了模型的最大长度",
    "模型上下文窗口已满",
    "入力が長すぎます",
]
OTHER_LIMITS = [
    "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8000",
    "This request would exceed your account's rate limit of 40,000 input tokens per minute",
    "max_tokens is too large: 32000. This model supports at most 16384 completion tokens",
    "max_tokens must be at least 1, got 0",
    "image exceeds 5 MB maximum",
    "tools[0].function.description: string too long. Expected a maximum length of 1024",
    "max_tokens 超过最大限制",
    "输入图片大小超过限制",
    "输入参数 temperature 超出限制",
    "token 额度已超过上限",
]


@ONLY_DIRECT
def test_services_say_in_many_words_that_a_conversation_is_too_long() -> None:
    assert [words for words in TOO_LONG_WORDS if not is_too_long(words)] == []
    assert [words for words in OTHER_LIMITS if is_too_long(words)] == []


async def test_a_quota_that_is_used_up_is_final(request_: ModelRequest) -> None:
    used_up = failure(429, "You exceeded your current quota", code="insufficient_quota")
    with ModelServer([used_up, failure(429, "slow down")]) as server:
        final, _ = await failed(client_of(server), request_)
        transient, _ = await failed(client_of(server), request_)
    assert (type(final), type(transient)) == (ModelRefusedError, ModelUnavailableError)


@pytest.mark.parametrize("status", [400, 429])
async def test_the_used_up_budget_of_a_key_is_final_and_its_limits_are_to_check(
    status: int, request_: ModelRequest
) -> None:
    words = "Budget has been exceeded! Current cost: 3, Max budget: 2"
    with ModelServer([failure(status, words, type="budget_exceeded")]) as server:
        final, _ = await failed(client_of(server), request_)
    assert isinstance(final, ModelRefusedError)
    assert words in str(final)
    assert "Check the account's balance and limits" in str(final)


BROKEN = {
    "closed politely": HELLO.cut(900),
    "reset": HELLO.cut(900, Cut("rst")),
    "closed where only closing ends the body": Reply(
        HELLO.cut(900).frames, 200, EVENTS, framed=False
    ),
    "empty body that only the end of the connection ends": Reply(headers=EVENTS, framed=False),
    "malformed event": Reply((*HELLO.frames[:3], b"data: {nonsense\n\n"), headers=EVENTS),
    "an error within": stream(delta(content="he"), {"error": {"message": "exploded"}}),
    "no answer at all": Reply(before=(Cut(),)),
    "reset at once": Reply(before=(Cut("rst"),)),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_stream_is_transient_and_never_looks_finished(
    name: str, request_: ModelRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    with ModelServer([BROKEN[name]]) as server:
        error, reply = await failed(client_of(server), request_)
    assert type(error) is ModelUnavailableError
    assert "litellm" not in str(error)
    assert reply.finish_reason is None
    assert capfd.readouterr().out == ""


@ONLY_LITELLM
async def test_litellm_left_alone_calls_a_cut_stream_finished_or_only_notices() -> None:
    litellm = gateway.import_litellm()
    with ModelServer([BROKEN["closed where only closing ends the body"]]) as server:
        reply = await litellm.acompletion(
            "openai/x",
            [{"role": "user", "content": ""}],
            api_base=server.url,
            api_key="k",
            stream=True,
        )
        finish = ""
        try:
            finish = [chunk async for chunk in reply][-1].choices[0].finish_reason
        except litellm.exceptions.MidStreamFallbackError:
            finish = "noticed"  # from 1.110 on
        assert finish in ("stop", "noticed")


async def test_comments_blank_lines_and_carriage_returns_are_skipped(
    request_: ModelRequest,
) -> None:
    frames = [b": keep-alive\n\n", b"\r\n"]
    frames += [frame.replace(b"\n", b"\r\n") for frame in HELLO.frames if isinstance(frame, bytes)]
    with ModelServer([Reply(tuple(frames), headers=EVENTS)]) as server:
        assert (await ask(client_of(server), request_)).message().text == "Hello wörld"


@ONLY_LITELLM
async def test_a_model_that_repeats_itself_is_stopped_and_its_text_kept(
    request_: ModelRequest,
) -> None:
    with ModelServer([stream(*[delta(content="again ")] * 200)]) as server:
        error, reply = await failed(client_of(server), request_)
    assert type(error) is ModelRefusedError
    assert "repeating" in str(error)
    assert reply.message().text.startswith("again again ")


@pytest.mark.spec("A07")
@pytest.mark.parametrize(
    "silent",
    [Reply(before=(Silence(),)), Reply((*HELLO.frames[:3], Silence()), headers=EVENTS)],
    ids=["before the first chunk", "between chunks"],
)
async def test_silence_ends_after_the_timeout_and_frees_the_connection(
    silent: Reply, request_: ModelRequest
) -> None:
    with ModelServer([silent]) as server:
        error, _ = await failed(client_of(server, timeout=0.3), request_)
        assert await server.requests[0].gone()
    assert type(error) is ModelUnavailableError
    assert "no answer for 0.3 s" in str(error)


@pytest.mark.slow
@pytest.mark.spec("A07")
async def test_a_slow_stream_that_keeps_talking_is_not_cut(request_: ModelRequest) -> None:
    go = [threading.Event() for _ in range(4)]
    said = answer("a b c d ", chunk_size=2)
    for number, event in enumerate(go):
        said = said.pause(event, after=1 + 2 * number)
    for number, event in enumerate(go):
        threading.Timer(number + 1, event.set).start()
    with ModelServer([said]) as server:
        assert (await ask(client_of(server, timeout=3.0), request_)).message().text == "a b c d "
