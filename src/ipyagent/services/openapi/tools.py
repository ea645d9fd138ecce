"""The tools of services: one for each operation if there are few, and one for any request."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from ipyagent.digests import digest_text
from ipyagent.errors import ConfigError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.phrases import limit_lines
from ipyagent.schema import ToolResult
from ipyagent.services.openapi.operations import MAX_TYPED, Operation
from ipyagent.services.openapi.registry import Service
from ipyagent.services.openapi.request_builder import (
    PreparedRequest,
    prepare_operation,
    prepare_request,
)
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import COMMAND, Tool, Where, find_command, tool

REQUEST, OPERATIONS = "api_request", "api_operations"

_MAX_LISTED = 40
_MAX_DETAILED = 5
_MAX_NAME = 64
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Send = Callable[[PreparedRequest], Coroutine[Any, Any, ToolResult]]
Current = Callable[[str], Service]
"""Returns the current registration of a service's name; raises AgentError."""


def build_tools(services: Sequence[Service], current: Current, send: Send) -> list[Tool]:
    """Return all tools of these services, which are active and have operations."""
    if not services:
        return []
    typed = typed_services(services)
    builder = _ToolBuilder(current, send)
    named = _name_operations((service, each) for service in typed for each in service.operations)
    tools = [builder.tool(name, service, each) for name, service, each in named]
    tools.append(builder.request(services, typed))
    if len(typed) < len(services):
        tools.append(_operations_tool([each for each in services if each not in typed]))
    return tools


def typed_services(services: Sequence[Service]) -> list[Service]:
    """Return the services whose operations together are few enough for tools of their own."""
    typed, remaining = [], MAX_TYPED
    for service in services:
        if len(service.operations) <= remaining:
            typed.append(service)
            remaining -= len(service.operations)
    return typed


def check_unchanged(current: Current, service: Service) -> Service:
    """Return the service if it is unchanged since its tools were made; raises AgentError."""
    now = current(service.name)
    if not now.active:
        raise MCPToolCallError(
            f"the service {service.name} is not active; `%agent api activate {service.name}`"
        )
    if now != service:
        raise MCPToolCallError(
            f"the service {service.name} was changed since this run began; ask again in a new cell"
        )
    return now


class _ToolBuilder:
    """Makes tools that check, at each call, that the service is unchanged."""

    def __init__(self, current: Current, send: Send) -> None:
        self._current, self._send = current, send

    def tool(self, name: str, service: Service, operation: Operation) -> Tool:
        """Return the tool of one operation."""

        def prepare(**arguments: object) -> PreparedRequest:
            return prepare_operation(check_unchanged(self._current, service), operation, arguments)

        unasked = operation.method == "GET" and service.get_unasked
        return self._tool(
            prepare,
            name=name,
            description=_description(service, operation),
            arguments=_argument_schema(operation),
            sensitive=not unasked,
            idempotent=operation.method == "GET",
            command=find_command(operation.arguments, operation.body),
            source=lambda **_: f"the service {service.name}",
        )

    def request(self, services: Sequence[Service], typed: Sequence[Service]) -> Tool:
        """Return the tool for any request that one of the services accepts."""
        known = {each.name: each for each in services}

        def prepare(
            service: str, method: str, path: str, query: Any = None, body: Any = None
        ) -> PreparedRequest:
            return prepare_request(
                check_unchanged(self._current, known[service]), method, path, query, body
            )

        return self._tool(
            prepare,
            name=REQUEST,
            description=_request_description(services, typed),
            arguments=JsonArgumentSchema(_request_schema(list(known))),
            sensitive=True,
            command=f"body.{COMMAND}",
            source=lambda service, **_: f"the service {service}",
        )

    def _tool(self, prepare: Callable[..., PreparedRequest], **traits: Any) -> Tool:
        async def call(**arguments: object) -> ToolResult:
            return await self._send(prepare(**arguments))

        return Tool(
            function=call,
            where=Where.LOOP,
            preview=lambda **arguments: prepare(**arguments).preview(),
            validate=prepare,
            reaches_out=True,
            **traits,
        )


def _name_operations(
    pairs: Iterator[tuple[Service, Operation]],
) -> Iterator[tuple[str, Service, Operation]]:
    """Yield each operation with a unique tool name, independent of the order."""
    listed = [(service, each, _plain_name(service, each)) for service, each in pairs]
    times = Counter(name.lower() for _, _, name in listed)
    for service, each, name in listed:
        if times[name.lower()] > 1 or len(name) > _MAX_NAME or name in (REQUEST, OPERATIONS):
            identity = "\0".join((service.name, each.method, each.path))
            mark = digest_text(identity)[:8]
            name = f"{name[: _MAX_NAME - 9]}_{mark}"
        yield name, service, each


def _plain_name(service: Service, operation: Operation) -> str:
    words = (re.sub(r"[^a-zA-Z0-9_-]+", "_", each) for each in (service.name, operation.name))
    return "_".join(["api", *(each.strip("_") or "x" for each in words)])


def _argument_schema(operation: Operation) -> JsonArgumentSchema:
    try:
        return JsonArgumentSchema(operation.arguments)
    except ConfigError:  # an invalid schema; at least its names are known
        names = operation.arguments.get("properties", {})
        return JsonArgumentSchema({"properties": {name: {} for name in names}})


def _description(service: Service, operation: Operation) -> str:
    words = f"{operation.summary}\n\n" if operation.summary else ""
    return f"{words}{operation.method} {operation.path} of the service {service.name}."


def _request_schema(names: list[str]) -> JsonDict:
    scalar = {"type": ["string", "number", "boolean", "null"]}
    return {
        "type": "object",
        "properties": {
            "service": {"type": "string", "enum": names},
            "method": {"type": "string", "enum": list(_METHODS)},
            "path": {"type": "string", "description": "with its parameters filled in: /items/7"},
            "query": {
                "type": "object",
                "additionalProperties": {"anyOf": [scalar, {"type": "array", "items": scalar}]},
            },
            "body": {"type": ["object", "string", "null"]},
        },
        "required": ["service", "method", "path"],
        "additionalProperties": False,
    }


def _request_description(services: Sequence[Service], typed: Sequence[Service]) -> str:
    lines = ["Send a request to a service. Only operations in its description can be called."]
    for service in services:
        number = len(service.operations)
        if service in typed:
            lines.append(f"{service.name}: {number} operations, each a tool api_{service.name}_…")
            continue
        listed = min(number, _MAX_LISTED)
        lines.append(f"{service.name}: {number} operations; {OPERATIONS} lists them, such as")
        lines += [f"  {each.line()[:160]}" for each in service.operations[:listed]]
    return "\n".join(lines)


def _operations_tool(services: Sequence[Service]) -> Tool:
    """Return the tool that searches operations if there are too many to describe."""
    known = {each.name: each for each in services}

    @tool(name=OPERATIONS, where=Where.THREAD, source=lambda **_: "descriptions of services")
    def api_operations(service: str, query: str = "") -> str:
        """List a service's operations for api_request that contain all words of the query.

        A short list includes their arguments.
        """
        if service not in known:
            raise MCPToolCallError(f"there is no such service; available: {', '.join(known)}")
        words = query.lower().split()
        lines = {f"{each.name}: {each.line()}": each for each in known[service].operations}
        matches = {k: v for k, v in lines.items() if all(word in k.lower() for word in words)}
        if len(matches) <= _MAX_DETAILED:
            details = (f"{line}\n  {json.dumps(each.arguments)}" for line, each in matches.items())
            return "\n".join(details) or "no operation contains all these words"
        return "\n".join(limit_lines(list(matches), 200, "… and {} more; add words"))

    return api_operations
