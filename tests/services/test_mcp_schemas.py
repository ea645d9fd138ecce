"""Schemas of real MCP servers: each is offered in the form for all services, or left out."""

import json
from typing import Any

import pytest

from ipyagent.errors import InvalidArgumentsError
from ipyagent.tools.base import Tool
from servers.mcp_lab import MCPLab
from service_rules import broken_rules

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
    assert "at least one of: `route`; or `file`" in tools["mcp_s_either"].definition().description
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
    checked = tool.check_arguments({"StartTime_": "now", "in__": [{"a_b": "x"}]})
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
        "properties": ({"type": "object", "properties": [1]}, "inputSchema.properties"),
        "type": ({"properties": {"x": {"type": "nonsense"}}}, "'nonsense' is not valid"),
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
