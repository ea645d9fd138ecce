"""What services send that no specification foresees: each has a defined end, and it is quiet."""

from __future__ import annotations

import json
import logging
import re
import warnings

import pytest
from asking import EVENTS, ONLY_LITELLM, ask, client_of

from ipyagent.errors import ModelRefusedError, ModelUnavailableError
from ipyagent.llm import gateway
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import ReplyBuilder
from servers.model_server import Cut, ModelServer, Reply, delta, failure, sse, stream

pytestmark = pytest.mark.usefixtures("engine")

HE, LLO = sse(delta(content="he")), sse(delta(content="llo"))
END = (sse(delta(finish_reason="stop")), sse("[DONE]"))
JSON = {"Content-Type": "application/json"}


def within(piece: bytes) -> Reply:
    """A good stream with this piece in its middle."""
    return Reply((HE, piece, LLO, *END), headers=EVENTS)


def call(**fields: object) -> str:
    function = {"name": "f", "arguments": "{}"}
    return json.dumps(delta(tool_calls=[{"index": 0, "id": "a", "function": function} | fields]))


DATA = [
    "[", "{", '{"a":', "nul", "[1,2,3]", "null", "123", "1e999", '"text"', "true", "NaN", "{}",
    '"\\ud800"', "\x00", "\ufeff{}", "", " ", "[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000,
    '{"choices": null}', '{"choices": {}}', '{"choices": [null]}', '{"choices": []}',
    '{"choices": [{"index": 0}]}', '{"choices": [{"delta": null}]}', '{"error": null}',
    '{"error": "exploded"}', '{"error": {"message": "exploded"}}', '{"detail": "exploded"}',
    json.dumps(delta(content=123)), json.dumps(delta(content=["x"])),
    json.dumps(delta(content={"a": 1})), json.dumps(delta(content="\0")),
    json.dumps(delta(tool_calls={})), json.dumps(delta(tool_calls=[None])),
    call(function=None), call(function={"name": "f", "arguments": {"x": 1}}),
    call(function={"name": 5, "arguments": "{}"}), call(index="0"), call(index=-1),
    call(index=None), call(id=7), call(id=None), call(id=""),
    json.dumps(delta(content="x", finish_reason=7)),
    json.dumps(delta() | {"choices": [], "usage": {"prompt_tokens": -5, "completion_tokens": "7"}}),
    json.dumps(delta() | {"choices": [], "usage": {"prompt_tokens": 1.5}}),
    json.dumps(delta() | {"choices": [], "usage": "many"}),
]  # fmt: skip

PIECES = {
    "a comment": b": keep-alive\n\n",
    "a comment of a megabyte": b": " + b"x" * 1_000_000 + b"\n\n",
    "an event line": b"event: ping\ndata: {}\n\n",
    "an event without data": b"event: ping\n\n",
    "id and retry": b"id: 3\nretry: 5\n\n",
    "no field": b"hello\n\n",
    "blank lines": b"\n\n\r\n\r\n",
    "not UTF-8": b"data: \xff\xfe\n\n",
    "not UTF-8 within text": HE.replace(b"he", b"h\xff"),
    "two lines of data": b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"-"}}]}\n\n',
    "done too early": sse("[DONE]"),
}

REPLIES = {
    "a byte order mark": Reply((b"\xef\xbb\xbf" + sse(delta(role="assistant")), HE, LLO, *END)),
    "nothing": Reply(headers=EVENTS),
    "204": Reply(status=204, framed=False),
    "a redirection to nowhere": Reply(status=302, headers={"Location": "http://127.0.0.1:9/"}),
    "a lie about gzip": Reply((HE, *END), headers=EVENTS | {"Content-Encoding": "gzip"}),
    "no HTTP": Reply(before=(b"SSH-2.0-x\r\n\r\n", Cut())),
    "an error told as a success": Reply((b'{"error": {"message": "exploded"}}',), headers=JSON),
    "only done": stream("[DONE]"),
    "no finish": stream(delta(content="hello"), "[DONE]"),
    "a refusal of bytes": Reply((b"\xff\xfe",), 400),
    "a refusal of a long page": Reply((b"<html>" + b"x" * 100_000,), 429),
    "a refusal without words": Reply(status=500),
    "a refusal in a list": Reply((b'[{"error": {"message": "exploded"}}]',), 400),
}


async def ended(reply: Reply, request: ModelRequest, **settings: object) -> ReplyBuilder | None:
    """The reply; None after an error that is ours and can be read."""
    said, told = None, ""
    with ModelServer([reply]) as server, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            said = await ask(client_of(server, timeout=10, **settings), request)
        except (ModelUnavailableError, ModelRefusedError) as error:
            told = str(error)
    assert [str(warning.message) for warning in seen] == []
    assert len(told.partition("\n")[0]) < 600
    for debris in ("Traceback", "has no attribute", "litellm."):
        assert debris not in told
    return said


@pytest.mark.spec("A08")
@pytest.mark.parametrize("data", DATA, ids=lambda data: ascii(data)[:40])
async def test_odd_data_is_skipped_or_ends_the_reply(
    data: str, request_: ModelRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    if said := await ended(within(b"data: " + data.encode() + b"\n\n"), request_):
        assert said.message().text.startswith("he")
        assert said.message().text.endswith("llo")
        assert said.finish_reason
    assert capfd.readouterr() == ("", "")


@pytest.mark.spec("A08")
@pytest.mark.parametrize("name", PIECES)
async def test_odd_lines_are_skipped_or_end_the_reply(
    name: str, request_: ModelRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    if said := await ended(within(PIECES[name]), request_):
        # Bytes that are no text become the character that stands for them.
        assert re.sub("-|h\ufffd", "", said.message().text) == "hello"
    assert capfd.readouterr() == ("", "")


@pytest.mark.spec("A08")
@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_odd_reply_is_an_error_that_can_be_read(
    name: str, streamed: bool, request_: ModelRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    said = await ended(REPLIES[name], request_, stream=streamed)
    assert said is None or (name == "a byte order mark" and said.message().text == "hello")
    assert capfd.readouterr() == ("", "")


async def test_a_line_of_a_megabyte_arrives(request_: ModelRequest) -> None:
    said = await ended(within(sse(delta(content="x" * 1_000_000))), request_)
    assert len(said.message().text) == 1_000_005


@ONLY_LITELLM
async def test_litellm_left_alone_prints_a_traceback_and_warns(
    request_: ModelRequest, caplog: pytest.LogCaptureFixture
) -> None:
    odd = within(b"data: " + call(id=7).encode() + b"\n\n")
    with ModelServer([odd, odd]) as server:
        alone = await gateway.import_litellm().acompletion(
            "openai/x", [{"role": "user", "content": ""}],
            api_base=server.url, api_key="k", stream=True,
        )  # fmt: skip
        with pytest.warns(UserWarning, match="Pydantic serializer warnings"):
            assert [piece async for piece in alone]
        assert "Traceback" in caplog.text
        caplog.clear()
        await ask(client_of(server), request_)
    assert caplog.text == ""
    logging.getLogger("LiteLLM").warning("the person's own")
    assert "the person's own" in caplog.text


@pytest.mark.spec("N13")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("stop", "stop"), ("length", "length"), ("max_tokens", "length"),
        ("content_filter", "content_filter"), ("refusal", "content_filter"),
        ("end_turn", "end_turn"), ("completed", "completed"), ("never_heard_of", "never_heard_of"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_word_for_the_end_that_nobody_knows_is_kept(
    said: str, kept: str, streamed: bool, request_: ModelRequest
) -> None:
    reply = stream(delta(content="hello"), delta(finish_reason=said), "[DONE]")
    if not streamed:
        choice = {"index": 0, "message": {"content": "hello"}, "finish_reason": said}
        reply = Reply((json.dumps(delta() | {"choices": [choice]}).encode(),), headers=JSON)
    with ModelServer([reply]) as server:
        assert (await ask(client_of(server, stream=streamed), request_)).finish_reason == kept


@pytest.mark.spec("N26", "M01")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("soon", None), ("Fri, 01 May 2099 12:00:00 GMT", 3600.0)],
)
async def test_retry_after_reaches_the_loop_in_seconds(
    header: str, seconds: float | None, request_: ModelRequest
) -> None:
    busy = failure(429, headers={"Retry-After": header})
    with ModelServer([busy]) as server, pytest.raises(ModelUnavailableError) as caught:
        await ask(client_of(server), request_)
    assert caught.value.retry_after == seconds
