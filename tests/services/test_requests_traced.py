"""The trace id of a run is sent to every service that the run calls."""

import asyncio
from pathlib import Path

import pytest
from api_lab import User
from starlette.requests import Request
from test_mcp_http import Plain, at

from harness import YES, Lab, call
from servers.mcp_lab import MCPLab
from servers.mcp_sdk import served
from servers.openapi_server import SHOP, APIServer, described, json_answer, operation, parameter


@pytest.mark.spec("P08")
def test_requests_to_services_carry_the_trace_id(tmp_path: Path, lab: Lab) -> None:
    with APIServer({"GET /openapi.json": json_answer(SHOP)}) as server:
        server.routes |= {"GET /items": json_answer([]), "POST /items": json_answer({})}
        user = User(tmp_path / "folder")
        user.services.register("s", server.url)
        server.seen.clear()
        calls = [user.calls("api_s_listItems"), user.calls("api_s_addItem", body={"name": "x"})]
        run = lab.run([{"calls": calls}, "Done."], tools=user.tools.values(), answer=YES)
        assert run.trace_id
        assert [each.headers["X-Trace-Id"] for each in server.seen] == [run.trace_id] * 2


@pytest.mark.spec("P08")
def test_a_described_parameter_of_the_same_name_takes_precedence(tmp_path: Path, lab: Lab) -> None:
    own = described({"/x": {"get": operation("x", parameter("header", "x-trace-id"))}})
    with APIServer({"GET /openapi.json": json_answer(own), "GET /x": json_answer({})}) as server:
        user = User(tmp_path / "folder")
        user.services.register("s", server.url)
        server.seen.clear()
        step = user.calls("api_s_x", **{"x-trace-id": "mine"})
        lab.run([{"calls": [step]}, "Done."], tools=user.tools.values(), answer=YES)
        sent = [v for k, v in server.seen[0].headers.items() if k.lower() == "x-trace-id"]
        assert sent == ["mine"]


@pytest.mark.spec("P08")
async def test_calls_of_mcp_servers_carry_the_trace_id(tmp_path: Path, lab: Lab) -> None:
    plain = Plain()
    with MCPLab(tmp_path) as place, served(plain.app) as address:
        tools = await place.tools(at(f"{address}/mcp"), place.raw("good"))
        calls = [call("mcp_web_ping"), call("mcp_raw_echo", text="x")]
        run = await asyncio.to_thread(
            lab.run, [{"calls": calls}, "Done."], tools=tools.values(), answer=YES
        )
        assert all(each.result and each.result.success for each in run.executions)
        (sent,) = place.heard("good", "tools/call")
        assert sent["params"]["_meta"]["ipyagent/trace_id"] == run.trace_id

    def of_calls(request: Request, body: dict[str, object] | None) -> bool:
        return bool(body) and body["method"] == "tools/call"

    headers = [r.headers.get("x-trace-id") for r, body in plain.requests if of_calls(r, body)]
    assert headers == [run.trace_id]
