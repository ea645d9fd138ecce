"""Tools as Gemini takes them, wherever it is asked."""

from typing import Any

import pytest
from asking import ask, client_of

from ipyagent.llm.client import ModelRequest
from ipyagent.llm.direct.chat import tools_to_gemini
from ipyagent.schema import ToolDefinition
from servers.model_server import ModelServer, answer
from service_rules import broken_rules

TEXT = {"type": "string"}
ONE = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
SCHEMAS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({**ONE, "type": "string"}, TEXT),
    ({**TEXT, "items": TEXT}, TEXT),
    ({"type": "integer", "enum": [1, 2]}, {"type": "integer", "description": "(one of: 1, 2)"}),
    ({**TEXT, "enum": ["", "x"]}, {**TEXT, "enum": ["x"], "description": '(one of: "", "x")'}),
    ({"enum": ["a", "b"]}, {**TEXT, "enum": ["a", "b"]}),
    (
        {"type": "boolean", "enum": [True], "description": "Yes?"},
        {"type": "boolean", "description": "Yes? (one of: true)"},
    ),
    (
        {"type": ["string", "null"], "enum": ["a", None]},
        {**TEXT, "enum": ["a"], "description": '(one of: "a", null)'},
    ),
    ({**TEXT, "format": "uri"}, {**TEXT, "description": "(format: uri)"}),
    ({**TEXT, "format": "date-time"}, {**TEXT, "format": "date-time"}),
    ({"type": "integer", "format": "int64"}, {"type": "integer", "format": "int64"}),
    ({"type": ["integer", "string"]}, {"anyOf": [{"type": "integer"}, TEXT]}),
    (
        {"type": "array", "items": {**ONE, "type": ["object", "null"]}},
        {"type": "array", "items": ONE},
    ),
    ({"items": TEXT}, {"type": "array", "items": TEXT}),
    ({"anyOf": [{**TEXT, "enum": [1]}, {"type": "null"}]},
     {"anyOf": [{**TEXT, "description": "(one of: 1)"}, {"type": "null"}]}),
    ({"type": "null"}, {"type": "null"}),
    ({"type": "object", "additionalProperties": {**TEXT, "format": "uri"}},
     {"type": "object", "additionalProperties": {**TEXT, "description": "(format: uri)"}}),
    ({"type": "object", "properties": {"type": TEXT, "enum": TEXT, "default": TEXT}},) * 2,
    (
        {"type": ["string", "null", "array"], "items": {"type": ["string", "integer"]}},
        {"anyOf": [TEXT, {"type": "array", "items": {"anyOf": [TEXT, {"type": "integer"}]}}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "sent"), SCHEMAS)
def test_a_schema_has_the_keywords_of_one_type(given: Any, sent: Any) -> None:
    parameters = {"type": "object", "properties": {"x": given}}
    (tool,) = tools_to_gemini([ToolDefinition(name="t", input_schema=parameters)])
    told = tool["function"]["parameters"]
    assert told == {"type": "object", "properties": {"x": sent}}
    assert broken_rules(ToolDefinition(name="t", input_schema=told)) == []


@pytest.mark.parametrize("model", ["gemini/gemini-3-flash", "openrouter/google/gemini-3-pro"])
async def test_only_gemini_gets_its_form(model: str, request_: ModelRequest) -> None:
    given = {"type": "object", "properties": {"x": {"type": "integer", "enum": [1]}}}
    request = ModelRequest(request_.messages, tools=(ToolDefinition(name="t", input_schema=given),))
    with ModelServer([answer("Done.")] * 2) as server:
        await ask(client_of(server, model, api_key="sk-canary-0123456789abcdef"), request)
        await ask(client_of(server, "openai/gpt-4o"), request)
        own, other = (r.body["tools"][0]["function"]["parameters"] for r in server.requests)
    assert own["properties"]["x"] == {"type": "integer", "description": "(one of: 1)"}
    assert other == given
