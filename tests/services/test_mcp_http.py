"""MCP servers at an address: streamable HTTP first, then the older SSE, and credentials."""

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPError
from servers.mcp_lab import MCPLab
from servers.mcp_sdk import served, serving


def at(url: str, **more: Any) -> MCPServerConfig:
    patience = {"connect_timeout": 5, "execute_timeout": 5, **more}
    return MCPServerConfig(name="web", url=url, **patience)


class Plain:
    """A server of plain JSON answers that keeps the requests; `special` answers come first."""

    def __init__(self, **special: Callable[[Request, Any], Response]) -> None:
        self.special = special
        self.requests: list[tuple[Request, Any]] = []
        self.app = Starlette(
            routes=[Route("/{path:path}", self.answer, methods=["GET", "POST", "DELETE"])]
        )

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body() or b"null")
        self.requests.append((request, body))
        if body is None:
            return Response(status_code=405)
        method = body["method"].replace("/", "_")
        if method in self.special:
            return self.special[method](request, body)
        match method:
            case "initialize":
                return hello(body)
            case "tools_list":
                schema = {"type": "object"}
                return told(body, {"tools": [{"name": "ping", "inputSchema": schema}]})
            case "tools_call":
                return told(body, {"content": [{"type": "text", "text": "pong"}]})
        return Response(status_code=202)

    def headers(self, name: str) -> list[str | None]:
        """Return the headers of each message."""
        return [request.headers.get(name) for request, body in self.requests if body]


def told(body: Any, result: Any) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": result})


def hello(body: Any) -> Response:
    info = {"name": "web", "version": "1"}
    version = body["params"]["protocolVersion"]
    has = {"protocolVersion": version, "capabilities": {"tools": {}}}
    return told(body, {**has, "serverInfo": info})


@pytest.mark.spec("A20")
@pytest.mark.parametrize("transport", [None, "http"])
async def test_streamable_http_works(place: MCPLab, transport: str | None) -> None:
    with serving("http") as address:
        tools = await place.tools(at(address, transport=transport))
        assert (await tools["mcp_web_add"].function(a=2, b=3)).output == "5"
        assert (await tools["mcp_web_fail"].function()).success is False


@pytest.mark.spec("A20")
@pytest.mark.parametrize("transport", [None, "sse"])
async def test_sse_is_used_if_it_is_configured_or_the_server_knows_nothing_else(
    place: MCPLab, transport: str | None
) -> None:
    with serving("sse") as address:
        tools = await place.tools(at(address, transport=transport))
        assert (await tools["mcp_web_add"].function(a=2, b=3)).output == "5"


@pytest.mark.spec("A21")
async def test_a_token_is_read_when_a_request_is_sent(place: MCPLab) -> None:
    plain = Plain()
    with served(plain.app) as address:
        config = at(address, token_env="WEB_TOKEN", header_env={"X-Team": "TEAM"})
        servers = place.servers(config)
        _, (notice,) = await servers.tools()
        assert "the environment variable TEAM is not set" in notice
        assert plain.requests == []
        place.environ |= {"WEB_TOKEN": "first", "TEAM": "red"}
        servers = place.servers(config)
        (ping,), _ = await servers.tools()
        assert set(plain.headers("authorization")) == {"Bearer first"}
        assert set(plain.headers("x-team")) == {"red"}
        place.environ["WEB_TOKEN"] = "second"
        assert (await ping.function()).output == "pong"
        assert plain.headers("authorization")[-1] == "Bearer second"


@pytest.mark.spec("A22")
async def test_a_token_and_headers_given_in_full_are_sent(place: MCPLab) -> None:
    plain = Plain()
    with served(plain.app) as address:
        config = at(address, token="sk-canary-8", headers={"X-Key": "abc"})
        await place.tools(config)
    assert set(plain.headers("authorization")) == {"Bearer sk-canary-8"}
    assert set(plain.headers("x-key")) == {"abc"}
    assert "sk-canary" not in f"{config} {place.servers(config).describe_servers()}"


@pytest.mark.parametrize("value", ["a\nX-Evil: 1", "sk-canary-9\r\n", "sk-ä"])
async def test_an_invalid_header_value_is_neither_sent_nor_shown(place: MCPLab, value: str) -> None:
    place.environ["WEB_TOKEN"] = value
    with served(Plain().app) as address:
        _, (notice,) = await place.servers(at(address, token_env="WEB_TOKEN")).tools()
    assert "the value for the header Authorization is not valid in a header" in notice
    assert "sk-" not in notice


async def test_credentials_are_not_sent_to_another_origin(place: MCPLab) -> None:
    other = Plain()
    with served(other.app) as elsewhere:

        def away(request: Request, body: Any) -> Response:
            return RedirectResponse(f"{elsewhere}/", status_code=int(request.url.path[1:]))

        with served(Plain(initialize=away).app) as address:
            for status in (301, 302, 307, 308):
                config = at(f"{address}/{status}", token="sk-1")
                tools, notices = await place.servers(config).tools()
                assert (len(tools), len(notices)) == (0, 1)
    assert other.requests == []


async def test_a_redirect_in_the_same_origin_is_followed(place: MCPLab) -> None:
    def slash(request: Request, body: Any) -> Response:
        moved = request.url.path == "/mcp/"
        return hello(body) if moved else RedirectResponse("/mcp/", status_code=307)

    plain = Plain(initialize=slash)
    with served(plain.app) as address:
        tools = await place.tools(at(f"{address}/mcp", token="sk-1"))
    assert list(tools) == ["mcp_web_ping"]
    assert set(plain.headers("authorization")) == {"Bearer sk-1"}


async def test_proxies_of_the_environment_are_not_used(
    place: MCPLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with served(Plain().app) as address:
        assert list(await place.tools(at(address, token="sk-1"))) == ["mcp_web_ping"]


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_refused_call_is_reported_with_its_status(place: MCPLab, status: int) -> None:
    def refused(request: Request, body: Any) -> Response:
        return Response("no", status_code=status)

    with served(Plain(tools_call=refused).app) as address:
        tools = await place.tools(at(address))
        with pytest.raises(MCPError, match=rf"\(HTTP {status}\)"):
            await tools["mcp_web_ping"].function()


async def test_if_both_transports_fail_the_error_of_the_usual_one_is_reported(
    place: MCPLab,
) -> None:
    def refused(request: Request, body: Any) -> Response:
        error = {"code": -32000, "message": "missing API key"}
        answer = {"jsonrpc": "2.0", "id": body["id"], "error": error}
        return JSONResponse(answer, status_code=400)

    with served(Plain(initialize=refused).app) as address:
        _, (notice,) = await place.servers(at(address)).tools()
    assert "missing API key (HTTP 400)" in notice


async def test_an_unreachable_server_is_reported_at_once(place: MCPLab) -> None:
    with served(Plain().app) as address:
        pass
    _, (notice,) = await place.servers(at(address)).tools()
    assert "The MCP server web has no tools now: All connection attempts failed" in notice


def endless(*pieces: bytes) -> StreamingResponse:
    def body() -> Iterator[bytes]:
        while True:
            yield from pieces

    kind = "text/event-stream" if pieces[0].startswith(b":") else "application/json"
    return StreamingResponse(body(), media_type=kind)


FLOODS = {
    "json": lambda request, body: endless(b" " * 100_000),
    "comments": lambda request, body: endless(b": noise\n\n" * 1000),
    "one event": lambda request, body: endless(b": x\ndata: ", *[b"x" * 100_000] * 1000),
    "packed": lambda request, body: Response(
        gzip.compress(b" " * 100_000_000),
        media_type="application/json",
        headers={"Content-Encoding": "gzip"},
    ),
    "not json": lambda request, body: Response("<html>", media_type="text/html"),
    "half": lambda request, body: Response(b'{"jsonrpc"', media_type="application/json"),
}


@pytest.mark.spec("M28")
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_an_endless_or_senseless_answer_fails_in_time(
    place: MCPLab, flood: Callable[[Request, Any], Response]
) -> None:
    with served(Plain(tools_call=flood).app) as address:
        tools = await place.tools(at(address, execute_timeout=0.7), place.raw("good"))
        with pytest.raises(MCPError, match="the MCP server web: "):
            await tools["mcp_web_ping"].function()
        assert (await tools["mcp_raw_echo"].function(text="hi")).output == "hi"


async def test_a_server_that_was_away_is_reconnected(place: MCPLab) -> None:
    with served(Plain().app) as address:
        servers = place.servers(at(address))
        (ping,), _ = await servers.tools()
    with pytest.raises(MCPError, match="the MCP server web: "):
        await ping.function()
    with served(Plain().app, int(address.rpartition(":")[2])):
        assert "connected and offers 1 tool" in await asyncio.to_thread(servers.refresh, "web")
        assert (await ping.function()).output == "pong"


async def test_a_session_that_the_server_forgot_is_started_again(place: MCPLab) -> None:
    sessions: list[str] = []

    def begin(request: Request, body: Any) -> Response:
        sessions.append(f"s{len(sessions)}")
        answer = hello(body)
        answer.headers["mcp-session-id"] = sessions[-1]
        return answer

    def listing(request: Request, body: Any) -> Response:
        if request.headers["mcp-session-id"] != sessions[-1]:
            return Response(status_code=404)
        return told(body, {"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]})

    with served(Plain(initialize=begin, tools_list=listing).app) as address:
        (ping,), _ = await place.servers(at(address)).tools()
        sessions.append("the server was restarted")
        assert (await ping.function()).output == "pong"
    assert sessions[-1] == "s2"
