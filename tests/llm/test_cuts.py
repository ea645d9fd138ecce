from __future__ import annotations

import os
from dataclasses import replace

import pytest
from asking import ask, client_of

from ipyagent.errors import ModelUnavailableError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.wire import ReplyBuilder
from servers.model_server import Cut, ModelServer, Reply, Silence, answer, anthropic_answer

pytestmark = pytest.mark.usefixtures("engine")

EVERY = "STREAMS_TEST_EVERY_BYTE" in os.environ
"""Whether streams are cut at each of their bytes (minutes), and not at some 60."""

SAID = {
    "openai/x": answer("Hi wörld 😀", thinking="hm", calls=[("run_python", {"code": "1"})]),
    "anthropic/claude-sonnet-4-5": anthropic_answer("Hi wörld 😀", thinking="hm", signature="SIG"),
}
HOWS = ("fin", "unframed", "rst")


def places(body: bytes) -> list[int]:
    """Where to cut: everywhere, or evenly and around the ends of events and inside of an emoji."""
    if EVERY:
        return list(range(len(body)))
    even = range(0, len(body), len(body) // 36)
    ends = [at for at in range(len(body)) if body[at - 2 : at] == b"\n\n"]
    near = [at + off for at in ends[-4:] for off in (-2, -1, 0, 1) if at + off < len(body)]
    emoji = body.find(b"\\ud83d")
    return sorted({*even, *near, emoji + 3, emoji + 6, emoji + 9, 1, len(body) - 1})


def cut(said: Reply, at: int, how: str) -> Reply:
    """`unframed`: only the end of the connection tells where the body ends."""
    return replace(said.cut(at, Cut("rst" if how == "rst" else "fin")), framed=how != "unframed")


def text_of(builder: ReplyBuilder) -> str:
    message = builder.message()
    return message.text if message else ""


@pytest.mark.spec("A08")
@pytest.mark.timeout(900 if EVERY else 60)
@pytest.mark.parametrize("model", SAID)
async def test_a_stream_cut_at_any_byte_is_whole_or_a_transient_error_that_keeps_the_text(
    model: str, request_: ModelRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    said = SAID[model]
    cuts = [(at, how) for at in places(said.body) for how in HOWS]
    if not EVERY:
        cuts = [(at, how) for number, (at, how) in enumerate(cuts) if number % 3 == at % 3]
    ends = {"whole": 0, "cut": 0}
    with ModelServer([said, *(cut(said, *each) for each in cuts)]) as server:
        client = client_of(server, model)
        whole = await ask(client, request_)
        kept = ""
        for at, how in cuts:
            reply = ReplyBuilder()
            try:
                async for chunk in client.stream(request_):
                    reply.add(chunk)
            except ModelUnavailableError:
                ends["cut"] += 1
                assert text_of(whole).startswith(text_of(reply))
                if how != "rst":  # a reset may take along what the client had not read
                    assert len(text_of(reply)) >= len(kept)
                    kept = text_of(reply)
                continue
            ends["whole"] += 1
            assert reply.message().content == whole.message().content, (at, how)
            assert reply.finish_reason == whole.finish_reason
    assert min(ends.values()) > 1
    assert kept == text_of(whole)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("model", SAID)
async def test_split_at_every_byte_a_stream_gives_the_same_reply(
    model: str, request_: ModelRequest
) -> None:
    with ModelServer([SAID[model], SAID[model].split(1)]) as server:
        client = client_of(server, model)
        whole, split = await ask(client, request_), await ask(client, request_)
    assert (split.finish_reason, split.usage) == (whole.finish_reason, whole.usage)
    assert split.message().content == whole.message().content


@pytest.mark.spec("A07")
@pytest.mark.parametrize("model", SAID)
async def test_silence_at_any_place_ends_with_the_idle_timer(
    model: str, request_: ModelRequest
) -> None:
    body = SAID[model].body
    silent = [SAID[model].cut(at, Silence()) for at in (0, 1, len(body) // 2)]
    with ModelServer(silent) as server:
        client = client_of(server, model, timeout=0.2)
        for _ in silent:
            with pytest.raises(ModelUnavailableError, match=r"no answer for 0\.2 s"):
                await ask(client, request_)
