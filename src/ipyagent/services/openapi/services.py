"""The services of a folder: registration, refresh, and their tools.

A service's operations are looked up while a user waits at a cell.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ipyagent.config.rules import Variable
from ipyagent.errors import AgentError, ConfigError, InvalidArgumentsError, MCPToolCallError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import EngineThread
from ipyagent.plaintext import limit_lines, plural, visible
from ipyagent.schema import ToolResult
from ipyagent.services import name_tools, notebook_note
from ipyagent.services.openapi import Configured, transport
from ipyagent.services.openapi.discovery import Registry, look_up, server_in
from ipyagent.services.openapi.documents import METHODS, Operation, Service
from ipyagent.services.openapi.requests import (
    HEADER_NAME,
    PreparedRequest,
    find_operation,
    prepare_request,
    send,
)
from ipyagent.services.openapi.transport import Resolve, format_url, system_resolve
from ipyagent.tools.argument_schema import JsonArgumentSchema
from ipyagent.tools.base import COMMAND, Tool, Where, find_command

log = logging.getLogger("ipyagent")


_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,29}")
_SET_HERE = ("host", "content-length", "connection")
_FILE_PATTERN = re.compile(r"[./~]|[^./:]+(/[^:]*)?\.(json|ya?ml)$", re.IGNORECASE)


class OpenAPIServices:
    """The services that are registered for a folder, or in the settings with the kind openapi.

    Paths are relative to `home`; `environ` is read at each call; `here` returns the switches of
    this notebook alone, such as `api:shop`.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        environ: Mapping[str, str],
        configured: Configured = (),
        here: Callable[[], Mapping[str, bool]] = dict,
        *,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._home, self._environ, self._resolve = home, environ, resolve
        self._registry, self._notebook_switches = Registry(folder, configured), here
        self._cached_tools: tuple[list[Service], list[Tool]] = ([], [])

    def register(
        self,
        name: str,
        target: str,
        *,
        auth_env: str | None = None,
        header_env: Mapping[str, str] = MappingProxyType({}),
        get_unasked: bool = False,
        base: str | None = None,
    ) -> str:
        """Register a service by its address or its description file; return the services.

        An unreachable service is registered all the same, without tools. Raises ConfigError.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{visible(name)!r} is not a valid name for a service; use letters, digits, - and _"
            )
        _check_credentials([*([auth_env] if auth_env else []), *header_env.values()], header_env)
        fixed = transport.parse_url(base) if base else None
        if path := self._find_file(target):
            url = fixed = fixed or server_in(path)
            document: str | None = str(path)
        else:
            own, document = transport.parse_service(target)
            url = fixed or own
        service = Service(
            name=name,
            url=str(url),
            document=document,
            base=str(fixed) if fixed else None,
            moved=fixed is not None,
            token_env=auth_env,
            header_env={**header_env},
            get_unasked=get_unasked,
        )
        lines = []
        if existing := self._find_registered(service):
            lines = [f"{format_url(url)} is registered already, as {existing.name}."]
            known = {"base": service.base or existing.base, "operations": existing.operations}
            service = service.model_copy(update={"name": existing.name, **known})
        return "\n".join([*lines, *self._look_up(service), *self._secret_notes(service)])

    def describe_services(self) -> str:
        """Return a list of the services, one a line."""
        return "\n".join(map(self._describe_service, self._list_services())) or (
            "no services are registered; `%agent api register NAME URL` does that"
        )

    def refresh(self, name: str | None = None) -> str:
        """Look up the operations of one service or all; return the changes."""
        one = [self._registry.get(name)] if name is not None else []
        lines = [
            line for each in one or self._registry.all().values() for line in self._look_up(each)
        ]
        return "\n".join(lines) or self.describe_services()

    def prepare_switch(self, name: str, *, on: bool) -> None:
        """Raise ConfigError for a service that cannot be switched for this notebook alone."""
        self._registry.get(name)

    def activate(self, name: str) -> str:
        """Offer a service's tools again."""
        return self._switch(name, on=True)

    def deactivate(self, name: str) -> str:
        """Keep a service registered, but offer none of its tools."""
        return self._switch(name, on=False)

    def remove(self, name: str) -> str:
        """Remove a service."""
        service = self._registry.get(name)
        if service.configured:
            raise ConfigError(
                f"{name} is in the settings (mcp.servers), so it is removed there; "
                f"`%agent api deactivate {name}` switches it off"
            )
        self._registry.remove(service)
        return f"{name} is removed."

    def tools(self) -> list[Tool]:
        """Return the tools of the active services, as discovered before: without a network."""
        try:
            services = [each for each in self._list_services() if each.active and each.base]
        except AgentError:
            return []  # `notices` reports it
        services = [each for each in services if each.operations]
        if services != self._cached_tools[0]:
            tools = build_tools(services, self._check_unchanged, self._send) if services else []
            self._cached_tools = services, tools
        return self._cached_tools[1]

    def notices(self) -> list[str]:
        """Return notices about services without tools."""
        try:
            services = [each for each in self._list_services() if each.active]
        except AgentError as error:
            return [str(error)]
        return [
            f"the service {each.name} has no tools yet; `%agent api refresh {each.name}` looks "
            "for them"
            for each in services
            if not each.operations
        ]

    def _list_services(self) -> list[Service]:
        """Return the services with this notebook's switches."""
        return [self._apply_switch(each) for each in self._registry.all().values()]

    def _apply_switch(self, service: Service) -> Service:
        on = self._notebook_switches().get(f"api:{service.name}", service.active)
        return service if on == service.active else service.model_copy(update={"active": on})

    async def _send(self, request: PreparedRequest) -> ToolResult:
        return await send(request, self._environ, self._resolve)

    def _check_unchanged(self, service: Service) -> Service:
        """Return the service if it is unchanged since its tools were made; raises AgentError."""
        now = self._apply_switch(self._registry.get(service.name))
        if not now.active:
            raise MCPToolCallError(
                f"the service {service.name} is not active; `%agent api activate {service.name}`"
            )
        if now != service:
            raise MCPToolCallError(
                f"the service {service.name} was changed since this run began; ask again in a new "
                "cell"
            )
        return now

    def _find_file(self, target: str) -> Path | None:
        """Return the path of the user's file if the target is one; raises ConfigError."""
        if "://" in target:
            return None
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # not a valid file name
            path = self._home / Path(target).expanduser()
            if path.is_file():
                return path.resolve()
        if _FILE_PATTERN.match(target):
            raise ConfigError(
                f"{visible(target)}: the file is not found; an address begins with http://"
            )
        return None

    def _find_registered(self, service: Service) -> Service | None:
        """Return the registered service with the same URL; raises ConfigError for a conflict."""
        services = self._registry.all()
        existing = next((each for each in services.values() if each.url == service.url), None)
        if existing is not None and existing.configured:
            raise ConfigError(
                f"{format_url(service.url)} is in the settings already, as {existing.name}; "
                "change it there"
            )
        other = services.get(service.name)
        if existing is None and other is not None:
            raise ConfigError(
                f"{other.name} is {format_url(other.url)}; remove it first, or take another name"
            )
        return existing

    def _look_up(self, service: Service) -> list[str]:
        """Look up a service's operations and save it; return lines about it."""
        work = EngineThread.current().submit(look_up(service, self._environ, self._resolve))
        try:
            found, lines = work.result()
        except BaseException:  # such as an interrupt
            work.cancel()
            raise
        self._registry.save(found, operations=True)
        return [*lines, *_describe_changes(service.operations, found.operations)]

    def _switch(self, name: str, *, on: bool) -> str:
        service = self._registry.get(name)
        self._registry.save(service.model_copy(update={"active": on}))
        return f"{name} is {'active' if on else 'not active any more'}."

    def _describe_service(self, service: Service) -> str:
        state = "active" if service.active else "inactive"
        count = len(service.operations)
        tools = plural(count, "operation") if count else "no tools yet"
        facts = [f"{format_url(service.base or service.url)}", tools]
        facts += notebook_note(self._notebook_switches().get(f"api:{service.name}"))
        facts += ["in the settings"] if service.configured else []
        facts += ["GET unasked"] if service.get_unasked else []
        facts += self._secret_notes(service)
        return f"{service.name:<16} {state:<9} {'; '.join(facts)}"

    def _secret_notes(self, service: Service) -> list[str]:
        return [
            f"{header} from {variable}{'' if self._environ.get(variable) else ' (not set)'}"
            for header, variable in service.variables.items()
        ]


def _describe_changes(old: tuple[Operation, ...], new: tuple[Operation, ...]) -> list[str]:
    """Return the changes of a refresh; names that changed their meaning come first."""
    before, after = ({each.name: f"{each.method} {each.path}" for each in x} for x in (old, new))
    if not old:
        return []
    moved = [
        f"  {name} was {before[name]} and is {now}"
        for name, now in after.items()
        if name in before and before[name] != now
    ]
    lines = [f"  new: {now}" for name, now in after.items() if name not in before]
    lines += [f"  gone: {was}" for name, was in before.items() if name not in after]
    return limit_lines([*moved, *lines], 20, "  … and {} more changes")


def _check_credentials(variables: Iterable[str], headers: Iterable[str]) -> None:
    """Raise ConfigError for what is not the name of a variable, or of a header to be set."""
    for name in headers:
        if not HEADER_NAME.fullmatch(name) or name.lower() in _SET_HERE:
            raise ConfigError(f"{visible(name)!r} is not a header that can be set")
    try:
        TypeAdapter(list[Variable]).validate_python([*variables])
    except ValidationError:
        raise ConfigError(
            "--auth-env and --header-env take the NAME of an environment variable, not the secret"
        ) from None


REQUEST = "api_request"

_MAX_LISTED = 3_000  # characters of operations that the request's description lists
_MAX_LINE = 160


def build_tools(
    services: Sequence[Service],
    check_unchanged: Callable[[Service], Service],
    send: Callable[[PreparedRequest], Coroutine[Any, Any, ToolResult]],
) -> list[Tool]:
    """Return the tool for requests to these services, which are active and have operations.

    Each operation is a hidden tool, as which its calls are shown, asked about and allowed.
    """
    known = {each.name: each for each in services}
    operations = {
        (service.name, each.method, each.path): each
        for service in services
        for each in service.operations
    }
    names = name_tools(
        {key: _name_operation(key[0], each.name) for key, each in operations.items()}
    )

    def make(owner: str = "", only: Operation | None = None, **traits: Any) -> Tool:
        def prepare(
            service: str, method: str, path: str, query: Any = None, body: Any = None
        ) -> PreparedRequest:
            if only is not None and service != owner:
                raise InvalidArgumentsError(f"service: this is an operation of {owner}")
            return prepare_request(check_unchanged(known[service]), method, path, query, body, only)

        async def call(**arguments: Any) -> ToolResult:
            return await send(prepare(**arguments))

        return Tool(
            function=call,
            arguments=schema,
            where=Where.LOOP,
            preview=lambda **arguments: prepare(**arguments).preview(),
            validate=prepare,
            reaches_out=True,
            source=lambda service=owner, **_: f"the service {service}",
            **traits,
        )

    def redirect(service: str, method: str, path: str, **more: object) -> tuple[str, JsonDict]:
        operation, _ = find_operation(known[service].operations, method, path)
        given = {"service": service, "method": method, "path": path, **more}
        return names[service, method, operation.path], given

    schema = JsonArgumentSchema(_request_schema([*known]))
    request = make(
        name=REQUEST,
        description=_describe_services(services),
        sensitive=True,
        command=f"body.{COMMAND}",
        redirect=redirect,
    )
    tools = [
        make(key[0], each, **_operation_traits(names[key], known[key[0]], each))
        for key, each in operations.items()
    ]
    return [request, *tools]


def _name_operation(service: str, name: str) -> str:
    words = (re.sub(r"[^a-zA-Z0-9_-]+", "_", each).strip("_") for each in (service, name))
    return "_".join(["api", *(each or "x" for each in words)])


def _operation_traits(name: str, service: Service, operation: Operation) -> JsonDict:
    reads = operation.method == "GET"
    details = f"\n{json.dumps(operation.inputs)}" if operation.inputs else ""
    command = find_command({"properties": operation.inputs}, "query")
    return {
        "name": name,
        "description": f"{operation.line()} (service {service.name}){details}",
        "sensitive": not (reads and service.get_unasked),
        "idempotent": reads,
        "command": command or f"body.{COMMAND}",
        "hidden": True,
        "part_of": REQUEST,
    }


def _request_schema(names: list[str]) -> JsonDict:
    return {
        "type": "object",
        "properties": {
            "service": {"type": "string", "enum": names},
            "method": {"type": "string", "enum": list(METHODS)},
            "path": {"type": "string", "description": "with its parameters filled in: /items/7"},
            "query": {
                "type": "object",
                "description": "the parameters, also those that are headers",
                "additionalProperties": True,
            },
            "body": {
                "type": ["object", "array", "string", "null"],
                "description": "a JSON value, or the text to send",
            },
        },
        "required": ["service", "method", "path"],
        "additionalProperties": False,
    }


def _describe_services(services: Sequence[Service]) -> str:
    """Return the description of requests, with as many operations as there is room for."""
    lines = ["Send a request to a service. Only operations in its description can be called."]
    for service in services:
        listed = [f"{each.line()} {json.dumps(each.inputs)}" for each in service.operations]
        room = _MAX_LISTED // len(services)
        if sum(map(len, listed)) > room:
            listed = [each.line()[:_MAX_LINE] for each in service.operations]
        sizes = accumulate(map(len, listed))
        some = [line for line, size in zip(listed, sizes, strict=True) if size <= room]
        more = "; find_tools finds all, such as" if len(some) < len(listed) else ""
        count = plural(len(listed), "operation")
        lines += [f"{service.name}: {count}{more}", *some]
    return "\n".join(lines)
