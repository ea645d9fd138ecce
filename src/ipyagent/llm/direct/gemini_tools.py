"""Tools as Gemini takes them: for one schema of another form it refuses every request.

Reference: https://ai.google.dev/api/caching#Schema. What is left out stands in the description, and
calls are checked by the whole schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.llm.wire import tools_to_openai
from ipyagent.phrases import ellipsize
from ipyagent.schema import ToolDefinition

_FORMATS = ("date-time", "enum")
_BELONGS = {"properties": "object", "required": "object", "items": "array"}
_LONGEST = 500


def tools_to_gemini(definitions: Iterable[ToolDefinition]) -> list[JsonDict]:
    """Return the tools in OpenAI's function format, their schemas in Gemini's."""
    tools = tools_to_openai(definitions)
    for tool in tools:
        tool["function"]["parameters"] = _convert(tool["function"]["parameters"])
    return tools


def _convert(schema: JsonDict) -> JsonDict:
    """Return a schema of one type, with the keywords of that type; only texts are enumerated."""
    new = {key: _convert_inside(key, value) for key, value in schema.items()}
    given, values = new.pop("type", []), new.pop("enum", [])
    kinds = [each for each in ([given] if isinstance(given, str) else given) if each != "null"]
    texts = [each for each in values if isinstance(each, str) and each]
    if not given:
        kinds = [kind for key, kind in _BELONGS.items() if key in new][:1]
        kinds = kinds or ["string"] * bool(texts and len(texts) == len(values))
    kind = kinds[0] if len(kinds) == 1 else ""
    new = {key: value for key, value in new.items() if _BELONGS.get(key, kind) == kind}
    if len(kinds) > 1 and "anyOf" not in new:
        new["anyOf"] = [_convert({**schema, "type": each, "description": ""}) for each in kinds]
    elif kind or given:
        new["type"] = kind or "null"
    words = [new.pop("description", "")]
    if texts and kind == "string":
        new["enum"] = texts
    if values != new.get("enum", []):
        words.append(f"(one of: {ellipsize(json.dumps(values)[1:-1], _LONGEST)})")
    if kind == "string" and new.get("format", "enum") not in _FORMATS:
        words.append(f"(format: {new.pop('format')})")
    return new | ({"description": text} if (text := " ".join(filter(None, words))) else {})


def _convert_inside(key: str, value: Any) -> Any:
    if key == "properties" and isinstance(value, dict):
        return {name: _convert(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_convert(each) if isinstance(each, dict) else each for each in value]
    return _convert(value) if isinstance(value, dict) and key != "default" else value
