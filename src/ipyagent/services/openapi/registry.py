"""Which services there are: registered by the person for a folder, or named by the settings.

What the person registered and what was discovered is kept in their own data directory, never in the
folder, so that the tools are there without a network at the next kernel.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pydantic import Field, SecretStr, ValidationError

from ipyagent.config import MCPServerConfig
from ipyagent.config.personal import PersonalFile, folder_name
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Model
from ipyagent.services.openapi import urls
from ipyagent.services.openapi.operations import Operation
from ipyagent.services.openapi.packed import pack, unpack

log = logging.getLogger("ipyagent")

_REGISTRY = PersonalFile("services.json")


class Service(Model):
    """A service and what is known of it. Only names of variables are kept, never a secret.

    `url` is what it is known by, `document` where its description is (None: looked for below
    `url`), `base` where requests go (None: not known yet), and `known` the private addresses that
    it had when the person registered it (None: it could not be looked up yet).
    """

    name: str
    url: str
    document: str | None = None
    base: str | None = None
    moved: bool = False
    """Whether the person said where requests go."""
    token_env: str | None = None
    header_env: dict[str, str] = Field(default_factory=dict)
    get_unasked: bool = False
    active: bool = True
    known: tuple[str, ...] | None = None
    connect_timeout: float = 10.0
    execute_timeout: float = 60.0
    configured: bool = False
    """Whether it is in the settings; what is kept of it then is what was found out."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict, exclude=True, repr=False)
    """Headers that the settings give in full."""
    operations: tuple[Operation, ...] = Field(default=(), exclude=True, repr=False)


Configured = Callable[[], Iterable[MCPServerConfig]] | Iterable[MCPServerConfig]


class Registry:
    """The services of one folder."""

    def __init__(self, folder: Path, configured: Configured = ()) -> None:
        self._folder = folder_name(folder)
        self._configured = configured
        self._read: dict[str, tuple[JsonDict, tuple[Operation, ...]]] = {}

    def all(self) -> dict[str, Service]:
        """All services by name, those of the settings first; raises ConfigError."""
        kept = self._kept()
        settings = map(_of, self._wanted())
        found = {each.name: self._with(each, kept.get(each.name)) for each in settings}
        for name, service in kept.items():
            if not service.configured:
                found.setdefault(name, self._complete(service))
        return found

    def is_used(self) -> bool:
        """Whether there are any services; needs none of their packages."""
        with contextlib.suppress(ConfigError):
            return bool(self._wanted() or self._kept())
        return True

    def get(self, name: str) -> Service:
        """The service of that name; raises ConfigError listing those there are."""
        services = self.all()
        if name not in services:
            known = ", ".join(services) or "none"
            raise ConfigError(f"no service is named {name!r}; there are: {known}")
        return services[name]

    def keep(self, service: Service, *, operations: bool = False) -> None:
        """Put a service on the list, or in the place of what was there; raises ConfigError."""
        if operations:
            packed = pack([each.kept() for each in service.operations])
            self._file(service).change(lambda _: {"packed": packed})
        record = service.to_dict()
        self._change(lambda mine: {**mine, service.name: record})

    def remove(self, service: Service) -> None:
        """Forget a service."""
        self._change(lambda mine: {k: v for k, v in mine.items() if k != service.name})
        for path in (self._file(service).path, self._file(service).path.with_suffix(".lock")):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _change(self, edit: Callable[[JsonDict], JsonDict]) -> None:
        def change(data: JsonDict) -> JsonDict:
            mine = data.get(self._folder)
            return {**data, self._folder: edit(mine if isinstance(mine, dict) else {})}

        _REGISTRY.change(change)

    def _kept(self) -> dict[str, Service]:
        mine = _REGISTRY.read().get(self._folder)
        found = {}
        for name, record in mine.items() if isinstance(mine, dict) else ():
            try:
                found[name] = Service.from_dict({**record, "name": name})
            except (ValidationError, TypeError) as error:
                log.warning("%s: %s is not a service: %s", _REGISTRY.path, name, error)
        return found

    def _wanted(self) -> list[MCPServerConfig]:
        given = self._configured
        listed = given() if callable(given) else given
        return [each for each in listed if each.kind == "openapi" and not each.disabled]

    def _with(self, said: Service, kept: Service | None) -> Service:
        """What the settings say, with what was found out about that very service."""
        if kept is None or kept.url != said.url or kept.document != said.document:
            return said
        found = {name: getattr(kept, name) for name in ("base", "active", "known")}
        return self._complete(said.model_copy(update=found))

    def _complete(self, service: Service) -> Service:
        return service.model_copy(update={"operations": self._operations(service)})

    def _operations(self, service: Service) -> tuple[Operation, ...]:
        file = self._file(service)
        try:
            data = file.read()
            old, operations = self._read.get(service.name, ({}, ()))
            if data != old:
                # Older versions kept them as they are.
                lines = unpack(data["packed"]) if "packed" in data else data.get("operations", [])
                operations = tuple(Operation.model_validate_json(each) for each in lines)
                self._read[service.name] = data, operations
        except (ConfigError, ValueError, TypeError) as error:
            log.warning("the operations of %s cannot be read: %s", service.name, error)
            return ()
        return operations

    def _file(self, service: Service) -> PersonalFile:
        whose = "\0".join((self._folder, service.name, service.url, service.document or ""))
        return PersonalFile(f"services/{hashlib.sha256(whose.encode()).hexdigest()[:16]}.json")


def _of(config: MCPServerConfig) -> Service:
    address = urls.address(config.url or "")
    home = urls.home(address)
    secrets = dict(config.headers)
    if config.token is not None:
        secrets["Authorization"] = SecretStr(f"Bearer {config.token.get_secret_value()}")
    return Service(
        name=config.name,
        url=str(home),
        document=str(address) if urls.is_document(address) else None,
        token_env=config.token_env,
        header_env=config.header_env,
        get_unasked=config.get_unasked,
        connect_timeout=config.connect_timeout,
        execute_timeout=config.execute_timeout,
        configured=True,
        secrets=secrets,
    )


def variables(service: Service) -> Mapping[str, str]:
    """The headers whose values are in the environment, each with its variable's name."""
    bearer = {"Authorization": service.token_env} if service.token_env else {}
    return bearer | service.header_env
