"""The tools of services: one for each operation where there are few, and one for any request."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from ipyagent.errors import ConfigError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Preview, ToolResult
from ipyagent.services.openapi.operations import FEW, Operation
from ipyagent.services.openapi.prepared import Prepared, prepared, requested
from ipyagent.services.openapi.registry import Service
from ipyagent.tools.arguments import DescribedArguments
from ipyagent.tools.base import Tool, Where, tool
from ipyagent.tools.commands import COMMAND, command_in

REQUEST, OPERATIONS = "api_request", "api_operations"

_LISTED = 40
_IN_DETAIL = 5
_MAX_NAME = 64
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Send = Callable[[Prepared], Coroutine[Any, Any, ToolResult]]
Current = Callable[[str], Service]
"""The service of a name as it is registered now; raises AgentError."""


def tools_of(services: Sequence[Service], current: Current, send: Send) -> list[Tool]:
    """All tools of these services, which are active and have operations."""
    if not services:
        return []
    typed = with_tools(services)
    caller = _Caller(current, send)
    named = _named((service, each) for service in typed for each in service.operations)
    tools = [caller.tool(name, service, each) for name, service, each in named]
    tools.append(caller.request(services, typed))
    if len(typed) < len(services):
        tools.append(_listing([each for each in services if each not in typed]))
    return tools


def with_tools(services: Sequence[Service]) -> list[Service]:
    """Those whose operations, all together, are few enough to be tools of their own."""
    found, left = [], FEW
    for service in services:
        if len(service.operations) <= left:
            found.append(service)
            left -= len(service.operations)
    return found


def checked(current: Current, service: Service) -> Service:
    """The service, if it is what it was when its tools were made; raises AgentError."""
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


class _Caller:
    """Makes tools that check, at each call, that the service is still what was offered."""

    def __init__(self, current: Current, send: Send) -> None:
        self._current, self._send = current, send

    def tool(self, name: str, service: Service, operation: Operation) -> Tool:
        """The tool of one operation."""

        def request(arguments: Mapping[str, object]) -> Prepared:
            return prepared(checked(self._current, service), operation, arguments)

        async def call(**arguments: object) -> ToolResult:
            return await self._send(request(arguments))

        def preview(**arguments: object) -> Preview:
            return request(arguments).preview()

        unasked = operation.method == "GET" and service.get_unasked
        return Tool(
            name=name,
            description=_description(service, operation),
            function=call,
            arguments=_arguments(operation),
            sensitive=not unasked,
            where=Where.LOOP,
            preview=preview,
            validate=lambda **arguments: request(arguments),
            reaches_out=True,
            idempotent=operation.method == "GET",
            command=command_in(operation.arguments, operation.body),
            source=lambda **_: f"the service {service.name}",
        )

    def request(self, services: Sequence[Service], typed: Sequence[Service]) -> Tool:
        """The tool for any request that one of the services takes."""
        known = {each.name: each for each in services}

        def request(
            service: str, method: str, path: str, query: Any = None, body: Any = None
        ) -> Prepared:
            return requested(checked(self._current, known[service]), method, path, query, body)

        async def call(**arguments: Any) -> ToolResult:
            return await self._send(request(**arguments))

        def preview(**arguments: Any) -> Preview:
            return request(**arguments).preview()

        return Tool(
            name=REQUEST,
            description=_request_description(services, typed),
            function=call,
            arguments=DescribedArguments(_request_schema(list(known))),
            sensitive=True,
            where=Where.LOOP,
            preview=preview,
            validate=request,
            reaches_out=True,
            command=f"body.{COMMAND}",
            source=lambda service, **_: f"the service {service}",
        )


def _named(
    pairs: Iterator[tuple[Service, Operation]],
) -> Iterator[tuple[str, Service, Operation]]:
    """Each with a tool's name, unique and independent of the order."""
    listed = [(service, each, _plain(service, each)) for service, each in pairs]
    times = Counter(name.lower() for _, _, name in listed)
    for service, each, name in listed:
        if times[name.lower()] > 1 or len(name) > _MAX_NAME or name in (REQUEST, OPERATIONS):
            identity = "\0".join((service.name, each.method, each.path))
            mark = hashlib.sha256(identity.encode()).hexdigest()[:8]
            name = f"{name[: _MAX_NAME - 9]}_{mark}"
        yield name, service, each


def _plain(service: Service, operation: Operation) -> str:
    words = (re.sub(r"[^a-zA-Z0-9_-]+", "_", each) for each in (service.name, operation.name))
    return "_".join(["api", *(each.strip("_") or "x" for each in words)])


def _arguments(operation: Operation) -> DescribedArguments:
    try:
        return DescribedArguments(operation.arguments)
    except ConfigError:  # whatever still was wrong with it: the names are known at least
        names = operation.arguments.get("properties", {})
        return DescribedArguments({"properties": {name: {} for name in names}})


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
    lines = ["Send a request to a service; only operations that its description has are sent."]
    for service in services:
        number = len(service.operations)
        if service in typed:
            lines.append(f"{service.name}: {number} operations, each a tool api_{service.name}_…")
            continue
        shown = min(number, _LISTED)
        lines.append(f"{service.name}: {number} operations; {OPERATIONS} lists them, such as")
        lines += [f"  {each.line()[:160]}" for each in service.operations[:shown]]
    return "\n".join(lines)


def _listing(services: Sequence[Service]) -> Tool:
    """The tool that looks for operations where there are too many to tell of."""
    known = {each.name: each for each in services}

    @tool(name=OPERATIONS, where=Where.THREAD, source=lambda **_: "descriptions of services")
    def api_operations(service: str, query: str = "") -> str:
        """List a service's operations for api_request, those that hold all words of the query.

        Few of them are told with their arguments.
        """
        if service not in known:
            raise MCPToolCallError(f"no such service; there are: {', '.join(known)}")
        words = query.lower().split()
        lines = {f"{each.name}: {each.line()}": each for each in known[service].operations}
        found = {k: v for k, v in lines.items() if all(word in k.lower() for word in words)}
        if len(found) <= _IN_DETAIL:
            details = (f"{line}\n  {json.dumps(each.arguments)}" for line, each in found.items())
            return "\n".join(details) or "none holds all these words"
        more = [f"… and {len(found) - 200} more; add words"] if len(found) > 200 else []
        return "\n".join([*list(found)[:200], *more])

    return api_operations
