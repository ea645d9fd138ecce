"""Where a reply ends, and where a service reports an error: in other places than the usual ones."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from asking import EVENTS, KEY, ask, client_of, failed
from reasons import REASONS

from ipyagent.errors import (
    MalformedCallError,
    ModelRefusedError,
    ModelUnavailableError,
)
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct import reading
from ipyagent.schema import TokenUsage
from patience import PATIENCE
from servers.model_server import Cut, Flood, ModelServer, Reply, Silence, delta, sse

CHAT, MESSAGES, RESPONSES = "openai/x", "anthropic/claude-sonnet-4-5", "openai/responses/gpt-x"
DONE = sse("[DONE]")


def streamed(*events: Any) -> Reply:
    return Reply(tuple(e if isinstance(e, bytes) else sse(e) for e in events), headers=EVENTS)


def whole(body: Any, kind: str = "application/json") -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply((data,), headers={"Content-Type": kind})


@pytest.mark.spec("A08")
@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("model", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("end", ["done", "closed", "open"])
async def test_the_reason_that_a_service_gives_is_the_error(
    name: str, model: str, end: str, request_: ModelRequest
) -> None:
    event, kind, words = REASONS[name]
    after = {"done": [DONE], "closed": [], "open": [b"\n\n", Silence()]}[end]
    frame = event if isinstance(event, bytes) else sse(event)
    with ModelServer([Reply((frame, *after), headers=EVENTS)]) as server:
        timeout = 0.5 if end == "open" else PATIENCE
        error, _ = await failed(client_of(server, model, timeout=timeout), request_)
    if (name, end) == ("a JSON of several lines", "open"):
        return  # nothing tells that it is complete
    assert type(error) is kind
    assert words in str(error)
    assert "connection was closed" not in str(error)


@pytest.mark.parametrize("name", [n for n in REASONS if not isinstance(REASONS[n][0], bytes)])
@pytest.mark.parametrize("model", [CHAT, MESSAGES, RESPONSES])
async def test_a_body_instead_of_a_reply_gives_the_same_reason(
    name: str, model: str, request_: ModelRequest
) -> None:
    event, kind, words = REASONS[name]
    with ModelServer([whole(event), whole(event)]) as server:
        for is_streamed in (True, False):
            error, _ = await failed(client_of(server, model, stream=is_streamed), request_)
            assert type(error) is kind
            assert words in str(error)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ({"detail": "Insufficient balance"}, "Check the account's balance"),
        ({"detail": "out of credits"}, "Check the account's balance"),
        ({"detail": "Model not loaded"}, "Check `%agent config llm`"),
        ({"detail": "Server is busy"}, "The service itself is in trouble"),
    ],
)
async def test_a_service_that_gives_a_reason_is_running(
    reason: dict[str, str], advice: str, request_: ModelRequest
) -> None:
    with ModelServer([streamed(reason, DONE)]) as server:
        error, _ = await failed(client_of(server), request_)
    assert advice in str(error)
    assert "Is the server running" not in str(error)


@pytest.mark.parametrize("depth", [900, 5_000])
@pytest.mark.parametrize("status", [200, 400])
async def test_a_reason_that_is_nested_without_end_is_still_a_readable_failure(
    depth: int, status: int, request_: ModelRequest
) -> None:
    nested = b'{"detail":' * depth + b'"no"' + b"}" * depth
    with ModelServer([Reply((nested,), status), streamed(b"data: " + nested)]) as server:
        for _ in range(2):
            error, _ = await failed(client_of(server), request_)
            assert isinstance(error, (ModelRefusedError, ModelUnavailableError))


async def test_a_success_code_is_no_error(request_: ModelRequest) -> None:
    fine = {"choices": [], "base_resp": {"status_code": 0, "status_msg": "success"}}
    events = [delta(content="Hello"), fine, delta(finish_reason="stop"), fine, DONE]
    with ModelServer([streamed(*events), streamed(fine)]) as server:
        assert (await ask(client_of(server), request_)).message().text == "Hello"
        error, _ = await failed(client_of(server), request_)
    assert "connection was closed" in str(error)


TEXT_DELTA = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hello"}
BLOCK = {"type": "content_block_delta", "index": 0,
         "delta": {"type": "text_delta", "text": "Hello"}}  # fmt: skip
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
HELLO = {
    CHAT: [delta(content="Hello"), delta(finish_reason="stop")],
    MESSAGES: [BLOCK, STOP],
    RESPONSES: [TEXT_DELTA, {"type": "response.completed", "response": {}}],
}
WORDS = {
    **dict.fromkeys(("MAX_TOKENS", "max_output_tokens", "LENGTH", "max_output_reached"), "length"),
    **dict.fromkeys(("SAFETY", "sensitive", "content_filter: RECITATION"), "content_filter"),
    **dict.fromkeys(("network_error", "insufficient_system_resource", "abort", "error"), None),
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("model", [CHAT, MESSAGES])
async def test_half_an_answer_is_known_by_the_word_that_ends_it(
    word: str, model: str, request_: ModelRequest
) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": word}}
    events = [HELLO[model][0], delta(finish_reason=word) if model == CHAT else end, DONE]
    with ModelServer([streamed(*events)]) as server:
        if WORDS[word]:
            said = await ask(client_of(server, model), request_)
            assert said.finish_reason == WORDS[word]
            return
        error, said = await failed(client_of(server, model), request_)
    assert type(error) is ModelUnavailableError
    assert word in str(error)
    assert said.message().text == "Hello"


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({"finish_reason": 1}, "stop"),
        ({"finish_reason": 2}, "length"),
        ({"finish_reason": 3}, "content_filter"),
        ({"finish_reason": 9}, "9"),
        ({"finish_reason": None, "stop_reason": "stop"}, "stop"),
        ({"finishReason": "STOP"}, "STOP"),
    ],
)
async def test_a_reason_may_be_a_number_or_have_another_name(
    fields: dict[str, Any], finish: str, request_: ModelRequest
) -> None:
    going_on = {"choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": 0}]}
    end = {"choices": [{"index": 0, "delta": {"content": "lo"}, **fields}]}
    with ModelServer([streamed(going_on, end, DONE)]) as server:
        said = await ask(client_of(server, CHAT), request_)
    assert (said.message().text, said.finish_reason) == ("Hello", finish)


async def test_an_error_within_a_delta_is_the_error(request_: ModelRequest) -> None:
    broken = delta(error={"message": "the upstream is overloaded", "code": 529})
    with ModelServer([streamed(HELLO[CHAT][0], broken)]) as server:
        error, said = await failed(client_of(server, CHAT), request_)
    assert "the upstream is overloaded" in str(error)
    assert said.message().text == "Hello"


UNFRAMED = [
    b'data: {"choices":[{"delta":{"cont\n{"error":{"message":"the upstream broke"}}\n\n',
    b'data: {"choices":[{"delta":{"cont\ndata: {"error":{"message":"the upstream broke"}}\n\n',
    b'{\n  "error": {\n    "message": "the upstream broke"\n  }\n}\n',
]


@pytest.mark.parametrize("frame", UNFRAMED)
async def test_an_error_without_an_event_of_its_own_is_the_error(
    frame: bytes, request_: ModelRequest
) -> None:
    """Gateways write it into an event that broke off, or below the last one."""
    with ModelServer([streamed(HELLO[CHAT][0], frame)]) as server:
        error, said = await failed(client_of(server, CHAT), request_)
    assert "the upstream broke" in str(error)
    assert said.message().text == "Hello"


async def test_a_field_that_is_named_twice_is_read(request_: ModelRequest) -> None:
    frames = [b"data: " + sse(each) for each in (*HELLO[CHAT], "[DONE]")]
    with ModelServer([streamed(*frames)]) as server:
        said = await ask(client_of(server, CHAT), request_)
    assert (said.message().text, said.finish_reason) == ("Hello", "stop")


@pytest.mark.parametrize(
    "sign",
    [
        b"data: : keepalive\n\n", b"data: :\n\n", b"data:: ping\r\n\r\n", b"data: ping\n\n",
        b"data: : OPENROUTER PROCESSING\n", b"data: data: : x\n\n", b"data: [HEARTBEAT]\n\n",
        b"event: ping\ndata: : \n\n", b"id: 1\ndata: keep-alive\n\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", [CHAT, MESSAGES, RESPONSES])
async def test_signs_of_life_between_chunks_are_ignored(
    model: str, sign: bytes, request_: ModelRequest
) -> None:
    frames = [each for event in HELLO[model] for each in (sign, sse(event))]
    with ModelServer([Reply((*frames, sign), headers=EVENTS)] * 2) as server:
        assert (await ask(client_of(server, model), request_)).message().text == "Hello"
        assert len(server.requests) == 1


@pytest.mark.parametrize("word", ["null", "None", "FINISH_REASON_UNSPECIFIED"])
async def test_a_word_for_no_reason_is_no_end(word: str, request_: ModelRequest) -> None:
    """A reply that is cut off after it would be taken for a complete one."""
    thought = [delta(content=c, finish_reason=word) for c in ("<thi", "nk>Hm.</th", "ink>")]
    begin = delta(content="Hel", finish_reason=word)
    rest = [delta(content="lo", finish_reason="stop"), DONE]
    with ModelServer([streamed(*thought, begin, *rest), streamed(begin)]) as server:
        said = await ask(client_of(server), request_)
        assert (said.message().text, said.finish_reason) == ("Hello", "stop")
        error, _ = await failed(client_of(server), request_)
    assert type(error) is ModelUnavailableError


COUNTED = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
NO_REASONS = {
    CHAT: [delta(content="Hello"), COUNTED],
    MESSAGES: [BLOCK, {"type": "message_delta", "delta": {"stop_reason": None}},
               {"type": "message_stop"}],
}  # fmt: skip


@pytest.mark.parametrize("model", NO_REASONS)
@pytest.mark.parametrize("end", [[], [DONE]])
async def test_a_reply_that_was_counted_or_ended_in_order_is_complete_without_a_reason(
    model: str, end: list[Any], request_: ModelRequest
) -> None:
    events = NO_REASONS[model]
    replies = [streamed(*events, *end), streamed(events[0], *end), streamed(events[-1], *end)]
    with ModelServer(replies) as server:
        said = await ask(client_of(server, model), request_)
        assert (said.message().text, said.finish_reason) == ("Hello", "stop")
        for _ in range(2):
            error, _ = await failed(client_of(server, model), request_)
            assert type(error) is ModelUnavailableError


async def test_a_count_amid_a_reply_does_not_end_it(request_: ModelRequest) -> None:
    events = [delta(content="Hel"), COUNTED, delta(content="lo"), delta(finish_reason="length")]
    with ModelServer([streamed(*events, COUNTED, DONE)]) as server:
        said = await ask(client_of(server), request_)
    assert (said.message().text, said.finish_reason) == ("Hello", "length")


async def test_an_incomplete_answer_without_a_reason_was_cut(request_: ModelRequest) -> None:
    end = {"type": "response.incomplete", "response": {"incomplete_details": None}}
    with ModelServer([streamed(TEXT_DELTA, end)]) as server:
        assert (await ask(client_of(server, RESPONSES), request_)).finish_reason == "length"


FAULT = {"type": "error", "error": {"message": "exploded"}}


@pytest.mark.parametrize("model", HELLO)
async def test_an_error_after_the_end_changes_nothing_and_one_before_it_keeps_the_text(
    model: str, request_: ModelRequest
) -> None:
    late = [streamed(*HELLO[model], each, DONE) for each in (FAULT, b"data: {nonsense\n\n")]
    with ModelServer([*late, streamed(HELLO[model][0], FAULT, DONE)]) as server:
        for _ in late:
            assert (await ask(client_of(server, model), request_)).message().text == "Hello"
        error, said = await failed(client_of(server, model), request_)
    assert "exploded" in str(error)
    assert said.message().text == "Hello"


def call_of(name: str, **arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": 0, "id": f"call_{name}", "type": "function", "function": function}


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
@pytest.mark.parametrize("has_usage", [False, True])
async def test_a_finish_is_no_end_while_calls_come(
    finish: str, has_usage: bool, request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause is longer than a reply that is counted is waited for."""
    monkeypatch.setattr(reading, "FINISHED_SECONDS", 0.01)
    monkeypatch.setattr(reading, "UNCOUNTED", 100_000)
    usage = {"usage": {"prompt_tokens": 1, "completion_tokens": 1}} if has_usage else {}
    go = threading.Event()
    events = [
        delta(tool_calls=[call_of("f", x=1)]),
        delta(finish_reason=finish) | usage,
        delta(tool_calls=[call_of("g", y=2)]),
        delta(finish_reason=finish) | usage,
        DONE,
    ]
    with ModelServer([streamed(*events).pause(go, after=2)]) as server:
        threading.Timer(0.2, go.set).start()
        said = await ask(client_of(server, timeout=PATIENCE), request_)
    assert [(c.name, c.arguments) for c in said.message().tool_calls] == [
        ("f", {"x": 1}), ("g", {"y": 2}),
    ]  # fmt: skip


@pytest.mark.parametrize("end", [[DONE], [], [Cut("rst")], [Silence()]])
async def test_text_after_a_finish_belongs_to_a_reply_that_stays_complete(
    end: list[Any], request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FINISHED_SECONDS", 0.05)
    events = [delta(content="Hel"), delta(finish_reason="stop"), delta(content="lo")]
    with ModelServer([Reply((*map(sse, events), *end), headers=EVENTS)]) as server:
        assert (await ask(client_of(server), request_)).message().text == "Hello"


@pytest.mark.parametrize(
    "nothing", [b": ping\n\n", sse(delta()), sse(delta(content="")), sse(delta(content=" \n")),
                sse(delta(finish_reason="stop"))],
)  # fmt: skip
async def test_nothings_after_a_finish_do_not_put_the_end_off(
    nothing: bytes, request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FINISHED_SECONDS", 0.05)
    rest = threading.Event()
    again = Flood(lambda number: nothing if not rest.wait(0.02) else b"")
    with ModelServer([Reply((*map(sse, HELLO[CHAT]), again), headers=EVENTS)]) as server:
        said = await ask(client_of(server, timeout=PATIENCE), request_)
        rest.set()
    assert said.message().text.strip() == "Hello"


async def test_words_after_a_finish_do_not_put_the_end_off_for_ever(
    request_: ModelRequest,
) -> None:
    rest = threading.Event()
    words = Flood(lambda number: sse(delta(content="x")) if not rest.wait(0.02) else b"")
    with ModelServer([Reply((*map(sse, HELLO[CHAT]), words), headers=EVENTS)]) as server:
        said = await ask(client_of(server, timeout=0.5), request_)
        rest.set()
    assert said.message().text.startswith("Hellox")
    assert said.finish_reason == "stop"


async def test_a_call_that_is_cut_off_after_a_finish_is_a_broken_connection(
    request_: ModelRequest,
) -> None:
    half = call_of("g") | {"function": {"name": "g", "arguments": '{"y'}}
    events = [delta(tool_calls=[call_of("f")]), delta(finish_reason="tool_calls")]
    events.append(delta(tool_calls=[half]))
    with ModelServer([Reply((*map(sse, events), Cut("rst")), headers=EVENTS)]) as server:
        error, _ = await failed(client_of(server), request_)
    assert type(error) is ModelUnavailableError


NO_STREAMS = {
    "nothing": (b"", "empty body"),
    "blanks": (b"\n\n \n", "empty body"),
    "a page": (b"<!doctype html>\n<html>\n<body>Sign in</body></html>", "begins: <!doctype html>"),
    "words": (b"upstream request failed", "begins: upstream request failed"),
}


@pytest.mark.parametrize("name", NO_STREAMS)
@pytest.mark.parametrize("model", [CHAT, MESSAGES, RESPONSES])
async def test_what_only_calls_itself_a_stream_is_named(
    name: str, model: str, request_: ModelRequest
) -> None:
    body, words = NO_STREAMS[name]
    with ModelServer([Reply((body,), headers=EVENTS)]) as server:
        error, _ = await failed(client_of(server, model), request_)
    assert type(error) is ModelRefusedError
    assert words in str(error)
    assert "of type text/event-stream" in str(error)


@pytest.mark.spec("A06")
@pytest.mark.parametrize("model", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize(
    "kind",
    [
        *("text/html", "text/xml", "application/xml", "application/xhtml+xml"),
        *("text/plain", "text/event-stream", "application/json"),
    ],
)
@pytest.mark.parametrize("before", [0, 90])
async def test_a_body_that_repeats_the_key_is_cited_without_it(
    model: str, kind: str, before: int, request_: ModelRequest
) -> None:
    """Also where the citation ends within the key."""
    key = KEY.replace("sk-", "")
    page = f"<html>{'x' * before} you sent {key}".encode()
    with ModelServer([whole(page, kind)]) as server:
        client = client_of(server, model)
        client._environ = dict.fromkeys(client._environ, key)
        error, _ = await failed(client, request_)
    assert "<html>" in str(error)
    assert key[:6] not in str(error)


@pytest.mark.parametrize("place", ["event", "body", "error"])
async def test_a_number_that_cannot_be_read_is_malformed(
    place: str, request_: ModelRequest
) -> None:
    number = b'{"choices": [{"delta": {"content": "x"}}], "n": ' + b"9" * 5000 + b"}"
    replies = {
        "event": streamed(b"data: " + number + b"\n\n"),
        "body": whole(number),
        "error": Reply((number,), 400),
    }
    with ModelServer([replies[place]]) as server:
        error, _ = await failed(client_of(server), request_)
    assert "could not be reached" not in str(error)
    assert "4300" not in str(error)
    assert ("malformed" in str(error)) is (place == "event")


MALFORMED = {
    "Groq": Reply((json.dumps({"error": {
        "message": "Failed to call a function. See 'failed_generation'.", "code": "tool_use_failed",
        "failed_generation": "<function=run_python{code}"}}).encode(),), 400),
    "Groq, streamed": streamed({"error": {"message": "Failed to call", "code": "tool_use_failed",
        "failed_generation": "<function=run_python{code}"}}),
    "Ollama": Reply((b'{"error": "error parsing tool call: raw=\'{code\', err=invalid"}',), 500),
    "llama.cpp": Reply((json.dumps({"error": {"code": 500, "message":
        "Failed to parse tool call arguments as JSON: {code"}}).encode(),), 500),
    "Gemini": streamed(delta(finish_reason="MALFORMED_FUNCTION_CALL")),
    "Gemini, with a filter": streamed(delta(
        finish_reason="function_call_filter: MALFORMED_FUNCTION_CALL"), DONE),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_call_that_the_service_could_not_read_is_the_models_fault(
    name: str, request_: ModelRequest
) -> None:
    with ModelServer([MALFORMED[name]]) as server:
        error, _ = await failed(client_of(server), request_)
    assert type(error) is MalformedCallError
    assert name.startswith("Gemini") or "{code" in f"{error} {error.advice}"


COUNTS = {
    "floats": ({"prompt_tokens": 12.0, "completion_tokens": 3.0}, TokenUsage(
        prompt_tokens=12, completion_tokens=3)),
    "texts": ({"prompt_tokens": "12", "completion_tokens": "3.0"}, TokenUsage(
        prompt_tokens=12, completion_tokens=3)),
    "nonsense": ({"prompt_tokens": "many", "completion_tokens": True}, TokenUsage()),
    "too much": ({"prompt_tokens": "1e999", "completion_tokens": "9" * 5000}, TokenUsage()),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
async def test_counts_are_read_in_any_form_and_zeroes_at_the_end_are_none(
    name: str, request_: ModelRequest
) -> None:
    counts, expected = COUNTS[name]
    zeroes = {"usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    events = [*HELLO[CHAT], delta() | {"usage": counts}, delta() | zeroes, DONE]
    with ModelServer([streamed(*events)]) as server:
        assert (await ask(client_of(server), request_)).usage == expected


@pytest.mark.parametrize("last", [0, None, "0", 0.0])
async def test_anthropics_zeroes_at_the_end_leave_the_counts(
    last: object, request_: ModelRequest
) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 1200.0}}}
    usage = {"input_tokens": last, "output_tokens": "7", "cache_read_input_tokens": last}
    with ModelServer([streamed(start, BLOCK, STOP | {"usage": usage})]) as server:
        said = await ask(client_of(server, MESSAGES), request_)
    assert said.usage == TokenUsage(prompt_tokens=1200, completion_tokens=7)
