"""Calls of services: failures they report, plans, traces, and tools that are found by a search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_lab import User
from starlette.requests import Request
from test_mcp_transports import Plain, at

from harness import YES, Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.errors import InvalidArgumentsError
from ipyagent.schema import DecidedBy, Decision, Outcome, Run, RunStatus, Scope, ToolStatus
from ipyagent.services import (
    MAX_OFFERED,
    add_search,
    find_failure,
    hide_surplus,
    parse_object,
    rank,
)
from ipyagent.store.runs import Decoder, Encoder
from ipyagent.tools.base import Tool, tool
from planning import PlanLab
from servers.mcp_lab import MCPLab
from servers.mcp_sdk import served
from servers.openapi_server import (
    SHOP,
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


REPORTED: list[tuple[Any, str]] = [
    ({"exit_code": 1}, "exit code 1"),
    ({"exit_code": -9, "stdout": ""}, "exit code -9"),
    ({"exitCode": 127, "stderr": "sh: x:\n not found\n"}, "exit code 127: sh: x: not found"),
    ({"returncode": 2, "status": "error"}, "exit code 2"),
    ({"return_code": 2}, "exit code 2"),
    ({"exit_status": 2}, "exit code 2"),
    ({"result": {"exit_code": 3}}, "exit code 3"),
    ({"data": {"exit_code": 3, "error": "x"}}, "exit code 3: x"),
    ({"ok": False, "error": "channel_not_found"}, "ok is false: channel_not_found"),
    ({"success": False, "errors": [{"code": 7}]}, 'success is false: [{"code": 7}]'),
]

FAILED_ACTIONS: list[tuple[Any, str]] = [
    ({"status": "error"}, "status error"),
    ({"status": "Failed", "message": "disk full"}, "status Failed: disk full"),
    ({"id": 7, "status": "failure"}, "status failure"),
    ({"id": 7, "exit_code": 1}, "exit code 1"),
]

DATA: list[Any] = [
    None,
    "exit_code 1",
    [],
    [{"exit_code": 1, "status": "failed"}],
    {"jobs": [{"id": 1, "exit_code": 1, "status": "failed"}]},
    {"items": [], "status": "ok"},
    {"exit_code": 0, "stderr": "a warning"},
    {"exit_code": None},
    {"exit_code": True},
    {"exit_code": "1"},
    {"exit_code": {"min": 1}},
    {"status": 500},
    {"status": "failed over"},
    {"status": ["error"]},
    {"status": "pending", "error": None},
    {"ok": False},
    {"success": False, "error": ""},
    {"success": 0, "error": "x"},
    {"error": "none"},
    {"message": "failed"},
    {"result": "error"},
    {"details": {"exit_code": 1}},
]

RECORDS: list[Any] = [
    {"id": 7, "status": "failed"},
    {"id": 7, "exit_code": 1, "status": "failed", "error": "disk full"},
    {"name": "nightly", "exit_code": 1},
    {"job_id": 7, "success": False, "error": "disk full"},
    {"finished_at": "2026-01-01", "exit_code": 1},
    {"data": {"id": 7, "exit_code": 1}},
    {"status": "failed"},
    {"status": "error", "message": "the last build is red"},
]


@pytest.mark.spec("P35", "P47")
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(("answer", "says"), REPORTED)
def test_a_command_that_failed_is_a_failure(answer: Any, says: str, reads: bool) -> None:
    assert find_failure(answer, reads=reads) == says


@pytest.mark.spec("P35", "P47")
@pytest.mark.parametrize(("answer", "says"), FAILED_ACTIONS)
def test_an_action_whose_answer_says_error_failed(answer: Any, says: str) -> None:
    assert find_failure(answer, reads=False) == says


@pytest.mark.spec("P47")
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("answer", DATA)
def test_ordinary_data_is_no_failure(answer: Any, reads: bool) -> None:
    assert find_failure(answer, reads=reads) is None


@pytest.mark.spec("P47")
@pytest.mark.parametrize("answer", RECORDS)
def test_reading_about_a_failure_is_no_failure(answer: Any) -> None:
    assert find_failure(answer, reads=True) is None


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"', "{} {}", '{"a":' * 100_000, "null"])
def test_only_a_json_object_is_examined(text: str) -> None:
    assert parse_object(text) is None
    assert parse_object(' {"a": 1}\n') == {"a": 1}


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


ALWAYS = Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope.SESSION)


def fat_server() -> list[dict[str, Any]]:
    """Return the tools of a server as several public ones have them: 60 of about 2 kB each."""
    fields = {
        f"field_{n}": {"type": "string", "description": "One of many. " * 8} for n in range(15)
    }
    verbs, things = ("create", "list", "close", "label"), ("issue", "branch", "release")
    return [
        {
            "name": f"{verb}_{thing}_{n}",
            "description": f"{verb.title()} a {thing} of kind {n}.",
            "inputSchema": {
                "type": "object",
                "properties": {"title": {"type": "string"}, **fields},
                "required": ["title"],
            },
        }
        for n in range(5)
        for verb in verbs
        for thing in things
    ]


async def fat_tools(place: MCPLab) -> list[Tool]:
    place.flag.write_text(json.dumps(fat_server()))
    return (await place.servers(place.raw("given", "s")).tools())[0]


async def test_what_does_not_fit_is_found_and_called_as_that_tool(place: MCPLab, lab: Lab) -> None:
    tools = await fat_tools(place)
    assert all(each.hidden for each in tools)
    assert sum(len(json.dumps(each.to_schema())) for each in tools) > 100_000
    title = {"title": "Broken"}
    replies = [
        call("find_tools", query="close an issue"),
        call("call_tool", name="mcp_s_close_issue_3", arguments=title),
        call("call_tool", name="mcp_s_close_issue_3", arguments=title),
        call("call_tool", name="mcp_s_close_issue_3", arguments={"titel": "Broken"}),
        call("call_tool", name="mcp_s_list_branch_0", arguments=title),
        call("call_tool", name="mcp_s_nothing", arguments={}),
        call("call_tool", name="call_tool", arguments={"name": "mcp_s_list_branch_0"}),
        call("mcp_s_close_issue_3", **title),
    ]
    run = await asyncio.to_thread(
        lab.run,
        [*({"calls": [each]} for each in replies), "Done."],
        tools=add_search(tools),
        answer=ALWAYS,
        settings={"policy": {"rules": [{"tool": "mcp_s_list_*", "effect": "deny"}]}},
    )
    found, first, again, wrong, denied, missing, nested, direct = run.executions
    assert found.result.output.startswith("mcp_s_close_issue_0: close_issue_0, by the MCP")
    assert '"required": ["title"]' in found.result.output
    assert "also: mcp_s_" in found.result.output
    assert len(found.result.output) < 20_000
    assert [each.call.name for each in (first, again, wrong)] == ["mcp_s_close_issue_3"] * 3
    assert first.call.arguments == title
    assert first.preview.text.startswith("close_issue_3 of the MCP server s")
    decided = [each.decided_by for each in (first, again, direct)]
    assert decided == ["button", "button", "session"], "once more when its answer was read"
    assert "'titel' was unexpected" in wrong.result.error
    assert (denied.call.name, denied.status) == ("mcp_s_list_branch_0", ToolStatus.DENIED)
    assert "no tool is named 'mcp_s_nothing'; find_tools finds them" in missing.result.error
    assert nested.status is ToolStatus.FAILED
    sent = place.heard("given", "tools/call")
    assert [each["params"]["name"] for each in sent] == ["close_issue_3"] * 3


async def test_requests_stay_small_and_keep_their_prefix(place: MCPLab, lab: Lab) -> None:
    search = add_search(await fat_tools(place))
    calls = [
        call("find_tools", query="issue"),
        call("call_tool", name="mcp_s_close_issue_3", arguments={"title": "x"}),
    ]
    await asyncio.to_thread(
        lab.run, [*({"calls": [each]} for each in calls), "Done."], tools=search, answer=ALWAYS
    )
    requests = lab.client.requests
    assert all(each.tools == requests[0].tools for each in requests)
    names = [each.name for each in requests[0].tools]
    assert {"find_tools", "call_tool"} < set(names)
    assert not any(name.startswith("mcp_") for name in names)
    assert len(json.dumps([each.to_openai() for each in requests[0].tools])) < MAX_OFFERED
    first, last = requests[1].messages, requests[2].messages
    assert last[: len(first)] == first
    (made,) = last[len(first)].tool_calls  # as the model made it: a service may have signed it
    assert (made.name, made.arguments["name"]) == ("call_tool", "mcp_s_close_issue_3")


async def test_the_journal_keeps_both_the_call_that_was_made_and_the_one_that_ran(
    place: MCPLab, lab: Lab
) -> None:
    made = call("call_tool", name="mcp_s_close_issue_3", arguments={"title": "x"})
    search, encoder, decoder = add_search(await fat_tools(place)), Encoder(), Decoder()
    await asyncio.to_thread(lab.run, [{"calls": [made]}, "Done."], tools=search, answer=ALWAYS)
    for number, event in enumerate(lab.watcher.events):
        text = encoder.encode("run", event)
        encoder.note("run", event)
        record = decoder.decode(number, "run", "2026-01-01T00:00:00+00:00", text)
        assert record is not None
        assert record.event == event


async def test_a_plan_is_made_of_the_calls_that_are_meant(place: MCPLab, tmp_path: Path) -> None:
    step = call("call_tool", name="mcp_s_close_issue_3", arguments={"title": "x"})
    search, lab = add_search(await fat_tools(place)), PlanLab(tmp_path)
    run = await asyncio.to_thread(lab.plan, [{"calls": [step]}], tools=search, answer=ALWAYS)
    assert [each.call.name for each in run.plan] == ["mcp_s_close_issue_3"]
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS]
    (sent,) = place.heard("given", "tools/call")
    assert sent["params"]["arguments"] == {"title": "x"}


async def test_a_tool_that_was_chosen_by_name_is_offered_itself(place: MCPLab, lab: Lab) -> None:
    search, chosen = add_search(await fat_tools(place)), ["mcp_s_close_issue_3"]
    await asyncio.to_thread(lab.run, ["Ok."], tools=search, settings={}, allowed_tools=chosen)
    assert [each.name for each in lab.client.requests[0].tools] == chosen


def make_tools(number: int, size: int) -> list[Tool]:
    def act() -> None:
        """Act."""

    act.__doc__ = "x" * size
    return [tool(name=f"t{size}_{n}")(act) for n in range(number)]


def test_what_is_found_is_described_in_full_or_named() -> None:
    huge, *others = hide_surplus([make_tools(1, 21_000), make_tools(6, 4_000)])
    find, *_ = add_search([huge, *(replace(each, hidden=True) for each in others)])
    alone, some = find(query="21000"), find(query="4000")
    assert "x" * 21_000 in alone
    assert some.count("x" * 4_000) == 3
    assert some.endswith("also: t4000_3, t4000_4, t4000_5")


def test_servers_that_fit_together_are_offered_in_full() -> None:
    small, fat, other = make_tools(3, 1_000), make_tools(3, 7_000), make_tools(3, 4_000)
    hidden = [each.name for each in hide_surplus([small, fat, other]) if each.hidden]
    assert hidden == [each.name for each in fat]
    assert add_search(small) == small
    assert [each.name for each in add_search(hide_surplus([fat]))][:2] == [
        "find_tools",
        "call_tool",
    ]


def test_the_best_match_comes_first() -> None:
    texts = [
        "listPullRequests: list the pull requests of a repository",
        "merge_pull_request: merge a pull request",
        "getUser: return a user by id",
        "deleteRepository: delete a repository for ever",
        "id: the identity of something that is idle",
        f"api_s_post7: POST /things7 [body: application/json]: Makes thing 7. {'name ' * 50}",
        "api_s_get7: GET /things7: Gets thing 7.",
    ]
    for query, best in {
        "merge": 1,
        "list pull requests": 0,
        "merge some pull requests": 1,
        "repositories": None,
        "delete the repository": 3,
        "users": 2,
        "identity": 4,
        "make thing 7": 5,
        "ünïcode": None,
        "": None,
    }.items():
        assert [*rank(query, texts), None][0] == best, query
    assert rank("pull", []) == []
