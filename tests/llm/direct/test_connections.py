"""Connections: kept, given up at once, through proxies, and never waited for without need."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from asking import EVENTS, HELLO, KEY, ask, client_of, failed

from ipyagent.errors import ModelRefusedError, ModelUnavailableError
from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct import client, reading
from ipyagent.llm.direct.reading import EventSplitter
from servers.model_server import (
    Cut,
    Flood,
    ModelServer,
    Reply,
    Silence,
    answer,
    anthropic_answer,
    delta,
    sse,
)


async def test_an_answer_that_stays_open_after_its_end_is_not_waited_for(
    request_: ModelRequest,
) -> None:
    open_end = Reply((*HELLO.frames, Silence()), headers=EVENTS)
    begun = time.monotonic()
    with ModelServer([open_end]) as server:
        said = await ask(client_of(server, timeout=300), request_)
    assert said.message().text == "Hello wörld"
    assert time.monotonic() - begun < 60, "the time limit was waited for"


@pytest.mark.parametrize("end", [Cut(), Cut("rst"), Silence()])
async def test_what_comes_after_the_reason_to_stop_may_be_lost(
    end: Cut | Silence, request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FINISHED_SECONDS", 0.2)
    frames = tuple(f for f in HELLO.frames if isinstance(f, bytes) and b"usage" not in f)
    with ModelServer([Reply((*frames[:-1], end), headers=EVENTS)]) as server:
        said = await ask(client_of(server, timeout=300), request_)
    assert (said.message().text, said.finish_reason) == ("Hello wörld", "tool_calls")


def drip(text: bytes) -> Flood:
    """That text for ever, twenty times a second."""
    stop = threading.Event()

    def frame(number: int) -> bytes:
        stop.wait(0.05)
        return text

    return Flood(frame)


JSON = {"Content-Type": "application/json"}
NOTHINGS: dict[str, Reply] = {
    "comments": Reply((drip(b": still here\n\n"),), headers=EVENTS),
    "roles": Reply((drip(sse(delta(role="assistant"))),), headers=EVENTS),
    "empty words": Reply((drip(sse(delta(content=""))),), headers=EVENTS),
    "token counts": Reply(
        (drip(sse(delta() | {"choices": [], "usage": {"prompt_tokens": 1}})),), headers=EVENTS
    ),
    "a body of JSON": Reply((drip(b" "),), headers=JSON),
    "a page": Reply((b"<html>", drip(b" ")), headers={"Content-Type": "text/html"}),
    "an error": Reply((b"{", drip(b" ")), status=500, headers=JSON),
}


@pytest.mark.spec("A07")
@pytest.mark.parametrize("what", NOTHINGS)
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_what_cannot_be_used_is_no_answer(
    what: str, is_streamed: bool, request_: ModelRequest
) -> None:
    with ModelServer([NOTHINGS[what]]) as server:
        client = client_of(server, timeout=0.4, stream=is_streamed)
        error, _ = await failed(client, request_)
        assert await server.requests[0].gone()
    assert type(error) is ModelUnavailableError
    assert "no answer for 0.4 s" in str(error)


@pytest.mark.parametrize("after", [HELLO.frames, HELLO.frames[:-1]], ids=["over", "finished"])
async def test_what_was_complete_stays_complete_whatever_comes_then(
    after: tuple[Any, ...], request_: ModelRequest
) -> None:
    pings = Reply((*after, drip(b": ping\n\n")), headers=EVENTS)
    with ModelServer([pings]) as server:
        said = await ask(client_of(server, timeout=1.0), request_)
        assert await server.requests[0].gone()
    assert said.message().text == "Hello wörld"
    assert said.usage is not None


@pytest.mark.parametrize("before", ["", "<think>Hm.</think>"])
async def test_blanks_that_never_end_are_seen_as_they_arrive(
    before: str, request_: ModelRequest
) -> None:
    blanks = Flood(lambda number: sse(delta(content=" \n" * 100)))
    reply = Reply((sse(delta(content=before)), blanks), headers=EVENTS)
    seen = 0
    with ModelServer([reply]) as server:
        async with aclosing(client_of(server).stream(request_)) as chunks:
            async for chunk in chunks:
                seen += len(chunk.data) if chunk.type == "content" else 0
                if seen > 100_000:
                    break
        assert await server.requests[0].gone()
    assert seen > 100_000


async def test_a_proxy_of_the_environment_is_used_from_then_on(
    request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer([answer("by proxy")]) as proxy:
        client = client_of(proxy, api_base="http://127.0.0.2:9/v1")
        with pytest.raises(ModelUnavailableError):
            await ask(client, request_)
        monkeypatch.setenv("HTTP_PROXY", proxy.origin)
        monkeypatch.setenv("NO_PROXY", "")
        assert (await ask(client, request_)).message().text == "by proxy"
        assert proxy.requests[0].path == "http://127.0.0.2:9/v1/chat/completions"


async def test_proxies_and_certificates_in_the_environment_are_used_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_DIR", "HTTP_PROXY", "https_proxy", "all_proxy", "NO_PROXY"):
        before = client.free_client()
        assert client.free_client() is before
        monkeypatch.setenv(name, str(tmp_path) if "CERT" in name else "http://127.0.0.1:9")
        assert client.free_client() is not before
    await client.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_what_a_server_on_this_machine_is_sent_passes_no_proxy(
    host: str, request_: ModelRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer([HELLO]) as proxy, ModelServer([HELLO]) as service:
        for name in ("HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        monkeypatch.setenv("NO_PROXY", "")
        client = client_of(service, api_base=f"http://{host}:{service.port}/v1")
        if host == "[::1]":  # where the server does not listen
            await failed(client, request_)
        else:
            assert (await ask(client, request_)).message().text == "Hello wörld"
        assert proxy.requests == []


@pytest.mark.spec("A06")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("model", ["openai/x", "anthropic/x", "gemini/x"])
async def test_nothing_follows_a_redirection_to_another_origin(
    model: str, status: int, request_: ModelRequest
) -> None:
    with ModelServer([HELLO]) as other, ModelServer() as service:
        for target in (other.origin, f"https://127.0.0.1:{service.port}", "http://localhost:1"):
            service.replies = [Reply(status=status, headers={"Location": f"{target}/v1/chat"})]
            error, _ = await failed(client_of(service, model), request_)
            assert isinstance(error, ModelRefusedError)
            assert f"{service.origin} redirects to {target}" in str(error)
        assert other.requests == []


@pytest.mark.parametrize("model", ["openai/x", "anthropic/x"])
async def test_a_redirection_to_the_same_origin_is_followed(
    model: str, request_: ModelRequest
) -> None:
    good = anthropic_answer("ok") if model.startswith("anthropic") else answer("ok")
    with ModelServer() as service:
        service.replies = [
            lambda asked: Reply(status=307, headers={"Location": f"{asked.path}?again"}),
            good,
        ]
        assert (await ask(client_of(service, model), request_)).message().text == "ok"
        first, second = service.requests
        assert first.raw == second.raw
        assert [KEY in str(each.headers) for each in service.requests] == [True, True]


async def test_many_requests_at_once_are_spread_over_clients(request_: ModelRequest) -> None:
    """With one client 200 agents took 20 seconds, 15 of them in comparisons of connections."""
    event, count = threading.Event(), 2 * client.MOST + 1
    with ModelServer([HELLO.pause(event)] * count + [HELLO] * 2) as server:
        asked = [asyncio.ensure_future(ask(client_of(server), request_)) for _ in range(count)]
        await server.asked(count)
        busy = client.free_client()
        assert busy.open == 1
        event.set()
        await asyncio.gather(*asked)
        # One after another, they take the first.
        first = client.free_client()
        assert (first is busy, first.open, busy.open) == (False, 0, 0)
        for _ in range(2):
            await ask(client_of(server), request_)
        assert server.connections == count


BODY = b"".join((b"\xef\xbb\xbf", sse("one"), b": comment\n", sse("two\ndata: three"), b"id: 7\n\n",
                 b'{"error": "bare"}\n\n', b"data:last"))  # fmt: skip


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_events_are_the_same_wherever_the_bytes_are_cut(step: int, end: bytes) -> None:
    body, splitter = BODY.replace(b"\n", end), EventSplitter()
    pieces = (body[at : at + step] for at in range(0, len(body), step))
    events = [event for piece in pieces for event in splitter.feed(piece)]
    assert events + splitter.end() == [["one"], ["two", "three"], ['{"error": "bare"}'], ["last"]]
