"""What a server is asked, as the SDK's requests and the shapes of their answers."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from ipyagent.json_types import JsonDict

TRACE_ID = "ipyagent/trace_id"
"""The key in a call's `_meta` that holds the run's trace id."""


def call_tool(
    name: str, arguments: JsonDict, trace_id: str | None = None
) -> tuple[Any, type[types.CallToolResult]]:
    """Return a call; arguments that were not given are not sent."""
    given: JsonDict = {"name": name, "arguments": arguments}
    if trace_id:
        given["_meta"] = {TRACE_ID: trace_id}
    params = types.CallToolRequestParams.model_validate(given)
    return types.CallToolRequest(params=params), types.CallToolResult


def list_resources() -> tuple[Any, type[types.ListResourcesResult]]:
    """The first page of its resources."""
    return types.ListResourcesRequest(
        params=types.PaginatedRequestParams()
    ), types.ListResourcesResult


def read_resource(uri: str) -> tuple[Any, type[types.ReadResourceResult]]:
    """What a resource holds."""
    params = types.ReadResourceRequestParams(uri=uri)
    return types.ReadResourceRequest(params=params), types.ReadResourceResult


def list_prompts() -> tuple[Any, type[types.ListPromptsResult]]:
    """The first page of its prompts."""
    first = types.PaginatedRequestParams()
    return types.ListPromptsRequest(params=first), types.ListPromptsResult


def get_prompt(name: str, arguments: dict[str, str]) -> tuple[Any, type[types.GetPromptResult]]:
    """A prompt with its blanks filled in."""
    params = types.GetPromptRequestParams(name=name, arguments=arguments or None)
    return types.GetPromptRequest(params=params), types.GetPromptResult
