"""The services: registered by the user for a folder, or named by the settings.

Registrations and discovered operations are stored in the user's own data directory, never in the
folder, so the tools are available without a network in the next kernel.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from pydantic import Field, SecretStr, ValidationError

from ipyagent.config import MCPServerConfig
from ipyagent.config.sources import UserDataFile, folder_key
from ipyagent.digests import digest_text
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict
from ipyagent.schema import Model
from ipyagent.services.openapi import urls
from ipyagent.services.openapi.operations import MAX_STORED, Operation
from ipyagent.services.openapi.stored_services import REGISTRY, Configured, configured_services

log = logging.getLogger("ipyagent")


class Service(Model):
    """A registered service. Only the names of variables are stored, never a secret.

    `url` identifies it, `document` is the address of its description (None: looked for below
    `url`), `base` is where requests go (None: not known yet), and `known` are the private addresses
    that it had at registration (None: it could not be resolved yet).
    """

    name: str
    url: str
    document: str | None = None
    base: str | None = None
    moved: bool = False
    """True if the user set `base`."""
    token_env: str | None = None
    header_env: dict[str, str] = Field(default_factory=dict)
    get_unasked: bool = False
    active: bool = True
    known: tuple[str, ...] | None = None
    connect_timeout: float = 10.0
    execute_timeout: float = 60.0
    configured: bool = False
    """True if it is in the settings; then only discovered facts are stored."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict, exclude=True, repr=False)
    """Headers that the settings give in full."""
    operations: tuple[Operation, ...] = Field(default=(), exclude=True, repr=False)

    @property
    def variables(self) -> dict[str, str]:
        """The headers whose values are in the environment, with their variables' names."""
        bearer = {"Authorization": self.token_env} if self.token_env else {}
        return bearer | self.header_env


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
    url, document = urls.parse_service(config.url or "")
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
