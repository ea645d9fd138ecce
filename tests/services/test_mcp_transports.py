"""MCP servers that are programs or at an address: they end, die, hang and flood without harm."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ipyagent.config import MCPServerConfig
from ipyagent.errors import MCPConnectionError, MCPError, MCPToolCallError
from ipyagent.services.mcp.transports import LineSplitter
from patience import PATIENCE, until
from servers.mcp_lab import RAW, MCPLab, gone, named
from servers.mcp_sdk import served, serving

KERNEL = """
import asyncio, os, sys
from pathlib import Path
from ipyagent.config import MCPServerConfig
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.services.mcp import ServerSources
raw, log, home, *hows = sys.argv[1:]
configs = [
    MCPServerConfig(name=how, command=sys.executable, args=["-IS", raw, how, log]) for how in hows
]
servers = MCPServers(ServerSources(Path(home), Path(home), os.environ, configs))
tools, notices = asyncio.run(servers.tools())
print(len(tools), *notices, flush=True)
"""


def kernel(tmp_path: Path, *hows: str, code: str = "", before: str = "") -> subprocess.Popen[str]:
    """Start a process that uses such servers and then runs `code`."""
    words = [str(RAW), str(tmp_path / "log"), str(tmp_path), *hows]
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    return subprocess.Popen(
        [sys.executable, "-c", before + KERNEL + code, *words],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def pids(tmp_path: Path) -> list[int]:
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    return next(each["pids"] for each in said if "pids" in each)


@pytest.mark.slow
async def test_servers_end_with_the_kernel_and_print_nothing(
    tmp_path: Path,
) -> None:
    with kernel(tmp_path, "stubborn", "garbage", "dies", "flood-stderr") as process:
        said, errors = process.communicate(timeout=PATIENCE)
    assert (errors, process.returncode) == ("", 0)
    assert said.startswith("3 The MCP server dies has no tools now")
    assert len(said.splitlines()) == 1
    await until(lambda: all(map(gone, pids(tmp_path))))


async def test_servers_end_when_the_kernel_is_killed(tmp_path: Path) -> None:
    with kernel(tmp_path, "stubborn", code="sys.stdin.read()") as process:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        server, child = pids(tmp_path)
        assert not gone(server)
        process.kill()
        process.communicate(timeout=PATIENCE)
    await until(lambda: gone(server))
    os.kill(child, signal.SIGKILL)  # what a server starts itself is its own affair then


def test_servers_start_where_no_program_can_end_them_with_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "setpriv").write_text("#!/bin/sh\nexit 1")
    (tmp_path / "setpriv").chmod(0o755)
    before = f"import os; os.environ['PATH'] = {str(tmp_path)!r} + ':' + os.environ['PATH']\n"
    with kernel(tmp_path, "good", before=before) as process:
        said, errors = process.communicate(timeout=PATIENCE)
    assert (said, errors) == ("1\n", "")


def test_without_the_sdk_there_is_one_notice(tmp_path: Path) -> None:
    before = "import sys; sys.modules['mcp'] = None\n"
    with kernel(tmp_path, "good", before=before) as process:
        said, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""
    assert said.startswith("0 MCP servers need the MCP SDK")
    assert said.endswith("pip install 'ipyagent[mcp]'\n")
    assert not (tmp_path / "log").exists()


def test_nothing_heavy_is_imported_before_a_server_is_needed(tmp_path: Path) -> None:
    code = """
import asyncio, os, sys
from pathlib import Path
from ipyagent.services.mcp.servers import MCPServers
from ipyagent.services.mcp import ServerSources
here = Path.cwd()
assert asyncio.run(MCPServers(ServerSources(here, here, os.environ)).tools()) == ([], [])
print(sorted({"mcp", "mcp_types", "httpx2", "jsonschema", "anyio"} & sys.modules.keys()))
"""
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.spec("M28")
async def test_dead_servers_together_take_one_time_limit_and_only_once(place: MCPLab) -> None:
    silent = [place.raw("silent", f"s{n}", connect_timeout=3) for n in range(3)]
    mute = place.raw("mute", "m", connect_timeout=3)
    servers = place.servers(*silent, place.raw("good"), mute)
    await place.tools(place.raw("good", "warm"))  # the SDK is imported once
    asked = asyncio.create_task(servers.tools())
    await until(lambda: running(place, "silent") == 3)  # none waits for another's limit
    tools, notices = await asked
    assert list(named(tools)) == ["mcp_raw_echo"]
    assert [n for n in notices if "it did not answer within 3 s" in n] == notices
    assert len(notices) == 4
    assert "`%agent mcp refresh s0`" in notices[0]
    begun = place.heard("silent")
    again, notices = await servers.tools()
    assert (len(again), len(notices)) == (1, 4)
    assert place.heard("silent") == begun
    assert len(place.heard("mute", "tools/list")) == 1


def running(place: MCPLab, how: str) -> int:
    """Return the number of running servers of that kind."""
    commands = (each.info["cmdline"] for each in psutil.process_iter(["cmdline"]))
    return sum(command == place.words(how) for command in commands)


async def test_a_program_that_fails_says_why_and_is_not_started_again(place: MCPLab) -> None:
    servers = place.servers(place.raw("dies"))
    for _ in range(3):
        tools, notices = await servers.tools()
        assert tools == []
        assert "it ended before it answered; its last output: no licence found." in notices[0]
    assert len(place.heard("dies")) == 1


async def test_of_a_program_that_crashes_the_error_is_told_without_the_frames(
    place: MCPLab,
) -> None:
    _, (notice,) = await place.servers(place.raw("crashes")).tools()
    assert "its last output: Traceback (most recent call last):" in notice
    assert "JSONDecodeError: Expecting value: line 1 column 1 (char 0)" in notice
    assert "File" not in notice


@pytest.mark.parametrize("command", ["no-such-program", "./nothing", "/"])
async def test_a_missing_program_is_named(place: MCPLab, command: str) -> None:
    config = place.raw("good").model_copy(update={"command": command})
    _, (notice,) = await place.servers(config).tools()
    assert f"there is no program '{command}' to start; is it installed?" in notice


@pytest.mark.spec("M28")
async def test_a_hanging_call_ends_in_time_and_the_server_stays_usable(place: MCPLab) -> None:
    tools = await place.tools(place.raw("hangs-on-call", execute_timeout=0.3))
    for _ in range(2):
        with pytest.raises(MCPToolCallError, match=r"no answer within 0\.3 s"):
            await tools["mcp_raw_echo"].function(text="hi")
    assert len(place.heard("hangs-on-call", "initialize")) == 1


@pytest.mark.spec("M28")
async def test_silence_has_a_time_limit_of_its_own(place: MCPLab) -> None:
    quiet = place.raw("hangs-on-call", read_timeout=0.5, execute_timeout=20)
    tools = await place.tools(quiet)
    with pytest.raises(MCPToolCallError, match=r"no sign of life for 0\.5 s"):
        await tools["mcp_raw_echo"].function(text="hi")


async def test_a_server_that_dies_is_restarted_twice_and_then_the_user_is_asked(
    place: MCPLab,
) -> None:
    servers = place.servers(place.raw("dies-on-call"))
    (echo,), _ = await servers.tools()
    for _ in range(3):
        with pytest.raises(MCPConnectionError, match="it ended the connection"):
            await echo.function(text="hi")
    assert len(place.heard("dies-on-call", "initialize")) == 3
    with pytest.raises(MCPConnectionError, match="it ended 3 times"):
        await echo.function(text="hi")
    tools, (notice,) = await servers.tools()
    assert tools == []
    assert "`%agent mcp refresh raw` tries again" in notice
    assert len(place.heard("dies-on-call", "initialize")) == 3
    assert "1 tool" in await asyncio.to_thread(servers.refresh, "raw")
    assert len((await servers.tools())[0]) == 1


async def test_a_flooding_server_does_not_block_others(place: MCPLab) -> None:
    floods = [place.raw(f"flood-{what}", what) for what in ("notes", "stderr")]
    tools = await place.tools(*floods, place.raw("good"), place.raw("garbage", "g"))
    for each in tools.values():
        assert (await each.function(text="hi")).output == "hi"


@pytest.mark.slow
async def test_an_endless_message_takes_a_bounded_amount_of_memory(
    place: MCPLab,
) -> None:
    naive = StdioServerParameters(command="head", args=["-c", "20000000", "/dev/zero"])
    assert await peak(_drain(naive)) > 20_000_000
    tools = await place.tools(place.raw("huge"), place.raw("good", "other"))
    error = await peak(asyncio.wait_for(_fails(tools["mcp_raw_echo"]), PATIENCE), most=45_000_000)
    assert "a message of more than 16,000,000 bytes" in str(error)
    assert (await tools["mcp_other_echo"].function(text="hi")).output == "hi"


async def _drain(naive: StdioServerParameters) -> None:
    async with stdio_client(naive) as (received, _):
        async for _ in received:
            return


async def _fails(tool) -> MCPConnectionError:
    with pytest.raises(MCPConnectionError) as caught:
        await tool.function(text="hi")
    return caught.value


async def peak(work, most: int | None = None):
    """Return the peak of memory; with a limit, the result instead."""
    tracemalloc.start()
    try:
        result = await work
        reached = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if most is None:
        return reached
    assert reached < most
    return result


def test_lines_are_joined_from_chunks() -> None:
    lines = LineSplitter()
    found = [line for piece in (b"a", b"b\nc", b"\n\n", b"d") for line in lines.feed(piece)]
    assert found == [b"ab", b"c", b""]
    assert not lines.too_long


@pytest.mark.parametrize(("how", "count"), [("many", 200), ("pages", 50), ("empty-pages", 0)])
async def test_endless_lists_are_cut_with_a_notice(place: MCPLab, how: str, count: int) -> None:
    tools, (notice,) = await place.servers(place.raw(how)).tools()
    assert len(tools) == count
    assert "more than 200 tools or 50 pages of them; the first are used" in notice
    if tools:
        assert (await tools[0].function(text="hi")).output == "hi"


@pytest.mark.parametrize(("how", "pages"), [("last-page", 1), ("stuck", 2)])
async def test_a_list_ends_when_the_next_page_is_missing_or_the_same(
    place: MCPLab, how: str, pages: int
) -> None:
    assert list(await place.tools(place.raw(how))) == ["mcp_raw_echo"]
    assert len(place.heard(how, "tools/list")) == pages


async def test_a_refusal_at_the_start_is_reported_in_the_servers_words(place: MCPLab) -> None:
    _, (notice,) = await place.servers(place.raw("refuses-hello")).tools()
    assert "missing API key" in notice
    assert "ended" not in notice


async def test_a_closed_server_leaves_no_process_behind(place: MCPLab) -> None:
    servers = place.servers(place.raw("stubborn"))
    await servers.tools()
    (pids,) = [each["pids"] for each in place.heard("stubborn") if "pids" in each]
    assert not any(map(gone, pids))
    servers.close()
    await until(lambda: all(map(gone, pids)))


async def test_asyncio_keeps_the_transport_of_a_process() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await process.wait()
    transport = getattr(process, "_transport", None)
    assert isinstance(transport, asyncio.SubprocessTransport), (
        "Process._transport is gone: the pipes of an MCP server stay open while a child of it "
        "lives. Look for a way to close them, and change services/mcp/transports.py"
    )
    transport.close()


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
        assert "the environment variable WEB_TOKEN is not set" in notice
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


@pytest.mark.parametrize("value", ["a\nX-Evil: 1", "sk-canary\r\n9", "sk-€"])
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
