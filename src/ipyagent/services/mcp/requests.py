"""Build requests to a server, each with the type of its answer."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from ipyagent.json_types import JsonDict

TRACE_ID = "ipyagent/trace_id"
"""The key in a call's `_meta` that holds the run's trace id."""


def call_tool(
    name: str, arguments: JsonDict, trace_id: str | None = None
) -> tuple[Any, type[types.CallToolResult]]:
    """Return a request for a call; missing arguments are not sent."""
    fields: JsonDict = {"name": name, "arguments": arguments}
    if trace_id:
        fields["_meta"] = {TRACE_ID: trace_id}
    params = types.CallToolRequestParams.model_validate(fields)
    return types.CallToolRequest(params=params), types.CallToolResult


def list_resources() -> tuple[Any, type[types.ListResourcesResult]]:
    """Return a request for the first page of its resources."""
    return types.ListResourcesRequest(
        params=types.PaginatedRequestParams()
    ), types.ListResourcesResult


def read_resource(uri: str) -> tuple[Any, type[types.ReadResourceResult]]:
    """Return a request for the content of a resource."""
    params = types.ReadResourceRequestParams(uri=uri)
    return types.ReadResourceRequest(params=params), types.ReadResourceResult


def list_prompts() -> tuple[Any, type[types.ListPromptsResult]]:
    """Return a request for the first page of its prompts."""
    first = types.PaginatedRequestParams()
    return types.ListPromptsRequest(params=first), types.ListPromptsResult


def get_prompt(name: str, arguments: dict[str, str]) -> tuple[Any, type[types.GetPromptResult]]:
    """Return a request for a prompt with its arguments."""
    params = types.GetPromptRequestParams(name=name, arguments=arguments or None)
    return types.GetPromptRequest(params=params), types.GetPromptResult
