"""Plans with remote commands: steps are retried or repaired, or end the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_lab import User

from harness import YES, call
from ipyagent.errors import InvalidArgumentsError
from ipyagent.schema import Outcome, Run, RunStatus, ToolStatus
from ipyagent.tools.base import Tool
from planning import PlanLab
from servers.mcp_lab import MCPLab
from servers.openapi_server import (
    APIServer,
    Exchange,
    answer,
    described,
    json_answer,
    operation,
    parameter,
)

BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"command": {"type": "string"}, "cwd": {"type": "string"}},
                "required": ["command"],
            }
        }
    },
}

PATHS = {
    "/command": {"post": operation("run", requestBody=BODY)},
    "/check": {"get": operation("check", parameter("query", "depth", type="integer"))},
    "/run": {"post": operation("query_run", parameter("query", "command"))},
    "/jobs": {"get": operation("jobs")},
    "/stop": {"post": operation("stop")},
}

FAILED = {"exit_code": 1, "status": "error", "stderr": "no such command"}


def run_command(exchange: Exchange) -> None:
    """Succeed only for the command `true`."""
    command = json.loads(exchange.seen.body)["command"]
    json_answer({"exit_code": 0} if command == "true" else FAILED)(exchange)


@pytest.fixture
def server() -> Iterator[APIServer]:
    routes = {
        "GET /openapi.json": json_answer(described(PATHS)),
        "POST /command": run_command,
        "POST /stop": json_answer({"status": "failed"}),
        "POST /run": json_answer(FAILED),
        "GET /check": json_answer(FAILED),
        "GET /jobs": json_answer([{"id": 1, "status": "failed", "exit_code": 1}]),
    }
    with APIServer(routes) as server:
        yield server


@pytest.fixture
def tools(tmp_path: Path, server: APIServer) -> dict[str, Tool]:
    user = User(tmp_path / "folder")
    user.services.register("s", server.url)
    server.seen.clear()
    return user.tools


@pytest.fixture
def lab(tmp_path: Path) -> PlanLab:
    return PlanLab(tmp_path)


def request(method: str, path: str, **more: Any) -> dict[str, Any]:
    return call("api_request", service="s", method=method, path=path, **more)


def planned(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"calls": list(calls)}


@pytest.mark.spec("P35", "P37", "P47")
@pytest.mark.parametrize(
    "step",
    [
        request("POST", "/command", body={"command": "fals"}),
        request("POST", "/run", query={"command": "fals"}),
        request("POST", "/stop"),
        request("POST", "/command", body='{"command": "x"}'),
    ],
)
def test_a_failed_remote_command_is_a_failed_step(
    lab: PlanLab, tools: dict[str, Tool], step: dict[str, Any]
) -> None:
    run = lab.plan([planned(step), "I give up."], tools=tools.values(), answer=YES)
    assert run.status is RunStatus.ERROR
    assert run.executions[0].status is ToolStatus.FAILED
    assert run.output.startswith("0 of 1 step done.")
    result = run.executions[0].result
    assert "exit code 1: no such command" in result.error or "status failed" in result.error
    assert json.loads(result.output)["status"] in ("error", "failed")


@pytest.mark.spec("P36", "P37", "P47")
@pytest.mark.parametrize("name", ["api_s_run", "api_request"])
def test_another_command_is_proposed_approved_and_sent(
    lab: PlanLab, tools: dict[str, Tool], server: APIServer, name: str
) -> None:
    def sent(name: str, command: str, **more: str) -> dict[str, Any]:
        body = {"command": command, **more}
        return request("POST", "/command", body=body) | {"name": name}

    asked = []

    def answers(approval: Any) -> Any:
        asked.append(approval.subject)
        return YES

    # For a change the model is offered that operation alone.
    replies = [planned(sent(name, "fals", cwd="src")), planned(sent("api_s_run", "true", cwd="/"))]
    run = lab.plan(replies, tools=tools.values(), answer=answers)
    assert run.outcome is Outcome.SUCCESS
    assert [json.loads(each.body) for each in server.seen] == [
        {"command": "fals", "cwd": "src"},
        {"command": "true", "cwd": "src"},  # only the command may differ
    ]
    assert isinstance(asked[0], Run)
    assert asked[1].concern.startswith("changed after it failed")
    assert [each.name for each in lab.client.requests[-1].tools] == ["api_s_run"]


@pytest.mark.spec("P35", "P47")
def test_a_read_only_step_is_tried_three_times(
    lab: PlanLab, tools: dict[str, Tool], server: APIServer
) -> None:
    step = request("GET", "/check", query={"depth": 1})
    run = lab.plan([planned(step)], tools=tools.values(), answer=YES)
    assert server.targets() == ["GET /check?depth=1"] * 3
    assert run.error == "step 1 (api_s_check) failed: GET /check: exit code 1: no such command."


@pytest.mark.spec("P34", "P47")
@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_an_http_error_ends_the_plan_at_once(
    lab: PlanLab, tools: dict[str, Tool], server: APIServer, status: int
) -> None:
    server.routes |= {"GET /check": answer(b"no", status), "POST /command": answer(b"no", status)}
    for step in (request("GET", "/check"), request("POST", "/command", body={"command": "ls"})):
        server.seen.clear()
        run = lab.plan([planned(step), "never asked"], tools=tools.values(), answer=YES)
        assert run.status is RunStatus.ERROR
        assert len(server.seen) == 1
        assert len(lab.client.requests) == 1


@pytest.mark.spec("P47")
def test_a_list_of_failed_things_is_a_success(lab: PlanLab, tools: dict[str, Tool]) -> None:
    run = lab.plan([planned(request("GET", "/jobs"))], tools=tools.values(), answer=YES)
    assert run.outcome is Outcome.SUCCESS


@pytest.mark.spec("P35", "P37", "P47")
async def test_failed_commands_of_mcp_tools_are_retried_or_repaired(tmp_path: Path) -> None:
    import asyncio

    with MCPLab(tmp_path) as place:
        tools = await place.tools(place.raw("commands"))
        assert {n.removeprefix("mcp_raw_"): t.idempotent for n, t in tools.items()} == {
            "shell": False,
            "again": True,
            "look": True,
        }
        lab = PlanLab(tmp_path)

        def run_plan(replies: list[Any]) -> tuple[Run, list[Any]]:
            place.heard("commands")
            before = len(place.heard("commands", "tools/call"))
            run = lab.plan(replies, tools=tools.values(), answer=YES)
            sent = place.heard("commands", "tools/call")[before:]
            return run, [each["params"]["arguments"].get("command") for each in sent]

        run, sent = await asyncio.to_thread(run_plan, [planned(call("mcp_raw_look"))])
        assert (run.status, len(sent)) == (RunStatus.ERROR, 3)
        assert "exit code 1: no such command" in (run.error or "")
        proposal = planned(call("mcp_raw_shell", command="true"))
        replies = [planned(call("mcp_raw_shell", command="fals")), proposal]
        run, sent = await asyncio.to_thread(run_plan, replies)
        assert (run.outcome, sent) == (Outcome.SUCCESS, ["fals", "true"])
        replies = [planned(call("mcp_raw_again", command="fals")), "No other."]
        run, sent = await asyncio.to_thread(run_plan, replies)
        assert (run.status, sent) == (RunStatus.ERROR, ["fals", "fals"])


@pytest.mark.spec("P35")
@pytest.mark.parametrize("name", ["api_s_run", "api_request"])
def test_a_command_with_control_characters_is_refused(tools: dict[str, Tool], name: str) -> None:
    given: dict[str, Any] = {"service": "s", "method": "POST", "path": "/command"}
    given["body"] = {"command": "ls\x1b[8m; rm x"}
    with pytest.raises(InvalidArgumentsError, match=name):
        tools[name].check_arguments(given)
