"""Tools that are too many for each request: found by words, and called as what they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import Lab, call
from ipyagent.agent.approvals import Answer
from ipyagent.schema import DecidedBy, Decision, Scope, ToolStatus
from ipyagent.services.tool_search import MAX_OFFERED, add_search, hide_surplus, rank
from ipyagent.store.runs import Decoder, Encoder
from ipyagent.tools.base import Tool, tool
from planning import PlanLab
from servers.mcp_lab import MCPLab

ALWAYS = Answer(Decision.APPROVED, DecidedBy.BUTTON, scope=Scope.SESSION)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[MCPLab]:
    with MCPLab(tmp_path) as place:
        yield place


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
