"""The services of a folder: registration, refresh, and tools.

Registrations and discovered operations are stored in the user's own data directory, never in the
folder, so the tools are available without a network in the next kernel. A service's operations are
looked up while a user waits at a cell.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import SecretStr, TypeAdapter, ValidationError

from ipyagent.config import MCPServerConfig
from ipyagent.config.rules import Variable
from ipyagent.config.sources import UserDataFile, folder_key
from ipyagent.digests import digest_text
from ipyagent.errors import AgentError, ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.kernel.threads import EngineThread
from ipyagent.phrases import limit_lines
from ipyagent.plaintext import visible
from ipyagent.schema import ToolResult
from ipyagent.services import notebook_note
from ipyagent.services.openapi import REGISTRY, Configured, configured_services, transport
from ipyagent.services.openapi.discovery import look_up, server_in
from ipyagent.services.openapi.operations import MAX_STORED, Operation, Service, count_operations
from ipyagent.services.openapi.request_builder import HEADER_NAME, PreparedRequest
from ipyagent.services.openapi.tools import build_tools, send
from ipyagent.services.openapi.transport import Resolve, format_url, system_resolve
from ipyagent.tools.base import Tool

log = logging.getLogger("ipyagent")


class Registry:
    """The services of one folder."""

    def __init__(self, folder: Path, configured: Configured = ()) -> None:
        self._folder = folder
        self._configured = configured
        self._cache: dict[str, tuple[JsonDict, tuple[Operation, ...]]] = {}

    def all(self) -> dict[str, Service]:
        """Return all services by name, those of the settings first; raises ConfigError."""
        stored = self._load_stored()
        settings = map(_from_config, configured_services(self._configured))
        services = {each.name: self._merge(each, stored.get(each.name)) for each in settings}
        for name, service in stored.items():
            if not service.configured:
                services.setdefault(name, self._load_operations(service))
        return services

    def get(self, name: str) -> Service:
        """Return the service with that name; raises ConfigError with the names of all."""
        services = self.all()
        if name not in services:
            known = ", ".join(services) or "none"
            raise ConfigError(f"no service is named {name!r}; there are: {known}")
        return services[name]

    def save(self, service: Service, *, operations: bool = False) -> None:
        """Add or replace a service; raises ConfigError."""
        if operations:
            lines = [each.dump_line() for each in service.operations]
            self._file(service).rewrite(lambda _: {"operations": lines})
        record = service.to_dict()
        REGISTRY.rewrite_of(self._folder, lambda mine: {**mine, service.name: record})

    def remove(self, service: Service) -> None:
        """Remove a service."""
        REGISTRY.rewrite_of(
            self._folder, lambda mine: {k: v for k, v in mine.items() if k != service.name}
        )
        for path in (self._file(service).path, self._file(service).path.with_suffix(".lock")):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _load_stored(self) -> dict[str, Service]:
        services = {}
        for name, record in REGISTRY.read_of(self._folder).items():
            try:
                services[name] = Service.from_dict({**record, "name": name})
            except (ValidationError, TypeError) as error:
                log.warning("%s: %s is not a service: %s", REGISTRY.path, name, error)
        return services

    def _merge(self, current: Service, stored: Service | None) -> Service:
        """Return a service of the settings with the stored facts that were discovered."""
        if stored is None or stored.url != current.url or stored.document != current.document:
            return current
        facts = {name: getattr(stored, name) for name in ("base", "active", "known")}
        return self._load_operations(current.model_copy(update=facts))

    def _load_operations(self, service: Service) -> Service:
        """Return the service with its stored operations; none if they cannot be read."""
        old, operations = self._cache.get(service.name, ({}, ()))
        try:
            data = self._file(service).read()
            if data != old:
                lines = data.get("operations", [])
                operations = tuple(map(Operation.model_validate_json, lines))
                self._cache[service.name] = data, operations
        except (ConfigError, ValueError, TypeError) as error:
            log.warning("the operations of %s cannot be read: %s", service.name, error)
            return service
        return service.model_copy(update={"operations": operations})

    def _file(self, service: Service) -> UserDataFile:
        place = folder_key(self._folder)
        identity = "\0".join((place, service.name, service.url, service.document or ""))
        return UserDataFile(f"services/{digest_text(identity)[:16]}.json", MAX_STORED + 1_000)


def _from_config(config: MCPServerConfig) -> Service:
    url, document = transport.parse_service(config.url or "")
    secrets = dict(config.headers)
    if config.token is not None:
        secrets["Authorization"] = SecretStr(f"Bearer {config.token.get_secret_value()}")
    return Service(
        name=config.name,
        url=str(url),
        document=document,
        token_env=config.token_env,
        header_env=config.header_env,
        get_unasked=config.get_unasked,
        connect_timeout=config.connect_timeout,
        execute_timeout=config.execute_timeout,
        configured=True,
        secrets=secrets,
    )


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
        self._home, self._environ, self._resolve = home, environ, resolve
        self._registry, self._notebook_switches = Registry(folder, configured), here
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
            token_env=_check_variable_name(auth_env) if auth_env else None,
            header_env={
                _check_header_name(key): _check_variable_name(var)
                for key, var in (header_env or {}).items()
            },
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
        services = self._registry.all()
        if name is None and not services:
            return self.describe_services()
        chosen = [self._registry.get(name)] if name is not None else list(services.values())
        return "\n".join(line for each in chosen for line in self._look_up(each))

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
        try:
            services = self._list_services()
        except AgentError:
            return []  # `notices` reports it
        return [each for each in services if each.active and each.operations and each.base]

    async def _send(self, request: PreparedRequest) -> ToolResult:
        return await send(request, self._environ, self._resolve)

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
        tools = count_operations(service.operations) if service.operations else "no tools yet"
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
