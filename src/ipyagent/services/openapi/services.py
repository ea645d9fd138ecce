"""The services of a folder: registering and refreshing them, and their tools."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ipyagent.config.kinds import Variable
from ipyagent.errors import AgentError, ConfigError
from ipyagent.plaintext import visible
from ipyagent.schema import ToolResult
from ipyagent.services.addresses import Resolve, system_resolve
from ipyagent.services.listing import in_notebook
from ipyagent.services.openapi import calls, discovery, urls
from ipyagent.services.openapi.finder import Finder, count
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.prepared import TOKEN, Prepared
from ipyagent.services.openapi.registry import Configured, Registry, Service, variables
from ipyagent.services.openapi.tools import tools_of, with_tools
from ipyagent.tools.base import Tool

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,29}")
_FILE = re.compile(r"[./~]|[^./:]+(/[^:]*)?\.(json|ya?ml)$", re.IGNORECASE)
_MISSING = "services need two more packages: pip install 'ipyagent[openapi]'"


class OpenAPIServices:
    """The services registered for a folder, and those of kind openapi in the settings.

    Paths are relative to `home`; `environ` is looked up at each call; `here` says what is switched
    for the notebook alone.
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
        self._registry, self._here = Registry(folder, configured), here
        self._finder = Finder(environ, resolve)
        self._made: tuple[list[Service], list[Tool]] = ([], [])

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
        """Register a service by its address or the file that describes it; says what was found.

        Where it cannot be reached it is registered all the same, without tools. Raises ConfigError.
        """
        _installed()
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{visible(name)!r} is no name for a service; letters, digits, - and _ make one"
            )
        fixed = urls.address(base) if base else None
        path = self._file(target)
        if path is not None:
            url = fixed = fixed or discovery.server_in(path)
            document: str | None = str(path)
        else:
            address = urls.address(target)
            url = fixed or urls.home(address)
            document = str(address) if urls.is_document(address) else None
        service = Service(
            name=name,
            url=str(url),
            document=document,
            base=str(fixed) if fixed else None,
            moved=fixed is not None,
            token_env=_variable(auth_env) if auth_env else None,
            header_env={_header(key): _variable(var) for key, var in (header_env or {}).items()},
            get_unasked=get_unasked,
        )
        same = self._same(service)
        service = service.model_copy(update={"name": same.name if same else name})
        head = [f"{urls.shown(url)} is registered already, as {same.name}."] if same else []
        return "\n".join([*head, self._registered(service, same)])

    def listed(self) -> str:
        """The services, one a line."""
        return "\n".join(map(self._line, self._all())) or (
            "no services are registered; `%agent api register NAME URL` does that"
        )

    def refresh(self, name: str | None = None) -> str:
        """Look again what a service can do, or all of them; says what has changed."""
        _installed()
        services = self._registry.all()
        if name is None and not services:
            return self.listed()
        chosen = [self._registry.get(name)] if name is not None else list(services.values())
        return "\n".join(self._refreshed(each) for each in chosen)

    def prepare_switch(self, name: str, *, on: bool) -> None:
        """Make ready to switch a service for the notebook alone; raises ConfigError."""
        self._registry.get(name)

    def activate(self, name: str) -> str:
        """Offer a service's tools again."""
        return self._switch(name, on=True)

    def deactivate(self, name: str) -> str:
        """Keep a service on the list, but offer and allow nothing of it."""
        return self._switch(name, on=False)

    def remove(self, name: str) -> str:
        """Forget a service."""
        service = self._registry.get(name)
        if service.configured:
            raise ConfigError(
                f"{name} is in the settings (mcp.servers), so it is removed there; "
                f"`%agent api deactivate {name}` switches it off"
            )
        self._registry.remove(service)
        return f"{name} is removed."

    def tools(self) -> list[Tool]:
        """The tools of the active services, from what was found out before: without a network."""
        services = self._offered()
        if services != self._made[0]:
            self._made = services, tools_of(services, self._current, self._send)
        return self._made[1]

    def notices(self) -> list[str]:
        """What the person should know: services that offer nothing, and why."""
        if not _is_installed():
            return [_MISSING] if self._registry.is_used() else []
        try:
            services = [each for each in self._all() if each.active]
        except AgentError as error:
            return [str(error)]
        return [
            f"the service {each.name} has no tools yet; `%agent api refresh {each.name}` looks"
            for each in services
            if not each.operations
        ]

    def _all(self) -> list[Service]:
        """Return the services as this notebook has them."""
        return [self._switched(each) for each in self._registry.all().values()]

    def _current(self, name: str) -> Service:
        return self._switched(self._registry.get(name))

    def _switched(self, service: Service) -> Service:
        on = self._here().get(service.name, service.active)
        return service if on == service.active else service.model_copy(update={"active": on})

    def _offered(self) -> list[Service]:
        if not _is_installed():
            return []
        try:
            services = self._all()
        except AgentError:
            return []  # `notices` tells
        return [each for each in services if each.active and each.operations and each.base]

    async def _send(self, request: Prepared) -> ToolResult:
        return await calls.send(request, self._environ, self._resolve)

    def _file(self, target: str) -> Path | None:
        """The file that the person means, if it is not an address; raises ConfigError."""
        if "://" in target:
            return None
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # no name that a file can have
            path = self._home / Path(target).expanduser()
            if path.is_file():
                return path.resolve()
        if _FILE.match(target):
            raise ConfigError(
                f"{visible(target)}: the file is not found; an address begins with http://"
            )
        return None

    def _same(self, service: Service) -> Service | None:
        """The service that this one is, under whatever name; raises ConfigError for a clash."""
        services = self._registry.all()
        same = next((each for each in services.values() if each.url == service.url), None)
        if same is not None and same.configured:
            raise ConfigError(
                f"{urls.shown(service.url)} is in the settings already, as {same.name}; "
                "change it there"
            )
        other = services.get(service.name)
        if same is None and other is not None:
            raise ConfigError(
                f"{other.name} is {urls.shown(other.url)}; remove it first, or take another name"
            )
        return same

    def _registered(self, service: Service, old: Service | None) -> str:
        looked = self._finder.look(service)
        service, lines = looked.service, [*looked.lines]
        if not looked.found and old is not None:
            service = service.model_copy(update={"base": old.base, "operations": old.operations})
        self._registry.keep(service, operations=True)
        if not service.operations:
            lines.append(
                f"{service.name} is registered without tools; `%agent api refresh {service.name}` "
                "looks again."
            )
        return "\n".join([*lines, *self._how_offered(service), *self._secret_notes(service)])

    def _refreshed(self, service: Service) -> str:
        looked = self._finder.look(service)
        lines = [*looked.lines]
        if looked.found:
            lines += _changes(service.operations, looked.service.operations)
        elif service.operations:
            lines.append(f"What was known of {service.name} stays.")
        self._registry.keep(looked.service, operations=looked.found)
        return "\n".join([*lines, *self._how_offered(looked.service)])

    def _how_offered(self, service: Service) -> list[str]:
        others = [each for each in self._offered() if each.name != service.name]
        if service in with_tools([*others, service]):
            return []
        return ["That is too many for tools of their own: api_request sends them."]

    def _switch(self, name: str, *, on: bool) -> str:
        service = self._registry.get(name)
        self._registry.keep(service.model_copy(update={"active": on}))
        return f"{name} is {'active' if on else 'not active any more'}."

    def _line(self, service: Service) -> str:
        state = "active" if service.active else "inactive"
        tools = count(service.operations) if service.operations else "no tools yet"
        facts = [f"{urls.shown(service.base or service.url)}", tools]
        facts += in_notebook(self._here().get(service.name))
        facts += ["in the settings"] if service.configured else []
        facts += ["GET unasked"] if service.get_unasked else []
        facts += self._secret_notes(service)
        return f"{service.name:<16} {state:<9} {'; '.join(facts)}"

    def _secret_notes(self, service: Service) -> list[str]:
        return [
            f"{header} from {variable}{'' if self._environ.get(variable) else ' (not set)'}"
            for header, variable in variables(service).items()
        ]


def _changes(old: tuple[Operation, ...], new: tuple[Operation, ...]) -> list[str]:
    """What a refresh changed; a name that means something else now comes first."""
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
    shown = [*moved, *lines][:20]
    more = len(moved) + len(lines) - len(shown)
    return [*shown, f"  … and {more} more changes"] if more else shown


def _is_installed() -> bool:
    try:
        return all(map(find_spec, ("httpx", "openapi_spec_validator")))
    except ImportError:
        return False


def _installed() -> None:
    if not _is_installed():
        raise ConfigError(_MISSING)


def _variable(name: str) -> str:
    try:
        return TypeAdapter[str](Variable).validate_python(name)
    except ValidationError:
        raise ConfigError(
            "--auth-env and --header-env take the NAME of an environment variable, not the secret"
        ) from None


def _header(name: str) -> str:
    if not TOKEN.fullmatch(name) or name.lower() in ("host", "content-length", "connection"):
        raise ConfigError(f"{visible(name)!r} is not a header that can be set")
    return name
