"""Carrying out a request that was shown: checked once more, sent, and followed where it may go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address

from ipyagent.errors import AgentError, InvalidArgumentsError, MCPToolCallError
from ipyagent.plaintext import visible
from ipyagent.schema import ToolResult
from ipyagent.services.addresses import Guard, Resolve
from ipyagent.services.openapi import paths, urls
from ipyagent.services.openapi.prepared import Prepared
from ipyagent.services.openapi.registry import Service, variables
from ipyagent.services.openapi.replies import as_result
from ipyagent.services.openapi.transport import Connection, Reply, connected
from ipyagent.telemetry import trace_ids

MAX_REDIRECTS = 3
_SHORTEST_SECRET = 8


def guard_of(service: Service, resolve: Resolve) -> Guard:
    """What the service may be at: public addresses, and what it was at when it was registered."""
    return Guard(frozenset(map(ip_address, service.known or ())), resolve)


def headers_of(service: Service, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers that let us in; raises MCPToolCallError where a variable is not set."""
    found = {name: value.get_secret_value() for name, value in service.secrets.items()}
    for name, variable in variables(service).items():
        value = environ.get(variable, "").strip()
        if not value:
            raise MCPToolCallError(
                f"{service.name} needs the environment variable {variable}, which is not set; "
                f"set it, for instance with os.environ[{variable!r}] = getpass.getpass()"
            )
        bearer = name == "Authorization" and service.token_env == variable
        found[name] = f"Bearer {value}" if bearer else value
    for name, value in found.items():
        if not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", value):
            where = variables(service).get(name, "the settings")
            raise MCPToolCallError(
                f"{service.name}: what {where} has for {name} cannot be the value of a header"
            )
    return found


async def send(request: Prepared, environ: Mapping[str, str], resolve: Resolve) -> ToolResult:
    """Send it; whatever is not a success is a failed result, and nothing is tried twice."""
    service = request.service
    secret = headers_of(service, environ)
    hidden = [each.removeprefix("Bearer ") for each in secret.values()]
    try:
        async with connected(
            guard_of(service, resolve),
            connect=service.connect_timeout,
            total=service.execute_timeout,
        ) as connection:
            reply = await _followed(connection, request, secret)
    except AgentError as error:
        doubt = "" if request.method == "GET" else ". Whether it was done is not known"
        sure = isinstance(error, MCPToolCallError)
        raise type(error)(f"{service.name}: {error}{doubt if sure else ''}") from None
    head = f"{request.method} {request.path}"
    secrets = [each for each in hidden if len(each) >= _SHORTEST_SECRET]
    return as_result(head, reply, secrets, reads=request.method == "GET")


async def _followed(connection: Connection, request: Prepared, secret: Mapping[str, str]) -> Reply:
    """The reply to a request, and to those that its redirects ask for.

    They are followed as GET only, and only to what the service itself describes.
    """
    secret = {**secret, **_trace(request, secret)}
    headers = {**request.headers, **secret}
    reply = await connection.send(request.method, request.url, headers, request.body)
    for _ in range(MAX_REDIRECTS):
        target = reply.location
        if target is None:
            return reply
        if request.method != "GET" and reply.status in (307, 308):
            raise MCPToolCallError(
                f"it redirects to {_shown(target)}; only what was shown is sent, so that was not"
            )
        _check(request.service, target)
        reply = await connection.send("GET", target, secret)
    if reply.location is not None:
        raise MCPToolCallError(f"it redirected more than {MAX_REDIRECTS} times")
    return reply


def _trace(request: Prepared, secret: Mapping[str, str]) -> dict[str, str]:
    """Return the header with the run's trace id, unless the request has one of its own."""
    taken = {name.lower() for name in (*request.headers, *secret)}
    trace_id = trace_ids.current()
    return (
        {trace_ids.HEADER: trace_id} if trace_id and trace_ids.HEADER.lower() not in taken else {}
    )


def _check(service: Service, target: object) -> None:
    """See to it that a redirect stays with the service's own GET operations."""
    import httpx

    base, there = httpx.URL(service.base or ""), httpx.URL(str(target))
    if urls.origin(there) != urls.origin(base) or there.userinfo:
        raise MCPToolCallError(f"it redirects to {_shown(there)}, another place; not followed")
    path, prefix = there.raw_path.partition(b"?")[0].decode("ascii"), urls.path_of(base)
    try:
        if not path.startswith(f"{prefix}/"):
            raise InvalidArgumentsError("outside of the service")
        paths.find(service.operations, "GET", path.removeprefix(prefix))
    except InvalidArgumentsError:
        raise MCPToolCallError(
            f"it redirects to {_shown(there)}, which its description does not have; not followed"
        ) from None


def _shown(url: object) -> str:
    return visible(str(url)[:200])
