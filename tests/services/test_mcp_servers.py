"""Tools of MCP servers as tools of the agent, also of servers that break the protocol slightly."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from typing import Any

import pytest
from PIL import Image

from harness import NO, YES, Lab, call
from ipyagent.errors import InvalidArgumentsError, MCPError, MCPToolCallError
from ipyagent.schema import ToolResult, ToolStatus
from ipyagent.services import name_tools
from ipyagent.tools.base import Tool, Toolbox
from ipyagent.tools.file_tools import file_tools
from patience import until
from servers.mcp_lab import MCPLab, named
from service_rules import broken_rules


@pytest.mark.spec("A19")
async def test_a_call_reaches_the_server_and_its_card_names_server_and_tool(
    place: MCPLab, lab: Lab
) -> None:
    tools = await place.tools(place.raw("good", "my srv"))
    (name,) = tools
    assert re.fullmatch(r"mcp_my_srv_echo_[0-9a-f]{8}", name)
    replies = [{"calls": [call(name, text="hi", times=2)]}, "Done."]
    run = await asyncio.to_thread(lab.run, replies, tools=tools.values(), answer=YES)
    (execution,) = run.executions
    assert execution.result.output == "hihi"
    assert execution.sensitive
    assert execution.preview.text.startswith("echo of the MCP server my srv\n")
    assert '"text": "hi"' in execution.preview.text
    (sent,) = place.heard("good", "tools/call")
    assert sent["params"]["name"] == "echo"
    assert sent["params"]["arguments"] == {"text": "hi", "times": 2}


async def test_a_denied_call_never_reaches_the_server(place: MCPLab, lab: Lab) -> None:
    tools = await place.tools(place.raw("good"))
    replies = [{"calls": [call("mcp_raw_echo", text="hi")]}, "Done."]
    run = await asyncio.to_thread(lab.run, replies, tools=tools.values(), answer=NO)
    (execution,) = run.executions
    assert execution.status is ToolStatus.DENIED
    assert place.heard("good", "tools/call") == []


@pytest.mark.spec("D12")
async def test_arguments_are_passed_on_unchanged(place: MCPLab) -> None:
    echo = (await place.tools(place.raw("good")))["mcp_raw_echo"]
    assert echo.definition().input_schema["properties"]["schema"]["anyOf"][0] == {"type": "object"}
    for given in ({"text": "a"}, {"text": "a", "schema": {"b": None}}, {"text": "", "schema": "x"}):
        await echo.function(**echo.check_arguments(given))
        assert place.heard("good", "tools/call")[-1]["params"]["arguments"] == given
    for wrong in ({}, {"text": 1}, {"text": "a", "schema": 5}, {"text": "a", "more": 1}):
        with pytest.raises(InvalidArgumentsError):
            echo.check_arguments(wrong)


@pytest.mark.spec("D12")
async def test_an_error_of_the_server_is_a_failure(place: MCPLab) -> None:
    tools = await place.tools(place.raw("fails", "a"), place.raw("refuses", "b"))
    result = await tools["mcp_a_echo"].function(text="x")
    assert (result.success, result.error) == (False, "no such city")
    with pytest.raises(MCPToolCallError, match="the MCP server b: the disk is full"):
        await tools["mcp_b_echo"].function(text="x")


@pytest.mark.parametrize(
    ("flaw", "output"),
    [
        ("nulls", "hello"),
        ("nulls in a block", "hello"),
        ("no content", '{"a": 1}'),
        ("null content", '{"a": 1}'),
        ("a list", "[1, 2]"),
        ("a text", "hello"),
        ("a block", "hello"),
        ("texts", "hello\nhello"),
        ("unknown", 'hello\n{"type": "json", "json": {"a": 1}}'),
        ("half", "cut ?"),
        ("a summary", 'hello\n{"rows": [{"id": 7}], "ü": "x"}'),
        ("the data", '{\n  "b": "ü",\n  "a": 1\n}'),
        ("data in prose", 'hello\nFound: {"a":[1,2]}.'),
        ("wrapped text", "hello"),
        ("wrapped list", "hello\nhello"),
        ("named text", "hello"),
        ("named number", '1\n{"rows": 1}'),
        ("named list", '[{"a": 1}]'),
        ("nothing more", "hello"),
    ],
)
async def test_neither_a_flaw_nor_a_summary_loses_the_result_of_a_call(
    place: MCPLab, flaw: str, output: str
) -> None:
    tools = await place.tools(place.raw("flawed"))
    result = await tools["mcp_raw_echo"].function(text=flaw)
    assert (result.success, result.output) == (True, output)


@pytest.mark.spec("A44")
async def test_a_useless_server_causes_an_mcp_error_and_no_traceback(
    place: MCPLab, lab: Lab
) -> None:
    tools = await place.tools(place.raw("nonsense"))
    with pytest.raises(MCPError, match="does not follow the protocol"):
        await tools["mcp_raw_echo"].function(text="x")
    replies = [{"calls": [call("mcp_raw_echo", text="hi")]}, "Done."]
    run = await asyncio.to_thread(lab.run, replies, tools=tools.values(), answer=YES)
    (execution,) = run.executions
    assert str(execution.result.error).startswith("the MCP server raw: its answer")
    assert run.output == "Done."


@pytest.mark.spec("A19", "D12")
async def test_odd_tools_get_valid_names_and_only_bad_ones_are_left_out(
    place: MCPLab,
) -> None:
    tools, notices = await place.servers(place.raw("odd", "o.d d")).tools()
    names = [each.name for each in tools]
    assert len(set(names)) == len(names) == 11
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    said = "\n".join(notices)
    for bad in ("'no schema'", "'5'", "'a list'", "nonsense", "large"):
        assert bad in said
    good = next(each for each in tools if "get_it" in each.name)
    assert (await good.function()).success


def test_names_do_not_depend_on_order_and_never_pass_to_another_tool() -> None:
    def named(*pairs: tuple[str, str]) -> dict[tuple[str, str], str]:
        return name_tools({pair: "_".join(("mcp", *pair)) for pair in pairs})

    pairs = [("s", "get.it"), ("s", "get it"), ("s", "get_it"), ("a", "b_c"), ("a_b", "c")]
    names = named(*pairs)
    assert names == named(*reversed(pairs))
    assert len(set(names.values())) == len(pairs)
    assert names[("s", "get_it")] == "mcp_s_get_it"
    for pair in pairs[:3]:
        assert named(pair)[pair] == names[pair]
    (long,), (other,) = (named(("s", "x" * count)).values() for count in (100, 101))
    assert (len(long), long != other) == (64, True)


async def test_a_server_cannot_replace_a_built_in_tool(place: MCPLab, lab: Lab) -> None:
    tools = await place.tools(place.raw("good", "read_file"))
    ours = [each.name for each in file_tools(lab.environment.workspace, allow_delete=True)]
    box = Toolbox([*file_tools(lab.environment.workspace, allow_delete=True), *tools.values()])
    assert len(box) == len(ours) + 1
    assert box.get("read_file").function is not tools["mcp_read_file_echo"].function


async def test_descriptions_are_short_and_hide_nothing(place: MCPLab) -> None:
    tools = named((await place.servers(place.raw("odd", "o")).tools())[0])
    assert "Ared⟨U+202E⟩gnp.exe⟨U+200B⟩" in tools["mcp_o_hidden"].description
    assert len(tools["mcp_o_long"].description) < 2_200
    assert all("by the MCP server o." in each.description for each in tools.values())


@pytest.mark.spec("A19")
async def test_annotations_are_shown_and_never_loosen_the_policy(place: MCPLab) -> None:
    tools = named((await place.servers(place.raw("odd", "o")).tools())[0])
    assert all(each.sensitive and each.can_reach_out() for each in tools.values())
    reads, destroys = tools["mcp_o_reads"], tools["mcp_o_destroys"]
    assert "Only reads, by the MCP server o. It says that this only reads." in reads.description
    assert asked_why(reads) is None
    assert asked_why(destroys) == "the MCP server o says that this tool may destroy something"
    assert reads.source() == "the MCP server o"


def asked_why(tool: Tool) -> str | None:
    return tool.always_asks()


async def test_no_schema_makes_validation_take_forever(place: MCPLab) -> None:
    tools = (await place.servers(place.raw("odd", "o")).tools())[0]
    pattern, references, deep = (
        next(each for each in tools if word in each.name)
        for word in ("slow_pattern", "slow_references", "deep")
    )
    with pytest.raises(InvalidArgumentsError, match="does not match"):
        pattern.check_arguments({"x": "a" * 60 + "b"})
    references.check_arguments({"x": "a"})
    deep.check_arguments({})
    for each in (references, deep):
        with pytest.raises(InvalidArgumentsError, match="y"):
            each.check_arguments({"y": 1})


async def test_numbers_and_images_of_a_server_made_with_the_sdk(
    place: MCPLab,
) -> None:
    tools = await place.tools(place.sdk())
    assert set(tools) == {f"mcp_demo_{name}" for name in ("add", "picture", "fail")}
    assert all(each.sensitive for each in tools.values())

    async def said(name: str, /, **arguments: Any) -> str:
        each = tools[f"mcp_demo_{name}"]
        return str((await each.function(**each.check_arguments(arguments))).output)

    assert await said("add", a=1) == "2"
    assert await said("add", a=1, b=5) == "6"
    picture = await tools["mcp_demo_picture"].function()
    assert [(each.media_type, each.width) for each in picture.images] == [("image/png", 1)]
    assert (await tools["mcp_demo_fail"].function()).success is False


async def test_requests_of_a_server_are_declined(place: MCPLab) -> None:
    tools = await place.tools(place.raw("asks"))
    assert (await tools["mcp_raw_echo"].function(text="hi")).output == "hi"
    await until(lambda: sum("error" in message for message in place.heard("asks")) == 3)
    assert not any("result" in message for message in place.heard("asks"))


async def test_a_cancelled_call_is_cancelled_at_the_server(place: MCPLab) -> None:
    tools = await place.tools(place.raw("hangs-on-call"))
    calling = asyncio.create_task(tools["mcp_raw_echo"].function(text="hi"))
    await until(lambda: place.heard("hangs-on-call", "tools/call"))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: place.heard("hangs-on-call", "notifications/cancelled"))
    (sent,) = place.heard("hangs-on-call", "tools/call")
    (told,) = place.heard("hangs-on-call", "notifications/cancelled")
    assert told["params"]["requestId"] == sent["id"]


TEXT = {"type": "string"}


async def offered(place: MCPLab, *tools: Any) -> tuple[dict[str, Tool], str]:
    """Return the tools of a server that offers these, and the notices."""
    place.flag.write_text(json.dumps(tools))
    made, notices = await place.servers(place.raw("given", "s")).tools()
    for each in made:
        assert broken_rules(each.definition()) == [], each.name
    return {each.name: each for each in made}, "\n".join(notices)


def described(name: str, schema: Any) -> dict[str, Any]:
    return {"name": name, "description": "It does something.", "inputSchema": schema}


async def test_every_tool_is_offered_so_that_services_take_it(place: MCPLab) -> None:
    route = {"route": TEXT, "file": TEXT}
    schemas = {
        "either": {"type": "object", "properties": route,
                   "anyOf": [{"required": ["route"]}, {"required": ["file"]}]},
        "refers": {"$ref": "#/definitions/Args",
                   "definitions": {"Args": {"type": "object", "properties": {"a": TEXT}}}},
        "bare": {"type": "object", "properties": {"ids": {"type": "array"}}},
        "named": {"type": "object", "properties": {"StartTime<": TEXT}},
        "draft4": {"properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}},
        "draft3": {"type": ["object"], "properties": {"n": {"type": "any", "required": True}}},
        "nulls": {"type": None, "properties": {"x": None, "y": True, "z": "string"}, "$schema": 4},
        "text": {"type": "OBJECT", "properties": {"x": TEXT}, "required": "x"},
        "no pattern": {"properties": {"x": {"type": "string", "pattern": r"\p{L}(?<a>"}}},
        "empty": {},
        "php": {"type": "object", "properties": [], "required": []},
        "anything": True,
    }  # fmt: skip
    tools, notices = await offered(place, *(described(n, s) for n, s in schemas.items()))
    assert (len(tools), notices) == (len(schemas), "")
    refers = tools["mcp_s_refers"].definition().input_schema
    assert refers == {"type": "object", "properties": {"a": TEXT}}
    assert tools["mcp_s_draft3"].definition().input_schema["required"] == ["n"]
    assert tools["mcp_s_text"].definition().input_schema["required"] == ["x"]
    assert (
        '"anyOf": [{"required": ["route"]}, {"required": ["file"]}]'
        in tools["mcp_s_either"].definition().description
    )
    for name, wrong in {
        "either": {}, "refers": {"a": 1}, "bare": {"ids": 1}, "draft4": {"n": 0}, "draft3": {},
        "nulls": {"z": 1}, "text": {},
    }.items():  # fmt: skip
        with pytest.raises(InvalidArgumentsError):
            tools[f"mcp_s_{name}"].check_arguments(wrong)
    assert tools["mcp_s_anything"].check_arguments({"x": [1]}) == {"x": [1]}


async def test_arguments_reach_the_server_under_its_own_names(place: MCPLab) -> None:
    inner = {"type": "object", "properties": {"a b": TEXT}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"StartTime<": TEXT, "in[]": {"items": inner}}}
    tools, _ = await offered(place, described("query", schema))
    tool = tools["mcp_s_query"]
    told = tool.definition().input_schema["properties"]
    assert list(told) == ["StartTime_", "in__"]
    checked = tool.check_arguments({"StartTime_": "now", "in__": [{"a b": "x"}]})
    own = {"StartTime<": "now", "in[]": [{"a b": "x"}]}
    shown = tool.preview(**checked).text
    assert '"StartTime<": "now"' in shown
    assert '"a b": "x"' in shown
    await tool.function(**checked)
    assert place.heard("given", "tools/call")[-1]["params"]["arguments"] == own


async def test_a_bad_tool_is_left_out_with_its_reason_and_the_others_stay(place: MCPLab) -> None:
    bad = {
        "list": ([1], "inputSchema"),
        "false": (False, "inputSchema"),
        "null": (None, "inputSchema"),
        "array": ({"type": "array"}, "inputSchema.type: Input should be 'object'"),
        "type": ({"properties": {"x": {"type": "nonsense"}}}, "'nonsense' is not a type"),
        "large": ({"description": "y" * 200_000}, "characters; at most 100,000 are taken"),
        "elsewhere": ({"$ref": "https://example.org/a.json"}, "only a reference"),
    }
    listed = [described(name, schema) for name, (schema, _) in bad.items()]
    tools, notices = await offered(place, *listed, described("good", {}))
    assert list(tools) == ["mcp_s_good"]
    for name, (_, reason) in bad.items():
        (line,) = [
            each for each in notices.splitlines() if f"its tool {name}" in each.replace("'", "")
        ]
        assert reason in line, name


def reply(result: Any, **more: Any) -> str:
    """Return the line of an answer."""
    text = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": result, **more})
    return text.replace('"ID"', "ID")


async def call_written(place: MCPLab, line: str, name: str = "raw") -> ToolResult:
    """Return the result of a call that a server answers with this line."""
    place.flag.write_text(json.dumps({"tools/call": line}))
    tools = await place.tools(place.raw("written", name))
    result: ToolResult = await tools[f"mcp_{name}_echo"].function(text="x")
    return result


VERSION = "2025-06-18"
INFO = {"name": "raw", "version": "1"}
GREETINGS = [
    reply({"protocolVersion": VERSION, "capabilities": {}, "serverInfo": INFO}),
    reply({"protocolVersion": VERSION, "capabilities": None}),
    reply({"protocolVersion": VERSION, "capabilities": {"tools": []}, "serverInfo": {"name": "x"}}),
    reply({"protocolVersion": VERSION, "capabilities": {"tools": True, "prompts": False}}),
    "[" + reply({"protocolVersion": VERSION, "capabilities": {"tools": {}}}) + "]",
    "\ufeff" + reply({"protocolVersion": VERSION, "capabilities": {"tools": {}}}),
    reply({"protocolVersion": VERSION, "capabilities": {"tools": {}}}).replace("jsonrpc", "rpc"),
    reply({"capabilities": {"tools": {}}}),
    reply({"protocolVersion": None, "serverInfo": INFO}),
    reply({"protocolVersion": 2025, "capabilities": {"tools": {}}, "serverInfo": INFO}),
    "Server started " + reply({"protocolVersion": VERSION, "capabilities": {"tools": {}}}),
]


async def test_a_server_that_says_too_little_about_itself_still_has_its_tools(
    place: MCPLab,
) -> None:
    for number, greeting in enumerate(GREETINGS):
        place.flag.write_text(json.dumps({"initialize": greeting}))
        tools = await place.tools(place.raw("written", f"s{number}"))
        assert list(tools) == [f"mcp_s{number}_echo"], greeting


async def test_a_part_of_a_description_that_is_broken_does_not_cost_the_tool(
    place: MCPLab,
) -> None:
    flaws: list[dict[str, Any]] = [
        {"outputSchema": {"type": "array"}},
        {"icons": "x.png"},
        {"description": 5, "title": ["x"]},
        {"execution": "now", "_meta": []},
    ]
    listed = [
        {"name": f"t{number}", "inputSchema": {"type": "object"}, **flaw}
        for number, flaw in enumerate(flaws)
    ]
    place.flag.write_text(json.dumps({"tools/list": reply({"tools": listed})}))
    tools = await place.tools(place.raw("written"))
    assert list(tools) == ["mcp_raw_t0", "mcp_raw_t1", "mcp_raw_t2", "mcp_raw_t3"]


REFUSALS = [
    ({"error": "it broke"}, "it broke"),
    ({"error": {"code": "E_CITY", "message": "no such city"}}, "no such city"),
    ({"error": {"code": -32000, "detail": "no such city"}}, '"detail": "no such city"'),
    ({"error": {"code": -32602, "message": "Invalid params", "data": {"city": "is missing"}}},
     'Invalid params: {"city": "is missing"}'),
]  # fmt: skip


async def test_the_reason_of_a_server_is_told_whatever_its_form(place: MCPLab) -> None:
    for answer, words in REFUSALS:
        line = json.dumps({"jsonrpc": "2.0", "id": "ID", **answer}).replace('"ID"', "ID")
        with pytest.raises(MCPToolCallError) as caught:
            await call_written(place, line)
        assert words in str(caught.value), answer


async def test_a_description_whose_empty_objects_are_lists_is_read(place: MCPLab) -> None:
    """PHP writes them so."""
    listed = [
        {"name": "a", "inputSchema": []},
        {"name": "b", "inputSchema": {"type": "object", "properties": []}, "annotations": []},
    ]
    line = reply({"tools": listed, "_meta": []})
    place.flag.write_text(json.dumps({"tools/list": line}))
    assert list(await place.tools(place.raw("written"))) == ["mcp_raw_a", "mcp_raw_b"]


async def test_a_list_is_read_whatever_its_cursor_is_and_may_be_null(place: MCPLab) -> None:
    listed = [{"name": "a", "inputSchema": {}}]
    for number, cursor in enumerate((7, False, 1.5)):
        line = reply({"tools": listed, "nextCursor": cursor})
        place.flag.write_text(json.dumps({"tools/list": line}))
        assert list(await place.tools(place.raw("written", f"s{number}"))) == [f"mcp_s{number}_a"]
    place.flag.write_text(json.dumps({"tools/list": reply({"tools": None})}))
    assert await place.tools(place.raw("written", "none")) == {}


async def test_a_result_without_content_is_empty(place: MCPLab) -> None:
    """Go writes an empty list as null."""
    for number, answer in enumerate(({"content": None}, {}, None, {"_meta": {}})):
        result = await call_written(place, reply(answer), f"s{number}")
        assert (result.success, result.output) == (True, ""), answer


async def test_the_answer_to_a_call_is_not_lost_whatever_its_form(place: MCPLab) -> None:
    own: list[dict[str, Any]] = [{"toolResult": "done"}, {"output": {"rows": 7}}]
    for number, answer in enumerate(own):
        result = await call_written(place, reply(answer), f"s{number}")
        assert json.loads(result.output) == answer
    assert (await call_written(place, reply({"content": "done", "_meta": []}))).output == "done"
    failed = await call_written(
        place, reply({"isError": True, "message": "no such city"}), "failed"
    )
    assert not failed.success
    assert "no such city" in failed.output


DONE = reply({"content": "done"})
NOTED = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
CUT = DONE[:-9].replace("ID", "1")
ECHOED = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
LOGGED = [
    f"INFO: called {DONE}",
    f"\x1b[32mINFO\x1b[0m {DONE} in 3 ms",
    '{"level": "info"}' + DONE,
    NOTED + DONE,
    f"received {ECHOED}, sending {DONE}",
    f'the service said {{"id": ID, "result": "no"}}\n{DONE}',
]


async def test_an_answer_is_found_in_a_line_that_holds_something_else_as_well(
    place: MCPLab,
) -> None:
    for number, line in enumerate(LOGGED):
        assert (await call_written(place, line, f"s{number}")).output == "done", line
    place.flag.write_text(json.dumps({"tools/call": f"INFO: {CUT}\n{DONE}"}))
    tools = await place.tools(place.raw("written", "cut"))
    assert (await tools["mcp_cut_echo"].function(text="x")).output == "done"
    # What is asked in a log is not asked of this side.
    refused = [each for each in place.heard("written") if "error" in each]
    assert refused == []


async def test_an_answer_without_its_object_is_not_lost(place: MCPLab) -> None:
    assert (await call_written(place, reply("done"))).output == "done"
    assert (await call_written(place, reply([{"type": "text", "text": "done"}]))).output == "done"


def picture(form: str) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (30, 20), (250, 251, 252)).save(buffer, form)
    return base64.b64encode(buffer.getvalue()).decode()


PICTURES = [
    ({"data": picture("PNG"), "mimeType": "image/jpeg"}, "image/png"),
    ({"data": picture("JPEG"), "mimeType": "image/png"}, "image/jpeg"),
    ({"data": picture("JPEG"), "mimeType": "image/jpg"}, "image/jpeg"),
    ({"data": picture("WEBP"), "mimeType": "image/webp"}, "image/png"),
    ({"data": picture("GIF"), "mimeType": "image/gif"}, "image/png"),
    ({"data": f"data:image/png;base64,{picture('PNG')}", "mimeType": "image/png"}, "image/png"),
    ({"data": picture("PNG").replace("+", "-").replace("/", "_"), "mimeType": "image/png"},
     "image/png"),
    ({"data": picture("PNG")}, "image/png"),
    ({"data": picture("PNG"), "mime_type": "image/png"}, "image/png"),
]  # fmt: skip


async def test_a_picture_is_seen_and_has_the_type_that_it_is_of(place: MCPLab) -> None:
    blocks = [{"type": "image", **each} for each, _ in PICTURES[:8]]
    result = await call_written(place, reply({"content": blocks}))
    assert [each.media_type for each in result.images] == [kind for _, kind in PICTURES[:8]]
    assert {(each.width, each.height) for each in result.images} == {(30, 20)}
    (last, kind) = PICTURES[8]
    (image,) = (await call_written(place, reply({"content": [{"type": "image", **last}]}))).images
    assert image.media_type == kind


async def test_an_embedded_text_is_read_as_bytes_too(place: MCPLab) -> None:
    data = base64.b64encode("Zürich\n".encode()).decode()
    held = ({"text": "Zürich\n"}, {"blob": data, "mimeType": "text/plain"})
    blocks = [{"type": "resource", "resource": {"uri": "x://a", **each}} for each in held]
    told = (await call_written(place, reply({"content": blocks}))).output
    assert told == "[resource x://a]\nZürich\n\n[resource x://a]\nZürich\n"
