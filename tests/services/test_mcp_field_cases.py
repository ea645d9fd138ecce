"""Servers as they are met: what they get slightly wrong costs neither a tool nor an answer."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image

from ipyagent.errors import MCPToolCallError
from ipyagent.schema import ToolResult
from servers.mcp_lab import MCPLab


def reply(result: Any, **more: Any) -> str:
    """Return the line of an answer."""
    text = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": result, **more})
    return text.replace('"ID"', "ID")


async def call(place: MCPLab, line: str, name: str = "raw") -> ToolResult:
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
            await call(place, line)
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
        result = await call(place, reply(answer), f"s{number}")
        assert (result.success, result.output) == (True, ""), answer


async def test_the_answer_to_a_call_is_not_lost_whatever_its_form(place: MCPLab) -> None:
    own: list[dict[str, Any]] = [{"toolResult": "done"}, {"output": {"rows": 7}}]
    for number, answer in enumerate(own):
        result = await call(place, reply(answer), f"s{number}")
        assert json.loads(result.output) == answer
    assert (await call(place, reply({"content": "done", "_meta": []}))).output == "done"
    failed = await call(place, reply({"isError": True, "message": "no such city"}), "failed")
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
        assert (await call(place, line, f"s{number}")).output == "done", line
    place.flag.write_text(json.dumps({"tools/call": f"INFO: {CUT}\n{DONE}"}))
    tools = await place.tools(place.raw("written", "cut"))
    assert (await tools["mcp_cut_echo"].function(text="x")).output == "done"
    # What is asked in a log is not asked of this side.
    refused = [each for each in place.heard("written") if "error" in each]
    assert refused == []


async def test_an_answer_without_its_object_is_not_lost(place: MCPLab) -> None:
    assert (await call(place, reply("done"))).output == "done"
    assert (await call(place, reply([{"type": "text", "text": "done"}]))).output == "done"


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
    result = await call(place, reply({"content": blocks}))
    assert [each.media_type for each in result.images] == [kind for _, kind in PICTURES[:8]]
    assert {(each.width, each.height) for each in result.images} == {(30, 20)}
    (last, kind) = PICTURES[8]
    (image,) = (await call(place, reply({"content": [{"type": "image", **last}]}))).images
    assert image.media_type == kind


async def test_an_embedded_text_is_read_as_bytes_too(place: MCPLab) -> None:
    data = base64.b64encode("Zürich\n".encode()).decode()
    held = ({"text": "Zürich\n"}, {"blob": data, "mimeType": "text/plain"})
    blocks = [{"type": "resource", "resource": {"uri": "x://a", **each}} for each in held]
    told = (await call(place, reply({"content": blocks}))).output
    assert told == "[resource x://a]\nZürich\n\n[resource x://a]\nZürich\n"
