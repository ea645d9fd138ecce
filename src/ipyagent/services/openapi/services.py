"""The services of a folder: registration, refresh, and tools.

A service's operations are looked up while a user waits at a cell.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

from pydantic import TypeAdapter, ValidationError

from ipyagent.config.field_types import Variable
from ipyagent.errors import AgentError, ConfigError
from ipyagent.kernel.engine_thread import EngineTask, EngineThread
from ipyagent.phrases import limit_lines, plural
from ipyagent.plaintext import visible
from ipyagent.schema import ToolResult
from ipyagent.services import notebook_note
from ipyagent.services.openapi import calls, discovery, documents, urls
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.registry import Registry, Service, header_variables
from ipyagent.services.openapi.request_builder import HEADER_NAME, PreparedRequest
from ipyagent.services.openapi.stored_services import Configured, has_services
from ipyagent.services.openapi.tools import build_tools, typed_services
from ipyagent.services.openapi.urls import (
    AddressGuard,
    RefusedAddressError,
    Resolve,
    is_public,
    system_resolve,
)
from ipyagent.tools.base import Tool

T = TypeVar("T")

log = logging.getLogger("ipyagent")


class Lookup(NamedTuple):
    """A service after a look-up."""

    service: Service
    has_description: bool
    lines: tuple[str, ...]
    """Lines to show about it."""


class OperationFinder:
    """Finds the operations of services."""

    def __init__(self, environ: Mapping[str, str], resolve: Resolve) -> None:
        self._environ, self._resolve = environ, resolve

    def look_up(self, service: Service) -> Lookup:
        """Look up the service's description; raises ConfigError if its address is not allowed."""
        notes: list[str] = []
        try:
            service, notes = self._pin_addresses(service)
            content = self._find_description(service)
        except RefusedAddressError as error:
            raise ConfigError(f"{service.name}: {error}") from None
        except AgentError as error:
            log.warning("%s: %s", service.name, error)
            return Lookup(
                service, has_description=False, lines=(f"{service.name}: {error}", *notes)
            )
        update = {"base": content.base, "operations": content.operations}
        title = f" ({content.title})" if content.title else ""
        lines = [
            f"{service.name}{title}: {count_operations(content.operations)} at "
            f"{urls.format_url(content.base)}",
            *notes,
        ]
        lines += [f"{service.name}: {each}" for each in content.notices]
        if content.keys and not (header_variables(service) or service.secrets):
            options = " or ".join(content.keys)
            lines.append(f"{service.name}: it asks for a key; register it again with {options}")
        return Lookup(service.model_copy(update=update), has_description=True, lines=tuple(lines))

    def _pin_addresses(self, service: Service) -> tuple[Service, list[str]]:
        """Return the service with the private addresses that were registered."""
        import httpx

        if service.known is not None:
            return service, []
        known: dict[str, str] = {}
        for url in filter(_is_url, (service.url, service.document)):
            _, host, port = urls.origin(httpx.URL(url))
            addresses = _wait_for(
                partial(AddressGuard(resolve=self._resolve).resolve_host, host, port)
            )
            known |= {str(each): host for each in addresses if not is_public(each)}
        notes = [
            f"{host} is {'' if host == address else f'at {address}, '}not on the open Internet; "
            "that is allowed for this service alone."
            for address, host in known.items()
        ]
        return service.model_copy(update={"known": tuple(known)}), notes

    def _find_description(self, service: Service) -> discovery.Discovery:
        try:
            return self._discover(service)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise documents.read_error(error) from None

    def _discover(self, service: Service) -> discovery.Discovery:
        import httpx

        base = httpx.URL(service.base) if service.moved and service.base else None
        if base and service.document and not _is_url(service.document):
            return discovery.from_file(Path(service.document), base)
        try:
            headers = calls.build_headers(service, self._environ)
        except AgentError:  # many descriptions need no credentials
            headers = {}
        search = partial(
            discovery.discover,
            httpx.URL(service.url),
            calls.make_guard(service, self._resolve),
            document=httpx.URL(service.document) if service.document else None,
            base=base,
            headers=headers,
        )
        return _wait_for(search)


def count_operations(operations: Sequence[Operation]) -> str:
    """Return "1 operation", "2 operations"."""
    return plural(len(operations), "operation") if operations else "no operations"


def _is_url(text: str | None) -> TypeGuard[str]:
    return text is not None and "://" in text


def _wait_for(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Wait for work in the engine's loop: this thread's loop is busy with the cell."""
    task: EngineTask[T] = EngineTask(EngineThread.current())
    task.start(make)
    try:
        return task.done.result()
    except BaseException:
        task.cancel()
        raise


_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,29}")
_FILE_PATTERN = re.compile(r"[./~]|[^./:]+(/[^:]*)?\.(json|ya?ml)$", re.IGNORECASE)


class OpenAPIServices:
    """The services registered for a folder, and those of kind openapi in the settings.

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
        self._folder, self._configured = folder, configured
        self._home, self._environ, self._resolve = home, environ, resolve
        self._registry, self._notebook_switches = Registry(folder, configured), here
        self._finder = OperationFinder(environ, resolve)
        self._cached_tools: tuple[list[Service], list[Tool]] = ([], [])

    def register(
        self,
        name: str,
        target: str,
        *,
        auth_env: str | None = None,
        header_env: Mapping[str, str] | None = None,
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
        fixed = urls.parse_url(base) if base else None
        path = self._find_file(target)
        if path is not None:
            url = fixed = fixed or discovery.server_in(path)
            document: str | None = str(path)
        else:
            address = urls.parse_url(target)
            url = fixed or urls.service_url(address)
            document = str(address) if urls.is_document(address) else None
        service = Service(
            name=name,
            url=str(url),
            document=document,
            base=str(fixed) if fixed else None,
            moved=fixed is not None,
            token_env=_check_variable_name(auth_env) if auth_env else None,
            header_env={
                _check_header_name(key): _check_variable_name(var)
                for key, var in (header_env or {}).items()
            },
            get_unasked=get_unasked,
        )
        existing = self._find_registered(service)
        service = service.model_copy(update={"name": existing.name if existing else name})
        head = (
            [f"{urls.format_url(url)} is registered already, as {existing.name}."]
            if existing
            else []
        )
        return "\n".join([*head, self._look_up_and_save(service, existing)])

    def describe_services(self) -> str:
        """Return a list of the services, one a line."""
        return "\n".join(map(self._describe_service, self._list_services())) or (
            "no services are registered; `%agent api register NAME URL` does that"
        )

    def refresh(self, name: str | None = None) -> str:
        """Look up the operations of one service or all; return the changes."""
        services = self._registry.all()
        if name is None and not services:
            return self.describe_services()
        chosen = [self._registry.get(name)] if name is not None else list(services.values())
        return "\n".join(self._refresh_service(each) for each in chosen)

    def prepare_switch(self, name: str, *, on: bool) -> None:
        """Prepare to switch a service for this notebook alone; raises ConfigError."""
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
        services = self._active_services()
        if services != self._cached_tools[0]:
            self._cached_tools = services, build_tools(services, self._current, self._send)
        return self._cached_tools[1]

    def notices(self) -> list[str]:
        """Return notices about services without tools."""
        if not has_services(self._folder, self._configured):
            return []
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

    def _current(self, name: str) -> Service:
        return self._apply_switch(self._registry.get(name))

    def _apply_switch(self, service: Service) -> Service:
        on = self._notebook_switches().get(f"api:{service.name}", service.active)
        return service if on == service.active else service.model_copy(update={"active": on})

    def _active_services(self) -> list[Service]:
        if not has_services(self._folder, self._configured):
            return []
        try:
            services = self._list_services()
        except AgentError:
            return []  # `notices` reports it
        return [each for each in services if each.active and each.operations and each.base]

    async def _send(self, request: PreparedRequest) -> ToolResult:
        return await calls.send(request, self._environ, self._resolve)

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
                f"{urls.format_url(service.url)} is in the settings already, as {existing.name}; "
                "change it there"
            )
        other = services.get(service.name)
        if existing is None and other is not None:
            raise ConfigError(
                f"{other.name} is {urls.format_url(other.url)}; "
                "remove it first, or take another name"
            )
        return existing

    def _look_up_and_save(self, service: Service, old: Service | None) -> str:
        lookup = self._finder.look_up(service)
        service, lines = lookup.service, [*lookup.lines]
        if not lookup.has_description and old is not None:
            service = service.model_copy(update={"base": old.base, "operations": old.operations})
        self._registry.save(service, operations=True)
        if not service.operations:
            lines.append(
                f"{service.name} is registered without tools; `%agent api refresh {service.name}` "
                "looks again."
            )
        return "\n".join([*lines, *self._offer_notes(service), *self._secret_notes(service)])

    def _refresh_service(self, service: Service) -> str:
        lookup = self._finder.look_up(service)
        lines = [*lookup.lines]
        if lookup.has_description:
            lines += _describe_changes(service.operations, lookup.service.operations)
        elif service.operations:
            lines.append(f"The operations of {service.name} that were known before are kept.")
        self._registry.save(lookup.service, operations=lookup.has_description)
        return "\n".join([*lines, *self._offer_notes(lookup.service)])

    def _offer_notes(self, service: Service) -> list[str]:
        others = [each for each in self._active_services() if each.name != service.name]
        if service in typed_services([*others, service]):
            return []
        return ["These are too many for tools of their own; api_request calls them."]

    def _switch(self, name: str, *, on: bool) -> str:
        service = self._registry.get(name)
        self._registry.save(service.model_copy(update={"active": on}))
        return f"{name} is {'active' if on else 'not active any more'}."

    def _describe_service(self, service: Service) -> str:
        state = "active" if service.active else "inactive"
        tools = count_operations(service.operations) if service.operations else "no tools yet"
        facts = [f"{urls.format_url(service.base or service.url)}", tools]
        facts += notebook_note(self._notebook_switches().get(f"api:{service.name}"))
        facts += ["in the settings"] if service.configured else []
        facts += ["GET unasked"] if service.get_unasked else []
        facts += self._secret_notes(service)
        return f"{service.name:<16} {state:<9} {'; '.join(facts)}"

    def _secret_notes(self, service: Service) -> list[str]:
        return [
            f"{header} from {variable}{'' if self._environ.get(variable) else ' (not set)'}"
            for header, variable in header_variables(service).items()
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


def _check_variable_name(name: str) -> str:
    try:
        return TypeAdapter[str](Variable).validate_python(name)
    except ValidationError:
        raise ConfigError(
            "--auth-env and --header-env take the NAME of an environment variable, not the secret"
        ) from None


def _check_header_name(name: str) -> str:
    if not HEADER_NAME.fullmatch(name) or name.lower() in ("host", "content-length", "connection"):
        raise ConfigError(f"{visible(name)!r} is not a header that can be set")
    return name
